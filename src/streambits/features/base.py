"""What every kind of features promises."""

from typing import Any, Protocol, Self

from streambits._arrays import Array


class Features(Protocol):
    """A frozen, row-wise function from rows (n, inputs) to features (n, width).

    Row-wise: what a row becomes does not depend on the rows beside it, up to rounding, and
    `noise` says how much rounding.
    """

    @property
    def inputs(self) -> int:
        """Columns of the rows it takes."""

    @property
    def width(self) -> int:
        """Columns of the features it gives."""

    @property
    def nbytes(self) -> int:
        """Bytes it holds."""

    @property
    def like(self) -> Array:
        """An array of the library, device and precision that rows are brought to."""

    def __call__(self, rows: Array) -> Array:
        """Features of checked rows, in their precision or a better one. Memory: n x width."""

    def noise(self, rows: Array, features: Array) -> Array:
        """(n,) bounds on the rounding error of each row's features, relative to their length."""

    def on(self, like: Array) -> Self:
        """The same features with their arrays in the library and on the device of `like`."""

    def state(self) -> dict[str, Any]:
        """What `from_state` needs to make it again: arrays, numbers, text."""

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The features that `state` came from."""
