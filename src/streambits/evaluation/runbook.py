"""Runbooks: rows that come, change and go, with searches between, as a benchmark of indexes.

The format, the rules and the figure are those of the streaming track of NeurIPS'23
(github.com/harsha-simhadri/big-ann-benchmarks, neurips23/streaming): a YAML file of numbered steps
under the name of a data set. `insert` and `delete` have a range of rows, `replace` gives a range of
ids other rows, and `search` asks for the nearest of all queries. The figure is recall@10, averaged
over all searches.
"""

import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_choice, as_count, as_rows, to_numpy
from streambits._files import replacing
from streambits.errors import InputError
from streambits.evaluation.truth import nearest_radii
from streambits.features import centres

MOST_DELETED = 0.9  # of a cluster, in a round of deletions
CLUSTERED_ON = 100_000  # rows, of which centres are found
LIFETIMES = ((None, 1), (100, 3), (20, 15))  # of 350 steps: steps that rows stay, and how often
BLOCK = 4096  # rows of which distances are computed at a time
ENTRY = re.compile(r"( *)([^\s:#'\"-][^:#]*?|'[^']*'|\"[^\"]*\") *:(?: +(.*?))? *")
PLAIN = re.compile(r"[A-Za-z_][\w.-]*")


# Steps


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
    """Steps on a data set; it is checked when it is made.

    Parameters
    ----------
    dataset : str
        Name of the data set.
    max_pts : int
        Most rows that are live at a time.
    steps : tuple of Insert, Delete, Replace or Search
        The first one is step 1.

    Raises
    ------
    InputError
        If a range ends before it starts, rows are inserted that are live, ids are deleted or
        replaced that are not, or more than `max_pts` rows are live; with the number of the step.

    Examples
    --------
    >>> runbook = Runbook("mine", 10, (Insert(0, 10), Delete(0, 5), Search()))
    >>> runbook.searches, runbook.rows_needed
    (1, 10)
    >>> print(runbook.text())
    mine:
      max_pts: 10
      1:
        operation: insert
        start: 0
        end: 10
      2:
        operation: delete
        start: 0
        end: 5
      3:
        operation: search
    <BLANKLINE>
    """

    dataset: str
    max_pts: int
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        if not self.dataset or not self.dataset.isprintable() or set(self.dataset) & set("'\"\\"):
            raise InputError(f"{self.dataset!r} cannot be the name of a data set in a runbook")
        as_count(self.max_pts, "max_pts")
        most = most_live(self.steps)
        if most > self.max_pts:
            raise InputError(
                f"{most} rows are live at a time, and max_pts is {self.max_pts}: raise it"
            )

    @property
    def searches(self) -> int:
        """Number of searches."""
        return sum(isinstance(step, Search) for step in self.steps)

    @property
    def rows_needed(self) -> int:
        """Number of rows that the data set must have."""
        return max((max(step, default=0) for step in self.steps), default=0)

    def text(self) -> str:
        """Return the YAML of the track."""
        name = self.dataset if PLAIN.fullmatch(self.dataset) else f'"{self.dataset}"'
        lines = [f"{name}:", f"  max_pts: {self.max_pts}"]
        for number, step in enumerate(self.steps, 1):
            lines += [f"  {number}:", f"    operation: {NAMES[type(step)]}"]
            lines += [f"    {key}: {value}" for key, value in step._asdict().items()]
        return "\n".join(lines) + "\n"

    def write(self, path: str | Path) -> None:
        """Write a YAML file, in place of one that is there."""
        with replacing(Path(path)) as file:
            file.write(self.text().encode())


class _Live:
    """Live ids, as disjoint ranges: memory does not depend on the numbers in a file."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.count = 0

    def overlaps(self, start: int, end: int) -> bool:
        place = bisect_right(self.ends, start)
        return start < end and place < len(self.starts) and self.starts[place] < end

    def covers(self, start: int, end: int) -> bool:
        """Whether all are live: ranges that touch are one, as `add` joins them."""
        place = bisect_right(self.starts, start) - 1
        return start == end or (place >= 0 and end <= self.ends[place])

    def add(self, start: int, end: int) -> None:
        if start == end:
            return
        low, high = bisect_left(self.ends, start), bisect_right(self.starts, end)
        self.count += end - start
        joined = [*self.starts[low:high], *self.ends[low:high], start, end]
        self.starts[low:high], self.ends[low:high] = [min(joined)], [max(joined)]

    def remove(self, start: int, end: int) -> None:
        if start == end:
            return
        place = bisect_right(self.starts, start) - 1
        first, last = self.starts[place], self.ends[place]
        kept = [(a, b) for a, b in ((first, start), (end, last)) if a < b]
        self.starts[place : place + 1] = [a for a, _ in kept]
        self.ends[place : place + 1] = [b for _, b in kept]
        self.count -= end - start


def most_live(steps: tuple[Step, ...]) -> int:
    """Count the rows that are live at a time, at most; InputError for steps that cannot be."""
    live, most = _Live(), 0
    for number, step in enumerate(steps, 1):
        where = f"step {number} ({NAMES[type(step)]})"
        for low, high in zip(step[::2], step[1::2], strict=True):
            if not 0 <= low <= high:
                raise InputError(f"{where} has the range {low} to {high}: it must not go down")
        if isinstance(step, Insert):
            if live.overlaps(step.start, step.end):
                raise InputError(
                    f"{where} inserts {step.start} to {step.end}, of which some are live: "
                    "delete or replace them"
                )
            live.add(step.start, step.end)
        elif not isinstance(step, Search):
            _check_live(live, step, where)
        most = max(most, live.count)
    return most


def _check_live(live: _Live, step: Delete | Replace, where: str) -> None:
    start, end = step[:2]
    if not live.covers(start, end):
        raise InputError(f"{where} has {start} to {end}, of which some are not live: insert them")
    if isinstance(step, Delete):
        live.remove(start, end)
    elif end - start != step.ids_end - step.ids_start:
        raise InputError(
            f"{where} has {end - start} ids and {step.ids_end - step.ids_start} rows: "
            "give one row per id"
        )


# Files


def read(path: str | Path, dataset: str | None = None) -> Runbook:
    """Read a runbook of the track.

    Parameters
    ----------
    path : str or Path
        A YAML file: mappings by indentation, with whole numbers and texts; what else YAML has is
        refused. `gt_url` is left out, and so is what a runbook says of other data sets.
    dataset : str, optional
        Name of the data set, where the file has several.

    Returns
    -------
    Runbook

    Raises
    ------
    InputError
        If the file is not a runbook, or one that cannot be played; with the step or the line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text: a runbook is a YAML file") from error
    try:
        return _runbook(_mapping(text), dataset)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _runbook(found: dict[Any, Any], dataset: str | None) -> Runbook:
    if dataset is None and len(found) != 1:
        names = ", ".join(map(str, found)) or "none"
        raise InputError(f"there must be one data set, or say which; there are: {names}")
    name = next(iter(found)) if dataset is None else dataset
    entries = found.get(name)
    if not isinstance(entries, dict):
        raise InputError(f"there are no steps of a data set {name!r}")
    numbers = [key for key in entries if isinstance(key, int)]
    unknown = [key for key in entries if key not in ("max_pts", "gt_url") and key not in numbers]
    if unknown:
        raise InputError(f"{unknown[0]!r} is not the number of a step, nor max_pts or gt_url")
    missing = set(range(1, len(numbers) + 1)) - set(numbers)
    if missing or not numbers:
        raise InputError(f"there is no step {min(missing, default=1)}: steps count from 1 on")
    steps = tuple(_step(number, entries[number]) for number in sorted(numbers))
    most = entries["max_pts"] if "max_pts" in entries else max(1, most_live(steps))
    return Runbook(str(name), most, steps)


def _step(number: int, entry: Any) -> Step:
    name = entry.get("operation") if isinstance(entry, dict) else None
    kind = OPERATIONS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InputError(
            f"step {number} has the operation {name!r}; there are {', '.join(OPERATIONS)}"
        )
    values = {key: value for key, value in entry.items() if key != "operation"}
    wanted = kind._fields
    if set(values) != set(wanted):
        named = ", ".join(map(str, values)) or "nothing"
        raise InputError(
            f"step {number} ({name}) has {named}; it needs {', '.join(wanted) or 'nothing'}"
        )
    for key, value in values.items():
        as_count(value, f"{key} of step {number} ({name})", least=0)
    step: Step = kind(**values)
    return step


def _mapping(text: str) -> dict[Any, Any]:
    """The mappings of a YAML file by indentation, of which runbooks consist."""
    whole: dict[Any, Any] = {}
    open_ones: list[tuple[int, dict[Any, Any]]] = [(-1, whole)]  # with the indentation of their key
    inner: dict[int, int] = {}  # the indentation of each one's own keys
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#") or (number == 1 and line == "---"):
            continue
        found = ENTRY.fullmatch(line)
        if found is None:
            raise InputError(f"line {number} is {line.strip()[:60]!r}; expected `key: value`")
        indent, key = len(found[1]), _scalar(found[2])
        while indent <= open_ones[-1][0]:
            open_ones.pop()
        holder = open_ones[-1][1]
        if inner.setdefault(id(holder), indent) != indent:
            raise InputError(f"line {number} is not indented as the lines beside it")
        if key in holder:
            raise InputError(f"line {number} has the key {key!r} again")
        holder[key] = value = _scalar(found[3] or "")
        if value is None:
            holder[key] = inside = dict[Any, Any]()
            open_ones.append((indent, inside))
    return whole


def _scalar(text: str) -> int | str | None:
    if text[:1] in ("'", '"'):
        if len(text) < 2 or text[0] in text[1:-1] or text[-1] != text[0] or "\\" in text:
            raise InputError(f"{text[:60]!r} is not a plain text in quotes")
        return text[1:-1]
    text = text.split(" #", 1)[0].strip()
    if text[:1] in tuple("{[&*!|>%@`"):
        raise InputError(f"{text[:60]!r} is YAML that runbooks do not have: write plain values")
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    return text or None


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
    90 % of what is live of each cluster is deleted, oldest first. A search follows every step.

    Parameters
    ----------
    rows : array of shape (n, d)
    n_clusters : int, default 32
        Number of k-means centres; clusters without rows are left out.
    rounds : int, default 5
    dataset : str, default "rows"
    seed : int, default 0
        Of the centres and the deletions.

    Returns
    -------
    Generated
        The runbook is for `rows[order]`, in which the rows of a cluster are together.

    Examples
    --------
    >>> rows = np.random.default_rng(0).random((100, 4))
    >>> runbook, order = clustered(rows, 4, rounds=2)
    >>> runbook.searches, runbook.steps[:2], sorted(order) == list(range(100))
    (16, (Insert(start=0, end=...), Search()), True)
    """
    rows, rounds = to_numpy(as_rows(rows)), as_count(rounds, "rounds")
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
            share = rng.uniform(0, MOST_DELETED)
            end = deleted[i] + int(share * (inserted[i] - deleted[i]))
            steps += [Delete(deleted[i], end), Search()]
            deleted[i] = end
    return Generated(_made(dataset, steps), order)


def _labels(rows: NDArray[Any], n_clusters: int, seed: int) -> NDArray[np.intp]:
    """The nearest centre of every row."""
    drawn = np.random.default_rng(seed).permutation(len(rows))[:CLUSTERED_ON]
    origin = rows.mean(axis=0, dtype=np.float64)
    found = to_numpy(centres(rows[np.sort(drawn)] - origin, n_clusters, seed=seed))
    half = np.vecdot(found, found) / 2
    parts = (rows[i : i + BLOCK] - origin for i in range(0, len(rows), BLOCK))
    return np.concatenate([np.argmin(half - part @ found.T, axis=1) for part in parts])


def expiry(
    count: int,
    n_inserts: int = 350,
    *,
    lifetimes: tuple[tuple[int | None, int], ...] = LIFETIMES,
    dataset: str = "rows",
    seed: int = 0,
) -> Runbook:
    """Generate a runbook in which rows expire, as those of Wikipedia and MS MARCO in the track.

    Parameters
    ----------
    count : int
        Number of rows, which are inserted in their order.
    n_inserts : int, default 350
        Number of inserts; a search follows each of them and the deletions that are due.
    lifetimes : pairs of int or None and int
        After how many inserts the rows of an insert are deleted (None: never), and how likely that
        is beside the others.
    dataset : str, default "rows"
    seed : int, default 0

    Returns
    -------
    Runbook
    """
    edges = _edges(count, n_inserts)
    stays = [stay if stay is None else as_count(stay, "a lifetime") for stay, _ in lifetimes]
    weights = np.array([as_count(weight, "a weight") for _, weight in lifetimes], np.float64)
    drawn = np.random.default_rng(seed).choice(len(stays), n_inserts, p=weights / weights.sum())
    due: dict[int, list[int]] = {}
    steps: list[Step] = []
    for i in range(n_inserts):
        steps.append(Insert(edges[i], edges[i + 1]))
        stay = stays[drawn[i]]
        if stay is not None:
            due.setdefault(i + stay, []).append(i)
        steps += [Delete(edges[j], edges[j + 1]) for j in due.pop(i, [])]
        steps.append(Search())
    return _made(dataset, steps)


def sliding_window(count: int, n_inserts: int = 200, *, dataset: str = "rows") -> Runbook:
    """Generate a runbook of a sliding window, as that of MS Turing in the track.

    Half of the rows are inserted; then a search, a deletion of the oldest rows and an insert of as
    many new ones take turns.

    Parameters
    ----------
    count : int
        Number of rows, which are inserted in their order.
    n_inserts : int, default 200
        Number of inserts, at least 2.
    dataset : str, default "rows"

    Returns
    -------
    Runbook
    """
    edges = _edges(count, as_count(n_inserts, "n_inserts", least=2))
    window, steps = n_inserts // 2, list[Step]()
    for i in range(n_inserts):
        if i >= window:
            steps += [Search(), Delete(edges[i - window], edges[i - window + 1])]
        steps.append(Insert(edges[i], edges[i + 1]))
    return _made(dataset, steps)


GENERATORS = ("clustered", "expiry", "sliding_window")


def generate(kind: str, rows: Any, *, dataset: str = "rows", seed: int = 0) -> Generated:
    """Generate a runbook of one of the kinds, as the track has it.

    Parameters
    ----------
    kind : {"clustered", "expiry", "sliding_window"}
    rows : array of shape (n, d)
        At least 32, 350 or 200.
    dataset : str, default "rows"
    seed : int, default 0

    Returns
    -------
    Generated
        The order is that of the rows, unless they are clustered.
    """
    kind, count = as_choice(kind, "kind", GENERATORS), len(rows)
    if kind == "clustered":
        return clustered(rows, dataset=dataset, seed=seed)
    if kind == "expiry":
        return Generated(expiry(count, dataset=dataset, seed=seed), np.arange(count))
    return Generated(sliding_window(count, dataset=dataset), np.arange(count))


def _edges(count: int, n_inserts: int) -> list[int]:
    count, n_inserts = as_count(count, "count"), as_count(n_inserts, "n_inserts", most=count)
    return [count * i // n_inserts for i in range(n_inserts + 1)]


def _made(dataset: str, steps: list[Step]) -> Runbook:
    return Runbook(dataset, most_live(tuple(steps)), tuple(steps))


# Playing


class Answers(Protocol):
    """What a search returns: `Hits`, or anything else with ids."""

    @property
    def ids(self) -> Any:
        """Ids (queries, at most k); those that are not live count as not found."""


class Playable(Protocol):
    """An index that a runbook can be played on."""

    def add(self, rows: NDArray[Any], ids: NDArray[np.int64], /) -> Any:
        """Insert rows, in place of those that their ids have."""

    def remove(self, ids: NDArray[np.int64], /) -> Any:
        """Delete ids."""

    def search(self, queries: NDArray[Any], k: int, /) -> Answers:
        """Find the k nearest of each query."""


class Searched(NamedTuple):
    """One search: its step, the rows that were live, its recall, and the time it took."""

    step: int
    live: int
    recall: float
    seconds: float


@dataclass(frozen=True)
class Played:
    """What an index reached in a runbook.

    Attributes
    ----------
    k : int
    searches : tuple of Searched
    seconds : dict of str to float
        Time in each operation altogether.
    """

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

    def as_dict(self) -> dict[str, Any]:
        """All figures as plain values, for JSON."""
        figures = {"mean": self.mean, "worst": self.worst, "steadiness": self.steadiness}
        searches = [one._asdict() for one in self.searches]
        return {"k": self.k, **figures, "seconds": self.seconds, "searches": searches}


def true_radii(runbook: Runbook, rows: Any, queries: Any, k: int = 10) -> NDArray[np.float64]:
    """Find the true k-th nearest of every query at every search, by exact search of live rows.

    Parameters
    ----------
    runbook : Runbook
    rows : array of shape (n, d)
    queries : array of shape (q, d)
    k : int, default 10

    Returns
    -------
    ndarray of shape (searches, q)
        Squared Euclidean distances within which a live row is one of the k nearest. To be passed to
        `play`, where several indexes play one runbook.
    """
    data, asked = _checked(runbook, rows, queries)

    def live() -> Iterator[NDArray[np.intp]]:
        for step, held in _states(runbook, len(data)):
            if isinstance(step, Search):
                yield held[held >= 0]

    return nearest_radii(data, asked, as_count(k, "k"), live)


def play(
    runbook: Runbook,
    rows: Any,
    queries: Any,
    index: Playable,
    k: int = 10,
    *,
    radii: NDArray[np.float64] | None = None,
) -> Played:
    """Play a runbook on an index.

    Parameters
    ----------
    runbook : Runbook
    rows : array of shape (n, d)
        The data set, in the order that the runbook is for.
    queries : array of shape (q, d)
        Rows that are not in the data set.
    index : Playable
        Anything with `add(rows, ids)`, `remove(ids)` and `search(queries, k)`.
    k : int, default 10
    radii : ndarray of shape (searches, q), optional
        What `true_radii` returned for the same; it is computed otherwise.

    Returns
    -------
    Played

    Raises
    ------
    InputError
        If there are fewer rows than the runbook needs, it has no search, or rows and queries do not
        fit each other.

    Notes
    -----
    An answer counts if its true distance is at most that of the true k-th nearest among live rows,
    so it does not matter which of several equal rows is answered; an id that is answered twice
    counts once. While fewer than k rows are live, all of them are to be found, and where none are,
    recall is 1. Times are of the index alone.

    Examples
    --------
    >>> import streambits as sb
    >>> rows = np.random.default_rng(0).random((2050, 8), dtype=np.float32)
    >>> runbook = sliding_window(2000, 10)
    >>> index = sb.StreamIndex(method="product", refine=8, n_landmarks=50)
    >>> played = play(runbook, rows[:2000], rows[2000:], index)
    >>> len(played.searches), played.searches[0].live, played.mean > 0.8
    (5, 1000, True)
    """
    data, asked = _checked(runbook, rows, queries)
    k = as_count(k, "k")
    if not runbook.searches:
        raise InputError(f"the runbook of {runbook.dataset} has no search: nothing is measured")
    known = iter(true_radii(runbook, data, asked, k) if radii is None else radii)
    searches, seconds = [], dict.fromkeys(OPERATIONS, 0.0)
    for number, (step, held) in enumerate(_states(runbook, len(data)), 1):
        began = time.perf_counter()
        answers = _do(index, step, data, asked, k)
        took = time.perf_counter() - began
        seconds[NAMES[type(step)]] += took
        if isinstance(step, Search):
            assert answers is not None
            live = int((held >= 0).sum())
            near = _answered(answers, held, min(k, live))
            recall = _recall(data, asked, near, next(known))
            searches.append(Searched(number, live, recall, took))
    return Played(k, tuple(searches), seconds)


def _checked(runbook: Runbook, rows: Any, queries: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    data = to_numpy(as_rows(rows))
    asked = to_numpy(as_rows(queries, name="queries", width=data.shape[1]))
    if len(data) < runbook.rows_needed:
        ends = [max(step, default=0) for step in runbook.steps]
        late = next(i for i, end in enumerate(ends) if end > len(data))
        raise InputError(
            f"step {late + 1} needs the rows up to {ends[late]}, and there are "
            f"{len(data)}: pass those that the runbook is for"
        )
    return data, asked


def _states(runbook: Runbook, count: int) -> Iterator[tuple[Step, NDArray[np.intp]]]:
    """Every step, and the row of each id after it, -1 where it is not live."""
    held = np.full(count, -1, np.intp)
    for step in runbook.steps:
        if isinstance(step, Insert):
            held[step.start : step.end] = np.arange(step.start, step.end)
        elif isinstance(step, Delete):
            held[step.start : step.end] = -1
        elif isinstance(step, Replace):
            held[step.tags_start : step.tags_end] = np.arange(step.ids_start, step.ids_end)
        yield step, held


def _do(
    index: Playable, step: Step, rows: NDArray[Any], queries: NDArray[Any], k: int
) -> Answers | None:
    """Let an index do a step; empty ranges are left out."""
    if isinstance(step, Search):
        return index.search(queries, k)
    ids = np.arange(step[0], step[1], dtype=np.int64)
    if not len(ids):
        return None
    if isinstance(step, Delete):
        index.remove(ids)
    else:
        index.add(rows[step[-2] : step[-1]], ids)
    return None


def _answered(answers: Answers, held: NDArray[np.intp], wanted: int) -> NDArray[np.intp]:
    """The rows (q, wanted) of the answers; -1 for what is not live or was answered before."""
    ids = np.sort(np.asarray(answers.ids)[:, :wanted].astype(np.int64), axis=1)
    known = (ids >= 0) & (ids < len(held))
    places = np.full((len(ids), wanted), -1, np.intp)
    places[:, : ids.shape[1]] = np.where(known, held[np.where(known, ids, 0)], -1)
    places[:, 1 : ids.shape[1]][ids[:, 1:] == ids[:, :-1]] = -1
    return places


def _recall(
    rows: NDArray[Any],
    queries: NDArray[Any],
    answered: NDArray[np.intp],
    radii: NDArray[np.float64],
) -> float:
    """The share of answers (q, wanted) within the radii; 1 if nothing is wanted."""
    found = 0
    for query, near, radius in zip(queries.astype(np.float64), answered, radii, strict=True):
        offsets = rows[near[near >= 0]] - query
        found += int((np.vecdot(offsets, offsets) <= radius).sum())
    return found / answered.size if answered.size else 1.0
