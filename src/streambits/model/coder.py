"""Coder: the frozen, shippable half of a learner."""

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import (
    Array,
    CheckedRows,
    array_namespace,
    as_choice,
    as_rows,
    blocks,
    double,
    frozen,
    is_numpy_array,
    take,
    to_device_of,
    to_numpy,
)
from streambits._device import on_device, products
from streambits._threads import cached, one_blas_thread, ordered_map
from streambits.errors import EpochError, InputError, ReachError, ReachWarning
from streambits.features import Affinities, Features, GaussianAffinity
from streambits.kernels.decode import METRICS
from streambits.model.codes import Codes, check_refine
from streambits.model.device import DeviceEncoder
from streambits.model.fused import Fused
from streambits.model.metric import COSINE, EUCLIDEAN, compared, metric_state
from streambits.model.projection import Projection
from streambits.model.refinement import Refinement, restored

BLOCK = 2048  # rows encoded at a time
SMALL = 256  # rows that are not worth two threads
DEVICE_BLOCK = 65536  # the same for arrays that do not live on the host
REACH = 0.01  # affinity to the nearest landmark below which a row is out of reach
REMEDY = (
    "check their scale, or let the model learn rows like these (epochs='auto' then draws new "
    "landmarks)"
)
CROWD, FEWEST, LIKELY = 16, 4, 0.25  # rows, bits, and a share of some rows, that are looked at
WARN_SHARE = 0.1  # share of rows out of reach from which it is worth a warning


class RowQueries(NamedTuple):
    """Queries that keep their rows, so that an index can rank codes by what they decode to.

    Attributes
    ----------
    rows : array of shape (n, d), float64
    coder : Coder
        Decodes the codes that are searched.
    asked : Codes, array of shape (n, bits), or None
        What candidates are found by: bits, or the real values behind them; None where codes have no
        sign bits.
    """

    rows: NDArray[np.float64]
    coder: "Coder"
    asked: Any


class Coder:
    """A frozen function from rows to codes.

    code(x) = pack(sign(features(x) . matrix - thresholds)), and the bytes of a refinement

    Parameters
    ----------
    features : Features
    projection : Projection
        From (n, width) features to (n, bits) values.
    epoch : int, default 0
        Codes compare only within an epoch.
    refinement : Refinement, optional
        Encodes what the bits leave over, so that codes decode to rows.
    metric : {"euclidean", "inner", "cosine"}
        By what rows are near. With "cosine" rows and queries are divided by their lengths, here,
        before anything else, and codes decode to rows of about length one; a row of zeros stays
        as it is. The others take rows as they are; searches rank by the metric.

    Notes
    -----
    A row has the same code alone and in any batch, with any number of threads, on the host and on
    a device: the few bits that lie within the rounding error are decided again in double
    precision, and those still in doubt are decided with the row on its own. Up to 8 float32 rows
    are encoded by one compiled call, without threads.

    Encoding costs n (d m + m bits) multiplications and n m exponentials for m landmarks; memory is
    2048 x m values per thread. Several threads may use one coder.
    """

    def __init__(
        self,
        features: Features,
        projection: Projection,
        epoch: int = 0,
        refinement: Refinement | None = None,
        metric: str = EUCLIDEAN,
    ) -> None:
        self.features = features
        self.metric = as_choice(metric, "metric", METRICS)
        self.projection = projection
        self.epoch = epoch
        self.refinement = refinement
        self._single, self._double = _unit(projection)

    @property
    def bits(self) -> int:
        """Number of sign bits of a code."""
        return self.projection.bits

    @property
    def refine(self) -> int:
        """Bytes of refinement of a code, 0 if it is sign bits alone."""
        return 0 if self.refinement is None else self.refinement.n_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of the features, the projections and the refinement."""
        projections = (self.projection, self._single, self._double)
        parts = [projection.nbytes for projection in projections]
        if self._fused is not None:
            parts.append(self._fused.nbytes)
        if self.refinement is not None:
            parts.append(self.refinement.nbytes)
        return self.features.nbytes + sum(parts)

    def encode(self, rows: Array, *, warn: bool = True) -> Codes:
        """Encode rows.

        Parameters
        ----------
        rows : array of shape (n, d)
        warn : bool
            Whether to warn of rows out of reach.

        Returns
        -------
        Codes
            In the order of the rows, of the coder's epoch.

        Warns
        -----
        ReachWarning
            If a tenth of the rows or more are out of reach of every landmark: see `out_of_reach`.
        """
        rows = CheckedRows(self.checked(rows)) if self.metric == COSINE else rows
        few = self._few(rows.rows if isinstance(rows, CheckedRows) else rows)
        if few is not None:  # none of them is out of reach
            return few
        checked = self.checked(rows)
        if is_numpy_array(checked):
            codes = self.joined(ordered_map(self.encoded, self._blocks(checked)))
        else:
            codes = self.joined([self.encoded(checked)])
        if warn:
            warn_of_reach(self.out_of_reach(checked, codes).sum(), len(codes), "encoded")
        return codes

    def _few(self, rows: Any) -> Codes | None:
        """Codes of a few rows by compiled code, or None."""
        packed = None if self._fused is None else self._fused.few(rows)
        if packed is None or self.refinement is None:
            return None if packed is None else Codes(frozen(packed), self.bits, self.epoch)
        with one_blas_thread():
            return self.joined([self._refined(rows, packed)])

    def out_of_reach(self, rows: Array, codes: Codes, *, crowds: bool = True) -> NDArray[np.bool_]:
        """Find the rows that the model cannot tell apart.

        Rows of another scale or origin than those that were learned all have one code, whatever
        they are. Those that have an affinity of nearly 0 to every landmark do, for which only rows
        with that code are examined; and, by any features, so do those of more than half of 16 rows
        or more that differ and have the same code, of 4 bits or more. It costs next to nothing
        where there are none.

        Parameters
        ----------
        rows : array of shape (n, d)
            Rows that were checked, of any library and precision.
        codes : Codes
            The codes of these rows.
        crowds : bool
            Whether to look for codes that most rows have; otherwise for landmarks alone.

        Returns
        -------
        array of shape (n,), bool
        """
        rows = compared(rows, self.metric)
        found = np.zeros(len(codes), np.bool_)
        suspects = self._suspects(codes)
        for start in range(0, len(suspects), BLOCK):
            some = suspects[start : start + BLOCK]
            like = as_rows(CheckedRows(take(rows, some)), like=self.features.like)
            found[some] = to_numpy(self.features.closest(like)) < REACH  # type: ignore[attr-defined]
        return found | self._crowd(rows, codes) if crowds else found

    def _crowd(self, rows: Array, codes: Codes) -> NDArray[np.bool_]:
        """Which rows have the code that more than half of them have, though they differ."""
        nothing, count = np.zeros(len(codes), np.bool_), len(codes)
        if count < CROWD or self.bits + 8 * self.refine < FEWEST:
            return nothing
        parts = [codes.packed] if codes.refinement is None else [codes.packed, codes.refinement]
        few = [part[:: -(-count // CROWD)] for part in parts]
        same = [(part[:, None] == part[None]).all(axis=2) for part in few]
        common = np.logical_and.reduce(same).mean(axis=1)
        if common.max() <= LIKELY:
            return nothing
        place = int(common.argmax()) * -(-count // CROWD)
        crowd = np.logical_and.reduce([(part == part[place]).all(axis=1) for part in parts])
        if crowd.sum() <= count / 2:
            return nothing
        different = np.unique(to_numpy(take(rows, np.flatnonzero(crowd))), axis=0)
        return crowd if len(different) > count / 2 else nothing

    def _suspects(self, codes: Codes) -> NDArray[np.intp]:
        """Places of codes that rows out of reach have."""
        if not isinstance(self.features, GaussianAffinity):
            return np.empty(0, np.intp)
        packed, far = codes.packed, self._far
        if packed.shape[1] % 8 == 0:  # word by word
            packed, far = packed.view(np.uint64), far.view(np.uint64)
        suspects = np.flatnonzero(packed[:, 0] == far[0])
        return np.asarray(suspects[(packed[suspects] == far).all(axis=1)])

    @cached
    def _far(self) -> NDArray[np.uint8]:
        """The code of a row that is far from every landmark: all its features are 0."""
        thresholds = to_numpy(self.projection.thresholds)
        return np.packbits(-thresholds > 0, bitorder="little")

    def decode(self, codes: Codes) -> NDArray[np.float64]:
        """Return the rows that codes stand for.

        Parameters
        ----------
        codes : Codes
            Of this coder, or of another coder of the same epoch: what codes stand for does not
            change inside an epoch.

        Returns
        -------
        array of shape (n, d), float64
            Where the metric is "cosine", of the rows divided by their lengths.

        Raises
        ------
        InputError, EpochError
            If the coder has no refinement, or the codes are of another length or epoch.
        """
        refinement = self.refinement
        if refinement is None:
            raise InputError(
                "codes of sign bits alone do not decode: learn with refine=8, or another number "
                "of bytes"
            )
        if codes.bits != self.bits:
            raise InputError(f"codes have {codes.bits} bits, and this coder makes {self.bits}")
        check_refine(codes, self.refine, "codes of this coder")
        if codes.epoch != self.epoch:
            raise EpochError(
                f"codes are of epoch {codes.epoch}, and this coder is of {self.epoch}: decode them "
                f"by the coder of theirs"
            )
        assert codes.refinement is not None
        return refinement.decode(codes.packed, codes.refinement)

    def queries(self, rows: Array, *, real: bool = False, warn: bool = True) -> RowQueries:
        """Encode rows for a search that ranks codes by what they decode to.

        Parameters
        ----------
        rows : array of shape (n, d)
        real : bool, default False
            Whether candidates are found by the real values behind the bits, which find more of the
            true neighbours, or by the bits alone, which is faster.
        warn : bool
            As for `encode`.

        Returns
        -------
        RowQueries
            For `HammingIndex.search`.
        """
        if self.refinement is None:
            raise InputError(
                "only codes with a refinement are ranked by what they decode to: learn with "
                "refine=8, or search by encode(rows) or project(rows)"
            )
        own = as_rows(rows, width=self.features.inputs, name="queries")
        own = compared(own, self.metric)
        asked = None
        if self.bits:
            look = self._signs.project if real else self._signs.encode
            asked = look(own, warn=warn)
        return RowQueries(to_numpy(double(own)), self, asked)

    @cached
    def _signs(self) -> "Coder":
        """The same without a refinement, which queries do not need."""
        return Coder(self.features, self.projection, self.epoch, metric=self.metric)

    def project(self, rows: Array, *, warn: bool = True) -> Array:
        """Compute the real values whose signs are the bits, for asymmetric search.

        Parameters
        ----------
        rows : array of shape (n, d)
        warn : bool
            Whether to warn of rows out of reach, as `encode` does.

        Returns
        -------
        array of shape (n, bits)
        """
        checked = self.checked(rows)
        size = BLOCK if is_numpy_array(checked) else DEVICE_BLOCK
        found = list(ordered_map(self._values, blocks(checked, size)))
        values = array_namespace(found[0]).concat(found, axis=0)
        if not warn:
            return values
        signs = Codes.from_bits(to_numpy(values > 0), self.epoch)
        warn_of_reach(self.out_of_reach(checked, signs).sum(), len(signs), "projected")
        return values

    def checked(self, rows: Array) -> Array:
        """Check rows, and return them as this coder compares them.

        Parameters
        ----------
        rows : array of shape (n, d), or CheckedRows

        Returns
        -------
        array of shape (n, d)
            In the library, on the device and in the precision of the features; of length one where
            the metric is "cosine".
        """
        own = as_rows(rows, like=self.features.like, width=self.features.inputs)
        return compared(own, self.metric)

    def _blocks(self, rows: Array) -> list[Array]:
        """Blocks of about one size, in pairs: threads come to their end together."""
        count = int(rows.shape[0])
        pairs = -(-count // (2 * BLOCK))
        return blocks(rows, count if count <= SMALL else -(-count // (2 * pairs)))

    def _values(self, rows: Array) -> Array:
        with products(rows):
            return self.projection(self.features(rows))

    def encoded(self, rows: Array, features: Any = None) -> NDArray[np.uint8]:
        """Encode one block of checked rows.

        Parameters
        ----------
        rows : array of shape (n, d)
        features : array of shape (n, width) or Affinities, optional
            The features of the rows, where they have been computed.

        Returns
        -------
        array of shape (n, ceil(bits / 8) + refine), uint8
            Packed bits, and the refinement beside them; `joined` makes codes of such blocks.
        """
        if not is_numpy_array(rows):
            return self._there(rows, features)
        packed = self._packed(rows, features)
        return packed if self.refinement is None else self._refined(rows, packed)

    def _refined(self, rows: Array, packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Packed signs with the refinement beside them."""
        assert self.refinement is not None
        return np.concatenate([packed, self.refinement.encode(to_numpy(rows), packed)], axis=1)

    def joined(self, blocks: Iterable[NDArray[np.uint8]]) -> Codes:
        """Make codes of what `encoded` returned for one block after another."""
        parts, width = list(blocks), -(-self.bits // 8)
        both = np.concatenate(parts) if len(parts) > 1 else parts[0]
        if self.refinement is None:
            return Codes(frozen(both), self.bits, self.epoch)
        packed, refinement = (frozen(part.copy()) for part in np.split(both, [width], axis=1))
        return Codes(packed, self.bits, self.epoch, refinement)

    def _packed(self, rows: Array, features: Any) -> NDArray[np.uint8]:
        fused = self._fused
        if fused is not None and features is None:
            features = fused.measured(rows)
        if fused is not None and isinstance(features, Affinities):
            return fused.packed(rows, features)
        return np.packbits(self._bits(rows, features), axis=1, bitorder="little")

    @cached
    def _fused(self) -> Fused | None:
        """The compiled way, for affinities on NumPy."""
        features = self.features
        if type(features) is GaussianAffinity and features.exact is not None and self.bits:
            return Fused(features, self._double, REACH)
        return None  # also for a subclass, which may compute something else

    def _bits(self, rows: Array, features: Array = None) -> NDArray[np.bool_]:
        """Signs, with those within the rounding error decided again one level more exactly."""
        if not self.bits:
            return np.zeros((int(rows.shape[0]), 0), np.bool_)
        values, error = self.measured(rows, features)
        bits: NDArray[np.bool_] = values > 0
        unsure = np.flatnonzero(np.min(np.abs(values), axis=1) <= error)
        if len(unsure):
            bits[unsure] = self._decided_again(take(rows, unsure))
        return bits

    def measured(
        self, rows: Array, features: Array = None, noise: Array = None
    ) -> tuple[Array, Array]:
        """Values along directions of length one, and (n,) bounds on their rounding errors.

        A sum of m rounded products errs by about sqrt(m) units of the length of its terms.
        """
        features = self.features(rows) if features is None else features
        xp = array_namespace(features)
        unit = self._single if features.dtype == xp.float32 else self._double
        rounding = float(xp.finfo(features.dtype).eps) / 2
        noise = self.features.noise(rows, features) if noise is None else noise
        relative = noise + 2 * features.shape[1] ** 0.5 * rounding
        if is_numpy_array(features):
            length = np.sqrt(np.vecdot(features, features))
        elif isinstance(self.features, GaussianAffinity) and features.dtype == xp.float64:
            length = features.shape[1] ** 0.5  # at most: in double precision it hardly matters
        else:
            length = xp.linalg.vector_norm(features, axis=1)
        return unit(features), length * relative + 4 * rounding * unit.farthest

    def _decided_again(self, rows: Array) -> NDArray[np.bool_]:
        if self._fused is not None:
            return self._fused.decided(rows)
        if rows.dtype == np.float32:
            return self._bits(rows.astype(np.float64))
        return np.concatenate([self.measured(row[None, :])[0] > 0 for row in rows])

    @cached
    def _there(self) -> DeviceEncoder:
        """What encodes rows that are on a device, where this coder is too."""
        return DeviceEncoder(self, self.on(np.zeros(1)))

    def on(self, like: Array | str) -> "Coder":
        """Return the same coder with its arrays on a device.

        Parameters
        ----------
        like : array or str
            An array in the library and on the device, or the name of a device of torch, as "cuda".

        Returns
        -------
        Coder
            Its codes are the same, bit for bit.
        """
        like = on_device(like)
        projection = Projection(
            to_device_of(self.projection.matrix, like),
            to_device_of(self.projection.thresholds, like),
        )
        features = self.features.on(like)
        return Coder(features, projection, self.epoch, self.refinement, self.metric)

    def state(self) -> dict[str, Any]:
        """Return the contents by name, for `from_state` and files."""
        refinement = None if self.refinement is None else self.refinement.state()
        own = {"features": self.features, "epoch": self.epoch, "refinement": refinement}
        return own | metric_state(self.metric) | self.projection.state()

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Build a coder from what `state` returned."""
        projection = Projection.from_state(state)
        refinement = restored(state["refinement"], projection.bits, state["features"].inputs)
        metric = state.get("metric", EUCLIDEAN)
        return cls(state["features"], projection, state["epoch"], refinement, metric)

    def __repr__(self) -> str:
        more = f" + {self.refine} bytes" if self.refine else ""
        more += "" if self.metric == EUCLIDEAN else f", {self.metric}"
        return f"Coder({self.bits} bits{more}, epoch {self.epoch}, {self.features!r})"


def check_reach(count: int, rows: int, done: str) -> None:
    """Raise ReachError if more than half of rows, of which there are some, are out of reach.

    Parameters
    ----------
    count, rows, done
        As for `warn_of_reach`.
    """
    if rows >= CROWD and count > rows / 2:
        raise ReachError(
            f"{count:,} of {rows:,} rows {done} are out of reach, too far from all landmarks to be "
            f"told apart: {REMEDY}"
        )


def warn_of_reach(count: int, rows: int, done: str) -> None:
    """Issue a ReachWarning if a tenth of the rows or more are out of reach.

    Parameters
    ----------
    count, rows : int
        Numbers of rows out of reach, and of all rows.
    done : str
        What was done with them, for the message.
    """
    if count and count >= WARN_SHARE * rows:
        warnings.warn(
            f"{count:,} of {rows:,} rows {done} are out of reach, too far from all landmarks to be "
            f"told apart: {REMEDY}",
            ReachWarning,
            stacklevel=3,
        )


def _unit(projection: Projection) -> tuple[Projection, Projection]:
    """The projection with columns of length one, which leaves the signs, in both precisions."""
    xp = array_namespace(projection.matrix)
    length = xp.sqrt(xp.sum(projection.matrix**2, axis=0))
    matrix, thresholds = projection.matrix / length, projection.thresholds / length
    single = Projection(xp.astype(matrix, xp.float32), xp.astype(thresholds, xp.float32))
    return single, Projection(matrix, thresholds)
