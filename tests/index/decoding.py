"""Coders of refined codes for tests, and what their codes decode to."""

from functools import cache

import numpy as np
import pytest

import streambits as sb
from streambits import HammingIndex
from streambits.kernels.far import FAR
from streambits.model.coder import Coder

METRICS = ("euclidean", "inner", "cosine")
BITS = (0, 5, 64, 70)
WIDTH = 24  # columns, more than a screen has directions
everything = pytest.mark.parametrize("bits", BITS)


def draw(rng, count, length=None):
    """Rows of few directions around a centre that is not 0, some of them equal.

    length: of all rows, if they are to have one.
    """
    rows = rng.standard_normal((count, 6)) @ np.random.default_rng(99).standard_normal((6, WIDTH))
    rows += 2 + 0.3 * rng.standard_normal((count, WIDTH))
    if length:
        rows *= length / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows[rng.integers(count, size=count)]


@cache
def coder_of(bits, epoch=0, *, certified=False, n_bytes=3, kind=np.float64, length=None):
    """A coder of an epoch, which has learned rows of its own."""
    rng = np.random.default_rng([bits, epoch])
    rows = draw(rng, 1000, length).astype(kind)
    if bits:
        settings = {"refine": n_bytes, "certified": certified, "seed": epoch}
        made = sb.ssbc(rows[:100], bits, **settings).learn(rows).coder()
    else:
        made = sb.methods.product(rows[:100], refine=n_bytes, certified=certified, seed=epoch)
        made = made.learn(rows).coder()
    return Coder(made.features, made.projection, epoch, made.refinement)


def distances(rows, query, metric):
    """Row by row, as the metrics are defined."""
    if metric == "euclidean":
        return np.linalg.norm(rows - query, axis=1)
    if metric == "inner":
        return -np.array([row @ query for row in rows])
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    return np.array(
        [1 - row @ query / size if size else 1.0 for row, size in zip(rows, lengths, strict=True)]
    )


def decoded_distances(coder, codes, query, metric):
    """Of equal codes exactly equal."""
    both = np.concatenate([codes.packed, codes.refinement], axis=1)
    _, first, own = np.unique(both, axis=0, return_index=True, return_inverse=True)
    return distances(compared_rows(coder, codes[first]), query, metric)[own.ravel()]


def compared_rows(coder, codes):
    """Decoded rows; where all rows have one length, those of codebooks brought to it."""
    rows, length = coder.decode(codes), coder.refinement.length
    if length:
        near = codes.refinement[:, 0] != FAR
        near |= coder.refinement.far is None
        rows[near] *= length / np.linalg.norm(rows[near], axis=1, keepdims=True)
    return rows


def candidates_of(held, query, count, real):
    """The nearest by bits, or by real values, equal ones by id; held: coder, ids, codes."""
    coder, ids, codes = held
    if count == "all" or not coder.bits:
        return np.arange(len(ids))
    bits, own = np.unique(codes.unpack(), axis=0, return_inverse=True)
    values = np.asarray(coder.project(query[None]))[0]
    cost = np.abs(values) if real else np.ones(coder.bits)
    far = (bits != (values > 0)) @ cost
    return np.lexsort((ids, far[own.ravel()]))[:count]


def filled(coder, rows, ids, parts=1):
    index = HammingIndex(coder.bits, refine=coder.refine)
    for some in np.array_split(np.arange(len(rows)), parts):
        index.add(coder.encode(rows[some]), ids[some])
    return index
