"""Learner: the mutable model. It sees each row once and produces frozen coders."""

import logging
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from streambits._arrays import (
    Array,
    CheckedRows,
    array_namespace,
    as_choice,
    as_count,
    as_number,
    as_rows,
    as_seed,
    blocks,
    double,
    is_numpy_array,
    moved,
    nbytes,
    same,
    to_device_of,
    to_numpy,
)
from streambits._device import on_device, products
from streambits._threads import ForkSafeLock, one_blas_thread, ordered_map, synchronized
from streambits.errors import InputError, MergeError, RankError
from streambits.features import Features, GaussianAffinity, measured
from streambits.kernels.quantise import CENTRES
from streambits.model.coder import REACH, Coder, warn_of_reach
from streambits.model.codes import Codes, as_bits
from streambits.model.metric import EUCLIDEAN, compared, metric_state
from streambits.model.projection import Fitted, Fitting, Projection, no_directions
from streambits.model.quantiser import MOST_BYTES
from streambits.model.refinement import Refinement, check_supported, restored
from streambits.model.renewal import Monitor, check_enough, drawn, extrapolated, rebuilt, renewable
from streambits.model.rotations import ROTATIONS
from streambits.model.sampling import Blocks, Reservoir
from streambits.model.shards import check_no_copies, check_same, check_same_features
from streambits.sketches import Gram, Sketch

REACH_STEP = 64  # rows, of which one is examined for being out of reach
BLOCK = 2048  # rows learned at a time, whatever the size of the batches they come in
MOST_THERE, VALUES_THERE = 1 << 18, 1 << 27  # rows on a device, and features of them, at most
TOGETHER = 4  # blocks, of which the sample draws at once
CODER_BYTES = 8 + 2 * (
    8 + 4
)  # of a coefficient of the last coder: plain; scaled, for NumPy and kernels
MOVED, MIN_MISSED = 1.5, 1e-3  # what a coder misses, over what it did, from which it is renewed
LIGHT = 16  # times the weight of the prior, or of rows that wait: a coder then does without them
PIECE = 512  # rows of the sample projected at a time
EASED = 1024  # rows of the sample to which the rotation of a later coder is eased
SAMPLE_ROWS = 5000  # rows kept for fitting rotation and refinement; more add nothing
OUTGROWN = 4  # times the rows of a refinement, from which it is worth replacing
SETTINGS = ("bits", "whitening", "rotation", "steady", "refine", "certified", "seed")

R = TypeVar("R")

logger = logging.getLogger("streambits")


class _Task(NamedTuple):
    """A block of rows, and what is done with it."""

    rows: Array
    learns: bool = True
    encodes: bool = True


class Learner:
    """Features, a sketch, a rotation and a bounded sample of the rows: what learns from a stream.

    Methods such as `streambits.methods.ssbc` build it.

    Parameters
    ----------
    features : Features
        From rows (n, d) to (n, width).
    sketch : Sketch
        Learns the directions of the features. It belongs to the learner from then on.
    bits : int
        Length of the codes.
    whitening : float, default 0.5
        Exponent of the division by singular values, from 0 (the paper) to 1.
    rotation : {"itq", "random", "uniform", "none"}, default "itq"
        How directions are rotated: fitted on the sample, at random, to bits of equal variance.
    steady : bool, default True
        Whether every later coder of an epoch is rotated to match the last one, so that their codes
        compare.
    prior : array of shape (m, d), optional
        Rows (usually the landmarks) that count once beside the stream, so that there is a coder
        before the first row, until the stream weighs 16 times as much. Merging shards of one prior
        still counts it once.
    reference : array of shape (n, d), optional
        Rows like those to come, on which the first refinement is fitted while the sample is not
        full.
    sample : int, default 5000
        Rows kept for fitting the rotation and drawing new landmarks.
    refine : int, default 0
        Bytes that refine a code, at most 256, so that codes decode to rows: `Refinement`. They are
        fitted on the sample at the first coder of an epoch, and then stay as they are, so that all
        codes of an epoch decode. Only then may `bits` be 0.
    certified : bool, default False
        Whether one byte more bounds the distance of a row from what its code decodes to.
    monitor : Monitor, optional
        Decides when the stream has changed and a new epoch is due (`streambits.epochs`). Without
        one, only `renew` and `new_epoch` publish an epoch.
    seed : int or Generator, default 0
        Seed of the sample, the rotation and new landmarks.

    Attributes
    ----------
    metric : {"euclidean", "inner", "cosine"}
        By what rows are near, as for `Coder`: with "cosine" all rows that come are divided by their
        lengths. "euclidean" unless the setting `metric` of `Method` and `Settings` says otherwise,
        which has the landmarks treated in the same way.

    Raises
    ------
    InputError
        If a setting is out of its limits, or the sketch has fewer directions than `bits`.

    Notes
    -----
    Any split of the stream into batches, and any number of threads, gives the same learner: rows
    are learned in blocks of 2048, and those still waiting are counted whenever it is read. Memory
    is fixed at construction (`nbytes`). Invalid rows raise before anything has changed.

    Several threads may use one learner. One of them is inside at a time, and the rows of one call
    stay together: the result is that of the same calls one after the other, in some order. What is
    read is a copy that later rows do not change. A child process that was forked while another
    thread was inside raises `ForkError`.

    References
    ----------
    Ghashami & Abdullah, "Binary Coding in Stream".
    """

    def __init__(
        self,
        features: Features,
        sketch: Sketch,
        *,
        bits: int,
        whitening: float = 0.5,
        rotation: str = "itq",
        steady: bool = True,
        prior: Array = None,
        reference: Array = None,
        sample: int = SAMPLE_ROWS,
        refine: int = 0,
        certified: bool = False,
        monitor: Monitor | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        self._lock = ForkSafeLock()
        self.features = features
        self.metric = EUCLIDEAN
        self.refine = as_count(refine, "refine", least=0, most=MOST_BYTES)
        self.certified = _as_certified(certified, self.refine)
        self.bits = as_bits(bits, least=0 if self.refine else 1)
        self.whitening = as_number(whitening, "whitening", least=0, most=1)
        self.rotation = as_choice(rotation, "rotation", ROTATIONS)
        self.steady = bool(steady) and sketch.learns
        self.seed = as_seed(seed)
        self.epoch = 0
        if sketch.width != features.width:
            raise InputError(
                f"the features have {features.width} columns and the sketch {sketch.width}"
            )
        if self.bits > sketch.capacity:
            raise InputError(
                f"bits is {self.bits}, and {features.width} features give at most "
                f"{sketch.capacity} directions: ask for at most {sketch.capacity} bits, or use a "
                f"method of landmarks, such as ssbc, with more than {self.bits} of them"
            )
        self._sketch = sketch
        self._monitor = monitor
        size = sample if self.rotation == "itq" or monitor or self.refine else 1
        if self.refine:
            check_supported(self.refine, size)
        self._sample = self._empty_sample(max(size, monitor.recent) if monitor else size)
        self._blocks = self._no_blocks()
        self._full: list[Array] = []  # at most one block, which waits for the next
        self._coder: Coder | None = None
        self._missed: float | None = None  # by that coder, when it was made
        self._refinement: Refinement | None = None  # of this epoch
        self._fitted = 0  # rows that were known when it was fitted
        self._more: Array = None  # rows beside the sample that the next refinement is fitted on
        if self.refine and reference is not None:
            self._more = self._checked(reference)
        self._stale = True
        self._prior_rows = self._blocks.rows if prior is None else self._checked(prior)
        self._prior = sketch.fresh()
        if prior is not None:
            with one_blas_thread():
                self._prior.update(features(self._prior_rows))

    def _no_blocks(self) -> Blocks:
        size = BLOCK
        if not is_numpy_array(self.features.like):
            rows = min(MOST_THERE, VALUES_THERE // self.features.width)
            size = max(BLOCK, 1 << (rows.bit_length() - 1))
        return Blocks(size, self.features.inputs, self.features.like)

    def _empty_sample(self, size: int, partition: int | None = None) -> Reservoir:
        inputs, half_life = self.features.inputs, self._sketch.half_life
        seed = [self.seed, 1]  # not the keys that drew the landmarks
        if partition is not None:
            seed.append(partition + 1)  # NumPy adds zeros: one more would be no other seed
        return Reservoir(
            size,
            self.features.like,
            inputs=inputs,
            half_life=half_life,
            seed=seed,
            by_first_row=partition is None,
        )

    # Learning

    @synchronized
    def learn(self, rows: Array) -> Self:
        """Learn rows.

        With `epochs`, a new epoch may begin in the middle of them: `epoch` is then higher.

        Parameters
        ----------
        rows : array of shape (n, d)

        Returns
        -------
        Learner
            The learner itself.

        Raises
        ------
        InputError
            If the rows are not finite numbers of d columns; nothing has changed then.
        """
        rows = self._checked(rows)
        while rows.shape[0]:
            rows = rows[self._take(rows, self._learned) :, :]
        return self

    @synchronized
    def learn_and_encode(self, rows: Array, coder: Coder) -> Codes:
        """Learn rows up to where a new epoch begins, and no further, and encode them.

        Parameters
        ----------
        rows : array of shape (n, d)
        coder : Coder
            The coder of the rows before.

        Returns
        -------
        Codes
            Of the rows that were learned, at most n: the codes of `coder.encode`. Blocks that lie
            whole in the rows have their features computed once for both.
        """
        return self._take(self._checked(rows), lambda some: self._encoded(some, coder))

    def _take(self, rows: Array, work: Callable[[Array], R]) -> R:
        """Let `work` learn the rows up to where a new epoch is due, and begin that."""
        last = self._coder.projection if self._coder and self.bits else None
        due = self._monitor.until(rows, last, self.epoch) if self._monitor else None
        self._stale = True
        found = work(rows if due is None else rows[:due, :])
        if due is not None:
            self._renew(changed=True)
        return found

    def _learned(self, rows: Array) -> int:
        self._absorb([_Task(block, encodes=False) for block in self._cut(rows)])
        return int(rows.shape[0])

    def _encoded(self, rows: Array, coder: Coder) -> Codes:
        """Learn and encode rows; blocks may begin with rows that waited."""
        full = self._cut(rows)
        if not full or coder.features is not self.features:
            self._absorb([_Task(block, encodes=False) for block in full])
            return coder.encode(CheckedRows(rows), warn=False)
        size, end = self._blocks.size, int(rows.shape[0]) - self._blocks.waiting
        start, earlier = end % size, len(full) - end // size  # rows, blocks
        piece = PIECE if is_numpy_array(rows) else size
        tasks = [
            *(_Task(block, encodes=False) for block in full[:earlier]),
            *(_Task(part, learns=False) for part in blocks(rows[:start, :], piece)),
            *(_Task(block) for block in full[earlier:]),
            *(_Task(part, learns=False) for part in blocks(rows[end:, :], piece)),
        ]
        return coder.joined(self._absorb(tasks, coder))

    def _cut(self, rows: Array) -> list[Array]:
        """The blocks that are to be learned now that rows have come.

        A single one waits for the next, or for whoever reads what was learned, so that two threads
        learn one each. It has to be a copy, as are those that begin with rows that waited.
        """
        copied = self._full or self._blocks.waiting
        full = [*self._full, *self._blocks.cut(rows)]
        single = len(full) == 1 and copied and is_numpy_array(full[0])
        self._full = full if single else []
        return [] if single else full

    def _catch_up(self) -> None:
        """Learn a block that waits for the next: to be called before what was learned is read."""
        full, self._full = self._full, []
        self._absorb([_Task(block, encodes=False) for block in full])

    def _checked(self, rows: Array) -> Array:
        rows = as_rows(rows, like=self.features.like, width=self.features.inputs)
        rows = compared(rows, self.metric)
        return np.ascontiguousarray(rows) if is_numpy_array(rows) else rows

    def _absorb(self, tasks: "list[_Task]", coder: Coder | None = None) -> list[Any]:
        """Learn and encode blocks; returns what `coder.encoded` makes of those to be encoded."""

        def work(task: _Task) -> tuple[Any, Any, Any]:
            block = task.rows
            if not task.learns:
                return None, coder and coder.encoded(block), 0
            with products(block):
                features, found = measured(self.features, block)
            encoded = coder.encoded(block, found) if coder and task.encodes else None
            far = self._is_out_of_reach(features)
            if features is not found and isinstance(self._sketch, Gram):
                return self._sketch.prepare(features, overwrite=True), encoded, far
            return self._sketch.prepare(features), encoded, far

        found, lost, number = [], 0, 0
        there = not is_numpy_array(self.features.like)  # which works on while this thread goes on
        together = 1 if there else TOGETHER
        full = [task.rows for task in tasks if task.learns]
        for part, encoded, far in ordered_map(work, tasks, light=there):
            if encoded is not None:
                found.append(encoded)
            if part is None:
                continue
            self._sketch.absorb(part)
            if number % together == 0:  # while other threads are at the blocks that follow
                some = full[number : number + together]
                joined = array_namespace(*some).concat(some, axis=0) if len(some) > 1 else some[0]
                self._sample.update(joined)
            number += 1
            lost = lost + far
        size = self._blocks.size
        warn_of_reach(size * int(lost), size * number, "learned")
        return found

    def _is_out_of_reach(self, features: Array) -> Any:
        """Whether some rows of a block, sampled here and there, all miss every landmark.

        Where there is a monitor, it detects that and draws new landmarks.
        """
        if self._monitor or not isinstance(self.features, GaussianAffinity):
            return 0
        xp = array_namespace(features)  # a number on the device of the features: nobody waits
        return xp.astype(xp.max(features[::REACH_STEP, :]) < REACH, xp.int64)

    def merge(self, other: "Learner") -> Self:
        """Add all that another learner of the same settings has learned.

        Parameters
        ----------
        other : Learner
            A shard with the same features and prior, of different rows; it is not changed.

        Returns
        -------
        Learner
            The learner itself. The certificates add up; epoch and last coder stay this learner's.

        Raises
        ------
        MergeError
            If settings or features differ, or if one is a copy of the other, whose rows would
            count twice; nothing has changed then.
        """
        if not isinstance(other, Learner):
            raise MergeError(f"a learner merges with a learner, not with {type(other).__name__}")
        self._merge(other.state())  # a copy: two learners may be merged into each other
        return self

    @synchronized
    def _merge(self, other: dict[str, Any]) -> None:
        self._catch_up()
        self._check_mergeable(other)
        with one_blas_thread():
            self._sketch.merge(other["sketch"])
        self._sample.merge(other["sample"])
        self._stale = True
        if other["waiting"].shape[0]:
            self.learn(other["waiting"])

    def _check_mergeable(self, other: dict[str, Any]) -> None:
        for name in ("bits", "whitening", "rotation", "steady", "refine", "certified"):
            check_same(name, getattr(self, name), other[name])
        check_same("metric", self.metric, other.get("metric", EUCLIDEAN))
        sample = other["sample"]
        if self._sample.size != sample.size:
            raise MergeError(
                f"the samples have {self._sample.size} rows here and {sample.size} there"
            )
        if self._sketch.half_life != other["sketch"].half_life:
            raise MergeError("the shards have different half-lives: they must agree")
        check_same_features(self.features, other["features"])
        if not same(self._prior_rows, other["prior"]):
            raise MergeError("the shards' prior rows differ: they must share them")
        learned = {"sample": self._sample, "waiting": self._blocks.rows, "sketch": self._sketch}
        check_no_copies(self.seen, learned, other)

    # Reading

    @property
    @synchronized
    def seen(self) -> int:
        """Number of rows learned."""
        return self._sketch.seen + self._blocks.size * len(self._full) + self._blocks.waiting

    @property
    def certificate(self) -> float | None:
        """Delta with ||A'A - B'B|| <= Delta, for the feature rows A and the sketch B so far.

        None where nothing is proven: the sketch does not learn, or has sampled rows.
        """
        sketch = self.sketch
        return sketch.certificate if sketch.learns and math.isfinite(sketch.certificate) else None

    @property
    def nbytes(self) -> int:
        """Bytes held, constant from construction."""
        sketches = self._sketch.nbytes + self._prior.nbytes
        shared = self._prior_rows is self.features.like  # the landmarks, counted there
        host = is_numpy_array(self.features.like)  # where a full block may wait, too
        rows = (2 if host else 1) * self._blocks.nbytes + (
            0 if shared else nbytes(self._prior_rows)
        )
        coder = CODER_BYTES * (self.features.width + 1) * self.bits
        if self.refine:  # tables, axes and centres of all columns, at most
            tables = 32 * -(-self.bits // 8)
            coder += 8 * self.features.inputs * (tables + self.features.inputs + CENTRES + 2)
        coder += self._monitor.nbytes if self._monitor else 0
        return self.features.nbytes + sketches + self._sample.nbytes + rows + coder

    @property
    @synchronized
    def sketch(self) -> Sketch:
        """A copy of the sketch, waiting rows included and the prior left out."""
        self._catch_up()
        sketch = self._sketch.copy()
        if self._blocks.waiting:
            with one_blas_thread():
                sketch.update(self.features(self._blocks.rows))
        return sketch

    @property
    @synchronized
    def sample(self) -> Array:
        """Rows that represent all rows seen; the prior fills it up while they are few."""
        rows = self._sample_rows()
        return array_namespace(rows).asarray(rows, copy=True)

    def _sample_rows(self) -> Array:
        """The sample; the next row that is learned may change it."""
        sample = self._sampled()
        if sample.seen >= sample.size:
            return sample.rows
        return array_namespace(sample.rows).concat([self._prior_rows, sample.rows], axis=0)

    def _sampled(self) -> Reservoir:
        """The sample, waiting rows included and the prior left out."""
        self._catch_up()
        if not self._blocks.waiting:
            return self._sample
        sample = self._sample.copy()
        sample.update(self._blocks.rows)
        return sample

    @synchronized
    def coder(self) -> Coder:
        """Return the coder for all that was learned so far; nothing that was learned changes.

        Returns
        -------
        Coder
            Within an epoch and if `steady`, it is rotated to match the last coder returned. It
            is the same object as long as nothing changes. Rows that wait for a full block are
            left to the next coder if the rest weighs 16 times as much.
        """
        if self._stale or self._coder is None:
            self._catch_up()
            with one_blas_thread():
                found, own = self._projection()
                signs = Coder(self.features, found.projection, self.epoch, metric=self.metric)
                self._coder = self._refined(signs) if self.refine else signs
                self._missed = self._missing(found.basis, found.energies if own else None)
            self._stale = False
        return self._coder

    def _refined(self, signs: Coder) -> Coder:
        """The coder with the refinement of this epoch, which is fitted now if there is none."""
        if self._refinement is None:
            rows = self._fitting_rows()
            check_supported(self.refine, rows.shape[0])
            encoded = ordered_map(signs.encoded, blocks(rows, BLOCK))
            self._refinement = Refinement.fit(
                double(to_numpy(rows)),
                np.concatenate(list(encoded)),
                self.bits,
                self.refine,
                certified=self.certified,
                seed=self.seed,
            )
            self._fitted = self.seen + int(self._prior_rows.shape[0])
            self._more = None
        parts = (signs.features, signs.projection, signs.epoch)
        return Coder(*parts, self._refinement, self.metric)

    def _fitting_rows(self) -> Array:
        """The sample, with the prior while that has more rows.

        After a change also the rows since, and the reference while fewer rows were learned.
        """
        rows = self._sampled().rows
        if rows.shape[0] < self._prior_rows.shape[0]:
            rows = self._sample_rows()
        if self._more is None or (self.epoch == 0 and self.seen >= self._more.shape[0]):
            return rows
        return array_namespace(rows).concat([self._more, rows], axis=0)

    @property
    @synchronized
    def has_outgrown(self) -> bool:
        """Whether four times as many rows are known as when the refinement was fitted on few.

        Few are less than the sample holds. A new epoch is then worth it: its refinement, and the
        bits that it refines, are fitted anew.
        """
        few = self._refinement is not None and self._fitted < self._sample.size
        return few and self.seen >= OUTGROWN * self._fitted

    @property
    @synchronized
    def has_moved(self) -> bool:
        """Whether the last coder misses clearly more of what was learned than when it was made.

        What it misses is the share of the sketch's energy outside of its directions; clearly more
        is half as much again, and at least 0.001 of all. Costs a product of width x width x bits.
        """
        if self._coder is None:
            return True
        self._catch_up()
        if self._missed is None:  # nothing but the prior was learned then
            return False
        with one_blas_thread():
            missed = self._missing(self._coder.projection.basis)
        return missed is not None and missed > max(MOVED * self._missed, self._missed + MIN_MISSED)

    def _missing(self, basis: Array, energies: Array = None) -> float | None:
        """The share of the blocks' energy outside of orthonormal directions.

        Their energies, if they are those of the blocks, spare a Gram matrix a product.
        """
        if not (self._sketch.weight and self.bits):
            return None
        sketch = self._sketch
        if isinstance(sketch, Gram):
            return max(0.0, 1.0 - sketch.captured(basis, energies))
        return max(0.0, 1.0 - sketch.captured(basis))

    @property
    def last_coder(self) -> Coder | None:
        """The coder returned last in this epoch, or None."""
        return self._coder

    def with_coder(self, coder: Coder) -> "Learner":
        """Return a copy whose current coder is `coder`, until it learns more rows.

        The last coder that a learner returned is not always the one that made the last codes: it
        may have been made after the last row. If `coder` is of another epoch, this is a plain copy.
        """
        copy = Learner.from_state(self.state())
        if coder.epoch == copy.epoch:
            copy._refinement, copy._stale = coder.refinement, False
            parts = (copy.features, coder.projection, copy.epoch)
            copy._coder = Coder(*parts, coder.refinement, copy.metric)
            copy._missed = copy._missing(coder.projection.basis)
        return copy

    @synchronized
    def new_epoch(self) -> int:
        """Give up comparability: the next coder is free to fit best. Returns the new number."""
        self.epoch += 1
        self._coder, self._stale = None, True
        self._refinement, self._fitted = None, 0
        return self.epoch

    @synchronized
    def renew(self) -> int:
        """Begin an epoch on new landmarks, drawn from the sample of all rows seen.

        Returns
        -------
        int
            The number of the new epoch.

        Raises
        ------
        InputError
            If the features do not have landmarks, or the sample has fewer rows than landmarks.

        Notes
        -----
        What was learned is rebuilt from the sample, which then represents all rows seen: the
        spread of the data stays, what the sample does not show is lost, and the certificate bounds
        the error against the sample and the rows that follow. When a monitor detects a change, it
        does the same by itself, but landmarks come mostly from the rows since, and the past counts
        no more than the sample has rows: that coder is for the rows that come.
        """
        return self._renew(changed=False)

    def _renew(self, *, changed: bool) -> int:
        marks = self._monitor.marks if self._monitor else renewable(self.features)
        sketch, held = self.sketch, self._sampled()
        enough = held.rows.shape[0] >= marks.width  # or the prior helps out
        sample = check_enough(held.rows if enough else self._sample_rows(), marks.width)
        monitor = self._monitor if changed else None
        since = monitor.since() if monitor else sample[:0, :]
        rng = np.random.default_rng([self.seed, 2, self.epoch])
        landmarks, new = drawn(since, sample, marks.width, rng)
        renewed = marks.renewed(landmarks, wider=monitor.widening if monitor else 1.0)
        own = marks is not self.features  # these have no landmarks, and stay as they are
        self.features = self.features if own else renewed
        self._sketch, self._sample = rebuilt(sketch, self.features, sample, since), held
        self._blocks = self._no_blocks()
        self._prior, self._prior_rows = self._prior.fresh(), self._blocks.rows
        if self._monitor:
            like = landmarks[: new or None, :]
            self._monitor.begin(self.features, like, renewed if own else None)
        self._more = extrapolated(since) if self.refine and since.shape[0] else None
        logger.info("epoch %d begins after %d rows", self.epoch + 1, self.seen)
        return self.new_epoch()

    @property
    def epochs(self) -> str | int:
        """When a new epoch is published: 'never', 'auto' or every so many rows."""
        return self._monitor.policy if self._monitor else "never"

    @property
    @synchronized
    def drift(self) -> tuple[Any, ...]:
        """The latest 1024 measurements of the monitor; empty without one."""
        return tuple(self._monitor.measurements) if self._monitor else ()

    def _projection(self) -> tuple[Fitted, bool]:
        """A projection for all that was learned, and whether it is fitted to the blocks alone."""
        if not self.bits:
            return no_directions(self.features), False
        few = LIGHT * self._blocks.waiting <= self._sketch.weight  # they are left to the next coder
        sketch = self._sketch if few else self.sketch
        if LIGHT * self._prior.weight > sketch.weight:
            sketch = self._with_prior(sketch)
        last = self._coder.projection if self.steady and self._coder else None
        held = self._sample if few else self._sampled()
        wanted = held.size if last is None else EASED
        rows = held.part(wanted)
        if held.seen < wanted:
            rows = array_namespace(rows).concat([self._prior_rows, rows], axis=0)

        def projected(matrix: Array) -> Array:
            there = self._projected(rows, to_device_of(matrix, self.features.like))
            return to_device_of(there, matrix)

        fit = Fitting(self.bits, self.whitening, self.rotation, self.seed)
        try:
            found = fit(_on_host(sketch), projected, last)
        except RankError:  # the stream alone has too few directions
            if not self._prior.seen:
                raise
            sketch = self._with_prior(sketch)
            found = fit(_on_host(sketch), projected, last)
        return found.on(self.features.like), sketch is self._sketch

    def _with_prior(self, sketch: Sketch) -> Sketch:
        both, prior = sketch.copy(), self._prior.copy()
        prior.fade(self.seen)
        both.merge(prior)
        return both

    def _projected(self, rows: Array, matrix: Array) -> Array:
        """The features of rows, along the columns of a matrix."""
        xp = array_namespace(matrix)

        def work(rows: Array) -> Array:
            features = self.features(rows)
            return double(features @ xp.astype(matrix, features.dtype, copy=False))

        return xp.concat(list(ordered_map(work, blocks(rows, PIECE))), axis=0)

    # Keeping

    @synchronized
    def fresh(self) -> "Learner":
        """Return a learner of the same settings and epoch that has seen nothing: a shard."""
        empty = {
            "sketch": self._sketch.fresh(),
            "sample": self._empty_sample(self._sample.size),
            "waiting": self._blocks.rows[:0, :],
            "stale": True,
            "monitor": self._monitor and self._monitor.fresh(),
        }
        return Learner.from_state(self.state() | empty)

    def shard(self, partition: int | None = None) -> "Learner":
        """Return a learner like this one that has seen nothing, to be merged with it.

        It never begins an epoch of its own: landmarks of its own would not merge.

        Parameters
        ----------
        partition : int, optional
            Number of the part of the data that it will learn. The sample then draws its keys from
            the seed, this number and the place of a row in its part, so no two shards draw the same
            positions, whatever their rows are, and one that is learned again is the same. By
            default the first row is a part of the seed instead.
        """
        state = self.fresh().state() | {"monitor": None}
        if partition is not None:
            number = as_count(partition, "partition", least=0)
            state["sample"] = self._empty_sample(self._sample.size, number)
        return Learner.from_state(state)

    @synchronized
    def state(self) -> dict[str, Any]:
        """Return the contents by name, as copies, for `from_state` and files."""
        self._catch_up()
        held = {name: getattr(self, name) for name in ("features", "epoch", *SETTINGS)}
        held |= metric_state(self.metric)
        waiting = array_namespace(self._blocks.rows).asarray(self._blocks.rows, copy=True)
        return held | {
            "sketch": self._sketch.copy(),
            "sample": self._sample.copy(),
            "waiting": waiting,
            "prior": self._prior_rows,
            "last": None if self._coder is None else self._coder.projection.state(),
            "stale": self._stale,
            "missed": self._missed,
            "refinement": None if self._refinement is None else self._refinement.state(),
            "fitted": self._fitted,
            "more": self._more,
            "monitor": self._monitor and self._monitor.copy(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Learner":
        """Build a learner from what `state` returned; it goes on with the same bits."""
        settings = {name: state[name] for name in SETTINGS}
        prior = state["prior"] if state["prior"].shape[0] else None
        if prior is not None and same(prior, state["features"].like):
            prior = state["features"].like  # hold the landmarks once
        self = cls(state["features"], state["sketch"].fresh(), prior=prior, **settings)
        self.metric = state.get("metric", EUCLIDEAN)
        self._sketch, self._sample = state["sketch"], state["sample"]
        self.epoch, self._stale, self._missed = state["epoch"], state["stale"], state["missed"]
        self._refinement = restored(state["refinement"], self.bits, self.features.inputs)
        self._fitted, self._more = state["fitted"], state["more"]
        if state["last"] is not None:
            last = Projection.from_state(state["last"])
            self._coder = Coder(self.features, last, self.epoch, self._refinement, self.metric)
        self._monitor = state["monitor"]
        if self._monitor:
            self._monitor.attach(self.features, self._monitor.marks)
        self._learned(state["waiting"])  # some are whole if it was on a device
        return self

    @synchronized
    def on(self, like: Array | str) -> "Learner":
        """Return a copy with its arrays on a device, which learns rows there.

        Parameters
        ----------
        like : array or str
            An array in the library and on the device, or the name of a device of torch, as "cuda".

        Returns
        -------
        Learner
            It goes on from the same state. On a device blocks are larger (262,144 rows for 500
            landmarks), and sums are rounded differently from those on the host.
        """
        there = on_device(like)
        state = self.state()
        for name in ("sketch", "sample", "monitor"):
            part = state[name]
            if part is not None:
                kept = moved(part.state(), there, but=("keys", "measurements", "host"))
                state[name] = type(part).from_state(kept)
        if self._monitor and self._monitor.marks is not self.features:
            state["monitor"].marks = self._monitor.marks.on(there)
        rows = {name: state[name] for name in ("waiting", "prior", "more", "last")}
        state |= moved(rows, there) | {"features": self.features.on(there)}
        return Learner.from_state(state)

    def __repr__(self) -> str:
        kind = type(self._sketch).__name__
        more = f" + {self.refine} bytes" if self.refine else ""
        return f"Learner({self.bits} bits{more}, {self.seen} rows seen, {self.features!r}, {kind})"


def _on_host(sketch: Sketch) -> Sketch:
    """The sketch where small problems are solved faster than on a device."""
    if is_numpy_array(sketch.mean):
        return sketch
    return type(sketch).from_state(moved(sketch.state(), np.zeros(1)))


def _as_certified(value: object, refine: int) -> bool:
    if value and not refine:
        raise InputError("certified asks for a bound on the error of decoded rows: set refine too")
    return bool(value)
