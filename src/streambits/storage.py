"""Saving and loading: the only module that knows a file format.

One safetensors file: the arrays, and a JSON manifest in its metadata that says what they are and
carries the format number. No pickle, so loading a file runs nothing from it. A learner's file
contains its landmarks, which are raw rows, and a sample of the rows seen. An index is mapped into
memory, not read: opening it takes the same time for any number of codes, and what is changed in it
afterwards stays in memory until it is saved again.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from streambits._arrays import is_array_api_obj, to_numpy
from streambits._files import replacing
from streambits.coder import Coder
from streambits.coders import Coders, Epoch
from streambits.errors import InputError, StorageError
from streambits.features import (
    Cosines,
    Eigenfunctions,
    GaussianAffinity,
    Linear,
    Reservoir,
    Spheres,
)
from streambits.index import HammingIndex, Tables
from streambits.learner import Learner
from streambits.sketches import Fixed, FrequentDirections, Gram, Guided, HadamardDirections

FORMAT = 1
KEY = "streambits"
ALIGNED = 64  # bytes; the arrays begin at a multiple of it
KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Coder,
        Coders,
        Cosines,
        Eigenfunctions,
        Epoch,
        Fixed,
        FrequentDirections,
        GaussianAffinity,
        Gram,
        Guided,
        HadamardDirections,
        HammingIndex,
        Learner,
        Linear,
        Reservoir,
        Spheres,
        Tables,
    )
}
MODELS: list[type] = [Learner, Coder, Coders, Epoch, HammingIndex]  # what a file may be as a whole
NAMES = {"f": "F", "i": "I", "u": "U"}  # of the kinds of numbers, in safetensors and in NumPy


def register(kind: type, *, model: bool = False) -> type:
    """Make a class of your own storable: it needs `state()` and `from_state(state)`.

    model: it may also be a file of its own, not only a part of one.
    """
    KINDS[kind.__name__] = kind
    if model and kind not in MODELS:
        MODELS.append(kind)
    return kind


def save(model: Any, path: str | Path) -> None:
    """Write a learner, a coder or an index to a file; a crash leaves the old file whole.

    A learner that is loaded and goes on gives the same bits as one that never stopped.
    """
    if not isinstance(model, tuple(MODELS)):
        raise InputError(f"only learners, coders and indexes are saved, not {type(model).__name__}")
    arrays: dict[str, Any] = {}
    manifest = {"format": FORMAT, "model": _describe(model, "model", arrays)}
    with replacing(Path(path)) as file:
        for piece in _content(arrays, json.dumps(manifest)):
            file.write(piece)


def load(path: str | Path) -> Any:
    """The learner, coder or index in a file, on the host."""
    path = Path(path)
    try:
        with safe_open(path, framework="numpy") as file:
            manifest = json.loads((file.metadata() or {}).get(KEY, "null"))
            _check(manifest, path)
            mapped = manifest["model"].get("kind") == HammingIndex.__name__
            model = _build(manifest["model"], _mapped(path) if mapped else file.get_tensor)
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist") from None
    except SafetensorError as error:
        raise StorageError(
            f"{path} is cut off or no streambits file ({error}): save the model again"
        ) from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise StorageError(f"{path} is damaged ({error!r}): save the model again") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    if not isinstance(model, tuple(MODELS)):
        raise StorageError(f"{path} holds a {type(model).__name__}, not a model")
    if isinstance(model, Coders):
        model.store_in(path.parent, load)
    return model


def _check(manifest: Any, path: Path) -> None:
    if not isinstance(manifest, dict) or "format" not in manifest:
        raise StorageError(f"{path} is a safetensors file, but not of streambits")
    if manifest["format"] > FORMAT:
        raise StorageError(
            f"{path} has format {manifest['format']}, and this version of streambits reads up to "
            f"{FORMAT}: upgrade streambits"
        )


def _describe(value: Any, name: str, arrays: dict[str, Any]) -> Any:
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


def _build(described: Any, array: Callable[[str], Any]) -> Any:
    if not isinstance(described, dict):
        return described
    if "array" in described:
        return array(described["array"])
    if "dict" in described:
        return {name: _build(value, array) for name, value in described["dict"].items()}
    kind = described["kind"]
    if kind not in KINDS:
        raise StorageError(
            f"the file holds a {kind}: pass that class to streambits.storage.register"
        )
    return KINDS[kind].from_state(_build(described["state"], array))


def _content(arrays: dict[str, Any], manifest: str) -> Iterable[Any]:
    """A safetensors file in pieces: the length of the head, the head, the arrays, wide ones first.

    Written here and not by the library, which would put it all together in memory.
    """
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    head: dict[str, Any] = {"__metadata__": {KEY: manifest}}
    end = 0
    for name, array in ordered:
        start, end = end, end + array.nbytes
        kind, shape = _kind(array.dtype), list(array.shape)
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(head).encode()
    text += b" " * (-(8 + len(text)) % ALIGNED)
    yield len(text).to_bytes(8, "little")
    yield text
    for _, array in ordered:
        yield array.reshape(-1).view(np.uint8)


def _mapped(path: Path) -> Callable[[str], Any]:
    """Arrays of a file by name, mapped into memory; writing to them leaves the file as it is."""
    content = np.memmap(path, np.uint8, mode="c")
    start = 8 + int.from_bytes(content[:8].tobytes(), "little")
    head = json.loads(content[8:start].tobytes())

    def array(name: str) -> Any:
        low, high = head[name]["data_offsets"]
        values = np.asarray(content)[start + low : start + high]
        return values.view(_dtype(head[name]["dtype"])).reshape(head[name]["shape"])

    return array


def _kind(dtype: np.dtype[Any]) -> str:
    return "BOOL" if dtype == np.bool_ else f"{NAMES[dtype.kind]}{8 * dtype.itemsize}"


def _dtype(kind: str) -> np.dtype[Any]:
    return np.dtype(np.bool_ if kind == "BOOL" else f"{kind[0].lower()}{int(kind[1:]) // 8}")
