"""Options that several verbs share, and options made from the fields of a dataclass.

`Settings` and `JobOptions` declare each option once, with its help, limits and default. A verb that
has a parameter of such a type has one option per field.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast, get_args, get_type_hints

import typer

from streambits.io.protocols import Source
from streambits.io.rows import open_source
from streambits.jobs.job import Pace
from streambits.methods.settings import Settings

PACE = Pace()
ROWS_THERE = 16 * PACE.rows  # between two commits of a job on a device

Sources = Annotated[
    list[str],
    typer.Argument(
        help="Files, folders or globs; - for standard input; nats://host/stream; kafka://host/topic"
    ),
]
Rows = Annotated[
    str, typer.Argument(help="Rows: a file, a folder, a glob, or - for standard input.")
]
Out = Annotated[Path, typer.Option(help="The folder of the job.")]
To = Annotated[
    str | None,
    typer.Option(
        help="Where codes go beside the Parquet files in the folder: a file that is written when "
        "the job has ended, .jsonl, .npy, .parquet, .index or .faiss; or, in place of them, "
        "postgresql://host/database?table=name."
    ),
]
Columns = Annotated[
    str | None, typer.Option(help="Names of the columns, with commas between. Default: all.")
]
Ids = Annotated[str | None, typer.Option(help="Name of the id column (not used as a feature).")]
Format = Annotated[
    str | None, typer.Option(help="Format of the rows. Default: from the file name, csv for -.")
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        help="A learner, or the folder of a job, that goes on learning from these rows. Settings "
        "are those of the model.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def option(default: Any, text: str, **limits: Any) -> Any:
    """A field with its help. limits: least, most, choices; or words allowed beside a number."""
    return field(default=default, metadata={"help": text, **limits})


@dataclass(frozen=True)
class JobOptions:
    """How a job reads its source, commits, and reports."""

    columns: str | None = option(
        None,
        "Names of the columns of the vectors, with commas between, or of one column of lists; for "
        "a broker the key of the list in a message, or the number of values. Default: the only "
        "list, or all numbers; row in JSON messages.",
    )
    ids: str | None = option(
        None,
        "Name of the id column, or of the id in a message (of Kafka also @key); ids are whole "
        "numbers or texts. Default: rows are counted.",
    )
    removed: str | None = option(
        None,
        "Name of a column or key of truth values: where it is true, the id is removed. A null "
        "vector in JSON and a tombstone of Kafka remove it too.",
    )
    keep: str | None = option(
        None,
        "Names of further columns or keys, with commas between, that are kept as texts beside the "
        "codes, in Parquet and PostgreSQL.",
    )
    format: str | None = option(
        None,
        "Input format; of messages json, arrow or f4. Default: from the file name, csv for -, and "
        "json of a broker.",
    )
    follow: bool = option(False, "Keep reading from a broker until interrupted.")
    idle: float | None = option(
        None, "Keep reading from a broker, and end after so many seconds without a row.", least=0
    )
    retry_seconds: float | None = option(
        None, "Seconds that a broker or database may be away. Default: 60.", least=0
    )
    changed_source: str = option(
        "refuse",
        "What to do if files that the job has read have changed since: refuse to go on, or accept "
        "that and go on from the row where it was. They are compared by their sizes and by parts.",
        choices=("refuse", "accept"),
    )
    out_of_reach: str = option(
        "refuse",
        "What to do with rows that are so far from all landmarks of a model that it cannot tell "
        "them apart, where they are more than half of a batch to be encoded, or of the first with "
        "--from: refuse them, or accept. Fewer are counted, and a warning.",
        choices=("refuse", "accept"),
    )
    skip_bad: bool = option(False, "Put bad rows aside, in a file, instead of stopping.")
    commit_rows: int = option(
        PACE.rows,
        "Largest number of rows between two commits; with --device 16 times as many by default.",
        least=1,
    )
    commit_seconds: float = option(
        PACE.seconds, "Largest number of seconds between two commits.", least=0.01
    )
    device: str | None = option(
        None,
        "Where rows are learned and encoded: a device of torch, as cuda; reading, copying and "
        "computing overlap. Codes by one model are the same everywhere. Default: this processor.",
    )
    json: bool = option(False, "Print one JSON object at the end.")
    quiet: bool = option(False, "Print nothing but errors to stderr.")
    log_json: bool = option(False, "Print JSON lines to stderr, for machines.")
    metrics_port: int | None = option(
        None, "Serve Prometheus metrics on this port of the loopback device.", least=0, most=65535
    )

    @property
    def pace(self) -> Pace:
        """How often the job commits.

        On a device more rows wait to be learned, and all of them are in a checkpoint; so it commits
        more rarely there, unless it was told how often.
        """
        usual = self.device is not None and self.commit_rows == PACE.rows
        return Pace(ROWS_THERE if usual else self.commit_rows, self.commit_seconds)

    @property
    def refuse(self) -> bool:
        """Whether rows out of reach are an error."""
        return self.out_of_reach == "refuse"

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of what is kept beside the codes."""
        return tuple(column_names(self.keep) or ())

    def open(self, sources: list[str]) -> Source:
        """Open the source of the job."""
        return open_source(
            sources,
            columns=column_names(self.columns),
            ids=self.ids,
            removed=self.removed,
            keep=self.kept,
            format=self.format,
            follow=self.follow,
            idle=self.idle,
            retry_seconds=self.retry_seconds,
            accept_changes=self.changed_source == "accept",
        )


def refuse_settings(context: typer.Context, option: str, allowed: tuple[str, ...] = ()) -> None:
    """Refuse settings beside a model that has its own. allowed: names of those that it has not."""
    for one in fields(Settings):
        source = context.get_parameter_source(one.name)
        if source and source.name == "COMMANDLINE" and one.name not in allowed:
            flag = f"--{one.name.replace('_', '-')}"
            raise typer.BadParameter(f"{flag} is that of the model: leave it out with {option}")


class Without(NamedTuple):
    """A field that a verb has no option for."""

    name: str


LearnSettings = Annotated[Settings, Without("refresh")]  # learn makes no coders on the way


def column_names(columns: str | None) -> list[str] | None:
    """Names of columns, with commas between."""
    return columns.split(",") if columns else None


def expanded(verb: Callable[..., None], *more: inspect.Parameter) -> Callable[..., None]:
    """The function as typer reads it: a parameter that is a dataclass is one option per field.

    more: further parameters, which the verb itself does not see.
    """
    parameters, groups = list[inspect.Parameter](), dict[str, tuple[Any, list[str]]]()
    for name, hint in get_type_hints(verb, include_extras=True).items():
        kind, own = _fields(hint)
        if own:
            groups[name] = (kind, [one.name for one in own])
            parameters += [_parameter(one) for one in own]
        elif name != "return":
            parameter = inspect.signature(verb).parameters[name]
            parameters.append(parameter.replace(annotation=hint))

    @wraps(verb)
    def call(**options: Any) -> None:
        for one in more:
            options.pop(one.name, None)
        for name, (kind, names) in groups.items():
            options[name] = kind(**{one: _plain(options.pop(one)) for one in names})
        verb(**options)

    every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*parameters, *more)]
    vars(call)["__signature__"] = inspect.Signature(every)
    call.__annotations__ = {one.name: one.annotation for one in every}
    return call


def _fields(hint: Any) -> tuple[Any, list[Field[Any]]]:
    """A dataclass and its fields, its own before those of its base; none if it is not one."""
    kind, *about = get_args(hint) or (hint,)
    if not is_dataclass(kind):
        return hint, []
    hidden = {one.name for one in about if isinstance(one, Without)}
    first = inspect.get_annotations(cast("Any", kind))
    own = [one for one in fields(kind) if one.name not in hidden]
    return kind, sorted(own, key=lambda one: one.name not in first)


def _parameter(one: Field[Any]) -> inspect.Parameter:
    """The option of a field."""
    about, default = one.metadata, one.default
    assert default is not MISSING
    kind: Any = one.type
    more: dict[str, Any] = {}
    if about.get("choices"):
        names = StrEnum(one.name, {name: name for name in about["choices"]})  # type: ignore[misc]
        default = default if default is None else names(default)
        kind = names | None if default is None else names
    elif about.get("words"):
        kind = str if default is not None else str | None
        more["callback"] = _word_or_number(about["words"], about.get("least"))
    else:
        more = {"min": about.get("least"), "max": about.get("most")}
    flag = f"--{one.name.replace('_', '-')}"
    option = typer.Option(flag, help=about["help"], **more)
    annotation = Annotated[kind, option]
    return inspect.Parameter(
        one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _word_or_number(words: tuple[str, ...], least: int | None) -> Callable[[Any], Any]:
    """What reads an option that is one of some words, or a whole number."""

    def read(text: str | None) -> str | int | None:
        if text is None or text in words:
            return text
        if not text.isdecimal() or (least is not None and int(text) < least):
            raise typer.BadParameter(f"it should be {', '.join(words)} or a number of rows")
        return int(text)

    return read


def _plain(value: Any) -> Any:
    """A value as the library knows it."""
    return value.value if isinstance(value, StrEnum) else value
