"""Sources: rows out of files, tables in memory, standard input and brokers, by `open_source`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from streambits._arrays import as_choice, as_count
from streambits.errors import InputError
from streambits.io.protocols import Source
from streambits.io.rows.arrays import ByteVecs, Npy, Npz, Vecs
from streambits.io.rows.arrow import Arrow, ArrowStream, Parquet
from streambits.io.rows.csv import Csv
from streambits.io.rows.files import FileReader, FileSource, ReadOptions
from streambits.io.rows.inputs import Input, StandardInput, expand, public_name
from streambits.io.rows.jsonl import JsonLines
from streambits.io.urls import SCHEMES, is_url, redact_url

__all__ = ["BROKERS", "FORMATS", "format_of", "open_source"]

BROKERS = ("nats", "tls", "kafka")  # schemes of their URLs


class SupportsArrow(Protocol):
    """Rows that can be handed over as a stream of Arrow: tables, data frames, data sets."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class Format(NamedTuple):
    """A reader; what its files' names end in; whether it reads standard input."""

    reader: Callable[[Input, ReadOptions], FileReader]
    suffixes: tuple[str, ...]
    streams: bool = False


FORMATS = {
    "npy": Format(Npy, (".npy",), streams=True),
    "npz": Format(Npz, (".npz",)),
    "fvecs": Format(Vecs, (".fvecs",), streams=True),
    "bvecs": Format(ByteVecs, (".bvecs",), streams=True),
    "csv": Format(Csv, (".csv", ".tsv", ".csv.gz", ".tsv.gz"), streams=True),
    "jsonl": Format(JsonLines, (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"), streams=True),
    "parquet": Format(Parquet, (".parquet", ".pq")),
    "arrow": Format(Arrow, (".arrow", ".feather", ".ipc")),
}


def open_source(
    paths: str | Path | Sequence[str | Path] | SupportsArrow,
    *,
    columns: str | Sequence[str] | int | None = None,
    ids: str | None = None,
    removed: str | None = None,
    keep: Sequence[str] = (),
    format: str | None = None,  # noqa: A002 - what users call it
    rows: int | None = None,
    follow: bool = False,
    idle: float | None = None,
    retry_seconds: float | None = None,
    accept_changes: bool = False,
) -> Source:
    r"""Open files, standard input or a broker as a source of rows.

    Parameters
    ----------
    paths
        Files, folders and globs, which are read one after the other, on disk or behind URLs of
        object stores such as s3://bucket/folder; `-` for standard input; the URL of a broker,
        nats://host/stream or kafka://host/topic; or whatever has `__arrow_c_stream__`, such as a
        table of pyarrow or a data frame of polars or pandas, of which no batch can be resumed.
    columns
        Names of columns of numbers, or the name of one column of lists. By default the only
        column of lists, or else all columns of numbers; names such as id and label are then
        refused. In a .npz, the name of the array; by default X, or the only matrix. For a broker,
        the name of the list in a message (`row` by default in JSON), or the number of values per
        row; by default as many as the first good row has.
    ids
        Name of the column (or array, or key of a message) with the ids, whole numbers of 64 bits
        or texts, as in the first good row. By default rows are numbered from 0, bad ones too, and
        messages have their place in the stream.
    removed
        Name of a column of true and false: a row where it is true removes its id, and its vector
        is not looked at. In JSON lines with `ids`, a null vector removes its id as well.
    keep
        Names of further columns, which come along as texts.
    format
        For files one of `FORMATS`; by default by the suffix, and CSV for standard input. For
        brokers json, the default, one row per message; arrow, an Arrow stream of many rows per
        message; or f4, the numbers of one or more rows in single precision, with `columns`.
    rows
        Rows per batch, at most; by default 8,192 of a file. Of a broker messages per batch, by
        default 1,024, and at most 32 where they have many rows.
    follow
        Of a broker: wait for more messages without end.
    idle
        Of a broker: wait for more messages, and end after so many seconds without one.
    retry_seconds
        Seconds that a broker may be away, 60 by default; files do not need it.
    accept_changes
        Resume even if files that were read before have changed since.

    Returns
    -------
    Source
        Its batches have rows, ids, removals, payload, rejects (bad rows) and the offset to resume
        from.

    Raises
    ------
    InputError
        If the arguments do not fit together.
    StorageError
        If there is no such file. What is inside is checked when it is read.

    Notes
    -----
    Memory: a batch, at most 32 MiB of rows, and what the format reads at once.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("name,x,y\n7,0.5,1\n8,2,oops\n")
    >>> for batch in open_source(folder / "a.csv", ids="name").read():
    ...     print(batch.ids, batch.rows, batch.rejects[0].reason)
    [7] [[0.5 1. ]] column 'y' is 'oops', which is not a number
    """
    if hasattr(paths, "__arrow_c_stream__"):
        stream, listed = paths, []
    else:
        several = [paths] if isinstance(paths, str | Path) else paths
        stream, listed = None, [str(path) for path in several]
    if not listed and stream is None:
        raise InputError("paths is empty: name a file, a folder or a glob")
    if any(map(_is_server, listed)):
        options = {
            "columns": columns,
            "id_key": ids,
            "removed": removed,
            "keep": _names(keep) or None,
            "format": format,
            "rows": rows,
            "follow": follow,
            "idle": idle,
            "retry_seconds": retry_seconds,
        }
        present = {name: value for name, value in options.items() if value is not None}
        return _open_broker(listed, present)
    if follow or idle is not None:
        name = "follow" if follow else "idle"
        raise InputError(f"{name} is for brokers: files are read to their end")
    vectors = None if columns is None else _names(columns, "columns")
    most = ReadOptions().rows if rows is None else as_count(rows, "rows")
    read_options = ReadOptions(vectors, ids, most, removed, _names(keep))
    _check_names(read_options)
    if stream is not None:
        return ArrowStream(stream, read_options)
    if format is not None:
        as_choice(format, "format", tuple(FORMATS))
    if "-" in listed:
        return _open_standard_input(listed, format or "csv", read_options)
    names = [n for path in listed for n in expand(path, lambda n: bool(format or format_of(n)))]
    readers = [_reader(name, format, read_options) for name in names]
    typed = public_name(listed[0])
    return FileSource(readers, read_options, format, typed, accept_changes=accept_changes)


def _check_names(options: ReadOptions) -> None:
    if options.removed is not None and options.ids is None:
        raise InputError(
            f"removed is {options.removed!r}, and without ids there is nothing to remove: name the "
            f"column of the ids with ids (--ids)"
        )
    names = (*(options.columns or ()), *options.others)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"column {twice[0]!r} is named twice")


def _names(names: str | Sequence[str] | int, name: str = "keep") -> tuple[str, ...]:
    """One name or several."""
    found = () if isinstance(names, int) else (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(one, str) and one for one in found) or (name == "columns" and not found):
        raise InputError(f"{name} is {names!r}; it must be a list of names")
    return found


def _open_standard_input(paths: list[str], format: str, options: ReadOptions) -> Source:  # noqa: A002
    if paths != ["-"]:
        raise InputError(
            f"- (standard input) cannot be combined with other sources; got {', '.join(paths)}"
        )
    if not FORMATS[format].streams:
        can = ", ".join(name for name, other in FORMATS.items() if other.streams)
        raise InputError(f"standard input cannot be read as {format}, only as {can}")
    return FileSource([FORMATS[format].reader(StandardInput(), options)], options, format)


def _reader(name: str, format: str | None, options: ReadOptions) -> FileReader:  # noqa: A002
    found = format or format_of(name)
    if found is None:
        raise InputError(
            f"the format of {public_name(name)} is not known by its name: pass format, one of "
            f"{', '.join(FORMATS)}"
        )
    return FORMATS[found].reader(Input(name), options)


def format_of(name: str) -> str | None:
    """The format of a file, by its name; None where that does not say it."""
    lower = name.lower().partition("?")[0] if "://" in name else name.lower()
    return next((n for n, found in FORMATS.items() if lower.endswith(found.suffixes)), None)


def _is_server(text: str) -> bool:
    """Whether this is meant as the URL of a server, and not of files."""
    scheme = text.partition(":")[0].rpartition("+")[0] or text.partition(":")[0]
    return is_url(text) and ("://" not in text or scheme.lower() in SCHEMES)


def _open_broker(paths: list[str], options: dict[str, Any]) -> Source:
    scheme = paths[0].partition("://")[0]
    if len(paths) > 1 or scheme not in BROKERS:
        schemes = ", ".join(f"{scheme}://" for scheme in BROKERS)
        raise InputError(
            f"{' '.join(map(redact_url, paths))} is not a source: name files, or one of {schemes}"
        )
    if scheme == "kafka":
        from streambits.io.rows.kafka import KafkaSource  # noqa: PLC0415 - an extra

        return KafkaSource(paths[0], **options)
    from streambits.io.rows.nats import NatsSource  # noqa: PLC0415 - an extra

    return NatsSource(paths[0], **options)
