"""The columns of the affinity matrix W, as Lemma 1 has them."""

import math
from typing import NamedTuple

import numpy as np

from streambits._arrays import Array, blocks, double, to_numpy
from streambits.features import Bandwidth, GaussianAffinity

BLOCK = 1024  # rows of W at a time
SPARSE = 0.1  # the paper's sparsity distance is 0.1 sigma / ln n
ALONE = 0.01  # sum of squared affinities below which a row has no other near it


class Columns(NamedTuple):
    """How evenly the columns of the affinity matrix W weigh; C are their squared norms.

    Attributes
    ----------
    n : int
        Number of points.
    bandwidth : float
        Denominator of the affinities.
    ratio : float
        C_max / C_min, which Lemma 1 bounds by a power of log n for sparse points.
    coherence : float
        C_max over the mean of C, from 1 to n; the number of landmarks in Lemma 2 grows with it.
    distance : float
        The sparsity distance, 0.1 sqrt(bandwidth) / ln n.
    duplicates : float
        Share of points with another one within the sparsity distance.
    alone : float
        Share of points without another one near.
    rank : float
        n^2 / ||W||_F^2, from 1 (all affinities are 1) to n (all but the diagonal are 0): the number
        of directions that W effectively has.
    """

    n: int
    bandwidth: float
    ratio: float
    coherence: float
    distance: float
    duplicates: float
    alone: float
    rank: float


def columns(points: Array, bandwidth: Bandwidth | float | None = None) -> Columns:
    """Measure the columns of W, as Lemma 1 has them.

    Parameters
    ----------
    points : array of shape (n, d)
        At least 3.
    bandwidth : Bandwidth or float, optional
        Denominator of the affinities; `nearest(30)` by default.

    Returns
    -------
    Columns
        Costs n^2 d; memory 1024 n.
    """
    rows = to_numpy(double(points))
    features, n = GaussianAffinity(rows, bandwidth), len(rows)
    least = math.exp(-((SPARSE / math.log(n)) ** 2))  # the affinity at the sparsity distance
    norms, twins = [], []
    for block in blocks(rows, BLOCK):
        w = features(block)
        norms.append(np.vecdot(w, w))
        twins.append((w >= least).sum(axis=1) > 1)  # itself is one
    c = np.concatenate(norms)
    return Columns(
        n,
        features.bandwidth,
        float(c.max() / c.min()),
        float(c.max() / c.mean()),
        SPARSE * math.sqrt(features.bandwidth) / math.log(n),
        float(np.concatenate(twins).mean()),
        float((c < 1 + ALONE).mean()),
        float(n / c.mean()),
    )
