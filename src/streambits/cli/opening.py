"""Codes wherever they lie: a job's folder, Parquet, an index, FAISS, NumPy or JSON lines."""

import json
import sys
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import typer

from streambits.codes import Coded, Codes
from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex
from streambits.interop.parquet import to_parquet
from streambits.sinks.given import Rows, last_of_each
from streambits.storage import load, save
from streambits.streams.code_files import read_codes

ARRAYS = ("ids.npy", "codes.npy", "epochs.npy")
LINES = 8192  # of JSON at a time
KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "lines",
    ".ndjson": "lines",
    ".faiss": "faiss",
    ".npy": "packed",
}
OUTPUTS = (".safetensors", ".index", ".faiss", ".parquet")


def kind_of(where: str) -> str:
    """'job', 'parquet', 'arrays', 'lines', 'faiss', 'packed' or 'model' (a file of ours)."""
    path = Path(where)
    if where == "-":
        return "lines"
    if not path.exists():
        raise StorageError(f"{where} does not exist")
    if not path.is_dir():
        return KINDS.get(path.suffix.lower(), "model")
    if (path / "job.json").exists() or (path / "codes").is_dir():
        return "job"
    return "arrays" if all((path / name).exists() for name in ARRAYS) else "parquet"


def coded_in(where: str, *, bits: int | None = None, epoch: int = 0) -> Iterator[Coded]:
    """Ids and codes, each part of one epoch; an id that comes again replaces the one before.

    bits: their length, where the file does not say it and it is not whole bytes; epoch: theirs,
    where the file does not say it.
    """
    kind = kind_of(where)
    if kind == "job":
        return _of_job(Path(where), bits)
    if kind in {"faiss", "model"}:
        return open_index(where, bits=bits, epoch=epoch).coded()
    if kind == "parquet":
        return read_codes(where, bits=bits)
    if kind == "packed":
        return _packed(where, bits, epoch)
    return _arrays(where, bits) if kind == "arrays" else _lines(where, bits)


def open_index(
    where: str, *, bits: int | None = None, epoch: int = 0, method: str | None = None
) -> HammingIndex:
    """All codes as an index; a file of one is mapped, not read, unless another method is asked."""
    kind = kind_of(where)
    if kind == "model":
        found = load(where)
        if not isinstance(found, HammingIndex):
            raise InputError(f"{where} holds a {type(found).__name__}, not an index or codes")
        if method in (None, found.method):
            return found
        return gathered(found.coded(), where, method)
    if kind == "faiss":
        from streambits.interop.faiss import read_index  # noqa: PLC0415 - an extra

        return read_index(where, bits=bits, epoch=epoch, method=method or "auto")
    return gathered(coded_in(where, bits=bits, epoch=epoch), where, method or "auto")


def gathered(coded: Iterable[Coded], where: str, method: str) -> HammingIndex:
    """An index of the last code of every id."""
    index: HammingIndex | None = None
    for ids, codes in coded:
        index = index or HammingIndex(codes.bits, method=method)
        keep = last_of_each(ids)
        some, last = ids[keep], codes[keep]
        there = index.has(some)
        index.update(last[there], some[there])
        index.add(last[~there], some[~there])
    if index is None:
        raise StorageError(f"{where} has no codes")
    return index


def write_index(index: HammingIndex, out: Path) -> None:
    """In the format that the name asks for; the old file stays whole until the end."""
    if out.suffix == ".faiss":
        from streambits.interop import faiss  # noqa: PLC0415 - an extra

        faiss.write_index(index, out)
    elif out.suffix == ".parquet":
        to_parquet(index, out)
    else:
        save(index, out)


def names(columns: str | None) -> list[str] | None:
    """Names of columns, with commas between."""
    return columns.split(",") if columns else None


def as_output(out: Path) -> Path:
    """Refuse a name that tells no format."""
    if out.suffix not in OUTPUTS:
        raise typer.BadParameter(f"{out} should end in one of {', '.join(OUTPUTS)}")
    return out


def _of_job(folder: Path, bits: int | None) -> Iterator[Coded]:
    if not (folder / "codes").is_dir():
        raise StorageError(
            f"{folder} is a job's folder without codes: they went elsewhere, or it only learned"
        )
    return coded_in(str(folder / "codes"), bits=bits)


def _arrays(where: str, bits: int | None) -> Iterator[Coded]:
    ids, packed, epochs = (_array(Path(where, name)) for name in ARRAYS)
    _check_packed(packed, where)
    if not len(ids) == len(packed) == len(epochs):
        raise StorageError(f"{where} has arrays of different lengths: {', '.join(ARRAYS)}")
    yield from Rows(ids, packed, epochs).coded(bits or 8 * packed.shape[1])


def _packed(where: str, bits: int | None, epoch: int) -> Iterator[Coded]:
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


def _lines(where: str, bits: int | None) -> Iterator[Coded]:
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
