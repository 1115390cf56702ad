"""Codes wherever they lie: a job's folder, Parquet, an index, FAISS, NumPy or JSON lines."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import typer

from streambits.cli.code_formats import ARRAYS, from_arrays, from_lines, from_packed
from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex
from streambits.io.codes.code_files import read_codes
from streambits.io.codes.given import last_of_each
from streambits.io.codes.table import to_parquet
from streambits.io.urls import is_url, shown
from streambits.model.batches import CodeBatch
from streambits.storage import load, save

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
    if is_url(where):
        raise InputError(f"{shown(where)} is a URL, and codes are read from files and folders")
    if not path.exists():
        raise StorageError(f"{where} does not exist")
    if not path.is_dir():
        return KINDS.get(path.suffix.lower(), "model")
    if (path / "job.json").exists() or (path / "codes").is_dir():
        return "job"
    return "arrays" if all((path / name).exists() for name in ARRAYS) else "parquet"


def coded_in(where: str, *, bits: int | None = None, epoch: int = 0) -> Iterator[CodeBatch]:
    """Ids and codes, each part of one epoch; an id that comes again replaces the one before.

    bits: their length, where the file does not say it and it is not whole bytes; epoch: theirs,
    where the file does not say it.
    """
    kind = kind_of(where)
    if kind == "job":
        return _of_job(Path(where), bits)
    if kind in {"faiss", "model"}:
        return open_index(where, bits=bits, epoch=epoch).items()
    if kind == "parquet":
        return read_codes(where, bits=bits)
    if kind == "packed":
        return from_packed(where, bits, epoch)
    return from_arrays(where, bits) if kind == "arrays" else from_lines(where, bits)


def open_index(
    where: str, *, bits: int | None = None, epoch: int = 0, strategy: str | None = None
) -> HammingIndex:
    """All codes as an index; the file of one is mapped unless another strategy is asked for."""
    kind = kind_of(where)
    if kind == "model":
        found = load(where)
        if not isinstance(found, HammingIndex):
            raise InputError(f"{where} holds a {type(found).__name__}, not an index or codes")
        if strategy in (None, found.strategy):
            return found
        return gathered(found.items(), where, strategy)
    if kind == "faiss":
        from streambits.interop.faiss import read_index  # noqa: PLC0415 - an extra

        return read_index(where, bits=bits, epoch=epoch, strategy=strategy or "auto")
    return gathered(coded_in(where, bits=bits, epoch=epoch), where, strategy or "auto")


def gathered(coded: Iterable[CodeBatch], where: str, strategy: str) -> HammingIndex:
    """An index of the last code of every id."""
    index: HammingIndex | None = None
    for ids, codes in coded:
        index = index or HammingIndex(codes.bits, strategy=strategy)
        keep = last_of_each(ids)
        some, last = ids[keep], codes[keep]
        there = index.has(some)
        if there.any():
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


def _of_job(folder: Path, bits: int | None) -> Iterator[CodeBatch]:
    if not (folder / "codes").is_dir():
        raise StorageError(f"{folder} is a job's folder without codes: {_whither(folder)}")
    return coded_in(str(folder / "codes"), bits=bits)


def _whither(folder: Path) -> str:
    """Where the codes of a job are, in words."""
    try:
        sink = json.loads((folder / "job.json").read_bytes()).get("sink")
    except (OSError, ValueError, AttributeError):
        sink = None
    return f"they went to {sink}" if sink and sink != "codes" else "it has made none"
