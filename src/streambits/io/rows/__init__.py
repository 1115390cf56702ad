"""Sources: rows out of files and standard input, one file of code a format."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from streambits._arrays import as_choice, as_count
from streambits.errors import InputError
from streambits.io.protocols import Source
from streambits.io.rows.arrow import Arrow
from streambits.io.rows.comma import Csv
from streambits.io.rows.files import Files
from streambits.io.rows.handles import Handle, OnDisk
from streambits.io.rows.jsonl import JsonLines
from streambits.io.rows.npy import Npy
from streambits.io.rows.npz import Npz
from streambits.io.rows.parquet import Parquet
from streambits.io.rows.parts import Options, Reader
from streambits.io.rows.paths import expand
from streambits.io.rows.stdin import StandardInput
from streambits.io.rows.vecs import ByteVecs, Vecs
from streambits.io.urls import is_url, shown

__all__ = ["FORMATS", "open_source"]

ROWS = 8192


class Format(NamedTuple):
    """A reader; what its files' names end in; whether it reads standard input."""

    reader: Callable[[Handle, Options], Reader]
    suffixes: tuple[str, ...]
    streams: bool = False


FORMATS = {
    "npy": Format(Npy, (".npy",), True),
    "npz": Format(Npz, (".npz",)),
    "fvecs": Format(Vecs, (".fvecs",), True),
    "bvecs": Format(ByteVecs, (".bvecs",), True),
    "csv": Format(Csv, (".csv", ".tsv", ".csv.gz", ".tsv.gz"), True),
    "jsonl": Format(JsonLines, (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"), True),
    "parquet": Format(Parquet, (".parquet", ".pq")),
    "arrow": Format(Arrow, (".arrow", ".feather", ".ipc")),
}


def open_source(
    paths: str | Path | list[str] | list[Path],
    *,
    columns: list[str] | None = None,
    ids: str | None = None,
    format: str | None = None,  # noqa: A002 - what users call it
    rows: int = ROWS,
) -> Source:
    """Rows out of files, folders and globs, one after the other; `-` is standard input.

    columns: names of columns of numbers, or of one of lists; by default the only one of lists, or
    else all that are numbers. In a .npz it names the array, by default X or the only matrix.
    ids: the column (or array) of ids; by default rows are numbered from 0, bad ones too.
    format: one of FORMATS; by default by the suffix, and CSV for standard input.
    rows: at most in a chunk.

    Bad rows are the rejects of a chunk. Memory: a chunk, and what the format reads at once.
    """
    options = Options(_names(columns, ids), ids, as_count(rows, "rows"))
    if format is not None:
        as_choice(format, "format", tuple(FORMATS))
    listed = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if not listed:
        raise InputError("paths is empty: name a file, a folder or a glob")
    urls = [path for path in listed if is_url(path)]
    if urls:
        raise InputError(f"{shown(urls[0])} is a URL, and files, folders and globs are read here")
    if "-" in listed:
        return _standard_input(listed, format or "csv", options)
    found = [file for path in listed for file in expand(path, lambda n: bool(format or _format(n)))]
    readers = [_reader(name, format, options) for name in found]
    return Files(readers, options, format)


def _names(columns: list[str] | None, ids: str | None) -> tuple[str, ...] | None:
    if columns is None:
        return None
    if isinstance(columns, str) or not columns or not all(isinstance(n, str) for n in columns):
        raise InputError(f"columns is {columns!r}; it must be a list of names")
    twice = [name for name in columns if columns.count(name) > 1 or name == ids]
    if twice:
        raise InputError(f"column {twice[0]!r} is named twice")
    return tuple(columns)


def _standard_input(paths: list[str], format: str, options: Options) -> Source:  # noqa: A002
    if paths != ["-"]:
        raise InputError(f"standard input, -, must stand alone; got {', '.join(paths)}")
    if not FORMATS[format].streams:
        can = ", ".join(name for name, known in FORMATS.items() if known.streams)
        raise InputError(f"standard input cannot be read as {format}, only as {can}")
    handle = StandardInput()
    return Files([FORMATS[format].reader(handle, options)], options, format)


def _reader(name: str, format: str | None, options: Options) -> Reader:  # noqa: A002
    known = format or _format(name)
    if known is None:
        raise InputError(
            f"the format of {name} is not known by its name: pass format, one of "
            f"{', '.join(FORMATS)}"
        )
    return FORMATS[known].reader(OnDisk(name), options)


def _format(name: str) -> str | None:
    lower = name.lower()
    return next((n for n, known in FORMATS.items() if lower.endswith(known.suffixes)), None)
