"""Codes out of NumPy files and JSON lines, for the command line.

Where a sink of ours has left a record of their digests, only what it has committed counts, and
damage is an error; files of others are taken as they are.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np

from streambits._digests import Record, beside
from streambits.errors import InputError, StorageError
from streambits.io.codes.given import Rows
from streambits.io.codes.npy import HEAD, KINDS, NAMES, RECORD
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes

ARRAYS = NAMES  # of a folder of arrays
LINES = 8192  # of JSON at a time
IDS, EPOCHS = np.iinfo(np.int64), np.iinfo(np.int32)
UNREADABLE = (  # what NumPy may raise for bytes that are not an array
    OSError,
    ValueError,
    EOFError,
    OverflowError,
    MemoryError,
    RecursionError,
    SyntaxError,
    TokenError,
)


def from_arrays(where: str, bits: int | None) -> Iterator[CodeBatch]:
    """A folder of ids.npy, codes.npy and epochs.npy."""
    ids, packed, epochs = _recorded(Path(where)) or [load_array(Path(where, n)) for n in ARRAYS]
    _check_packed(packed, where)
    if not len(ids) == len(packed) == len(epochs):
        raise StorageError(f"{where} has arrays of different lengths: {', '.join(ARRAYS)}")
    for name, array in ((ARRAYS[0], ids), (ARRAYS[2], epochs)):
        if array.ndim != 1 or array.dtype.kind != "i":
            raise StorageError(f"{where}/{name} should hold whole numbers, one per code")
    yield from Rows(ids, packed, epochs).coded(bits or 8 * packed.shape[1])


def _recorded(folder: Path) -> list[Any] | None:
    """The arrays that a sink of ours has committed; None if it was not one."""
    record = Record.load(folder / RECORD)
    if record is None:
        return None
    with ExitStack() as stack:
        files = [stack.enter_context(_opened(folder / name)) for name in ARRAYS]
        record.check(folder / RECORD, files, HEAD)
        rows = record.digests[0].size // 8
        if not rows:
            return [np.empty(0, KINDS[0]), np.empty((0, 1), KINDS[1]), np.empty(0, KINDS[2])]
        shapes = ((rows,), (rows, record.digests[1].size // rows), (rows,))
        each = zip(files, KINDS, shapes, strict=True)
        return [np.memmap(file, kind, "r", HEAD, shape) for file, kind, shape in each]


def from_packed(where: str, bits: int | None, epoch: int) -> Iterator[CodeBatch]:
    """A .npy of packed codes, under their places."""
    packed = load_array(Path(where))
    _check_packed(packed, where)
    if len(packed):
        yield CodeBatch(np.arange(len(packed)), Codes(packed, bits or 8 * packed.shape[1], epoch))


def _check_packed(packed: Any, where: str) -> None:
    if packed.ndim != 2 or packed.dtype != np.uint8 or not packed.shape[1]:
        raise InputError(
            f"{where} has shape {packed.shape} and type {packed.dtype}: packed codes are (n, bytes)"
            f" of uint8; rows are encoded first, by streambits encode"
        )


def load_array(path: Path) -> Any:
    """The array in a .npy file, mapped into memory."""
    try:
        with np.errstate(all="ignore"):  # of a shape that cannot be
            found = np.load(path, mmap_mode="r")
    except UNREADABLE as error:
        raise StorageError(f"{path} cannot be read as .npy: {error}") from error
    if not isinstance(found, np.ndarray):
        found.close()
        raise StorageError(f"{path} cannot be read as .npy: it holds several arrays")
    return found


def from_lines(where: str, bits: int | None) -> Iterator[CodeBatch]:
    """JSON lines, as a sink writes them; - for standard input."""
    if where == "-":
        yield from _parsed(sys.stdin.buffer, "standard input", bits)
        return
    record = Record.load(beside(Path(where)))
    try:
        with _opened(Path(where)) as file:
            if record is not None:
                record.check(beside(Path(where)), [file])
            lines = file if record is None else _first(file, record.digests[0].size)
            yield from _parsed(lines, where, bits)
    except OSError as error:
        raise StorageError(f"{where} cannot be read: {error.strerror or error}") from error


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error


def _first(lines: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Lines of so many bytes together."""
    for line in lines:
        if size <= 0:
            return
        size -= len(line)
        yield line


def _parsed(lines: Iterable[bytes], name: str, bits: int | None) -> Iterator[CodeBatch]:
    """Lines as a sink writes them: {"id": 7, "code": "05", "epoch": 0}."""
    parsed = (_row(line, number, name) for number, line in enumerate(lines, 1))
    while some := list(islice(parsed, LINES)):
        rows = _rows(some, name)
        yield from rows.coded(bits or 8 * rows.packed.shape[1])


def _row(line: bytes, number: int, name: str) -> tuple[int, bytes, int]:
    try:
        row = json.loads(line)
        code = bytes.fromhex(row["code"])
        found = _whole(row["id"], IDS), code, _whole(row["epoch"], EPOCHS)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
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


def _rows(held: list[tuple[int, bytes, int]], name: str) -> Rows:
    ids, codes, epochs = zip(*held, strict=True)
    if len({len(code) for code in codes}) > 1 or not codes[0]:
        raise StorageError(f"{name} has codes of different lengths, or of none")
    packed = np.frombuffer(b"".join(codes), np.uint8).reshape(len(ids), -1)
    return Rows(np.array(ids, np.int64), packed, np.array(epochs, np.int32))
