"""Options that several verbs share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from streambits.jobs.run import Pace
from streambits.jobs.settings import LANDMARKS

PACE = Pace()


class Method(StrEnum):
    """Those of `jobs.settings.LEARNED`."""

    ssbc = "ssbc"
    rff_fd = "rff_fd"
    osh = "osh"
    frosh = "frosh"
    pcah = "pcah"
    itq = "itq"
    unifdiag = "unifdiag"
    linear = "linear"


class Rotation(StrEnum):
    """Those of `rotations.ROTATIONS`."""

    none = "none"
    random = "random"
    itq = "itq"
    uniform = "uniform"


class Way(StrEnum):
    """Those of `jobs.settings.WAYS`."""

    uniform = "uniform"
    centres = "centres"


class Changed(StrEnum):
    """What to do with a source that has changed since it was read."""

    refuse = "refuse"
    accept = "accept"


def _epochs(text: str | None) -> str | None:
    if text is not None and text not in ("auto", "never") and not text.isdecimal():
        raise typer.BadParameter("auto, never or a number of rows")
    return text


Sources = Annotated[
    list[str],
    typer.Argument(
        help="Files, folders or globs; - for standard input; nats://host/stream; kafka://host/topic"
    ),
]
Out = Annotated[Path, typer.Option(help="The folder of the job.")]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns with the numbers, commas between; for a broker, how many."),
]
Ids = Annotated[
    str | None, typer.Option(help="The column of ids, or their name in a message; else counted.")
]
Format = Annotated[
    str | None, typer.Option("--format", help="Of the source, if its name does not tell.")
]
Follow = Annotated[bool, typer.Option("--follow", help="Of a broker: wait for more, without end.")]
Idle = Annotated[
    float | None, typer.Option(min=0, help="Of a broker: wait, and end after so many quiet seconds")
]
Retry = Annotated[
    float | None,
    typer.Option(min=0, help="Seconds that a broker or database may be away; 60 by default."),
]
ChangedSource = Annotated[
    Changed,
    typer.Option(
        help="A job that goes on looks whether the files it has read are still the same, by their "
        "sizes and by parts of them. If not: refuse, or accept, and go on from where it was."
    ),
]
Bits = Annotated[int, typer.Option(min=1, help="Length of the codes.")]
MethodName = Annotated[Method, typer.Option(help="How codes are learned.")]
Landmarks = Annotated[
    int,
    typer.Option(
        min=1,
        help="Taken from the first rows, ten for each, which wait for that. If a stream does not "
        f"begin as it goes on, --epochs auto draws others; default {LANDMARKS}.",
        show_default=False,
    ),
]
LandmarksBy = Annotated[
    Way | None,
    typer.Option(
        help="Of ssbc. uniform (the default): rows drawn at random; centres: k-means centres of "
        "the first rows, worth some times as many. Those of later epochs are drawn."
    ),
]
Epochs = Annotated[
    str | None,
    typer.Option(
        callback=_epochs,
        help="When new landmarks are drawn and codes begin anew: auto (when the stream has moved; "
        "the default of ssbc), never, or every so many rows. online writes a file for every epoch "
        "that is over (landmarks and up to 1,024 rows), and a query is encoded once for each: with "
        "many epochs it is the disk and searches that grow, not memory and commits.",
    ),
]
KeepEpochs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="How many epochs can be searched through the job, the current one included; all by "
        "default. The coders of older ones are removed: their codes stay where they are, and are "
        "left out of searches until streambits reencode brings them to the newest epoch.",
    ),
]
HalfLife = Annotated[
    float | None, typer.Option(help="Rows after which a row counts half; never by default.")
]
Bandwidth = Annotated[float | None, typer.Option(help="Of the affinity; by the landmarks.")]
BandwidthFactor = Annotated[
    float | None,
    typer.Option(
        help="In place of a bandwidth: so many times the squared mean distance of a landmark to "
        "its 30th neighbour; 1 by default, and up to 16 may be better."
    ),
]
Whitening = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="How much strong directions are damped, 0 (not) to 1; by default 0.5 for ssbc and "
        "rff_fd, 0 for linear.",
    ),
]
RotationName = Annotated[
    Rotation | None,
    typer.Option(
        help="How directions are turned before they become bits: none, random, itq (towards the "
        "corners), uniform (equal variances). By default itq for ssbc, rff_fd and linear, random "
        "for osh and frosh."
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option(
        help="The sketch has bits + bits / epsilon rows; more rows than columns are exact, and "
        "take no more memory."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Of all that is drawn at random.")]
Refresh = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Rows between two coders; by default whenever the rows have doubled, and then every "
        "65,536: one takes as long as learning some thousand rows.",
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        help="Where codes go, by default Parquet files in the folder: another folder, a file "
        ".jsonl, .index or .faiss, npy:folder, or postgresql://host/database?table=name."
    ),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Put bad rows aside, in a file, instead of stopping.")
]
CommitRows = Annotated[int, typer.Option(min=1, help="Rows between two commits, at most.")]
CommitSeconds = Annotated[float, typer.Option(min=0.01, help="Seconds between commits, at most.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Nothing on stderr but errors.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="JSON lines on stderr, for machines.")]
MetricsPort = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Serve Prometheus metrics there, on loopback only."),
]


def as_epochs(text: str | None) -> str | int | None:
    """What the library calls it."""
    return int(text) if text and text.isdecimal() else text


def names(columns: str | None) -> list[str] | None:
    """Names of columns, with commas between."""
    return columns.split(",") if columns else None
