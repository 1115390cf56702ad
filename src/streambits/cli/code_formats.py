"""Codes out of NumPy files and JSON lines, for the command line."""

import json
import sys
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from streambits.codes import Coded, Codes
from streambits.errors import InputError, StorageError
from streambits.sinks.given import Rows

ARRAYS = ("ids.npy", "codes.npy", "epochs.npy")
LINES = 8192  # of JSON at a time


def from_arrays(where: str, bits: int | None) -> Iterator[Coded]:
    """A folder of ids.npy, codes.npy and epochs.npy."""
    ids, packed, epochs = (_array(Path(where, name)) for name in ARRAYS)
    _check_packed(packed, where)
    if not len(ids) == len(packed) == len(epochs):
        raise StorageError(f"{where} has arrays of different lengths: {', '.join(ARRAYS)}")
    yield from Rows(ids, packed, epochs).coded(bits or 8 * packed.shape[1])


def from_packed(where: str, bits: int | None, epoch: int) -> Iterator[Coded]:
    """A .npy of packed codes, under their places."""
    packed = _array(Path(where))
    _check_packed(packed, where)
    if len(packed):
        yield Coded(np.arange(len(packed)), Codes(packed, bits or 8 * packed.shape[1], epoch))


def _check_packed(packed: Any, where: str) -> None:
    if packed.ndim != 2 or packed.dtype != np.uint8:
        raise InputError(
            f"{where} has shape {packed.shape} and type {packed.dtype}: packed codes are (n, bytes)"
            f" of uint8; rows are encoded first, by streambits encode"
        )


def _array(path: Path) -> Any:
    try:
        found = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise StorageError(f"{path} cannot be read as .npy: {error}") from error
    if not isinstance(found, np.ndarray):
        raise StorageError(f"{path} cannot be read as .npy: it holds several arrays")
    return found


def from_lines(where: str, bits: int | None) -> Iterator[Coded]:
    """JSON lines, as a sink writes them; - for standard input."""
    if where == "-":
        lines = TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
        yield from _parsed(lines, "standard input", bits)
        return
    try:
        with Path(where).open(encoding="utf-8", errors="replace") as file:
            yield from _parsed(file, where, bits)
    except OSError as error:
        raise StorageError(f"{where} cannot be read: {error.strerror}") from error


def _parsed(lines: Iterable[str], name: str, bits: int | None) -> Iterator[Coded]:
    """Lines as a sink writes them: {"id": 7, "code": "05", "epoch": 0}."""
    parsed = (_row(line, number, name) for number, line in enumerate(lines, 1))
    while some := list(islice(parsed, LINES)):
        rows = _rows(some, name)
        yield from rows.coded(bits or 8 * rows.packed.shape[1])


def _row(line: str, number: int, name: str) -> tuple[int, bytes, int]:
    try:
        row = json.loads(line)
        return int(row["id"]), bytes.fromhex(row["code"]), int(row["epoch"])
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"line {number} of {name} holds no code: "
            f'it should look like {{"id": 7, "code": "05", "epoch": 0}}'
        ) from error


def _rows(held: list[tuple[int, bytes, int]], name: str) -> Rows:
    ids, codes, epochs = zip(*held, strict=True)
    if len({len(code) for code in codes}) > 1:
        raise StorageError(f"{name} has codes of different lengths")
    packed = np.frombuffer(b"".join(codes), np.uint8).reshape(len(ids), -1)
    return Rows(np.array(ids, np.int64), packed, np.array(epochs, np.int32))
