"""Parquet: a folder of files with columns id, code and epoch."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_count
from streambits.errors import StorageError
from streambits.io.codes.appending import Appending
from streambits.io.codes.code_files import ROWS, read_columns, write_codes
from streambits.io.codes.given import Rows


class ParquetSink(Appending):
    """A data set of files part-000000.parquet and so on, which `read_codes` reads.

    All have `rows` rows but the last. A commit writes the last one anew, so the folder can be read
    at any time, and what is in a file depends on the rows and not on the commits.
    Memory: `rows` codes.
    """

    kind = "parquet"

    def __init__(self, path: str | Path, bits: int, *, rows: int = ROWS) -> None:
        super().__init__(path, bits, Path(path), "part-*.parquet")
        self.size = as_count(rows, "rows")
        self._parts = 0  # that are full
        self._tail: list[Rows] = []
        self._written = -1  # rows, when the last file was written

    def _found(self) -> bool:
        return any(len(self._load(path).ids) for path in self._swap.files())

    def _append(self, rows: Rows) -> None:
        self._tail.append(rows)
        waiting = sum(len(part.ids) for part in self._tail)
        if waiting < self.size:
            return
        together = Rows.concat(self._tail)
        for start in range(0, waiting - self.size + 1, self.size):
            self._save(together.take(slice(start, start + self.size)), self._part(self._parts))
            self._parts += 1
        self._tail = [together.take(slice(waiting - waiting % self.size, None))]

    def _flush(self) -> None:
        waiting = sum(len(part.ids) for part in self._tail)
        if self._written != self.rows and (waiting or not self._parts):
            self._save(Rows.concat([self._none(), *self._tail]), self._part(self._parts))
        self._written = self.rows

    def _cut(self) -> None:
        self._parts, waiting = divmod(self.rows, self.size)
        missing = [k for k in range(self._parts) if not self._part(k).exists()]
        if missing:
            raise StorageError(f"{self._part(missing[0])} is gone, and was written: restore it")
        last = self._load(self._part(self._parts)) if waiting else self._none()
        if len(last.ids) < waiting:
            raise StorageError(
                f"{self._part(self._parts)} has {len(last.ids)} rows, and {waiting} were written"
            )
        self._tail, self._written = [last.take(slice(waiting))], -1
        for path in self._swap.files()[self._parts + (waiting > 0) :]:
            path.unlink()
        self._flush()

    def _adopt(self) -> int:
        *full, last = self._swap.files() or [self._part(0)]
        self._parts = len(full)
        self._tail = [self._load(last)] if last.exists() else []
        return self._parts * self.size + sum(len(part.ids) for part in self._tail)

    def _ids(self) -> NDArray[np.int64]:
        ids = [columns[0] for path in self._swap.files() for columns in read_columns(path)]
        return np.concatenate([self._none().ids, *ids])

    def _rewrite(self, keep: NDArray[np.bool_]) -> list[str]:
        names: list[str] = []
        for rows in self._pieces(keep):
            name = self._part(len(names)).name
            self._save(rows, self._swap.new(name))
            names.append(name)
        return names

    def _pieces(self, keep: NDArray[np.bool_]) -> Iterator[Rows]:
        """The chosen rows, as many at a time as a file holds."""
        held, seen = self._none(), 0
        for path in self._swap.files():
            rows = self._load(path)
            chosen = rows.take(keep[seen : seen + len(rows.ids)])
            held, seen = Rows.concat([held, chosen]), seen + len(rows.ids)
            if len(held.ids) >= self.size:
                yield held.take(slice(self.size))
                held = held.take(slice(self.size, None))
        if len(held.ids):
            yield held

    def _save(self, rows: Rows, path: Path) -> None:
        write_codes(rows.coded(self.bits), self.bits, path)

    def _load(self, path: Path) -> Rows:
        return Rows.concat([self._none(), *(Rows(*columns) for columns in read_columns(path))])

    def _none(self) -> Rows:
        width = -(-self.bits // 8)
        return Rows(np.empty(0, np.int64), np.empty((0, width), np.uint8), np.empty(0, np.int32))

    def _part(self, number: int) -> Path:
        return self.path / f"part-{number:06d}.parquet"

    def _fixed(self) -> dict[str, Any]:
        return {"size": self.size}
