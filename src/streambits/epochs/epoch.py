"""One epoch of a stream: its coder, a sample of its rows and codes, and the file it ends up in."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, to_numpy
from streambits._files import sync_folder
from streambits._threads import ForkSafeLock, cached, one_blas_thread
from streambits.epochs.calibration import Calibration, Fit
from streambits.errors import StorageError
from streambits.model.coder import Coder
from streambits.model.codes import Codes
from streambits.model.sampling import Reservoir

OPENED = 1 << 28  # bytes of epochs from files that are kept in memory for the next search


class Epoch:
    """An epoch that is over: its last coder, and a sample of its rows with their codes.

    It never changes again, so it is saved once, as a file of its own, together with what
    the sample tells about distances. rows: (n, d); codes: theirs.
    """

    def __init__(self, coder: Coder, rows: Array, codes: Codes, fit: Fit | None = None) -> None:
        self.coder, self.rows, self.codes, self._fit = coder, rows, codes, fit

    @property
    def nbytes(self) -> int:
        return int(self.coder.nbytes + to_numpy(self.rows).nbytes + self.codes.packed.nbytes)

    def scale(self, rows: NDArray[Any], codes: Codes) -> NDArray[np.float64]:
        """(queries, bits + 1) the Euclidean distance that each Hamming distance means here."""
        if self._calibration is None:
            return np.broadcast_to(np.arange(codes.bits + 1.0), (len(rows), codes.bits + 1))
        return self._calibration(rows, codes)

    @cached
    def _calibration(self) -> Calibration | None:
        """None where there are too few rows to tell anything."""
        rows = to_numpy(self.rows)
        with one_blas_thread():  # it is saved, and so should not depend on threads
            return Calibration(rows, self.codes, self._fit) if len(rows) > 1 else None

    def state(self) -> dict[str, Any]:
        fit = None if self._calibration is None else self._calibration.fit._asdict()
        held = {"coder": self.coder, "rows": self.rows, "packed": self.codes.packed}
        return held | {"fit": fit}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        coder, fit = state["coder"], state["fit"]
        codes = Codes(state["packed"], coder.bits, coder.epoch)
        if len(codes) != len(state["rows"]):
            raise StorageError(f"there are {len(codes)} codes for {len(state['rows'])} rows")
        return cls(coder, state["rows"], codes, None if fit is None else Fit(**fit))


class GrowingEpoch:
    """An epoch that goes on. The samples of rows and codes have the same seed: they keep the same.

    Rows are kept in their own precision, codes as bytes.
    """

    def __init__(self, coder: Coder, rows: Reservoir, codes: Reservoir) -> None:
        self.coder, self.rows, self.codes = coder, rows, codes
        self._now: Epoch | None = None

    def record(self, coder: Coder, rows: Array, codes: Codes) -> None:
        self.coder, self._now = coder, None
        self.rows.update(rows)
        self.codes.update(codes.packed)

    def now(self) -> Epoch:
        """As if it were over."""
        if self._now is None:
            codes = Codes(self.codes.rows, self.coder.bits, self.coder.epoch)
            self._now = Epoch(self.coder, self.rows.rows, codes)
        return self._now

    @property
    def nbytes(self) -> int:
        samples = (self.rows.state(), self.codes.state())
        held = [to_numpy(sample[name]).nbytes for sample in samples for name in ("rows", "keys")]
        return int(self.coder.nbytes + sum(held))

    def state(self) -> dict[str, Any]:
        return {"coder": self.coder, "rows": self.rows, "codes": self.codes}


class EpochFiles(NamedTuple):
    """Epochs that are over, a file each. save: None where nothing is to be written."""

    folder: Path
    load: Callable[[Path], Any]
    save: Callable[[Any, Path], None] | None

    def path(self, number: int) -> Path:
        return self.folder / f"epoch-{number:06}.safetensors"

    def open(self, number: int) -> Epoch:
        found = self.load(self.path(number))
        if not isinstance(found, Epoch) or found.coder.epoch != number:
            raise StorageError(f"{self.path(number)} does not hold epoch {number}: restore it")
        return found

    def write(self, epoch: Epoch) -> None:
        if self.save is None:
            return
        if not self.folder.is_dir():
            try:
                self.folder.mkdir()
                sync_folder(self.folder.parent)
            except OSError as error:
                raise StorageError(
                    f"{self.folder} cannot be written: {error.strerror or error}"
                ) from error
        self.save(epoch, self.path(epoch.coder.epoch))

    def remove_others(self, kept: Iterable[int]) -> None:
        """All but these, and what a process that was killed has left."""
        names = {self.path(number).name for number in kept}
        try:
            for file in self.folder.iterdir() if self.folder.is_dir() else ():
                if file.name not in names:
                    file.unlink()
        except OSError as error:
            raise StorageError(
                f"{self.folder} cannot be tidied: {error.strerror or error}"
            ) from error


class EpochCache:
    """The epochs that were opened last, as many as have room. For several threads."""

    def __init__(self) -> None:
        self._held: OrderedDict[int, Epoch] = OrderedDict()
        self._size = 0
        self._lock = ForkSafeLock()

    def get(self, number: int, open_: Callable[[int], Epoch]) -> Epoch:
        with self._lock:
            if number not in self._held:
                self._held[number] = open_(number)
                self._size += self._held[number].nbytes
            self._held.move_to_end(number)
            while self._size > OPENED and len(self._held) > 1:
                self._size -= self._held.popitem(last=False)[1].nbytes
            return self._held[number]
