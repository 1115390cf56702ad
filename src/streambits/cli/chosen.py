"""What `tune` has chosen, in the words of the verbs that learn."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streambits._digests import seal_text
from streambits._files import replacing
from streambits.errors import StorageError
from streambits.tune import Choice

VERBS = ("learn", "online")


def settings(choice: Choice, bits: int) -> dict[str, Any]:
    """All of a choice, by the names of the options."""
    method = {"method": "ssbc" if choice.kernel else "linear", "bits": bits}
    rounding = {"whitening": choice.whitening, "rotation": choice.rotation}
    if not choice.kernel:
        return method | rounding
    landmarks = {"n_landmarks": choice.n_landmarks, "landmarks_by": choice.landmarks_by}
    return method | landmarks | {"bandwidth_factor": choice.factor} | rounding


def toml(told: Mapping[str, Any]) -> str:
    """Settings as a table for each verb that learns.

    >>> print(toml({"method": "linear", "whitening": 0.5}))
    [learn]
    method = "linear"
    whitening = 0.5
    <BLANKLINE>
    [online]
    method = "linear"
    whitening = 0.5
    <BLANKLINE>
    """
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in told.items())
    return "\n".join(f"[{verb}]\n{lines}" for verb in VERBS)


def command(rows: str, reading: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    """The line to type: the same rows, read as they were, and the settings.

    >>> command("a b.csv", {"ids": "key", "columns": None}, {"bits": 8, "bandwidth_factor": 4.0})
    "streambits learn 'a b.csv' --ids key --bits 8 --bandwidth-factor 4 --out model/"
    """
    given = {name: value for name, value in reading.items() if value is not None}
    words = [
        word
        for name, value in {**given, **told, "out": "model/"}.items()
        for word in (f"--{name.replace('_', '-')}", _text(value))
    ]
    return shlex.join(["streambits", "learn", rows, *words])


def check_new(path: Path) -> None:
    """Refuse to write where somebody's settings are, or where nothing can be."""
    if path.exists():
        raise StorageError(f"{path} exists: choose another name, or remove it")
    if not path.parent.is_dir():
        raise StorageError(f"{path} cannot be written: there is no folder {path.parent}")


def write(path: Path, told: Mapping[str, Any]) -> None:
    """A file that --settings takes, whole or not at all."""
    with replacing(path) as file:
        file.write(seal_text(toml(told)).encode())


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
