"""Saving and loading: the only module that knows the file format of models.

One safetensors file: the arrays, and a JSON manifest in its metadata that describes them. There is
no pickle, so loading a file runs nothing from it. The manifest has the SHA-256 of every array, and
its own is beside it; the head of the file follows from the manifest. So every byte of a file is
checked: a file is what was saved, or it is refused. Digests detect damage, not forgery: whoever can
write a file can also give it digests that fit. So whatever is used as an address is checked again.

A learner's file contains its landmarks, which are raw rows, and a sample of the rows seen. An index
is mapped into memory, not read: opening it takes the same time for any number of codes, its arrays
are checked when they are first needed or by `HammingIndex.verify`, and what is changed in it
afterwards stays in memory until it is saved again.
"""

import hashlib
import io
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import is_array_api_obj, to_numpy
from streambits._files import replacing
from streambits._threads import ordered_map
from streambits.epochs.coder_set import CoderSet
from streambits.epochs.epoch import Epoch
from streambits.epochs.monitor import DriftMonitor
from streambits.errors import InputError, StorageError
from streambits.features import GaussianAffinity, Linear
from streambits.index import HammingIndex
from streambits.model.coder import Coder
from streambits.model.learner import Learner
from streambits.model.sampling import Reservoir
from streambits.sketches import FrequentDirections, Gram

FORMAT = 5
KEY, DIGEST = "streambits", "streambits.digest"  # of the manifest and its digest, in the metadata
ALIGNED = 64  # bytes; the arrays begin at a multiple of it
PIECE = 1 << 23  # bytes of an array that a thread hashes at a time
UNUSED = ("keys", "measurements")  # arrays that have infinity or NaN where they hold nothing
KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Coder,
        CoderSet,
        DriftMonitor,
        Epoch,
        FrequentDirections,
        GaussianAffinity,
        Gram,
        HammingIndex,
        Learner,
        Linear,
        Reservoir,
    )
}
MODELS: list[type] = [
    Learner,
    Coder,
    CoderSet,
    Epoch,
    HammingIndex,
]  # what a file may be as a whole
NAMES = {"f": "F", "i": "I", "u": "U"}  # of the kinds of numbers, in safetensors and in NumPy
DTYPES = {
    "BOOL": np.dtype(np.bool_),
    **{
        f"{NAMES[kind]}{8 * size}": np.dtype(f"<{kind}{size}")
        for kind in NAMES
        for size in (1, 2, 4, 8)
        if (kind, size) != ("f", 1)
    },
}


class Saved(NamedTuple):
    """The contents of a file.

    Attributes
    ----------
    model : Learner, Coder, CoderSet, Epoch or HammingIndex
    digest : str
        Digest of the manifest, and so of all that is in the file.
    """

    model: Any
    digest: str


def register(kind: type, *, model: bool = False) -> type:
    """Make a class of your own storable.

    Parameters
    ----------
    kind : type
        It needs `state()`, a dictionary of arrays, plain values and storable parts, and
        `from_state(state)`.
    model : bool, default False
        Whether it may also be a file of its own, not only a part of one.

    Returns
    -------
    type
        The class itself, so that this can be a decorator.
    """
    KINDS[kind.__name__] = kind
    if model and kind not in MODELS:
        MODELS.append(kind)
    return kind


def save(model: Any, path: str | Path, *, private: bool = False) -> None:
    """Write a model to a file; a crash leaves the old file whole.

    Parameters
    ----------
    model : Learner, Coder, CoderSet, Epoch or HammingIndex
        Or of a class that was registered with `model=True`.
    path : str or Path
    private : bool, default False
        Whether only the owner of the file may read it.

    Raises
    ------
    InputError
        If the model is something else.
    StorageError
        If the file cannot be written, or a part cannot be saved.

    Notes
    -----
    A learner that is loaded and goes on gives the same bits as one that never stopped. Every byte
    is hashed once and written once; memory is that of `model.state()`, a copy of a learner, but not
    of an index.
    """
    pieces = _pieces(model)
    with replacing(Path(path), private=private) as file:
        for piece in pieces:
            file.write(piece)


def to_bytes(model: Any) -> bytes:
    """Return what `save` writes to a file, to send a model to another process or machine.

    Parameters
    ----------
    model : Learner, Coder, CoderSet, Epoch or HammingIndex
        Or of a class that was registered with `model=True`. Of a `CoderSet`, epochs that are in
        files stay there: it is saved with its folder instead.

    Returns
    -------
    bytes
        For `from_bytes`: arrays and a manifest with their digests, no pickle. They contain raw rows
        wherever the file of the model does.

    Raises
    ------
    InputError
        If the model is something else.
    StorageError
        If a part cannot be saved.

    Examples
    --------
    >>> from streambits.methods import ssbc
    >>> rows = np.random.default_rng(0).random((500, 8), dtype=np.float32)
    >>> learner = ssbc(rows[:50], bits=16)
    >>> shards = [to_bytes(learner.shard().learn(part)) for part in (rows[:200], rows[200:])]
    >>> for shard in shards:
    ...     learner = learner.merge(from_bytes(shard))
    >>> learner.seen
    500
    """
    return b"".join(_pieces(model))


def from_bytes(data: bytes | bytearray | memoryview, *, name: str = "the data") -> Any:
    """Return the model that `to_bytes` was given, or that a file holds.

    Parameters
    ----------
    data : bytes
        All of it is checked against its digests.
    name : str
        What to call it in messages.

    Returns
    -------
    Learner, Coder, CoderSet, Epoch or HammingIndex
        In memory of its own.

    Raises
    ------
    StorageError
        If the bytes are damaged, of another version, or something else.

    Examples
    --------
    >>> from_bytes(b"rubbish")
    Traceback (most recent call last):
    ...
    streambits.errors.StorageError: the data is truncated or not a streambits file: save ...
    """
    path, file = Path(name), io.BytesIO(data)
    head = _read_head(file, path)
    arrays = _read(file, head.arrays, head.start)
    _check_arrays(arrays, head.arrays, path)
    model = _built(head.model, arrays, path)
    if isinstance(model, HammingIndex):
        _verify(model, {}, {}, path)
    return model


def _pieces(model: Any) -> Iterator[bytes | memoryview]:
    """The contents of a file, the head first."""
    if not isinstance(model, tuple(MODELS)):
        raise InputError(f"only learners, coders and indexes are saved, not {type(model).__name__}")
    arrays: dict[str, NDArray[Any]] = {}
    described = _describe(model, "model", arrays)
    ordered = dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))
    entries = {name: _entry(name, array) for name, array in ordered.items()}
    manifest = json.dumps({"format": FORMAT, "model": described, "arrays": entries})
    return chain([_head(manifest, entries)], map(_bytes, ordered.values()))


def load(path: str | Path) -> Any:
    """Read the model in a file, with its arrays on the host.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Learner, Coder, CoderSet, Epoch or HammingIndex

    Raises
    ------
    StorageError
        If the file does not exist, is damaged, or is of another version.
    """
    return opened(path).model


def opened(path: str | Path) -> Saved:
    """Read the model in a file, with the digest that distinguishes it from any other.

    The file is opened once: however often it is replaced meanwhile, this is all of one file.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Saved

    Raises
    ------
    StorageError
        As for `load`.
    """
    path = Path(path)
    if path.is_dir():
        raise StorageError(
            f"{path} is a folder, and a model is a file: streambits.open opens the folder of a job "
            f"or codes to search them, and a job's model is model.safetensors in it"
        )
    with _reading(path) as file:
        head = _read_head(file, path)
        mapped = head.model.get("kind") == HammingIndex.__name__
        arrays = (_mapped if mapped else _read)(file, head.arrays, head.start)
    if not mapped:
        _check_arrays(arrays, head.arrays, path)
    model = _built(head.model, arrays, path)
    if isinstance(model, HammingIndex):
        model.verify_by(lambda: _verify(model, arrays, head.arrays, path))
    if isinstance(model, CoderSet):
        model.store_in(path.parent, load)
    return Saved(model, head.digest)


def digest(path: str | Path | bytes) -> str:
    """Return the digest that `opened` returns, without reading the arrays; also of `to_bytes`."""
    if isinstance(path, bytes):
        return _read_head(io.BytesIO(path), Path("the bytes")).digest
    with _reading(Path(path)) as file:
        return _read_head(file, Path(path)).digest


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error


def _describe(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Plain values as they are; arrays by name, put into `arrays`; parts by kind and state."""
    if is_array_api_obj(value):
        arrays[name] = np.ascontiguousarray(to_numpy(value))
        return {"array": name}
    if type(value).__name__ in KINDS:
        state = value.state()
        return {"kind": type(value).__name__, "state": _describe(state, name, arrays)}
    if isinstance(value, dict):
        return {"dict": {k: _describe(v, f"{name}.{k}", arrays) for k, v in value.items()}}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise StorageError(
        f"{name} is a {type(value).__name__}, which streambits cannot save: give it state() and "
        f"from_state(), and pass the class to streambits.storage.register"
    )


def _entry(name: str, array: NDArray[Any]) -> dict[str, Any]:
    """The manifest's description of an array."""
    if not _is_finite(name, array):
        raise StorageError(
            f"{name} has numbers that are not finite, and is not saved: learn rows of another scale"
        )
    kind = "BOOL" if array.dtype == np.bool_ else f"{NAMES[array.dtype.kind]}{8 * array.itemsize}"
    return {"dtype": kind, "shape": list(array.shape), "digest": _digest(array)}


def _is_finite(name: str, array: NDArray[Any]) -> bool:
    unused = name.rsplit(".", 1)[-1] in UNUSED
    return unused or array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _digest(array: NDArray[Any]) -> str:
    """The SHA-256 of the SHA-256s of an array's pieces, which threads share."""
    content = _bytes(array)
    pieces = [content[i : i + PIECE] for i in range(0, len(content), PIECE)]
    digests = ordered_map(lambda piece: hashlib.sha256(piece).digest(), pieces)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _bytes(array: NDArray[Any]) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def _head(manifest: str, entries: dict[str, Any]) -> bytes:
    """All of a file before the arrays, which lie in the order of their entries.

    Written here and not by the library, which would put the whole file together in memory.
    """
    digest = hashlib.sha256(manifest.encode()).hexdigest()
    head: dict[str, Any] = {"__metadata__": {KEY: manifest, DIGEST: digest}}
    end = 0
    for name, entry in entries.items():
        start, end = end, end + _size(entry)
        offsets = [start, end]
        head[name] = {"dtype": entry["dtype"], "shape": entry["shape"], "data_offsets": offsets}
    text = json.dumps(head).encode()
    text += b" " * (-(8 + len(text)) % ALIGNED)
    return len(text).to_bytes(8, "little") + text


def _size(entry: dict[str, Any]) -> int:
    return int(math.prod(entry["shape"]) * DTYPES[entry["dtype"]].itemsize)


class _Head(NamedTuple):
    """The head of a file: its model as described, the arrays' entries, and where they start."""

    model: dict[str, Any]
    arrays: dict[str, Any]
    digest: str
    start: int


def _read_head(file: BinaryIO, path: Path) -> _Head:
    """Everything before the arrays, checked."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = file.read(8)
    start = 8 + int.from_bytes(length, "little")
    if not 8 < start <= size:
        raise StorageError(f"{path} is truncated or not a streambits file: save the model again")
    text = file.read(start - 8)
    with _foreign(path):
        manifest, digest = _metadata(json.loads(text), path)
        intact = digest == hashlib.sha256(manifest.encode()).hexdigest()
        found = json.loads(manifest)
        _check_format(found["format"], path)
        entries, model = _checked(found["arrays"]), dict(found["model"])
    if not (intact and _head(manifest, entries) == length + text):
        raise _damaged(path, "its manifest")
    if start + sum(map(_size, entries.values())) != size:
        raise StorageError(f"{path} is truncated or too long ({size} bytes): save the model again")
    return _Head(model, entries, digest[:16], start)


@contextmanager
def _foreign(path: Path) -> Iterator[None]:
    """Report errors in parsing bytes of unknown origin as those of the file."""
    try:
        yield
    except StorageError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(
            f"{path} is not a streambits file, or damaged: save the model again"
        ) from error


def _metadata(head: Any, path: Path) -> tuple[str, str]:
    """The manifest and its digest."""
    metadata = head.get("__metadata__", {})
    if KEY not in metadata:
        raise StorageError(f"{path} is a safetensors file, but not of streambits")
    return metadata[KEY], str(metadata.get(DIGEST))


def _checked(entries: dict[str, Any]) -> dict[str, Any]:
    """The entries of arrays, if they are possible."""
    for name, entry in entries.items():
        shape = entry["shape"]
        if entry["dtype"] not in DTYPES or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"{name} is {entry['dtype']} {shape}")
    return entries


def _check_format(number: int, path: Path) -> None:
    if number > FORMAT:
        raise StorageError(
            f"{path} has format {number}, and this version of streambits reads {FORMAT}: upgrade "
            f"streambits"
        )
    if number < FORMAT:
        raise StorageError(
            f"{path} has format {number}, from before the first release: this version reads "
            f"{FORMAT}; learn it again"
        )


def _read(file: BinaryIO, entries: dict[str, Any], _start: int) -> dict[str, NDArray[Any]]:
    """The arrays of a file, in memory; one that ends too early has other digests."""
    arrays = {}
    for name, entry in entries.items():
        content = np.zeros(_size(entry), np.uint8)
        file.readinto(content)  # type: ignore[attr-defined]
        arrays[name] = content.view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def _mapped(file: BinaryIO, entries: dict[str, Any], start: int) -> dict[str, NDArray[Any]]:
    """The arrays of a file, mapped into memory; writing to them leaves the file as it is."""
    content = np.asarray(np.memmap(file, np.uint8, mode="c"))
    arrays = {}
    for name, entry in entries.items():
        end = start + _size(entry)
        arrays[name] = content[start:end].view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
        start = end
    return arrays


def _check_arrays(arrays: dict[str, NDArray[Any]], entries: dict[str, Any], path: Path) -> None:
    for name, array in arrays.items():
        if _digest(array) != entries[name]["digest"]:
            raise _damaged(path, name)
        if not _is_finite(name, array):
            raise StorageError(f"{path} has numbers in {name} that are not finite: learn it again")


def _verify(
    index: HammingIndex, arrays: dict[str, NDArray[Any]], entries: dict[str, Any], path: Path
) -> None:
    """Check what was only mapped so far."""
    _check_arrays(arrays, entries, path)
    try:
        index.check()
    except ValueError as error:
        raise _strange(path, error) from error


def _built(described: Any, arrays: dict[str, NDArray[Any]], path: Path) -> Any:
    """The model that a manifest describes, whose digests are right."""
    try:
        model = _build(described, arrays.__getitem__, path)
    except StorageError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise _strange(path, error) from error
    if not isinstance(model, tuple(MODELS)):
        raise StorageError(f"{path} holds a {type(model).__name__}, not a model")
    return model


def _build(described: Any, array: Callable[[str], Any], path: Path) -> Any:
    if not isinstance(described, dict):
        return described
    if "array" in described:
        return array(described["array"])
    if "dict" in described:
        return {name: _build(value, array, path) for name, value in described["dict"].items()}
    kind = described["kind"]
    if kind == "Tables":  # by which 0.2.0 searched; codes are scanned now
        return None
    if kind not in KINDS:
        raise StorageError(
            f"{path} holds a {kind}, which streambits does not have: pass that class to "
            f"streambits.storage.register; parts of methods that are only compared with are in "
            f"paper/methods of its repository, and 'import paper.methods' registers them"
        )
    return KINDS[kind].from_state(_build(described["state"], array, path))


def _damaged(path: Path, what: str) -> StorageError:
    return StorageError(
        f"{path} is damaged ({what} is not what was saved): restore it, or save the model again"
    )


def _strange(path: Path, error: Exception) -> StorageError:
    """The digests are right, so this is not damage."""
    return StorageError(
        f"{path} is intact, but not what this version of streambits saves ({error!r}): it comes "
        f"from another version, or was made by something else; save the model again"
    )
