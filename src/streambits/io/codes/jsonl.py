"""JSON lines, one code per line: {"id": 7, "code": "05a0", "epoch": 0}; the code in hexadecimal.

Refined codes have "refinement": "1f..." after the code, and codes without sign bits no "code".
{"id": 7, "removed": true} takes out what came before.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_ids
from streambits._files import replacing
from streambits.errors import StorageError
from streambits.index import HammingIndex
from streambits.io.codes.columns import TOMBSTONE, CodeColumns
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes

GONE = '{"id": %s, "removed": true}\n'
LINES = 8192  # read at a time
IDS, EPOCHS = np.iinfo(np.int64), np.iinfo(np.int32)


class StandardOutput:
    """Standard output as a sink of lines; an id that comes twice is printed twice."""

    name = "standard output"

    def write(self, ids: Any, codes: Codes, payload: Any = None) -> None:
        """Print the codes; there is no place for a payload."""
        del payload
        self._print(_text(CodeColumns.of(ids, codes, codes.bits, codes.refine)))

    def remove(self, ids: Any) -> None:
        """Print that the ids are gone."""
        self._print(_text(CodeColumns.tombstones(as_ids(ids), 0, 0)))

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


def write_lines(index: HammingIndex, path: Path) -> None:
    """Write all codes, by epoch and then by id."""
    with replacing(path) as file:
        for ids, codes in index.items():
            file.write(_text(CodeColumns.of(ids, codes, codes.bits, codes.refine)).encode())


def _text(rows: CodeColumns) -> str:
    """Lines of rows."""
    columns = {"code": rows.packed, "refinement": rows.refinement}
    parts = {name: _hexadecimal(part) for name, part in columns.items() if part.shape[1]}
    line = '{"id": %s, ' + "".join(f'"{name}": "%s", ' for name in parts) + '"epoch": %d}\n'
    ids = map(json.dumps, rows.ids.tolist())
    values = zip(ids, *parts.values(), rows.epochs.tolist(), strict=True)
    return "".join(GONE % each[0] if each[-1] == TOMBSTONE else line % each for each in values)


def _hexadecimal(values: NDArray[np.uint8]) -> list[str]:
    return [value.tobytes().hex() for value in values]


def read_lines(where: str, *, bits: int | None = None) -> Iterator[CodeBatch]:
    """Read JSON lines; - for standard input."""
    if where == "-":
        lines = sys.stdin.buffer.readlines()
        yield from _batches(lines, "standard input", bits, _removals(lines))
        return
    try:
        with Path(where).open("rb") as file:
            removals = _removals(file)
            file.seek(0)
            yield from _batches(file, where, bits, removals)
    except OSError as error:
        raise StorageError(f"{where} cannot be read: {error.strerror or error}") from error


def _removed(line: bytes) -> int | str | None:
    """The id that a line removes; a line that cannot be read is not for this to say."""
    if b'"removed"' in line:
        with suppress(ValueError, AttributeError, RecursionError):
            row = json.loads(line)
            if row.get("removed") is True and isinstance(row.get("id"), int | str):
                key: int | str = row["id"]
                return key
    return None


def _removals(lines: Iterable[bytes]) -> dict[int | str, int]:
    """The number of the last line, from 1, that removes each id."""
    keys = ((_removed(line), number) for number, line in enumerate(lines, 1))
    return {key: number for key, number in keys if key is not None}


def _batches(
    lines: Iterable[bytes], name: str, bits: int | None, removals: dict[int | str, int]
) -> Iterator[CodeBatch]:
    rows = (
        row
        for number, line in enumerate(lines, 1)
        if _removed(line) is None
        for row in [_row(line, number, name)]
        if removals.get(row.id, 0) < number
    )
    widths: set[tuple[int, int]] = set()
    while batch := list(islice(rows, LINES)):
        widths.update((len(row.code), len(row.refinement)) for row in batch)
        if len(widths) > 1 or (0, 0) in widths:
            raise StorageError(f"{name} has codes of different lengths, or of none")
        [(width, _)] = widths
        yield from _columns(batch).batches(8 * width if bits is None else bits)


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
        key = row["id"] if isinstance(row["id"], str) else _whole(row["id"], IDS)
        return _Row(key, code, _whole(row["epoch"], EPOCHS), refinement)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(
            f"line {number} of {name} holds no code ({error}): "
            f'it should look like {{"id": 7, "code": "05", "epoch": 0}}'
        ) from error


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
