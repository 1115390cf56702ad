"""Options that several verbs share, and options made from the fields of a dataclass.

`Settings` and `JobOptions` declare each option once, with its help, limits and default. A verb that
has a parameter of such a type has one option per field; `Shown` names those that its help shows.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import typer

from streambits.cli.config import PARAMETERS
from streambits.io.protocols import Source
from streambits.io.rows import open_source
from streambits.jobs.job import Pace
from streambits.methods.settings import Settings

PACE = Pace()
DEVICE_COMMIT_ROWS = 16 * PACE.rows
SOURCE = "Files, folders, globs, -, nats://host/stream or kafka://host/topic."
MODEL_HELP = "A model file, or the folder of a job."

Sources = Annotated[list[str], typer.Argument(help=SOURCE)]
Rows = Annotated[str, typer.Argument(help="Rows: file, folder, glob, or -.")]
Out = Annotated[Path, typer.Option(help="Folder of the job.")]
To = Annotated[
    str | None,
    typer.Option(
        help="A file to write at the end: .jsonl, .npy, .parquet, .index or .faiss; or, in place "
        "of Parquet in the folder, postgresql://host/database?table=name."
    ),
]
Model = Annotated[
    Path | None, typer.Option(help="The model. Default: the one recorded with the codes.")
]
From = Annotated[
    Path | None, typer.Option("--from", help="Learner or job to go on from, with its settings.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def option(default: Any, text: str, **limits: Any) -> Any:
    """A field with its help. limits: least, most, choices; or words allowed beside a number."""
    return field(default=default, metadata={"help": text, **limits})


def refusing(case: str) -> Any:
    """A field that says whether a case is an error."""
    return option("refuse", f"{case}: refuse, or accept.", choices=("refuse", "accept"))


READ = "columns ids json"  # options of all who read rows


@dataclass(frozen=True)
class RowOptions:
    """How a verb reads rows, and prints its result."""

    columns: str | None = option(
        None, "Columns or keys of the vector. Default: the only list, or all numbers."
    )
    ids: str | None = option(None, "Id column or key (Kafka also @key). Default: rows are counted.")
    format: str | None = option(
        None, "Format; of messages json, arrow or f4. Default: by file name, csv for -."
    )
    json: bool = option(False, "Print JSON.")

    def open(self, paths: str | list[str], **more: Any) -> Source:
        """Open a source of rows. more: as for `open_source`."""
        columns = column_names(self.columns)
        return open_source(paths, columns=columns, ids=self.ids, format=self.format, **more)


@dataclass(frozen=True)
class StreamOptions(RowOptions):
    """How a verb reads a stream."""

    removed: str | None = option(None, "Column or key that is true where an id is removed.")
    retry_seconds: float | None = option(
        None, "Seconds to wait for a broker or database. Default: 60.", least=0
    )


@dataclass(frozen=True)
class JobOptions(StreamOptions):
    """How a job reads its source, commits, and reports."""

    keep: str | None = option(None, "Further columns or keys to keep as texts.")
    follow: bool = option(False, "Keep reading from a broker until interrupted.")
    idle: float | None = option(None, "Follow until so many seconds bring no row.", least=0)
    changed_source: str = refusing("If files read before have changed")
    out_of_reach: str = refusing("If over half of a batch is too far from all landmarks")
    skip_bad: bool = option(False, "Put bad rows aside in a file, and go on.")
    commit_rows: int = option(
        PACE.rows, "Rows between two commits at most; on a device 16 times as many.", least=1
    )
    commit_seconds: float = option(PACE.seconds, "Seconds between two commits at most.", least=0.01)
    device: str | None = option(None, "Torch device to learn and encode on, such as cuda.")
    quiet: bool = option(False, "Print only errors to stderr.")
    log_json: bool = option(False, "Print JSON lines to stderr.")
    metrics_port: int | None = option(
        None, "Loopback port for Prometheus metrics.", least=0, most=65535
    )

    @property
    def pace(self) -> Pace:
        """How often the job commits.

        On a device more rows wait to be learned, and all of them are in a checkpoint; so it commits
        more rarely there, unless a number of rows is set.
        """
        usual = self.device is not None and self.commit_rows == PACE.rows
        return Pace(DEVICE_COMMIT_ROWS if usual else self.commit_rows, self.commit_seconds)

    @property
    def refuse(self) -> bool:
        """Whether rows out of reach are an error."""
        return self.out_of_reach == "refuse"

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of what is kept beside the codes."""
        return tuple(column_names(self.keep) or ())

    def open(self, paths: str | list[str], **more: Any) -> Source:
        """Open the source of the job."""
        return super().open(
            paths,
            removed=self.removed,
            keep=self.kept,
            follow=self.follow,
            idle=self.idle,
            retry_seconds=self.retry_seconds,
            accept_changes=self.changed_source == "accept",
            **more,
        )


def given_settings(context: typer.Context) -> list[str]:
    """Names of the settings that are not left at their defaults."""
    sources = {one.name: context.get_parameter_source(one.name) for one in fields(Settings)}
    return [name for name, source in sources.items() if source and source.name != "DEFAULT"]


class Shown(NamedTuple):
    """Which fields of a dataclass a verb shows as options, and those that it does not have."""

    names: str
    without: str = ""


def column_names(columns: str | None) -> list[str] | None:
    """Names of columns, with commas between."""
    return columns.split(",") if columns else None


def expanded(verb: Callable[..., None]) -> Callable[..., None]:
    """The function as typer reads it: a parameter that is a dataclass is one option per field."""
    parameters, groups = list[inspect.Parameter](), dict[str, tuple[Any, list[str]]]()
    for name, hint in get_type_hints(verb, include_extras=True).items():
        kind, *about = get_args(hint) or (hint,)
        if is_dataclass(kind):
            shown = about[0] if about else Shown("")
            own = [one for one in fields(kind) if one.name not in shown.without.split()]
            groups[name] = (kind, [one.name for one in own])
            parameters += [_parameter(one, one.name in shown.names.split()) for one in own]
        elif name != "return":
            parameter = inspect.signature(verb).parameters[name]
            parameters.append(parameter.replace(annotation=hint))

    @wraps(verb)
    def call(**options: Any) -> None:
        for one in PARAMETERS:
            options.pop(one.name, None)
        for name, (kind, names) in groups.items():
            options[name] = kind(**{one: _plain(options.pop(one)) for one in names})
        verb(**options)

    every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    vars(call)["__signature__"] = inspect.Signature([*every, *PARAMETERS])
    call.__annotations__ = {one.name: one.annotation for one in (*every, *PARAMETERS)}
    return call


def _parameter(one: Field[Any], shown: bool) -> inspect.Parameter:
    """The option of a field."""
    about, default = one.metadata, one.default
    assert default is not MISSING
    kind: Any = one.type
    more: dict[str, Any] = {}
    text = about["help"]
    if about.get("choices"):
        if any(name not in text for name in about["choices"]):
            text = f"{text} One of {', '.join(about['choices'])}."
        names = StrEnum(one.name, {name: name for name in about["choices"]})  # type: ignore[misc]
        default = default if default is None else names(default)
        kind = names | None if default is None else names
    elif about.get("words"):
        kind = str if default is not None else str | None
        more["callback"] = _word_or_number(about["words"], about.get("least"))
    else:
        more = {"min": about.get("least"), "max": about.get("most")}
    flag = f"--{one.name.replace('_', '-')}"
    declared = typer.Option(flag, help=text, hidden=not shown, **more)
    annotation = Annotated[kind, declared]
    return inspect.Parameter(
        one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _word_or_number(words: tuple[str, ...], least: int | None) -> Callable[[Any], Any]:
    """What reads an option that is one of some words, or a whole number."""

    def read(text: str | None) -> str | int | None:
        if text is None or text in words:
            return text
        if not text.isdecimal() or (least is not None and int(text) < least):
            raise typer.BadParameter(f"{text!r} is not {', '.join(words)} or a number")
        return int(text)

    return read


def _plain(value: Any) -> Any:
    """A value as the library knows it."""
    return value.value if isinstance(value, StrEnum) else value
