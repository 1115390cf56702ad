"""Settings from a TOML file and from the environment, for every option of every verb.

A flag goes before a variable, a variable before the file, the file before the default. The file
has one table per verb: [online] bits = 64. Variables are STREAMBITS_ONLINE_BITS, or STREAMBITS_BITS
for all verbs that have the option. STREAMBITS_SETTINGS names the file. All of that is click's own
doing: `Verb` gives its options their variables, and the file is its default map.
"""

import inspect
import os
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from streambits._digests import check_text

PREFIX = "STREAMBITS_"
OTHERS = ("SETTINGS", "DATA", "CACHE", "POSTGRES", "DEBUG", "TOKEN", "SLOW")  # not options
KUBERNETES = ("PORT", "SERVICE_HOST", "SERVICE_PORT")  # what it sets for a service of our name
CLOSE = 0.85  # how like a setting a variable must look to be taken for a slip of the pen
HELP = "TOML file with settings, one table per verb. Flags and STREAMBITS_* variables go first."
PARAMETER = "settings_file"


class Verb(TyperCommand):
    """A command whose options can come from variables."""

    def __init__(self, name: str | None, **more: Any) -> None:
        super().__init__(name, **more)
        for key, option in options_of(self).items():
            names = [f"{name}_{key}", key]
            option.envvar = [_variable(one) for one in names if one.upper() not in KUBERNETES]
            option.show_envvar = False


def _read_for_all(ctx: typer.Context, path: Path | None) -> None:
    """The defaults of all verbs are those of the file from here on."""
    if path is not None and not ctx.resilient_parsing:
        ctx.default_map = read_settings(path, verbs_of(ctx))


def _read_for_one(ctx: typer.Context, path: Path | None) -> None:
    """The defaults of this verb are those of the file. Runs before other options are read."""
    if ctx.resilient_parsing:
        return
    verbs = verbs_of(ctx.find_root())
    check_variables(verbs, os.environ)
    if path is not None:
        ctx.default_map = read_settings(path, verbs).get(str(ctx.info_name), {})


SettingsFile = Annotated[  # before the verb
    Path | None,
    typer.Option(
        "--settings",
        envvar=f"{PREFIX}SETTINGS",
        show_envvar=False,
        callback=_read_for_all,
        is_eager=True,
        help=HELP,
    ),
]
OPTION = inspect.Parameter(  # after it
    PARAMETER,
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        Path | None, typer.Option("--settings", callback=_read_for_one, is_eager=True, help=HELP)
    ],
)


def verbs_of(root: Any) -> dict[str, dict[str, Any]]:
    """The options of each verb of a group, by name."""
    commands = getattr(root.command, "commands", {})
    return {name: options_of(verb) for name, verb in commands.items()}


def options_of(verb: Any) -> dict[str, Any]:
    """The options of a verb by the names that settings have: those of the flags, with _ for -."""
    found = {}
    for param in verb.params:
        long = [name for name in param.opts if name.startswith("--")]
        if long and param.name not in ("help", PARAMETER):
            found[long[-1].removeprefix("--").replace("-", "_")] = param
    return found


def read_settings(path: Path, verbs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The tables of a file as click reads them; what no verb knows is an error."""
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:  # a number may have too many digits
        raise typer.BadParameter(f"{path} is not TOML: {error}") from None
    check_text(text, path)
    if not content:
        raise typer.BadParameter(f"{path} is empty: it should have the table of a verb")
    return {verb: _table(path, verb, table, verbs) for verb, table in content.items()}


def _table(
    path: Path, verb: str, table: Any, verbs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise typer.BadParameter(f"{path}: put {verb} into the table of a verb, like [online]")
    _check(verb, verbs, f"{path}: there is no verb {verb!r}")
    found = {}
    for name, value in table.items():
        key = name.replace("-", "_")
        _check(key, verbs[verb], f"{path}: {verb} has no setting {key!r}")
        if isinstance(value, dict):
            raise typer.BadParameter(f"{path}: {key} of {verb} is a table, not a value")
        found[verbs[verb][key].name] = _text(value)
    return found


def check_variables(verbs: Mapping[str, Mapping[str, Any]], variables: Mapping[str, str]) -> None:
    """Refuse a variable that is nearly one of ours; others are somebody else's."""
    names = {_variable(key) for options in verbs.values() for key in options}
    names |= {_variable(f"{verb}_{key}") for verb, options in verbs.items() for key in options}
    ours = {name.removeprefix(PREFIX) for name in names} | {*OTHERS, *KUBERNETES}
    for variable in sorted(name for name in variables if name.startswith(PREFIX)):
        name = variable.removeprefix(PREFIX)
        close = [] if name in ours else get_close_matches(name, sorted(ours), 1, CLOSE)
        if close:
            raise typer.BadParameter(
                f"unknown variable {variable}: did you mean {PREFIX}{close[0]}?"
            )


def _variable(name: str) -> str:
    return PREFIX + name.upper().replace("-", "_")


def _check(name: str, names: Mapping[str, Any], complaint: str) -> None:
    if name not in names:
        close = get_close_matches(name, names, 1, 0)
        raise typer.BadParameter(f"{complaint}; did you mean {close[0]!r}?" if close else complaint)


def _text(value: Any) -> str:
    """A value as it is written in a command: 64.5 bits are refused there as they are here."""
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
