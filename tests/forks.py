"""Children by fork: for tests of what they inherit, and commands that need not be loaded anew.

WARM is for a process that forks one child for each command: it imports and loads what a job needs,
which takes a command half a second, and children inherit it.
"""

import os
import select
import signal
import subprocess
import sys
import traceback
from contextlib import contextmanager

WARM = """
import contextlib, gc, io, sys, tempfile, traceback, warnings
import numpy, pyarrow, pyarrow.parquet, scipy.linalg, scipy.optimize, typer.main
import streambits.cli.app as cli

def warm():
    pyarrow.array(numpy.arange(3))  # which may import pandas
    cli.app = typer.main.get_command(cli.app)
    rows = numpy.random.default_rng(0).normal(size=(1000, 4))
    rows[500:] += 9
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        numpy.save(f"{folder}/rows.npy", rows)
        job = ["online", f"{folder}/rows.npy", "--bits", "4", "--set", "n_landmarks=40"]
        cli.app([*job, "--out", f"{folder}/job"], standalone_mode=False)
    warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # the job had threads
    gc.collect()
    gc.freeze()

def ended(arguments):  # the exit status of a command
    sys.argv = ["streambits", *arguments]
    try:
        cli.main()
        return 0
    except SystemExit as end:
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()

warm()
"""

SERVER = (
    WARM
    + """
import json, os, socket

def work(link):
    job, files, *_ = socket.recv_fds(link, 1 << 20, 3)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    job = json.loads(job)
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["variables"])
    link.send(str(ended(job["arguments"])).encode())
    os._exit(0)

listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listening.bind(sys.argv[1])
listening.listen()
print("ready", flush=True)
running = set()
while True:
    link, _ = listening.accept()
    running -= {child for child in running if os.waitpid(child, os.WNOHANG)[0]}
    child = os.fork()
    if not child:
        listening.close()
        work(link)
    running.add(child)
    link.close()
"""
)
CLIENT = """#!{python} -SE
import json, os, socket, sys
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect({place!r})
job = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "variables": dict(os.environ)}}
socket.send_fds(link, [json.dumps(job).encode()], [0, 1, 2])
sys.exit(int(link.recv(20) or 137))
"""


@contextmanager
def quick_command(folder):
    """A program `streambits` in that folder, for pages with many commands.

    It has them run by children of a process that has loaded what they need. A signal to it does not
    reach them, and they do not end as an interpreter does: what is about that runs the real one.
    """
    place = str(folder / "socket")
    program = folder / "streambits"
    program.write_text(CLIENT.format(python=sys.executable, place=place))
    program.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, place], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout.readline() == "ready\n"
            yield program
        finally:
            server.kill()


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
