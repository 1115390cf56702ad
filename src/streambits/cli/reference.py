"""The reference of all verbs, written from their `--help`.

python -m streambits.cli.reference > docs/commands.md
"""

import sys
from collections.abc import Iterator
from textwrap import fill
from typing import Any

import typer

from streambits.cli.app import app
from streambits.cli.config import OWN, Verb, verbs_of
from streambits.cli.settings import default_of, described, shared_settings

HEAD = """<!-- Written by `python -m streambits.cli.reference`: change the verbs, not this page. -->

# Commands

Results go to standard output, progress and complaints to standard error. Exit codes: 0 done, 1
failed, 2 wrong use, 70 a fault of streambits, 130 interrupted. `STREAMBITS_DEBUG=1` adds
tracebacks. `streambits --install-completion` completes verbs and options.

A verb shows what most need. Its other [settings](#settings) are set by `--set name=value`, or in a
TOML file of such lines that `--config` names. An option wins over `--set`, and `--set` over the
file. Secrets come from variables: `STREAMBITS_TOKEN`, `STREAMBITS_NATS_...`,
`STREAMBITS_KAFKA_...`, `PGPASSWORD`. Defaults are in brackets.

"""
WIDTH = 100


def reference() -> str:
    """The whole page."""
    verbs = verbs_of(typer.main.get_command(app))
    options = [_described(one) for verb in verbs.values() for one in _options(verb)]
    shared = sorted({one for one in options if options.count(one) > 1})
    lines = [line for name in sorted(verbs) for line in _verb(name, verbs[name], shared)]
    groups: dict[str, list[str]] = {}
    for name, (option, having) in shared_settings(verbs):
        text = f"- `{name}`{': as above.' if _described(option) in options else _cell(option)}"
        groups.setdefault(", ".join(having), []).append(text)
    lines += ["## Options of several verbs\n", *shared, "\n## Settings\n"]
    for group, texts in sorted(groups.items()):
        lines += [f"{group}:\n", *texts, ""]
    return HEAD + "\n".join(lines)


def _options(verb: Verb) -> list[Any]:
    """The options that a verb shows."""
    options = (one for one in verb.params if one.param_type_name == "option")
    return [one for one in options if one.name not in (*OWN, "help")]


def _flags(option: Any) -> str:
    return f"`{'`, `'.join([*option.opts, *option.secondary_opts])}`"


def _described(option: Any) -> str:
    return f"- {_flags(option)}{_cell(option)}"


def _verb(name: str, verb: Verb, shared: list[str]) -> Iterator[str]:
    arguments = [one for one in verb.params if one.param_type_name == "argument"]
    text, _, example = (verb.help or "").partition("Example: ")
    yield f"## {name}\n"
    for part in text.strip().split("\n\n"):
        yield fill(" ".join(part.split()), WIDTH) + "\n"
    yield f"    {example.strip()}\n"
    yield from (f"- `{str(one.name).upper()}`: {described(one)}" for one in arguments)
    options = {_described(one): _flags(one) for one in _options(verb)}
    yield from (line for line in options if line not in shared)
    if also := [flags for line, flags in options.items() if line in shared]:
        yield f"- Also {', '.join(also)}."
    yield ""


def _cell(option: Any) -> str:
    """The default of an option, and what it is for."""
    default = default_of(option)
    shown = f" ({default})" if default not in ("", "false") else ""
    return f"{shown}: {described(option)}" + (" Required." if option.required else "")


if __name__ == "__main__":
    sys.stdout.write(reference())
