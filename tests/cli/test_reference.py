"""The reference of the commands, and what every verb's help must have."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from streambits.cli import app as cli
from streambits.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
VERBS = typer.main.get_command(cli.app).commands


def test_the_page_is_current():
    assert PAGE.read_text() == reference(), "python -m streambits.cli.reference > docs/commands.md"


def test_it_is_written_by_its_own_command():
    command = [sys.executable, "-m", "streambits.cli.reference"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == reference()


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_an_example_that_parses(name):
    help_ = CliRunner().invoke(cli.app, [name, "--help"]).output
    text = " ".join(help_.split())
    assert f"streambits {name} " in text
    [example] = re.findall(rf"## {name}\n.*?Example:\n\n    (.*?)\n", reference(), re.DOTALL)
    words = shlex.split(example)
    words = words[words.index("streambits") + 1 :]
    assert words[0] == name
    verb = VERBS[name]
    with verb.make_context(name, words[1:], resilient_parsing=True) as context:
        assert not context.args


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_speaks_json_or_is_told_why_not(name):
    assert "--json" in {flag for param in VERBS[name].params for flag in param.opts}
