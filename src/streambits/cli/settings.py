"""`streambits settings`: the names that `--set` and `--config` take."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.table import Table

from streambits.cli import output
from streambits.cli.config import Verb, verbs_of


def settings_command(
    context: typer.Context,
    verb: Annotated[str | None, typer.Argument(help="A verb. Default: all of them.")] = None,
) -> None:
    """List the settings of a verb, for --set and --config.

    Example: streambits settings learn
    """
    verbs = {
        name: one for name, one in verbs_of(context.find_root().command).items() if one.settings
    }
    if verb is not None and verb not in verbs:
        raise typer.BadParameter(f"{verb!r} has no settings: choose one of {', '.join(verbs)}")
    table = Table("setting", "default", "what it is for", *([] if verb else ["verbs"]))
    for name, (option, having) in shared_settings(verbs if verb is None else {verb: verbs[verb]}):
        cells = (name, default_of(option), described(option))
        table.add_row(*cells, *([] if verb else [", ".join(having)]))
    output.stdout().print(table)


def shared_settings(verbs: dict[str, Verb]) -> Iterator[tuple[str, tuple[Any, list[str]]]]:
    """For each setting, by name, its option and the verbs that have it with the same help."""
    found: dict[tuple[str, str], tuple[Any, list[str]]] = {}
    for verb, one in verbs.items():
        for name, option in one.settings.items():
            found.setdefault((name, str(option.help)), (option, []))[1].append(verb)
    yield from ((name, found[name, text]) for name, text in sorted(found))


def described(option: Any) -> str:
    """What an option is for, in one line."""
    return " ".join((option.help or "").split())


def default_of(option: Any) -> str:
    """The default of an option as one would write it; empty if there is none."""
    default = getattr(option.default, "value", option.default)
    if default is None or callable(default) or default == "":
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)
