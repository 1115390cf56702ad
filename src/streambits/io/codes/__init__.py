"""Codes on disk and in databases: one file for each format, which reads and writes it.

`open_sink` gives a place to write codes to; `streambits.io.protocols.Sink` says what that is. Every
sink holds an id once, with the last code that was written for it. Sinks that are `Resumable` can
also say where they are and go back there, which `Appending` in `_append.py` explains; a job keeps
that together with its own place, so nothing is lost or doubled wherever it is killed.

`open_codes` reads codes back, whatever wrote them.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex
from streambits.io.protocols import Sink
from streambits.io.urls import is_url, redact_url
from streambits.model.batches import CodeBatch
from streambits.model.coder import Coder
from streambits.model.codes import Codes
from streambits.storage import save

__all__ = ["SAVED", "StoredCodes", "code_format", "open_codes", "open_sink", "save_index"]


class _Format(NamedTuple):
    """The class of a format's sink, its options, and the endings of files that are of it."""

    sink: str
    options: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()


FORMATS = {
    "parquet": _Format("ParquetSink", ("rows", "keep"), (".parquet", ".pq")),
    "jsonl": _Format("JsonlSink", (), (".jsonl", ".ndjson")),
    "npy": _Format("NpySink"),
    "index": _Format("IndexSink", ("strategy",), (".index", ".safetensors")),
    "faiss": _Format("FaissSink", (), (".faiss",)),
    "postgres": _Format("PostgresSink", ("rows", "table", "made_by", "retry_seconds", "keep")),
}
URLS = ("postgresql://", "postgres://")
EVERYWHERE = ("retry_seconds", "made_by")  # options that a format which has no use for them ignores
SAVED = (".safetensors", ".index", ".faiss", ".parquet")  # endings that `save_index` knows


def open_sink(
    target: str,
    bits: int,
    *,
    refine: int = 0,
    retry_seconds: float | None = None,
    made_by: str | None = None,
    rows: int | None = None,
    strategy: str | None = None,
    table: str | None = None,
    keep: Sequence[str] = (),
) -> Sink:
    """Open the sink that a text names.

    | target | where codes go |
    |---|---|
    | a folder, or parquet:folder | Parquet files in it |
    | file.jsonl, file.ndjson, or jsonl:file | JSON lines |
    | npy:folder | ids.npy, codes.npy, epochs.npy and perhaps refinements.npy in it |
    | file.index, file.safetensors, or index:file | a file that `streambits.load` opens |
    | file.faiss, or faiss:file | a binary index of FAISS |
    | postgresql://user@host/database?table=name | a table with a column for pgvector |

    Parameters
    ----------
    target
        Where codes go. A folder or file that holds codes is refused, unless the sink is resumed.
    bits
        Sign bits per code.
    refine
        Bytes of refinement per code (`Codes.refine`, that of the error included). Codes with
        another number of bits or bytes are refused. A file of FAISS holds sign bits alone.
    retry_seconds
        How long a database that goes away is waited for; files do not go away.
    made_by
        What made the codes, such as the digest of a model. A table that holds codes is added to if
        they were made by the same, and refused otherwise; files are never added to.
    rows
        Codes per Parquet file, or per transaction of a database.
    strategy
        How an index searches, see `HammingIndex`.
    table
        The table of a database, in place of the one in the URL, which is `codes` by default.
    keep
        Names of what comes as payload, for columns of texts in Parquet files or a table.

    Returns
    -------
    Sink
        With `write(ids, codes)`, `commit()` and `close()`.

    Raises
    ------
    InputError
        If the target names no sink, or its format has no such option.
    MissingExtraError
        If a package is needed that is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from streambits import Codes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sink = open_sink(f"{folder}/codes.jsonl", bits=3)
    ...     sink.write([7], Codes.from_bits([[True, False, True]]))
    ...     sink.close()
    ...     print(Path(folder, "codes.jsonl").read_text())
    {"id": 7, "code": "05", "epoch": 0}
    """
    name, path = _sink_format(target)
    options: dict[str, Any] = {"rows": rows, "strategy": strategy, "table": table}
    options |= {"retry_seconds": retry_seconds, "made_by": made_by, "keep": tuple(keep) or None}
    passed = {option: value for option, value in options.items() if value is not None}
    for option in passed.keys() - FORMATS[name].options:
        if option == "keep":
            raise InputError(
                f"{redact_url(target)} has no place for {', '.join(keep)}: Parquet files and "
                f"tables keep more than codes"
            )
        if option not in EVERYWHERE:
            raise InputError(f"{option} is not an option of {name}, which {redact_url(target)} is")
        del passed[option]
    module = import_module(f"streambits.io.codes.{name}")
    sink: Sink = getattr(module, FORMATS[name].sink)(path, bits, refine=refine, **passed)
    return sink


def _sink_format(target: str) -> tuple[str, str]:
    """The format of a target, and the rest of its text."""
    if target.startswith(URLS):
        return "postgres", target
    name, colon, path = target.partition(":")
    if colon and name in FORMATS and not is_url(path):
        return name, path
    if is_url(target):
        raise InputError(
            f"{redact_url(target)!r} names no sink: choose a path, or one of {', '.join(FORMATS)} "
            f"and a colon before it"
        )
    if target.endswith(".npy"):
        raise InputError(
            f"{target!r} is one file, and codes with ids and epochs are three: name a folder, "
            f"npy:{target.removesuffix('.npy')}"
        )
    found = (name for name, one in FORMATS.items() if target.endswith(one.endings))
    return next(found, "parquet"), target


def code_format(where: str | Path) -> str:
    """The format of codes that lie somewhere, by the names of files; none of them is read.

    Returns
    -------
    str
        'job' (the folder of a job), 'parquet', 'npy' (a folder of arrays), 'packed' (a .npy file),
        'jsonl', 'faiss', or 'index', which is any other file and may hold a model too.
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
    if path.is_dir():
        if (path / "job.json").exists() or (path / "codes").is_dir():
            return "job"
        arrays = ("ids.npy", "codes.npy", "epochs.npy")
        return "npy" if all((path / name).exists() for name in arrays) else "parquet"
    ending = path.suffix.lower()
    found = (name for name, one in FORMATS.items() if ending in one.endings)
    return "packed" if ending == ".npy" else next(found, "index")


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
        A file or folder that a sink wrote, the folder of a job, an index, a FAISS index, a .npy of
        packed codes, or - for JSON lines from standard input.
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
    a job writes, only what it has committed is there. Damage to files of ours is an error, at the
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
        from streambits.io.codes.npy import read_arrays, read_packed  # noqa: PLC0415

        if self.format == "packed":
            return read_packed(where, bits=bits, epoch=self._epoch)
        return read_arrays(where, bits=bits)

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

    def index(self, *, strategy: str | None = None) -> HammingIndex:
        """A new index of the last code of every id.

        Parameters
        ----------
        strategy
            How it searches, see `HammingIndex`; by default 'auto', or that of an index file, which
            then is mapped into memory, not read.
        """
        batches: Iterable[CodeBatch] = self
        if self.format == "index":
            from streambits.io.codes.index import open_index_file  # noqa: PLC0415

            found = open_index_file(self.where)
            if strategy in (None, found.strategy):
                return found
            batches = found.items()
        strategy = strategy or "auto"
        if self.format == "faiss":
            from streambits.io.codes.faiss import codes_of_faiss  # noqa: PLC0415 - an extra

            options: dict[str, Any] = {"bits": self._bits, "epoch": self._epoch}
            return codes_of_faiss(self.where, strategy=strategy, **options)
        index: HammingIndex | None = None
        for ids, codes in batches:
            if index is None:
                index = HammingIndex(codes.bits, refine=codes.refine, strategy=strategy)
            index.upsert(codes, ids)
        if index is None:
            raise self._empty()
        return index

    def _empty(self) -> StorageError:
        return StorageError(f"{self.where} has no codes")


def save_index(index: HammingIndex, path: str | Path, coder: Coder | None = None) -> None:
    """Write an index to a file, in the format that its name asks for.

    Parameters
    ----------
    index
        The codes. FAISS has no epochs, and refuses codes of several; of refined codes it has the
        sign bits alone.
    path
        .faiss, .parquet (all codes, by epoch and then by id), or else a file for
        `streambits.load`. It appears whole or not at all.
    coder
        What made the codes: a file of FAISS needs it, if they have no sign bits.
    """
    if Path(path).suffix == ".faiss":
        from streambits.io.codes.faiss import write_faiss  # noqa: PLC0415 - an extra

        write_faiss(index, path, coder)
    elif Path(path).suffix == ".parquet":
        from streambits.io.codes.parquet import write_codes  # noqa: PLC0415

        write_codes(index.items(), index.bits, path, refine=index.refine or 0)
    else:
        save(index, path)


def _codes_of_job(folder: Path) -> Path:
    if (folder / "codes").is_dir():
        return folder / "codes"
    try:
        sink: Any = json.loads((folder / "job.json").read_bytes()).get("sink")
    except (OSError, ValueError, AttributeError):
        sink = None
    where = f"they went to {sink}" if sink and sink != "codes" else "it has made none"
    raise StorageError(f"{folder} is a job's folder without codes: {where}")
