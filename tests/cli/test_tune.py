"""`streambits tune`: measured on a sample, and settings that the verbs take."""

import tomllib

import numpy as np
import pytest

import streambits as sb
from streambits.cli import tune as verb
from streambits.tune import Choice, Tuned

FEW = ("--bits", 12, "--seconds", 0.1, "--sample", 400, "--landmarks", 40)


@pytest.fixture
def source(tmp_path, rows):
    np.save(tmp_path / "rows.npy", rows)
    return tmp_path / "rows.npy"


def test_the_choice_is_settings_that_online_takes(command, source, tmp_path):
    done = command("tune", source, *FEW, "--json")
    assert done.code == 0, done.err
    got = done.json
    assert got["settings"]["bits"] == 12
    assert {"score", "kernel", "whitening", "seconds"} <= set(got["trials"][0])
    (tmp_path / "my.toml").write_text(got["toml"])
    for name in ("learn", "online"):
        arguments = (name, source, "--out", tmp_path / name, "--quiet")
        done = command(*arguments, "--settings", tmp_path / "my.toml")
        assert done.code == 0, done.err
        assert sb.load(tmp_path / name / "model.safetensors").bits == 12


def test_a_table_for_people(command, source):
    done = command("tune", source, *FEW, "--target", "recall")
    text = " ".join(done.out.split())
    for expected in ("settings tried", "score", "chosen: ", "[learn]", "[online]", "bits = 12"):
        assert expected in text
    assert "drawing 400 rows" in done.err


@pytest.mark.parametrize(
    ("choice", "settings", "beyond"),
    [
        (Choice(count=50), {"method": "ssbc", "landmarks": 50}, {}),
        (
            Choice(count=50, whitening=0.25),
            {"method": "ssbc", "landmarks": 50},
            {"whitening": 0.25},
        ),
        (Choice(kernel=False, whitening=0.0), {"method": "itq"}, {}),
        (Choice(kernel=False, whitening=0.0, rotation="none"), {"method": "pcah"}, {}),
    ],
)
def test_choices_as_settings(train, choice, settings, beyond):
    tuned = Tuned(choice, [], train, 8, 0)
    assert verb.settings(tuned) == {"bits": 8, **settings}
    assert verb.beyond(tuned) == beyond
    assert tomllib.loads(verb.toml(tuned))["online"] == {"bits": 8, **settings}


def test_a_bandwidth_is_a_number(train):
    tuned = Tuned(Choice(count=50, factor=4.0), [], train, 8, 0)
    expected = tuned.learner().features.bandwidth
    assert verb.settings(tuned)["bandwidth"] == pytest.approx(expected, rel=1e-5)


def test_standard_input(command, rows):
    text = "\n".join(",".join(map(str, row)) for row in rows[:300]).encode()
    done = command("tune", "-", *FEW, "--json", stdin=text)
    assert done.json["settings"]["bits"] == 12


def test_a_users_mistakes(fails, misused, source, rows, tmp_path):
    np.save(tmp_path / "few.npy", rows[:50])
    assert "needs at least 200" in fails("tune", tmp_path / "few.npy", *FEW)
    assert "does not exist" in fails("tune", "nowhere", *FEW)
    assert "no row that can be used" in fails("tune", "-", stdin=b"a,b\nx,y\n")
    assert "--target" in misused("tune", source, "--target", "speed")
