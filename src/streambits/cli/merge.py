"""`streambits merge`: what several shards have learned, in one model."""

from pathlib import Path
from typing import Annotated

import typer

from streambits.cli import output
from streambits.cli.options import AsJson
from streambits.jobs.models import learner_file, merge_models
from streambits.storage import save


def merge_command(
    models: Annotated[list[Path], typer.Argument(help="Learners of shards: files or folders.")],
    *,
    out: Annotated[Path, typer.Option(help="File for the merged model.")] = Path(
        "model.safetensors"
    ),
    as_json: AsJson = False,
) -> None:
    """Merge the learners of shards into one, as if it had seen all their rows.

    They must have begun from the same landmarks and settings (`learn --like`). The certificates
    add up.

    Example: streambits merge shard-1/ shard-2/ --out model.safetensors
    """
    if len(models) < 2:
        raise typer.BadParameter("name at least two models", param_hint="models")
    files = [learner_file(path).resolve() for path in models]
    twice = [path for path, file in zip(models, files, strict=True) if files.count(file) > 1]
    if twice:
        raise typer.BadParameter(f"{twice[-1]} is named twice", param_hint="models")
    with output.working(output.stderr(), f"merging {len(models)} models"):
        whole = merge_models(models)
        save(whole, out)
    facts = {
        "out": str(out),
        "models": len(models),
        "rows": whole.seen,
        "bits": whole.bits,
        "epoch": whole.epoch,
        "certificate": whole.certificate,
    }
    text = f"{out}: {whole.seen:,} rows of {len(models)} models, {whole.bits} bits"
    output.result(facts, [text], as_json)
