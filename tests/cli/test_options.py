"""What `learn` and `online` are told: by flags, a file or variables, and kept in job.json."""

import dataclasses
import json

import numpy as np
import pytest
import typer

import streambits as sb
from streambits.cli import app as cli
from streambits.cli.config import options_of
from streambits.cli.options import PACE, ROWS_THERE, JobOptions
from streambits.methods.settings import Settings

TUNED = {
    "whitening": 0.25,
    "rotation": "random",
    "bandwidth_factor": 4.0,
    "landmarks_by": "centres",
}
FLAGS = [word for name, value in TUNED.items() for word in (f"--{name.replace('_', '-')}", value)]


@pytest.fixture
def job(tmp_path, mixture):
    """job(verb): arguments for 600 rows, into a folder named after the verb."""
    np.save(tmp_path / "rows.npy", mixture(600))

    def job(verb):
        few = ("--bits", 8, "--n-landmarks", 40, "--quiet")
        return [verb, tmp_path / "rows.npy", *few, "--out", tmp_path / verb]

    return job


def kept(folder):
    return json.loads((folder / "job.json").read_text())["settings"]


@pytest.mark.parametrize(("verb", "without"), [("learn", {"refresh"}), ("online", set())])
def test_every_setting_is_an_option_with_its_help_and_default(verb, without):
    options = options_of(typer.main.get_command(cli.app).commands[verb])
    for one in dataclasses.fields(Settings):
        if one.name in without:
            assert one.name not in options
            continue
        option = options[one.name]
        assert option.help == one.metadata["help"]
        assert option.default == one.default


@pytest.mark.parametrize("verb", ["learn", "online"])
@pytest.mark.parametrize("how", ["flags", "file", "variables"])
def test_all_ways_of_telling_give_the_same_model(
    how, verb, *, command, job, tmp_path, monkeypatch, mixture
):
    told = job(verb)
    if how == "flags":
        told += FLAGS
    elif how == "file":
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in TUNED.items())
        (tmp_path / "my.toml").write_text(f"[{verb}]\n{lines}")
        told += ["--settings", tmp_path / "my.toml"]
    else:
        for name, value in TUNED.items():
            monkeypatch.setenv(f"STREAMBITS_{name.upper()}", str(value))
    done = command(*told)
    assert done.code == 0, done.err
    assert kept(tmp_path / verb).items() >= TUNED.items()
    model = sb.load(tmp_path / verb / "model.safetensors")
    landmarks = sb.features.centres(mixture(600)[:400].astype(float), 40)
    assert (model.whitening, model.rotation) == (0.25, "random")
    np.testing.assert_array_equal(model.features.landmarks, landmarks)
    assert model.features.bandwidth == pytest.approx(
        4 * sb.bandwidth.nearest(30).of(landmarks), rel=1e-12
    )


USUAL = {"rotation": "itq", "landmarks_by": "uniform"}


@pytest.mark.parametrize("place", range(0, len(FLAGS), 2))
def test_a_job_goes_on_only_with_the_settings_it_had(command, fails, job, *, place, tmp_path):
    learn = (*job("learn"), "--method", "ssbc")
    assert command(*learn).code == 0
    name = FLAGS[place].removeprefix("--").replace("-", "_")
    said = fails(*learn, *FLAGS[place : place + 2])
    assert f"{name} is {USUAL.get(name, 'not set')} there and {TUNED[name]} here" in said


def test_a_job_goes_on_where_its_defaults_are_spelt_out(command, job):
    learn = (*job("learn"), "--method", "ssbc")
    assert command(*learn).code == 0
    spelt = ("--bits", 8, "--rotation", "itq", "--epochs", "auto", "--epsilon", 1)
    done = command(*learn, *spelt, "--refine", 0, "--json")
    assert (done.code, done.json["rows"], done.json["new_rows"]) == (0, 600, 0)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (["--whitening", 1.5], "--whitening"),
        (["--whitening", "half"], "--whitening"),
        (["--rotation", "left"], "--rotation"),
        (["--landmarks-by", "grid"], "--landmarks-by"),
    ],
)
def test_values_that_are_none(misused, job, wrong, complaint):
    assert f"Invalid value for '{complaint}'" in misused(*job("online"), *wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        ["--bandwidth-factor", "0"],
        ["--bandwidth-factor", "2", "--bandwidth", "3"],
        ["--method", "itq", "--rotation", "none"],
        ["--method", "linear", "--landmarks-by", "centres"],
    ],
)
@pytest.mark.parametrize("verb", ["learn", "online"])
def test_a_mistake_leaves_no_folder_that_refuses_the_right_command(
    fails, command, *, job, verb, wrong, tmp_path
):
    fails(*job(verb), *wrong)
    assert not (tmp_path / verb).exists()
    assert command(*job(verb)).code == 0


@pytest.mark.parametrize("verb", ["learn", "online"])
def test_nor_does_one_that_only_the_rows_tell(fails, command, job, verb, tmp_path):
    said = fails(*job(verb), "--method", "itq", "--bits", 9)
    assert "8 features give at most 8 directions: ask for at most 8 bits, or use" in said
    assert kept(tmp_path / verb)["bits"] == 9
    assert command(*job(verb), "--method", "itq").code == 0
    assert kept(tmp_path / verb)["bits"] == 8
    assert "bits is 8 there and 9 here" in fails(*job(verb), "--method", "itq", "--bits", 9)
    assert sb.load(tmp_path / verb / "model.safetensors").seen == 600


def test_the_remedy_helps(fails, command, job):
    said = fails(*job("learn"), "--method", "linear", "--bits", 12)
    assert "or use a method of landmarks, such as ssbc, with more than 12 of them" in said
    assert command(*job("learn"), "--bits", 12, "--n-landmarks", 13).code == 0


def test_a_job_on_a_device_commits_more_rarely_unless_it_is_told():
    assert JobOptions().pace == PACE
    assert JobOptions(device="cpu").pace.rows == ROWS_THERE > PACE.rows
    assert JobOptions(device="cpu", commit_rows=500).pace.rows == 500
