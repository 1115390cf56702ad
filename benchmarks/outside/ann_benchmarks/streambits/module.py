"""streambits in ann-benchmarks: copy this folder to ann_benchmarks/algorithms/streambits.

`python run.py --dataset random-s-128-hamming --algorithm streambits-hamming` and others follow.
"""

from typing import Any

import numpy as np

import streambits as sb

from ..base.module import BaseANN  # type: ignore[import-not-found]  # of ann-benchmarks

METRICS = {"euclidean": "euclidean", "angular": "cosine"}


class StreambitsHamming(BaseANN):  # type: ignore[misc]
    """Exact search of bits by a scan: no recall is traded for speed."""

    def __init__(self, metric: str) -> None:
        if metric != "hamming":
            raise NotImplementedError(f"StreambitsHamming does not support metric {metric}")
        self.name = "streambits-hamming"

    def fit(self, X: Any) -> None:
        codes = sb.Codes.from_bits(np.asarray(X, bool))
        self._index = sb.HammingIndex(codes.bits)
        self._index.add(codes)
        self.query(np.asarray(X[0], bool), 1)  # compiles

    def query(self, v: Any, n: int) -> Any:
        return self._index.search(sb.Codes.from_bits(np.asarray(v, bool)[None, :]), n).ids[0]

    def batch_query(self, X: Any, n: int) -> None:
        self.res = self._index.search(sb.Codes.from_bits(np.asarray(X, bool)), n).ids

    def get_additional(self) -> dict[str, float]:
        return {"bytes_per_row": self._index.nbytes / len(self._index)}


class Streambits(BaseANN):  # type: ignore[misc]
    """Codes of real rows: candidates by sign bits, ranked by what their codes decode to."""

    def __init__(self, metric: str, bits: int, refine: int) -> None:
        if metric not in METRICS:
            raise NotImplementedError(f"Streambits does not support metric {metric}")
        method = "auto" if bits else "product"
        self._settings = sb.Settings(
            bits or 64, method, refine=refine, metric=METRICS[metric], epochs="never"
        )
        self._candidates: int | None = None
        self.name = f"streambits({bits} bits + {refine} bytes)"

    def fit(self, X: Any) -> None:
        rows = np.asarray(X, np.float32)
        learner = self._settings.learner([rows[: self._settings.gathered]])
        self._coder = learner.learn(rows).coder()
        self._index = sb.HammingIndex(self._coder.bits)
        self._index.add(self._coder.encode(rows))
        self.query(rows[0], 1)

    def set_query_arguments(self, candidates: int) -> None:
        self._candidates = candidates
        self.name = f"{self.name.split(', ')[0]}, {candidates} candidates"

    def query(self, v: Any, n: int) -> Any:
        return self._found(np.asarray(v, np.float32)[None, :], n)[0]

    def batch_query(self, X: Any, n: int) -> None:
        self.res = self._found(np.asarray(X, np.float32), n)

    def _found(self, rows: Any, n: int) -> Any:
        queries = self._coder.queries(rows)
        return self._index.search(queries, n, candidates=self._candidates).ids

    def get_additional(self) -> dict[str, float]:
        return {"bytes_per_row": -(-self._coder.bits // 8) + self._coder.refine}
