"""Smooth functions that tell labelled classes apart (Fergus, Weiss & Torralba 2009)."""

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_number
from streambits.errors import InputError

UNKNOWN = -1


def class_functions(
    values: NDArray[np.float64],
    eigenvalues: NDArray[np.float64],
    labels: object,
    trust: float = 1.0,
) -> NDArray[np.float64]:
    """(m, c) coefficients alpha of functions f = U alpha, one a class: positive in it.

    For a class, y is +1 in it and -1 in the others, and alpha minimises
    alpha' Sigma alpha + (U alpha - y)' Lambda (U alpha - y). Lambda shares `trust` out equally
    between the class and the others, and leaves unlabelled rows out. Of two classes one function
    says all.

    values: U (n, m), eigenfunctions at n rows; eigenvalues: (m,), the diagonal of Sigma; labels:
    (n,) whole numbers, -1 where unknown.
    """
    known, trust = _checked(labels, len(values)), as_number(trust, "trust", above=0)
    classes = np.unique(known[known != UNKNOWN])
    if len(classes) < 2:
        raise InputError(f"labels name {len(classes)} class(es); at least 2 can be told apart")
    wanted = classes[1:] if len(classes) == 2 else classes
    return np.stack([_solve(values, eigenvalues, known, c, trust) for c in wanted], axis=1)


def _solve(
    values: NDArray[np.float64],
    eigenvalues: NDArray[np.float64],
    labels: NDArray[np.int64],
    wanted: int,
    trust: float,
) -> NDArray[np.float64]:
    """(Sigma + U' Lambda U) alpha = U' Lambda y."""
    inside, outside = labels == wanted, (labels != wanted) & (labels != UNKNOWN)
    signs = inside.astype(np.float64) - outside
    weights = trust / 2 * (inside / inside.sum() + outside / outside.sum())
    weighted = values.T * weights
    return np.linalg.solve(np.diag(eigenvalues) + weighted @ values, weighted @ signs)


def _checked(labels: object, count: int) -> NDArray[np.int64]:
    array = np.asarray(labels)
    if array.shape != (count,) or array.dtype.kind not in "iub":
        raise InputError(
            f"labels must be {count} whole numbers, one a row of sample, -1 where unknown; got "
            f"shape {array.shape} and type {array.dtype}"
        )
    known = array.astype(np.int64)
    if known.min() < UNKNOWN:
        raise InputError(f"a label is {known.min()}; classes count from 0, -1 is unknown")
    return known
