"""The rows themselves, relative to a fixed point."""

from typing import Any, Self

from streambits._arrays import Array, array_namespace, as_rows, double, nbytes, to_device_of


class Linear:
    """x -> x - centre.

    Parameters
    ----------
    centre : array of shape (d,)
        The point that becomes the origin. A sketch that tracks the mean makes any choice near the
        data equally good.

    Examples
    --------
    >>> import numpy as np
    >>> Linear(np.array([1.0, 2.0]))(np.array([[1.0, 3.0]]))
    array([[0., 1.]])
    """

    def __init__(self, centre: Array) -> None:
        self.centre = as_rows(centre[None, :], name="centre")[0, :]

    @classmethod
    def around(cls, rows: Array) -> Self:
        """Take rows relative to the mean of these rows (n, d), in their precision."""
        rows = as_rows(rows)
        xp = array_namespace(rows)
        return cls(xp.astype(xp.mean(double(rows), axis=0), rows.dtype))

    @property
    def inputs(self) -> int:
        return int(self.centre.shape[0])

    width = inputs

    @property
    def nbytes(self) -> int:
        return nbytes(self.centre)

    @property
    def like(self) -> Array:
        return self.centre

    def __call__(self, rows: Array) -> Array:
        return rows - array_namespace(rows).astype(self.centre, rows.dtype, copy=False)

    def noise(self, rows: Array, _features: Array) -> Array:
        """One rounded subtraction per value."""
        xp = array_namespace(rows)
        return xp.full_like(rows[:, 0], float(xp.finfo(rows.dtype).eps))

    def on(self, like: Array) -> Self:
        return type(self)(to_device_of(self.centre, like))

    def state(self) -> dict[str, Any]:
        return {"centre": self.centre}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(state["centre"])

    def __repr__(self) -> str:
        return f"Linear({self.inputs} columns)"
