"""All eigenfunctions of a density that is a product over the principal components."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, beside
from streambits._threads import one_blas_thread
from streambits.errors import InputError
from streambits.features.bandwidth import Bandwidth, denominator
from streambits.features.densities import Modes, modes_of
from streambits.features.principal import Centred, Principal, centred, principal


class Separable(NamedTuple):
    """All eigenfunctions of all principal components of a sample.

    order: their numbers, smoothest first; of each, by its number: dimension, place among the
    modes of that dimension, and weight.
    """

    sample: Centred
    components: Principal
    modes: list[Modes]
    dimensions: NDArray[np.int64]
    numbers: NDArray[np.int64]
    weights: NDArray[np.float64]
    order: NDArray[np.int64]

    @classmethod
    def of(cls, sample: Array, bandwidth: Bandwidth | float | None) -> "Separable":
        sample = centred(sample)
        width = denominator(bandwidth, sample.rows)
        components = principal(sample.rows)
        with one_blas_thread():
            modes = [modes_of(values, width) for values in components.values.T]
        sizes = [len(found.eigenvalues) for found in modes]
        dimensions = np.repeat(np.arange(len(modes)), sizes)
        numbers = np.concatenate([np.arange(size) for size in sizes])
        eigenvalues = np.concatenate([found.eigenvalues for found in modes])
        order = np.argsort(eigenvalues, kind="stable")
        return cls(sample, components, modes, dimensions, numbers, 1 - eigenvalues, order)

    def check(self, count: int) -> int:
        """Refuse to choose more than there are."""
        if count > len(self.order):
            raise InputError(
                f"sample has {len(self.order)} eigenfunctions, and {count} were asked for: ask for "
                f"fewer bits, or pass more rows or a larger bandwidth"
            )
        return count

    def table(self, which: int) -> NDArray[np.float64]:
        return np.asarray(self.modes[self.dimensions[which]].values[:, self.numbers[which]])

    def values(self, which: int) -> NDArray[np.float64]:
        """One eigenfunction, at all rows of the sample."""
        modes = self.modes[self.dimensions[which]]
        places = modes.low + modes.step * np.arange(len(modes.values))
        along = self.components.values[:, self.dimensions[which]]
        return np.asarray(np.interp(along, places, self.table(which)))

    def build(
        self,
        chosen: NDArray[np.int64],
        cuts: NDArray[np.float64],
        weights: NDArray[np.float64],
    ) -> dict[str, Any]:
        """What `Eigenfunctions` takes, for these functions minus these cuts."""
        groups = self.dimensions[chosen]
        low = np.array([self.modes[i].low for i in groups])
        step = np.array([self.modes[i].step for i in groups])
        vectors = self.components.vectors[:, groups] / step
        shifts = self.sample.shift(vectors) - low / step
        tables = np.stack([self.table(i) for i in chosen], axis=1) - cuts
        parts = {"vectors": vectors, "shifts": shifts, "tables": tables}
        moved = {name: beside(part, self.sample.centre) for name, part in parts.items()}
        return {**moved, "centre": self.sample.centre, "weights": weights, "groups": groups}
