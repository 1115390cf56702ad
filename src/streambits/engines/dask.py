"""Dask distributed as an engine: functions that take the client first and return plain objects.

Workers read their own partitions and write their own files. What travels is small: the model to
every worker once, and the shard of a partition, of fixed size, from one worker to the next where
two are merged. Rows never travel. Every task depends on its arguments alone, so Dask may repeat it
after a worker has died, and the end is the same to the byte.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakSet

import streambits
from streambits.engines import job, run
from streambits.engines.partitions import ArrayPartition, Partition, partition_files
from streambits.engines.parts import Part, code_files
from streambits.engines.run import OnDone, merge_bytes, silent
from streambits.engines.shards import merge_order
from streambits.errors import InputError, MissingExtraError, StorageError, UnreachableError
from streambits.evaluation.result import Evaluation
from streambits.index import Hits
from streambits.methods.settings import Settings
from streambits.model.coder import Coder
from streambits.model.learner import Learner

try:
    import dask
    import distributed
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker
except ImportError:
    raise MissingExtraError("distributed", "dask") from None

SOON = 10  # priority of merges before partitions: shards do not pile up
WAIT = 30.0  # seconds for a first worker to come
TICK = 0.02  # seconds between two looks at what is done
CLOSED = getattr(distributed.client, "ClosedClientError", CommClosedError)  # older ones have none
LOST = (CommClosedError, CancelledError, TimeoutError, OSError, CLOSED)
VERSION = "__import__('streambits').__version__"


class DaskEngine:
    """The workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client

    Raises
    ------
    UnreachableError
        If there is no worker, or the scheduler does not answer; also later, if all workers are gone
        and none comes for a minute.
    InputError
        If a worker has not this version of streambits; the message names it.

    Notes
    -----
    A worker holds the model, and per thread a partition's batch and shard, and shards that wait to
    be merged, about log2(n) for n partitions: merges go before partitions.
    """

    def __init__(self, client: distributed.Client) -> None:
        if not isinstance(client, distributed.Client):
            raise InputError(
                f"client is a {type(client).__name__}: pass a distributed.Client, as from "
                f"Client('tcp://host:8786')"
            )
        self._client = client
        self.address = str(getattr(client.scheduler, "address", client))
        with self._errors():
            self._check_workers()

    def map(
        self, work: Callable[[Any, Any], Any], items: Sequence[Any], shared: Any, on_done: OnDone
    ) -> list[Any]:
        """What `work` makes of each item, in their order."""
        with self._errors(items), self._started(work, items, shared) as (futures, _):
            found: dict[int, Any] = {}
            places = {future.key: number for number, future in enumerate(futures)}
            for future in self._completed(futures):
                found[places[future.key]] = future.result()
                on_done("", len(found), len(items))
        return [found[number] for number in range(len(items))]

    def reduce(
        self, work: Callable[[Any, Any], bytes], items: Sequence[Any], shared: Any, on_done: OnDone
    ) -> bytes:
        """What `work` makes of all items, merged on the workers in the order of `merge_order`."""
        with self._errors(items), self._started(work, items, shared) as (futures, held):
            nodes, name = dict(enumerate(futures)), f"streambits-merge-{uuid4().hex}"
            for left, right, stop in merge_order(len(items)):
                nodes[left] = self._client.submit(
                    merge_bytes,
                    nodes[left],
                    nodes.pop(right),
                    key=(name, left, stop),
                    priority=SOON,
                )
                held.add(nodes[left])
            whole = nodes.pop(0)
            for done, future in enumerate(self._completed(futures)):
                future.result() if future.status != "finished" else None  # raises what it raised
                on_done("", done + 1, len(items))
            (last,) = self._completed([whole])
            result: bytes = last.result()
            return result

    @contextmanager
    def _started(
        self, work: Callable[[Any, Any], Any], items: Sequence[Any], shared: Any
    ) -> Iterator[tuple[list[distributed.Future], WeakSet[distributed.Future]]]:
        """Futures of all items, and the set of what is given up at a fault, if somebody holds it.

        That is released, not cancelled: a scheduler drops a client that cancels a task on which one
        depends that nobody holds, as merges in between are.
        """
        name = f"streambits-{_name(work)}-{uuid4().hex}"
        # A task, not data that is scattered: if all that hold it die, it is computed again.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
            key = f"{name}-model"
            common = self._client.submit(_itself, shared, key=key, priority=2 * SOON)
        futures = [
            self._submit(work, common, item, (name, number)) for number, item in enumerate(items)
        ]
        held = WeakSet([common, *futures])
        try:
            yield futures, held
        except BaseException:
            with suppress(Exception):  # there may be nobody who could be told
                for future in held:
                    future.release()
            raise

    def _submit(self, work: Any, common: Any, item: Any, key: tuple[str, int]) -> Any:
        if isinstance(item, ArrayPartition) and dask.is_dask_collection(item.rows):
            empty = replace(item, rows=None)
            call = dask.delayed(_with_rows, pure=False)
            return self._client.compute(
                call(work, common, empty, item.rows, dask_key_name=f"{key[0]}-{key[1]}")
            )
        return self._client.submit(work, common, item, key=key)

    def _completed(self, futures: list[distributed.Future]) -> Iterator[distributed.Future]:
        """The futures as they are done; they are let go, so that their results may be, too."""
        waiting = distributed.as_completed(futures, loop=self._client.loop)
        futures.clear()
        since = time.monotonic()
        while not waiting.is_empty():
            if waiting.has_ready():
                yield next(waiting)
                since = time.monotonic()
            elif time.monotonic() - since < WAIT:
                time.sleep(TICK)
            else:  # Dask itself would wait for ever
                self._client.wait_for_workers(1, timeout=WAIT)
                since = time.monotonic()

    def _check_workers(self) -> None:
        """All workers, and the scheduler, which reads tasks, must have this version."""
        self._client.wait_for_workers(1, timeout=WAIT)
        self._check_version(f"the scheduler {self.address}", self._on_scheduler())
        found = self._client.run(eval, VERSION, on_error="return")
        for address, version in sorted(found.items()):
            if not isinstance(version, OSError):  # it has died meanwhile, and others go on
                self._check_version(f"the worker {address}", version)

    def _on_scheduler(self) -> Any:
        try:
            return self._client.run_on_scheduler(eval, VERSION)
        except ImportError as error:
            return error

    @staticmethod
    def _check_version(who: str, version: Any) -> None:
        ours = streambits.__version__
        if isinstance(version, BaseException):
            raise InputError(
                f"{who} cannot import streambits ({version}): install streambits {ours} there"
            )
        if version != ours:
            raise InputError(
                f"{who} has streambits {version}, and this process {ours}: install the same "
                f"version everywhere"
            )

    @contextmanager
    def _errors(self, items: Sequence[Any] = ()) -> Iterator[None]:
        """What a cluster raises, as errors that name the partition, the worker or the address."""
        kept = "what is finished is kept, so the same command goes on from there"
        try:
            yield
        except KilledWorker as error:
            where = getattr(error.last_worker, "address", error.last_worker)
            raise UnreachableError(
                f"{_item(error.task, items)}: {error.allowed_failures + 1} workers have died over "
                f"it, the last at {where}: see its log, perhaps it needs more memory; {kept}"
            ) from error
        except ModuleNotFoundError as error:
            raise InputError(
                f"a worker of {self.address} has no module {error.name}: install streambits "
                f"{streambits.__version__} there; {kept}"
            ) from error
        except StorageError:
            raise
        except LOST as error:
            if isinstance(error, streambits.errors.StreambitsError):
                raise
            reason = str(error) or type(error).__name__
            raise UnreachableError(
                f"the Dask cluster at {self.address} went away or does not answer ({reason}): "
                f"{kept}"
            ) from error


def _item(key: Any, items: Sequence[Any]) -> str:
    """What a task was about, by its key."""
    number = key[1] if isinstance(key, tuple) and len(key) == 2 else None
    if isinstance(number, int) and number < len(items):
        return f"partition {number} ({getattr(items[number], 'name', items[number])})"
    return "a task of the cluster"


def _name(work: Any) -> str:
    inner = work.func if isinstance(work, partial) else work
    return str(getattr(inner, "__name__", "work")).removesuffix("_task")


def _itself(shared: Any) -> Any:
    return shared


def _with_rows(work: Any, shared: Any, partition: ArrayPartition, rows: Any) -> Any:
    """Work on a partition whose rows Dask has computed on this worker."""
    return work(shared, replace(partition, rows=rows))


def connect(address: str, *, timeout: float = 10.0) -> distributed.Client:
    """Connect to the scheduler of a cluster.

    Parameters
    ----------
    address : str
        Such as tcp://host:8786.
    timeout : float, default 10
        Seconds to wait for an answer.

    Returns
    -------
    distributed.Client
        To be closed; it is a context.

    Raises
    ------
    UnreachableError
        If no scheduler answers there.
    """
    try:
        return distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
        raise UnreachableError(
            f"no Dask scheduler answers at {address} ({error}): start one with 'dask scheduler', "
            f"or check the address"
        ) from error


@contextmanager
def local_cluster(workers: int) -> Iterator[distributed.Client]:
    """Run a cluster of worker processes on this machine, on the loopback device.

    Parameters
    ----------
    workers : int
        Processes, of one thread each: together they occupy as many processors.

    Yields
    ------
    distributed.Client
    """
    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def partitions_of(
    source: Any,
    *,
    columns: str | Sequence[str] | None = None,
    ids: str | None = None,
    format: str | None = None,  # noqa: A002 - what users call it
    groups: int | None = None,
) -> list[Any]:
    """List the partitions of a source.

    Parameters
    ----------
    source
        Files, folders and globs that all workers see; a dask array of two dimensions, a dask data
        frame; or a sequence of partitions.
    columns, ids, format, groups
        As for `partition_files`; of a data frame `columns` and `ids` name columns.

    Returns
    -------
    list of Partition
    """
    if isinstance(source, str | Path):
        source = [source]
    if hasattr(source, "to_delayed"):
        return _delayed(source, columns, ids)
    listed = list(source) if isinstance(source, Sequence) else []
    if listed and all(isinstance(one, str | Path) for one in listed):
        return list(partition_files(listed, columns=columns, ids=ids, format=format, groups=groups))
    if listed and all(hasattr(one, "batches") and hasattr(one, "number") for one in listed):
        return listed
    raise InputError(
        f"source is a {type(source).__name__}: pass files, a dask array or a dask data frame; rows "
        f"that are in this process do not need a cluster"
    )


def _delayed(source: Any, columns: Any, ids: str | None) -> list[Any]:
    names = (columns,) if isinstance(columns, str) else columns and tuple(columns)
    if hasattr(source, "numblocks"):
        if source.ndim != 2 or names or ids:
            raise InputError(
                f"the dask array has {source.ndim} dimensions; rows have two, without names: "
                f"leave out columns and ids"
            )
        wide = source if source.numblocks[1] == 1 else source.rechunk({1: -1})
        blocks, label = wide.to_delayed().ravel().tolist(), "dask array"
    else:
        blocks, label = list(source.to_delayed()), "data frame"
    make = partial(ArrayPartition, columns=names, ids=ids, label=label)
    return [make(number, rows) for number, rows in enumerate(blocks)]


def learn(
    client: distributed.Client,
    source: Any,
    learner: Learner | Settings,
    *,
    folder: str | Path | None = None,
    on_done: OnDone = silent,
    **options: Any,
) -> Learner:
    """Learn a data set on a cluster.

    Parameters
    ----------
    client : distributed.Client
    source
        Files, folders and globs that all workers see, a dask array, or a dask data frame:
        `partitions_of`.
    learner : Learner or Settings
        What to begin with; a learner stays as it is, and what it has learned is in the result.
        With settings, landmarks are a uniform sample of all rows, for which the data are read once
        more.
    folder : path, optional
        A job's folder that all workers see: it gets model.safetensors, and if the call is repeated
        after a failure, what was finished is not learned again.
    on_done : callable, optional
        Called as (what, done, count), such as ("learned", 3, 16).
    **options
        columns, ids, format, groups: of `partitions_of`.

    Returns
    -------
    Learner
        The same bits for the same partitions, whatever the number of workers, whatever dies.

    Raises
    ------
    InputError, StorageError
        If a partition cannot be used, which the message names, or a worker has another version.
    UnreachableError
        If the cluster goes away.

    Examples
    --------
    >>> import dask.array as da, distributed, numpy as np, streambits as sb
    >>> rows = np.random.default_rng(0).random((4000, 8), dtype=np.float32)
    >>> with distributed.Client(processes=False, dashboard_address=":0") as client:
    ...     learner = learn(client, da.from_array(rows, (1000, 8)), sb.Settings(bits=16))
    >>> learner.seen
    4000
    """
    engine, partitions = DaskEngine(client), partitions_of(source, **options)
    if folder is None:
        return run.learn(engine, partitions, learner, on_done=on_done).learner
    plan = job.EngineJob(partitions, Path(folder), _source(source, options))
    return job.learn(engine, plan, learner, on_done=on_done).learner


def encode(
    client: distributed.Client,
    coder: Coder,
    source: Any,
    folder: str | Path,
    *,
    on_done: OnDone = silent,
    **options: Any,
) -> list[Part]:
    """Encode a data set on a cluster: workers write Parquet files to a folder.

    Parameters
    ----------
    client, source, on_done, **options
        As for `learn`.
    coder : Coder
    folder : path
        A job's folder that all workers see. It gets codes/part-000000.parquet and so on, one for
        each partition, and the coder, so that `streambits.open` searches it. If the call is
        repeated, finished parts are kept.

    Returns
    -------
    list of Part
        Number, name, rows and bytes of each.
    """
    engine, partitions = DaskEngine(client), partitions_of(source, **options)
    plan = job.EngineJob(partitions, Path(folder), _source(source, options))
    return job.encode(engine, plan, coder, on_done=on_done)


def search(
    client: distributed.Client,
    shards: str | Path | Sequence[Any],
    queries: Any,
    k: int = 10,
    *,
    on_done: OnDone = silent,
    **options: Any,
) -> Hits:
    """Search codes in many files, as one index of all of them would answer.

    Parameters
    ----------
    client, on_done
        As for `learn`.
    shards : path, or sequence of paths
        A folder of codes or of a job, whose Parquet files are the shards; or files and folders
        that `open_codes` opens. No id may be in two of them. A worker holds one at a time.
    queries, k, **options
        As for `HammingIndex.search`: codes, real values or `coder.queries(rows)`. Of the latter,
        `candidates` is the number in each shard, so answers are those of one index for "all", and
        otherwise at least as good.

    Returns
    -------
    Hits
    """
    return run.search(
        DaskEngine(client), code_files(shards), queries, k, on_done=on_done, **options
    )


def evaluate(
    client: distributed.Client,
    model: Any,
    source: Any,
    *,
    on_done: OnDone = silent,
    columns: str | Sequence[str] | None = None,
    format: str | None = None,  # noqa: A002 - what users call it
    groups: int | None = None,
    **options: Any,
) -> Evaluation:
    """Measure how well a model's codes find neighbours, on a sample that workers draw.

    Parameters
    ----------
    client, source, on_done, columns, format, groups
        As for `learn`.
    model, **options
        As for `streambits.evaluate`: sample, queries, k, lengths, bytes, target and seed.

    Returns
    -------
    Evaluation
    """
    partitions: Sequence[Partition] = partitions_of(
        source, columns=columns, format=format, groups=groups
    )
    engine = DaskEngine(client)
    return run.evaluate_sample(engine, model, partitions, on_done=on_done, **options)


def _source(source: Any, options: dict[str, Any]) -> dict[str, Any]:
    """What a folder records of a source, to recognise it when the job goes on."""
    listed = [source] if isinstance(source, str | Path) else source
    named = isinstance(listed, Sequence) and all(isinstance(one, str | Path) for one in listed)
    files = [[str(one)] for one in listed] if named else []
    return {"files": files or [[type(source).__name__]], **options}
