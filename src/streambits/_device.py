"""What a GPU needs beside the array API: the only torch in the project.

Rows on a device stay there: features, bits and sketches are computed by whatever array library they
came in. This file has what that interface cannot say: which device a name means, products that are
rounded as on the host, and copies that overlap with work.
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
