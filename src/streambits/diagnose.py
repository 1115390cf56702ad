"""What a sample says about landmarks and bandwidth, before anything is learned."""

import math
from typing import NamedTuple

import numpy as np

from streambits._arrays import Array, as_rows, blocks, double, to_numpy
from streambits.errors import InputError
from streambits.features import Bandwidth, GaussianAffinity
from streambits.features.bandwidth import denominator

LEAST, MOST = 50, 4000  # rows
LANDMARKS = 500  # rows that the bandwidth is taken from: as many as `tune` takes
UNEVEN = 100.0  # ratio: centres clearly help sparse rows at 600 and more, not at 90 and less
REPEATED = 0.1  # share of near-duplicates
BLOCK = 1024  # rows of W at a time
SPARSE = 0.1  # the paper's sparsity distance is 0.1 sigma / ln n
ALONE = 0.01  # sum of squared affinities below which a row has no other near it
NARROW, WIDE = 0.5, 2.0  # rank, as a share of n; and in directions


class Diagnosis(NamedTuple):
    """What a sample says about landmarks and bandwidth.

    W are the Gaussian affinities between all n rows; its diagonal is 1.

    Attributes
    ----------
    n : int
        Number of rows.
    bandwidth : float
        Denominator of the affinities.
    ratio : float
        How much more affinity a row in the densest region has to all others than one in the
        sparsest: largest to smallest sum of its squared affinities, which are the squared column
        norms of W in the paper. It must be moderate for uniform landmarks (Lemma 1).
    distance : float
        0.1 sqrt(bandwidth) / ln n, within which two rows are near-duplicates.
    duplicates : float
        Share of rows with a near-duplicate.
    alone : float
        Share of rows with no other one near.
    rank : float
        Number of directions that W effectively has, from 1 to n.
    """

    n: int
    bandwidth: float
    ratio: float
    distance: float
    duplicates: float
    alone: float
    rank: float

    @property
    def advice(self) -> str:
        """What the figures mean, in a sentence or two."""
        if self.rank > NARROW * self.n:
            return (
                f"At bandwidth {self.bandwidth:.4g} most rows have no other near them, so codes "
                f"cannot tell what is near: pass a larger bandwidth."
            )
        if self.rank < WIDE:
            return (
                f"At bandwidth {self.bandwidth:.4g} nearly all affinities are close to 1, so codes "
                f"cannot tell near from far: pass a smaller bandwidth."
            )
        sentences = [self._on_norms()] if self.ratio > UNEVEN else []
        if self.duplicates > REPEATED:
            sentences.append(self._on_duplicates())
        return " ".join(sentences) or (
            f"The affinity of a row to all others differs by a factor of {self.ratio:.0f}, not too "
            f"much, and near-duplicates are rare: uniform landmarks will do."
        )

    def _on_norms(self) -> str:
        return (
            f"The affinity of a row to all others differs by a factor of {self.ratio:.0f}: uniform "
            f"landmarks are few where rows are sparse, and codes are coarse there. Take more "
            f"landmarks, or k-means centres (streambits.features.centres)."
        )

    def _on_duplicates(self) -> str:
        return (
            f"{self.duplicates:.0%} of the rows have a near-duplicate (within "
            f"{self.distance:.3g}), on which uniform landmarks repeat themselves: draw them from "
            f"distinct rows, or take k-means centres (streambits.features.centres)."
        )


def diagnose(sample: Array, *, bandwidth: Bandwidth | float | None = None) -> Diagnosis:
    """Whether uniform landmarks and this bandwidth suit the data, with advice in words.

    Parameters
    ----------
    sample : array of shape (n, d)
        A uniform sample of the stream, 50 rows or more; of more than 4000, that many are drawn.
    bandwidth : Bandwidth or float, optional
        As in `ssbc`. A rule (default: `nearest(30)`) is measured on 500 rows of the sample, as if
        they were the landmarks.

    Returns
    -------
    Diagnosis
        The figures; its `advice` says what they mean.

    Raises
    ------
    InputError
        If there are fewer than 50 rows.

    Notes
    -----
    Costs n^2 d; memory 1024 n.

    Examples
    --------
    >>> diagnose(np.random.default_rng(0).random((500, 3))).advice.split(": ")[-1]
    'uniform landmarks will do.'
    """
    rows = to_numpy(as_rows(sample, name="sample"))
    if len(rows) < LEAST:
        raise InputError(f"sample has {len(rows)} rows; a diagnosis needs at least {LEAST}")
    rows = rows[np.random.default_rng(0).permutation(len(rows))[:MOST]]
    found = columns(rows, denominator(bandwidth, rows[:LANDMARKS]))._asdict()
    return Diagnosis(**{name: found[name] for name in Diagnosis._fields})


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
