"""Searching on a device: codes lie there too, and the answers are those of the host.

Hamming distances are whole numbers, so a device finds the same hits. Distances of decoded rows
round differently there: a device narrows candidates to few that include the k nearest for certain,
and the host measures these.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from streambits._arrays import beside
from streambits._device import Scanner, import_torch
from streambits.index.store import Store
from streambits.kernels.decode import CENTRES, EUCLIDEAN, INNER, Decoder, Sources, Target
from streambits.kernels.far import FAR
from streambits.model.refinement import Refinement

MOST_FAR = 1 << 14  # codes of rows beyond the codebook that are left to the host
SPARE = 64  # candidates beyond the k-th that may be as near
TOLERANCE = 1e-10  # of squared lengths: far above what double precision rounds
VALUES = 1 << 26  # of decoded rows at a time


class DeviceStore:
    """The codes of a store on a device, for as long as they do not change there.

    Parameters
    ----------
    store : Store
    name : str
        Of the device, as torch knows it.
    """

    def __init__(self, store: Store, name: str) -> None:
        self.scanner = Scanner(store.words, store.alive, store.end, name)
        self.nearest = self.scanner.nearest
        self._store = store
        self._bytes: Any = None
        self._held: tuple[Refinement, Any] | None = None

    def narrowed(self, refinement: Refinement, target: Target, k: int, sources: Sources) -> Sources:
        """Some of the places of `sources` that have the k nearest of every query among them.

        All of them, where more than a few are as near as the k-th.
        """
        whole = sources.all
        count = self._store.end if whole else sources.places.shape[1]
        if count <= k + SPARE or (not whole and (sources.counts < count).any()):
            return sources
        decode = self._decoder(refinement)
        if whole:
            found = self._nearest_of_all(decode, target, k)
        else:
            found = self._nearest_of(decode, target, k, sources.places)
        return sources if found is None else found

    def _nearest_of(
        self, decode: "_Decoder", target: Target, k: int, places: Any
    ) -> Sources | None:
        """A few more than k of places (q, any), or None where that many may not be enough."""
        found, step = [], max(1, VALUES // (places.shape[1] * decode.columns))
        for i in range(0, len(places), step):
            some = decode.places(places[i : i + step])
            rows, far = decode(some)
            values, scale = _distances(rows, _some(target, i, step), self.scanner.like)
            kept = _kept(values, far, scale, k)
            if kept is None:
                return None
            found.append(some.gather(1, kept).cpu().numpy())
        width = max(part.shape[1] for part in found)
        wide = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in found]
        counts = np.concatenate([np.full(len(part), part.shape[1]) for part in found])
        return Sources(np.concatenate(wide), counts, False, 0, width)

    def _nearest_of_all(self, decode: "_Decoder", target: Target, k: int) -> Sources | None:
        """The same of all places."""
        torch, best = import_torch(), None
        end, step = self._store.end, max(1, VALUES // (decode.columns + 4 * len(target.shift)))
        alive = self.scanner.alive
        for start in range(0, end, step):
            some = torch.arange(start, min(start + step, end), device=self.scanner.words.device)
            rows, far = decode(some[None, :])
            values, scale = _distances(rows, target, self.scanner.like)
            far = far.expand(values.shape).clone()
            if alive is not None:
                values = torch.where(alive[some], values, torch.inf)
                far &= alive[some]
            places = some.expand(values.shape)
            if best is not None:
                values, far, places, scale = (
                    *(torch.cat(pair, dim=1) for pair in zip(best[:3], (values, far, places))),
                    torch.maximum(best[3], scale),
                )
            kept = _kept(values, far, scale, k)
            if kept is None:
                return None
            values, far, places = (each.gather(1, kept) for each in (values, far, places))
            best = values, far, places, scale
        if best is None:
            return None
        kept = best[2].cpu().numpy()
        return Sources(kept, np.full(len(kept), kept.shape[1]), False, 0, kept.shape[1])

    def _decoder(self, refinement: Refinement) -> "_Decoder":
        """The tables of a refinement, put there once."""
        if self._held is None or self._held[0] is not refinement:
            if self._bytes is None:
                own = np.ascontiguousarray(self._store.refinement[: self._store.end])
                self._bytes = import_torch().from_numpy(own).to(self.scanner.words.device)
            decoder = _Decoder(refinement.decoder, self.scanner, self._bytes)
            self._held = refinement, decoder
        return self._held[1]


class _Decoder:
    """Decoded rows of places, in the coordinates of a `Decoder`, in double precision."""

    def __init__(self, decoder: Decoder, scanner: Scanner, refinement: Any) -> None:
        self._words, self._refinement = scanner.words, refinement
        halves, _, self.columns = decoder.signs.shape
        centres = np.zeros((len(decoder.starts) - 1, CENTRES, self.columns))
        for g, (low, high) in enumerate(pairwise(decoder.starts.tolist())):
            own = decoder.centres[CENTRES * low : CENTRES * high]
            centres[g, :, low:high] = own.reshape(CENTRES, high - low)
        self._signs, self._centres = (
            beside(np.ascontiguousarray(table), scanner.like) for table in (decoder.signs, centres)
        )
        self._halves, self._far = halves, len(decoder.far.axes) > 0

    def places(self, places: Any) -> Any:
        torch = import_torch()
        return torch.from_numpy(np.ascontiguousarray(places)).to(self._words.device)

    def __call__(self, places: Any) -> tuple[Any, Any]:
        """Rows (..., columns) of places (...), and which are codes of rows beyond the codebook."""
        torch = import_torch()
        size = (*places.shape, self.columns)
        rows = torch.zeros(size, dtype=torch.float64, device=places.device)
        for half in range(self._halves):
            word = self._words[half // 16][places]
            rows += self._signs[half][(word >> (4 * (half % 16))) & 15]
        for group in range(len(self._centres)):
            rows += self._centres[group][self._refinement[:, group][places].to(torch.int64)]
        far = torch.zeros(places.shape, dtype=torch.bool, device=places.device)
        if self._far:
            far = self._refinement[:, 0][places] == FAR
        return rows, far


def _some(target: Target, start: int, count: int) -> Target:
    own = slice(start, start + count)
    names = ("shift", "along", "squares", "dots", "lengths")
    return target._replace(**{name: getattr(target, name)[own] for name in names})


def _distances(rows: Any, target: Target, like: Any) -> tuple[Any, Any]:
    """Numbers (q, n) that are ordered as distances, and what their rounding is relative to, (q, 1).

    rows: (q or 1, n, columns).
    """
    torch = import_torch()
    columns = rows.shape[2]
    shift, along = (
        beside(np.ascontiguousarray(part[:, :columns]), like)
        for part in (target.shift, target.along)
    )
    squares, dots, lengths = (
        beside(part, like)[:, None] for part in (target.squares, target.dots, target.lengths)
    )
    lengths_of_rows = torch.linalg.vector_norm(rows, dim=2).square_()
    own = torch.linalg.vector_norm(shift, dim=1).square_()[:, None]
    scale = lengths_of_rows.amax(dim=1, keepdim=True) + own + squares + lengths.square()
    dot = _along(rows, along) + (along * shift).sum(dim=1, keepdim=True) + dots
    if target.metric == INNER:
        return -dot, scale
    square = lengths_of_rows + 2 * _along(rows, shift) + own + squares
    if target.metric != EUCLIDEAN:  # by angles, also where rows are brought to one length
        product = lengths * square.clamp(min=0).sqrt()
        return torch.where(product > 0, 1 - dot / product, 1.0), torch.ones_like(scale)
    return square, scale


def _along(rows: Any, queries: Any) -> Any:
    """Inner products (q, n) of rows (q or 1, n, columns) with queries (q, columns)."""
    if rows.shape[0] == 1:
        return queries @ rows[0].T
    return (rows @ queries[:, :, None])[:, :, 0]


def _kept(values: Any, far: Any, scale: Any, k: int) -> Any:
    """Columns of the smallest values, a few more than k; None where others may be as small.

    Codes of rows beyond the codebook are not decoded here, and are all kept.
    """
    torch = import_torch()
    beyond = int(far.sum(dim=1).max())
    count = k + SPARE + beyond
    if count >= values.shape[1]:
        return torch.arange(values.shape[1], device=values.device).expand(values.shape)
    least, kept = torch.topk(torch.where(far, -torch.inf, values), count, dim=1, largest=False)
    nearest = least.gather(1, far.sum(dim=1, keepdim=True) + k - 1)[:, 0]
    last = least[:, -1]
    enough = (last > nearest + TOLERANCE * scale[:, 0]) | (last == torch.inf)
    return kept if beyond <= MOST_FAR and bool(enough.all()) else None
