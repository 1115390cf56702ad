import io
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import streambits as sb
from streambits.cli import demo, output
from streambits.cli.app import app
from streambits.errors import StorageError
from streambits.evaluation.quality import mean_average_precision

SCRIPT = Path(sys.executable).with_name("streambits")
SMALL = ["demo", "--rows", "1000"]
ESCAPE = "\x1b"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """One small demo with --json: (result, folder)."""
    folder = tmp_path_factory.mktemp("demo")
    done = CliRunner().invoke(app, [*SMALL, "--json", "--out", str(folder / "plot.svg")])
    assert done.exit_code == 0, done.stderr
    return done, folder


def test_json_is_one_object_and_nothing_else(small):
    done, folder = small
    got = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert got["plot"] == str(folder / "plot.svg")
    expected = [(method, bits) for method in demo.METHODS for bits in demo.BITS]
    assert [(score["method"], score["bits"]) for score in got["scores"]] == expected
    assert got["online"]["rows"] == 1000
    assert 0 < got["online"]["bits_changed"] < 0.1
    assert 0.8 * got["online"]["map_end"] < got["online"]["map_online"] < 1


def test_ssbc_is_the_best_at_every_length(small):
    scores = json.loads(small[0].stdout)["scores"]
    for bits in demo.BITS:
        found = {s["method"]: s["map"] for s in scores if s["bits"] == bits}
        assert max(found, key=found.get) == "ssbc"


def test_scores_are_those_of_the_methods_themselves(small):
    data = demo.Uniform.draw(1000, 0)
    codes = sb.methods.METHODS["itq"](data.landmarks, 16).learn(data.rows).coder().encode(data.rows)
    expected = mean_average_precision(codes, data.rows, data.queries, data.threshold)
    scores = json.loads(small[0].stdout)["scores"]
    [mine] = [s["map"] for s in scores if (s["method"], s["bits"]) == ("linear ITQ", 16)]
    assert mine == expected


def test_online_codes_are_those_of_the_library(small):
    data = demo.Uniform.draw(1000, 0)
    learner = sb.ssbc(data.landmarks, 64)
    parts = sb.encode_online(learner, [data.rows], refresh=demo.REFRESH)
    expected = data.map(sb.Codes.concat([codes for _, codes in parts]))
    assert json.loads(small[0].stdout)["online"]["map_online"] == expected


def test_the_plot_is_an_svg_with_a_line_per_method_and_nothing_else_is_left(small):
    _, folder = small
    assert [path.name for path in folder.iterdir()] == ["plot.svg"]
    root = ET.parse(folder / "plot.svg").getroot()
    lines = [e for e in root if e.tag.endswith("polyline")]
    assert len({(e.get("stroke"), e.get("stroke-dasharray")) for e in lines}) == len(demo.METHODS)
    texts = [e.text for e in root if e.tag.endswith("text")]
    assert set(demo.METHODS) <= set(texts)


def test_data_are_those_of_the_paper():
    data = demo.Uniform.draw(5000, 3)
    assert data.rows.shape == (5000, 50)
    np.testing.assert_allclose(data.rows.max(axis=0), 1 / np.arange(1, 51) ** 2, rtol=0.01)


def test_progress_is_plain_lines_without_a_terminal(small):
    err = small[0].stderr
    assert ESCAPE not in err
    for method in demo.METHODS:
        assert f"Uniform, 8 to 32 bits: {method}\n" in err


def test_the_report_fits_a_narrow_terminal(small):
    out = io.StringIO()
    scores = [
        demo.Score(s["method"], s["bits"], s["map"], s["seconds"])
        for s in json.loads(small[0].stdout)["scores"]
    ]
    online = demo.OnlineScore(0.93, 0.94, 0.002, 0.25, 5000.0)
    found = demo.Shown(1000, online, scores, Path("plot.svg"))
    demo.report(found, Console(file=out, width=80, highlight=False))
    text = out.getvalue()
    assert ESCAPE not in text
    assert max(map(len, text.splitlines())) <= 80
    for expected in ("0.930", "0.940", "0.20%", "plot: plot.svg", *demo.METHODS):
        assert expected in text


def test_a_status_in_a_terminal_has_no_colour_if_none_is_wanted():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60, no_color=True)
    with output.working(console, "drawing"):
        pass
    assert "drawing" in out.getvalue()
    assert f"{ESCAPE}[3" not in out.getvalue()


@pytest.mark.parametrize("name", ["missing/plot.svg", "file/plot.svg", "folder.svg"])
def test_an_unwritable_plot_is_reported_before_the_work(tmp_path, name, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "folder.svg").mkdir()
    monkeypatch.setattr(demo, "encode_while_learning", _never)
    done = CliRunner().invoke(app, [*SMALL, "--out", str(tmp_path / name)])
    assert done.exit_code == 1
    assert isinstance(done.exception, StorageError)
    assert "cannot be written" in str(done.exception)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("arguments", [["--out", "plot.png"], ["--seed", "-1"], ["--seed", "many"]])
def test_wrong_use_is_exit_2(arguments):
    assert CliRunner().invoke(app, ["demo", *arguments]).exit_code == 2


def test_interrupt_leaves_no_traceback_and_no_file(tmp_path):
    command = [SCRIPT, "demo", "--out", str(tmp_path / "plot.svg")]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "Uniform" in running.stderr.readline()  # the work has begun
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_demo_needs_no_optional_package(tmp_path):
    """STREAMBITS_SLOW=1: with all its rows."""
    arguments = ["demo"] if os.environ.get("STREAMBITS_SLOW") else SMALL
    code = (
        "import sys\n"
        "for name in ('matplotlib', 'sklearn', 'faiss'): sys.modules[name] = None\n"
        "from streambits.cli.app import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--out", "plot.svg"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")
    assert "ssbc, as in the paper" in done.stdout
    assert ESCAPE not in done.stdout + done.stderr


def _never(*_, **__):
    raise AssertionError("the work has begun")
