"""What all checks share: expectations, exact comparison of learned state, and running them."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from streambits._arrays import is_array_api_obj, same
from streambits.errors import InputError, StreambitsError


class Inapplicable(Exception):  # noqa: N818 - says that a check cannot decide, which is not an error
    """Raised by a check that does not apply to a part; the message says why."""


class CheckReport(NamedTuple):
    """What a run of the kit has tested.

    Attributes
    ----------
    passed : tuple of str
        Names of the checks that the part has passed.
    skipped : tuple of str
        Names of the checks that were declared not to apply to it, and were not run.
    """

    passed: tuple[str, ...]
    skipped: tuple[str, ...]


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


def run_checks(
    checks: Collection[Callable[..., None]], *arguments: Any, skip: Collection[str] = ()
) -> CheckReport:
    """Run checks in order; the first that fails is named.

    Parameters
    ----------
    checks : collection of callables
        They raise an AssertionError where a promise is broken, and `Inapplicable` where it cannot
        be tested.
    *arguments
        What each check is called with.
    skip : collection of str
        Names of checks that do not apply to the part.

    Returns
    -------
    CheckReport
        What was tested, and what was not.

    Raises
    ------
    AssertionError
        If a check fails, or does not apply although `skip` does not name it.
    InputError
        If `skip` names a check that does not exist.
    """
    names = [check.__name__ for check in checks]
    unknown = sorted(set(skip) - set(names))
    if unknown:
        raise InputError(f"skip names {', '.join(unknown)}; there are {', '.join(names)}")
    for check in checks:
        if check.__name__ not in skip:
            _run(check, *arguments)
    passed = tuple(name for name in names if name not in skip)
    return CheckReport(passed, tuple(name for name in names if name in skip))


def _run(check: Callable[..., None], *arguments: Any) -> None:
    name = check.__name__
    try:
        check(*arguments)
    except AssertionError as error:
        raise AssertionError(f"{name}: {error}") from error
    except Inapplicable as error:
        raise AssertionError(
            f"{name}: was not tested, since {error}: if that is meant, declare it by "
            f"skip=({name!r},)"
        ) from error
    except Exception as error:
        raise AssertionError(f"{name}: raised {type(error).__name__}: {error}") from error
