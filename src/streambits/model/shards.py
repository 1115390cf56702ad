"""Shards: what two learners must share to be merged, and what they must not."""

from typing import Any

from streambits._arrays import same
from streambits.errors import MergeError
from streambits.features import Features


def check_same(name: str, mine: Any, theirs: Any) -> None:
    """Raise MergeError if a setting differs between two shards."""
    if mine != theirs:
        raise MergeError(f"{name} is {mine!r} here and {theirs!r} there: shards must agree")


def check_same_features(mine: Features, theirs: Features) -> None:
    """Raise MergeError if the features of two shards differ in anything."""
    left, right = mine.state(), theirs.state()
    if type(mine) is not type(theirs) or left.keys() != right.keys():
        raise MergeError("the shards have different features: build them with one method")
    for name, value in left.items():
        if not same(value, right[name]):
            raise MergeError(
                f"the shards' features differ in their {name}: they must share it. A shard whose "
                f"stream has moved draws landmarks of its own: build shards with epochs='never'"
            )


def check_no_copies(seen: int, mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Raise MergeError for a learner and its copy, whose rows would count twice.

    Parameters
    ----------
    seen : int
        Rows that the first has learned; an empty one merges with any.
    mine, theirs : dict
        Parts of both that rows have changed, by name.
    """
    if seen and all(_equal(mine[name], theirs[name]) for name in mine):
        raise MergeError(
            f"both learners have learned the same {seen} rows, and merged they would count twice: "
            f"merge learners of different rows"
        )


def _equal(mine: Any, theirs: Any) -> bool:
    """Whether two parts, or what they consist of, are the same."""
    if hasattr(mine, "state"):
        return type(mine) is type(theirs) and _equal(mine.state(), theirs.state())
    if isinstance(mine, dict):
        return mine.keys() == theirs.keys() and all(_equal(mine[k], theirs[k]) for k in mine)
    return same(mine, theirs)
