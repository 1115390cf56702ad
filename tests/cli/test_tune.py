"""`streambits tune`: measured on a sample, and settings that the verbs take."""

import re
import shlex
import tomllib

import numpy as np
import pytest
import typer

import streambits as sb
from streambits.cli import app as cli
from streambits.cli import tune as verb
from streambits.cli.config import options_of
from streambits.features import Linear
from streambits.methods.settings import Settings
from streambits.tune import Tuned, choices, landmarks_for, usual

FEW = ("--bits", 12, "--seconds", 0.1, "--sample", 400, "--n-landmarks", 40)


@pytest.fixture
def source(tmp_path, rows):
    np.save(tmp_path / "rows.npy", rows)
    return tmp_path / "rows.npy"


def test_what_is_found_can_be_typed_and_read(command, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command("tune", source, *FEW, "--out", "tuned.toml", "--json")
    assert done.code == 0, done.err
    told = done.json["settings"]
    assert {"score", "settings", "seconds"} <= set(done.json["trials"][0])
    assert "tuned.toml: the same" in done.err
    assert command(*shlex.split(done.json["command"])[1:]).code == 0
    for name in ("learn", "online"):
        assert command(name, source, "--settings", "tuned.toml", "--out", name).code == 0
    for folder in ("model", "learn", "online"):
        check(sb.load(f"{folder}/model.safetensors"), told)


@pytest.mark.parametrize(
    "choice",
    [
        Settings(
            6,
            n_landmarks=30,
            landmarks_by="centres",
            bandwidth_factor=4.0,
            whitening=0.25,
            rotation="random",
        ),
        Settings(6, "linear", whitening=0.75, rotation="itq"),
        Settings(6, "linear", whitening=0.5, rotation="random"),
    ],
)
def test_so_can_what_is_seldom_found(
    choice, command, source, *, tmp_path, monkeypatch, fingerprint
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verb, "tune", lambda drawn, *_, **__: Tuned(choice, [], drawn))
    done = command("tune", source, "--bits", 6, "--sample", 400, "--out", "tuned.toml")
    assert command(*shlex.split(done.out.splitlines()[-1])[1:]).code == 0
    assert command("learn", source, "--settings", "tuned.toml", "--out", "learn").code == 0
    models = [sb.load(f"{folder}/model.safetensors") for folder in ("model", "learn")]
    assert fingerprint(models[0]) == fingerprint(models[1])
    check(models[0], choice.differences())


@pytest.mark.parametrize("more", [(), ("--scan",)], ids=["signs", "scan"])
def test_a_number_of_bytes(command, source, *, tmp_path, monkeypatch, more):
    monkeypatch.chdir(tmp_path)
    few = ("--bytes", 4, "--seconds", 1, "--sample", 400, "--n-landmarks", 40)
    done = command("tune", source, *few, *more, "--out", "tuned.toml", "--json")
    assert done.code == 0, done.err
    assert "map" not in done.json
    told = done.json["settings"]
    assert (
        (told["method"] == "product") is ("bits" not in told) is (done.json["candidates"] == "all")
    )
    assert command(*shlex.split(done.json["command"])[1:]).code == 0
    assert command("learn", source, "--settings", "tuned.toml", "--out", "learn").code == 0
    for folder in ("model", "learn"):
        coder = sb.load(f"{folder}/model.safetensors").coder()
        assert coder.bits == told.get("bits", 0)
        assert -(-coder.bits // 8) + coder.refine == 4


def test_bytes_for_people(command, source):
    few = ("--bytes", 4, "--seconds", 3, "--sample", 400, "--n-landmarks", 40)
    text = " ".join(command("tune", source, *few).out.split())
    assert "16 + 2 B" in text
    assert "should rank candidates: " in text
    assert "--refine 2" in text


def check(model, told):
    """A model has what tune told."""
    assert model.bits == told["bits"]
    assert (model.whitening, model.rotation) == (told["whitening"], told["rotation"])
    if told["method"] == "linear":
        assert isinstance(model.features, Linear)
        return
    usual = sb.bandwidth.nearest(30).of(model.features.landmarks)
    assert model.features.width == told.get("n_landmarks", 500)
    assert model.features.bandwidth == pytest.approx(told["bandwidth_factor"] * usual)


def test_a_table_for_people(command, source):
    done = command("tune", source, *FEW, "--target", "recall")
    text = " ".join(done.out.split())
    assert re.search(r"\b(1 setting|[2-9]\d* settings) tried", text)
    for expected in ("score", "best: ", f"streambits learn {source} --method"):
        assert expected in text
    assert "drawing at most 400 rows" in done.err


def test_standard_input(command, rows):
    lines = [",".join(map(str, row)) for row in ("abcdefgh", *rows[:300])]
    text = "\n".join(lines).encode()
    reading = ("--columns", "a,b,d,h", "--format", "csv")
    done = command("tune", "-", *FEW, *reading, "--json", stdin=text)
    assert done.json["settings"]["bits"] == 12
    assert shlex.join(["streambits", "learn", "-", *reading]) in done.json["command"]


def test_a_users_mistakes(fails, misused, source, rows, tmp_path):
    np.save(tmp_path / "few.npy", rows[:50])
    assert "needs at least 200" in fails("tune", tmp_path / "few.npy", *FEW)
    assert "does not exist" in fails("tune", "nowhere", *FEW)
    assert "no row that can be used" in fails("tune", "-", stdin=b"a,b\nx,y\n")
    assert "--target" in misused("tune", source, "--target", "speed")
    assert "set bits for codes" in fails("tune", source, "--bits", 8, "--bytes", 4)
    assert "target='recall'" in fails("tune", source, "--target", "map", "--bytes", 4)
    (tmp_path / "mine.toml").write_text("[search]\nk = 2\n")
    assert "exists: choose another name" in fails("tune", source, "--out", tmp_path / "mine.toml")
    assert "there is no folder" in fails("tune", source, "--out", tmp_path / "no" / "t.toml")


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
def test_every_setting_is_an_option_of_the_verbs(settings):
    tables = tomllib.loads(verb.toml(settings.differences()))
    assert tables == {"learn": settings.differences(), "online": settings.differences()}
    for name, table in tables.items():
        assert table.keys() <= options_of(typer.main.get_command(cli.app).commands[name]).keys()


def test_rows_are_read_as_they_were():
    settings = Settings(64, "ssbc", bandwidth_factor=16.0, whitening=0.75, rotation="itq")
    reading = {"columns": "a,b c", "ids": "key", "format": None}
    words = shlex.split(verb.command_line("my rows/*.csv", reading, settings.differences()))
    assert words[:3] == ["streambits", "learn", "my rows/*.csv"]
    assert dict(zip(words[3::2], words[4::2], strict=True)) == {
        "--columns": "a,b c",
        "--ids": "key",
        "--method": "ssbc",
        "--bits": "64",
        "--bandwidth-factor": "16",
        "--whitening": "0.75",
        "--rotation": "itq",
        "--out": "model/",
    }
