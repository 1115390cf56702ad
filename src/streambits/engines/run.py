"""Learn, encode and search by partitions on any engine; and the engine that is this process.

An engine maps a function over items, and may reduce what comes out by merging it in a fixed order.
Everything else is here, once. `LocalEngine` does it in this process: what others must equal, to the
bit.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from streambits._arrays import as_count
from streambits._files import make_folder
from streambits.engines.frames import FramePartition
from streambits.engines.partitions import ArrayPartition, Partition, Survey, numbered, survey
from streambits.engines.parts import (
    CODES,
    RECORDS,
    SHARDS,
    Part,
    digest_of,
    encode_partition,
    learn_to_file,
    merge_hits,
    remove_leftovers,
    search_shard,
)
from streambits.engines.shards import MergeTree, Report, Shard, finished, learn_partition
from streambits.errors import InputError, ReachError
from streambits.evaluation.evaluate import ROWS, evaluate
from streambits.evaluation.result import Evaluation
from streambits.index import Hits
from streambits.methods.settings import Settings
from streambits.model.coder import MANY, Coder, warn_of_reach
from streambits.model.learner import Learner
from streambits.storage import from_bytes, to_bytes

OnDone = Callable[[str, int, int], None]  # what is done, how many of how many


def silent(what: str, done: int, count: int) -> None:
    """Report nothing."""
    del what, done, count


class Engine(Protocol):
    """What runs functions on workers.

    `work` is called with `shared`, which reaches every worker once, and an item. What it returns
    depends on these alone, so an engine may call it again for the same item, anywhere.
    """

    def map(
        self, work: Callable[[Any, Any], Any], items: Sequence[Any], shared: Any, on_done: OnDone
    ) -> list[Any]:
        """What `work` makes of each item, in their order."""
        ...

    def reduce(
        self, work: Callable[[Any, Any], bytes], items: Sequence[Any], shared: Any, on_done: OnDone
    ) -> bytes:
        """What `work` makes of all items, merged by `merge_bytes` in the order of `merge_order`."""
        ...


class LocalEngine:
    """The engine that is this process, one partition at a time. Memory: log2(n) + 1 results."""

    def map(
        self, work: Callable[[Any, Any], Any], items: Sequence[Any], shared: Any, on_done: OnDone
    ) -> list[Any]:
        found = []
        for number, item in enumerate(items):
            found.append(work(shared, item))
            on_done("", number + 1, len(items))
        return found

    def reduce(
        self, work: Callable[[Any, Any], bytes], items: Sequence[Any], shared: Any, on_done: OnDone
    ) -> bytes:
        tree = MergeTree(len(items))
        for number, item in enumerate(items):
            tree.add(number, from_bytes(work(shared, item)))
            on_done("", number + 1, len(items))
        return to_bytes(tree.result())


def merge_bytes(left: bytes, right: bytes) -> bytes:
    """Merge two surveys or shards; what comes in stays as it is, so a task may be repeated."""
    return to_bytes(from_bytes(left).merge(from_bytes(right)))


class Task(NamedTuple):
    """What workers do with partitions, beside what they share: small and plain.

    Attributes
    ----------
    size, seed : int
        Of the sample of a survey.
    folder : str, optional
        Of the job.
    made_by : str
        Digest of what the job was made with.
    """

    size: int = 0
    seed: int = 0
    folder: str | None = None
    made_by: str = ""


def survey_task(task: Task, shared: Any, partition: Partition) -> bytes:
    """Survey a partition, on a worker."""
    del shared
    return to_bytes(survey(partition, task.size, task.seed))


def learn_task(task: Task, shared: bytes, partition: Partition) -> bytes:
    """Learn a partition, on a worker."""
    learn = partial(learn_partition, from_bytes(shared), partition)
    if task.folder is None:
        return to_bytes(learn())
    return to_bytes(learn_to_file(learn, partition, task.folder, task.made_by))


def encode_task(task: Task, shared: bytes, partition: Partition) -> Part:
    """Encode a partition, on a worker."""
    assert task.folder is not None
    return encode_partition(from_bytes(shared), partition, task.folder, task.made_by)


def search_task(how: dict[str, Any], shared: Any, shard: Any) -> Hits:
    """Search a shard, on a worker."""
    return search_shard(shard, shared, **how)


class Learned(NamedTuple):
    """What an engine has learned.

    Attributes
    ----------
    learner : Learner
    reports : tuple of Report
        One for each partition, by number.
    """

    learner: Learner
    reports: tuple[Report, ...]


def sample_partitions(
    engine: Engine, partitions: Sequence[Partition], size: int, seed: int = 0, *, on_done: OnDone
) -> NDArray[Any]:
    """Draw a uniform sample of all rows of all partitions, in one pass over them.

    Returns
    -------
    array of shape (at most size, d)
        The same for any engine: rows of the smallest keys, in the order of these.
    """
    task = partial(survey_task, Task(as_count(size, "size"), seed))
    whole = from_bytes(engine.reduce(task, partitions, None, _named("sampled", on_done)))
    return Survey.rows(whole)


def start(
    engine: Engine, partitions: Sequence[Partition], settings: Settings, *, on_done: OnDone = silent
) -> Learner:
    """Build the learner that shards begin from, its landmarks a uniform sample of all partitions.

    Parameters
    ----------
    engine, partitions, on_done
        As for `learn`.
    settings : Settings
    """
    checked, size = settings.checked(), settings.gathered
    sample = sample_partitions(engine, partitions, size, settings.seed, on_done=on_done)
    return checked.learner([sample])


def learn(
    engine: Engine,
    partitions: Sequence[Partition],
    learner: Learner | Settings,
    *,
    folder: str | Path | None = None,
    refuse: bool = False,
    on_done: OnDone = silent,
) -> Learned:
    """Learn all partitions, each into a shard, and merge these in a fixed order.

    Parameters
    ----------
    engine : Engine
    partitions : sequence of Partition
        Numbered from 0.
    learner : Learner or Settings
        What shards begin from. Settings: landmarks are drawn from a uniform sample of all
        partitions, in a pass of its own.
    folder : path, optional
        Where shards are kept until all are there, so that the same call goes on with those that
        are finished. All workers must see it.
    refuse : bool, default False
        Whether it is an error if most rows are out of reach of the landmarks of `learner`;
        otherwise it is a warning. Workers report it, and nobody begins an epoch.
    on_done : callable
        Called as (what, done, count) when something is done.

    Returns
    -------
    Learned
    """
    _check_numbers(partitions)
    if isinstance(learner, Settings):
        learner = start(engine, partitions, learner, on_done=on_done)
    shared = to_bytes(learner.shard())
    task = Task(folder=None if folder is None else str(folder), made_by=digest_of(shared))
    if folder is not None:
        for name in (SHARDS, RECORDS):
            make_folder(Path(folder) / name)
    work, done = partial(learn_task, task), _named("learned", on_done)
    whole: Shard = from_bytes(engine.reduce(work, partitions, shared, done))
    _check_reach(whole, refuse)
    return Learned(finished(learner, whole), tuple(whole.reports.values()))


def encode(
    engine: Engine,
    partitions: Sequence[Partition],
    coder: Coder,
    folder: str | Path,
    *,
    on_done: OnDone = silent,
) -> list[Part]:
    """Encode all partitions, each into a part file in `folder`/codes.

    Parameters
    ----------
    engine, partitions, on_done
        As for `learn`. Where rows are counted, their ids go through all partitions, as one reader
        would count them; partitions of texts are counted first.
    coder : Coder
    folder : path
        All workers must see it. Parts that are finished are kept.

    Returns
    -------
    list of Part
        One for each partition.
    """
    _check_numbers(partitions)
    for name in (CODES, RECORDS):
        make_folder(Path(folder) / name)
    if not all(isinstance(one, FramePartition) for one in partitions):  # they have ids and counts
        count = partial(survey_task, Task())
        known: Survey = from_bytes(
            engine.reduce(count, partitions, None, _named("counted", on_done))
        )
        ordered = [known.counts[one.number] for one in partitions]
        begun: Any = partitions
        partitions = numbered(begun, ordered)
    shared = to_bytes(coder)
    task = partial(encode_task, Task(folder=str(folder), made_by=digest_of(shared)))
    parts: list[Part] = engine.map(task, partitions, shared, _named("encoded", on_done))
    remove_leftovers(folder, len(partitions))
    return parts


def search(
    engine: Engine,
    shards: Sequence[Any],
    queries: Any,
    k: int = 10,
    *,
    on_done: OnDone = silent,
    **options: Any,
) -> Hits:
    """Search shards that have no id in common, as one index of all codes would answer.

    Parameters
    ----------
    engine, on_done
        As for `learn`.
    shards : sequence of paths or HammingIndex
        Codes: files, or folders that `open_codes` opens. A worker holds one at a time.
    queries, k, **options
        As for `HammingIndex.search`.

    Returns
    -------
    Hits
    """
    how = {"k": as_count(k, "k"), **options}
    named = [str(one) if isinstance(one, str | Path) else one for one in shards]
    work, done = partial(search_task, how), _named("searched", on_done)
    return merge_hits(engine.map(work, named, queries, done), k)


def evaluate_sample(
    engine: Engine,
    model: Any,
    partitions: Sequence[Partition],
    *,
    sample: int = ROWS,
    seed: int = 0,
    on_done: OnDone = silent,
    **options: Any,
) -> Evaluation:
    """Measure a model's codes on a uniform sample of all partitions, which workers draw.

    Parameters
    ----------
    engine, partitions, on_done
        As for `learn`.
    model, sample, seed, **options
        As for `streambits.evaluate`.
    """
    rows = sample_partitions(engine, partitions, sample, seed, on_done=on_done)
    return evaluate(model, rows, sample=sample, seed=seed, **options)


def _named(what: str, on_done: OnDone) -> OnDone:
    return lambda _, done, count: on_done(what, done, count)


def _check_numbers(partitions: Sequence[Partition]) -> None:
    if not partitions:
        raise InputError("there are no partitions: name files, or pass an array with rows")
    if [one.number for one in partitions] != list(range(len(partitions))):
        raise InputError("partitions must be numbered from 0, in their order")


def _check_reach(whole: Shard, refuse: bool) -> None:
    """Judge by what workers reported of rows that no landmark reaches."""
    reports = whole.reports.values()
    far = round(sum(one.out_of_reach * one.rows for one in reports))
    rows = whole.learner.seen
    if refuse and far > rows / 2:
        worst = max(reports, key=lambda one: one.out_of_reach)
        raise ReachError(
            f"about {far:,} of {rows:,} rows are out of reach of the model, most of them in "
            f"partition {worst.number} ({worst.name}): draw landmarks from these rows, or accept it"
        )
    if far >= MANY * rows:
        warn_of_reach(far, rows, "learned")


def array_partitions(blocks: Sequence[Any], **options: Any) -> list[ArrayPartition]:
    """Partitions out of arrays or data frames that are in memory.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).random((3000, 8), dtype=np.float32)
    >>> partitions = array_partitions([rows[:1000], rows[1000:]])
    >>> found = learn(LocalEngine(), partitions, Settings(bits=16, n_landmarks=50))
    >>> found.learner.seen, [report.rows for report in found.reports]
    (3000, [1000, 2000])
    """
    return [ArrayPartition(number, rows, **options) for number, rows in enumerate(blocks)]
