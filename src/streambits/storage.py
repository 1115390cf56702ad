"""Saving and loading: the only module that knows a file format.

One safetensors file: the arrays, and a JSON manifest in its metadata that says what they are and
carries the format number. No pickle, so loading a file runs nothing from it. A learner's file
contains its landmarks, which are raw rows, and a sample of the rows seen.
"""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from streambits._arrays import is_array_api_obj, to_numpy
from streambits.coder import Coder
from streambits.errors import InputError, StorageError
from streambits.features import (
    Cosines,
    Eigenfunctions,
    GaussianAffinity,
    Linear,
    Reservoir,
    Spheres,
)
from streambits.learner import Learner
from streambits.sketches import Fixed, FrequentDirections, Gram, Guided, HadamardDirections

FORMAT = 1
KEY = "streambits"
KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Coder,
        Cosines,
        Eigenfunctions,
        Fixed,
        FrequentDirections,
        GaussianAffinity,
        Gram,
        Guided,
        HadamardDirections,
        Learner,
        Linear,
        Reservoir,
        Spheres,
    )
}


def register(kind: type) -> type:
    """Make a class of your own storable: it needs `state()` and `from_state(state)`."""
    KINDS[kind.__name__] = kind
    return kind


def save(model: Learner | Coder, path: str | Path) -> None:
    """Write a learner or a coder to a file, all at once: a crash leaves the old file whole.

    A learner that is loaded and goes on gives the same bits as one that never stopped.
    """
    if not isinstance(model, Learner | Coder):
        raise InputError(f"only learners and coders are saved, not {type(model).__name__}")
    arrays: dict[str, Any] = {}
    manifest = {"format": FORMAT, "model": _describe(model, "model", arrays)}
    _replace(Path(path), to_bytes(arrays, metadata={KEY: json.dumps(manifest)}))


def load(path: str | Path) -> Any:
    """The learner or coder in a file, on the host."""
    path = Path(path)
    try:
        with safe_open(path, framework="numpy") as file:
            manifest = json.loads((file.metadata() or {}).get(KEY, "null"))
            _check(manifest, path)
            model = _build(manifest["model"], file.get_tensor)
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist") from None
    except SafetensorError as error:
        raise StorageError(
            f"{path} is cut off or no streambits file ({error}): save the model again"
        ) from error
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise StorageError(f"{path} is damaged ({error!r}): save the model again") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    if not isinstance(model, Learner | Coder):
        raise StorageError(f"{path} holds a {type(model).__name__}, not a learner or a coder")
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


def _replace(path: Path, content: bytes) -> None:
    """Write beside the file, then rename."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    try:
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)
