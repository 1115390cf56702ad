"""What a connector is: a source of rows, or a sink for codes.

Both are small protocols; one file per format. A source hands out batches, each with the place to
go on from, so a job that was killed asks for what it had not committed. A sink takes codes, and
makes them last at a commit; what was written after its last commit may be written again, and the
sink must then hold it once.
"""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Ids
from streambits.model.batches import RowBatch
from streambits.model.codes import Codes

Payload = NDArray[np.object_]


@runtime_checkable
class Source(Protocol):
    """Where rows come from. Its memory does not grow with what there is to read."""

    name: str

    @property
    def length(self) -> int | None:
        """Rows in all, where that is known without reading them."""
        ...

    def identity(self) -> Any:
        """A JSON value that is the same as long as this is the same source."""
        ...

    def read(self, offset: Any = None) -> Iterator[RowBatch]:
        """Batches from the beginning, or from an offset that an earlier batch gave.

        Read from any offset, the rows and rejects that follow are the same; only where batches are
        cut may differ.
        """
        ...


@runtime_checkable
class Verifiable(Source, Protocol):
    """A source that can tell whether it was exchanged since it was read."""

    def evidence(self, offset: Any) -> Any:
        """A JSON value by which `changes` knows what was read before this offset."""
        ...

    def changes(self, evidence: Any) -> list[str]:
        """What differs from the evidence of an earlier run, in words."""
        ...


@runtime_checkable
class Live(Source, Protocol):
    """A source that goes on growing while it is read."""

    @property
    def lag(self) -> int | None:
        """Rows that wait to be read."""
        ...


@runtime_checkable
class Sink(Protocol):
    """Where codes go."""

    name: str

    def write(self, ids: Ids, codes: Codes, payload: Payload | None = None) -> None:
        """Take codes of one epoch; ids that were written before are replaced.

        ids: whole numbers or texts, of one kind in all calls; payload: (n, p) texts or None, for a
        sink that was opened to keep them.
        """
        ...

    def remove(self, ids: Ids) -> None:
        """Take out ids, in the order of the calls; those that are not there do not matter."""
        ...

    def commit(self) -> None:
        """Make everything written so far last."""
        ...

    def close(self) -> None:
        """Commit and let go."""
        ...


@runtime_checkable
class Resumable(Sink, Protocol):
    """A sink that can say where it is, and go back there in another process.

    A job keeps the state together with its own place. A sink that is not resumed begins anew, and
    refuses a place that holds codes which are not its own.
    """

    def state(self) -> dict[str, Any]:
        """Commit, and say where this is, in values that JSON has."""
        ...

    def resume(self, state: dict[str, Any]) -> None:
        """Go back to where `state()` was called; before anything is written."""
        ...
