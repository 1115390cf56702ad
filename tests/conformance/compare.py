"""What all checks share: expectations, exact comparison of learned state, and running them."""

from collections.abc import Mapping

from streambits._arrays import is_array_api_obj, same


class InapplicableError(Exception):
    """Raised by a check that cannot test a part; the message says why."""


def checks_in(names):
    """The checks among the names of a module, in their order."""
    return [value for name, value in names.items() if name.startswith("check_")]


def equal(left, right):
    """Whether two states are the same to the last bit: arrays, plain values, parts, dicts."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    if hasattr(left, "state") and type(left) is type(right):
        return equal(left.state(), right.state())
    if is_array_api_obj(left) and left.dtype != getattr(right, "dtype", None):
        return False
    return same(left, right)


def run_checks(checks, *arguments, skip=()):
    """Run the checks in order, but for those that `skip` names as they do not apply."""
    unknown = set(skip) - {check.__name__ for check in checks}
    assert not unknown, f"skip names {unknown}, and there is no such check"
    for check in checks:
        if check.__name__ not in skip:
            check(*arguments)
