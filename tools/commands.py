"""The reference of all verbs, written from their `--help`.

python -m tools.commands > docs/commands.md
"""

import sys
from collections.abc import Iterator
from textwrap import fill
from typing import Any

import typer

from streambits.cli.app import app
from streambits.cli.config import Verb, name_of, verbs_of
from streambits.cli.settings import default_of, described, shared_options

HEAD = """<!-- Written by `python -m tools.commands`: change the verbs, not this page. -->

# Commands

Results go to standard output, progress and complaints to standard error. Exit codes: 0 done, 1
failed, 2 wrong use, 70 a fault of streambits, 130 interrupted. `STREAMBITS_DEBUG=1` adds
tracebacks. `streambits --install-completion` completes verbs and options.

A verb shows what most need: its options. Its settings, here without dashes, are set by
`--set name=value`, or in a TOML file of such lines that `--config` names. Both take the names of
options, too, and some options of one verb are settings of another. An option wins over `--set`,
and `--set` over the file. Secrets come from variables: `STREAMBITS_TOKEN`, `STREAMBITS_NATS_...`,
`STREAMBITS_KAFKA_...`, `PGPASSWORD`. Defaults are in brackets.

"""
WIDTH = 100


def reference() -> str:
    """The whole page."""
    verbs = verbs_of(typer.main.get_command(app))
    groups: dict[str, list[str]] = {}
    for _, option, having in shared_options({name: one.table for name, one in verbs.items()}):
        groups.setdefault(", ".join(having), []).append(_described(option))
    lines = []
    for name, verb in sorted(verbs.items()):
        lines += [*_verb(name, verb, sorted(groups.pop(name, []))), ""]
    lines += ["## Options of several verbs\n"]
    for group, texts in sorted(groups.items()):
        lines += [f"{group}:\n", *sorted(texts), ""]
    return HEAD + "\n".join(lines)


def _verb(name: str, verb: Verb, alone: list[str]) -> Iterator[str]:
    """What a verb does, its example, its arguments and its options. alone: those of no other."""
    text, _, example = (verb.help or "").partition("Example: ")
    yield f"## {name}\n"
    for part in text.strip().split("\n\n"):
        yield fill(" ".join(part.split()), WIDTH) + "\n"
    yield f"    {example.strip()}\n"
    for one in verb.params:
        if one.param_type_name == "argument":
            yield f"- `{str(one.name).upper()}`: {described(one)}"
    yield from alone
    shown = [one for one in verb.table.values() if not one.hidden]
    if also := [_flags(one) for one in shown if _described(one) not in alone]:
        yield f"- Also {', '.join(also)}."


def _flags(option: Any) -> str:
    """How an option is written; a setting by its name."""
    return f"`{name_of(option)}`" if option.hidden else f"`{'`, `'.join(option.opts)}`"


def _described(option: Any) -> str:
    """An option, its default, and what it is for."""
    default = default_of(option)
    shown = f" ({default})" if default not in ("", "false") else ""
    return (
        f"- {_flags(option)}{shown}: {described(option)}{' Required.' if option.required else ''}"
    )


if __name__ == "__main__":
    sys.stdout.write(reference())
