"""Parquet: files with columns id, code and epoch, readable by DuckDB, Polars and Spark.

Refined codes have a column `refinement` after the code; codes without sign bits no column `code`,
for not every reader knows binary values of no bytes. Ids are whole numbers or texts; payload that
is kept beside the codes are columns of texts after the epoch. While a sink writes, an id that comes
again has a further row, and a row of epoch -1 is a tombstone: its id was removed. `read_codes`
leaves out tombstones and what they removed; when the sink is closed there are none.

Every page has a checksum, and the footer a digest of what the columns hold, which covers what the
checksums do not: types, order and number of rows, and the length of the codes. Files without one
were written by others, and are taken as they are.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import TEXT, IdPlaces, Ids, as_count, as_ids, concat_ids
from streambits._digests import Digest
from streambits._files import make_folder, replacing
from streambits._locks import Lock, supported
from streambits.errors import ChangedError, InputError, StorageError
from streambits.index.queries import last_of_each
from streambits.io.codes.columns import (
    TOMBSTONE,
    CodeColumns,
    as_lengths,
    check_begun,
    check_names,
    live_rows,
)
from streambits.model.batches import CodeBatch
from streambits.model.codes import MOST_BYTES, Codes

BITS = b"streambits.bits"
DIGEST = b"streambits.digest"
WRITTEN = b"streambits.rows"  # of a part from which rows were dropped: how many it had
MADE = b"streambits.made_from"
FIELD_ID = b"PARQUET:field_id"
OURS = 0x7362  # "sb": the upper half of a field id in files of ours
PART_ROWS = 65536  # of a part, or of a batch that is read
PARTS = "part-*.parquet"
CODES = ("code", "refinement")
NULL = b"\xff\xff\xff\xff"  # in place of the length of a text


class ParquetSink:
    """A folder of part-000000.parquet and so on, which `read_codes` reads.

    A commit writes the last part anew until it has `rows` rows, so the folder can be read at any
    time, and what is in a part depends on the rows and not on the commits. Closing drops rows that
    were replaced or removed, part by part from the first on: wherever that is killed, readers find
    the last code of every id, and none of an id that was removed.

    `state()` commits, and returns plain values. After `resume(state)`, in any later process, the
    sink goes on from there, whatever was written since and wherever that was killed. A sink that
    was not resumed refuses a folder that holds codes.

    A lock `.NAME.lock` in the folder keeps other writers out from the first write, or `resume`,
    until the sink is closed. Memory: `rows` codes; while it is closed 24 bytes per id, if ids did
    not ascend or some were removed.
    """

    kind = "parquet"

    def __init__(
        self,
        path: str | Path,
        bits: int,
        *,
        refine: int = 0,
        rows: int = PART_ROWS,
        keep: tuple[str, ...] = (),
    ) -> None:
        self.path, self.name = Path(path), f"{self.kind}:{path}"
        self.bits, self.refine = as_lengths(bits, refine)
        self.keep, self.size = check_names(keep, self.name), as_count(rows, "rows")
        self.rows = 0  # that were written, with those that a part has lost since
        self._parts = 0  # that no commit writes again
        self._tail = [CodeColumns.empty(self.bits, self.refine, len(self.keep))]  # of the part next
        self._unsaved = False  # whether the tail has rows that are not in its part
        self._text: bool | None = None  # whether ids are texts; None before the first
        self._ascending, self._last = True, None  # whether all rows are live, by their ids
        self._lock: Lock | None = None
        self._begun = self._closed = False

    def write(self, ids: Any, codes: Codes, payload: Any = None) -> None:
        """Take codes of one epoch; ids that were written before are replaced."""
        rows = CodeColumns.of(ids, codes, self.bits, self.refine, payload=payload, keep=self.keep)
        self._append(rows)

    def remove(self, ids: Any) -> None:
        """Take out ids; those without codes do not matter."""
        gone = as_ids(ids)
        self._append(CodeColumns.tombstones(gone, self.bits, self.refine, len(self.keep)))
        self._ascending = self._ascending and not len(gone)

    def commit(self) -> None:
        """Make everything written so far last."""
        self._begin()
        with self._trouble():
            if self._lock is not None:
                self._lock.check()
            if self._unsaved or not (self._parts or self._part(0).exists()):
                self._save(CodeColumns.concat(self._tail), self._parts)
            self._unsaved = False

    def close(self) -> None:
        """Commit, leave one row of each id, and let go."""
        if self._closed:
            return
        self.commit()
        with self._trouble():
            if not self._ascending:
                settle_parts(self.path)
            self._let_go()

    def state(self) -> dict[str, Any]:
        """Commit, and say where this is."""
        self.commit()
        return self._settings() | {
            "rows": self.rows,
            "last": self._last,
            "ascending": self._ascending,
            **({"text": True} if self._text else {}),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go back to where `state()` was called."""
        check_begun(self.name, state, self._settings())
        with self._trouble():
            self._acquire()
            self._text = state.get("text", False if state["rows"] else None)
            self._last = state["last"]
            self._ascending = state["ascending"] and not state.get("marked")  # of version 0.2.0
            self._cut(state["rows"])
        self._begun = True
        self.commit()

    def _append(self, rows: CodeColumns) -> None:
        self._check_kind(rows.ids)
        self._begin()
        if not len(rows.ids):
            return
        self._text = rows.ids.dtype.kind == "T"
        with self._trouble():
            self._tail.append(rows)
            waiting = sum(len(rows.ids) for rows in self._tail)
            if full := waiting // self.size:
                together = CodeColumns.concat(self._tail)
                for start in range(0, full * self.size, self.size):
                    self._save(together.select(slice(start, start + self.size)), self._parts)
                    self._parts += 1
                self._tail = [together.select(slice(full * self.size, None))]
            self._unsaved = waiting % self.size > 0
        self.rows += len(rows.ids)
        higher = self._last is None or rows.ids[0] > self._last
        self._ascending &= bool(higher and (rows.ids[1:] > rows.ids[:-1]).all())
        self._last = rows.ids[-1:].tolist()[0]

    def _check_kind(self, ids: Ids) -> None:
        if len(ids) and self._text not in (None, ids.dtype.kind == "T"):
            has = "texts" if self._text else "whole numbers"
            raise InputError(f"{self.name} has ids that are {has}, and the next is {ids[0]!r}")

    def _begin(self) -> None:
        if self._closed:
            raise InputError(f"{self.name} is closed: open it again, and resume")
        if self._begun:
            return
        with self._trouble():
            self._acquire()
            if any(part_facts(path).rows for path in part_files(self.path)):
                raise StorageError(
                    f"{self.path} holds codes already: choose another place, or remove them"
                )
            self._cut(0)
        self._begun = True

    def _cut(self, rows: int) -> None:
        """Keep so many rows of the parts, and go on after them."""
        files, left, last = part_files(self.path), rows, None
        for number, path in enumerate(files):
            if not left:
                break
            if path != self._part(number):
                raise StorageError(f"{self._part(number)} is gone, and was written: restore it")
            part, last = part_facts(path), path
            self._ascending &= not part.settled
            self._parts, left, before = number + 1, left - min(left, part.written), left
            if part.written > before or (not part.settled and not left and part.rows < self.size):
                kept = CodeColumns.concat([*self._tail, *_read_columns(path, self._schema)])
                kept = kept.select(slice(before))
                if part.settled:
                    self._save(kept, number, written=before)
                elif len(kept.ids) < self.size:
                    self._parts, self._tail = number, [kept]
                    self._unsaved = part.written > before
        settled_by_0_2_0 = (self.path / f".{self.path.name}.generation").exists()
        if left and not settled_by_0_2_0:  # whose parts do not say how many rows they had
            raise StorageError(
                f"{last or self.path} ends after {rows - left} rows, and {rows} were written: "
                f"restore it, or begin a new job"
            )
        for path in reversed(files[self._parts + (len(self._tail[-1].ids) > 0) :]):
            path.unlink()
        self.rows = rows - left
        self._ascending &= not left

    def _save(self, rows: CodeColumns, number: int, written: int | None = None) -> None:
        _write(rows.runs(), self._schema, self._part(number), written=written)

    @property
    def _schema(self) -> "CodeSchema":
        return CodeSchema(self.bits, self.refine, bool(self._text), self.keep)

    def _part(self, number: int) -> Path:
        return self.path / f"part-{number:06d}.parquet"

    def _settings(self) -> dict[str, Any]:
        """What must not change."""
        lengths = {"kind": self.kind, "bits": self.bits, "refine": self.refine, "size": self.size}
        return lengths | ({"keep": list(self.keep)} if self.keep else {})

    def _acquire(self) -> None:
        """Keep other writers out."""
        make_folder(self.path)
        if self._lock is None and supported():
            real = Path(os.path.realpath(self.path))
            does, remedy = f"writes to {self.path}", "wait until it is done, or choose another sink"
            self._lock = Lock(real / f".{real.name}.lock", does, remedy)

    def _let_go(self) -> None:
        self._closed = True
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        """Trouble in one sentence, which ends this sink: what was written is not known then."""
        try:
            yield
        except (OSError, StorageError) as error:
            with suppress(OSError):
                self._let_go()
            if isinstance(error, StorageError):
                raise
            reason = error.strerror or error
            raise StorageError(f"{self.path} cannot be written: {reason}") from error


def settle_parts(folder: Path) -> None:
    """Leave one row of each id that is live, and no tombstones, in the parts of a folder.

    A part is rewritten after those before it: so whoever reads meanwhile, and wherever this is
    killed, an id has its last code, and none once it was removed. Memory: all ids and epochs.
    """
    files = part_files(folder)
    keys = [(rows.ids, rows.epochs) for path in files for rows in _read_columns(path)]
    if not keys:
        return
    ids, epochs = zip(*keys, strict=True)
    live, start = live_rows(concat_ids(ids), np.concatenate(epochs)), 0
    for path in files:
        part = part_facts(path)
        here = live[start : start + part.rows]
        start += part.rows
        if not here.all():
            columns, schemas = zip(*_batches(path), strict=True)
            rows = CodeColumns.concat(list(columns)).select(here)
            _write(rows.runs(), schemas[0], path, written=part.written)


def part_files(folder: Path) -> list[Path]:
    """The parts of a folder, in their order."""
    return sorted(folder.glob(PARTS), key=lambda path: (len(path.name), path.name))


def write_codes(
    batches: Iterable[CodeBatch],
    bits: int,
    path: str | Path,
    *,
    refine: int = 0,
    made_from: str | None = None,
) -> None:
    """Write ids and codes of `bits` bits and `refine` bytes to one file, all of it or nothing.

    made_from: what they were made from, which the footer says.
    """
    columns = (CodeColumns.of(ids, codes, bits, refine) for ids, codes in batches)
    first = next(columns, CodeColumns.empty(bits, refine))
    schema = CodeSchema(bits, refine, first.ids.dtype.kind == "T")
    _write(chain([first], columns), schema, path, made_from=made_from)


def made_from(path: Path) -> str | None:
    """What the footer of a file says that its codes were made from; None where there is no file."""
    from pyarrow import ArrowException, parquet  # noqa: PLC0415

    try:
        metadata = parquet.read_metadata(path).metadata or {}
    except (ArrowException, OSError):
        return None
    value = metadata.get(MADE)
    return None if value is None else value.decode(errors="replace")


def _write(
    columns: Iterable[CodeColumns],
    schema: "CodeSchema",
    path: str | Path,
    *,
    written: int | None = None,
    made_from: str | None = None,
) -> None:
    """Write a file. written: how many rows it had, if some were dropped."""
    from pyarrow import parquet  # noqa: PLC0415 - slow to import, and seldom needed

    content, arrow = _Content(schema), schema.arrow()
    with (
        replacing(Path(path)) as file,
        parquet.ParquetWriter(file, arrow, write_page_checksum=True) as writer,
    ):
        for rows in columns:
            if len(rows.ids):
                record = _record_batch(rows, arrow)
                content.update(record)
                writer.write_batch(record)
        notes = {DIGEST: str(content), WRITTEN: written, MADE: made_from}
        present = {key: str(value) for key, value in notes.items() if value is not None}
        writer.add_key_value_metadata(present)


def read_codes(
    path: str | Path, *, bits: int | None = None, committed: dict[str, Any] | None = None
) -> Iterator[CodeBatch]:
    """Read a file, or all Parquet files of a folder in the order of their names.

    Parameters
    ----------
    path
        The file or folder.
    bits
        The length of the codes; by default what the file says, or else whole bytes.
    committed
        The state of the sink that writes there: what it wrote since is left out.

    Raises
    ------
    StorageError
        If there are no codes; or a file of ours is damaged, at the latest after its last batch.
    ChangedError
        If rows were dropped meanwhile, as a sink was closed.

    Notes
    -----
    Memory: 65536 codes, and what the tombstones removed.
    """
    path = Path(path)
    stretches = [_Stretch(path)]
    if path.is_dir():
        stretches = _stretches(path, None if committed is None else committed["rows"])
    removals = _Removals(stretches if path.is_dir() else [])
    for stretch in stretches:
        for columns, first, schema in stretch.read():
            live = removals.live(columns, first)
            rows = columns if live.all() else columns.select(live)
            if len(np.unique(rows.epochs)) > 1:  # which would be out of order
                rows = rows.select(last_of_each(rows.ids))
            for epoch in np.unique(rows.epochs):
                batch = rows.select(rows.epochs == epoch)
                yield batch.batch(schema.bits if bits is None else bits)


def _stretches(folder: Path, limit: int | None) -> list["_Stretch"]:
    """The files of a folder, as far as they count. limit: rows that were committed."""
    files = sorted(folder.glob("*.parquet"))
    if not files and limit != 0:
        raise StorageError(f"{folder} has no Parquet files")
    stretches, start = [], 0
    for file in files:
        if limit == 0:
            break
        part = part_facts(file, listed=True)
        rows = part.rows if limit is None or part.settled else min(part.rows, limit)
        limit = None if limit is None else limit - min(limit, part.written)
        stretches.append(_Stretch(file, start, rows, part.tombstones))
        start += rows
    return stretches


class _Stretch(NamedTuple):
    """The first rows of a file; those of a folder are numbered through, from `start` on.

    rows: None for a file that is read alone, which may be replaced by another at any time.
    """

    file: Path
    start: int = 0
    rows: int | None = None
    tombstones: bool = False

    def read(self) -> Iterator[tuple[CodeColumns, int, "CodeSchema"]]:
        """Columns, the number of their first row, and their schema."""
        first = 0
        for columns, schema in _batches(self.file, self.rows):
            left = None if self.rows is None else max(0, self.rows - first)
            yield columns.select(slice(left)), self.start + first, schema
            first += len(columns.ids)


class _Removals:
    """Which rows were removed by tombstones that come after them."""

    def __init__(self, stretches: list[_Stretch]) -> None:
        ids, rows = [], []
        for stretch in stretches:
            for columns, first, _ in stretch.read() if stretch.tombstones else ():
                dead = columns.epochs == TOMBSTONE
                ids.append(columns.ids[dead])
                rows.append(first + np.flatnonzero(dead))
        removed = concat_ids(ids)
        last = last_of_each(removed)
        self._find = IdPlaces(removed[last])
        self._rows = np.append(np.concatenate([np.empty(0, np.int64), *rows])[last], -1)

    def live(self, columns: CodeColumns, first: int) -> NDArray[np.bool_]:
        """Which rows are no tombstones, and have none after them."""
        live: NDArray[np.bool_] = columns.epochs != TOMBSTONE
        if len(self._rows) > 1:  # the last is -1, for ids that were not removed
            live &= self._rows[self._find(columns.ids)] < first + np.arange(len(columns.ids))
        return live


class PartFacts(NamedTuple):
    """What the footer of a part says.

    Attributes
    ----------
    rows : int
        Rows of the file.
    written : int
        Rows that it had before some were dropped.
    settled : bool
        Whether some were dropped.
    tombstones : bool
        Whether there may be some; never in files of others.
    """

    rows: int
    written: int
    settled: bool
    tombstones: bool


def part_facts(path: Path, *, listed: bool = False) -> PartFacts:
    """What the footer of a file says. listed: a file that is gone was there before."""
    with _opened(path, listed=listed) as file:
        meta = file.metadata
        notes, rows = meta.metadata or {}, int(meta.num_rows)
        if DIGEST not in notes:
            return PartFacts(rows, rows, False, False)
        names = [meta.schema.column(n).name for n in range(meta.num_columns)]
        if "epoch" not in names:
            raise _damaged(path, "it has no column epoch")
        place = names.index("epoch")
        groups = [meta.row_group(n).column(place).statistics for n in range(meta.num_row_groups)]
        below = any(s is None or not s.has_min_max or s.min < 0 for s in groups)
        written = notes.get(WRITTEN, b"")
        if WRITTEN in notes and not (written.isdigit() and int(written) >= rows):
            raise _damaged(path, f"{WRITTEN.decode()} is {written!r}, and it has {rows} rows")
        return PartFacts(rows, int(written or rows), WRITTEN in notes, below)


@contextmanager
def _opened(path: Path, *, listed: bool = False) -> Iterator[Any]:
    """An open Parquet file; what is wrong with it is an error of ours."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError:
        if listed:
            raise _changed(path) from None
        raise StorageError(f"{path} does not exist") from None
    except (StorageError, InputError):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError, IndexError) as error:
        raise StorageError(f"{path} cannot be read as Parquet: {error}") from error


def _changed(path: Path) -> ChangedError:
    return ChangedError(
        f"{path.parent} has changed while it was read, as a job went on or ended: read it again"
    )


class CodeSchema(NamedTuple):
    """Lengths of the codes in a file, from which its columns follow.

    >>> CodeSchema(12, 0).columns, str(CodeSchema(12, 0))
    (('id', 'code', 'epoch'), '12 bits')
    >>> CodeSchema(0, 8).columns, str(CodeSchema(0, 8))
    (('id', 'refinement', 'epoch'), '0 bits and 8 bytes')
    """

    bits: int
    refine: int
    text: bool = False
    keep: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.needed, *self.keep)

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns without gaps."""
        lengths = zip(CODES, (self.bits, self.refine), strict=True)
        return ("id", *(name for name, length in lengths if length), "epoch")

    def __str__(self) -> str:
        return f"{self.bits} bits" + (f" and {self.refine} bytes" if self.refine else "")

    def arrow(self) -> Any:
        """The schema of a file; its metadata says how many bits the codes have.

        So does no other place, but the field id of the epoch says that the file is ours: if damage
        took the metadata, it would pass for one of others, with codes of whole bytes.
        """
        import pyarrow as pa  # noqa: PLC0415

        widths = {"code": -(-self.bits // 8), "refinement": self.refine}
        mark = {FIELD_ID: str(OURS << 16)}
        fields = [
            pa.field("id", pa.string() if self.text else pa.int64(), nullable=False),
            *(
                pa.field(name, pa.binary(width), nullable=False)
                for name, width in widths.items()
                if width
            ),
            pa.field("epoch", pa.int32(), nullable=False, metadata=mark),
            *(pa.field(name, pa.string()) for name in self.keep),
        ]
        return pa.schema(fields, metadata={BITS: str(self.bits)})


class _Content:
    """What columns hold, in a few characters: the same for any split into batches.

    >>> str(_Content(CodeSchema(8, 0)))
    '8 bits, 0 rows: 00000000 00000000 00000000'
    """

    def __init__(self, schema: CodeSchema) -> None:
        self.schema, self.rows = schema, 0
        self._digests = [Digest()] * len(schema.columns)

    def update(self, batch: Any) -> None:
        """The next rows; their columns are those of the schema and have no gaps."""
        self.rows += len(batch)
        each = zip(self._digests, map(_bytes, batch.columns), strict=True)
        self._digests = [digest.then(column) for digest, column in each]

    def __str__(self) -> str:
        checks = " ".join(f"{digest.crc:08x}" for digest in self._digests)
        return f"{self.schema}, {self.rows} rows: {checks}"


def _bytes(column: Any) -> Any:
    """The values of a column, one after another; texts with their lengths before them."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_string(column.type):
        texts = (None if text is None else text.encode() for text in column.to_pylist())
        each = (NULL if text is None else struct.pack("<I", len(text)) + text for text in texts)
        return b"".join(each)
    width = column.type.bit_width // 8
    values = memoryview(column.buffers()[1] or b"").cast("B")
    return values[column.offset * width : (column.offset + len(column)) * width]


def _record_batch(rows: CodeColumns, schema: Any) -> Any:
    """Ids and codes in the columns of an Arrow schema, without a loop over codes."""
    import pyarrow as pa  # noqa: PLC0415

    columns = [
        pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(part.shape[1]), len(part), [None, pa.py_buffer(np.ascontiguousarray(part))]
        )
        for part in (rows.packed, rows.refinement)
        if part.shape[1]
    ]
    text = rows.ids.dtype.kind == "T"
    ids = pa.array(rows.ids.tolist(), pa.string()) if text else pa.array(rows.ids)
    kept = [pa.array(column.tolist(), pa.string()) for column in rows.payload.T]
    return pa.record_batch([ids, *columns, pa.array(rows.epochs), *kept], schema=schema)


def _read_columns(path: Path, wanted: CodeSchema | None = None) -> Iterator[CodeColumns]:
    """What a file of ours holds, in its order; it is checked at its end."""
    for columns, schema in _batches(path):
        if wanted not in (None, schema):
            raise StorageError(f"{path} has codes of {schema}, not {wanted}: restore it")
        yield columns


def _batches(path: Path, rows: int | None = None) -> Iterator[tuple[CodeColumns, CodeSchema]]:
    """What a file holds, and the lengths of its codes; its digest is checked at the end.

    rows: that the file had a moment ago, or at least some of them.
    """
    with _opened(path, listed=rows is not None) as file:
        if rows is not None and file.metadata.num_rows < rows:
            raise _changed(path)
        schema, digest = _promised(file, path)
        content, columns = _Content(schema), schema.columns
        for raw in file.iter_batches(PART_ROWS, columns=list(columns)):
            batch = raw.select(columns)  # in this order, whatever the file's is
            if any(batch.column(name).null_count for name in schema.needed):
                raise StorageError(f"{path} has gaps in its columns {', '.join(schema.needed)}")
            content.update(batch)
            yield _columns(batch), schema
    if digest not in (None, str(content)):
        raise _damaged(path, f"it holds {content}, and {digest} were written")


def _promised(file: Any, path: Path) -> tuple[CodeSchema, str | None]:
    """The lengths of the codes, and what a file of ours says that it holds."""
    from pyarrow import types  # noqa: PLC0415

    arrow = file.schema_arrow
    widths = _widths(arrow)
    if widths is None:
        raise StorageError(
            f"{path} holds no codes: it should have the columns id (whole numbers), code (binary "
            f"of a fixed size), refinement (the same, where codes are refined) and epoch (whole "
            f"numbers); it has {', '.join(f'{field.name} ({field.type})' for field in arrow)}"
        )
    notes = file.metadata.metadata or {}
    bits = _bits(notes.get(BITS), widths.get("code", 0), path)
    text = types.is_string(arrow.field("id").type) or types.is_large_string(arrow.field("id").type)
    columns = ("id", *CODES, "epoch")
    keep = tuple(name for name in arrow.names if name not in columns) if DIGEST in notes else ()
    schema = CodeSchema(bits, widths.get("refinement", 0), text, keep)
    if DIGEST not in notes:
        if BITS not in notes and any(map(_is_ours, arrow)):
            raise _damaged(path, "its metadata are gone")
        return schema, None
    digest = notes[DIGEST].decode(errors="replace")
    if not (arrow.equals(schema.arrow()) and digest.startswith(f"{schema}, ")):
        raise _damaged(path, f"its columns are not those of codes of {schema}")
    return schema, digest


def _widths(arrow: Any) -> dict[str, int] | None:
    """Bytes of the columns code and refinement, as far as there are; None for no codes."""
    from pyarrow import types  # noqa: PLC0415

    whole = [arrow.field(name).type for name in ("id", "epoch") if arrow.names.count(name) == 1]
    fields = [arrow.field(n) for n, name in enumerate(arrow.names) if name in CODES]
    widths = {f.name: f.type.byte_width for f in fields if types.is_fixed_size_binary(f.type)}
    names = (types.is_string, types.is_large_string, types.is_integer)
    right = len(whole) == 2 and types.is_integer(whole[1])
    right = right and any(check(whole[0]) for check in names)
    right = right and 1 <= len(widths) == len(fields) and min(widths.values()) > 0
    return widths if right and widths.get("refinement", 0) <= MOST_BYTES else None


def _bits(noted: bytes | None, width: int, path: Path) -> int:
    """The length of codes of `width` bytes: as noted, or else all of them."""
    if noted is None:
        return 8 * width
    if not noted.isdigit() or len(noted) > 4 or -(-int(noted) // 8) != width:
        raise _damaged(path, f"{BITS.decode()} is {noted!r}, and codes have {width} bytes")
    return int(noted)


def _is_ours(field: Any) -> bool:
    """Whether the field id of a column is one that we give."""
    number = (field.metadata or {}).get(FIELD_ID, b"")
    return bool(number.isdigit() and int(number) >> 16 == OURS)


def _damaged(path: Path, reason: str) -> StorageError:
    return StorageError(
        f"{path} is damaged ({reason}): restore it; or, if another program has rewritten it, let "
        f"it write plain columns without metadata"
    )


def _columns(batch: Any) -> CodeColumns:
    """Ids, codes and epochs of a batch, without a loop over codes."""
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    packed, refinement = (
        np.frombuffer(_bytes(arrays[name]), np.uint8).reshape(-1, arrays[name].type.byte_width)
        if name in arrays
        else np.empty((len(batch), 0), np.uint8)
        for name in CODES
    )
    ids, epochs = (arrays[name].to_numpy(zero_copy_only=False) for name in ("id", "epoch"))
    kept = [name for name in batch.schema.names if name not in ("id", "epoch", *CODES)]
    payload = np.empty((len(batch), len(kept)), object)
    for place, name in enumerate(kept):
        payload[:, place] = arrays[name].to_pylist()
    ids = ids.astype(TEXT if ids.dtype.kind == "O" else np.int64)
    return CodeColumns(ids, packed, epochs, refinement, payload)
