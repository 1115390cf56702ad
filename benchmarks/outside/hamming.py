"""The Hamming data of ann-benchmarks, on our module for it, beside FAISS.

    python -m benchmarks.outside.hamming [--sizes 128x50000] [--file sift-256-hamming.hdf5]

`random-s-128-hamming` and `random-l-256-hamming` are made here as ann-benchmarks makes them: signs
of blobs around as many centres as there are queries. The module is the file that is copied there
(`ann_benchmarks/streambits/module.py`), called as its runner does: one query at a time, ten
answers, one thread. Recall is theirs: answers within the distance of the true tenth. All
contestants are exact, so it must be 1; queries per second are what is compared.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_blobs
from threadpoolctl import threadpool_limits

from benchmarks.outside.layouts import ann_module

K, QUERIES, RUNS = 10, 1000, 3
Bits = NDArray[np.bool_]


class Data(NamedTuple):
    """Bits to be searched, and those that are searched for."""

    name: str
    train: Bits
    test: Bits


class Result(NamedTuple):
    """What a contestant reached: recall, and queries per second in the best of some runs."""

    name: str
    recall: float
    rate: float
    bytes_per_row: float


class FaissFlat:
    """FAISS's scan of bits."""

    name = "FAISS IndexBinaryFlat"

    def fit(self, X: Bits) -> None:
        self._index = faiss.IndexBinaryFlat(8 * -(-X.shape[1] // 8))
        self._index.add(np.packbits(X, axis=1))

    def query(self, v: Bits, n: int) -> Any:
        return self._index.search(np.packbits(v[None, :], axis=1), n)[1][0]

    def get_additional(self) -> dict[str, float]:
        return {"bytes_per_row": self._index.d / 8}


def random_bits(columns: int, rows: int, queries: int = QUERIES) -> Data:
    """Signs of blobs, as ann-benchmarks draws them."""
    values, _ = make_blobs(rows, columns, centers=queries, random_state=1)
    bits = values > 0
    order = np.random.RandomState(1).permutation(len(bits))  # theirs
    return Data(f"random, {columns} bits x {rows:,}", bits[order[queries:]], bits[order[:queries]])


def from_file(path: str) -> Data:
    """A data set that was downloaded for ann-benchmarks; needs h5py."""
    import h5py  # type: ignore[import-not-found]  # noqa: PLC0415 - for this alone

    with h5py.File(path) as held:
        train, test = (np.asarray(held[name], bool) for name in ("train", "test"))
    return Data(path, train, test)


def judge(data: Data, algorithm: Any, k: int = K) -> Result:
    """Fit, ask one query after the other, and compare with all true distances."""
    algorithm.fit(data.train)
    best, found = np.inf, []
    for _ in range(RUNS):
        start = time.perf_counter()
        found = [np.asarray(algorithm.query(query, k)) for query in data.test]
        best = min(best, time.perf_counter() - start)
    shares = []
    for query, answers in zip(data.test, found, strict=True):
        far = np.count_nonzero(data.train != query, axis=1)
        limit = np.partition(far, k - 1)[k - 1]
        shares.append(np.count_nonzero(far[answers] <= limit) / k)
    more = algorithm.get_additional()["bytes_per_row"]
    return Result(str(algorithm.name), float(np.mean(shares)), len(data.test) / best, more)


def contestants() -> Iterator[Callable[[], Any]]:
    yield partial(ann_module().StreambitsHamming, "hamming")
    yield FaissFlat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", default=["128x50000", "256x100000"])
    parser.add_argument("--file", nargs="*", default=[])
    options = parser.parse_args()
    sizes = [tuple(map(int, size.split("x"))) for size in options.sizes]
    faiss.omp_set_num_threads(1)
    print("| data | algorithm | recall | queries per second | bytes per row |")
    print("|---|---|---:|---:|---:|", flush=True)
    data = [partial(random_bits, *size) for size in sizes]
    data += [partial(from_file, path) for path in options.file]
    with threadpool_limits(1):
        for load in data:
            loaded = load()
            for make in contestants():
                name, recall, rate, size = judge(loaded, make())
                line = f"{name} | {recall:.3f} | {rate:,.0f} | {size:.0f} |"
                print(f"| {loaded.name} | {line}", flush=True)


if __name__ == "__main__":
    main()
