"""One epoch of a stream: its coder, a sample of its rows and codes, and its file."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, double, to_numpy
from streambits._files import sync_folder
from streambits._threads import ForkSafeLock, cached, one_blas_thread
from streambits.epochs.calibration import SHARES, Calibration, Fit, RealCalibration
from streambits.errors import StorageError
from streambits.model.coder import Coder
from streambits.model.codes import Codes
from streambits.model.sampling import Reservoir

OPENED = 1 << 28  # bytes of epochs from files that are kept in memory for the next search


class Epoch:
    """An epoch that is over: its last coder, and a sample of its rows with their codes.

    It never changes again, so it is saved once, as a file of its own, together with the fit of
    Euclidean to Hamming distances in the sample.

    Parameters
    ----------
    coder : Coder
    rows : array of shape (n, d)
    codes : Codes
        The codes of the rows.
    fit : Fit, optional
        The fit of the same sample, if it was computed before.
    """

    def __init__(self, coder: Coder, rows: Array, codes: Codes, fit: Fit | None = None) -> None:
        self.coder, self.rows, self.codes, self._fit = coder, rows, codes, fit

    @property
    def nbytes(self) -> int:
        """Bytes of the coder, the rows and the codes."""
        return int(self.coder.nbytes + to_numpy(self.rows).nbytes + self.codes.packed.nbytes)

    def scale(self, rows: NDArray[Any], codes: Codes) -> NDArray[np.float64]:
        """Estimate the Euclidean distance that each Hamming distance means here.

        Parameters
        ----------
        rows : ndarray of shape (n, d)
            Queries.
        codes : Codes
            Their codes in this epoch.

        Returns
        -------
        ndarray of shape (n, bits + 1)
            The Hamming distances themselves, if the sample has fewer than 2 rows.
        """
        if self._calibration is None:
            return np.broadcast_to(np.arange(codes.bits + 1.0), (len(rows), codes.bits + 1))
        return self._calibration(rows, codes)

    def real_scale(self, rows: NDArray[Any], values: NDArray[Any]) -> NDArray[np.float64]:
        """Estimate the Euclidean distance that each real-valued distance means here.

        Parameters
        ----------
        rows : ndarray of shape (n, d)
            Queries.
        values : ndarray of shape (n, bits)
            What the coder projects them to.

        Returns
        -------
        ndarray of shape (n, 513)
            For equal shares of the sum of the absolute values, which is the largest distance that
            a query can have. The distances themselves, if the sample has fewer than 2 rows.
        """
        if self._real is None:
            sums = np.abs(double(values)).sum(axis=1, keepdims=True)
            return np.asarray(sums * np.linspace(0, 1, SHARES + 1))
        return self._real(rows, values)

    @cached
    def _real(self) -> RealCalibration | None:
        if self._calibration is None:
            return None
        values = to_numpy(self.coder.project(self.rows, warn=False))
        with one_blas_thread():
            return RealCalibration(self._calibration, values)

    @cached
    def _calibration(self) -> Calibration | None:
        """None where the sample has too few rows."""
        rows = to_numpy(self.rows)
        with one_blas_thread():  # it is saved, and so should not depend on threads
            return Calibration(rows, self.codes, self._fit) if len(rows) > 1 else None

    def state(self) -> dict[str, Any]:
        """Return the contents by name, with the fit, for `from_state` and files."""
        fit = None if self._calibration is None else self._calibration.fit._asdict()
        held = {"coder": self.coder, "rows": self.rows, "packed": self.codes.packed}
        return held | {"fit": fit}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Build an epoch from what `state` returned.

        Raises
        ------
        StorageError
            If rows and codes are not equally many.
        """
        coder, fit = state["coder"], state["fit"]
        codes = _codes(state["packed"], coder)
        if len(codes) != len(state["rows"]):
            raise StorageError(f"there are {len(codes)} codes for {len(state['rows'])} rows")
        return cls(coder, state["rows"], codes, None if fit is None else Fit(**fit))


class GrowingEpoch:
    """An epoch that goes on.

    Parameters
    ----------
    coder : Coder
        The newest coder.
    rows, codes : Reservoir
        Samples of rows, in their own precision, and of codes, as bytes. They have the same seed,
        so they keep the same places. Both stay empty where codes decode to rows.
    """

    def __init__(self, coder: Coder, rows: Reservoir, codes: Reservoir) -> None:
        self.coder, self.rows, self.codes = coder, rows, codes
        self._now: Epoch | None = None

    def record(self, coder: Coder, rows: Array, codes: Codes) -> None:
        """Add rows (n, d) and their codes, and replace the coder."""
        self.coder, self._now = coder, None
        if coder.refinement is None:
            self.rows.update(rows)
            self.codes.update(codes.packed)

    def now(self) -> Epoch:
        """Return the epoch as if it were over."""
        if self._now is None:
            self._now = Epoch(self.coder, self.rows.rows, _codes(self.codes.rows, self.coder))
        return self._now

    @property
    def nbytes(self) -> int:
        """Bytes of the coder and both samples."""
        samples = (self.rows.state(), self.codes.state())
        held = [to_numpy(sample[name]).nbytes for sample in samples for name in ("rows", "keys")]
        return int(self.coder.nbytes + sum(held))

    def state(self) -> dict[str, Any]:
        """Return the arguments of the constructor by name."""
        return {"coder": self.coder, "rows": self.rows, "codes": self.codes}


def _codes(packed: NDArray[np.uint8], coder: Coder) -> Codes:
    """The codes of a sample, which is empty where codes are refined."""
    nothing = np.empty((0, coder.refine), np.uint8) if coder.refine else None
    return Codes(packed, coder.bits, coder.epoch, nothing)


class EpochFiles(NamedTuple):
    """Files of epochs that are over, one per epoch.

    Attributes
    ----------
    folder : Path
    load : callable
        From a path to an `Epoch`.
    save : callable or None
        Writes an epoch to a path; None where nothing is to be written.
    """

    folder: Path
    load: Callable[[Path], Any]
    save: Callable[[Any, Path], None] | None

    def path(self, number: int) -> Path:
        """Return the path of an epoch's file."""
        return self.folder / f"epoch-{number:06}.safetensors"

    def open(self, number: int) -> Epoch:
        """Read an epoch; StorageError if its file holds something else."""
        found = self.load(self.path(number))
        if not isinstance(found, Epoch) or found.coder.epoch != number:
            raise StorageError(f"{self.path(number)} does not hold epoch {number}: restore it")
        return found

    def write(self, epoch: Epoch) -> None:
        """Write an epoch, and make the folder if needed; StorageError if that fails."""
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
        """Remove all files but those of the kept epochs; StorageError if that fails."""
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
    """The epochs that were opened last, up to 256 MiB of them. Several threads may use it."""

    def __init__(self) -> None:
        self._held: OrderedDict[int, Epoch] = OrderedDict()
        self._size = 0
        self._lock = ForkSafeLock()

    def get(self, number: int, open_: Callable[[int], Epoch]) -> Epoch:
        """Return an epoch, opened by `open_(number)` if it is not in memory."""
        with self._lock:
            if number not in self._held:
                self._held[number] = open_(number)
                self._size += self._held[number].nbytes
            self._held.move_to_end(number)
            while self._size > OPENED and len(self._held) > 1:
                self._size -= self._held.popitem(last=False)[1].nbytes
            return self._held[number]
