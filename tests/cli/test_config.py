"""Settings from a file and the environment, for all verbs; shell completion."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from streambits.cli import app as cli
from streambits.cli.config import options_of

SCRIPT = Path(sys.executable).with_name("streambits")


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in list(os.environ):
        if name.startswith("STREAMBITS_"):
            monkeypatch.delenv(name)


@pytest.fixture
def ask(command, job):
    """ask(*more): how many hits a search gives for each query."""

    def ask(*more, before=()):
        done = command(*before, "search", job, "--query", job.parent / "queries.npy", *more)
        assert done.code == 0, done.err
        return {len(line["ids"]) for line in done.lines}

    return ask


@pytest.fixture
def file(tmp_path, monkeypatch):
    """file(text): a file of settings, in the folder where we are."""
    monkeypatch.chdir(tmp_path)

    def write(text):
        path = Path("my.toml")
        path.write_text(text)
        return path

    return write


def test_flag_before_variable_before_file_before_default(ask, file, monkeypatch):
    given = ("--settings", file("[search]\nk = 2\n[online]\nbits = 64\n"))
    assert ask() == {10}
    assert ask(*given) == {2}
    assert ask(before=given) == {2}
    monkeypatch.setenv("STREAMBITS_K", "3")
    assert ask(*given) == {3}
    monkeypatch.setenv("STREAMBITS_SEARCH_K", "4")
    assert ask(*given) == {4}
    assert ask(*given, "-k", 5) == {5}


def test_the_file_from_the_environment(ask, file, monkeypatch):
    monkeypatch.setenv("STREAMBITS_SETTINGS", str(file("[search]\nk = 2\n")))
    assert ask() == {2}


def test_required_options_and_switches(command, job, file, tmp_path):
    query = job.parent / "queries.npy"
    path = file(f'[search]\nquery = "{query}"\n[index]\njson = true\nout = "{tmp_path}/x.index"\n')
    assert len(command("search", job, "--settings", path).lines) == 3
    assert command("index", job, "--settings", path).json["codes"] == 5000


def test_lists_and_switches_in_variables(command, job, file, monkeypatch):
    path = file(f'[search]\nquery = "{job.parent / "queries.npy"}"\nallow = [5, 9]\n')
    found = command("search", job, "--settings", path)
    assert {name for line in found.lines for name in line["ids"]} == {5, 9}
    monkeypatch.setenv("STREAMBITS_INSPECT_JSON", "1")
    assert command("inspect", job / "model.safetensors").json["kind"] == "learner"


def test_dashes_and_underscores_are_the_same(command, job, file, tmp_path):
    model = tmp_path / "m.safetensors"
    for key in ("model-out", "model_out"):
        path = file(f'[reencode]\n{key} = "{model}"\nrenew = true\n')
        rows = job.parent / "rows.npy"
        done = command("reencode", job, rows, "--out", tmp_path / "x.index", "--settings", path)
        assert done.code == 0, done.err
        model.unlink()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[search]\nquerry = 'a'", "search has no setting 'querry'; did you mean 'query'?"),
        ("[online]\nbit = 64", "online has no setting 'bit'; did you mean 'bits'?"),
        ("[onlin]\nbits = 64", "there is no verb 'onlin'; did you mean 'online'?"),
        ("bits = 64", "put bits into the table of a verb"),
        ("bits =", "is not TOML"),
        ("[search.k]\nk = 3", "k of search is a table"),
        ("[search]\nk = 'many'", "Invalid value for '--k'"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(misused, job, file, text, complaint):
    told = misused("search", job, "--query", "q.npy", "--settings", file(text))
    assert complaint in told.replace("'-k' / '--k'", "'--k'")
    assert ("my.toml" in told) == ("many" not in text)


def test_a_file_that_is_not_there(misused, job):
    told = misused("search", job, "--query", "q.npy", "--settings", "nowhere.toml")
    assert "nowhere.toml cannot be read" in told


def test_a_variable_that_is_nearly_a_setting(misused, ask, job, monkeypatch):
    monkeypatch.setenv("STREAMBITS_SERVICE_HOST", "10.0.0.1")  # what Kubernetes sets
    monkeypatch.setenv("STREAMBITS_PORT", "tcp://10.0.0.1:80")  # that too
    monkeypatch.setenv("STREAMBITS_DATA", "data")
    monkeypatch.setenv("STREAMBITS_K", "")  # nothing
    assert ask() == {10}
    monkeypatch.setenv("STREAMBITS_SEARCH_QUERYY", "a")
    told = misused("search", job)
    assert (
        "unknown variable STREAMBITS_SEARCH_QUERYY: did you mean STREAMBITS_SEARCH_QUERY?" in told
    )


def test_every_option_of_every_verb_has_a_name_of_its_own():
    for name, verb in typer.main.get_command(cli.app).commands.items():
        options = [param for param in verb.params if param.param_type_name == "option"]
        assert len(options_of(verb)) == len(options) - 1, name  # but for --settings
        assert "settings_file" in {param.name for param in options}


def complete(words, count):
    found = {"_STREAMBITS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    env = {**os.environ, **found}
    done = subprocess.run([SCRIPT], check=False, env=env, capture_output=True, text=True)
    return done.stdout.split()


def test_verbs_and_options_are_completed():
    assert complete("streambits in", 1) == ["index", "inspect"]
    found = complete("streambits search --re", 2)
    assert found == ["--real", "--rerank", "--rerank-ids", "--remote"]


def test_the_completion_of_a_shell_is_shown():
    off = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(
        [SCRIPT, "--show-completion", "bash"],
        check=True,
        env={**os.environ, **off},
        capture_output=True,
        text=True,
    )
    assert "_STREAMBITS_COMPLETE=complete_bash" in done.stdout
