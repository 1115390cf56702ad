"""Spark: learn, encode and search by `mapInArrow` over Spark Connect; Spark or Sail run the tasks.

What comes back of a partition is its shard, the record of its part, or its hits, never rows. Which
task gets a row, and after which others, is not the same twice, so partitions of a DataFrame are
made by the values of a column and the ids of rows (`engines.frames`): the same rows give the same
bits on any server. Partitions may also be files that tasks read by themselves, as with Dask. A task
that is repeated gives the same result under the same number, and numbers count once.

Workers need streambits in the version of the client and, where there is a `folder`, a disk that
they share with it.
"""

import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import streambits
from streambits._arrays import as_count
from streambits.engines import job, run
from streambits.engines.frames import KEY, FramePartition
from streambits.engines.partitions import partition_files
from streambits.engines.parts import Part, code_files, merge_hits
from streambits.engines.shards import MergeTree
from streambits.engines.tasks import SCHEMA, Job, Results, task_of, unpacked
from streambits.errors import InputError, MissingExtraError, StorageError, UnreachableError
from streambits.evaluation.result import Evaluation
from streambits.index import Hits
from streambits.io.rows.arrow import table_columns
from streambits.io.rows.files import ReadOptions
from streambits.methods.settings import Settings
from streambits.model.coder import Coder
from streambits.model.learner import Learner
from streambits.storage import from_bytes, to_bytes


@contextmanager
def _importing() -> Iterator[None]:
    """Let PySpark be imported without its warning about pandas, and from `python -c`.

    PySpark takes a main module that has no file for a run of its own doctests, looks for a Spark
    with a JVM to run them, and exits.
    """
    main = sys.modules["__main__"]
    nameless = not hasattr(main, "__file__") and not hasattr(sys, "ps1")
    if nameless:
        main.__file__ = "<string>"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        if nameless:
            del main.__file__


try:
    with _importing():
        import grpc
        from pyspark import cloudpickle
        from pyspark.errors import PySparkException, PythonException
        from pyspark.sql import SparkSession
        from pyspark.sql import functions as F  # noqa: N812 - its usual name
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.dataframe import DataFrame
except ImportError:
    raise MissingExtraError("pyspark-client", "spark") from None

EXAMPLE = "sc://host:15002"
PORT = 15002  # of Spark Connect, where an address has none
PROBE = 5.0  # seconds for a server to accept a connection
ROWS = 1 << 18  # rows of a partition, about, where nobody says how many partitions there are
WAIT = 2.0  # seconds between two attempts to reach a server that has gone, at most
GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
FRAME = "the DataFrame"


class SparkEngine:
    """Runs functions on Spark: an item per task, or the partitions of a DataFrame.

    Parameters
    ----------
    session : SparkSession
        Of Spark Connect.
    frame : DataFrame, optional
        With the column `KEY`. The items are then its partitions; else they travel to the tasks.

    Notes
    -----
    Results are merged by this process, in the order of `merge_order` whatever comes first, and each
    travels once. Memory: as for `MergeTree`.
    """

    def __init__(self, session: Any, frame: Any = None) -> None:
        self.session, self.frame = session, frame

    def map(
        self,
        work: Callable[[Any, Any], Any],
        items: Sequence[Any],
        shared: Any,
        on_done: run.OnDone,
    ) -> list[Any]:
        """What `work` makes of each item, in their order."""
        found: dict[int, Any] = {}
        for number, result in self._results(work, items, shared):
            found[number] = result
            on_done("", len(found), len(items))
        _check_complete(items, set(found))
        return [found[number] for number in range(len(items))]

    def reduce(
        self,
        work: Callable[[Any, Any], bytes],
        items: Sequence[Any],
        shared: Any,
        on_done: run.OnDone,
    ) -> bytes:
        """What `work` makes of all items, merged here in the order of their numbers."""
        tree, done = MergeTree(len(items)), set[int]()
        for number, result in self._results(work, items, shared):
            tree.add(number, from_bytes(result, name=f"the result of partition {number}"))
            done.add(number)
            on_done("", len(done), len(items))
        _check_complete(items, done)
        return to_bytes(tree.result())

    def _results(
        self, work: Callable[[Any, Any], Any], items: Sequence[Any], shared: Any
    ) -> Iterator[tuple[int, Any]]:
        count = len(items)
        if self.frame is None:
            rows, kind = self.session.range(0, count, 1, count), "items"
        else:
            rows, kind = self.frame.repartition(count, KEY), "partitions"
        yield from _collected(rows, Job(kind, work, list(items), shared))


def _collected(rows: Any, job: Job) -> Iterator[tuple[int, Any]]:
    """Run a job on the rows of a DataFrame; yields its results as they come, each once."""
    task = task_of(job.dumps(cloudpickle.dumps), streambits.__version__)
    results = Results()
    came = rows.mapInArrow(task, SCHEMA).toLocalIterator()
    while True:
        with _quiet(), spark_errors():
            row = next(came, None)
        if row is None:
            return
        number, piece, pieces, error, content = row
        whole = results.add(number, piece, pieces, error, bytes(content))
        if whole is not None:
            yield number, unpacked(whole)


def _check_complete(items: Sequence[Any], done: set[int]) -> None:
    missing = sorted(set(range(len(items))) - done)
    if missing:
        name = getattr(items[missing[0]], "name", str(items[missing[0]]))
        raise InputError(
            f"partition {missing[0]} ({name}) did not come to any task, though it was counted: the "
            f"data have changed meanwhile, or give other rows whenever they are computed; write "
            f"them to files first"
        )


def connect(remote: str, *, retry_seconds: float = 60.0) -> Any:
    """Open a session of Spark Connect, if there is a server.

    Parameters
    ----------
    remote : str
        Its address: sc://host:port, with parameters as Spark has them.
    retry_seconds : float, default 60
        How long the server may be away, about; PySpark itself waits for ten minutes.

    Returns
    -------
    SparkSession
        A new one; `stop` ends it.

    Raises
    ------
    InputError
        If this is not such an address.
    UnreachableError
        If nobody answers there.
    """
    host, port = _address(remote)
    where = f"sc://{host}:{port}"
    try:
        socket.create_connection((host, port), PROBE).close()
    except OSError as error:
        raise UnreachableError(
            f"there is no Spark Connect server at {where}: {error.strerror or error}"
        ) from error
    with _quiet(), spark_errors(where):
        session = SparkSession.builder.remote(remote).create()
        steps = 3 + max(0, round(retry_seconds / WAIT))
        session.client.set_retry_policies(
            [DefaultPolicy(max_retries=steps, max_backoff=round(1000 * WAIT))]
        )
        _ = session.version  # the first answer of the server
    return session


@contextmanager
def connected(remote: str) -> Iterator[Any]:
    """A session as `connect` opens it, which is stopped at the end.

    Yields
    ------
    SparkSession
    """
    session = connect(remote)
    try:
        yield session
    finally:
        session.client.set_retry_policies([])  # nobody waits for a server that has gone
        with _quiet(), suppress(PySparkException, grpc.RpcError):
            session.stop()


def _address(remote: str) -> tuple[str, int]:
    try:
        parts = urlsplit(remote)
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        host, port = None, PORT
    if not host or parts.scheme != "sc":
        raise InputError(f"{remote!r} is not the address of a Spark Connect server: {EXAMPLE}")
    return host, port


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings of PySpark: that pandas is new, and, before an error, that there is one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")
        yield


@contextmanager
def spark_errors(where: str = "the server") -> Iterator[None]:
    """Report what goes wrong at the server; an exception of code on a worker stays what it is."""
    try:
        yield
    except PythonException:
        raise
    except (PySparkException, grpc.RpcError) as error:
        code = _status(error)
        if code in GONE:
            raise UnreachableError(
                f"{where} does not answer any more: start it again, and then the same command; "
                f"what is finished is kept where there is a folder"
            ) from error
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise InputError(
                "the model is larger than a message of Spark Connect may be (128 MiB by default): "
                "use fewer landmarks or a smaller sample, or files as partitions of a Dask cluster"
            ) from error
        raise StorageError(f"{where} cannot do it: {_first_line(error)}") from error


def _status(error: Any) -> Any:
    """The status of gRPC in an error or in what it comes from."""
    while error is not None:
        for name in ("code", "getGrpcStatusCode"):
            found = getattr(error, name, None)
            if callable(found) and isinstance(found(), grpc.StatusCode):
                code = found()
                if code is not grpc.StatusCode.UNKNOWN:
                    return code
        error = error.__cause__ or error.__context__
    return None


def _first_line(error: Any) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]


def read_parquet(session: Any, paths: str | Path | Sequence[str | Path]) -> Any:
    """Let the server read Parquet files; a DataFrame.

    Parameters
    ----------
    session : SparkSession
    paths : path or sequence of paths
        Files, folders and globs, as the server sees them.

    Raises
    ------
    StorageError
        If there is nothing to read, or the files differ in their columns.
    """
    listed = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    with spark_errors(f"the server, reading {', '.join(listed)},"):
        frame = session.read.parquet(*listed)
        names = frame.columns
    if not names:
        raise StorageError(
            f"there is no Parquet file at {', '.join(listed)}, as the server sees it: check the "
            f"path, and that it is a path of the server's disk"
        )
    return frame


def partition_frame(
    frame: Any,
    *,
    vectors: str | Sequence[str] | None = None,
    ids: str = "id",
    partition: str | None = None,
    n_partitions: int | None = None,
) -> tuple[Any, list[FramePartition]]:
    """Divide the rows of a DataFrame into partitions, and count them.

    Parameters
    ----------
    frame : DataFrame
    vectors : str or sequence of str, optional
        A column of lists, or several columns of numbers; by default the only column of lists, or
        all numbers.
    ids : str, default "id"
        The column of ids, whole numbers or texts, each of which comes once.
    partition : str, optional
        A column whose values are the partitions, numbered in their order. By default a row's
        partition is the CRC-32 of its id, as a text, modulo `n_partitions`: even shares, the same
        wherever they are computed.
    n_partitions : int, optional
        By default one for every 262,144 rows. A task holds all rows of a partition in memory.

    Returns
    -------
    DataFrame, list of FramePartition
        The columns in use and that of the partition, and the partitions in their order.

    Raises
    ------
    InputError
        If a column is not there or of another type, an id or partition is missing, or there are no
        rows.
    """
    names = (vectors,) if isinstance(vectors, str) else None if vectors is None else tuple(vectors)
    options = ReadOptions(columns=names, ids=ids)
    with _quiet(), spark_errors():
        schema = frame.limit(0).toArrow().schema
        others = [one for one in schema.names if one != partition]
        if partition is not None and len(others) == len(schema.names):
            raise InputError(f"{FRAME} has no column {partition!r}; it has {', '.join(others)}")
        used = schema if names else _only(schema, others)
        columns = table_columns(used, options, FRAME)
        key, names_of = _key(frame, ids, partition, n_partitions)
        keyed = frame.select(*columns, ids, key.cast("string").alias(KEY))
        counted = keyed.groupBy(KEY).count().toArrow().to_pylist()
    counts = {one[KEY]: int(one["count"]) for one in counted}
    if None in counts:
        what = f"value in the column {partition!r}" if partition else f"id in the column {ids!r}"
        raise InputError(f"{counts[None]:,} rows of {FRAME} have no {what}: leave them out")
    if not counts:
        raise InputError(f"{FRAME} has no rows")
    order = sorted(counts, key=_by_value(counts))
    return keyed, [
        FramePartition(number, key, names_of(key), counts[key], columns, ids)
        for number, key in enumerate(order)
    ]


def _only(schema: Any, names: list[str]) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.schema([schema.field(name) for name in names])


def _key(
    frame: Any, ids: str, partition: str | None, n_partitions: int | None
) -> tuple[Any, Callable[[str], str]]:
    """The column of partitions, and how messages name one."""
    if partition is not None:
        if n_partitions is not None:
            raise InputError("partition names the partitions: leave n_partitions out")
        return F.col(partition), lambda key: f"{FRAME}, {partition} = {key}"
    if n_partitions is None:
        n_partitions = max(1, -(-frame.count() // ROWS))
    count = as_count(n_partitions, "n_partitions")
    number = F.pmod(F.crc32(F.col(ids).cast("string")), F.lit(count))
    return number, lambda key: f"{FRAME}, share {key} of {count} by id"


def _by_value(keys: Any) -> Callable[[str], Any]:
    """How texts are ordered: as numbers, if all of them are whole numbers."""
    whole = all(key.lstrip("-").isdecimal() for key in keys)
    return int if whole else str


def _opened(
    session: Any, source: Any, options: dict[str, Any]
) -> tuple[SparkEngine, list[Any], dict[str, Any]]:
    """The engine, the partitions of a DataFrame or files, and what a folder records of them."""
    plain = {name: str(value) for name, value in options.items()}
    if isinstance(source, DataFrame):
        frame, partitions = partition_frame(source, **options)
        return SparkEngine(session, frame), list(partitions), {"files": [[FRAME]], **plain}
    if hasattr(source, "mapInArrow"):
        raise InputError(
            "this DataFrame is not of Spark Connect: make it with a session of "
            f"SparkSession.builder.remote({EXAMPLE!r})"
        )
    listed = [source] if isinstance(source, str | Path) else list(source)
    files = {"files": [[str(one)] for one in listed], **plain}
    return SparkEngine(session), list(partition_files(listed, **options)), files


def learn(
    session: Any,
    source: Any,
    learner: Learner | Settings,
    *,
    folder: str | Path | None = None,
    on_done: run.OnDone = run.silent,
    **options: Any,
) -> Learner:
    """Learn a data set on Spark, each partition into a shard, merged in a fixed order.

    Parameters
    ----------
    session : SparkSession
        Of Spark Connect; see `connect`.
    source : DataFrame, path or sequence of paths
        Rows that Spark hands to the tasks; or files that the tasks read by themselves, each a
        partition, in the order of their rows.
    learner : Learner or Settings
        What to begin with; a learner stays as it is, and what it has learned is in the result. With
        settings, landmarks are a uniform sample of all rows, for which the data are read once more.
    folder : path, optional
        A job's folder, on a disk that all workers see: it gets model.safetensors, and if the call
        is repeated after a failure, what was finished is not learned again.
    on_done : callable, optional
        Called as (what, done, count), such as ("learned", 3, 16).
    **options
        Of a DataFrame: vectors, ids, partition, n_partitions of `partition_frame`. Of files:
        columns, ids, format, groups of `partition_files`.

    Returns
    -------
    Learner
        A plain one: the same bits for the same partitions, on any engine.

    Raises
    ------
    InputError, StorageError
        If rows cannot be used or read; the message names the partition.
    StreambitsError
        If a worker has another version of streambits, or none.
    UnreachableError
        If the server goes away.

    Examples
    --------
    >>> session = connect("sc://localhost:15002")  # doctest: +SKIP
    >>> frame = session.read.parquet("vectors/")  # doctest: +SKIP
    >>> learner = learn(session, frame, Settings(bits=64), vectors="vector")  # doctest: +SKIP
    """
    engine, partitions, described = _opened(session, source, options)
    if folder is None:
        return run.learn(engine, partitions, learner, on_done=on_done).learner
    plan = job.EngineJob(partitions, Path(folder), described)
    return job.learn(engine, plan, learner, on_done=on_done).learner


def encode(
    session: Any,
    coder: Coder,
    source: Any,
    folder: str | Path,
    *,
    on_done: run.OnDone = run.silent,
    **options: Any,
) -> list[Part]:
    """Encode a data set on Spark: tasks write Parquet files to a folder.

    Parameters
    ----------
    session, source, on_done, **options
        As for `learn`.
    coder : Coder
    folder : path
        A job's folder, on a disk that all workers see. It gets codes/part-000000.parquet and so on,
        one for each partition, each under a temporary name until it is whole, and the coder, so
        that `streambits.open` searches it. If the call is repeated, finished parts are kept.

    Returns
    -------
    list of Part
        Number, name, rows and bytes of each.
    """
    engine, partitions, described = _opened(session, source, options)
    plan = job.EngineJob(partitions, Path(folder), described)
    return job.encode(engine, plan, coder, on_done=on_done)


def search(
    session: Any,
    codes: Any,
    queries: Any,
    k: int = 10,
    *,
    bits: int | None = None,
    on_done: run.OnDone = run.silent,
    **options: Any,
) -> Hits:
    """Search codes as one index of all of them would answer; every task searches those it gets.

    Parameters
    ----------
    session, on_done
        As for `learn`.
    codes : DataFrame, path or sequence of paths
        A DataFrame with the columns of codes in Parquet: id, epoch, and code or refinement. Or a
        folder of codes or of a job, whose Parquet files are the shards; or files and folders that
        `open_codes` opens. No id may come twice. A task holds one shard at a time.
    queries, k, **options
        As for `HammingIndex.search`: codes, real values or `coder.queries(rows)`. Of the latter,
        `candidates` is the number in each shard, so answers are those of one index for "all", and
        otherwise at least as good.
    bits : int, optional
        Of a DataFrame: the length of the codes; by default whole bytes.

    Returns
    -------
    Hits

    Raises
    ------
    InputError
        If an id is twice in the codes, or there are none.
    """
    k = as_count(k, "k")
    if not isinstance(codes, DataFrame):
        shards = code_files(codes)
        return run.search(SparkEngine(session), shards, queries, k, on_done=on_done, **options)
    with _quiet(), spark_errors():
        names = codes.columns
    wanted = [name for name in ("id", "epoch", "code", "refinement") if name in names]
    if wanted[:2] != ["id", "epoch"] or len(wanted) < 3:
        missing = next((name for name in ("id", "epoch") if name not in names), "code")
        raise InputError(
            f"{FRAME} has no column {missing!r}; it has {', '.join(names)}: codes have the "
            f"columns id, epoch, and code or refinement"
        )
    found: list[Hits] = []
    work = partial(run.search_task, {"k": k, **options})
    for _, hits in _collected(codes.select(*wanted), Job("codes", work, bits, queries)):
        found.append(hits)
        on_done("searched", len(found), len(found))
    if not found:
        raise InputError(f"{FRAME} has no codes")
    return merge_hits(found, k)


def evaluate(
    session: Any,
    model: Any,
    source: Any,
    *,
    on_done: run.OnDone = run.silent,
    partitions: Mapping[str, Any] | None = None,
    **options: Any,
) -> Evaluation:
    """Measure how well a model's codes find neighbours, on a sample that tasks draw.

    Parameters
    ----------
    session, source, on_done
        As for `learn`.
    model, **options
        As for `streambits.evaluate`: sample, queries, k, lengths, bytes, target and seed.
    partitions : mapping, optional
        What `learn` has as options: of a DataFrame, those of `partition_frame`.

    Returns
    -------
    Evaluation
    """
    engine, found, _ = _opened(session, source, dict(partitions or {}))
    return run.evaluate_sample(engine, model, found, on_done=on_done, **options)
