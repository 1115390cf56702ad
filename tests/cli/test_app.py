import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer

import streambits
from streambits.cli import app as cli
from streambits.errors import InputError, MissingExtraError

SCRIPT = Path(sys.executable).with_name("streambits")


@pytest.fixture
def failing(monkeypatch):
    """A verb 'fail' that raises what it is given."""

    def install(error):
        app = typer.Typer(pretty_exceptions_enable=False)
        app.callback()(lambda: None)

        @app.command()
        def fail():
            raise error

        monkeypatch.setattr(cli, "app", app)

    return install


def test_the_installed_command():
    done = subprocess.run([SCRIPT, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"streambits {streambits.__version__}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "--nonsense"], ["demo", "extra"]])
def test_wrong_use_is_exit_2(misused, arguments):
    assert "Usage" in misused(*arguments)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (InputError("rows is empty:\n  skip it"), "rows is empty: skip it"),
        (MissingExtraError("matplotlib", "plot"), str(MissingExtraError("matplotlib", "plot"))),
        (OSError(28, "No space left on device"), "standard output: No space left on device"),
        (PermissionError(13, "Permission denied", "a/b"), "a/b: Permission denied"),
        (MemoryError("4 TiB"), "there is not enough memory (4 TiB)"),
    ],
)
def test_what_goes_wrong_is_one_line_on_stderr_and_exit_1(command, failing, error, told):
    failing(error)
    assert command("fail") == (1, "", f"streambits: {told}\n")


def test_an_interrupt_is_exit_130(command, failing):
    failing(KeyboardInterrupt())
    done = command("fail")
    assert (done.code, done.out) == (130, "")
    assert "Traceback" not in done.err


def test_a_fault_of_ours_is_told_as_such_and_the_traceback_on_request(
    command, failing, monkeypatch
):
    failing(ZeroDivisionError("two\nlines"))
    code, out, err = command("fail")
    assert (code, out) == (70, "")
    [line] = err.splitlines()
    assert line.startswith("streambits: this is a fault of streambits, please report it: ZeroDiv")
    assert "STREAMBITS_DEBUG=1" in line
    monkeypatch.setenv("STREAMBITS_DEBUG", "1")
    done = command("fail")
    assert done.code == 70
    assert "Traceback" in done.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("verb", ["--version", "index"])
def test_a_full_disk_behind_standard_output_is_one_line(tmp_path, job, verb):
    arguments = {"--version": [], "index": [job, "--out", tmp_path / "x.index", "--json"]}[verb]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [SCRIPT, verb, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    told = done.stderr.splitlines()[-1]
    assert told == "streambits: standard output: No space left on device"
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="Linux tells where arguments lie")
@pytest.mark.parametrize("form", ["--to {}", "--to={}"])
def test_a_password_that_was_typed_leaves_the_list_of_processes(tmp_path, form):
    """While the command still runs: it waits for a server that is not there."""
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).random((500, 4)))
    url = "postgresql://me:hunter2secret@127.0.0.1:1/codes"
    words = f"online {tmp_path}/rows.npy --bits 4 --set n_landmarks=20 --set retry_seconds=60"
    words += f" {form.format(url)} --out {tmp_path}/job"
    words = [sys.executable, "-c", "from streambits.cli.app import main; main()", *words.split()]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            end = time.monotonic() + 60
            listed = Path(f"/proc/{process.pid}/cmdline")
            while b"//127.0.0.1" not in listed.read_bytes() and time.monotonic() < end:
                time.sleep(0.05)
            seen = listed.read_bytes()
            assert process.poll() is None
        finally:
            process.kill()
    assert b"hunter2secret" not in seen
    assert b"postgresql://127.0.0.1:1/codes" in seen
    assert b"rows.npy" in seen
