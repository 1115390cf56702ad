"""Blocks: rows in pieces of one size, whatever the batches they come in."""

import numpy as np

from streambits._arrays import Array, array_namespace, blocks, move, nbytes


class Blocks:
    """Cuts batches of any sizes into blocks of one size; what is left over waits.

    So whatever is computed block by block comes out the same for any split of the stream.
    Memory: one block.

    size: rows a block; inputs: columns; like: an array of the library and precision to hold.
    """

    def __init__(self, size: int, inputs: int, like: Array) -> None:
        self.size = size
        self._held = move(np.zeros((size, inputs)), like)
        self.waiting = 0

    @property
    def rows(self) -> Array:
        """(waiting, inputs): what is left over."""
        return self._held[: self.waiting, :]

    @property
    def nbytes(self) -> int:
        return nbytes(self._held)

    def cut(self, rows: Array) -> list[Array]:
        """The blocks that are full now, in the order of the stream."""
        full: list[Array] = []
        if self.waiting:
            rows = self._hold(rows)
            if self.waiting < self.size:
                return full
            full.append(array_namespace(rows).asarray(self._held, copy=True))
            self.waiting = 0
        whole = rows.shape[0] - rows.shape[0] % self.size
        full += blocks(rows[:whole, :], self.size)
        self._hold(rows[whole:, :])
        return full

    def _hold(self, rows: Array) -> Array:
        """Keep as many as there is room for; gives the rest."""
        fits = min(rows.shape[0], self.size - self.waiting)
        self._held[self.waiting : self.waiting + fits, :] = rows[:fits, :]
        self.waiting += fits
        return rows[fits:, :]
