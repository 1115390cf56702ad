"""A child by fork, for tests of what it inherits."""

import os
import signal
import time
import traceback


def in_child(work, seconds=30):
    """How the work ends in a forked child: 'done', 'failed' or 'hangs'."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001  the child must not come back into the tests
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "failed" if status else "done"
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"
