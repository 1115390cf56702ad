"""Data sets by name, and how a stream is cut from one.

`uniform` is made here, `digits` comes with scikit-learn; the others are read from the folder that
STREAMBITS_DATA names.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.errors import InputError, MissingExtraError

Rows = NDArray[Any]


class Stream(NamedTuple):
    """train: (m, d) landmarks, a uniform sample; rows: (n, d) the stream, disjoint from it."""

    train: Rows
    rows: Rows


def uniform(seed: int = 0) -> Rows:
    """The paper's synthetic set: 50 columns, column t uniform on [0, 1 / t^2]."""
    rows = np.random.default_rng(seed).random((60000, 50)) / np.arange(1, 51) ** 2
    return rows.astype(np.float32)


def digits(_: int = 0) -> Rows:
    """The 1797 x 64 handwritten digits that come with scikit-learn."""
    return np.asarray(_digits().data, np.float32)


def digit_labels(rows: Rows) -> NDArray[np.intp]:
    """(n,) which digit each row of `digits` shows, whatever their order."""
    bundle = _digits()
    images = bundle.data.astype(rows.dtype)
    label = {image.tobytes(): digit for image, digit in zip(images, bundle.target, strict=True)}
    return np.array([label[row.tobytes()] for row in rows], np.intp)


def _digits() -> Any:
    try:
        from sklearn.datasets import load_digits  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("scikit-learn", "sklearn") from None
    return load_digits()


def _covtype(file: Any) -> Rows:
    rows: Rows = file["X"]
    return rows


def _cbm(file: Any) -> Rows:
    """Standardised; its two constant columns stay zero."""
    rows = np.asarray(file["X"], np.float64)
    spread = rows.std(axis=0)
    standard = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return np.asarray(standard, np.float32)


def _sift(file: Any) -> Rows:
    return np.concatenate([file["base"], file["learn"]]).astype(np.float32)


def _plain(file: Any) -> Rows:
    return np.asarray(file["X"], np.float32)


FILES: dict[str, tuple[str, Callable[[Any], Rows]]] = {
    "covtype": ("covtype60k.npz", _covtype),
    "cbm": ("cbm_naval.npz", _cbm),
    "dsads": ("dsads60k.npz", _plain),
    "mnist": ("mnist70k.npz", _plain),
    "sift": ("siftsmall.npz", _sift),
}
SIZES = {  # landmarks and rows that every experiment takes; those of the paper where it has them
    "uniform": (500, 10000),
    "covtype": (500, 20000),
    "cbm": (200, 11000),
    "dsads": (100, 21000),
    "sift": (1000, 30000),
    "mnist": (1000, 60000),
}
MADE: dict[str, Callable[[int], Rows]] = {"uniform": uniform, "digits": digits}


def folder() -> Path:
    """Where data files are looked for."""
    return Path(os.environ.get("STREAMBITS_DATA", "data"))


def available(name: str) -> bool:
    """Whether the data set can be loaded here."""
    return name in MADE or (name in FILES and (folder() / FILES[name][0]).exists())


def load(name: str, *, seed: int = 0) -> Rows:
    """All rows of a data set."""
    if name in MADE:
        return MADE[name](seed)
    if name not in FILES:
        raise InputError(f"there is no data set {name!r}; choose from {', '.join((*MADE, *FILES))}")
    file, read = FILES[name]
    path = folder() / file
    if not path.exists():
        raise InputError(
            f"the data set {name} is read from {file}, which is not in {folder()}: "
            f"put it there, or name its folder in STREAMBITS_DATA"
        )
    with np.load(path) as arrays:
        return read(arrays)


def stream(name: str, landmarks: int, length: int, *, seed: int = 0) -> Stream:
    """A shuffled stream of at most `length` rows, and landmarks drawn from the rest."""
    rows = load(name, seed=seed)
    if landmarks >= len(rows):
        raise InputError(f"{name} has {len(rows)} rows: ask for fewer than {landmarks} landmarks")
    order = np.random.default_rng(seed).permutation(len(rows))
    return Stream(rows[order[:landmarks]], rows[order[landmarks : landmarks + length]])
