"""FAISS's own codes as contestants: LSH, ITQ, RaBitQ and product quantisation."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, as_choice, as_rows, to_numpy
from streambits._threads import rescan_blas
from streambits.errors import InputError, MissingExtraError
from streambits.model.codes import Codes, as_bits

try:
    import faiss
except ImportError:
    raise MissingExtraError("faiss-cpu", "faiss") from None

rescan_blas()  # FAISS brings a BLAS of its own, whatever was imported first

BLOCK = 256  # queries ranked at a time
CENTROIDS = 256  # of a sub-quantiser: 8 bits


@dataclass(frozen=True)
class Kind:
    """A rival: how FAISS builds its index, why it may not have a length, how codes compare.

    refusal takes bits, columns and training rows; hamming: by whole numbers, else by estimates of
    the squared distance to the uncompressed query.
    """

    build: Callable[[int, int], Any]
    refusal: Callable[[int, int, int], str]
    hamming: bool


class Rival:
    """One of FAISS's codes, trained on `train`; smaller distances are nearer.

    The same rows give the same distances: FAISS is held at one thread while it works here, and its
    setting is put back; its random numbers have fixed seeds, so there is no `seed`.

    name: of `RIVALS`:
    'lsh', a random rotation cut at the medians of `train`, Hamming distances;
    'itq', principal components turned to corners, Hamming distances; FAISS first scales every row
    to unit length around the mean, so lengths that mean something are lost;
    'rabitq', a random rotation and one bit a column, estimated distances;
    'pq', product quantisation in sub-vectors of 8 bits, asymmetric distances; columns that do not
    divide into sub-vectors are filled up with columns of zeros, which change no distance;
    'opq', the same after a rotation that is fitted to it.
    train: (m, d); bits: length of the codes, as far as `refusal` has nothing against it.

    >>> rows = np.random.default_rng(0).random((1000, 16), dtype=np.float32)
    >>> Rival("lsh", rows[:100], 32).distances(rows[:2], rows).shape
    (2, 1000)
    """

    def __init__(self, name: str, train: Array, bits: int) -> None:
        self.name = as_choice(name, "name", tuple(RIVALS))
        rows = _rows(train, name="train")
        count, self.columns = rows.shape
        self.bits = as_bits(bits)
        reason = self.refusal(name, self.bits, columns=self.columns, train=count)
        if reason:
            raise InputError(f"{name} has no codes of {self.bits} bits here: {reason}")
        with _one_thread():
            self._index = RIVALS[name].build(self.columns, self.bits)
            self._index.train(rows)

    @staticmethod
    def refusal(name: str, bits: int, *, columns: int, train: int) -> str:
        """Why it has no codes of this length from `train` rows, or an empty text if it has."""
        return RIVALS[as_choice(name, "name", tuple(RIVALS))].refusal(bits, columns, train)

    @property
    def nbytes(self) -> int:
        """Bytes that FAISS keeps for a row: the code, and for 'rabitq' two numbers more."""
        return int(self._index.sa_code_size())

    def encode(self, rows: Array) -> NDArray[np.uint8]:
        """(n, nbytes): what FAISS keeps for rows."""
        with _one_thread():
            return np.asarray(self._index.sa_encode(self._checked(rows)), np.uint8)

    def distances(self, queries: Array, rows: Array) -> NDArray[Any]:
        """(q, n) from each query to each row: whole numbers of bits, or estimates as float32."""
        if RIVALS[self.name].hamming:
            mine, theirs = (Codes(self.encode(part), self.bits) for part in (queries, rows))
            return mine.hamming(theirs)
        queries, rows = self._checked(queries), self._checked(rows)
        found = np.empty((len(queries), len(rows)), np.float32)
        with _one_thread():
            self._index.add(rows)
            for start in range(0, len(queries), BLOCK):
                values, places = self._index.search(queries[start : start + BLOCK], len(rows))
                np.put_along_axis(found[start : start + BLOCK], places, values, axis=1)
            self._index.reset()
        return found

    def _checked(self, rows: Array) -> NDArray[np.float32]:
        return _rows(rows, width=self.columns)


def _rows(rows: Array, *, width: int | None = None, name: str = "rows") -> NDArray[np.float32]:
    checked = as_rows(to_numpy(as_rows(rows, name=name)), like=np.zeros(1, np.float32), width=width)
    return np.ascontiguousarray(checked)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Hold FAISS's own OpenMP at one thread; nobody else uses it."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _lsh(columns: int, bits: int) -> Any:
    return faiss.IndexLSH(columns, bits, True, True)  # rotated, thresholds from `train`


def _itq(columns: int, bits: int) -> Any:
    return _chain(faiss.ITQTransform(columns, bits, True), faiss.IndexLSH(bits, bits, False, False))


def _rabitq(columns: int, _: int) -> Any:
    index = faiss.IndexRaBitQ(columns)
    index.qb = 0  # queries stay as they are: its best ranking
    turn = faiss.RandomRotationMatrix(columns, columns)
    turn.init(1)
    return _chain(turn, index)


def _pq(columns: int, bits: int) -> Any:
    return _padded(columns, bits)


def _opq(columns: int, bits: int) -> Any:
    return _padded(columns, bits, turned=True)


def _padded(columns: int, bits: int, *, turned: bool = False) -> Any:
    """Product quantisation of rows that are filled up to whole sub-vectors."""
    parts = bits // 8
    width = columns + -columns % parts
    index = faiss.IndexPQ(width, parts, 8)
    index.pq.cp.min_points_per_centroid = 1  # no complaints on stderr
    turns = [_turn(width, parts)] if turned else []
    remap: Any = faiss.RemapDimensionsTransform  # its stub lacks this constructor
    return _chain(remap(columns, width, False), *turns, index)


def _turn(width: int, parts: int) -> Any:
    """A rotation for product quantisation, fitted without complaints on stderr."""
    turn: Any = faiss.OPQMatrix(width, parts)
    inner: Any = faiss.ProductQuantizer(width, parts, 8)
    inner.cp.min_points_per_centroid = 1
    inner.this.disown()  # the rotation points to it, and does not own it
    turn.pq = inner
    return turn


def _chain(*parts: Any) -> Any:
    """Transforms one after the other, and then an index."""
    *first, last, index = parts
    both = faiss.IndexPreTransform(last, index)
    both.own_fields = True  # FAISS frees them with the chain, so Python must not
    for transform in reversed(first):
        both.prepend_transform(transform)
    for part in parts:
        part.this.disown()
    return both


def _any_length(_bits: int, _columns: int, _train: int) -> str:
    return ""


def _itq_refusal(bits: int, columns: int, train: int) -> str:
    if bits > columns:
        return f"at most {columns} bits: one per column"
    return f"{bits} principal components need as many training rows" if bits > train else ""


def _rabitq_refusal(bits: int, columns: int, _train: int) -> str:
    return "" if bits == columns else f"exactly {columns} bits: one per column"


def _pq_refusal(bits: int, columns: int, train: int) -> str:
    del columns
    if bits % 8:
        return "whole bytes only: 8 bits per sub-quantiser"
    return f"at least {CENTROIDS} training rows: one per centroid" if train < CENTROIDS else ""


RIVALS: dict[str, Kind] = {
    "lsh": Kind(_lsh, _any_length, hamming=True),
    "itq": Kind(_itq, _itq_refusal, hamming=True),
    "rabitq": Kind(_rabitq, _rabitq_refusal, hamming=False),
    "pq": Kind(_pq, _pq_refusal, hamming=False),
    "opq": Kind(_opq, _pq_refusal, hamming=False),
}
