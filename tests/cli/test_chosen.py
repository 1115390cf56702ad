"""What `tune` has chosen, in the words of the verbs that learn."""

import shlex
import tomllib

import numpy as np
import pytest
import typer

from streambits.cli import chosen
from streambits.cli import main as cli
from streambits.cli.settings import options_of
from streambits.jobs.settings import Settings
from streambits.tune import Choice, choices

EVERY = sorted(set(choices(Choice(n_landmarks=30))), key=str)
VERBS = typer.main.get_command(cli.app).commands


@pytest.mark.parametrize("choice", EVERY, ids=str)
def test_all_that_tune_tries_is_a_setting_of_a_job(choice, mixture, fingerprint):
    """A job that reads the same rows begins with the very learner that was measured."""
    sample = mixture(300, dtype=np.float64)
    whole = choice.kernel and choice.landmarks_by == "centres"
    settings = Settings(**chosen.settings(choice, 6))
    found = settings.learner([sample if whole else sample[:30]])
    wanted = choice.build(choice.landmarks(sample, 0), 6, 0)
    assert fingerprint(found) == fingerprint(wanted)


@pytest.mark.parametrize("choice", [Choice(), Choice(kernel=False)], ids=str)
def test_every_setting_is_an_option_of_the_verbs(choice):
    told = chosen.settings(choice, 64)
    tables = tomllib.loads(chosen.toml(told))
    assert tables == {"learn": told, "online": told}
    for verb, table in tables.items():
        assert table.keys() <= options_of(VERBS[verb]).keys()


def test_rows_are_read_as_they_were():
    told = chosen.settings(Choice(factor=16.0, whitening=0.75), 64)
    reading = {"columns": "a,b c", "ids": "key", "format": None}
    words = shlex.split(chosen.command("my rows/*.csv", reading, told))
    assert words[:3] == ["streambits", "learn", "my rows/*.csv"]
    assert dict(zip(words[3::2], words[4::2], strict=True)) == {
        "--columns": "a,b c",
        "--ids": "key",
        "--method": "ssbc",
        "--bits": "64",
        "--n-landmarks": "500",
        "--landmarks-by": "uniform",
        "--bandwidth-factor": "16",
        "--whitening": "0.75",
        "--rotation": "itq",
        "--out": "model/",
    }
