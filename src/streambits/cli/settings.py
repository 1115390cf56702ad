"""Settings from a TOML file and from the environment, for every option of every verb.

A flag goes before a variable, a variable before the file, the file before the default. The file
has a table a verb: [online] bits = 64. Variables are STREAMBITS_ONLINE_BITS, or STREAMBITS_BITS
for all verbs that have the option; lists are separated by commas. STREAMBITS_SETTINGS names the
file.
"""

import inspect
import os
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from streambits._digests import check_text

PREFIX = "STREAMBITS_"
OTHERS = ("SETTINGS", "DATA", "CACHE", "POSTGRES", "DEBUG")  # variables that are no options
CLOSE = 0.85  # how like a setting a variable must look to be taken for a slip of the pen
HELP = "Settings from a TOML file, a table a verb; flags and STREAMBITS_* variables go first."


def attach(app: typer.Typer) -> None:
    """Give every verb of the app `--settings`, and let it read the environment."""
    for info in app.registered_commands:
        if info.callback is not None:
            info.callback = _settled(info.callback)


def _settled(verb: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(verb)
    def with_settings(*_: Any, settings: Any = None, **options: Any) -> Any:  # noqa: ARG001
        return verb(**options)

    option = Annotated[
        Path | None, typer.Option("--settings", callback=_apply, is_eager=True, help=HELP)
    ]
    kind = inspect.Parameter.KEYWORD_ONLY
    more = inspect.Parameter("settings", kind, default=None, annotation=option)
    found = inspect.signature(verb)
    signature = found.replace(parameters=[*found.parameters.values(), more])
    vars(with_settings)["__signature__"] = signature
    with_settings.__annotations__ = {**verb.__annotations__, "settings": option}
    return with_settings


def _apply(ctx: typer.Context, path: Path | None) -> Path | None:
    """What options have by default from here on. Runs before any other option is looked at."""
    if ctx.resilient_parsing:
        return path
    root = ctx.find_root()
    verbs = {name: options_of(verb) for name, verb in verbs_of(root).items()}
    name, own = str(ctx.info_name), options_of(ctx.command)
    chosen = path or root.params.get("settings") or os.environ.get(PREFIX + "SETTINGS") or None
    told = {} if chosen is None else read(Path(chosen), verbs).get(name, {})
    told |= from_environment(name, own, verbs, os.environ)
    ctx.default_map = {own[key].name: _plain(value, own[key]) for key, value in told.items()}
    return path


def verbs_of(root: Any) -> dict[str, Any]:
    """The commands of a group by name, none if it is none."""
    return dict(getattr(root.command, "commands", {}))


def options_of(verb: Any) -> dict[str, Any]:
    """The options of a verb by the names that settings have: those of the flags, with _ for -."""
    found = {}
    for param in verb.params:
        long = [name for name in param.opts if name.startswith("--")]
        if long and param.name not in ("help", "settings"):
            found[long[-1].removeprefix("--").replace("-", "_")] = param
    return found


def read(path: Path, verbs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The tables of a file; what no verb knows is an error that names the nearest."""
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
    told = {}
    for verb, table in content.items():
        if not isinstance(table, dict):
            raise typer.BadParameter(f"{path}: put {verb} into the table of a verb, like [online]")
        _check(verb, verbs, f"{path}: there is no verb {verb!r}")
        told[verb] = {key.replace("-", "_"): value for key, value in table.items()}
        for key, value in told[verb].items():
            _check(key, verbs[verb], f"{path}: {verb} has no setting {key!r}")
            if isinstance(value, dict):
                raise typer.BadParameter(f"{path}: {key} of {verb} is a table, not a value")
    return told


def from_environment(
    name: str,
    own: Mapping[str, Any],
    verbs: Mapping[str, Mapping[str, Any]],
    variables: Mapping[str, str],
) -> dict[str, str]:
    """What variables say about the options of a verb; one that is nearly a setting is an error."""
    ours = {k.removeprefix(PREFIX): v for k, v in variables.items() if k.startswith(PREFIX)}
    general = {key.upper() for options in verbs.values() for key in options}
    exact = {_variable(verb, key) for verb, options in verbs.items() for key in options}
    known = {*general, *exact, *OTHERS}
    for variable in sorted(ours.keys() - known):
        close = get_close_matches(variable, sorted(known), 1, CLOSE)
        if close:
            raise typer.BadParameter(
                f"the variable {PREFIX}{variable} is no setting: did you mean {PREFIX}{close[0]}?"
            )
    told = {}
    for key in own:
        value = ours.get(_variable(name, key)) or ours.get(key.upper())
        if value:
            told[key] = value
    return told


def _variable(verb: str, key: str) -> str:
    return f"{verb}_{key}".upper().replace("-", "_")


def _check(name: str, known: Mapping[str, Any], complaint: str) -> None:
    if name not in known:
        close = get_close_matches(name, known, 1, 0)
        raise typer.BadParameter(f"{complaint}; did you mean {close[0]!r}?" if close else complaint)


def _plain(value: Any, option: Any) -> Any:
    """A value as the command line would give it: text, or a list of texts."""
    if getattr(option, "multiple", False):
        parts = value.split(",") if isinstance(value, str) else value
        return [_text(part) for part in (parts if isinstance(parts, list) else [parts])]
    return ",".join(map(_text, value)) if isinstance(value, list) else _text(value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
