"""The command line: one file a verb, and here what all of them share.

Exit codes: 0 done, 1 failed (one line on stderr says why), 2 wrong use, 130 interrupted.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

import streambits
from streambits.cli import settings as from_elsewhere
from streambits.cli.demo import demo
from streambits.cli.encode import encode
from streambits.cli.evaluate import evaluate
from streambits.cli.index import index
from streambits.cli.inspect_ import inspect_
from streambits.cli.learn import learn
from streambits.cli.merge import merge
from streambits.cli.online import online
from streambits.cli.reencode import reencode
from streambits.cli.search import search
from streambits.cli.tune import tune
from streambits.errors import StreambitsError
from streambits.streams.urls import without_urls

app = typer.Typer(
    name="streambits",
    help="Short binary codes for vectors, learned from one pass over a stream.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command(epilog="Example: streambits demo --out picture.png")(demo)
app.command(epilog="Example: streambits evaluate quick --out report/")(evaluate)
app.command(epilog="Example: streambits learn vectors/*.parquet --bits 64 --out model/")(learn)
app.command(epilog="Example: streambits online vectors/*.parquet --bits 64 --out codes/")(online)
app.command(epilog="Example: cat rows.csv | streambits encode model.safetensors -")(encode)
app.command()(index)
app.command()(search)
app.command("inspect")(inspect_)
app.command()(merge)
app.command()(reencode)
app.command()(tune)
from_elsewhere.attach(app)  # after all verbs


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streambits {streambits.__version__}")
        raise typer.Exit


@app.callback()
def streambits_command(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    settings: Annotated[Path | None, typer.Option(help=from_elsewhere.HELP)] = None,
) -> None:
    """Short binary codes for vectors, learned from one pass over a stream."""


def main() -> None:
    """Run the command line; what a user got wrong is one line on stderr, never a traceback."""
    try:
        app()
    except StreambitsError as error:
        told = without_urls(str(error), sys.argv[1:])
        typer.echo(f"streambits: {' '.join(told.split())}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
