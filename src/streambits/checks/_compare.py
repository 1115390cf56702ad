"""What all checks share: saying what was expected, and exact comparison of learned state."""

from collections.abc import Callable, Mapping
from typing import Any

from streambits._arrays import is_array_api_obj, same
from streambits.errors import StreambitsError


def expect(condition: object, message: str) -> None:
    """Raise an AssertionError that says what was expected (`assert` vanishes under -O)."""
    if not condition:
        raise AssertionError(message)


def expect_error(
    kind: type[StreambitsError], action: Callable[[], object], description: str
) -> None:
    """Expect an error of this package; any other exception, or none, fails."""
    try:
        action()
    except kind:
        return
    except Exception as error:
        raise AssertionError(
            f"{description}: expected {kind.__name__}, got {type(error).__name__}: {error}"
        ) from error
    raise AssertionError(f"{description}: expected {kind.__name__}, and nothing was raised")


def equal(left: Any, right: Any) -> bool:
    """Whether two states are the same to the last bit: arrays, plain values, parts, dicts."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    if hasattr(left, "state") and type(left) is type(right):
        return equal(left.state(), right.state())
    if is_array_api_obj(left) and left.dtype != getattr(right, "dtype", None):
        return False
    return same(left, right)


def run(checks: tuple[Callable[..., None], ...], *arguments: Any) -> None:
    """Run the checks in order; the first that fails is named."""
    for check in checks:
        try:
            check(*arguments)
        except AssertionError as error:
            raise AssertionError(f"{check.__name__}: {error}") from error
        except Exception as error:
            raise AssertionError(
                f"{check.__name__}: raised {type(error).__name__}: {error}"
            ) from error
