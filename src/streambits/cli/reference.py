"""The reference of all verbs, written from their `--help`.

python -m streambits.cli.reference > docs/commands.md
"""

import sys
from collections.abc import Iterator
from textwrap import fill
from typing import Any

import typer

from streambits.cli.app import app
from streambits.cli.config import PARAMETER

HEAD = """<!-- Written by `python -m streambits.cli.reference`: change the verbs, not this page. -->

# Commands

`streambits VERB --help` says in a terminal what this page says of a verb.
`streambits --install-completion` lets your shell complete verbs and options.

"""
TAIL = """
**Output.** Results go to standard output, progress and complaints to standard error. The exit code
is 0, 1 (failed: one line says why), 2 (wrong use), 70 (a fault of streambits) or 130 (interrupted).
`STREAMBITS_DEBUG=1` adds the traceback to what failed.

**Settings.** Every option can also come from a TOML file with one table per verb, which
`--settings` or `STREAMBITS_SETTINGS` names (`[online]`, then `bits = 64`), or from a variable:
`STREAMBITS_ONLINE_BITS` for one verb, `STREAMBITS_BITS` for all verbs that have the option. An
option on the command line wins over a variable, and a variable over the file.
"""
WIDTH = 100
LEFT_OUT = ("help", PARAMETER)


def reference() -> str:
    """The whole page."""
    group = typer.main.get_command(app)
    verbs: dict[str, Any] = group.commands  # type: ignore[attr-defined]
    table = ["| verb | what it does |", "|---|---|"]
    table += [f"| [`{name}`](#{name}) | {_first(verbs[name])} |" for name in sorted(verbs)]
    entries = [line for name in sorted(verbs) for line in _verb(name, verbs[name])]
    return HEAD + "\n".join([*table, TAIL, *entries])


def _first(verb: Any) -> str:
    """The first paragraph of its help, for a cell of the table."""
    return " ".join(verb.help.partition("\n\n")[0].split()).replace("|", "\\|")


def _verb(name: str, verb: Any) -> Iterator[str]:
    shown = [p for p in verb.params if p.name not in LEFT_OUT and not getattr(p, "hidden", False)]
    arguments = [p for p in shown if p.param_type_name == "argument"]
    options = [p for p in shown if p.param_type_name == "option"]
    usage = [p.name.upper() + ("..." if p.nargs != 1 else "") for p in arguments]
    text, example = _split("\n\n".join(filter(None, (verb.help, verb.epilog))))
    yield f"## {name}\n"
    yield f"    streambits {' '.join([name, *usage])} [OPTIONS]\n"
    yield f"{text}\n"
    yield f"Example:\n\n    {example}\n"
    yield "| | |\n|---|---|"
    for param in arguments:
        yield f"| `{param.name.upper()}` | {_cell(param)} |"
    for param in options:
        yield f"| `{'`, `'.join([*param.opts, *param.secondary_opts])}` | {_cell(param)} |"
    yield ""


def _split(text: str) -> tuple[str, str]:
    """The description, and the command after 'Example:'."""
    kept = [part for part in text.split("\n\n") if not part.startswith("Example:")]
    found = [part for part in text.split("\n\n") if part.startswith("Example:")]
    example = " ".join(found[0].split()).removeprefix("Example: ") if found else ""
    return "\n\n".join(fill(" ".join(part.split()), WIDTH) for part in kept), example


def _cell(param: Any) -> str:
    """What an option is for, which values it takes, and its default."""
    words = [" ".join((param.help or "").split()).replace("|", "\\|")]
    if param.required and param.param_type_name == "option":
        words.append("Required.")
    default = getattr(param.default, "value", param.default)
    plain = default is not None and not isinstance(default, bool) and default != ""
    if plain and not callable(default) and getattr(param, "show_default", True):
        words.append(f"Default: `{default}`.")
    return " ".join(words)


if __name__ == "__main__":
    sys.stdout.write(reference())
