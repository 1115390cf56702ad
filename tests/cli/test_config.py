"""Settings: `--set name=value` and the file of `--config`, one table of names for all verbs."""

import dataclasses
import json
import os

import numpy as np
import pytest
import typer

import streambits as sb
from streambits.cli import app as cli
from streambits.cli.config import OWN
from streambits.methods.settings import Settings

VERBS = typer.main.get_command(cli.app).commands
TUNED = {"whitening": 0.25, "rotation": "random", "bandwidth_factor": 4.0}
TUNED |= {"landmarks_by": "centres"}
SET = [word for name, value in TUNED.items() for word in ("--set", f"{name}={value}")]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in list(os.environ):
        if name.startswith("STREAMBITS_"):
            monkeypatch.delenv(name)


@pytest.fixture
def learn(tmp_path, mixture, monkeypatch):
    """Arguments of a job of 600 rows, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", mixture(600))
    return ("learn", "rows.npy", "--out", "job")


@pytest.fixture
def file(learn, tmp_path):
    """file(text): a file of settings beside the rows."""

    def write(text):
        (tmp_path / "my.toml").write_text(text)
        return "my.toml"

    return write


@pytest.mark.parametrize("how", ["set", "file"])
@pytest.mark.parametrize("verb", ["learn", "online"])
def test_both_ways_give_the_model_of_the_library(
    command, learn, file, *, how, verb, tmp_path, mixture
):
    more = ["--set", "quiet=true", "--set", "n_landmarks=40", *SET]
    if how == "file":
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in TUNED.items())
        more = ["--config", file(f"n-landmarks = 40\nquiet = true\n{lines}")]
    done = command(verb, *learn[1:], "--bits", 8, *more)
    assert (done.code, done.err) == (0, "")
    job = json.loads((tmp_path / "job" / "job.json").read_text())
    assert job["settings"].items() >= TUNED.items()
    model = sb.load(tmp_path / "job" / "model.safetensors")
    landmarks = sb.features.centres(mixture(600)[:400].astype(float), 40)
    assert (model.whitening, model.rotation) == (0.25, "random")
    np.testing.assert_array_equal(model.features.landmarks, landmarks)


def test_an_option_before_set_before_the_file_before_the_default(command, job, file, misused):
    ask = ("search", job, "--query", job.parent / "queries.npy")

    def hits(*more):
        return len(command(*ask, *more).lines[0]["ids"])

    given = ("--config", file("k = 2\n"))
    assert hits() == 10
    assert hits(*given) == hits("--set", "k=2") == 2
    assert hits(*given, "--set", "k=3") == hits("--set", "k=3", *given) == 3
    assert hits(*given, "-k", 5) == 5
    told = misused(*ask, "-k", 5, "--set", "k=3")
    assert "k is given by an option and by --set: keep one of them" in told


def test_required_options_and_lists_in_a_file(command, job, file):
    path = file(f'query = "{job.parent / "queries.npy"}"\nallow = [5, 9]\njson = true\n')
    found = command("search", job, "--config", path).lines
    assert {name for line in found for name in line["ids"]} == {5, 9}


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("bit=64", "bit=64: learn has no setting 'bit': did you mean 'bits'"),
        ("zzz=1", "learn has no setting 'zzz': streambits settings learn lists all"),
        ("query=x", "query is a setting of search, not of learn: leave it out"),
        ("engine=dask", "engine is not a setting any more: divide the work from Python"),
        ("quiet", "quiet: write it as name=value"),
        ("n_landmarks=many", "n_landmarks=many: "),
        ("n_landmarks=0", "n_landmarks=0: "),
        ("n_landmarks=1.5", "n_landmarks=1.5: "),
        ("whitening=2", "whitening=2: "),
        ("precision=half", "'half' is not one of 'auto', 'double'"),
        ("epochs=sometimes", "'sometimes' is not auto, never or a number"),
        ("quiet=perhaps", "quiet=perhaps: "),
    ],
)
def test_a_wrong_setting_is_named_with_its_place(
    misused, learn, file, *, word, complaint, tmp_path
):
    assert complaint in misused(*learn, "--set", word)
    name, equals, value = word.partition("=")
    if equals:
        told = misused(*learn, "--config", file(f'seed = 1\n\n{name} = "{value}"\n'))
        assert f"my.toml, line 3: {name} = {value}: " in told
        assert complaint.removeprefix(f"{word}: ") in told
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[learn]\nbits = 64", "[learn] is a table: write one name = value a line"),
        ("bits =", "my.toml is not TOML"),
        ("# nothing", "my.toml has no settings"),
        ('columns = ["a", "b,c"]', "line 1: columns: a comma within a name"),
        ("bits = true", "line 1: bits = true: "),
    ],
)
def test_what_is_wrong_in_a_file_is_named(misused, learn, file, text, complaint):
    assert complaint in misused(*learn, "--config", file(text))


def test_a_file_that_is_not_there_and_a_name_given_twice(misused, learn):
    assert "nowhere.toml cannot be read" in misused(*learn, "--config", "nowhere.toml")
    assert "seed is set twice" in misused(*learn, "--set", "seed=1", "--set", "seed=2")


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["--n-landmarks", 40], "--n-landmarks is a setting: write --set n_landmarks=VALUE"),
        (["--quiet"], "--quiet is a setting: write --set quiet=true|false"),
        (["--engine=dask"], "--engine is not an option any more: divide the work from Python"),
        (["--kafka-properties", "x"], "STREAMBITS_KAFKA_..."),
        (["--settings", "x.toml"], "use --config FILE"),
        (["--bitz", 3], "--bits"),
        (["search", "--no-real"], "--set real=true|false"),
        (["encode", "--every-epoch"], "encode queries in Python"),
        (["evaluate", "--html", "x"], "--plot FILE.png"),
        (["demo", "--out", "plot.svg"], "python -m paper draws plots"),
    ],
)
def test_options_that_went_name_what_to_use(misused, learn, words, remedy):
    assert remedy in misused(*(words if words[0] in VERBS else (*learn, *words)))


@pytest.mark.parametrize("variable", ["STREAMBITS_BITS", "STREAMBITS_ONLINE_N_LANDMARKS"])
def test_a_variable_that_was_an_option_is_refused(misused, learn, variable, monkeypatch):
    monkeypatch.setenv(variable, "8")
    told = misused(*learn)
    assert f"{variable} is not read any more: use --set" in told


def test_other_variables_are_not_looked_at(command, learn, monkeypatch):
    for name in ("PORT", "SERVICE_HOST", "DATA", "TOKEN", "KAFKA_SASL_PASSWORD"):
        monkeypatch.setenv(f"STREAMBITS_{name}", "tcp://10.0.0.1:80")
    monkeypatch.setenv("STREAMBITS_K", "")  # empty
    assert command(*learn, "--bits", 8, "--set", "n_landmarks=40").code == 0


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_shows_at_most_a_dozen_options_and_says_where_the_others_are(command, name):
    options = [one for one in VERBS[name].params if one.param_type_name == "option"]
    assert len([one for one in options if one.name not in (*OWN, "help")]) <= 12
    assert all(one.help for one in VERBS[name].params)
    told = " ".join(command(name, "--help").out.split())
    assert told.endswith(f"streambits settings {name}") == bool(VERBS[name].settings)
    if VERBS[name].settings:
        listed = command("settings", name).out
        assert all(setting in listed for setting in VERBS[name].settings)


@pytest.mark.parametrize(("verb", "without"), [("learn", {"refresh"}), ("online", set())])
def test_every_setting_of_the_library_is_one_of_the_verbs(verb, without):
    names = {one.name: one.default for one in dataclasses.fields(Settings)}
    assert names.keys() - VERBS[verb].table.keys() == without
    assert all(VERBS[verb].table[name].default == names[name] for name in names.keys() - without)


def test_settings_of_all_verbs_are_listed(command, misused):
    listed = command("settings").out
    assert {"n_landmarks", "rerank_ids", "max_body"} <= set(listed.replace("│", " ").split())
    assert "'merge' has no settings: choose one of demo" in misused("settings", "merge")


def test_a_job_goes_on_only_with_the_settings_it_had(command, fails, learn):
    learn = (*learn, "--bits", 8, "--set", "n_landmarks=40", "--method", "ssbc")
    assert command(*learn).code == 0
    assert "whitening is not set there and 0.25 here" in fails(*learn, *SET[:2])
    spelt = ("--set", "rotation=itq", "--set", "epochs=auto", "--set", "epsilon=1", "--refine", 0)
    done = command(*learn, *spelt, "--json")
    assert (done.code, done.json["rows"], done.json["new_rows"]) == (0, 600, 0)


@pytest.mark.parametrize("wrong", [["bandwidth_factor=0"], ["method=linear", *SET[-1:]]], ids=str)
def test_a_mistake_leaves_no_folder_that_refuses_the_right_command(
    fails, command, learn, wrong, tmp_path
):
    learn = (*learn, "--bits", 8, "--set", "n_landmarks=40")
    fails(*learn, *(word for one in wrong for word in ("--set", one)))
    assert not (tmp_path / "job").exists()
    assert command(*learn).code == 0
