"""The reference of the commands, and what every verb's help must have."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from streambits.cli import app as cli
from tools.commands import reference

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
VERBS = typer.main.get_command(cli.app).commands
WORDS = 2000


def test_the_page_is_current_and_short():
    assert PAGE.read_text() == reference(), "python -m tools.commands > docs/commands.md"
    assert len(PAGE.read_text().split()) <= WORDS


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_an_example_that_parses(name):
    [example] = re.findall(rf"## {name}\n.*?\n    ([^\n]*)\n", reference(), re.DOTALL)
    words = shlex.split(example)
    words = words[words.index("streambits") + 1 :]
    assert words[0] == name
    with VERBS[name].make_context(name, words[1:], resilient_parsing=True) as context:
        assert not context.args


@pytest.mark.parametrize("name", sorted(VERBS.keys() - {"settings"}))
def test_every_verb_speaks_json(name):
    assert "json" in VERBS[name].table
