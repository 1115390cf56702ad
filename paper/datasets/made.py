"""Data sets that need no file: Uniform, made here, and the digits that come with scikit-learn."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paper.datasets.table import Rows, Table, single
from streambits.errors import MissingExtraError


def uniform(seed: int = 0) -> Rows:
    """The paper's synthetic set: 50 columns, column t uniform on [0, 1 / t^2]."""
    rows = np.random.default_rng(seed).random((60000, 50)) / np.arange(1, 51) ** 2
    return rows.astype(np.float32)


def digits(_: int = 0) -> Rows:
    """The 1797 x 64 handwritten digits that come with scikit-learn."""
    return single(_digits().data)


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


MADE: dict[str, Callable[[int], Table]] = {
    "uniform": lambda seed: Table(uniform(seed)),
    "digits": lambda _: Table(digits(), _digits().target.astype(np.int64)),
}
