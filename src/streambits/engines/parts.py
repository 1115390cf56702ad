"""Parts: the codes of a partition in a file, and answers out of the codes of many files.

A part is written under a temporary name and renamed, so it is there whole or not at all; beside it
lies a record of what it was made from. A worker that finds both, and both still fit, does nothing:
so a command that was stopped goes on where it was, and a task that is repeated does no harm.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streambits._arrays import CheckedRows
from streambits._digests import seal, unseal
from streambits._files import replacing
from streambits.engines.partitions import Partition, good, partition_errors
from streambits.engines.shards import Shard, check_width
from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex, Hits
from streambits.index.hits import merge_nearest
from streambits.index.keys import Keys
from streambits.io.codes import open_codes
from streambits.io.codes.parquet import part_facts, write_codes
from streambits.model.batches import CodeBatch
from streambits.model.coder import Coder
from streambits.model.codes import Codes
from streambits.storage import load, save

CODES, SHARDS, RECORDS = "codes", "shards", "partitions"  # folders in that of a job
ROWS = 65536  # codes of a row group, whatever the batches


class Part(NamedTuple):
    """What a worker did with a partition.

    Attributes
    ----------
    number : int
    name : str
        Of the partition.
    rows : int
    bytes : int
        Of the file.
    kept : bool
        Whether it was there already.
    """

    number: int
    name: str
    rows: int
    bytes: int
    kept: bool = False


def code_file(folder: str | Path, number: int) -> Path:
    """Where the codes of a partition lie in the folder of a job."""
    return Path(folder) / CODES / f"part-{number:06d}.parquet"


def shard_file(folder: str | Path, number: int) -> Path:
    """Where the shard of a partition lies in the folder of a job."""
    return Path(folder) / SHARDS / f"shard-{number:06d}.safetensors"


def record_file(folder: str | Path, number: int) -> Path:
    """Where the record of a partition lies in the folder of a job."""
    return Path(folder) / RECORDS / f"{number:06d}.json"


def code_files(shards: str | Path | Sequence[Any]) -> list[Any]:
    """The shards that a user names: files of codes, or those of a folder or a job's folder.

    Parameters
    ----------
    shards : path, or sequence of paths or indexes

    Returns
    -------
    list
        Of a single folder its Parquet files in the order of their names; of a sequence its items.
    """
    if not isinstance(shards, str | Path):
        return list(shards)
    path = Path(shards)
    folder = path / CODES if (path / CODES).is_dir() else path
    found: list[Any] = sorted(folder.glob("*.parquet")) if folder.is_dir() else [path]
    if not found:
        raise StorageError(f"{folder} has no Parquet files of codes")
    return [one.absolute() for one in found]


def encode_partition(
    coder: Coder, partition: Partition, folder: str | Path, made_by: str = ""
) -> Part:
    """Encode a partition into a part file of a folder, unless that is there already.

    Parameters
    ----------
    coder : Coder
    partition : Partition
    folder : path
        Of the job, with the folders `codes` and `partitions`, which the coordinator has made.
    made_by : str
        Digest of the model; a part that another one made is made again.

    Returns
    -------
    Part

    Raises
    ------
    InputError, StorageError
        If the partition cannot be read or encoded, or the folder is not there; the message names
        the partition.

    Notes
    -----
    The bytes of the file depend on the rows and the coder, not on batches or engines. Memory: a
    batch of rows and 65,536 codes.
    """
    path = code_file(folder, partition.number)

    def work() -> int:
        rows = 0

        def encoded() -> Iterator[CodeBatch]:
            nonlocal rows
            for batch in good(partition):
                check_width(int(batch.rows.shape[1]), coder.features.inputs)
                rows += len(batch.rows)
                yield CodeBatch(batch.ids, coder.encode(CheckedRows(batch.rows), warn=False))

        write_codes(_grouped(encoded(), ROWS), coder.bits, path, refine=coder.refine)
        return rows

    return _kept_or_made(partition, folder, path, made_by, work)


def learn_to_file(
    learn: Callable[[], Shard], partition: Partition, folder: str | Path, made_by: str = ""
) -> Shard:
    """Return the shard of a partition from its file; if there is none that fits, learn it.

    Parameters
    ----------
    learn : callable
        Learns the partition.
    partition, folder, made_by
        As for `encode_partition`.
    """
    path, found = shard_file(folder, partition.number), list[Shard]()

    def work() -> int:
        found.append(learn())
        save(found[0], path, private=True)
        return found[0].learner.seen

    _kept_or_made(partition, folder, path, made_by, work)
    shard = found[0] if found else load(path)
    if not isinstance(shard, Shard):
        raise StorageError(f"{path} holds a {type(shard).__name__}, not a shard: delete it")
    return shard


def _kept_or_made(
    partition: Partition, folder: str | Path, path: Path, made_by: str, work: Callable[[], int]
) -> Part:
    """The part as recorded, if file and partition are what they were; or else it is made."""
    record = record_file(folder, partition.number)
    with partition_errors(partition):
        for one in (path.parent, record.parent):
            if not one.is_dir():
                raise StorageError(
                    f"{one} is not there for this worker: the folder must be on a disk that all "
                    f"workers and this process share"
                )
        try:
            now = {"number": partition.number, "first": partition.first, "made_by": made_by}
            now |= {"from": json.loads(json.dumps(partition.fingerprint()))}
        except OSError as error:
            raise StorageError(f"it cannot be read: {error.strerror or error}") from error
        known = recorded(folder, partition.number)
        size = path.stat().st_size if path.is_file() else -1
        if known and known == now | {"rows": known.get("rows"), "bytes": size}:
            return Part(partition.number, partition.name, known["rows"], size, kept=True)
        rows = work()
        size = path.stat().st_size
        with replacing(record) as file:
            file.write(seal(now | {"rows": rows, "bytes": size}))
        return Part(partition.number, partition.name, rows, size)


def recorded(folder: str | Path, number: int) -> dict[str, Any] | None:
    """The record of a part; one that cannot be used is none, and the part is made again."""
    path = record_file(folder, number)
    try:
        return unseal(path.read_bytes(), path)
    except (OSError, StorageError):
        return None


def remove_leftovers(folder: str | Path, count: int) -> None:
    """Remove what killed workers left, and parts beyond the last; for when all parts are there."""
    for name in (CODES, SHARDS, RECORDS):
        for path in (Path(folder) / name).glob("*"):
            digits = "".join(filter(str.isdigit, path.name.split(".")[0]))
            if path.name.startswith(".") or not digits or int(digits) >= count:
                path.unlink(missing_ok=True)


def _grouped(batches: Iterable[CodeBatch], size: int) -> Iterator[CodeBatch]:
    """The same codes, of one epoch, `size` at a time."""
    held: list[CodeBatch] = []
    for batch in batches:
        held.append(batch)
        while sum(len(one.ids) for one in held) >= size:
            whole = _joined(held)
            yield CodeBatch(whole.ids[:size], whole.codes[:size])
            held = [CodeBatch(whole.ids[size:], whole.codes[size:])]
    if held:
        whole = _joined(held)
        if len(whole.ids):
            yield whole


def _joined(held: Sequence[CodeBatch]) -> CodeBatch:
    if len(held) == 1:
        return held[0]
    ids, codes = zip(*held, strict=True)
    refined = [one.refinement for one in codes if one.refinement is not None]
    packed = np.concatenate([one.packed for one in codes])
    refinement = np.concatenate(refined) if refined else None
    first: Codes = codes[0]
    return CodeBatch(np.concatenate(ids), Codes(packed, first.bits, first.epoch, refinement))


def search_shard(shard: Any, queries: Any, k: int = 10, **options: Any) -> Hits:
    """Search one shard of a data set.

    Parameters
    ----------
    shard : HammingIndex or path
        Codes; a path is opened by `open_codes`.
    queries, k, **options
        As for `HammingIndex.search`.

    Returns
    -------
    Hits

    Raises
    ------
    StorageError
        If a file has marks of removals: they are of ids in other files, too.
    """
    if (
        isinstance(shard, str | Path)
        and Path(shard).suffix == ".parquet"
        and part_facts(Path(shard)).tombstones
    ):
        raise StorageError(
            f"{shard} has marks of removals, which have an order: search its folder without an "
            f"engine, or encode it again"
        )
    index = shard if isinstance(shard, HammingIndex) else open_codes(shard).index()
    return index.search(queries, k, **options)


def merge_hits(found: Sequence[Hits], k: int) -> Hits:
    """The k nearest over shards that have no id in common, as one index of all would answer.

    Parameters
    ----------
    found : sequence of Hits
        Of the same queries, one for each shard, in any order.
    k : int

    Returns
    -------
    Hits
        Equal distances in the order of ids, for texts of their hashes, as an index has them.

    Raises
    ------
    InputError
        If an id is found twice for a query.
    """
    if not found:
        raise InputError("there are no shards to search: name some")
    some = [hits for hits in found if hits.ids.shape[1]] or [found[0]]
    ids = np.concatenate([hits.ids for hits in some], axis=1)
    merged = _merge_texts(ids, some, k) if ids.dtype.kind == "T" else merge_nearest(some, k)
    order = np.sort(merged.ids, axis=1)
    twice = order[:, 1:] == order[:, :-1]
    if twice.any():
        query, place = np.argwhere(twice)[0]
        raise InputError(
            f"the id {order[query, place]} is in two shards: every id may be in one of them"
        )
    reads = [hits.reads for hits in found if hits.reads is not None]
    if len(reads) < len(found):
        return merged
    return Hits(merged.ids, merged.distances, np.sum(reads, axis=0))


def _merge_texts(ids: Any, found: Sequence[Hits], k: int) -> Hits:
    distances = np.concatenate([hits.distances for hits in found], axis=1)
    numbers = Keys.of(ids.ravel()).numbers.reshape(ids.shape)
    order = np.lexsort((numbers, distances))[:, :k]
    near = partial(np.take_along_axis, indices=order, axis=1)
    return Hits(near(ids), near(distances))


def digest_of(*parts: bytes) -> str:
    """A short digest of what a job was made with."""
    found = hashlib.blake2b(digest_size=8)
    for part in parts:
        found.update(part)
    return found.hexdigest()
