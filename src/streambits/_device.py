"""What a GPU needs beside the array API: the only torch in the project.

Rows on a device stay there: features, bits and sketches are computed by whatever array library they
came in. This file has what that interface cannot say: which device a name means, products that are
rounded as on the host, copies that overlap with work, and a scan of codes that finds the k nearest.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array
from numpy.typing import NDArray

from streambits._threads import ForkSafeLock
from streambits.errors import InputError, MissingExtraError

FAST_DOUBLES = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}  # compute capabilities
AHEAD = 6  # arrays that are computed before the first of them is waited for
SMALL = 1 << 16  # bytes that are worth page-locked memory of their own
ROOM = 4096  # hits of a query that one pass over codes may find, at least
PLACE = 40  # bits of a key that hold a place; the distance is above them
BESIDE = 1 << 27  # hits of all queries of a pass, at most
TILE = 1024  # codes that one program of the scan compares with all queries
GROWTH = 64  # times the codes seen so far that the next pass looks at, at most

_turn = ForkSafeLock()


def on_device(like: Any) -> Any:
    """Return an array on the device that a name means; an array is returned as it is.

    Parameters
    ----------
    like : array or str
        The name of a device of torch, such as "cuda".

    Raises
    ------
    InputError
        If there is no such device.
    MissingExtraError
        If torch is not installed.
    """
    if not isinstance(like, str):
        return like
    torch = import_torch()
    try:
        return torch.zeros(1, device=like, dtype=torch.float32)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0][:60]
        raise InputError(
            f"there is no device {like!r} here ({reason}): pass 'cuda' where torch finds a GPU"
        ) from error


def import_torch() -> Any:
    """Torch, or an error that says how to install it."""
    try:
        import torch  # noqa: PLC0415  an optional package, and slow to import
    except ImportError as error:
        raise MissingExtraError("torch", "gpu") from error
    return torch


@contextmanager
def products(like: Any, precision: str = "single") -> Iterator[None]:
    """Multiply float32 matrices of torch in full single precision, or as `precision` says.

    Parameters
    ----------
    like : array
        Of the library that multiplies.
    precision : {"single", "tf32"}
        "tf32" rounds factors to 11 bits, for the matrix units of NVIDIA GPUs.

    Notes
    -----
    A program may have allowed torch to round products (`set_float32_matmul_precision`); bounds on
    rounding errors would then be wrong. The setting is one of the process, so threads take turns,
    and it is restored. It matters when work is handed to the device, not when that is done.
    """
    if not is_cuda(like):
        yield
        return
    matmul = import_torch().backends.cuda.matmul
    with _turn:
        before, matmul.allow_tf32 = matmul.allow_tf32, precision == "tf32"
        try:
            yield
        finally:
            matmul.allow_tf32 = before


def is_cuda(like: Any) -> bool:
    """Whether an array is a tensor of torch on a CUDA device."""
    return bool(is_torch_array(like) and like.device.type == "cuda")


def doubles_are_fast(like: Any) -> bool:
    """Whether products in double precision are about as fast as in single: GPUs of data centres."""
    if not is_cuda(like):
        return False
    return import_torch().cuda.get_device_capability(like.device) in FAST_DOUBLES


def upload(array: NDArray[Any], like: Any) -> Any:
    """Return a NumPy array on the device of `like`; a small one without waiting for the device."""
    if is_cuda(like) and array.nbytes < SMALL:
        return import_torch().from_numpy(array).pin_memory().to(like.device, non_blocking=True)
    return array_namespace(like).asarray(array, device=device(like))


def copied(parts: Iterable[Any], to_numpy: Callable[[Any], NDArray[Any]]) -> Iterator[NDArray[Any]]:
    """Copy arrays to the host, each while the next ones are computed.

    Parameters
    ----------
    parts : iterable of array
        Each is computed when it is asked for.
    to_numpy : callable
        What copies an array that is not torch's, on a CUDA device.

    Yields
    ------
    ndarray
        In the same order; its memory is used again for a later one, so copy what is kept.
    """
    waiting: list[tuple[Any, Any]] = []
    for part in parts:
        if not is_cuda(part):
            yield to_numpy(part)
            continue
        torch = import_torch()
        host = torch.empty(part.shape, dtype=part.dtype, pin_memory=True)
        host.copy_(part, non_blocking=True)
        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream(part.device))
        waiting.append((host, done))
        if len(waiting) > AHEAD:
            yield _arrived(*waiting.pop(0))
    for host, done in waiting:
        yield _arrived(host, done)


def _arrived(host: Any, done: Any) -> NDArray[Any]:
    done.synchronize()
    return np.asarray(host.numpy())


class Uploader:
    """Copies rows to a device while other work goes on there.

    Parameters
    ----------
    like : array or str
        On the device, as for `on_device`.

    Notes
    -----
    On a CUDA device rows pass through page-locked memory, on a stream of their own; `__call__` may
    be used by a thread that reads ahead. Whoever uses the rows waits for them on the device, not on
    the host.
    """

    def __init__(self, like: Any) -> None:
        self.like = on_device(like)
        self._stream: Any = None
        if is_cuda(self.like):
            self._stream = import_torch().cuda.Stream(self.like.device)

    def __call__(self, rows: NDArray[Any]) -> Any:
        """Return the rows as an array on the device."""
        torch = import_torch()
        plain = rows.dtype if rows.dtype in (np.float32, np.float64) else np.dtype(np.float32)
        host = torch.from_numpy(np.ascontiguousarray(rows, plain))
        if self._stream is None:
            return host.to(self.like.device, copy=True)
        with torch.cuda.stream(self._stream):
            there = host.pin_memory().to(self.like.device, non_blocking=True)
        self._stream.synchronize()  # in the thread that reads; the rows are whole when they arrive
        there.record_stream(torch.cuda.default_stream(there.device))  # where they will be used
        return there


# The k nearest codes


class Scanner:
    """Codes on a device, and the k nearest of queries among them.

    Parameters
    ----------
    words : array of shape (width, places), uint64
        Planes of words: word w of all codes lies together.
    alive : array of shape (places,), bool
        Which places count.
    end : int
        Places in use.
    like : array or str
        On the device, as for `on_device`.

    Notes
    -----
    Codes are looked at in the order of places, in passes that grow: a code of a later pass is a hit
    only if it is strictly closer than the k-th so far, so equal distances are ordered by place, and
    few codes are hits. A pass that finds more hits than it has room for is done again by halves.
    """

    def __init__(
        self, words: NDArray[np.uint64], alive: NDArray[np.bool_], end: int, like: Any
    ) -> None:
        torch, self.like = import_torch(), on_device(like)
        planes = np.ascontiguousarray(words[:, :end]).view(np.int64)
        self.words = torch.from_numpy(planes).to(self.like.device)
        self.alive: Any = None
        if not alive[:end].all():
            self.alive = torch.from_numpy(alive[:end].copy()).to(self.like.device)
        self.end = end

    def nearest(
        self, queries: NDArray[np.uint64], k: int, limits: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Find the k nearest places of every query.

        Parameters
        ----------
        queries : array of shape (q, width), uint64
        k : int
            At most the number of places that count.
        limits : array of shape (q,), optional
            Only what is closer is of interest.

        Returns
        -------
        places : array of shape (q, k), int64
        distances : array of shape (q, k), int32
            Equal ones by place; the largest number where there is no hit below the limit.
        """
        step = max(1, BESIDE // _room(k))
        keys = [
            self._keys(queries[i : i + step], k, None if limits is None else limits[i : i + step])
            for i in range(0, len(queries), step)
        ]
        found = np.concatenate([np.empty((0, k), np.int64), *keys])
        distances = np.minimum(found >> PLACE, np.iinfo(np.int32).max).astype(np.int32)
        return np.where(found == NOTHING, 0, found & ((1 << PLACE) - 1)), distances

    def _keys(
        self, queries: NDArray[np.uint64], k: int, limits: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        """Distance and place of the hits (q, k) in one number, the smallest first."""
        torch, count, room = import_torch(), len(queries), _room(k)
        there = self.words.device
        asked = torch.from_numpy(np.ascontiguousarray(queries).view(np.int64)).to(there)
        beyond = np.full(count, 64 * len(self.words) + 1, np.int64)
        least = beyond if limits is None else np.minimum(limits, beyond)
        limit = torch.from_numpy(least.astype(np.int32)).to(there)
        best = torch.full((count, k), NOTHING, dtype=torch.int64, device=there)
        start, size = 0, room
        while start < self.end:
            stop = min(start + size, self.end)
            keys, hits = self._collect(start, stop, asked, limit, room)
            if int(hits.max()) > room:
                size = max(room, (stop - start) // 2)
                continue
            both = torch.cat([best, keys[:, : max(int(hits.max()), 1)]], dim=1)
            best = torch.topk(both, k, dim=1, largest=False).values
            limit = torch.minimum(limit, (best.amax(dim=1) >> PLACE).to(torch.int32))
            start, size = stop, stop * max(1, min(GROWTH, room // (4 * k)))
        return np.asarray(torch.sort(best, dim=1).values.cpu().numpy())

    def _collect(
        self, start: int, stop: int, queries: Any, limit: Any, room: int
    ) -> tuple[Any, Any]:
        """Keys (q, room) of the places in a span that are closer than the limits, and how many."""
        from streambits import _triton  # noqa: PLC0415  it imports torch

        torch, count = import_torch(), len(queries)
        keys = torch.full((count, room), NOTHING, dtype=torch.int64, device=queries.device)
        if queries.device.type == "cuda" and _triton.scan is not None:
            hits = torch.zeros(count, dtype=torch.int32, device=queries.device)
            alive = self.alive if self.alive is None else self.alive.view(torch.uint8)
            sizes = (start, stop, self.words.shape[1], count, room)
            with torch.cuda.device(queries.device):
                _triton.scan[(-(-(stop - start) // TILE),)](
                    *(self.words, alive, queries, limit, hits, keys, *sizes),
                    WIDTH=len(self.words),
                    TILE=TILE,
                    PLACE=PLACE,
                    num_warps=4,
                )
            return keys, hits
        hits = []
        for query in range(count):
            distances = _hamming(self.words[:, start:stop], queries[query])
            near = distances < limit[query]
            if self.alive is not None:
                near &= self.alive[start:stop]
            places = torch.nonzero(near)[:, 0]
            hits.append(len(places))
            some = places[:room]
            keys[query, : len(some)] = (distances[some] << PLACE) + some + start
        return keys, torch.tensor(hits, device=queries.device)


NOTHING = int(np.iinfo(np.int64).max)  # a key that stands for no hit


def _room(k: int) -> int:
    return max(ROOM, 4 * k)


def _hamming(words: Any, query: Any) -> Any:
    """Distances (n,) of codes (width, n) to one query, by a table of bytes."""
    torch = import_torch()
    ones = torch.tensor([value.bit_count() for value in range(256)], device=words.device)
    apart = (words ^ query[:, None]).contiguous().view(torch.uint8).view(*words.shape, 8)
    return ones[apart.to(torch.int64)].sum(dim=(0, 2))
