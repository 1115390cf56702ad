"""Parquet: files with columns id, code and epoch, readable by DuckDB, Polars and Spark.

Refined codes have a column `refinement` after the code; codes without sign bits no column `code`,
for not every reader knows binary values of no bytes. Ids are whole numbers or texts; what is kept
beside the codes are columns of texts after the epoch. While a sink writes, a row of epoch -1 marks
that its id was removed; `read_codes` leaves it out with what came before, and when the sink is
closed there are none.

Every page has a checksum, and the footer a digest of what the columns hold, which covers what the
checksums do not: types, order and number of rows, and the length of the codes. Files without one
were written by others, and are taken as they are.
"""

import struct
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import TEXT, IdPlaces, Ids, as_count, concat_ids
from streambits._digests import Digest
from streambits._files import replacing
from streambits.errors import ChangedError, InputError, StorageError
from streambits.index.queries import last_of_each
from streambits.io.codes._append import REMOVED, Appending, CodeColumns, Swap
from streambits.model.batches import CodeBatch
from streambits.model.codes import MOST_BYTES

BITS = b"streambits.bits"
DIGEST = b"streambits.digest"
MADE = b"streambits.made_from"
FIELD_ID = b"PARQUET:field_id"
OURS, SPAN = 0x73620000, 0x10000  # field ids that begin with "sb", then a length
BYTES, BESIDE = 0x2000, 0x8000  # added to that of a refinement; where code and refinement are there
ROWS = 65536  # at a time
PARTS = "part-*.parquet"
CODES = ("code", "refinement")
MANY = 1 << 62  # rows
NULL = b"\xff\xff\xff\xff"  # in place of the length of a text


class ParquetSink(Appending):
    """A data set of files part-000000.parquet and so on, which `read_codes` reads.

    All have `rows` rows but the last. A commit writes the last one anew, so the folder can be read
    at any time, and what is in a file depends on the rows and not on the commits.
    Memory: `rows` codes.
    """

    kind = "parquet"

    def __init__(
        self,
        path: str | Path,
        bits: int,
        *,
        refine: int = 0,
        rows: int = ROWS,
        keep: tuple[str, ...] = (),
    ) -> None:
        super().__init__(path, bits, refine, Path(path), PARTS)
        self.keep = check_names(keep)
        self._none = CodeColumns.empty(self.bits, self.refine, len(self.keep))
        self.size = as_count(rows, "rows")
        self._parts = 0  # that are full
        self._tail: list[CodeColumns] = []
        self._written = -1  # rows, when the last file was written

    def _found(self) -> bool:
        files = self._swap.files()
        return any(len(rows.ids) for path in files for rows in _read_columns(path))

    def _append(self, rows: CodeColumns) -> None:
        self._tail.append(rows)
        waiting = sum(len(rows.ids) for rows in self._tail)
        if waiting < self.size:
            return
        together = CodeColumns.concat(self._tail)
        for start in range(0, waiting - self.size + 1, self.size):
            self._save(together.select(slice(start, start + self.size)), self._part(self._parts))
            self._parts += 1
        self._tail = [together.select(slice(waiting - waiting % self.size, None))]

    def _flush(self) -> None:
        waiting = sum(len(rows.ids) for rows in self._tail)
        if self._written != self.rows and (waiting or not self._parts):
            last = CodeColumns.concat([self._none, *self._tail])
            self._save(last, self._part(self._parts))
        self._written = self.rows

    def _cut(self) -> None:
        self._parts, waiting = divmod(self.rows, self.size)
        missing = [k for k in range(self._parts) if not self._part(k).exists()]
        if missing:
            raise StorageError(f"{self._part(missing[0])} is gone, and was written: restore it")
        last = self._load(self._part(self._parts)) if waiting else self._none
        if len(last.ids) < waiting:
            raise StorageError(
                f"{self._part(self._parts)} has {len(last.ids)} rows, and {waiting} were written"
            )
        self._tail, self._written = [last.select(slice(waiting))], -1
        for path in self._swap.files()[self._parts + (waiting > 0) :]:
            path.unlink()
        self._flush()

    def _adopt(self) -> int:
        *full, last = self._swap.files() or [self._part(0)]
        self._parts = len(full)
        if self._text is None and last.exists():  # the state was of before the first id
            self._text = any(rows.ids.dtype.kind == "T" for rows in _read_columns(last)) or None
        self._tail = [self._load(last)] if last.exists() else []
        return self._parts * self.size + sum(len(rows.ids) for rows in self._tail)

    @property
    def _layout(self) -> "_Layout":
        return _Layout(self.bits, self.refine, bool(self._text), self.keep)

    def _keys(self) -> tuple[Ids, NDArray[np.int32]]:
        held = [columns for path in self._swap.files() for columns in _read_columns(path)]
        epochs = [self._none.epochs, *(columns.epochs for columns in held)]
        return concat_ids(columns.ids for columns in held), np.concatenate(epochs)

    def _rewrite(self, kept: NDArray[np.bool_]) -> list[str]:
        names: list[str] = []
        for rows in self._pieces(kept):
            name = self._part(len(names)).name
            self._save(rows, self._swap.new(name))
            names.append(name)
        if not names:  # all ids were removed
            names.append(self._part(0).name)
            self._save(self._none, self._swap.new(names[0]))
        return names

    def _pieces(self, kept: NDArray[np.bool_]) -> Iterator[CodeColumns]:
        """The rows that are kept, as many at a time as a file holds."""
        held, seen = self._none, 0
        for path in self._swap.files():
            rows = self._load(path)
            some = rows.select(kept[seen : seen + len(rows.ids)])
            held, seen = CodeColumns.concat([held, some]), seen + len(rows.ids)
            if len(held.ids) >= self.size:
                yield held.select(slice(self.size))
                held = held.select(slice(self.size, None))
        if len(held.ids):
            yield held

    def _save(self, rows: CodeColumns, path: Path) -> None:
        _write(rows.runs(), self._layout, path)

    def _load(self, path: Path) -> CodeColumns:
        return CodeColumns.concat([self._none, *_read_columns(path, self._layout)])

    def _part(self, number: int) -> Path:
        return self.path / f"part-{number:06d}.parquet"

    def _fixed(self) -> dict[str, Any]:
        return {"size": self.size, **({"keep": list(self.keep)} if self.keep else {})}


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
    layout = _Layout(bits, refine, first.ids.dtype.kind == "T")
    _write(chain([first], columns), layout, path, {} if made_from is None else {MADE: made_from})


def made_from(path: Path) -> str | None:
    """What the footer of a file says that its codes were made from; None where there is no file."""
    from pyarrow import ArrowException, parquet  # noqa: PLC0415

    try:
        found = (parquet.read_metadata(path).metadata or {}).get(MADE)
    except (ArrowException, OSError):
        return None
    return None if found is None else found.decode(errors="replace")


def _write(
    columns: Iterable[CodeColumns],
    layout: "_Layout",
    path: str | Path,
    more: dict[bytes, str] | None = None,
) -> None:
    from pyarrow import parquet  # noqa: PLC0415 - slow to import, and seldom needed

    found, schema = _Content(layout), _schema(layout)
    with (
        replacing(Path(path)) as file,
        parquet.ParquetWriter(file, schema, write_page_checksum=True) as writer,
    ):
        for rows in columns:
            if len(rows.ids):
                record = _record_batch(rows, schema)
                found.update(record)
                writer.write_batch(record)
        writer.add_key_value_metadata({DIGEST: str(found), **(more or {})})


def read_codes(
    path: str | Path, *, bits: int | None = None, committed: dict[str, Any] | None = None
) -> Iterator[CodeBatch]:
    """Read a file, or all Parquet files of a folder in the order of their names.

    bits: the length of the codes; by default what the file says, or else whole bytes. committed:
    the state of the sink that writes there: what it wrote since is left out. Damage to a file of
    ours is an error, at the latest after its last batch, and so is an exchange of the files
    meanwhile (`ChangedError`). Memory: 65536 codes, and what marks removals.
    """
    path = Path(path)
    generation = _generation(path)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise StorageError(f"{path} has no Parquet files")
    limit = None
    if committed is not None and generation == committed["generation"]:
        limit = committed["rows"]
    marks, start = _Marks(files if path.is_dir() else [], limit), 0
    try:
        for file in files:
            for columns, held in _read(file, marks, start):
                yield columns.batch(held.bits if bits is None else bits)
            start += marks.lengths.get(file, 0)
    except (StorageError, KeyError):
        if _generation(path) != generation:
            raise _exchanged(path) from None
        raise
    if _generation(path) != generation:
        raise _exchanged(path)


def _generation(path: Path) -> int:
    """How often a sink has exchanged its files in a folder."""
    return Swap(path, path.name, PARTS).generation if path.is_dir() else 0


def _exchanged(path: Path) -> ChangedError:
    return ChangedError(f"{path} was exchanged while it was read, as a job ended: read it again")


class _Marks:
    """Where ids are removed in files of ours, found by the statistics of their epochs.

    lengths: rows of each file that count.
    """

    def __init__(self, files: list[Path], limit: int | None) -> None:
        left = limit
        self.lengths: dict[Path, int] = {}
        ids, places, start = [], [], 0
        for file in files:
            rows, marked = facts(file)
            rows = rows if left is None else min(rows, left)
            left = None if left is None else left - rows
            self.lengths[file] = rows
            for columns, first in _numbered(file) if marked else ():
                gone = (columns.epochs == REMOVED) & (first + np.arange(len(columns.ids)) < rows)
                ids.append(columns.ids[gone])
                places.append(start + first + np.flatnonzero(gone))
            start += rows
        found = concat_ids(ids)
        last = last_of_each(found)
        self._find = IdPlaces(found[last])
        self._rows = np.concatenate([*places, np.array([-1])])[np.append(last, True)]

    def live(self, columns: CodeColumns, first: int, rows: int) -> NDArray[np.bool_]:
        """Which rows, from number `first` on, come before number `rows` and are not removed."""
        places = first + np.arange(len(columns.ids))
        live: NDArray[np.bool_] = (places < rows) & (columns.epochs != REMOVED)
        if len(self._rows) > 1:  # the last is -1, for ids that were not removed
            live &= self._rows[self._find(columns.ids)] < places
        return live


def _numbered(file: Path) -> Iterator[tuple[CodeColumns, int]]:
    """The columns of a file, and the number of the first row of each."""
    first = 0
    for columns in _read_columns(file):
        yield columns, first
        first += len(columns.ids)


def facts(path: Path) -> tuple[int, bool]:
    """Rows of a file, and whether it has marks of removals; files of others have none."""
    from pyarrow import parquet  # noqa: PLC0415

    try:
        meta = parquet.read_metadata(path)
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist") from None
    except Exception as error:
        if not isinstance(error, _unreadable()):
            raise
        raise StorageError(f"{path} cannot be read as Parquet: {error}") from error
    if DIGEST not in (meta.metadata or {}):
        return int(meta.num_rows), False
    place = [n for n in range(meta.num_columns) if meta.schema.column(n).name == "epoch"]
    groups = [meta.row_group(n).column(place[0]).statistics for n in range(meta.num_row_groups)]
    return int(meta.num_rows), any(s is None or not s.has_min_max or s.min < 0 for s in groups)


def _unreadable() -> tuple[type[Exception], ...]:
    import pyarrow as pa  # noqa: PLC0415

    return (pa.ArrowException, OSError, UnicodeDecodeError, IndexError)


class _Layout(NamedTuple):
    """Lengths of the codes in a file, from which its columns follow.

    >>> _Layout(12, 0).columns, str(_Layout(12, 0))
    (('id', 'code', 'epoch'), '12 bits')
    >>> _Layout(0, 8).columns, str(_Layout(0, 8))
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
        return ("id", *self.marks, "epoch")

    @property
    def marks(self) -> dict[str, int]:
        """The field ids of code and refinement: how long it is, and whether there is the other."""
        beside = BESIDE if self.bits and self.refine else 0
        marks = {"code": OURS + self.bits + beside} if self.bits else {}
        return marks | ({"refinement": OURS + BYTES + self.refine + beside} if self.refine else {})

    def __str__(self) -> str:
        return f"{self.bits} bits" + (f" and {self.refine} bytes" if self.refine else "")


def _schema(layout: _Layout) -> Any:
    """The columns of a file of codes; its metadata says how many bits they have.

    So do the field ids of code and refinement, which lie elsewhere in the file: if damage took the
    metadata, it would pass for one of others, with codes of whole bytes; or, if a column was taken
    away, for one of other codes.
    """
    import pyarrow as pa  # noqa: PLC0415

    widths = {"code": -(-layout.bits // 8), "refinement": layout.refine}
    fields = [
        pa.field("id", pa.string() if layout.text else pa.int64(), nullable=False),
        *(
            pa.field(name, pa.binary(widths[name]), nullable=False, metadata={FIELD_ID: str(mark)})
            for name, mark in layout.marks.items()
        ),
        pa.field("epoch", pa.int32(), nullable=False),
        *(pa.field(name, pa.string()) for name in layout.keep),
    ]
    return pa.schema(fields, metadata={BITS: str(layout.bits)})


class _Content:
    """What columns hold, in a few characters: the same for any split into batches.

    >>> str(_Content(_Layout(8, 0)))
    '8 bits, 0 rows: 00000000 00000000 00000000'
    """

    def __init__(self, layout: _Layout) -> None:
        self.layout, self.rows = layout, 0
        self._digests = [Digest()] * len(layout.columns)

    def update(self, batch: Any) -> None:
        """The next rows; their columns are those of the layout and have no gaps."""
        self.rows += len(batch)
        each = zip(self._digests, map(_bytes, batch.columns), strict=True)
        self._digests = [digest.then(column) for digest, column in each]

    def __str__(self) -> str:
        checks = " ".join(f"{digest.crc:08x}" for digest in self._digests)
        return f"{self.layout}, {self.rows} rows: {checks}"


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
    """Ids and codes in the columns of a schema, without a loop over codes."""
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


def _read_columns(path: Path, wanted: _Layout | None = None) -> Iterator[CodeColumns]:
    """What a file of ours holds, in its order; it is checked at its end."""
    for batch, layout in _batches(path):
        if wanted not in (None, layout):
            raise StorageError(f"{path} has codes of {layout}, not {wanted}: restore it")
        yield _columns(batch)


def _read(path: Path, marks: _Marks, start: int) -> Iterator[tuple[CodeColumns, _Layout]]:
    """The codes of a file that count, each epoch of a batch by itself."""
    first, end = start, start + marks.lengths.get(path, MANY)  # a file alone is read as it is
    for batch, held in _batches(path):
        columns = _columns(batch)
        live = marks.live(columns, first, end)
        first += len(columns.ids)
        if not live.all():
            columns = columns.select(live)
        if len(epochs := np.unique(columns.epochs)) > 1:  # which would be out of order
            columns = columns.select(last_of_each(columns.ids))
        for epoch in epochs:
            yield columns.select(columns.epochs == epoch), held


def _batches(path: Path) -> Iterator[tuple[Any, _Layout]]:
    """What a file holds, and the lengths of its codes; its digest is checked at the end."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            layout, digest = _promised(file, path)
            content, columns = _Content(layout), layout.columns
            for found in file.iter_batches(ROWS, columns=list(columns)):
                batch = found.select(columns)  # in this order, whatever the file's is
                if any(batch.column(name).null_count for name in layout.needed):
                    raise StorageError(f"{path} has gaps in its columns {', '.join(layout.needed)}")
                content.update(batch)
                yield batch, layout
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{path} cannot be read as Parquet: {error}") from error
    if digest not in (None, str(content)):
        raise _damaged(path, f"it holds {content}, and {digest} were written")


def _promised(file: Any, path: Path) -> tuple[_Layout, str | None]:
    """The lengths of the codes, and what a file of ours says that it holds."""
    from pyarrow import types  # noqa: PLC0415

    found = file.schema_arrow
    widths = _widths(found)
    if widths is None:
        raise StorageError(
            f"{path} holds no codes: it should have the columns id (whole numbers), code (binary "
            f"of a fixed size), refinement (the same, where codes are refined) and epoch (whole "
            f"numbers); it has {', '.join(f'{field.name} ({field.type})' for field in found)}"
        )
    marks = file.metadata.metadata or {}
    bits = _bits(marks.get(BITS), widths.get("code", 0), path)
    text = types.is_string(found.field("id").type) or types.is_large_string(found.field("id").type)
    known = ("id", "code", "refinement", "epoch")
    keep = tuple(name for name in found.names if name not in known) if DIGEST in marks else ()
    layout = _Layout(bits, widths.get("refinement", 0), text, keep)
    noted = {name: mark for name in widths if (mark := _mark(found.field(name))) is not None}
    if not noted.items() <= layout.marks.items():
        raise _damaged(path, f"its schema is that of codes of other lengths than {layout}")
    if DIGEST not in marks:
        return layout, None
    digest = marks[DIGEST].decode(errors="replace")
    if not (found.equals(_schema(layout)) and digest.startswith(f"{layout}, ")):
        raise _damaged(path, f"its columns are not those of codes of {layout}")
    return layout, digest


def _widths(found: Any) -> dict[str, int] | None:
    """Bytes of the columns code and refinement, as far as they are there; None for no codes."""
    from pyarrow import types  # noqa: PLC0415

    whole = [found.field(name).type for name in ("id", "epoch") if found.names.count(name) == 1]
    held = [found.field(n) for n, name in enumerate(found.names) if name in ("code", "refinement")]
    widths = {one.name: one.type.byte_width for one in held if types.is_fixed_size_binary(one.type)}
    names = (types.is_string, types.is_large_string, types.is_integer)
    right = len(whole) == 2 and types.is_integer(whole[1])
    right = right and any(check(whole[0]) for check in names)
    right = right and 1 <= len(widths) == len(held) and min(widths.values()) > 0
    return widths if right and widths.get("refinement", 0) <= MOST_BYTES else None


def _bits(noted: bytes | None, width: int, path: Path) -> int:
    """The length of codes of `width` bytes: as noted, or else all of them."""
    if noted is None:
        return 8 * width
    if not noted.isdigit() or len(noted) > 4 or -(-int(noted) // 8) != width:
        raise _damaged(path, f"{BITS.decode()} is {noted!r}, and codes have {width} bytes")
    return int(noted)


def _mark(field: Any) -> int | None:
    """The field id of a column; None if it is not one of ours."""
    number = (field.metadata or {}).get(FIELD_ID, b"")
    mark = int(number) if number.isdigit() and len(number) <= len(str(OURS)) else 0
    return mark if OURS <= mark < OURS + SPAN else None


def _damaged(path: Path, reason: str) -> StorageError:
    return StorageError(
        f"{path} is damaged ({reason}): restore it; or, if another program has rewritten it, let "
        f"it write plain columns without metadata"
    )


def _columns(batch: Any) -> CodeColumns:
    """Ids, codes and epochs of a batch, without a loop over codes."""
    held = dict(zip(batch.schema.names, batch.columns, strict=True))
    packed, refinement = (
        np.frombuffer(_bytes(held[name]), np.uint8).reshape(-1, held[name].type.byte_width)
        if name in held
        else np.empty((len(batch), 0), np.uint8)
        for name in CODES
    )
    ids, epochs = (held[name].to_numpy(zero_copy_only=False) for name in ("id", "epoch"))
    kept = [name for name in batch.schema.names if name not in ("id", "epoch", *CODES)]
    payload = np.empty((len(batch), len(kept)), object)
    for place, name in enumerate(kept):
        payload[:, place] = held[name].to_pylist()
    ids = ids.astype(TEXT if ids.dtype.kind == "O" else np.int64)
    return CodeColumns(ids, packed, epochs, refinement, payload)


def check_names(keep: Iterable[str]) -> tuple[str, ...]:
    """Names of what is kept beside codes, which must be free and unique."""
    names = tuple(keep)
    wrong = [name for name in names if name in ("id", "epoch", *CODES) or names.count(name) > 1]
    if wrong:
        raise InputError(f"keep has {wrong[0]!r}, which is there already: choose other columns")
    return names
