"""Codes as columns: ids, packed bits, epochs, refinements and payload, in the order they came."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import NO_IDS, Ids, as_count, concat_ids
from streambits.errors import InputError, StorageError
from streambits.index.queries import as_paired_ids, last_of_each
from streambits.model.batches import CodeBatch
from streambits.model.codes import MOST_BYTES, Codes, as_bits, check_refine

COLUMNS = ("id", "code", "refinement", "epoch")
TOMBSTONE = -1  # in place of an epoch: the id of the row was removed
LAST_EPOCH = int(np.iinfo(np.int32).max)


class CodeColumns(NamedTuple):
    """Codes in their order, of any epochs.

    ids: (n,); packed: (n, bytes); epochs: (n,), TOMBSTONE where the id of a row was removed;
    refinement: (n, r), with r = 0 for plain codes; payload: (n, p) texts or None.
    """

    ids: Ids
    packed: NDArray[np.uint8]
    epochs: NDArray[np.int32]
    refinement: NDArray[np.uint8]
    payload: NDArray[np.object_]

    @classmethod
    def of(
        cls,
        ids: Any,
        codes: Codes,
        bits: int,
        refine: int,
        *,
        payload: Any = None,
        keep: tuple[str, ...] = (),
    ) -> "CodeColumns":
        """What a sink for codes of `bits` bits and `refine` bytes is asked to write, checked."""
        if codes.bits != bits:
            raise InputError(f"codes have {codes.bits} bits, and the sink is for {bits}")
        check_refine(codes, refine, "those of the sink")
        if codes.epoch > LAST_EPOCH:
            raise InputError(
                f"codes are of epoch {codes.epoch}, and this sink takes epochs up to "
                f"{LAST_EPOCH:,}: use an index"
            )
        paired = as_paired_ids(ids, len(codes))
        epochs = np.full(len(paired), codes.epoch, np.int32)
        refinement = codes.refinement
        if refinement is None:
            refinement = np.empty((len(paired), 0), np.uint8)
        return cls(paired, codes.packed, epochs, refinement, as_payload(payload, len(paired), keep))

    @classmethod
    def tombstones(cls, ids: Ids, bits: int, refine: int, width: int = 0) -> "CodeColumns":
        """Rows that say that ids were removed; width: of the payload."""
        count = len(ids)
        packed, refinement = (np.zeros((count, n), np.uint8) for n in (-(-bits // 8), refine))
        epochs = np.full(count, TOMBSTONE, np.int32)
        return cls(ids, packed, epochs, refinement, np.full((count, width), None, object))

    @classmethod
    def empty(cls, bits: int, refine: int, width: int = 0) -> "CodeColumns":
        return cls.tombstones(NO_IDS, bits, refine, width)

    @classmethod
    def concat(cls, columns: list["CodeColumns"]) -> "CodeColumns":
        ids, *others = zip(*columns, strict=True)
        return cls(concat_ids(ids), *(np.concatenate(each) for each in others))

    def select(self, which: Any) -> "CodeColumns":
        """Some of the rows, by a slice or a mask."""
        return CodeColumns(*(column[which] for column in self))

    def batches(self, bits: int) -> list[CodeBatch]:
        """The same, in order, as many batches as needed for one epoch each."""
        return [rows.batch(bits) for rows in self.runs()]

    def runs(self) -> list["CodeColumns"]:
        """The same, in order, in pieces of one epoch each."""
        cuts = [0, *(np.flatnonzero(np.diff(self.epochs)) + 1).tolist(), len(self.ids)]
        return [self.select(slice(a, b)) for a, b in pairwise(cuts) if b > a]

    def batch(self, bits: int) -> CodeBatch:
        """The same, one or more rows that are all of one epoch."""
        refinement = self.refinement if self.refinement.shape[1] else None
        return CodeBatch(self.ids, Codes(self.packed, bits, int(self.epochs[0]), refinement))


def as_payload(payload: Any, count: int, keep: tuple[str, ...]) -> NDArray[np.object_]:
    """A text or None for each of `count` codes and each name that is kept."""
    if payload is None and not keep:
        return np.empty((count, 0), object)
    values = np.asarray(payload, object)
    if values.shape != (count, len(keep)):
        raise InputError(
            f"payload has shape {values.shape}, and {count} codes with {', '.join(keep) or 'none'} "
            f"kept beside them need {(count, len(keep))}"
        )
    return values


def check_names(keep: Sequence[str], holder: str) -> tuple[str, ...]:
    """Names of what is kept beside codes: each of them once, and none that codes need."""
    names = (keep,) if isinstance(keep, str) else tuple(keep)
    for name in names:
        if name in COLUMNS or names.count(name) > 1:
            why = "is a column of codes" if name in COLUMNS else "comes twice"
            raise InputError(f"{holder}: keep has {name!r}, which {why}: choose another name")
    return names


def live_rows(ids: Ids, epochs: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which rows are the last of their id, and are no tombstones."""
    live: NDArray[np.bool_] = last_of_each(ids) & (epochs != TOMBSTONE)
    return live


def as_lengths(bits: object, refine: object) -> tuple[int, int]:
    """Check the sign bits and the refinement bytes of codes; one of them may be 0."""
    more = as_count(refine, "refine", least=0, most=MOST_BYTES)
    return as_bits(bits, least=0 if more else 1), more


def check_begun(name: str, state: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse to go on with other settings of a sink than those of its state."""
    begun = {"refine": 0} | state  # older states do not say that codes are plain
    for setting, value in settings.items():
        if begun.get(setting) != value:
            raise StorageError(
                f"{name} was begun with {setting} {begun.get(setting)}, and now it is {value}: "
                f"go on as it was begun, or begin a new job elsewhere"
            )
