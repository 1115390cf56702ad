"""JSON lines, one code per line: {"id": 7, "code": "05a0", "epoch": 0}; the code in hexadecimal.

Refined codes have "refinement": "1f..." after the code, and codes without sign bits no "code".
{"id": 7, "removed": true} takes out what came before; when a sink is closed there is none of these.
Where a sink of ours has left a record of their digest, only what it has committed counts, and
damage is an error; files of others are taken as they are.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from glob import escape
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Ids, as_ids
from streambits._digests import Digest, Record, record_path
from streambits._files import replacing, sync_folder
from streambits.errors import StorageError
from streambits.io.codes._append import REMOVED, Appending, CodeColumns
from streambits.io.codes.rerank import bit_strings
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes

GONE = '{"id": %s, "removed": true}\n'
LINES = 8192  # read at a time
IDS, EPOCHS = np.iinfo(np.int64), np.iinfo(np.int32)


class JsonlSink(Appending):
    """A file of lines; the bytes are those of `Codes.packed` and `Codes.refinement`.

    The digest of the lines is in `.NAME.digest` beside the file. Memory: what is written at a time.
    """

    kind = "jsonl"

    def __init__(self, path: str | Path, bits: int, *, refine: int = 0) -> None:
        file = Path(path)
        record = record_path(file)
        ours = escape(file.name), escape(record.name)
        super().__init__(file, bits, refine, file.parent, *ours)
        self._record, self._digests = record, (Digest(),)
        self._file: BinaryIO | None = None

    def _found(self) -> bool:
        return self._size() > 0

    def _append(self, rows: CodeColumns) -> None:
        lines = _text(rows).encode()
        self._open().write(lines)
        self._open().flush()  # nothing waits here that could be written after someone else
        self._digests = (self._digests[0].then(lines),)

    def _flush(self) -> None:
        os.fsync(self._open().fileno())

    def _cut(self) -> None:
        self._release()
        size, needed = self._size(), self._digests[0].size
        if size < needed:
            raise StorageError(
                f"{self.path} has {size} bytes, and {needed} were written: restore it"
            )
        self._open().truncate(needed)
        self._open().seek(needed)

    def _adopt(self) -> int:
        self._release()
        self._digests = self._recorded().digests
        self._cut()
        for line in islice(self._lines(), 1):  # the state may be of before the first id
            self._text = isinstance(json.loads(line)["id"], str)
        return sum(1 for _ in self._lines())

    def _keys(self) -> tuple[Ids, NDArray[np.int32]]:
        self._check_digests([self._open()])
        found = [json.loads(line) for line in self._lines()]
        epochs = [one.get("epoch", REMOVED) for one in found]
        return as_ids([one["id"] for one in found]), np.array(epochs, np.int32)

    def _rewrite(self, kept: NDArray[np.bool_]) -> list[str]:
        digest = Digest()
        with replacing(self._swap.new(self.path.name)) as file:
            for line, stays in zip(self._lines(), kept, strict=True):
                if stays:
                    file.write(line)
                    digest = digest.then(line)
        return [self.path.name, self._rewritten((digest,))]

    def _size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def _lines(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            yield from file

    def _open(self) -> BinaryIO:
        if self._file is None:
            new = not self.path.exists()
            self._file = self.path.open("x+b" if new else "r+b")
            if new:
                sync_folder(self.folder)
        return self._file

    def _release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class StandardOutput:
    """Standard output as a sink of the same lines; an id that comes twice is there twice.

    as_bits: print sign bits as "bits", a string of 0 and 1 as PostgreSQL has them, not as "code".
    """

    name = "standard output"

    def __init__(self, *, as_bits: bool = False) -> None:
        self.as_bits = as_bits

    def write(self, ids: Any, codes: Codes, payload: Any = None) -> None:
        """Print the codes; there is no place for a payload."""
        del payload
        rows = CodeColumns.of(ids, codes, codes.bits, codes.refine)
        self._print(_text(rows, bit_strings(codes) if self.as_bits else None))

    def remove(self, ids: Any) -> None:
        """Print that the ids are gone."""
        self._print(_text(CodeColumns.marks(as_ids(ids), 0, 0)))

    def _print(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError as error:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - or Python complains at the end
            raise StorageError(f"standard output: {error.strerror or error}") from error

    def commit(self) -> None:
        """All is written at once."""

    def close(self) -> None:
        """Nothing is held."""


def _text(rows: CodeColumns, bits: list[str] | None = None) -> str:
    """Lines of rows. bits: strings of 0 and 1, in place of codes in hexadecimal."""
    code = {"code": _hexadecimal(rows.packed)} if bits is None else {"bits": bits}
    parts = code if rows.packed.shape[1] else {}
    if rows.refinement.shape[1]:
        parts = parts | {"refinement": _hexadecimal(rows.refinement)}
    line = '{"id": %s, ' + "".join(f'"{name}": "%s", ' for name in parts) + '"epoch": %d}\n'
    ids = map(json.dumps, rows.ids.tolist())
    values = zip(ids, *parts.values(), rows.epochs.tolist(), strict=True)
    return "".join(GONE % each[0] if each[-1] == REMOVED else line % each for each in values)


def _hexadecimal(values: NDArray[np.uint8]) -> list[str]:
    return [value.tobytes().hex() for value in values]


def read_lines(where: str, *, bits: int | None = None) -> Iterator[CodeBatch]:
    """Read JSON lines; - for standard input."""
    if where == "-":
        lines = sys.stdin.buffer.readlines()
        yield from _parsed(lines, "standard input", bits, _last_marks(lines))
        return
    record = Record.load(record_path(Path(where)))
    try:
        with Path(where).open("rb") as file:
            if record is not None:
                record.check(record_path(Path(where)), [file])
            start, size = file.tell(), None if record is None else record.digests[0].size
            marks = _last_marks(file if size is None else _first(file, size))
            file.seek(start)
            lines = file if size is None else _first(file, size)
            yield from _parsed(lines, where, bits, marks)
    except OSError as error:
        raise StorageError(f"{where} cannot be read: {error.strerror or error}") from error


def _first(lines: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Lines of so many bytes together."""
    for line in lines:
        if size <= 0:
            return
        size -= len(line)
        yield line


def _is_mark(line: bytes) -> bool:
    """Whether a line removes an id; one that cannot be read is not for this to say."""
    if b'"removed"' not in line:
        return False
    with suppress(ValueError, AttributeError, RecursionError):
        row = json.loads(line)
        return row.get("removed") is True and isinstance(row.get("id"), int | str)
    return False


def _last_marks(lines: Iterable[bytes]) -> dict[int | str, int]:
    """The number of the last line, from 1, that removes each id."""
    numbered = enumerate(lines, 1)
    return {json.loads(line)["id"]: number for number, line in numbered if _is_mark(line)}


def _parsed(
    lines: Iterable[bytes], name: str, bits: int | None, marks: dict[int | str, int]
) -> Iterator[CodeBatch]:
    parsed = (
        row
        for number, line in enumerate(lines, 1)
        if not _is_mark(line)
        for row in [_row(line, number, name)]
        if marks.get(row.id, 0) < number
    )
    widths: set[tuple[int, int]] = set()
    while some := list(islice(parsed, LINES)):
        widths.update((len(row.code), len(row.refinement)) for row in some)
        if len(widths) > 1 or (0, 0) in widths:
            raise StorageError(f"{name} has codes of different lengths, or of none")
        [(width, _)] = widths
        yield from _columns(some).batches(8 * width if bits is None else bits)


class _Row(NamedTuple):
    id: int | str
    code: bytes
    epoch: int
    refinement: bytes


def _row(line: bytes, number: int, name: str) -> _Row:
    try:
        row = json.loads(line)
        refinement = bytes.fromhex(row.get("refinement", ""))
        code = bytes.fromhex(row.get("code", "") if refinement else row["code"])
        name_ = row["id"] if isinstance(row["id"], str) else _whole(row["id"], IDS)
        found = _Row(name_, code, _whole(row["epoch"], EPOCHS), refinement)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(
            f"line {number} of {name} holds no code ({error}): "
            f'it should look like {{"id": 7, "code": "05", "epoch": 0}}'
        ) from error
    return found


def _whole(value: object, limits: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    if not limits.min <= value <= limits.max:
        raise ValueError(f"a number is outside {limits.min} to {limits.max}")
    return value


def _columns(rows: list[_Row]) -> CodeColumns:
    """Rows of one length."""
    ids, codes, epochs, refinements = zip(*rows, strict=True)
    packed, refinement = (
        np.frombuffer(b"".join(part), np.uint8).reshape(len(part), len(part[0]))
        for part in (codes, refinements)
    )
    payload = np.empty((len(rows), 0), object)
    return CodeColumns(as_ids(ids), packed, np.array(epochs, np.int32), refinement, payload)
