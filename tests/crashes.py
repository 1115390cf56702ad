"""Crash points: every call by which a program changes what is on the disk can fail, or be its last.

`count(work)` says how many there are; `exits(work, n)` runs the work in a forked process that is
gone before the n-th, as after a kill; `fails(work, n)` lets the n-th fail, as on a full disk.
"""

import errno
import os
from contextlib import contextmanager

import pytest

CALLS = ("fsync", "link", "mkdir", "remove", "rename", "replace", "rmdir", "truncate", "unlink")
CRASHED = 99


@contextmanager
def _watched(at=0, act=None):
    """Count the calls, in a list of one number; before the one of number `at`, act."""
    seen = [0]

    def watch(call):
        def watched(*arguments, **more):
            seen[0] += 1
            if seen[0] == at:
                act()
            return call(*arguments, **more)

        return watched

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, watch(getattr(os, name)))
        yield seen


def count(work):
    """How many crash points the work has."""
    with _watched() as seen:
        work()
    return seen[0]


def _apart(work):
    """What the work gives in a process of its own: its exit code, and the text of an error."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 0
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the child must not come back into the tests
            os.write(writing, f"{type(error).__name__}: {error}".encode())
            code = 1
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as said:
        text = said.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def exits(work, n):
    """Whether the work came to its n-th call, and its process was gone there."""

    def watched():
        with _watched(n, lambda: os._exit(CRASHED)):
            work()

    code, text = _apart(watched)
    assert code in (0, CRASHED), text
    return code == CRASHED


def fails(work, n):
    """The error of the work if its n-th call finds no space; empty if it goes on all the same."""

    def fail():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def watched():
        with _watched(n, fail):
            work()

    return _apart(watched)[1]
