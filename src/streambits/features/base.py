"""What every kind of features promises."""

from typing import Any, Protocol, Self

from streambits._arrays import Array


class Features(Protocol):
    """A frozen, row-wise function from rows (n, inputs) to features (n, width).

    Notes
    -----
    Row-wise: what a row becomes does not depend on the rows beside it, up to rounding, and
    `noise` bounds the rounding. `tests/conformance` tests all of it.
    """

    @property
    def inputs(self) -> int:
        """Number of columns of the rows."""

    @property
    def width(self) -> int:
        """Number of columns of the features."""

    @property
    def nbytes(self) -> int:
        """Bytes it holds."""

    @property
    def like(self) -> Array:
        """An array of the library, device and precision that rows are brought to."""

    def __call__(self, rows: Array) -> Array:
        """Features of checked rows, in their precision or a better one. Memory: n x width."""

    def noise(self, rows: Array, features: Array) -> Array:
        """Bounds (n,) on the rounding error of each row's features, relative to their length.

        Parameters
        ----------
        rows : array of shape (n, inputs)
            Checked rows.
        features : array of shape (n, width)
            Their features, as a call has returned them.
        """

    def on(self, like: Array) -> Self:
        """The same features with their arrays in the library and on the device of `like`."""

    def state(self) -> dict[str, Any]:
        """Return what `from_state` needs: arrays, numbers, text."""

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the features that `state` came from."""
