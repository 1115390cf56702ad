"""Streaming runbooks: recall@10 over all searches while rows come, cluster by cluster, and go.

    STREAMBITS_DATA=folder python -m experiments.runbooks [--data sift] [--only product]

The clustered runbook of the NeurIPS'23 streaming track (`benchmarks.runbooks.clustered`,
16 clusters: 160 searches), on the paper's streams; 200 queries are held out. All codes have 16
bytes per row.

mean, worst, steadiness   recall@10 over all searches; the worst over the mean
raw                       searches before the first codes, when an index has its rows as they are
coded                     the mean of the other searches
late                      the mean after the first of five rounds
ranked, ranked_worst      100 answers, ranked again by raw rows

FAISS in advance was trained on all rows before the first step; on the first insert, on its rows
(repeated where there are fewer than the 256 that it needs). Rows are padded with columns of zeros.

Measures that a stream index may take (`Renewing`): product codes, fitted anew on 5,000 of all rows
seen, or of those that are live; when the rows seen have doubled, or when as many rows have come and
gone as a share of those that were live at the last fit; old codes kept as they are, or encoded
again from raw rows. "after 250": the first codes are fitted on that many rows, about one insert.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

import streambits as sb
from benchmarks.runbooks import Playable, Runbook, clustered, play, true_radii
from paper import datasets
from streambits.index.hits import Hits
from streambits.index.rerank import rerank

QUERIES, K, CLUSTERS, RANKED, LEAST = 200, 10, 16, 100, 256
Rows = NDArray[np.float32]
Ids = NDArray[np.int64]


class Task(NamedTuple):
    """A runbook, the rows that it is for, queries, and the true distances of their answers."""

    runbook: Runbook
    rows: Rows
    queries: Rows
    radii: NDArray[np.float64]
    seed: int


class Faiss:
    """An index of FAISS; `sample` trains it, or the first rows that are added."""

    def __init__(self, name: str, n_bytes: int, columns: int, sample: Rows | None = None) -> None:
        self.padding = ((0, 0), (0, -columns % n_bytes))
        width = columns + -columns % n_bytes
        self.index: Any = faiss.IndexIDMap2(faiss.index_factory(width, name.format(n_bytes)))
        self.trained = False
        if sample is not None:
            self._train(np.pad(sample, self.padding))

    def _train(self, rows: Rows) -> None:
        self.index.train(np.resize(rows, (max(LEAST, len(rows)), rows.shape[1])))
        self.trained = True

    def add(self, rows: Rows, ids: Ids) -> None:
        """Insert or replace."""
        padded = np.pad(rows, self.padding)
        if not self.trained:
            self._train(padded)
        self.index.remove_ids(ids)
        self.index.add_with_ids(padded, ids)

    def remove(self, ids: Ids) -> None:
        """Delete."""
        self.index.remove_ids(ids)

    def search(self, queries: Rows, k: int) -> Hits:
        """Find the k nearest."""
        distances, ids = self.index.search(np.pad(queries, self.padding), k)
        return Hits(ids, distances)


class Renewing:
    """Product codes of a quantiser that is fitted anew, in one of several ways.

    live: fitted on a sample of live rows, or of all rows seen; change: fitted anew when that share
    of the live rows at the last fit has come or gone, or None: when the rows seen have doubled;
    again: old rows are encoded again at each fit; first: rows before the first fit, kept raw;
    size: rows of the sample.
    """

    def __init__(
        self, n_bytes: int, rows: int, columns: int, *, live: bool = False,
        change: float | None = None, again: bool = False, first: int = 1000, size: int = 5000,
        seed: int = 0,
    ) -> None:  # fmt: skip
        self.n_bytes, self.live, self.change, self.again = n_bytes, live, change, again
        self.first, self.size = first, size
        self.rng = np.random.default_rng(seed)
        self.held = np.zeros((rows, columns), np.float32)
        self.alive, self.seen = np.zeros(rows, bool), np.zeros(rows, bool)
        self.coders, self.codes = sb.CoderSet(), sb.HammingIndex(0, refine=n_bytes)
        self.coder: Any = None
        self.fits = self.fitted_at = self.moved = self.arrived = 0

    def add(self, rows: Rows, ids: Ids) -> None:
        """Insert or replace."""
        self.held[ids], self.alive[ids], self.seen[ids] = rows, True, True
        self.moved += len(ids)
        self.arrived += len(ids)
        if not self._renew() and self.coder is not None:
            self._encode(ids)

    def remove(self, ids: Ids) -> None:
        """Delete."""
        self.alive[ids] = False
        self.moved += len(ids)
        if self.coder is not None:
            self.codes.remove(ids)
            self._renew()

    def _renew(self) -> bool:
        """Fit anew if it is time; whether that was so, and all live rows have codes then."""
        if not self._due():
            return False
        known = np.flatnonzero(self.alive if self.live else self.seen)
        sample = self.held[self.rng.permutation(known)[: self.size]]
        settings = sb.Settings(method="product", refine=self.n_bytes, epochs="never")
        made = settings.learner([sample]).learn(sample).coder()
        parts = made.features, made.projection, self.fits, made.refinement, made.metric
        self.coder = sb.Coder(*parts)
        self.fits += 1
        self.fitted_at, self.moved = self._measure(), 0
        every = np.flatnonzero(self.alive)
        if self.again or self.fits == 1:
            self._encode(every)
        else:
            new = every[~self.codes.has(every)]
            self._encode(new)
        return True

    def _measure(self) -> int:
        return int(self.alive.sum()) if self.change is not None else self.arrived

    def _due(self) -> bool:
        if self.coder is None:
            return int(self.alive.sum()) >= self.first
        if self.change is not None:
            return self.moved >= self.change * self.fitted_at
        return self.arrived >= 2 * self.fitted_at

    def _encode(self, ids: Ids) -> None:
        if len(ids):
            codes = self.coder.encode(self.held[ids])
            self.coders.record(self.coder, self.held[ids], codes)
            self.codes.upsert(codes, ids)

    def search(self, queries: Rows, k: int) -> Hits:
        """Find the k nearest."""
        if self.coder is not None:
            return self.coders.search(self.codes, queries, k)
        ids = np.flatnonzero(self.alive)
        every = np.broadcast_to(ids, (len(queries), len(ids)))
        return rerank(Hits(every, np.zeros(every.shape)), queries, self.held, k)


class Twice:
    """An index whose answers are also ranked again by raw rows; what that finds is kept."""

    def __init__(self, index: Any, task: Task) -> None:
        self.index, self.queries = index, task.queries
        self.held = np.zeros_like(task.rows)
        self.radii = iter(task.radii)
        self.ranked: list[float] = []
        self.raw: list[bool] = []

    def add(self, rows: Rows, ids: Ids) -> None:
        """Insert or replace."""
        self.held[ids] = rows
        self.index.add(rows, ids)

    def remove(self, ids: Ids) -> None:
        """Delete."""
        self.index.remove(ids)

    def search(self, queries: Rows, k: int) -> Hits:
        """Find the k nearest."""
        found = self.index.search(queries, RANKED)
        within = [
            self._within(ids[ids >= 0], query, radius, k)
            for ids, query, radius in zip(found.ids, queries, next(self.radii), strict=True)
        ]
        self.ranked.append(float(np.mean(within)))
        self.raw.append(is_raw(self.index))
        return Hits(found.ids[:, :k], found.distances[:, :k])

    def _within(self, ids: Ids, query: Rows, radius: float, k: int) -> float:
        """The share of k that is among these answers, which is what ranking them again finds."""
        offsets = self.held[ids] - query.astype(np.float64)
        return min(k, int((np.vecdot(offsets, offsets) <= radius).sum())) / k


def is_raw(index: Any) -> bool:
    """Whether an index has no codes yet, but rows."""
    if isinstance(index, sb.StreamIndex):
        return index.waiting > 0
    return isinstance(index, Renewing) and index.coder is None


def product(n_bytes: int, **more: Any) -> sb.StreamIndex:
    return sb.StreamIndex(method="product", refine=n_bytes, **more)


class AllRanked(sb.StreamIndex):
    """One that ranks all codes by what they decode to."""

    def search(self, rows: Any, k: int = 10, **options: Any) -> Hits:
        """Find the k nearest."""
        return super().search(rows, k, candidates="all", **options)


def refined(bits: int, n_bytes: int, *, every: bool = False, **more: Any) -> sb.StreamIndex:
    kind = AllRanked if every else sb.StreamIndex
    return kind(bits=bits, refine=n_bytes - bits // 8, **more)


def renewing(**how: Any) -> Callable[[Task, int], Playable]:
    return lambda task, n: Renewing(n, *task.rows.shape, seed=task.seed, **how)


def from_faiss(name: str, *, advance: bool) -> Callable[[Task, int], Playable]:
    return lambda task, n: Faiss(name, n, task.rows.shape[1], task.rows if advance else None)


CONTESTANTS: dict[str, Callable[[Task, int], Any]] = {
    "FAISS PQ, in advance": from_faiss("PQ{}x8np", advance=True),
    "FAISS OPQ, in advance": from_faiss("OPQ{0},PQ{0}x8np", advance=True),
    "FAISS PQ, first insert": from_faiss("PQ{}x8np", advance=False),
    "64 bits + 8 bytes": lambda _, n: refined(64, n),
    "32 bits + 12 bytes": lambda _, n: refined(32, n),
    "product": lambda _, n: product(n),
    "product, rows kept": lambda _, n: product(n, keep_rows=True),
    "64 bits + 8 bytes, rows kept": lambda _, n: refined(64, n, keep_rows=True),
    "64 bits + 8 bytes, all ranked": lambda _, n: refined(64, n, every=True),
    "32 bits + 12 bytes, all ranked": lambda _, n: refined(32, n, every=True),
    "product, after 250": lambda _, n: product(n, n_landmarks=25),
    "product, after 250, never": lambda _, n: product(n, n_landmarks=25, epochs="never"),
    "32 bits + 12 bytes, after 1000": lambda _, n: refined(32, n, n_landmarks=100),
    "seen, doubled, kept, after 250": renewing(first=250),
    "seen, doubled, again, after 250": renewing(first=250, again=True),
    "live, changed 0.5, kept, after 250": renewing(first=250, live=True, change=0.5),
    "live, changed 0.5, again, after 250": renewing(first=250, live=True, change=0.5, again=True),
    "seen, doubled, kept": renewing(),
    "seen, doubled, again": renewing(again=True),
    "live, doubled, kept": renewing(live=True),
    "live, doubled, again": renewing(live=True, again=True),
    "live, changed 0.5, kept": renewing(live=True, change=0.5),
    "live, changed 0.5, again": renewing(live=True, change=0.5, again=True),
    "live, changed 1, kept": renewing(live=True, change=1.0),
    "live, changed 1, again": renewing(live=True, change=1.0, again=True),
    "live, changed 2, again": renewing(live=True, change=2.0, again=True),
    "seen, changed 0.5, kept": renewing(change=0.5),
    "seen, changed 0.5, again": renewing(change=0.5, again=True),
}


def task_of(name: str, seed: int, clusters: int, most: int) -> Task:
    marks, length = datasets.SIZES[name]
    stream = datasets.stream(name, marks, min(length, most), seed=seed).rows
    drawn = np.random.default_rng(seed).permutation(len(stream))
    asked, rows = (
        np.ascontiguousarray(stream[places], np.float32)
        for places in (drawn[:QUERIES], np.sort(drawn[QUERIES:]))
    )
    runbook, order = clustered(rows, clusters, seed=seed)
    rows = rows[order]
    return Task(runbook, rows, asked, true_radii(runbook, rows, asked, K), seed)


def measure(make: Callable[[Task, int], Any], task: Task, n_bytes: int) -> dict[str, Any]:
    began = time.perf_counter()
    twice = Twice(make(task, n_bytes), task)
    made = time.perf_counter() - began
    played = play(task.runbook, task.rows, task.queries, twice, K, radii=task.radii)
    recalls, raw = np.array([one.recall for one in played.searches]), np.array(twice.raw)
    index = twice.index
    coders = getattr(index, "coders", None)
    return {
        "mean": played.mean,
        "worst": played.worst,
        "steadiness": played.steadiness,
        "raw": int(raw.sum()),
        "coded": float(recalls[~raw].mean()) if (~raw).any() else None,
        "late": float(recalls[len(recalls) // 5 :].mean()),  # after the first of five rounds
        "ranked": float(np.mean(twice.ranked)),
        "ranked_worst": min(twice.ranked),
        "epochs": len(coders) if coders is not None else None,
        "seconds": {**played.seconds, "make": made},
        "recalls": recalls.round(4).tolist(),
    }


HEADS = ("mean", "worst", "steadiness", "raw", "coded", "late", "ranked", "ranked_worst", "epochs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clusters", type=int, default=CLUSTERS)
    parser.add_argument("--most", type=int, default=30000, help="rows of a stream")
    parser.add_argument("--data", nargs="*", default=["mnist", "sift", "covtype", "dsads"])
    parser.add_argument("--only", nargs="*", help="names of contestants; all by default")
    parser.add_argument("--log", help="a file to which every result is appended, as JSON lines")
    options = parser.parse_args()
    print("| data | index |", " | ".join(HEADS), "| seconds |")
    print("|---|---|" + "---:|" * (len(HEADS) + 1))
    for name in filter(datasets.available, options.data):
        task = task_of(name, options.seed, options.clusters, options.most)
        for who, make in CONTESTANTS.items():
            if options.only and who not in options.only:
                continue
            try:
                found = measure(make, task, options.bytes)
            except sb.errors.InputError as error:  # it has no codes of this length
                print(f"| {name} | {who} | {error}", file=sys.stderr)
                continue
            cells = (f"{v:.3f}" if isinstance(v, float) else str(v) for v in map(found.get, HEADS))
            spent = sum(found["seconds"].values())
            print(f"| {name} | {who} |", " | ".join(cells), f"| {spent:.0f} |", flush=True)
            if options.log:
                with open(options.log, "a") as file:
                    file.write(json.dumps({"data": name, "index": who, **found}) + "\n")


if __name__ == "__main__":
    main()
