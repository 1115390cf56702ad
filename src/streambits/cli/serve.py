"""`streambits serve`: an index in a folder, over HTTP."""

import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from streambits.cli import output
from streambits.cli.options import Shown, StreamOptions, column_names, given_settings, option
from streambits.errors import ReachWarning
from streambits.io.protocols import Source
from streambits.io.urls import is_url
from streambits.methods.settings import Settings


@dataclass(frozen=True)
class ServeOptions(StreamOptions):
    """Where the service listens, what it reads, and what it allows."""

    host: str = option("127.0.0.1", "Address to listen on; beyond loopback put TLS before it.")
    port: int = option(8765, "Port; 0 for any that is free.", least=0, most=65535)
    token_file: str | None = option(
        None, "File with the token. Default: STREAMBITS_TOKEN, or FOLDER/token."
    )
    allow_host: str | None = option(None, "Further names of the service, with commas.")
    source: str | None = option(None, "Rows to read as well, from the last committed offset.")
    keep_rows: bool = option(False, "Store raw rows too: for true distances and proofs.")
    max_body: int = option(32 << 20, "Bytes of a request at most.", least=1024)
    max_rows: int = option(100_000, "Rows of a request at most.", least=1)
    queue: int = option(64, "Changes that may wait; more are refused with 429.", least=1)
    seconds: float | None = option(None, "Stop after so many seconds.", least=0)

    def stream(self) -> Source | None:
        """Open the source, if there is one."""
        if self.source is None:
            return None
        broker = is_url(self.source)
        retry = self.retry_seconds if broker else None
        return self.open(self.source, removed=self.removed, follow=broker, retry_seconds=retry)


def serve_command(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder of the index, new or not.")],
    *,
    options: Annotated[
        ServeOptions,
        Shown("host port token_file allow_host source columns ids format keep_rows json"),
    ],
    settings: Annotated[Settings, Shown("bits refine")],
) -> None:
    """Serve the index in a folder over HTTP.

    Every change is on the disk before it is answered; after a crash the same command goes on.
    Settings are those of a new index. SIGTERM and Ctrl-C commit and exit with 0. Needs
    pip install 'streambits[serve]'.

    Example: streambits serve index/ --source nats://127.0.0.1:4222/rows --ids id
    """
    from streambits.service.app import Limits  # noqa: PLC0415 - an extra
    from streambits.service.server import serve  # noqa: PLC0415

    warnings.simplefilter("ignore", ReachWarning)  # how many rows they are is in the status
    serve(
        folder,
        host=options.host,
        port=options.port,
        token_file=options.token_file,
        source=options.stream(),
        keep_rows=options.keep_rows,
        limits=Limits(body=options.max_body, rows=options.max_rows),
        queue_length=options.queue,
        hosts=tuple(column_names(options.allow_host) or ()),
        tell=partial(_tell, options.json),
        seconds=options.seconds,
        **{name: getattr(settings, name) for name in given_settings(context)},
    )


def _tell(as_json: bool, address: str, token: str) -> None:
    text = f"serving at {address}\ntoken in {token}"
    output.result({"address": address, "token": token}, [text], as_json)
