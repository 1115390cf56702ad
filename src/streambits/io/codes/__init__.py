"""Sinks: where codes go, one file each; `streambits.io.protocols.Sink` says what one is.

Every sink holds an id once, with the last code that was written for it. Sinks that are files can
also say where they are and go back there, which `streambits.io.codes.appending` explains; a job
keeps that together with its own place, so nothing is lost or doubled wherever it is killed.

>>> import tempfile
>>> from pathlib import Path
>>> from streambits import Codes
>>> with tempfile.TemporaryDirectory() as folder:
...     sink = open_sink(f"{folder}/codes.jsonl", bits=3)
...     sink.write([7], Codes.from_bits([[True, False, True]]))
...     sink.close()
...     print(Path(folder, "codes.jsonl").read_text())
{"id": 7, "code": "05", "epoch": 0}
"""

from importlib import import_module
from typing import Any

from streambits.errors import InputError
from streambits.io.protocols import Sink
from streambits.io.urls import is_url, shown

__all__ = ["open_sink"]

CLASSES = {
    "parquet": "ParquetSink",
    "jsonl": "JsonlSink",
    "npy": "NpySink",
    "index": "IndexSink",
    "faiss": "FaissSink",
    "postgres": "PostgresSink",
}
URLS = ("postgresql://", "postgres://")
SERVERS = ("postgres",)  # sinks that can go away
ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".index": "index",
    ".safetensors": "index",
    ".faiss": "faiss",
}


def open_sink(
    target: str, bits: int, *, retry_seconds: float | None = None, **options: Any
) -> Sink:
    """The sink that a text names.

    | target | where codes of `bits` bits go |
    |---|---|
    | a folder, or parquet:folder | Parquet files in it |
    | file.jsonl, file.ndjson, or jsonl:file | JSON lines |
    | npy:folder | ids.npy, codes.npy and epochs.npy in it |
    | file.index, file.safetensors, or index:file | a file that `streambits.load` opens |
    | file.faiss, or faiss:file | a binary index of FAISS |
    | postgresql://user@host/database?table=name | a table with a column for pgvector |

    retry_seconds: how long a database that goes away is waited for. options: those of the sink's
    class. What needs a package that is not installed says so.
    """
    kind, path = _kind(target)
    if retry_seconds is not None and kind in SERVERS:
        options["retry_seconds"] = retry_seconds
    module = import_module(f"streambits.io.codes.{kind}")
    sink: Sink = getattr(module, CLASSES[kind])(path, bits, **options)
    return sink


def _kind(target: str) -> tuple[str, str]:
    if target.startswith(URLS):
        return "postgres", target
    kind, colon, path = target.partition(":")
    if colon and kind in CLASSES and not is_url(path):
        return kind, path
    if is_url(target):
        raise InputError(
            f"{shown(target)!r} names no sink: choose a path, or one of {', '.join(CLASSES)} and a "
            f"colon before it"
        )
    if target.endswith(".npy"):
        raise InputError(
            f"{target!r} is one file, and codes with ids and epochs are three: name a folder, "
            f"npy:{target.removesuffix('.npy')}"
        )
    ending = next((end for end in ENDINGS if target.endswith(end)), None)
    return ("parquet" if ending is None else ENDINGS[ending]), target
