"""CoderSet: the coders of all live epochs, and a common scale for what they find."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, CheckedRows, as_count, as_rows, blocks, to_numpy
from streambits._threads import ordered_map
from streambits.epochs.calibration import SHARES
from streambits.epochs.epoch import Epoch, EpochCache, EpochFiles, GrowingEpoch
from streambits.errors import EpochError, InputError
from streambits.index import HammingIndex, Hits
from streambits.index.hits import no_hits
from streambits.model.coder import Coder, RowQueries, warn_of_reach
from streambits.model.codes import Codes
from streambits.model.learner import Learner
from streambits.model.metric import EUCLIDEAN, compared
from streambits.model.sampling import Reservoir

EPOCH_SAMPLE_ROWS = 1024  # rows of each epoch that are kept
BLOCK = 2048  # queries at a time
SMALL_QUERY_BATCH = 8  # queries that are not worth threads
SCALES = 1 << 27  # bytes of scales at a time, which many queries over many epochs would exceed
RANKING = ("candidates", "metric", "exact")  # options of codes that decode
AUTO = "auto"
FOLDER = "epochs"  # beside the file of the coders


class CoderSet:
    """The newest coder of every live epoch, with a uniform sample of the rows it has encoded.

    Parameters
    ----------
    sample : int, default 1024
        Rows kept per epoch, at least 2.
    seed : int, default 0
        Seed of the samples.

    Notes
    -----
    A query is encoded once per epoch. Distances of two epochs are not on one scale, and the coder
    of an epoch cannot tell rows far from its own apart: so each query's distances in an epoch are
    translated to Euclidean ones, by the epoch's sample, whose true distances to the query
    can be computed. Codes with a refinement decode to rows, and so need neither sample nor
    translation. The set contains raw rows: the samples and the landmarks.

    All epochs are in memory, unless `store_in` names a folder: then only the current one is, and
    those that are over are in files, which are opened when they are needed.

    Examples
    --------
    >>> rows = np.random.default_rng(0).random((1000, 8), dtype=np.float32)
    >>> from streambits.methods import ssbc
    >>> learner, coders, index = ssbc(rows[:100], bits=16), CoderSet(), HammingIndex(16)
    >>> for part in (rows[:500], rows[500:]):
    ...     coder = learner.learn(part).coder()
    ...     codes = coder.encode(part)
    ...     coders.record(coder, part, codes)
    ...     index.add(codes)
    ...     epoch = learner.renew()
    >>> index.epochs, coders.search(index, rows[:2], k=3).ids[:, 0].tolist()
    ((0, 1), [0, 1])
    """

    def __init__(self, *, sample: int = EPOCH_SAMPLE_ROWS, seed: int = 0) -> None:
        self.size, self.seed = as_count(sample, "sample", least=2), as_count(seed, "seed", least=0)
        self.seen = 0  # rows that were recorded
        self.retired = 0  # epochs below this were retired by `keep_newest`
        self._held: dict[int, GrowingEpoch | Epoch] = {}
        self._filed: set[int] = set()  # epochs that are in files
        self._files: EpochFiles | None = None
        self._opened = EpochCache()

    def record(self, coder: Coder, rows: Array, codes: Codes) -> None:
        """Record the codes that a coder made of rows; it replaces its epoch's previous coder.

        With a folder to write to, the epochs before it are over, and are written to files now.

        Parameters
        ----------
        coder : Coder
        rows : array of shape (n, d)
        codes : Codes

        Raises
        ------
        InputError
            If these cannot be the codes of the rows by the coder.
        EpochError
            If the epoch is over.
        """
        checked = coder.checked(rows)
        if len(codes) != checked.shape[0] or codes.epoch != coder.epoch:
            raise InputError(f"{codes!r} are not the codes of {checked.shape[0]} rows by {coder!r}")
        if coder.epoch in self._filed or isinstance(self._held.get(coder.epoch), Epoch):
            raise EpochError(f"epoch {coder.epoch} is over: its coder and sample are saved")
        if self._files is not None and self._files.save is not None:
            self._file(epoch for epoch in list(self._held) if epoch < coder.epoch)
        self._growing(coder, rows, checked).record(coder, checked, codes)
        self.seen += len(codes)

    def _growing(self, coder: Coder, rows: Array, checked: Array) -> GrowingEpoch:
        epoch, inputs = coder.epoch, coder.features.inputs
        held = self._held.get(epoch)
        if isinstance(held, GrowingEpoch):
            return held
        own = rows.rows if isinstance(rows, CheckedRows) else rows
        single = isinstance(own, np.ndarray) and own.dtype == np.float32
        like = to_numpy(checked[:0, :])  # on the host, wherever the rows are
        like = like.astype(np.float32) if single else like
        packed, seed = np.zeros((0, 0), np.uint8), [self.seed, 3, epoch]
        size = self.size if coder.refinement is None else 1  # what decodes needs no sample
        new = GrowingEpoch(
            coder,
            Reservoir(size, like, inputs=inputs, seed=seed),
            Reservoir(size, packed, inputs=-(-coder.bits // 8), seed=seed),
        )
        self._held[epoch] = new
        return new

    # Files of epochs that are over

    def store_in(
        self,
        folder: str | Path,
        load: Callable[[Path], Any],
        save: Callable[[Any, Path], None] | None = None,
    ) -> None:
        """Keep epochs that are over in files, in the folder `epochs` of `folder`.

        Parameters
        ----------
        folder : str or Path
        load, save : callable
            Those of `streambits.storage`. Without `save` nothing is written, and what is recorded
            stays in memory.
        """
        self._files = EpochFiles(Path(folder) / FOLDER, load, save)

    def _file(self, epochs: Iterable[int]) -> None:
        assert self._files is not None
        for number in sorted(epochs):
            held = self._held[number]
            self._files.write(held.now() if isinstance(held, GrowingEpoch) else held)
            self._filed.add(number)
            del self._held[number]

    def tidy(self) -> None:
        """Remove the files of epochs that are not live, and what a killed process has left.

        To be called when nothing that was saved names them any more.
        """
        if self._files is not None and self._files.save is not None:
            self._files.remove_others(self._filed)

    def keep(self, epochs: Iterable[int]) -> None:
        """Retire all epochs but these.

        Parameters
        ----------
        epochs : iterable of int
            Usually those that codes use: `coders.keep(index.epochs)`.

        Raises
        ------
        EpochError
            If one of them is not live.
        """
        kept = set(epochs)
        unknown = kept - set(self)
        if unknown:
            raise EpochError(
                f"there is no coder of epoch {min(unknown)}: it was retired, or never here"
            )
        self._held = {epoch: held for epoch, held in self._held.items() if epoch in kept}
        self._filed &= kept

    def keep_newest(self, count: int) -> bool:
        """Retire all but the newest `count` epochs, and remember it.

        Returns
        -------
        bool
            Whether there were more.
        """
        epochs = list(self)
        if len(epochs) <= as_count(count, "count"):
            return False
        self.retired = epochs[-count]
        self.keep(epochs[-count:])
        return True

    # Reading

    @property
    def newest(self) -> Coder:
        """The coder of the last epoch; EpochError if there is none."""
        if not len(self):
            raise EpochError("there are no coders yet: record one first")
        return self[max(self)]

    @property
    def metric(self) -> str:
        """By what rows are near: that of all coders, which go on from one another."""
        return self.newest.metric if len(self) else EUCLIDEAN

    @property
    def nbytes(self) -> int:
        """Bytes in memory; epochs in files are not counted."""
        return sum(held.nbytes for held in self._held.values())

    def encode(self, rows: Array) -> dict[int, Codes]:
        """Encode queries (n, d) in every live epoch; returns the codes by epoch."""
        asked = self._ask(rows, list(self), real=False, scaled=False)
        return {epoch: one.queries for epoch, one in asked.items()}

    def project(self, rows: Array) -> dict[int, Array]:
        """Compute the real values (n, bits) of queries (n, d) in every live epoch, by epoch."""
        return {epoch: self[epoch].project(rows, warn=len(self) == 1) for epoch in self}

    def scales(self, rows: Array, queries: Mapping[int, Any]) -> dict[int, NDArray[np.float64]]:
        """Estimate the Euclidean distance that each distance of codes means, per epoch and query.

        Parameters
        ----------
        rows : array of shape (n, d)
        queries : mapping of int to Codes or array of shape (n, bits)
            The codes of the rows, as `encode` returns them, or their real values, as `project`
            does.

        Returns
        -------
        dict of int to array of shape (n, bits + 1) or (n, 513)
            Increasing numbers per query: for each Hamming distance, or for equal shares of the
            largest real-valued distance that the query can have, the sum of its absolute values.
        """
        asked = to_numpy(compared(as_rows(rows), self.metric))
        starts = range(0, len(asked), BLOCK)

        def scale(number: int) -> NDArray[np.float64]:
            epoch, known = self._epoch(number), queries[number]
            return np.concatenate(
                [_scale(epoch, asked[i : i + BLOCK], known[i : i + BLOCK]) for i in starts]
            )

        found = ordered_map(scale, list(queries), light=len(asked) <= SMALL_QUERY_BATCH)
        return dict(zip(queries, found, strict=True))

    def search(
        self,
        index: HammingIndex,
        rows: Array,
        k: int = 10,
        *,
        real: bool | str = AUTO,
        decode: bool = True,
        **options: Any,
    ) -> Hits:
        """Find the k nearest codes of each row over all epochs of the index, on one scale.

        Parameters
        ----------
        index : HammingIndex
        rows : array of shape (n, d)
        k : int
        real : "auto" or bool, default "auto"
            Whether queries keep their real values, by which a bit counts as much as it is certain:
            they find clearly more of the true neighbours than numbers of bits. Of codes with a
            refinement they find the candidates. "auto": yes.
        decode : bool, default True
            Whether codes with a refinement are ranked by what they decode to; otherwise by their
            bits alone, and those of several epochs by distances as they are.
        **options
            Those of `HammingIndex.search`. The metric is that of the coders by default.

        Returns
        -------
        Hits
            Codes with a refinement are ranked by the distances of what they decode to. Of others,
            with several epochs the distances are estimates of Euclidean ones, between rows of
            length one where the metric is "cosine". With one they are
            those of the codes: sums of the values whose bits differ, or with `real=False` numbers
            of bits.

        Raises
        ------
        EpochError
            If the index holds an epoch that is not live here.

        Notes
        -----
        Costs one encoding per query and epoch. The scales that are held at a time are at most
        128 MiB.
        """
        real = uses_real(real)
        if not index.refine and options.get("metric") == self.metric:
            del options["metric"]  # by which these codes were learned
        epochs = index.epochs
        self._check_live(epochs)
        if not (epochs and len(rows)):
            return self._nothing(index, len(rows), k, real, options)
        refined = index.refine and all(self[epoch].refinement is not None for epoch in epochs)
        if refined and (decode or not index.bits):
            return index.search(self._decoding(rows, epochs, real), k, **options)
        if len(epochs) == 1:
            [asked] = self._ask(rows, epochs, real=real, scaled=False).values()
            return index.search({epochs[0]: asked.queries}, k, **options)
        steps = SHARES if real else index.bits
        step = max(SMALL_QUERY_BATCH, SCALES // (8 * (steps + 1) * len(epochs)))
        parts = blocks(as_rows(rows), step)
        found = [self._search(index, part, k, real, options) for part in parts]
        ids, far = [part.ids for part in found], [part.distances for part in found]
        return Hits(np.concatenate(ids), np.concatenate(far))

    def _nothing(
        self, index: HammingIndex, count: int, k: int, real: bool, options: dict[str, Any]
    ) -> Hits:
        """No hits, for so many rows."""
        if index.refine:
            proven = options.get("exact") is not None
            return no_hits(count, np.float64, reads=np.zeros(count, np.int64) if proven else None)
        if real:
            return no_hits(count, np.float64)
        nothing = np.zeros((count, index.bits), np.bool_)
        codes = {epoch: Codes.from_bits(nothing, epoch) for epoch in index.epochs or (0,)}
        plain = {name: value for name, value in options.items() if name not in RANKING}
        return index.search(codes, k, **plain)

    def _decoding(self, rows: Array, epochs: Iterable[int], real: bool) -> dict[int, RowQueries]:
        """The queries of each epoch, for codes that decode."""
        coders = [self[epoch] for epoch in epochs]
        asked = [coder.queries(rows, real=real, warn=False) for coder in coders]
        if coders[0].bits:
            checked = as_rows(rows)
            pairs = zip(coders, asked, strict=True)
            far = [c.out_of_reach(checked, _signs(q.asked, c.epoch)) for c, q in pairs]
            lost = np.logical_and.reduce(far)
            warn_of_reach(lost.sum(), len(lost), "asked for")
        return dict(zip(epochs, asked, strict=True))

    def _search(
        self, index: HammingIndex, rows: Array, k: int, real: bool, options: dict[str, Any]
    ) -> Hits:
        asked = self._ask(rows, index.epochs, real=real, scaled=True)
        queries = {epoch: one.queries for epoch, one in asked.items()}
        scales = {epoch: one.scale for epoch, one in asked.items()}
        return index.search(queries, k, scales=scales, **options)

    def _check_live(self, epochs: Iterable[int]) -> None:
        missing = set(epochs) - set(self)
        if not missing:
            return
        first = min(missing)
        why = "it was retired" if first < self.retired else "it is not among these coders"
        raise EpochError(f"there is no coder of epoch {first}, which the index holds: {why}")

    def _ask(
        self, rows: Array, epochs: Iterable[int], *, real: bool, scaled: bool
    ) -> dict[int, "_Asked"]:
        """Codes or real values, reach and scales of queries; epochs and blocks in parallel."""
        parts = blocks(compared(as_rows(rows), self.metric), BLOCK)
        tasks = [(epoch, part) for epoch in epochs for part in parts]

        def ask(task: tuple[int, Array]) -> _Asked:
            number, part = task
            epoch = self._epoch(number)
            look = epoch.coder.project if real else epoch.coder.encode
            asked = look(part, warn=False)
            asked = to_numpy(asked) if real else asked
            far = epoch.coder.out_of_reach(part, _signs(asked, number))
            return _Asked(asked, far, _scale(epoch, to_numpy(part), asked) if scaled else None)

        found = list(ordered_map(ask, tasks, light=len(rows) <= SMALL_QUERY_BATCH))
        size = len(parts)
        asked = {
            epoch: _Asked.concat(found[size * i : size * i + size])
            for i, epoch in enumerate(epochs)
        }
        if asked:
            lost = np.logical_and.reduce([one.far for one in asked.values()])
            warn_of_reach(lost.sum(), len(lost), "asked for")
        return asked

    def _epoch(self, number: int) -> Epoch:
        held = self._held.get(number)
        if isinstance(held, GrowingEpoch):
            return held.now()
        if held is not None:
            return held
        if number not in self._filed:
            raise EpochError(f"there is no coder of epoch {number}: it was retired, or never here")
        if self._files is None:
            raise EpochError(
                f"the coder of epoch {number} is in a file of its own, beside the one that these "
                f"coders were saved in: name its folder with store_in"
            )
        return self._opened.get(number, self._files.open)

    def __len__(self) -> int:
        return len(self._held) + len(self._filed)

    def __iter__(self) -> Iterator[int]:
        """The live epochs, ascending."""
        return iter(sorted((*self._held, *self._filed)))

    def __getitem__(self, epoch: int) -> Coder:
        held = self._held.get(epoch)
        return self._epoch(epoch).coder if held is None else held.coder

    def __repr__(self) -> str:
        return f"CoderSet(epochs {', '.join(map(str, self)) or 'none'})"

    # Keeping

    def state(self) -> dict[str, Any]:
        """Return the contents by name, for `from_state` and files.

        Epochs in files are included, or only their numbers if these coders write the files.
        """
        own = self._files is not None and self._files.save is not None
        filed = {} if own else {number: self._epoch(number) for number in self._filed}
        epochs = {
            str(number): held.state() if isinstance(held, GrowingEpoch) else held
            for number, held in sorted((self._held | filed).items())
        }
        return {
            "size": self.size,
            "seed": self.seed,
            "seen": self.seen,
            "retired": self.retired,
            "epochs": epochs,
            "filed": np.array(sorted(self._filed) if own else [], np.int64),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Build coders from what `state` returned."""
        self = cls(sample=state["size"], seed=state["seed"])
        self.seen, self.retired = state["seen"], state["retired"]
        self._filed = set(state["filed"].tolist())
        for number, held in state["epochs"].items():
            self._held[int(number)] = held if isinstance(held, Epoch) else GrowingEpoch(**held)
        return self


class _Asked(NamedTuple):
    """Queries in an epoch, which of them are out of reach, and, if asked for, their scales.

    queries: Codes, or real values (n, bits).
    """

    queries: Any
    far: NDArray[np.bool_]
    scale: NDArray[np.float64] | None

    @classmethod
    def concat(cls, parts: list["_Asked"]) -> "_Asked":
        scales = [part.scale for part in parts if part.scale is not None]
        scale = np.concatenate(scales) if scales else None
        queries = [part.queries for part in parts]
        coded = isinstance(queries[0], Codes)
        both = Codes.concat(queries) if coded else np.concatenate(queries)
        return cls(both, np.concatenate([part.far for part in parts]), scale)


def _scale(epoch: Epoch, rows: NDArray[Any], asked: Any) -> NDArray[np.float64]:
    """What distances from codes, or from real values, mean in an epoch."""
    if isinstance(asked, Codes):
        return epoch.scale(rows, asked)
    return epoch.real_scale(rows, to_numpy(asked))


def _signs(asked: Any, epoch: int) -> Codes:
    """The bits of queries, or of the real values behind them."""
    return asked if isinstance(asked, Codes) else Codes.from_bits(to_numpy(asked > 0), epoch)


def uses_real(real: bool | str = AUTO) -> bool:
    """Whether queries of an index keep their real values.

    Parameters
    ----------
    real : "auto" or bool
        As for `CoderSet.search`.

    Raises
    ------
    InputError
        If `real` is something else.
    """
    if real == AUTO and isinstance(real, str):
        return True
    if not isinstance(real, bool | np.bool_):
        raise InputError(f"real is {real!r}; it must be True, False or {AUTO!r}")
    return bool(real)


def newest_coder(model: Any) -> Coder:
    """Return the coder that a model represents.

    Parameters
    ----------
    model : Learner, Coder or CoderSet

    Returns
    -------
    Coder
        Of a learner the current coder, of a set the coder of the newest epoch.

    Raises
    ------
    InputError
        If the model is something else.
    """
    if isinstance(model, CoderSet):
        return model.newest
    if isinstance(model, Learner):
        return model.coder()
    if isinstance(model, Coder):
        return model
    raise InputError(f"model is a {type(model).__name__}; pass a Learner, a Coder or a CoderSet")
