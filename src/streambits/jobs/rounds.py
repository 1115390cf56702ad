"""Rounds: how a group cuts a stream into slices, and the record by which all members agree on it.

A round is a stretch of the stream, cut into one slice per lane. Where it begins and ends is
recorded before anybody works on it, and all that follows depends on that record alone.
"""

from typing import Any, NamedTuple, Self

from streambits.errors import InputError
from streambits.online import LATEST

Places = dict[str, int]  # an offset in each partition of the stream
Bounds = dict[str, tuple[int, int]]  # the first offset of each, and the next that it will give
COUNTS = ("rows", "bytes", "removed", "rejects", "out_of_reach")


class Round(NamedTuple):
    """What the coordinator has announced.

    Attributes
    ----------
    number : int
        From 1 on.
    slices : dict of str to [int, int]
        Of each lane that has work, where its slice begins and ends.
    after : dict of str to int
        Where the round ends in each partition of the stream.
    goal : dict of str to int, optional
        Where the group is to stop; None if it follows the stream.
    base : int
        The round from which on lanes learn into new shards: the first of its epoch.
    shards : dict of str to int
        Of each lane that has worked, the last round before this one in which it has.
    decided : dict
        What the first messages have decided about all: width, names, kind of ids.
    messages : int
        Of all rounds before.
    refreshed : int
        Messages before the coder of this round was made.
    counts : dict of str to int
        Rows and so on of all rounds before.
    before : int
        Rows of the epochs before.
    epoch : int
    order : dict
        Whether ids have ascended so far, the last of them, and whether some were removed.
    ended : bool
        Whether all is done, for now.
    """

    number: int
    slices: dict[str, list[int]]
    after: Places
    goal: Places | None
    base: int
    shards: dict[str, int]
    decided: dict[str, Any]
    messages: int
    refreshed: int
    counts: dict[str, int]
    before: int = 0
    epoch: int = 0
    order: dict[str, Any] = {"last": None, "ascending": True, "marked": False}  # noqa: RUF012
    ended: bool = False

    @classmethod
    def of(cls, record: dict[str, Any]) -> Self:
        """From the record that a broker holds."""
        return cls(**record)

    @property
    def size(self) -> int:
        """Messages of this round."""
        return sum(end - start for start, end in self.slices.values())

    @property
    def lanes(self) -> list[int]:
        """Those that have work, ascending."""
        return sorted(map(int, self.slices))

    @property
    def worked(self) -> dict[str, int]:
        """As `shards`, after this round."""
        return self.shards | dict.fromkeys(self.slices, self.number)


def step(messages: int, refresh: str | int, lanes: int, gathered: int) -> int:
    """Count the messages of the next round.

    Parameters
    ----------
    messages : int
        So far.
    refresh : "auto" or int
        As for `OnlineEncoder`. "auto": as many as there were so far, at most 65,536 per lane.
    lanes, gathered : int
        Slices per round, and messages of the first round.

    Examples
    --------
    >>> [step(messages, "auto", 2, 5000) for messages in (0, 5000, 10000, 1000000)]
    [5000, 5000, 10000, 131072]
    """
    if not messages:
        return gathered
    return int(refresh) if refresh != "auto" else min(messages, LATEST * lanes)


def advanced(places: Places, ends: Places, count: int) -> Places:
    """Where a round of about `count` messages ends, in proportion to what each partition has.

    Examples
    --------
    >>> advanced({"0": 10, "1": 0}, {"0": 110, "1": 300}, 40)
    {'0': 20, '1': 30}
    """
    left = {name: max(0, end - places[name]) for name, end in ends.items()}
    whole = sum(left.values())
    if whole <= count:
        return {name: places[name] + some for name, some in left.items()}
    return {name: places[name] - (-some * count // whole) for name, some in left.items()}


def cut(start: Places, end: Places, lanes: int | None) -> dict[str, list[int]]:
    """The slices of a round: one per partition, or the one partition in so many pieces.

    Examples
    --------
    >>> cut({"0": 10, "1": 0}, {"0": 20, "1": 0}, None)
    {'0': [10, 20]}
    >>> cut({"0": 1}, {"0": 11}, 3)
    {'0': [1, 4], '1': [4, 7], '2': [7, 11]}
    """
    if lanes is None:
        pieces = {name: [start[name], end[name]] for name in start}
    else:
        [(name, first)] = start.items()
        edges = [first + (end[name] - first) * lane // lanes for lane in range(lanes + 1)]
        pieces = {str(lane): edges[lane : lane + 2] for lane in range(lanes)}
    return {lane: piece for lane, piece in pieces.items() if piece[1] > piece[0]}


def check_partitions(places: Places, bounds: Bounds, name: str) -> None:
    """Refuse a stream of other partitions than before."""
    if places.keys() != bounds.keys():
        raise InputError(
            f"{name} has {len(bounds)} partitions, and had {len(places)} when the group began: "
            f"rows may have moved between them; begin a new group with a new folder"
        )
