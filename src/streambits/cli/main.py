"""The command line: one file a verb, and here what all of them share.

Exit codes: 0 done, 1 failed (one line on stderr says why), 2 wrong use, 130 interrupted.
"""

import sys
from typing import Annotated

import typer

import streambits
from streambits.cli.demo import demo
from streambits.errors import StreambitsError

app = typer.Typer(
    name="streambits",
    help="Short binary codes for vectors, learned from one pass over a stream.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)


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
) -> None:
    """Short binary codes for vectors, learned from one pass over a stream."""


def main() -> None:
    """Run the command line; what a user got wrong is one line on stderr, never a traceback."""
    try:
        app()
    except StreambitsError as error:
        typer.echo(f"streambits: {' '.join(str(error).split())}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
