import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from streambits.cli import demo, progress
from streambits.cli.main import app
from streambits.errors import MissingExtraError, StorageError
from streambits.evaluation.compare import CONTESTANTS
from streambits.evaluation.online import Step

SCRIPT = Path(sys.executable).with_name("streambits")
SMALL = ["demo", "--rows", "1000"]
PNG = b"\x89PNG"
ESCAPE = "\x1b"
STEP = Step(rows=500, total=1000, seconds=0.1, certificate=0.25, changed=0.01)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """One small demo with --json: (result, folder)."""
    folder = tmp_path_factory.mktemp("demo")
    done = CliRunner().invoke(app, [*SMALL, "--json", "--out", str(folder / "picture.png")])
    assert done.exit_code == 0, done.stderr
    return done, folder


def test_json_is_one_object_and_nothing_else(small):
    done, folder = small
    got = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert got["picture"] == str(folder / "picture.png")
    assert [score["method"] for score in got["scores"]] == 2 * list(CONTESTANTS)
    assert [score["data"] for score in got["scores"]] == 4 * ["uniform"] + 4 * ["digits"]
    assert got["online"]["rows"] == 1000
    assert 0 < got["online"]["bits_changed"] < 0.1
    assert 0.8 * got["online"]["map_end"] < got["online"]["map_online"] < 1


def test_ssbc_is_the_best_on_uniform(small):
    scores = {s["method"]: s["map"] for s in json.loads(small[0].stdout)["scores"][:4]}
    assert max(scores, key=scores.get) == "ssbc"


def test_the_picture_is_a_png_and_nothing_else_is_left(small):
    _, folder = small
    assert [path.name for path in folder.iterdir()] == ["picture.png"]
    assert (folder / "picture.png").read_bytes().startswith(PNG)


def test_progress_is_plain_lines_without_a_terminal(small):
    err = small[0].stderr
    assert ESCAPE not in err
    assert "  500 of 1,000 rows, " in err
    assert "certificate" in err
    assert "of bits changed" in err
    for method in CONTESTANTS:
        assert f"Digits, 32 bits: {method}\n" in err


def test_the_report_fits_a_narrow_terminal(small):
    scores = _scores(small)
    out = io.StringIO()
    shown = demo.Shown(demo.Online(0.93, 0.94, STEP, 0.002), scores, Path("picture.png"))
    demo.report(shown, Console(file=out, width=60, highlight=False))
    text = out.getvalue()
    assert ESCAPE not in text
    assert max(map(len, text.splitlines())) <= 60
    for expected in ("0.930", "0.940", "0.20%", "picture: picture.png", *CONTESTANTS):
        assert expected in text


def test_live_display_shows_every_figure_in_60_columns():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60, no_color=True)
    with progress.streaming(console, "Uniform") as on_step:
        on_step(STEP)
    text = out.getvalue()
    for expected in ("Uniform", "500 of 1,000 rows, 5,000 rows/s", "certificate 0.25, 1.00% of"):
        assert expected in text
    with progress.working(console, "drawing"):
        pass
    assert "drawing" in out.getvalue()
    assert f"{ESCAPE}[3" not in out.getvalue()  # no colour


@pytest.mark.parametrize("name", ["missing/picture.png", "file/picture.png", "folder.png"])
def test_an_unwritable_picture_is_told_before_the_work(tmp_path, name, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    monkeypatch.setattr(demo, "watch_online", _never)
    done = CliRunner().invoke(app, [*SMALL, "--out", str(tmp_path / name)])
    assert done.exit_code == 1
    assert isinstance(done.exception, StorageError)
    assert "cannot be written" in str(done.exception)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("module", "package"), [("matplotlib", "matplotlib"), ("sklearn", "scikit-learn")]
)
def test_a_missing_extra_is_told_before_the_work(tmp_path, module, package, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(demo, "watch_online", _never)
    done = CliRunner().invoke(app, [*SMALL, "--out", str(tmp_path / "picture.png")])
    assert isinstance(done.exception, MissingExtraError)
    assert package in str(done.exception)
    assert "streambits[demo]" in str(done.exception)  # which brings them all


@pytest.mark.parametrize(
    "arguments", [["--out", "picture.pdf"], ["--seed", "-1"], ["--seed", "many"]]
)
def test_wrong_use_is_exit_2(arguments):
    assert CliRunner().invoke(app, ["demo", *arguments]).exit_code == 2


def test_interrupt_leaves_no_traceback_and_no_file(tmp_path):
    command = [SCRIPT, "demo", "--out", str(tmp_path / "picture.png")]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "Uniform" in running.stderr.readline()  # the work has begun
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_whole_demo_takes_less_than_a_minute(tmp_path):
    started = time.monotonic()
    done = subprocess.run(
        [SCRIPT, "demo", "--out", "picture.png"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert time.monotonic() - started < 60
    assert (tmp_path / "picture.png").read_bytes().startswith(PNG)
    assert "ssbc, as in the paper" in done.stdout
    assert ESCAPE not in done.stdout + done.stderr


def _never(*_, **__):
    raise AssertionError("the work has begun")


def _scores(small):
    class Few(list):
        bits = 32

    scores = json.loads(small[0].stdout)["scores"]
    return [
        demo.Score(s["data"], s["method"], s["bits"], s["map"], s["seconds"], Few()) for s in scores
    ]
