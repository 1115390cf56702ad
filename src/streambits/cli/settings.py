"""`streambits settings`: the names that `--set` and `--config` take."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from streambits.cli import output
from streambits.cli.config import verbs_of


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
    chosen = verbs if verb is None else {verb: verbs[verb]}
    rows = [
        (name, default_of(one), described(one), *([] if verb else [", ".join(having)]))
        for name, one, having in shared_options(
            {name: one.settings for name, one in chosen.items()}
        )
    ]
    heads = ("setting", "default", "what it is for", *([] if verb else ["verbs"]))
    output.stdout().print(output.table("", heads, rows))


def shared_options(tables: dict[str, dict[str, Any]]) -> Iterator[tuple[str, Any, list[str]]]:
    """Each name and option of the verbs, and which of them have it with the same help."""
    shared: dict[tuple[str, str], tuple[Any, list[str]]] = {}
    for verb, options in tables.items():
        for name, option in options.items():
            shared.setdefault((name, str(option.help)), (option, []))[1].append(verb)
    yield from ((name, *shared[name, text]) for name, text in sorted(shared))


def described(option: Any) -> str:
    """What an option is for, in one line."""
    return " ".join((option.help or "").split())


def default_of(option: Any) -> str:
    """The default of an option as one would write it; empty if there is none."""
    default = getattr(option.default, "value", option.default)
    if default is None or callable(default) or default == "":
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)
