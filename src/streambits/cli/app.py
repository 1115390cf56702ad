"""The command line: its verbs, and what all of them share.

Exit codes: 0 done, 1 failed (one line on stderr says why), 2 wrong use, 70 a fault of streambits,
130 interrupted.
"""

import ctypes
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import streambits
from streambits.cli.config import Verb
from streambits.cli.convert import index_command, merge_command, reencode_command
from streambits.cli.demo import demo_command
from streambits.cli.evaluate import evaluate_command
from streambits.cli.inspect_ import inspect_command
from streambits.cli.jobs import encode_command, learn_command, online_command
from streambits.cli.options import expanded
from streambits.cli.search import search_command
from streambits.cli.serve import serve_command
from streambits.cli.settings import settings_command
from streambits.cli.tune import tune_command
from streambits.errors import ReachWarning, StreambitsError
from streambits.io.urls import redact_urls

DEBUG = "STREAMBITS_DEBUG"
FAULT = 70  # exit code, as sysexits.h has it

app = typer.Typer(
    name="streambits",
    help="Short binary codes for vectors, learned from one pass over a stream.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
VERBS: tuple[Callable[..., None], ...] = (
    *(demo_command, evaluate_command, learn_command, online_command, encode_command),
    *(index_command, search_command, serve_command, inspect_command, merge_command),
    *(reencode_command, tune_command, settings_command),
)
for _verb in VERBS:
    app.command(_verb.__name__.removesuffix("_command"), cls=Verb)(expanded(_verb))


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
    """Run the command line; whatever goes wrong is one line on stderr.

    STREAMBITS_DEBUG=1 adds the traceback, also to what is a fault of ours.
    """
    _hide_secrets(sys.argv[1:])
    try:
        with _logged_warnings():
            app()
    except StreambitsError as error:
        _fail(str(error))
    except OSError as error:  # such as a full disk behind standard output
        sys.stdout = None  # or Python tries it again at the end, and complains
        _fail(f"{error.filename or 'standard output'}: {error.strerror or error}")
    except MemoryError as error:
        _fail(f"there is not enough memory ({error})")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - nobody else could report it
        _fail(f"this is a fault of streambits, please report it: {error!r}", FAULT)


@contextmanager
def _logged_warnings() -> Iterator[None]:
    """Our warnings are lines of the log: JSON if that is asked for, and without a place in code."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Any, category: Any, *place: Any, **more: Any) -> None:
            logger = logging.getLogger("streambits")
            if issubclass(category, ReachWarning) and logger.handlers:
                logger.warning("%s", message)
            elif issubclass(category, ReachWarning):
                typer.echo(f"streambits: warning: {message}", err=True)
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        yield


def _hide_secrets(arguments: list[str]) -> None:
    """Overwrite URLs in the memory that the list of processes is read from, where that is known.

    On Linux the kernel says where it lies; from the start until here they can be seen.
    """
    shown = {word: redact_urls(word, [word]) for word in arguments}
    secret = {os.fsencode(old): os.fsencode(new) for old, new in shown.items() if old != new}
    if not secret:
        return
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end
    except (OSError, ValueError, IndexError):
        return
    if not 0 < start < end:
        return
    memory = (ctypes.c_char * (end - start)).from_address(start)
    words = memory.raw.split(b"\0")
    memory.raw = b"\0".join(
        secret[word][: len(word)].ljust(len(word), b"\0") if word in secret else word
        for word in words
    )


def _fail(reason: str, code: int = 1) -> NoReturn:
    """One line on stderr, and the end."""
    if os.environ.get(DEBUG):
        traceback.print_exc()
    hint = f"; {DEBUG}=1 shows where" if code == FAULT else ""
    text = redact_urls(reason, sys.argv[1:])
    typer.echo(f"streambits: {' '.join(text.split())}{hint}", err=True)
    sys.exit(code)
