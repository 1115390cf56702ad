"""In which order the rows of a stream come: a table of named functions.

Each takes rows in random order and gives their places in the order of the stream.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from paper.datasets.table import Table
from paper.methods.features.affine import CentredSample, principal_components
from streambits.errors import InputError

Places = NDArray[np.intp]


def shuffled(table: Table) -> Places:
    """As they are."""
    return np.arange(len(table.rows))


def by_component(table: Table) -> Places:
    """Sorted by the first principal component of the rows: a stream that drifts all the time."""
    values = principal_components(CentredSample.of(table.rows).rows, most=1).values[:, 0]
    return np.argsort(values, kind="stable")


def by_class(table: Table) -> Places:
    """One class after the other, shuffled inside: a stream that changes abruptly."""
    if table.labels is None:
        raise InputError("these data have no classes: choose another order of the stream")
    return np.argsort(table.labels, kind="stable")


ORDERS: dict[str, Callable[[Table], Places]] = {
    "shuffled": shuffled,
    "sorted": by_component,
    "classes": by_class,
}
