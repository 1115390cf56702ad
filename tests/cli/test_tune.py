"""`streambits tune`: measured on a sample, and settings that the verbs take."""

import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typer

import streambits as sb
from streambits.cli import app as cli
from streambits.cli import tune as verb
from streambits.methods.settings import Settings
from streambits.tune import Tuned, choices, landmarks_for, usual

SAMPLE = ("--set", "sample=400", "--set", "n_landmarks=40")
SMALL = ("--bits", 12, "--seconds", 0.1, *SAMPLE)


@pytest.fixture
def source(tmp_path, rows, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", rows)
    return "rows.npy"


def test_the_choice_can_be_typed_and_read(command, source, fingerprint):
    done = command("tune", source, *SMALL, "--out", "tuned.toml", "--json")
    assert done.code == 0, done.err
    assert {"score", "settings", "seconds"} <= set(done.json["trials"][0])
    assert "tuned.toml: the same, for --config of learn and online" in done.err
    assert command(*shlex.split(done.json["command"])[1:]).code == 0
    assert command("learn", source, "--config", "tuned.toml", "--out", "learn").code == 0
    models = [sb.load(f"{folder}/model.safetensors") for folder in ("model", "learn")]
    assert fingerprint(models[0]) == fingerprint(models[1])
    assert models[0].bits == done.json["settings"]["bits"]


def test_so_can_what_is_seldom_chosen(command, source, *, monkeypatch, fingerprint):
    choice = Settings(
        6, n_landmarks=30, landmarks_by="centres", bandwidth_factor=4.0, whitening=0.25
    )
    monkeypatch.setattr(verb, "tune", lambda drawn, *_, **__: Tuned(choice, [], drawn))
    done = command("tune", source, "--bits", 6, *SAMPLE, "--out", "tuned.toml")
    assert command(*shlex.split(done.out.splitlines()[-1])[1:]).code == 0
    model = sb.load("model/model.safetensors")
    assert (model.features.width, model.whitening) == (30, 0.25)
    assert tomllib.loads(Path("tuned.toml").read_text()) == choice.differences()


@pytest.mark.parametrize("more", [(), ("--scan",)], ids=["signs", "scan"])
def test_a_number_of_bytes(command, source, more):
    done = command("tune", source, "--bytes", 4, "--seconds", 1, *SAMPLE, *more, "--json")
    assert done.code == 0, done.err
    told = done.json["settings"]
    scans = told["method"] == "product"
    assert scans is ("bits" not in told) is (done.json["candidates"] == "all")
    assert command(*shlex.split(done.json["command"])[1:]).code == 0
    coder = sb.load("model/model.safetensors").coder()
    assert -(-coder.bits // 8) + coder.refine == 4


def test_a_table_for_people(command, source):
    done = command("tune", source, *SMALL, "--target", "recall")
    text = " ".join(done.out.split())
    assert re.search(r"\b(1 setting|\d+ settings) tried", text)
    for expected in ("score", "best: ", f"streambits learn {source} --method"):
        assert expected in text
    assert "drawing at most 400 rows" in done.err
    text = command("tune", source, "--bytes", 4, "--seconds", 1, *SAMPLE).out
    assert "should rank candidates: " in text


def test_standard_input_is_read_as_it_was(command, rows):
    lines = [",".join(map(str, row)) for row in ("abcdefgh", *rows[:300])]
    text = "\n".join(lines).encode()
    reading = ("--columns", "a,b,d,h")
    done = command("tune", "-", *SMALL, *reading, "--set", "format=csv", "--json", stdin=text)
    assert (
        shlex.join(["streambits", "learn", "-", *reading, "--format", "csv"])
        in done.json["command"]
    )


def test_a_users_mistakes(fails, misused, source, rows, tmp_path):
    np.save("few.npy", rows[:50])
    assert "needs at least 200" in fails("tune", "few.npy", *SMALL)
    assert "does not exist" in fails("tune", "nowhere", *SMALL)
    assert "no row that can be used" in fails("tune", "-", stdin=b"a,b\nx,y\n")
    assert "--target" in misused("tune", source, "--target", "speed")
    assert "set bits for codes" in fails("tune", source, "--bits", 8, "--bytes", 4)
    assert "target='recall'" in fails("tune", source, "--target", "map", "--bytes", 4)
    (tmp_path / "mine.toml").write_text("k = 2\n")
    assert "exists: choose another name" in fails("tune", source, "--out", "mine.toml")
    assert "there is no folder" in fails("tune", source, "--out", "no/t.toml")


EVERY = sorted(set(choices(usual(6, 30))), key=str)


@pytest.mark.parametrize("settings", EVERY, ids=str)
def test_a_job_begins_with_the_very_learner_that_was_measured(settings, mixture, fingerprint):
    sample = mixture(300, dtype=np.float64)
    whole = settings.landmarks_by == "centres"
    found = Settings(**settings.differences()).learner([sample if whole else sample[:30]])
    more = {"reference": sample} if whole and settings.method == "ssbc" else {}
    wanted = settings.build(landmarks_for(settings, sample), **more)
    assert fingerprint(found) == fingerprint(wanted)


@pytest.mark.parametrize("settings", [usual(64, 500), Settings(64, "linear")], ids=str)
def test_every_line_of_the_file_is_a_setting_of_the_verbs(settings):
    table = tomllib.loads(verb.toml(settings.differences()))
    for name in ("learn", "online"):
        assert table.keys() <= typer.main.get_command(cli.app).commands[name].table.keys()
