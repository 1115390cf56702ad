"""Tasks of an engine that maps Arrow batches to Arrow batches, as Spark's `mapInArrow` does.

This is the side of the workers, which need no package of the engine for it. Whatever a task makes
of an item comes back as rows: the number of the item, and bytes, a piece per row. An error of ours
comes back as a row too, so that the client raises the same, and no engine repeats what cannot
succeed. Any other exception is left to the engine.
"""

import hashlib
import json
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from streambits import errors
from streambits._arrays import TEXT
from streambits.engines.frames import gathered, index_of_codes
from streambits.engines.parts import Part
from streambits.errors import StreambitsError
from streambits.index import Hits

SCHEMA = "number bigint, piece int, pieces int, error string, content binary"
NAMES = ["number", "piece", "pieces", "error", "content"]
HITS = ("ids", "distances", "reads")
PIECE = 1 << 22  # bytes of a result in one row: a message may have 128 MiB


class Job(NamedTuple):
    """What the tasks of a query share.

    Attributes
    ----------
    kind : {"items", "partitions", "codes"}
        What comes to a task: numbers of items; rows of `FramePartition`s; or codes to search.
    work : callable
        Called with `shared` and an item.
    items : sequence
        Of codes: the length of the codes, or None.
    shared : object
    """

    kind: str
    work: Callable[[Any, Any], Any]
    items: Any
    shared: Any

    def dumps(self, dump: Callable[[Any], bytes]) -> bytes:
        """The bytes that travel; what has learned nothing yet is mostly zeros."""
        return zlib.compress(dump(tuple(self)), 1)

    @classmethod
    def loads(cls, content: bytes) -> "Job":
        """The job out of bytes that a client has sent."""
        return cls(*pickle.loads(zlib.decompress(content)))


def task_of(content: bytes, version: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The function that is sent to the workers.

    It is sent by its code, not by its name, and what it needs of this package is imported when it
    runs: so it can say what is wrong where the package is not there, or another one.

    Parameters
    ----------
    content : bytes
        What `Job.dumps` gave.
    version : str
        Of streambits, that the worker must have.
    """
    names = NAMES  # no global name: it would be looked for in this module

    def task(batches: Iterable[Any]) -> Iterator[Any]:
        import platform  # noqa: PLC0415

        import pyarrow  # noqa: PLC0415

        wrong = ""
        try:
            import streambits as found  # noqa: PLC0415

            if found.__version__ != version:
                wrong = f"streambits {found.__version__}"
        except ImportError as error:
            wrong = f"no streambits ({error})"
        if wrong:
            text = (
                f"the worker on {platform.node()} has {wrong}, and this is streambits {version}: "
                f"install that version on all workers"
            )
            kinds = ("int64", "int32", "int32", "string", "binary")
            row = (0, 0, 1, "StreambitsError", text.encode())
            arrays = [
                pyarrow.array([value], pyarrow.type_for_alias(kind))
                for value, kind in zip(row, kinds)
            ]
            yield pyarrow.RecordBatch.from_arrays(arrays, names)
            return
        from streambits.engines.tasks import perform  # noqa: PLC0415

        yield from perform(content, batches)

    return task


def perform(content: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    """Do the work of a task; yields record batches of `SCHEMA`.

    They come when all is done: an engine that has passed some on could not repeat the task.
    """
    try:
        made = [(number, packed(found)) for number, found in _made(Job.loads(content), batches)]
    except StreambitsError as error:
        yield _row(0, 0, 1, str(error).encode(), type(error).__name__)
        return
    for number, result in made:
        yield from _rows(number, result)


def _made(job: Job, batches: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    if job.kind == "items":
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield number, job.work(job.shared, job.items[number])
    elif job.kind == "partitions":
        for partition in gathered(batches, job.items):
            yield partition.number, job.work(job.shared, partition)
    else:
        for first, index in index_of_codes(batches, job.items):
            digest = hashlib.blake2b(str(first).encode(), digest_size=7).digest()
            yield int.from_bytes(digest, "big"), job.work(job.shared, index)


def _rows(number: int, content: bytes) -> Iterator[Any]:
    count = max(1, -(-len(content) // PIECE))
    for piece in range(count):
        yield _row(number, piece, count, content[piece * PIECE : (piece + 1) * PIECE])


def _row(number: int, piece: int, pieces: int, content: bytes, error: str | None = None) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    arrays = [
        pa.array([number], pa.int64()),
        pa.array([piece], pa.int32()),
        pa.array([pieces], pa.int32()),
        pa.array([error], pa.string()),
        pa.array([content], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, NAMES)


class Results:
    """Puts results together out of the rows that come to the client.

    Rows of several results may come between each other, and more than once where an engine has
    repeated a task: a result is complete once.
    """

    def __init__(self) -> None:
        self._pieces: dict[int, dict[int, bytes]] = {}
        self._done: set[int] = set()

    def add(
        self, number: int, piece: int, pieces: int, error: str | None, content: bytes
    ) -> bytes | None:
        """Add a row; returns a result if it is complete now.

        Raises
        ------
        StreambitsError
            What the task raised.
        """
        if error is not None:
            kind = getattr(errors, error, StreambitsError)
            raise kind.__new__(kind, content.decode())  # some are made of other arguments
        if number in self._done:
            return None
        held = self._pieces.setdefault(number, {})
        held[piece] = content
        if len(held) < pieces:
            return None
        self._done.add(number)
        del self._pieces[number]
        return b"".join(held[one] for one in range(pieces))


def packed(found: Any) -> bytes:
    """A result as bytes, without pickle: what comes from a worker is not run by the client."""
    if isinstance(found, bytes):
        return b"bytes " + found
    if isinstance(found, Part):
        return b"part " + json.dumps(list(found)).encode()
    if isinstance(found, Hits):
        arrays = {name: getattr(found, name) for name in HITS}
        plain = {
            name: [array.dtype.kind if array.dtype.kind == "T" else array.dtype.str, array.tolist()]
            for name, array in arrays.items()
            if array is not None
        }
        return b"hits " + json.dumps(plain | {"shape": list(found.ids.shape)}).encode()
    raise TypeError(f"{type(found).__name__} is not a result of a task")


def unpacked(content: bytes) -> Any:
    """What `packed` was given.

    >>> unpacked(packed(Part(3, "rows.npy", 10, 200)))
    Part(number=3, name='rows.npy', rows=10, bytes=200, kept=False)
    >>> unpacked(packed(Hits(np.array([[7, 3]]), np.array([[0, 2]], np.int32)))).ids
    array([[7, 3]])
    """
    kind, _, rest = content.partition(b" ")
    if kind == b"bytes":
        return rest
    plain = json.loads(rest)
    if kind == b"part":
        return Part(*plain)
    shape = plain.pop("shape")
    arrays = {}
    for name, (dtype, values) in plain.items():
        array = np.array(values, TEXT if dtype == "T" else np.dtype(dtype))
        arrays[name] = array.reshape(shape) if name != "reads" else array
    return Hits(**arrays)
