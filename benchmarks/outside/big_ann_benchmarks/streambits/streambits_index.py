"""streambits in the streaming track of NeurIPS'23: copy this folder to neurips23/streaming/."""

from typing import Any

import numpy as np
from neurips23.streaming.base import BaseStreamingANN  # type: ignore[import-not-found]

import streambits as sb

METRICS = {"euclidean": "euclidean", "angular": "cosine", "ip": "inner"}


class Streambits(BaseStreamingANN):  # type: ignore[misc]
    """A `StreamIndex`: it learns, encodes, renews its model and deletes as the runbook says."""

    def __init__(self, metric: str, index_params: dict[str, Any]) -> None:
        self.name = "streambits"
        self._metric = METRICS[metric]
        self._params = dict(index_params)
        self._query_args: dict[str, Any] = {}

    def setup(self, dtype: Any, max_pts: int, ndims: int) -> None:
        """dtype, max_pts and ndims are not needed: it takes what comes, as much as there is."""
        self._index = sb.StreamIndex(metric=self._metric, **self._params)

    def insert(self, X: Any, ids: Any) -> None:
        self._index.add(np.asarray(X, np.float32), np.asarray(ids, np.int64))

    def delete(self, ids: Any) -> None:
        self._index.remove(np.asarray(ids, np.int64))

    def replace(self, X: Any, ids: Any) -> None:
        self.insert(X, ids)

    def set_query_arguments(self, query_args: dict[str, Any]) -> None:
        self._query_args = dict(query_args)

    def query(self, X: Any, k: int) -> None:
        hits = self._index.search(np.asarray(X, np.float32), k, **self._query_args)
        self.res = np.full((len(X), k), -1, np.int64)  # fewer than k may be live
        self.res[:, : hits.ids.shape[1]] = hits.ids

    def get_results(self) -> Any:
        return self.res

    def get_additional(self) -> dict[str, int]:
        return {"epochs": len(self._index.epochs), "bytes": self._index.nbytes}

    def __str__(self) -> str:
        return f"streambits({self._params}, {self._query_args})"
