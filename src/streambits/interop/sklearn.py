"""Streaming Spectral Binary Coding as a scikit-learn transformer."""

# ruff: noqa: ARG002, N803 - X and the unused y are scikit-learn's names

import warnings
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, as_count, as_seed, check_not_masked
from streambits._threads import one_blas_thread
from streambits.errors import LandmarkWarning, MissingExtraError
from streambits.features import GaussianAffinity
from streambits.methods import ssbc
from streambits.methods.method import BITS
from streambits.methods.settings import MethodSettings
from streambits.model.coder import Coder
from streambits.model.codes import Codes
from streambits.model.learner import Learner
from streambits.model.sampling import reservoir
from streambits.sketches import Gram

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingExtraError("scikit-learn", "sklearn") from None

FAINT = 1e-10  # share of the strongest direction's energy below which a direction is rounding


_Parameters: Any = make_dataclass(
    "_Parameters",
    [(f.name, f.type, field(default=f.default)) for f in fields(MethodSettings)],
    kw_only=True,
)


@dataclass(eq=False, repr=False, kw_only=True)
class SSBC(_Parameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Rows to binary codes, learned in one pass; `streambits.ssbc` behind fit and transform.

    The codes are those of `streambits.ssbc` with the same landmarks and seed, bit for bit: after
    `fit`, and after `partial_fit` over any split of the rows. A row has the same code alone and in
    any batch. Codes given out between calls of `partial_fit` compare with later ones of the same
    epoch; `encode` gives codes that know theirs.

    Parameters
    ----------
    bits : int, default=None
        Length of the codes. None: 64, or as many as the landmarks have independent directions.
        A number beyond what the data allow is an error.
    landmarks : array-like of shape (m, n_features), default=None
        A uniform sample of the rows to come. None: drawn, by `fit` from all rows, by `partial_fit`
        from its first batch, with a LandmarkWarning unless `epochs` is 'auto', the default.
    n_landmarks : int, default=500
        How many to draw at most; of fewer rows, all become landmarks.
    bandwidth : float or streambits.bandwidth.Bandwidth, default=None
        Denominator of the affinity. None: `streambits.bandwidth.nearest(30)`.
    whitening : float, default=None
        From 0 (the paper) to 1. None: 0.5, or 0.75 with `refine`.
    rotation : {'itq', 'random', 'uniform', 'none'}, default=None
        How directions are rotated before they become bits. None: 'itq'.
    epsilon : float, default=None
        The sketch has bits + bits / epsilon rows. None: 1.
    half_life : float, default=None
        Rows after which a row counts half. None: never.
    epochs : {'auto', 'never'} or int, default=None
        None is 'auto': where the stream moves away from the landmarks, others are drawn from all
        rows seen and a new epoch begins, whose codes do not compare with earlier ones; a number:
        after so many rows.
    refine : int, default=None
        Bytes beside the bits of a code, so that `encode` gives codes that `decode` to rows.
        None: 0.
    certified : bool, default=None
        Whether one byte more bounds the distance of a row from what its code decodes to.
    paper : bool, default=False
        The paper's algorithm to the letter: whitening and rotation are not used, and codes given
        out between calls of `partial_fit` do not compare.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks and the rotation. An int is the `seed` of `streambits.ssbc`.

    Attributes
    ----------
    learner_ : streambits.Learner
        What goes on learning; its landmarks are raw rows.
    coder_ : streambits.Coder
        The coder for all rows learned so far.
    bits_ : int
        Length of the codes.
    n_features_in_ : int
        Columns of the rows.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where they are all strings.

    Examples
    --------
    >>> rows = np.random.default_rng(0).random((1000, 8))
    >>> model = SSBC(bits=16, n_landmarks=100, random_state=0).fit(rows)
    >>> model.transform(rows).shape, model.encode(rows)
    ((1000, 16), Codes(1000 x 16 bits, epoch 0))
    """

    bits: int | None = field(default=None, kw_only=False)
    landmarks: Array = None
    n_landmarks: int = 500
    paper: bool = False
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw landmarks uniformly from X (n, d), unless given, then learn all of X."""
        rows = self._checked(X, first=True)
        learner = self._new_learner(rows).learn(rows)
        if learner.epoch:  # X was sorted: landmarks from all of it again
            learner.renew()
        learner.coder()  # more bits than the rank allows fail here
        self.learner_ = learner
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on learning with X (n, d); the first call draws the landmarks, unless given."""
        first = not hasattr(self, "learner_")
        rows = self._checked(X, first=first)
        if first and self.landmarks is None and self.epochs not in (None, "auto"):
            warnings.warn(_prefix(len(rows), self.n_landmarks), LandmarkWarning, stacklevel=2)
        learner = self._new_learner(rows) if first else self.learner_
        self.learner_ = learner.learn(rows)
        return self

    def transform(self, X: Any) -> NDArray[np.bool_]:
        """(n, bits_) truth values.

        Of type bool: a byte each, as the jaccard and hamming metrics want them, and estimators
        that calculate turn them to floats; differences of unsigned bytes would wrap around.
        """
        return self.encode(X).unpack()

    def encode(self, X: Any) -> Codes:
        """The same bits packed, 8 per byte, with `hamming`; and the bytes that refine them."""
        check_is_fitted(self)
        return self.coder_.encode(self._checked(X))

    def decode(self, codes: Codes) -> NDArray[np.float64]:
        """(n, n_features_in_) rows that codes with a refinement stand for."""
        check_is_fitted(self)
        return self.coder_.decode(codes)

    def project(self, X: Any) -> Array:
        """(n, bits_) real values whose signs are the bits, for asymmetric search."""
        check_is_fitted(self)
        return self.coder_.project(self._checked(X))

    @property
    def coder_(self) -> Coder:
        """The coder for all rows learned so far."""
        return self.learner_.coder()

    @property
    def bits_(self) -> int:
        """Length of the codes."""
        return self.learner_.bits

    @property
    def _n_features_out(self) -> int:
        return self.bits_

    def _checked(self, X: Any, *, first: bool = False) -> Array:
        """Rows by scikit-learn's rules; streambits itself chooses their precision."""
        check_not_masked(X, "X")
        least = 2 if first and self.landmarks is None else 1
        return validate_data(self, X, reset=first, dtype="numeric", ensure_min_samples=least)

    def _new_learner(self, rows: Array) -> Learner:
        seed = _seed(self.random_state)
        landmarks = self.landmarks
        if landmarks is None:
            wanted = as_count(self.n_landmarks, "n_landmarks", least=2)
            draw = np.random.default_rng([seed, 1])  # apart from the learner's own sample
            landmarks = reservoir([rows], min(wanted, len(rows)), seed=draw)
        bits = self.bits
        if bits is None:
            features = GaussianAffinity(landmarks, self.bandwidth)
            bits = _possible_bits(features, centred=not self.paper)
        settings = MethodSettings(**{f.name: getattr(self, f.name) for f in fields(MethodSettings)})
        return ssbc(landmarks, bits, paper=self.paper, seed=seed, **settings.arguments())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # the output is bool
        return tags


def _seed(random_state: Any) -> int:
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(2**31))
    return as_seed(random_state)


def _possible_bits(features: GaussianAffinity, *, centred: bool) -> int:
    """64, or the number of directions that the landmarks' affinities clearly have."""
    own = Gram(features.width, centred=centred)
    with one_blas_thread():
        own.update(features(features.landmarks))
        energies = own.directions(1, extra=BITS - 1).energies
    return int((energies > FAINT * energies[0]).sum())


def _prefix(rows: int, wanted: int) -> str:
    return (
        f"{min(rows, wanted)} landmarks are drawn from the {rows} rows of the first batch; if the "
        f"stream is sorted or drifts, these are not a uniform sample of it and the codes suffer: "
        f"pass landmarks=streambits.reservoir(stream, {wanted}), or epochs='auto'"
    )
