"""Run the service: open the index, find the token, listen, and end well when asked to."""

import asyncio
import os
import secrets
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from streambits._files import replacing
from streambits.errors import InputError, MissingExtraError, StorageError
from streambits.io.protocols import Source
from streambits.service.app import Limits, create_app
from streambits.service.live import Service
from streambits.stream_index import StreamIndex

try:
    import uvicorn
except ImportError:
    raise MissingExtraError("uvicorn", "serve") from None

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
TOKEN, VARIABLE = "token", "STREAMBITS_TOKEN"
CONNECTIONS = 256
IDLE = 10  # seconds that a connection may stay open after an answer
STOPPING = 30  # seconds for requests in flight, once the service is asked to stop
SHORTEST = 16  # characters of a token

Tell = Callable[[str, str], None]  # the address, and where the token is


def serve(
    folder: str | Path,
    *,
    host: str = LOOPBACK[0],
    port: int = 8765,
    token_file: str | Path | None = None,
    source: Source | None = None,
    keep_rows: bool = False,
    limits: Limits | None = None,
    queue_length: int = 64,
    hosts: tuple[str, ...] = (),
    tell: Tell | None = None,
    seconds: float | None = None,
    **settings: Any,
) -> None:
    """Serve the index in a folder until a signal asks to stop; then commit and return.

    Parameters
    ----------
    folder : str or Path
        An index that `StreamIndex.open` has made, or the place for a new one.
    host : str, default "127.0.0.1"
    port : int, default 8765
        0 for any that is free.
    token_file : str or Path, optional
        A file with the token. By default the variable STREAMBITS_TOKEN, or else FOLDER/token,
        which is made if it is missing.
    source : Source, optional
        A stream that is read as well; it goes on where the journal ends.
    keep_rows : bool, default False
        As for `StreamIndex`.
    limits : Limits, optional
    queue_length : int, default 64
        Changes that may wait.
    hosts : tuple of str, optional
        Further names by which the service may be called; on a loopback address others are refused.
    tell : callable, optional
        Is called with the address and the place of the token once the service listens.
    seconds : float, optional
        Stop after so many seconds, as if a signal had come.
    **settings
        Settings of a new index.

    Raises
    ------
    InputError, StorageError
        If the port, the token or the folder cannot be used.
    """
    listener = _listen(host, port)
    try:
        with StreamIndex.open(folder, keep_rows=keep_rows, **settings) as index:
            token, place = find_token(Path(folder), token_file)
            shown = f"[{host}]" if ":" in host else host
            address = f"http://{shown}:{listener.getsockname()[1]}"
            service = Service(index, source=source, queue_length=queue_length, folder=folder)
            local = host in ("localhost", "::1") or host.startswith("127.")
            names = (*LOOPBACK, host, *hosts) if local else ()
            app = create_app(service, token, limits=limits, hosts=names, address=address)
            with service:
                started = partial(tell, address, place) if tell else bool
                _Server(app, service, started, seconds).run([listener])
    finally:
        listener.close()


def find_token(folder: Path, token_file: str | Path | None = None) -> tuple[str, str]:
    """Return the token, and where it is; a new one is made in the folder if there is none.

    Raises
    ------
    InputError
        If it is too short, or has characters that a header cannot have.
    StorageError
        If the file cannot be read.
    """
    variable = os.environ.get(VARIABLE)
    if token_file is None and variable is not None:
        return _checked_token(variable, f"the variable {VARIABLE}"), f"the variable {VARIABLE}"
    path = Path(token_file) if token_file is not None else folder / TOKEN
    if token_file is None and not path.exists():
        with replacing(path, private=True) as file:
            file.write(secrets.token_urlsafe(32).encode() + b"\n")
    try:
        text = path.read_text()
    except (OSError, ValueError) as error:
        raise StorageError(f"the token cannot be read from {path}: {error}") from error
    return _checked_token(text, str(path)), str(path)


def _checked_token(text: str, place: str) -> str:
    token = text.strip()
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"the token in {place} must be at least {SHORTEST} ASCII characters without spaces"
        )
    return token


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named as TCP, or asyncio leaves Nagle's algorithm on, which delays every answer by 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"the service cannot listen on {host}, port {port}: {reason}. Choose another port, or "
            f"0 for any that is free"
        ) from error
    listener.listen(1024)
    return listener


class _Server(uvicorn.Server):
    """Ends without an error when it is asked to stop; a second signal ends it as usual.

    started: is called once it listens, and a signal ends it well.
    """

    def __init__(
        self, app: Any, service: Service, started: Callable[[], object], seconds: float | None
    ) -> None:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,  # nothing here depends on who asks
            server_header=False,
            timeout_keep_alive=IDLE,
            limit_concurrency=CONNECTIONS,
            timeout_graceful_shutdown=STOPPING,
        )
        super().__init__(config)
        self._service, self._started, self._seconds = service, started, seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started()
        if self._seconds is not None:
            asyncio.get_running_loop().call_later(self._seconds, self._finish)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        del frame
        if self.should_exit:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self._finish()

    def _finish(self) -> None:
        self._service.stopping.set()  # listeners to events end by that
        self.should_exit = True
