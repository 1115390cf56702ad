"""Dask: learn, encode and search on a cluster; functions that take the client first.

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

import numpy as np
from numpy.typing import NDArray

import streambits
from streambits._arrays import as_count
from streambits._files import make_folder
from streambits.engines.partitions import (
    ArrayPartition,
    Partition,
    partition_errors,
    partition_files,
    sample_partition,
)
from streambits.engines.shards import (
    Part,
    encode_partition,
    finished,
    learn_partition,
    merge_hits,
    merge_order,
    part_file,
    search_shard,
)
from streambits.errors import InputError, MissingExtraError, StorageError, UnreachableError
from streambits.index import Hits
from streambits.jobs.folder import JobFolder
from streambits.methods.settings import Settings
from streambits.model.coder import Coder
from streambits.model.learner import Learner
from streambits.storage import digest, from_bytes, save, to_bytes

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


class _Cluster:
    """The workers of a client, and how work is given to them.

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

    def map(self, work: Callable[[Any, Any], Any], items: Sequence[Any], shared: Any) -> list[Any]:
        """What `work` makes of `shared`, which travels once, and each item, in their order."""
        with self._errors(items), self._started(work, items, shared) as (futures, _):
            found: dict[int, Any] = {}
            places = {future.key: number for number, future in enumerate(futures)}
            for future in self._completed(futures):
                found[places[future.key]] = future.result()
        return [found[number] for number in range(len(items))]

    def reduce(self, work: Callable[[Any, Any], bytes], items: Sequence[Any], shared: Any) -> bytes:
        """What `work` makes of all items, merged on the workers in the order of `merge_order`."""
        with self._errors(items), self._started(work, items, shared) as (futures, held):
            nodes, name = dict(enumerate(futures)), f"streambits-merge-{uuid4().hex}"
            for left, right, stop in merge_order(len(items)):
                key = (name, left, stop)
                both = nodes[left], nodes.pop(right)
                nodes[left] = self._client.submit(_merged, *both, key=key, priority=SOON)
                held.add(nodes[left])
            whole = nodes.pop(0)
            for future in self._completed(futures):
                future.result() if future.status != "finished" else None  # raises what it raised
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
        name = f"streambits-{work.__name__.strip('_')}-{uuid4().hex}"
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
        """All workers must have this version."""
        self._client.wait_for_workers(1, timeout=WAIT)
        ours, found = streambits.__version__, self._client.run(eval, VERSION, on_error="return")
        for address, version in sorted(found.items()):
            if version != ours and not isinstance(version, OSError):  # else it has just died
                raise InputError(
                    f"the worker {address} has streambits {version}, and this process {ours}: "
                    f"install the same version everywhere"
                )

    @contextmanager
    def _errors(self, items: Sequence[Any] = ()) -> Iterator[None]:
        """What a cluster raises, as errors that name the partition, the worker or the address."""
        kept = "call it again; what was encoded is kept"
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


def _itself(shared: Any) -> Any:
    return shared


def _with_rows(work: Any, shared: Any, partition: ArrayPartition, rows: Any) -> Any:
    """Work on a partition whose rows Dask has computed on this worker."""
    return work(shared, replace(partition, rows=rows))


def partitions_of(
    source: Any,
    *,
    columns: str | Sequence[str] | None = None,
    ids: str | None = None,
    format: str | None = None,  # noqa: A002 - what users call it
) -> list[Any]:
    """List the partitions of a source.

    Parameters
    ----------
    source
        Files, folders and globs that all workers see; a dask array of two dimensions, or a dask
        data frame.
    columns, ids, format
        As for `open_source`; of a data frame `columns` and `ids` name columns.

    Returns
    -------
    list of Partition
        A file is one; of an array or a data frame a block.
    """
    if isinstance(source, str | Path):
        source = [source]
    if hasattr(source, "to_delayed"):
        return _delayed(source, columns, ids)
    listed = list(source) if isinstance(source, Sequence) else []
    if listed and all(isinstance(one, str | Path) for one in listed):
        return list(partition_files(listed, columns=columns, ids=ids, format=format))
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


def sample(
    client: distributed.Client, source: Any, size: int, *, seed: int = 0, **options: Any
) -> NDArray[Any]:
    """Draw a uniform sample of all rows, whatever the order of the partitions, in one pass.

    Parameters
    ----------
    client, source, **options
        As for `learn`.
    size : int
    seed : int, default 0

    Returns
    -------
    array of shape (at most size, d)
        The same for any number of workers; such as for `streambits.evaluate(model, rows)`.
    """
    found = _drawn(_Cluster(client), partitions_of(source, **options), size, seed)
    return np.asarray(found)


def _drawn(cluster: _Cluster, partitions: Sequence[Partition], size: int, seed: int) -> Any:
    return from_bytes(cluster.reduce(_sample, partitions, (as_count(size, "size"), seed))).rows


def _sample(how: tuple[int, int], partition: Partition) -> bytes:
    return to_bytes(sample_partition(partition, *how))


def learn(
    client: distributed.Client, source: Any, learner: Learner | Settings, **options: Any
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
    **options
        columns, ids, format: of `partitions_of`.

    Returns
    -------
    Learner
        The same bits for the same partitions, whatever the number of workers, whatever dies.

    Raises
    ------
    InputError, StorageError
        If a partition cannot be used, which the message names, or a worker has another version.
    UnreachableError
        If there is no worker, the scheduler does not answer, or the cluster goes away.

    Examples
    --------
    >>> import dask.array as da, distributed, numpy as np, streambits as sb
    >>> rows = np.random.default_rng(0).random((4000, 8), dtype=np.float32)
    >>> with distributed.Client(processes=False, dashboard_address=":0") as client:
    ...     learner = learn(client, da.from_array(rows, (1000, 8)), sb.Settings(bits=16))
    >>> learner.seen
    4000
    """
    cluster, partitions = _Cluster(client), partitions_of(source, **options)
    if isinstance(learner, Settings):
        settings, size = learner.checked(), learner.gathered
        learner = settings.learner([_drawn(cluster, partitions, size, settings.seed)])
    whole = from_bytes(cluster.reduce(_learn, partitions, to_bytes(learner.shard())))
    return finished(learner, whole)


def _learn(learner: bytes, partition: Partition) -> bytes:
    return to_bytes(learn_partition(from_bytes(learner), partition))


def _merged(left: bytes, right: bytes) -> bytes:
    """What comes in stays as it is, so a task may be repeated."""
    return to_bytes(from_bytes(left).merge(from_bytes(right)))


def encode(
    client: distributed.Client, coder: Coder, source: Any, folder: str | Path, **options: Any
) -> list[Part]:
    """Encode a data set on a cluster: workers write Parquet files to a folder.

    Parameters
    ----------
    client, source, **options
        As for `learn`. Where rows are counted, their ids go through all partitions, as one reader
        would count them; partitions of texts are read once more for that.
    coder : Coder
    folder : path
        A folder that all workers see. It gets codes/part-000000.parquet and so on, one for each
        partition, and the coder, so that `streambits.open` searches it. If the call is repeated,
        files are kept that the same coder made of the same version of a file of rows.

    Returns
    -------
    list of Part
        Number, name and rows of each.
    """
    cluster, partitions = _Cluster(client), partitions_of(source, **options)
    made_by = digest(to_bytes(coder))
    job = {"verb": "encode", "settings": {"model": made_by}, "sink": "codes"}
    with JobFolder(Path(folder).absolute(), job) as place:
        save(coder, place.coders_file)
        make_folder(place.codes)
        if not all(one.ids for one in partitions):
            counts = cluster.map(_count, partitions, None)
            firsts = np.cumsum([0, *counts]).tolist()
            pairs = zip(partitions, firsts, strict=False)
            partitions = [replace(one, first=first) for one, first in pairs]
        shared = to_bytes(coder), str(place.codes), made_by
        parts: list[Part] = cluster.map(_encode, partitions, shared)
        current = {part_file(place.codes, part.number) for part in parts}
        for path in set(place.codes.iterdir()) - current:
            path.unlink()  # of a partition that is gone, or a worker that was killed
    return parts


def _count(_: None, partition: Partition) -> int:
    with partition_errors(partition):
        return partition.count()


def _encode(shared: tuple[bytes, str, str], partition: Partition) -> Part:
    coder, folder, made_by = shared
    return encode_partition(from_bytes(coder), partition, folder, made_by)


def search(
    client: distributed.Client,
    shards: str | Path | Sequence[str | Path],
    queries: Any,
    k: int = 10,
    **options: Any,
) -> Hits:
    """Search codes in many files, as one index of all of them would answer.

    Parameters
    ----------
    client
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
    if isinstance(shards, str | Path):
        path = JobFolder(shards).codes if JobFolder(shards).codes.is_dir() else Path(shards)
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not files:
            raise StorageError(f"{path} has no Parquet files of codes")
    else:
        files = [Path(shard) for shard in shards]
    named = [str(file.absolute()) for file in files]
    asked = queries, as_count(k, "k"), options
    return merge_hits(_Cluster(client).map(_search, named, asked), k)


def _search(asked: tuple[Any, int, dict[str, Any]], path: str) -> Hits:
    queries, k, options = asked
    return search_shard(path, queries, k, **options)
