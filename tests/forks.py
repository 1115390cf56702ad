"""Children by fork: for tests of what they inherit, and commands that need not be loaded anew.

WARM is for a process that forks one child for each command: it imports and loads what a job needs,
which takes a command half a second, and children inherit it.
"""

import os
import select
import signal
import traceback

WARM = """
import contextlib, gc, io, tempfile, warnings
import numpy, pyarrow, pyarrow.parquet, scipy.linalg, scipy.optimize, typer.main
import streambits.cli.app as cli

def warm():
    pyarrow.array(numpy.arange(3))  # which may import pandas
    cli.app = typer.main.get_command(cli.app)
    rows = numpy.random.default_rng(0).normal(size=(1000, 4))
    rows[500:] += 9
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        numpy.save(f"{folder}/rows.npy", rows)
        job = ["online", f"{folder}/rows.npy", "--bits", "4", "--n-landmarks", "40", "--quiet"]
        cli.app([*job, "--out", f"{folder}/job"], standalone_mode=False)
    warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # the job had threads
    gc.collect()
    gc.freeze()

warm()
"""


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
    with os.fdopen(os.pidfd_open(child)) as end:
        if select.select([end], [], [], seconds)[0]:
            return "failed" if os.waitpid(child, 0)[1] else "done"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"
