"""Settings of a verb: options that it shows, and all others by `--set` and one flat TOML file.

An option goes before `--set`, `--set` before the file of `--config`, and the file before the
default. `Verb` keeps options that are declared hidden out of its `--help`: they are its settings.
All values are read by the declared types of the options, with the place that they come from.
"""

import inspect
import os
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

from streambits._digests import check_text

PREFIX = "STREAMBITS_"
SET = "streambits.set"  # in the meta of a context: names that --set gives
KUBERNETES = ("PORT",)  # of variables that it sets for a service of our name
DASK = "divide the work from Python (docs/scale.md)"
GONE = {  # names of earlier versions, alone or after that of a verb, and what to use instead
    **dict.fromkeys(("engine", "scheduler", "workers", "row_groups"), DASK),
    **dict.fromkeys(("remote", "partitions", "partition_by"), DASK),
    "group": "one process reads messages of many rows (docs/messages.md)",
    "kafka_properties": f"name settings of Kafka in variables {PREFIX}KAFKA_... (docs/messages.md)",
    "settings": "use --config FILE, a TOML file without tables",
    "evaluate html": "use --plot FILE.png or --json",
    "evaluate rows": "name the rows after the model; runbooks are in benchmarks/runbooks.py",
    "evaluate runbook": "use python -m benchmarks.runbooks in the repository",
    "evaluate generate": "use python -m benchmarks.runbooks in the repository",
    **dict.fromkeys(("every_epoch", "bit_strings"), "encode queries in Python (docs/postgres.md)"),
    "demo out": "python -m paper draws plots in the repository",
}


class Given(NamedTuple):
    """A setting as it was given: its value as text, and where."""

    name: str
    text: str
    place: str


class Verb(TyperCommand):
    """A command with settings: hidden options, which `--set` and `--config` reach."""

    def __init__(self, name: str | None, **more: Any) -> None:
        super().__init__(name, **more)
        self.table: dict[str, Any] = {name_of(one): one for one in self.params if name_of(one)}
        self.settings = {name: one for name, one in self.table.items() if one.hidden}
        hidden = list(self.settings.values())
        self.params = [one for one in self.params if one not in hidden]
        if hidden:
            self.epilog = f"All other settings, for --set and --config: streambits settings {name}"
        else:
            self.params = [one for one in self.params if one.name not in OWN]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, and then the settings."""
        if not ctx.resilient_parsing:
            _check_flags(ctx, self, args)
            _check_variables(ctx)
        rest = super().parse_args(ctx, args)
        for option in self.settings.values():
            option.handle_parse_result(ctx, {}, [])
        for name in ctx.meta.get(SET, ()):
            source = ctx.get_parameter_source(self.table[name].name)
            if source.name == "COMMANDLINE":
                ctx.fail(f"{name} is given by an option and by --set: keep one of them")
        return rest


def _read_file(ctx: typer.Context, path: Path | None) -> None:
    """Values of the file are defaults of this verb, unless `--set` has others."""
    if path is not None and not ctx.resilient_parsing:
        ctx.default_map = _checked(ctx, read_config(path)) | dict(ctx.default_map or {})


def _read_words(ctx: typer.Context, words: list[str] | None) -> list[str]:
    """Values of `--set` are defaults of this verb, and go before those of the file."""
    if ctx.resilient_parsing or not words:
        return []
    given = []
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise typer.BadParameter(f"{word}: write it as name=value")
        given.append(Given(name.strip().replace("-", "_"), text, word))
    names = [one.name for one in given]
    twice = next((one for one in given if names.count(one.name) > 1), None)
    if twice is not None:
        raise typer.BadParameter(f"{twice.name} is set twice: keep one of them")
    ctx.default_map = dict(ctx.default_map or {}) | _checked(ctx, given)
    ctx.meta[SET] = names
    return words  # typer 0.16 wants a list


CONFIG_HELP = "TOML file of settings: one name = value a line, without tables."
SET_HELP = "Any setting, as name=value; may be repeated."
PARAMETERS = tuple(
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
    for name, annotation in {
        "set_": Annotated[
            list[str] | None,
            typer.Option(
                "--set", metavar="NAME=VALUE", callback=_read_words, is_eager=True, help=SET_HELP
            ),
        ],
        "config": Annotated[
            Path | None,
            typer.Option("--config", callback=_read_file, is_eager=True, help=CONFIG_HELP),
        ],
    }.items()
)
OWN = tuple(one.name for one in PARAMETERS)


def name_of(param: Any) -> str:
    """The name of an option as a setting: that of its flag; empty for an argument."""
    long = [flag for flag in param.opts if flag.startswith("--")]
    if not long or param.name in ("help", *OWN):
        return ""
    return str(long[-1]).removeprefix("--").replace("-", "_")


def verbs_of(root: Any) -> dict[str, Verb]:
    """The verbs of a group, by name."""
    return dict(getattr(root, "commands", {}))


def read_config(path: Path) -> Iterator[Given]:
    """The lines of a file of settings."""
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:  # a number may have too many digits
        raise typer.BadParameter(f"{path} is not TOML: {error}") from None
    check_text(text, path)
    if not content:
        raise typer.BadParameter(f"{path} has no settings: write one name = value a line")
    lines = [line.partition("=")[0].strip().strip("\"'") for line in text.splitlines()]
    for key, value in content.items():
        place = f"{path}, line {lines.index(key) + 1}" if key in lines else str(path)
        if isinstance(value, dict):
            raise typer.BadParameter(
                f"{path}: [{key}] is a table: write one name = value a line, without tables"
            )
        text = _text(value, f"{place}: {key}")
        yield Given(key.replace("-", "_"), text, f"{place}: {key} = {text}")


def _checked(ctx: typer.Context, given: Any) -> dict[str, Any]:
    """The values by the names of parameters; what the verb does not know is an error."""
    verb: Any = ctx.command
    found = {}
    for name, text, place in given:
        if name not in verb.table:
            raise typer.BadParameter(f"{place}: {_unknown(ctx, verb, name)}")
        option = verb.table[name]
        try:
            option.process_value(ctx, text)
        except typer.BadParameter as error:
            raise typer.BadParameter(f"{place}: {_reason(error)}") from None
        found[option.name] = text
    return found


def _reason(error: typer.BadParameter) -> str:
    return str(error.message).removeprefix("Value error, ").rstrip(".")


def _unknown(ctx: typer.Context, verb: Verb, name: str) -> str:
    """What is wrong with the name of a setting, and what to use."""
    if gone := GONE.get(f"{verb.name} {name}", GONE.get(name)):
        return f"{name} is not a setting any more: {gone}"
    others = verbs_of(ctx.find_root().command)
    having = [one for one, other in others.items() if name in getattr(other, "table", {})]
    if having:
        return f"{name} is a setting of {', '.join(having)}, not of {verb.name}: leave it out"
    close = " or ".join(repr(one) for one in get_close_matches(name, verb.table, 2))
    remedy = f"did you mean {close}?" if close else f"streambits settings {verb.name} lists all"
    return f"{verb.name} has no setting {name!r}: {remedy}"


def _check_flags(ctx: Any, verb: Verb, args: list[str]) -> None:
    """Say of options that are not shown, or that went, what to write instead."""
    flags = {flag for one in verb.params for flag in (*one.opts, *one.secondary_opts)}
    for word in args:
        flag = word.partition("=")[0]
        name = flag.removeprefix("--").replace("-", "_")
        if word == "--":
            return
        if not flag.startswith("--") or flag in flags:
            continue
        plain = name if name in verb.settings else name.removeprefix("no_")
        if plain in verb.settings:
            value = "VALUE" if plain == name and not verb.settings[plain].is_flag else "true|false"
            ctx.fail(f"{flag} is a setting: write --set {plain}={value}")
        if gone := GONE.get(f"{verb.name} {name}", GONE.get(name)):
            ctx.fail(f"{flag} is not an option any more: {gone}")


def _check_variables(ctx: typer.Context) -> None:
    """Refuse variables that earlier versions took for options, in place of ignoring them."""
    verbs = verbs_of(ctx.find_root().command)
    names = {name: name for one in verbs.values() for name in getattr(one, "table", {})}
    names |= {f"{verb}_{name}": name for verb, one in verbs.items() for name in one.table}
    for variable in sorted(one for one in os.environ if one.startswith(PREFIX)):
        name = variable.removeprefix(PREFIX)
        if name == "SETTINGS" or (name.lower() in names and name not in KUBERNETES):
            what = "--config FILE" if name == "SETTINGS" else f"--set {names[name.lower()]}=VALUE"
            if os.environ[variable]:
                raise typer.BadParameter(f"{variable} is not read any more: use {what}")


def _text(value: Any, place: str) -> str:
    """A value as it is written in a command: 64.5 bits are refused there as they are here."""
    if isinstance(value, list):
        parts = [_text(one, place) for one in value]
        if any("," in one for one in parts):
            raise typer.BadParameter(f"{place}: a comma within a name of a list cannot be used")
        return ",".join(parts)
    if isinstance(value, Mapping):
        raise typer.BadParameter(f"{place}: a table is not a value")
    return str(value).lower() if isinstance(value, bool) else str(value)
