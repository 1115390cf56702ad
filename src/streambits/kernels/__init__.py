"""The only numba in the project: what BLAS cannot do.

Codes come as planes (words of a code, places) of 64-bit words: word w of all codes lies together,
so every loop over places runs over contiguous memory and the compiler turns it into vector
instructions. Places are in the order of ids, so the first of equal distances has the smaller id.
Compiled on the first call, kept on disk for the next process; no kernel holds the interpreter.

`compiled` is the one decorator of all kernels. Where numba cannot keep what it compiled (a folder
that cannot be written, a full disk), or cannot read it (a file cut off), every process compiles for
itself, which takes some seconds; nothing fails.
"""

import hashlib
import logging
import os
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.compiler_lock import global_compiler_lock

logger = logging.getLogger("streambits")


def compiled(function: Callable[..., Any]) -> Any:
    """The function as machine code, which runs without the interpreter's lock."""
    kernel = njit(nogil=True)(function)
    kernel._cache = _Kept(function)
    return kernel


class _Kept:
    """What numba's cache promises, where the disk keeps it; otherwise nothing is kept."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._held: Any = None

    @property
    def _cache(self) -> Any:
        if self._held is None:
            try:
                self._held = _DiskCache(self._function)
            except RuntimeError:
                self._give_up("numba finds no folder that it can write")
        return self._held

    def _give_up(self, why: str | None) -> None:
        self._held = NullCache()
        _hint(why)

    def load_overload(self, signature: Any, target: Any) -> Any:
        try:
            return self._cache.load_overload(signature, target)
        except Exception as error:  # noqa: BLE001  reading a damaged pickle may raise anything
            logger.info("compiled code is compiled again, for it cannot be read: %r", error)
            self.flush()
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        try:
            self._cache.save_overload(signature, result)
        except OSError as error:
            self._give_up(error.strerror)

    def flush(self) -> None:
        try:
            self._cache.flush()
        except OSError as error:
            self._give_up(error.strerror)

    @property
    def cache_path(self) -> Any:
        return self._cache.cache_path


class _DiskCache(FunctionCache):  # type: ignore[misc]
    """numba's cache, valid as long as no kernel has changed: they contain each other."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _CheckedFiles(self.cache_path, self._impl.filename_base, _sources())


class _CheckedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """With a digest: damaged machine code would end the process."""

    def _save_data(self, name: str, data: Any) -> None:
        held = self._dump(data)
        super()._save_data(name, (hashlib.sha256(held).digest(), held))

    def _load_data(self, name: str) -> Any:
        digest, held = super()._load_data(name)
        if hashlib.sha256(held).digest() != digest:
            raise ValueError(f"{name} is damaged")
        return pickle.loads(held)


@cache
def _sources() -> bytes:
    """A digest of all kernels."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


@cache
def _hint(why: str | None) -> None:
    """Once for each reason."""
    logger.warning(
        "compiled code cannot be kept for the next process, which will compile for some seconds "
        "again: set NUMBA_CACHE_DIR to a folder that can be written (%s)",
        why,
    )


if hasattr(os, "register_at_fork"):  # a child forked while a thread compiles would wait for ever
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )
