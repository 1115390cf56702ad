"""Data sets by name, and how a stream is cut from one.

`uniform` is made here and `digits` comes with scikit-learn. The others are published files, looked
for in the folder that `data` or STREAMBITS_DATA names (a ready .npz, then the official files), then
in the cache, and downloaded if that is asked for. Of sets with more than 60,000 rows a uniform
sample of 60,000 is taken, the same from the ready and the official file.

| name | rows | columns | classes | |
|---|---|---|---|---|
| uniform | 60,000 | 50 | | as the paper makes it |
| covtype | 60,000 of 581,012 | 54 | 7 | raw |
| cbm | 11,934 | 18 | | 16 measures and 2 targets, standardised |
| pamap2 | 60,000 of the rows without gaps | 44 | activity | raw; see `parsers.PAMAP2_COLUMNS` |
| dsads | 60,000 of 1,140,000 | 45 | 19 | raw; not the paper's PAMAP |
| mnist | 70,000 | 784 | 10 | 0 to 255 |
| sift | 35,000 | 128 | | base, then learn |
| digits | 1,797 | 64 | 10 | 0 to 16 |
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from paper.datasets import lookup
from paper.datasets.lookup import folder
from paper.datasets.made import MADE, digit_labels, digits, uniform
from paper.datasets.orders import ORDERS
from paper.datasets.published import PUBLISHED
from paper.datasets.table import Labels, Rows, Table
from streambits.errors import InputError

__all__ = [
    "NAMES",
    "ORDERS",
    "SIZES",
    "Labels",
    "Rows",
    "Stream",
    "available",
    "digit_labels",
    "digits",
    "folder",
    "labels",
    "load",
    "stream",
    "uniform",
]

NAMES = (*MADE, *PUBLISHED)
SIZES = {  # landmarks and rows that every experiment takes; those of the paper where it has them
    "uniform": (500, 10000),
    "covtype": (500, 20000),
    "cbm": (200, 11000),
    "pamap2": (100, 21000),
    "dsads": (100, 21000),
    "sift": (1000, 30000),
    "mnist": (1000, 60000),
}


class Stream(NamedTuple):
    """train: (m, d) landmarks, a uniform sample; rows: (n, d) the stream, disjoint from it."""

    train: Rows
    rows: Rows


def available(name: str, *, data: str | Path | None = None) -> bool:
    """Whether the data set can be loaded here, without a download."""
    return name in MADE or (name in PUBLISHED and lookup.is_here(name, data))


def load(
    name: str, *, seed: int = 0, data: str | Path | None = None, download: bool = False
) -> Rows:
    """All rows of a data set, in single precision.

    data: the folder to look in first, else that of STREAMBITS_DATA. download: fetch what is
    nowhere; where no checksum is published, the first download is trusted. seed: of `uniform`.
    """
    return _table(name, seed, data, download).rows


def labels(name: str, *, data: str | Path | None = None, download: bool = False) -> Labels:
    """(n,) the class of each row that `load` gives, as the data set numbers its classes."""
    found = _table(name, 0, data, download).labels
    if found is None:
        raise InputError(f"the data set {name} has no classes")
    return found


def stream(
    name: str,
    landmarks: int,
    length: int,
    *,
    seed: int = 0,
    order: str = "shuffled",
    data: str | Path | None = None,
    download: bool = False,
) -> Stream:
    """A stream of at most `length` rows in one of the `ORDERS`, and landmarks from the rest.

    Both are drawn uniformly, whatever the order.
    """
    if order not in ORDERS:
        raise InputError(f"there is no order {order!r}; choose from {', '.join(ORDERS)}")
    table = _table(name, seed, data, download)
    count = len(table.rows)
    if landmarks >= count:
        raise InputError(f"{name} has {count} rows: ask for fewer than {landmarks} landmarks")
    drawn = np.random.default_rng(seed).permutation(count)
    rest = table.take(drawn[landmarks : landmarks + length])
    return Stream(table.rows[drawn[:landmarks]], rest.rows[ORDERS[order](rest)])


def _table(name: str, seed: int, data: str | Path | None, download: bool) -> Table:
    if name in MADE:
        return MADE[name](seed)
    if name not in PUBLISHED:
        raise InputError(f"there is no data set {name!r}; choose from {', '.join(NAMES)}")
    table = lookup.table(name, data, fetch=download)
    return table._replace(rows=PUBLISHED[name].finish(table.rows))
