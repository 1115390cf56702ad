"""`streambits serve`: an index in a folder, over HTTP."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from streambits.cli.options import column_names, option
from streambits.io.protocols import Source
from streambits.io.rows import open_source
from streambits.io.urls import is_url
from streambits.methods.settings import Settings
from streambits.service.example import ExampleStream

GIVEN = ("COMMANDLINE", "ENVIRONMENT", "DEFAULT_MAP")  # where an option that counts comes from


@dataclass(frozen=True)
class ServeOptions:
    """Where the service listens, what it reads, and what it allows."""

    host: str = option(
        "127.0.0.1",
        "Address to listen on. Others than the loopback device are reached by everybody in the "
        "network, and the token goes there in plain text: put TLS before it.",
    )
    port: int = option(8765, "Port; 0 for any that is free.", least=0, most=65535)
    token_file: str | None = option(
        None,
        "File with the token for changes and raw rows. Default: the variable STREAMBITS_TOKEN, or "
        "FOLDER/token, which is made.",
    )
    allow_host: str | None = option(
        None,
        "Further names, with commas between, by which a service on the loopback device may be "
        "called, such as that of a proxy before it.",
    )
    source: str | None = option(
        None,
        "Rows that are read as well: kafka://host/topic, nats://host/stream, or files. It goes on "
        "where the journal ends.",
    )
    example: bool = option(
        False, "Read a small made-up stream without an end, to look at the service."
    )
    columns: str | None = option(
        None, "Of the source: names of the columns of the vectors, or of the list in a message."
    )
    ids: str | None = option(None, "Of the source: name of the id column, or of the id.")
    removed: str | None = option(
        None, "Of the source: name of a column or key of truth values that removes an id."
    )
    format: str | None = option(None, "Of the source: its format. Default: from the file name.")
    retry_seconds: float | None = option(
        None, "Seconds that a broker may be away before it is reported. Default: 60.", least=0
    )
    keep_rows: bool = option(
        False, "Keep raw rows of a new index: true distances, proofs, and no codes of old epochs."
    )
    max_body: int = option(32 << 20, "Largest number of bytes of a request.", least=1024)
    max_rows: int = option(100_000, "Largest number of rows of a request.", least=1)
    queue: int = option(64, "Changes that may wait; more are refused with 429.", least=1)
    seconds: float | None = option(None, "Stop after so many seconds. Default: never.", least=0)
    json: bool = option(False, "Print one JSON object with the address and where the token is.")

    def open(self) -> Source | None:
        """Open the source, if there is one."""
        if self.example:
            if self.source is not None:
                raise typer.BadParameter("--example is a source: leave --source out")
            return ExampleStream()
        if self.source is None:
            return None
        broker = is_url(self.source)
        return open_source(
            self.source,
            columns=column_names(self.columns),
            ids=self.ids,
            removed=self.removed,
            format=self.format,
            follow=broker,
            retry_seconds=self.retry_seconds if broker else None,
        )


def serve_command(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder of the index; a new one is begun there.")],
    *,
    settings: Settings,
    options: ServeOptions,
) -> None:
    """Serve the index in a folder over HTTP: rows in, answers out, nothing lost.

    Every change is in a journal on the disk before it is answered; after a crash the same command
    goes on. Settings are those of a new index: one that is there has its own. SIGTERM and Ctrl-C
    finish what is in flight, commit, and exit with 0. Needs pip install 'streambits[serve]'.

    Example: streambits serve index/ --source nats://127.0.0.1:4222/rows --ids id
    """
    from streambits.service.app import Limits  # noqa: PLC0415 - an extra
    from streambits.service.server import serve  # noqa: PLC0415

    given = {
        one.name: getattr(settings, one.name)
        for one in fields(Settings)
        if (found := context.get_parameter_source(one.name)) and found.name in GIVEN
    }
    serve(
        folder,
        host=options.host,
        port=options.port,
        token_file=options.token_file,
        source=options.open(),
        keep_rows=options.keep_rows,
        limits=Limits(body=options.max_body, rows=options.max_rows),
        queue_length=options.queue,
        hosts=tuple(column_names(options.allow_host) or ()),
        tell=_tell_json if options.json else _tell,
        seconds=options.seconds,
        **given,
    )


def _tell(address: str, token: str) -> None:
    typer.echo(f"serving at {address}")
    typer.echo(f"token in {token}")


def _tell_json(address: str, token: str) -> None:
    typer.echo(json.dumps({"address": address, "token": token}))
