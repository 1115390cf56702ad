"""Runbooks: rows that come, change and go, with searches between, as a benchmark of indexes.

    python -m benchmarks.runbooks generate clustered rows.npy book.yaml
    python -m benchmarks.runbooks play book.yaml book.npy queries.npy --method product --refine 16

The format, the rules and the figure are those of the streaming track of NeurIPS'23
(github.com/harsha-simhadri/big-ann-benchmarks, neurips23/streaming): a YAML file of numbered steps
under the name of a data set. `insert` and `delete` have a range of rows, `replace` gives a range of
ids other rows, and `search` asks for the nearest of all queries. The figure is recall@10, averaged
over all searches. `generate` writes the rows in the order of the runbook beside it, as .npy.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import yaml
from numpy.typing import NDArray

import streambits as sb
from streambits._arrays import as_choice, as_count, as_rows, squared_distances, to_numpy
from streambits.errors import InputError
from streambits.evaluation.truth import EPS
from streambits.features import centres

MAX_DELETED = 0.9  # of a cluster, in a round of deletions
CENTRES_ROWS = 100_000  # rows, of which centres are taken
LIFETIMES = ((None, 1), (100, 3), (20, 15))  # of 350 steps: steps that rows stay, and how often
BLOCK = 4096  # rows of which distances are computed at a time
QUERIES = 100  # queries whose radii are found at a time
K = 10


class Insert(NamedTuple):
    """Rows start to end (exclusive) of the data are inserted; their ids are their numbers."""

    start: int
    end: int


class Delete(NamedTuple):
    """The ids start to end (exclusive), all of them live, are deleted."""

    start: int
    end: int


class Replace(NamedTuple):
    """The live ids from tags_start on have from now on the rows from ids_start on."""

    tags_start: int
    tags_end: int
    ids_start: int
    ids_end: int


class Search(NamedTuple):
    """All queries are asked."""


Step = Insert | Delete | Replace | Search
OPERATIONS: dict[str, type[Any]] = {
    "insert": Insert,
    "delete": Delete,
    "replace": Replace,
    "search": Search,
}
NAMES = {kind: name for name, kind in OPERATIONS.items()}


@dataclass(frozen=True)
class Runbook:
    """Steps on a data set; max_pts: most rows that are live at a time.

    >>> runbook = Runbook("mine", (Insert(0, 10), Delete(0, 5), Search()))
    >>> runbook.searches, runbook.rows_needed, runbook.max_pts
    (1, 10, 10)
    """

    dataset: str
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        _ = self.max_pts  # it checks the steps

    @property
    def searches(self) -> int:
        """Number of searches."""
        return sum(isinstance(step, Search) for step in self.steps)

    @property
    def rows_needed(self) -> int:
        """Number of rows that the data set must have."""
        return max((max(step, default=0) for step in self.steps), default=0)

    @property
    def max_pts(self) -> int:
        """The rows that are live at a time, at most; InputError for steps that cannot be."""
        live, most = np.zeros(self.rows_needed, bool), 0
        for number, step in enumerate(self.steps, 1):
            where = f"step {number} ({NAMES[type(step)]})"
            if any(not 0 <= low <= high for low, high in zip(step[::2], step[1::2], strict=True)):
                raise InputError(f"{where} has a range that goes down")
            if isinstance(step, Search):
                continue
            state = live[slice(*step[:2])]
            if state.any() if isinstance(step, Insert) else not state.all():
                raise InputError(f"{where} has rows that are live, or not, where they must not be")
            if isinstance(step, Replace) and step[1] - step[0] != step[3] - step[2]:
                raise InputError(f"{where} has not one row per id")
            live[slice(*step[:2])] = not isinstance(step, Delete)
            most = max(most, int(live.sum()))
        return most

    def write(self, path: str | Path) -> None:
        """Write a YAML file of the track."""
        steps: dict[Any, Any] = {
            number: {"operation": NAMES[type(step)], **step._asdict()}
            for number, step in enumerate(self.steps, 1)
        }
        content = {self.dataset: {"max_pts": max(1, self.max_pts), **steps}}
        Path(path).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def read(path: str | Path, dataset: str | None = None) -> Runbook:
    """Read a runbook of the track; dataset: its name, where the file has several."""
    content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    if not isinstance(content, dict) or (dataset is None and len(content) != 1):
        raise InputError(f"{path} has not one data set: name it")
    name = next(iter(content)) if dataset is None else dataset
    entries = {key: value for key, value in content[name].items() if isinstance(key, int)}
    if sorted(entries) != list(range(1, len(entries) + 1)):
        raise InputError(f"{path}: the steps of {name} do not count from 1 on")
    return Runbook(str(name), tuple(_step(path, n, entries[n]) for n in sorted(entries)))


def _step(path: str | Path, number: int, entry: dict[str, Any]) -> Step:
    values = {key: value for key, value in entry.items() if key != "operation"}
    try:
        step: Step = OPERATIONS[entry["operation"]](**values)
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: step {number} is {entry}, which is no step") from error
    return step


# Generators


class Generated(NamedTuple):
    """A runbook for `rows[order]`: order (n,) are numbers of rows."""

    runbook: Runbook
    order: NDArray[np.intp]


def clustered(
    rows: Any, n_clusters: int = 32, *, rounds: int = 5, dataset: str = "rows", seed: int = 0
) -> Generated:
    """Generate a runbook as the final one of the track: cluster by cluster, in rounds.

    In each round the same share of every cluster is inserted, cluster after cluster, and then 0 to
    90 % of what is live of each cluster is deleted, oldest first. A search follows every step. The
    runbook is for `rows[order]`, in which the rows of a cluster are together.

    >>> rows = np.random.default_rng(0).random((100, 4))
    >>> runbook, order = clustered(rows, 4, rounds=2)
    >>> runbook.searches, runbook.steps[:2], sorted(order) == list(range(100))
    (16, (Insert(start=0, end=...), Search()), True)
    """
    rows = to_numpy(as_rows(rows))
    n_clusters = as_count(n_clusters, "n_clusters", most=len(rows))
    labels = _labels(rows, n_clusters, seed)
    order = np.argsort(labels, kind="stable")
    edges = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n_clusters))]).tolist()
    spans = [(low, high) for low, high in pairwise(edges) if low < high]
    rng, steps = np.random.default_rng([seed, 1]), list[Step]()
    inserted, deleted = [low for low, _ in spans], [low for low, _ in spans]
    for one in range(rounds):
        for i, (low, high) in enumerate(spans):
            end = low + (high - low) * (one + 1) // rounds
            steps += [Insert(inserted[i], end), Search()]
            inserted[i] = end
        for i in range(len(spans)):
            share = rng.uniform(0, MAX_DELETED)
            end = deleted[i] + int(share * (inserted[i] - deleted[i]))
            steps += [Delete(deleted[i], end), Search()]
            deleted[i] = end
    return Generated(Runbook(dataset, tuple(steps)), order)


def _labels(rows: NDArray[Any], n_clusters: int, seed: int) -> NDArray[np.intp]:
    """The nearest centre of every row."""
    drawn = np.random.default_rng(seed).permutation(len(rows))[:CENTRES_ROWS]
    origin = rows.mean(axis=0, dtype=np.float64)
    means = to_numpy(centres(rows[np.sort(drawn)] - origin, n_clusters, seed=seed))
    half = np.vecdot(means, means) / 2
    parts = (rows[i : i + BLOCK] - origin for i in range(0, len(rows), BLOCK))
    return np.concatenate([np.argmin(half - part @ means.T, axis=1) for part in parts])


def expiry(
    count: int,
    n_inserts: int = 350,
    *,
    lifetimes: tuple[tuple[int | None, int], ...] = LIFETIMES,
    dataset: str = "rows",
    seed: int = 0,
) -> Runbook:
    """Generate a runbook in which rows expire, as those of Wikipedia and MS MARCO in the track.

    A search follows each insert and the deletions that are due. lifetimes: after how many inserts
    the rows of an insert are deleted (None: never), and how likely that is beside the others.
    """
    edges = _edges(count, n_inserts)
    weights = np.array([weight for _, weight in lifetimes], np.float64)
    drawn = np.random.default_rng(seed).choice(len(weights), n_inserts, p=weights / weights.sum())
    due: dict[int, list[int]] = {}
    steps: list[Step] = []
    for i in range(n_inserts):
        steps.append(Insert(edges[i], edges[i + 1]))
        stay = lifetimes[drawn[i]][0]
        if stay is not None:
            due.setdefault(i + stay, []).append(i)
        steps += [Delete(edges[j], edges[j + 1]) for j in due.pop(i, [])]
        steps.append(Search())
    return Runbook(dataset, tuple(steps))


def sliding_window(count: int, n_inserts: int = 200, *, dataset: str = "rows") -> Runbook:
    """Generate a runbook of a sliding window, as that of MS Turing in the track.

    Half of the rows are inserted; then a search, a deletion of the oldest rows and an insert of as
    many new ones take turns.
    """
    edges = _edges(count, as_count(n_inserts, "n_inserts", least=2))
    window, steps = n_inserts // 2, list[Step]()
    for i in range(n_inserts):
        if i >= window:
            steps += [Search(), Delete(edges[i - window], edges[i - window + 1])]
        steps.append(Insert(edges[i], edges[i + 1]))
    return Runbook(dataset, tuple(steps))


GENERATORS = ("clustered", "expiry", "sliding_window")


def generate(kind: str, rows: Any, *, dataset: str = "rows", seed: int = 0) -> Generated:
    """Generate a runbook of one of the kinds; the order is that of the rows but for clustered."""
    if as_choice(kind, "kind", GENERATORS) == "clustered":
        return clustered(rows, dataset=dataset, seed=seed)
    if kind == "expiry":
        return Generated(expiry(len(rows), dataset=dataset, seed=seed), np.arange(len(rows)))
    return Generated(sliding_window(len(rows), dataset=dataset), np.arange(len(rows)))


def _edges(count: int, n_inserts: int) -> list[int]:
    count, n_inserts = as_count(count, "count"), as_count(n_inserts, "n_inserts", most=count)
    return [count * i // n_inserts for i in range(n_inserts + 1)]


# Playing


class Playable(Protocol):
    """An index that a runbook can be played on; a search returns anything with ids (q, k)."""

    def add(self, rows: NDArray[Any], ids: NDArray[np.int64], /) -> Any:
        """Insert rows, in place of those that their ids have."""

    def remove(self, ids: NDArray[np.int64], /) -> Any:
        """Delete ids."""

    def search(self, queries: NDArray[Any], k: int, /) -> Any:
        """Find the k nearest of each query."""


class Searched(NamedTuple):
    """One search: its step, the rows that were live, its recall, and the time it took."""

    step: int
    live: int
    recall: float
    seconds: float


@dataclass(frozen=True)
class Played:
    """What an index reached; seconds: time in each operation altogether."""

    k: int
    searches: tuple[Searched, ...]
    seconds: dict[str, float]

    @property
    def mean(self) -> float:
        """Recall, averaged over all searches: the figure of the track."""
        return float(np.mean([one.recall for one in self.searches]))

    @property
    def worst(self) -> float:
        """The lowest recall of a search."""
        return min(one.recall for one in self.searches)

    @property
    def steadiness(self) -> float:
        """The worst recall over the mean."""
        return self.worst / self.mean if self.mean else 0.0


def true_radii(runbook: Runbook, rows: Any, queries: Any, k: int = K) -> NDArray[np.float64]:
    """Squared distances (searches, q) within which a live row is one of the k nearest."""
    data, asked = _checked(runbook, rows, queries)

    def live() -> Iterator[NDArray[np.intp]]:
        for step, state in _states(runbook, len(data)):
            if isinstance(step, Search):
                yield state[state >= 0]

    return nearest_radii(data, asked, as_count(k, "k"), live)


def nearest_radii(
    rows: NDArray[Any],
    queries: NDArray[Any],
    k: int,
    subsets: Callable[[], Iterable[NDArray[np.intp]]],
) -> NDArray[np.float64]:
    """Find how far the k-th nearest of each query is, among each of several subsets of rows.

    Squared distances (subsets, q), with room for rounding: a row within them is one of the k
    nearest, or as near as the k-th; those in an empty subset are below 0. `subsets` returns an
    iterable of places of rows, and is called once per block of queries.

    >>> rows, asked = np.array([[0.0], [1.0], [3.0]]), np.array([[0.0]])
    >>> nearest_radii(rows, asked, 2, lambda: [np.array([0, 1]), np.array([0, 2])]).round(6)
    array([[1.],
           [9.]])
    """
    centre = rows.mean(axis=0, dtype=np.float64)
    shifted, asked = rows - centre, queries - centre
    largest = np.vecdot(shifted, shifted).max()
    found = []
    for start in range(0, len(asked), QUERIES):
        some = asked[start : start + QUERIES]
        squared = np.ascontiguousarray(squared_distances(some, shifted).T)  # subsets are its rows
        rounding = EPS * (np.vecdot(some, some) + largest)
        own = queries[start : start + QUERIES].astype(np.float64)
        far = [_kth(rows, own, squared, places, k) for places in subsets()]
        found.append(np.stack(far) + rounding)
    return np.concatenate(found, axis=1)


def _kth(
    rows: NDArray[Any],
    queries: NDArray[np.float64],
    squared: NDArray[np.float64],
    places: NDArray[np.intp],
    k: int,
) -> NDArray[np.float64]:
    """The squared distance of the k-th nearest place, or the last of fewer; of none, -infinity.

    squared: (n, q) finds it; its distance is computed anew, from the rows as they are.
    """
    if not len(places):
        return np.full(len(queries), -np.inf)
    last = min(k, len(places)) - 1
    found = places[np.argpartition(squared[places].T, last, axis=1)[:, last]]
    offsets = rows[found] - queries
    return np.asarray(np.vecdot(offsets, offsets))


def play(
    runbook: Runbook,
    rows: Any,
    queries: Any,
    index: Playable,
    k: int = K,
    *,
    radii: NDArray[np.float64] | None = None,
) -> Played:
    """Play a runbook on an index; radii: what `true_radii` returned, computed otherwise.

    An answer counts if its true distance is at most that of the true k-th nearest among live rows,
    so it does not matter which of several equal rows is answered; an id that is answered twice
    counts once. While fewer than k rows are live, all of them are to be answered, and where none
    are, recall is 1. Times are of the index alone.

    >>> rows = np.random.default_rng(0).random((2050, 8), dtype=np.float32)
    >>> runbook = sliding_window(2000, 10)
    >>> index = sb.StreamIndex(method="product", refine=8, n_landmarks=50)
    >>> played = play(runbook, rows[:2000], rows[2000:], index)
    >>> len(played.searches), played.searches[0].live, played.mean > 0.8
    (5, 1000, True)
    """
    data, asked = _checked(runbook, rows, queries)
    if not runbook.searches:
        raise InputError(f"the runbook of {runbook.dataset} has no search: nothing is measured")
    limits = iter(true_radii(runbook, data, asked, k) if radii is None else radii)
    searches, seconds = [], dict.fromkeys(OPERATIONS, 0.0)
    for number, (step, state) in enumerate(_states(runbook, len(data)), 1):
        began = time.perf_counter()
        answers = _do(index, step, data, asked, k)
        took = time.perf_counter() - began
        seconds[NAMES[type(step)]] += took
        if isinstance(step, Search):
            live = int((state >= 0).sum())
            near = _answered(answers.ids, state, min(k, live))
            searches.append(Searched(number, live, _recall(data, asked, near, next(limits)), took))
    return Played(k, tuple(searches), seconds)


def _checked(runbook: Runbook, rows: Any, queries: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    data = to_numpy(as_rows(rows))
    if len(data) < runbook.rows_needed:
        raise InputError(f"the runbook needs {runbook.rows_needed} rows, and there are {len(data)}")
    return data, to_numpy(as_rows(queries, name="queries", width=data.shape[1]))


def _states(runbook: Runbook, count: int) -> Iterator[tuple[Step, NDArray[np.intp]]]:
    """Every step, and the row of each id after it, -1 where it is not live."""
    state = np.full(count, -1, np.intp)
    for step in runbook.steps:
        if isinstance(step, Delete):
            state[step.start : step.end] = -1
        elif not isinstance(step, Search):
            state[step[0] : step[1]] = np.arange(step[-2], step[-1])
        yield step, state


def _do(index: Playable, step: Step, rows: NDArray[Any], queries: NDArray[Any], k: int) -> Any:
    """Let an index do a step; empty ranges are left out."""
    if isinstance(step, Search):
        return index.search(queries, k)
    ids = np.arange(step[0], step[1], dtype=np.int64)
    if not len(ids):
        return None
    if isinstance(step, Delete):
        return index.remove(ids)
    return index.add(rows[step[-2] : step[-1]], ids)


def _answered(answers: Any, state: NDArray[np.intp], wanted: int) -> NDArray[np.intp]:
    """The rows (q, wanted) of the answers; -1 for what is not live or was answered before."""
    ids = np.sort(np.asarray(answers)[:, :wanted].astype(np.int64), axis=1)
    valid = (ids >= 0) & (ids < len(state))
    places = np.full((len(ids), wanted), -1, np.intp)
    places[:, : ids.shape[1]] = np.where(valid, state[np.where(valid, ids, 0)], -1)
    places[:, 1 : ids.shape[1]][ids[:, 1:] == ids[:, :-1]] = -1
    return places


def _recall(
    rows: NDArray[Any],
    queries: NDArray[Any],
    answered: NDArray[np.intp],
    radii: NDArray[np.float64],
) -> float:
    """The share of answers (q, wanted) within the radii; 1 if nothing is wanted."""
    right = 0
    for query, near, radius in zip(queries.astype(np.float64), answered, radii, strict=True):
        offsets = rows[near[near >= 0]] - query
        right += int((np.vecdot(offsets, offsets) <= radius).sum())
    return right / answered.size if answered.size else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("generate")
    making.add_argument("kind", choices=GENERATORS)
    making.add_argument("rows", type=Path)
    making.add_argument("book", type=Path)
    playing = verbs.add_parser("play")
    for name in ("book", "rows", "queries"):
        playing.add_argument(name, type=Path)
    playing.add_argument("--dataset", help="name in the runbook")
    playing.add_argument("--bits", type=int, default=64)
    playing.add_argument("--refine", type=int, default=8)
    playing.add_argument("--method", default="auto")
    playing.add_argument("-k", type=int, default=K)
    options = parser.parse_args()
    rows = np.load(options.rows, mmap_mode="r")
    if options.verb == "generate":
        made = generate(options.kind, rows, dataset=options.book.stem)
        made.runbook.write(options.book)
        np.save(options.book.with_suffix(".npy"), rows[made.order])
        return
    index = sb.StreamIndex(sb.Settings(options.bits, options.method, refine=options.refine))
    runbook = read(options.book, options.dataset)
    played = play(runbook, rows, np.load(options.queries), index, options.k)
    figures = {"mean": played.mean, "worst": played.worst, "steadiness": played.steadiness}
    print(json.dumps(figures | {"searches": len(played.searches), "seconds": played.seconds}))


if __name__ == "__main__":
    main()
