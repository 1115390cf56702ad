"""Coders: those of all live epochs, and a common scale for what they find."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, as_count, as_rows, blocks, to_numpy
from streambits._threads import ordered_map
from streambits.calibration import Calibration
from streambits.coder import Coder
from streambits.codes import Codes
from streambits.errors import EpochError, InputError
from streambits.features import Reservoir
from streambits.index import HammingIndex, Hits

SAMPLE = 1024  # rows of each epoch that are kept
BLOCK = 2048  # queries at a time
FEW = 8  # queries that are not worth threads


class Coders:
    """The newest coder of every live epoch, and a uniform sample of the rows it has coded.

    A query is encoded once an epoch. Hamming distances of two epochs are not on one scale, and to
    the coder of an epoch all rows far from its own look alike: so each query's distances in an
    epoch are translated to Euclidean ones, by the epoch's sample, whose true distances to the query
    are known. Contains raw rows: 1024 an epoch beside the landmarks.

    >>> rows = np.random.default_rng(0).random((1000, 8), dtype=np.float32)
    >>> from streambits.methods import ssbc
    >>> learner, coders, index = ssbc(rows[:100], bits=16), Coders(), HammingIndex(16)
    >>> for part in (rows[:500], rows[500:]):
    ...     coder = learner.learn(part).coder()
    ...     codes = coder.encode(part)
    ...     coders.note(coder, part, codes)
    ...     index.add(codes)
    ...     epoch = learner.renew()
    >>> index.epochs, coders.search(index, rows[:2], k=3).ids[:, 0].tolist()
    ((0, 1), [0, 1])
    """

    def __init__(self, *, sample: int = SAMPLE, seed: int = 0) -> None:
        self.size, self.seed = as_count(sample, "sample", least=2), as_count(seed, "seed", least=0)
        self._coders: dict[int, Coder] = {}
        self._rows: dict[int, Reservoir] = {}
        self._codes: dict[int, Reservoir] = {}  # of the same rows, as bytes
        self._calibrations: dict[int, Calibration] = {}  # made when they are needed

    def note(self, coder: Coder, rows: Array, codes: Codes) -> None:
        """A coder has given these codes to rows; it follows the older one of its epoch."""
        inputs, like = coder.features.inputs, coder.features.like
        checked = as_rows(rows, like=like, width=inputs)
        if len(codes) != checked.shape[0] or codes.epoch != coder.epoch:
            raise InputError(f"{codes!r} are not the codes of {checked.shape[0]} rows by {coder!r}")
        self._coders[coder.epoch] = coder
        self._calibrations.pop(coder.epoch, None)
        self._sample(coder.epoch, self._rows, like, inputs).update(checked)
        packed = codes.packed.astype(np.float64)
        self._sample(coder.epoch, self._codes, packed, packed.shape[1]).update(packed)

    def _sample(
        self, epoch: int, held: dict[int, Reservoir], like: Array, inputs: int
    ) -> Reservoir:
        """An epoch's sample; those of rows and codes have the same seed, so they keep the same."""
        if epoch not in held:
            held[epoch] = Reservoir(self.size, like, inputs=inputs, seed=[self.seed, 3, epoch])
        return held[epoch]

    def keep(self, epochs: Iterable[int]) -> None:
        """Retire all other epochs: those that no code uses, by `coders.keep(index.epochs)`."""
        kept = set(epochs)
        unknown = kept - set(self._coders)
        if unknown:
            raise EpochError(
                f"there is no coder of epoch {min(unknown)}: it was retired, or never here"
            )
        for held in (self._coders, self._rows, self._codes, self._calibrations):
            for epoch in set(held) - kept:
                del held[epoch]

    @property
    def newest(self) -> Coder:
        """The coder of the last epoch."""
        if not self._coders:
            raise EpochError("there are no coders yet: note one first")
        return self._coders[max(self._coders)]

    @property
    def nbytes(self) -> int:
        coders = sum(coder.nbytes for coder in self._coders.values())
        samples = (*self._rows.values(), *self._codes.values())
        return coders + sum(sample.nbytes for sample in samples)

    def encode(self, rows: Array) -> dict[int, Codes]:
        """The codes of queries in every live epoch."""
        return self._encode(rows, self)

    def _encode(self, rows: Array, epochs: Iterable[int]) -> dict[int, Codes]:
        """Epochs and blocks of rows side by side."""
        tasks = [(e, part) for e in epochs for part in blocks(as_rows(rows), BLOCK)]
        work = ordered_map(lambda t: self[t[0]].encode(t[1]), tasks, light=len(rows) <= FEW)
        parts = list(work)
        return {
            epoch: Codes.concat(part for part in parts if part.epoch == epoch)
            for epoch in dict(tasks)
        }

    def project(self, rows: Array) -> dict[int, Array]:
        """The real values of queries in every live epoch."""
        return {epoch: coder.project(rows) for epoch, coder in self._coders.items()}

    def scales(self, rows: Array, codes: dict[int, Codes]) -> dict[int, NDArray[np.float64]]:
        """For every epoch and query, the Euclidean distance that each Hamming distance means.

        (queries, bits + 1) increasing numbers each. codes: of the rows, as `encode` gives them.
        """
        asked = to_numpy(as_rows(rows))
        work = partial(self._scale, rows=asked, codes=codes)
        found = ordered_map(work, list(codes), light=len(asked) <= FEW)
        return dict(zip(codes, found, strict=True))

    def search(self, index: HammingIndex, rows: Array, k: int, **options: Any) -> Hits:
        """The k nearest codes of each row over all epochs of the index, on one scale.

        With one epoch distances are those of the codes; with several, estimates of Euclidean ones.
        options: of `HammingIndex.search`.
        """
        missing = set(index.epochs) - set(self._coders)
        if missing:
            raise EpochError(f"there is no coder of epoch {min(missing)}, which the index holds")
        codes = self._encode(rows, index.epochs)
        if len(codes) > 1:
            return index.search(codes, k, scales=self.scales(rows, codes), **options)
        if not codes:
            codes = {0: Codes.from_bits(np.zeros((len(rows), index.bits), np.bool_))}
        return index.search(codes, k, **options)

    def _scale(
        self, epoch: int, rows: NDArray[Any], codes: dict[int, Codes]
    ) -> NDArray[np.float64]:
        asked = codes[epoch]
        if self._rows[epoch].rows.shape[0] < 2:
            return np.broadcast_to(np.arange(asked.bits + 1.0), (len(rows), asked.bits + 1))
        scale, starts = self._calibration(epoch, asked.bits), range(0, len(rows), BLOCK)
        return np.concatenate([scale(rows[i : i + BLOCK], asked[i : i + BLOCK]) for i in starts])

    def _calibration(self, epoch: int, bits: int) -> Calibration:
        if epoch not in self._calibrations:
            held = Codes.known(self._codes[epoch].rows.astype(np.uint8), bits, epoch)
            self._calibrations[epoch] = Calibration(to_numpy(self._rows[epoch].rows), held)
        return self._calibrations[epoch]

    def __len__(self) -> int:
        return len(self._coders)

    def __iter__(self) -> Iterator[int]:
        """The live epochs, ascending."""
        return iter(sorted(self._coders))

    def __getitem__(self, epoch: int) -> Coder:
        if epoch not in self._coders:
            raise EpochError(f"there is no coder of epoch {epoch}: it was retired, or never here")
        return self._coders[epoch]

    def __repr__(self) -> str:
        return f"Coders(epochs {', '.join(map(str, self)) or 'none'})"

    def state(self) -> dict[str, Any]:
        coders = {str(epoch): coder for epoch, coder in self._coders.items()}
        rows = {str(epoch): held for epoch, held in self._rows.items()}
        codes = {str(epoch): held for epoch, held in self._codes.items()}
        settings = {"size": self.size, "seed": self.seed}
        return settings | {"coders": coders, "rows": rows, "codes": codes}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        self = cls(sample=state["size"], seed=state["seed"])
        self._coders = {int(epoch): coder for epoch, coder in state["coders"].items()}
        self._rows = {int(epoch): rows for epoch, rows in state["rows"].items()}
        self._codes = {int(epoch): codes for epoch, codes in state["codes"].items()}
        return self
