"""Shards: what two learners must share to be merged."""

from typing import Any

from streambits._arrays import same
from streambits.errors import MergeError
from streambits.features import Features


def check_equal(name: str, mine: Any, theirs: Any) -> None:
    """Refuse settings that differ."""
    if mine != theirs:
        raise MergeError(f"{name} is {mine!r} here and {theirs!r} there: shards must agree")


def check_features(mine: Features, theirs: Features) -> None:
    """Refuse features that differ in anything."""
    left, right = mine.state(), theirs.state()
    if type(mine) is not type(theirs) or left.keys() != right.keys():
        raise MergeError("the shards have different features: build them with one method")
    for name, value in left.items():
        if not same(value, right[name]):
            raise MergeError(f"the shards' features differ in their {name}: they must share it")
