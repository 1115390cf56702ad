"""`streambits merge`: what several shards have learned, in one model."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streambits.cli import progress
from streambits.errors import MergeError
from streambits.jobs.models import learner_file, open_learner
from streambits.model.learner import Learner
from streambits.storage import digest, save


def merge(
    models: Annotated[
        list[Path], typer.Argument(help="Learners of shards: files, or folders of jobs.")
    ],
    *,
    out: Annotated[Path, typer.Option(help="Where the model of all of them goes.")] = Path(
        "model.safetensors"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Merge the learners of shards into one, as if it had seen all their rows.

    They must have begun from the same landmarks and settings; anything else is refused. The
    certificates add up.

    Example: streambits merge shard-1/ shard-2/ --out model.safetensors
    """
    if len(models) < 2:
        raise typer.BadParameter("name at least two models", param_hint="models")
    files = [learner_file(path).resolve() for path in models]
    twice = [path for path, file in zip(models, files, strict=True) if files.count(file) > 1]
    if twice:
        raise typer.BadParameter(f"{twice[-1]} is named twice", param_hint="models")
    check_different(models, files)
    with progress.working(progress.stderr(), f"merging {len(models)} models"):
        whole = merged(models)
        save(whole, out)
    told = {
        "out": str(out),
        "models": len(models),
        "rows": whole.seen,
        "bits": whole.bits,
        "epoch": whole.epoch,
        "certificate": whole.certificate,
    }
    if as_json:
        typer.echo(json.dumps(told))
    else:
        text = f"{out}: {whole.seen:,} rows of {len(models)} models, {whole.bits} bits"
        Console(highlight=False).print(text, soft_wrap=True)


def check_different(models: list[Path], files: list[Path]) -> None:
    """Refuse a model and its copy: the rows of it would count twice."""
    known: dict[str, Path] = {}
    for model, file in zip(models, files, strict=True):
        other = known.setdefault(digest(file), model)
        if other is not model:
            raise MergeError(
                f"{model} is a copy of {other}, and its rows would count twice: name each shard "
                f"once"
            )


def merged(paths: list[Path]) -> Learner:
    """One learner of all that those in the files have seen."""
    first, *others = paths
    whole = open_learner(first)
    for path in others:
        try:
            whole.merge(open_learner(path))
        except MergeError as error:
            raise MergeError(f"{path} does not fit {first}: {error}") from error
    return whole
