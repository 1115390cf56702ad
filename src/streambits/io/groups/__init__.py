"""Groups: what a broker does for several members that work on one stream.

It holds small records, hands out work and says who coordinates; what is done is up to the members
(`streambits.jobs.group`). Members may do the same work twice: whatever they do depends on records
alone, so both find the same, and whoever is late changes nothing. So a broker need not keep out a
member that was believed dead, which no broker can.
"""

import re
from typing import Any, NamedTuple, Protocol

from streambits.errors import InputError
from streambits.io.protocols import Source

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Held(NamedTuple):
    """A record that the broker holds.

    Attributes
    ----------
    value : JSON value
    revision : int
        Goes up whenever the record is replaced.
    """

    value: Any
    revision: int


class Task(NamedTuple):
    """A slice of the stream to work on.

    Attributes
    ----------
    round : int
        Number of the round.
    lane : int
        Which slice of it.
    receipt : str
        By which the broker knows that this member has it.
    """

    round: int
    lane: int
    receipt: str = ""


class GroupBroker(Protocol):
    """The broker, as one member of a group sees it. All calls wait for a broker that is away."""

    name: str

    def get(self, key: str) -> Held | None:
        """A record, or None."""
        ...

    def put(self, key: str, value: Any, revision: int = 0) -> bool:
        """Replace the record of a revision, 0 for none; whether nobody else was faster."""
        ...

    def forget(self, round: int) -> None:  # noqa: A002
        """Remove the records `done.ROUND.LANE` of a round."""
        ...

    def coordinates(self) -> bool:
        """Whether this member is the coordinator now; it becomes it if there is none."""
        ...

    def resign(self) -> None:
        """Be the coordinator no longer, as somebody else is."""
        ...

    def offer(self, round: int, lanes: list[int]) -> None:  # noqa: A002
        """Hand out the slices of a round; those that are on offer already stay so."""
        ...

    def take(self, round: int, lanes: list[int], seconds: float) -> Task | None:  # noqa: A002
        """A slice to work on, perhaps of an earlier round; None if none comes for a while.

        round, lanes: what is known to be on offer.
        """
        ...

    def finish(self, task: Task) -> None:
        """It is done, by whomever."""
        ...

    def give_back(self, task: Task) -> None:
        """Leave it to somebody else."""
        ...

    def close(self) -> None:
        """Leave the group; somebody else takes over what this member had."""
        ...


def check_group_name(name: str) -> str:
    """Return a name that every broker accepts; InputError for any other.

    Examples
    --------
    >>> check_group_name("news-2024")
    'news-2024'
    """
    if not NAME.fullmatch(name):
        raise InputError(
            f"group is {name!r}; it must be 1 to 64 letters, digits, - or _, the first of them a "
            f"letter or digit"
        )
    return name


def join_group(source: Source, name: str) -> GroupBroker:
    """Become a member of a group that reads a stream.

    Parameters
    ----------
    source : Source
        A `NatsSource` or a `KafkaSource`; others are refused.
    name : str
        Of the group.

    Raises
    ------
    InputError
        If the source is not a stream of a broker, or the name is not allowed.
    """
    check_group_name(name)
    kind = type(source).__name__
    if kind == "NatsSource":
        from streambits.io.groups.nats import NatsGroup  # noqa: PLC0415 - an extra

        return NatsGroup(source, name)  # type: ignore[arg-type]
    if kind == "KafkaSource":
        from streambits.io.groups.kafka import KafkaGroup  # noqa: PLC0415 - an extra

        return KafkaGroup(source, name)  # type: ignore[arg-type]
    raise InputError(
        f"--group is for a stream of NATS or a topic of Kafka, and {source.name} is neither: leave "
        f"--group out"
    )
