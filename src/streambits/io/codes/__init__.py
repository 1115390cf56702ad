"""Codes on disk and in databases.

`open_sink` gives a place to write codes to as they come, which is Parquet parts in a folder or a
table of PostgreSQL; `streambits.io.protocols.Sink` says what that is. Both hold an id once, with
the last code that was written for it, and are `Resumable`: a job keeps the state of its sink
together with its own offset, so nothing is lost or doubled wherever it is killed.

`open_codes` reads codes back, whatever wrote them, and `convert.export` writes them, once, to a
file of any format.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex
from streambits.io.protocols import Resumable
from streambits.io.urls import is_url, redact_url
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes
from streambits.storage import load

__all__ = ["StoredCodes", "code_format", "open_codes", "open_sink"]

FORMATS = {  # of codes that are read, by the endings of files
    "parquet": (".parquet", ".pq"),
    "jsonl": (".jsonl", ".ndjson"),
    "npy": (".npy",),
    "faiss": (".faiss",),
    "index": (".index", ".safetensors"),
}
URLS = ("postgresql://", "postgres://")


def open_sink(
    target: str | Path,
    bits: int,
    *,
    refine: int = 0,
    rows: int | None = None,
    keep: Sequence[str] = (),
    table: str | None = None,
    made_by: str | None = None,
    retry_seconds: float | None = None,
) -> Resumable:
    """Open the sink that a text names.

    | target | where codes go |
    |---|---|
    | a folder | Parquet files in it |
    | postgresql://user@host/database?table=name | a table with a column for pgvector |

    Parameters
    ----------
    target
        Where codes go. A folder that holds codes is refused, unless the sink is resumed.
    bits
        Sign bits per code.
    refine
        Bytes of refinement per code (`Codes.refine`, that of the error included). Codes with
        another number of bits or bytes are refused.
    rows
        Codes per Parquet file, or per transaction of a database.
    keep
        Names of what comes as payload, for columns of texts.
    table
        The table of a database, in place of the one in the URL, which is `codes` by default.
    made_by
        What made the codes, such as the digest of a model. A table that holds codes is added to if
        they were made by the same, and refused otherwise; a folder is never added to.
    retry_seconds
        How long a database that goes away is waited for; folders do not go away.

    Returns
    -------
    Resumable
        With `write(ids, codes)`, `commit()` and `close()`.

    Raises
    ------
    InputError
        If the target names no sink, or it has no such option.
    MissingExtraError
        If a package is needed that is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from streambits import Codes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sink = open_sink(f"{folder}/codes", bits=3)
    ...     sink.write([7], Codes.from_bits([[True, False, True]]))
    ...     sink.close()
    ...     [path.name for path in Path(folder, "codes").iterdir()]
    ['part-000000.parquet']
    """
    options: dict[str, Any] = {"refine": refine, "keep": tuple(keep)}
    options |= {} if rows is None else {"rows": rows}
    if str(target).startswith(URLS):
        from streambits.io.codes.postgres import PostgresSink  # noqa: PLC0415 - an extra

        more = {"table": table, "made_by": made_by, "retry_seconds": retry_seconds}
        options |= {name: value for name, value in more.items() if value is not None}
        return PostgresSink(str(target), bits, **options)
    from streambits.io.codes.parquet import ParquetSink  # noqa: PLC0415 - needs pyarrow

    if is_url(str(target)):
        raise InputError(
            f"{redact_url(str(target))!r} names no sink: choose a folder, or {URLS[0]}..., a table"
        )
    prefix, colon, path = str(target).partition(":")
    if colon and prefix in FORMATS:  # of version 0.2.0
        raise InputError(f"{target} has the prefix {prefix}, which went: name the folder, {path}")
    if _format_of(Path(target)):
        raise InputError(
            f"{target} names a file, and codes are written to a folder or a table as they come: "
            f"convert them to a file when they are there, by streambits index"
        )
    if table is not None:
        raise InputError(f"{target} is a folder, and has no table {table!r}")
    return ParquetSink(target, bits, **options)


def _format_of(path: Path) -> str | None:
    """The format that the name of a file asks for."""
    ending = path.suffix.lower()
    return next((name for name, endings in FORMATS.items() if ending in endings), None)


def code_format(where: str | Path) -> str:
    """The format of codes that lie somewhere, by the names of files; none of them is read.

    Returns
    -------
    str
        'job' (the folder of a job), 'parquet', 'npy' (a .npy file or a folder of arrays), 'jsonl',
        'faiss', or 'index', which is any other file and may hold a model too.
    """
    if str(where) == "-":
        return "jsonl"
    if is_url(str(where)):
        raise InputError(
            f"{redact_url(str(where))} is a URL, and codes are read from files and folders"
        )
    path = Path(where)
    if not path.exists():
        raise StorageError(f"{where} does not exist")
    if not path.is_dir():
        return _format_of(path) or "index"
    if (path / "job.json").exists() or (path / "codes").is_dir():
        return "job"
    arrays = ("ids.npy", "codes.npy", "epochs.npy")
    return "npy" if all((path / name).exists() for name in arrays) else "parquet"


def open_codes(
    where: str | Path,
    *,
    bits: int | None = None,
    epoch: int = 0,
    committed: dict[str, Any] | None = None,
) -> "StoredCodes":
    """Open codes of any format, to read them or to search them.

    Parameters
    ----------
    where
        A folder that a sink wrote, a file that `export` wrote, the folder of a job, an index, a
        FAISS index, a .npy of packed codes, or - for JSON lines from standard input.
    bits
        Length of the codes, where the file does not say it and it is not whole bytes.
    epoch
        Epoch of the codes, where the file does not say it: FAISS, and .npy of packed codes.
    committed
        The state of the sink of a job: what it has written to Parquet files since is left out.

    Returns
    -------
    StoredCodes
        An iterable of `CodeBatch`; its `index()` is a `HammingIndex` of all codes.

    Examples
    --------
    >>> import tempfile
    >>> from streambits import Codes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sink = open_sink(f"{folder}/codes", bits=3)
    ...     sink.write([7, 8], Codes.from_bits([[1, 0, 1], [0, 0, 0]]))
    ...     sink.close()
    ...     codes = open_codes(f"{folder}/codes")
    ...     print(codes.bits, codes.epochs, [ids.tolist() for ids, _ in codes])
    ...     print(codes.index().search(Codes.from_bits([[1, 1, 1]]), k=1).ids)
    3 (0,) [[7, 8]]
    [[7]]
    """
    return StoredCodes(where, bits=bits, epoch=epoch, committed=committed)


class StoredCodes:
    """Codes in a file or folder: what `open_codes` gives.

    Notes
    -----
    Iteration yields `CodeBatch` after `CodeBatch`, each of one epoch, and reads the files anew
    every time (standard input can be read once). If an id comes again, its last code counts; while
    a job writes, only what it has committed is read. Damage to files of ours is an error, at the
    latest at the end. Memory: one batch; a file of arrays or an index is mapped.
    """

    def __init__(
        self,
        where: str | Path,
        *,
        bits: int | None = None,
        epoch: int = 0,
        committed: dict[str, Any] | None = None,
    ) -> None:
        if code_format(where) == "job":
            where = _codes_of_job(Path(where))
        self.where, self.format = str(where), code_format(where)
        self._bits, self._epoch, self._committed = bits, epoch, committed

    def __repr__(self) -> str:
        return f"StoredCodes({self.where!r}, format {self.format})"

    def __iter__(self) -> Iterator[CodeBatch]:
        where, bits = self.where, self._bits
        if self.format in ("index", "faiss"):
            return self.index().items()
        if self.format == "parquet":
            from streambits.io.codes.parquet import read_codes  # noqa: PLC0415

            return read_codes(where, bits=bits, committed=self._committed)
        if self.format == "jsonl":
            from streambits.io.codes.jsonl import read_lines  # noqa: PLC0415

            return read_lines(where, bits=bits)
        from streambits.io.codes.npy import read_arrays  # noqa: PLC0415

        return read_arrays(where, bits=bits, epoch=self._epoch)

    @cached_property
    def bits(self) -> int:
        """Sign bits per code; reads the first of them."""
        if self.format in ("index", "faiss"):
            return self.index().bits
        return self._first.bits

    @cached_property
    def refine(self) -> int:
        """Bytes of refinement per code; reads the first of them."""
        return self._first.refine

    @cached_property
    def _first(self) -> Codes:
        for batch in self:
            return batch.codes
        raise self._empty()

    @cached_property
    def epochs(self) -> tuple[int, ...]:
        """Epochs of the codes, ascending; reads all of them."""
        if self.format in ("index", "faiss"):
            return self.index().epochs
        return tuple(sorted({batch.codes.epoch for batch in self}))

    def index(self) -> HammingIndex:
        """A new index of the last code of every id; that of an index file is mapped, not read."""
        if self.format == "index":
            return _index_in(self.where)
        if self.format == "faiss":
            from streambits.io.codes.faiss import codes_of_faiss  # noqa: PLC0415 - an extra

            options: dict[str, Any] = {"bits": self._bits, "epoch": self._epoch}
            return codes_of_faiss(self.where, **options)
        index: HammingIndex | None = None
        for ids, codes in self:
            if index is None:
                index = HammingIndex(codes.bits, refine=codes.refine)
            index.upsert(codes, ids)
        if index is None:
            raise self._empty()
        return index

    def _empty(self) -> StorageError:
        return StorageError(f"{self.where} has no codes")


def _index_in(path: str) -> HammingIndex:
    """The index in a file, mapped into memory."""
    stored = load(path)
    if not isinstance(stored, HammingIndex):
        raise StorageError(f"{path} holds a {type(stored).__name__}, not an index or codes")
    return stored


def _codes_of_job(folder: Path) -> Path:
    if (folder / "codes").is_dir():
        return folder / "codes"
    try:
        sink: Any = json.loads((folder / "job.json").read_bytes()).get("sink")
    except (OSError, ValueError, AttributeError):
        sink = None
    where = f"they went to {sink}" if sink and sink != "codes" else "it has made none"
    raise StorageError(f"{folder} is a job's folder without codes: {where}")
