"""Checkpoint: all that a job needs to go on, in one file that is written whole or not at all."""

import json
from typing import Any, Self

from streambits.storage import register


class Checkpoint:
    """A moment of a job.

    offset: of the source, a JSON value; sink: the sink's state, a JSON value; counts: rows, bytes
    and rejects so far, size and CRC-32 of the file of rejects; parts: what the work has learned;
    source: by what the source knows that it is still the same, a JSON value;
    ended: whether the source was read to its end, and the sink closed; None where that was not
    yet written down.
    """

    def __init__(
        self,
        offset: Any,
        sink: Any,
        counts: dict[str, int],
        parts: dict[str, Any],
        *,
        source: Any = None,
        ended: bool | None = None,
    ) -> None:
        self.offset, self.sink, self.counts, self.parts = offset, sink, counts, parts
        self.source, self.ended = source, ended

    def state(self) -> dict[str, Any]:
        plain = {"offset": self.offset, "sink": self.sink, "counts": self.counts}
        plain |= {"source": self.source, "ended": self.ended}
        return {"plain": json.dumps(plain), "parts": self.parts}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**json.loads(state["plain"]), parts=state["parts"])


register(Checkpoint, model=True)
