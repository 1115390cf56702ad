"""Client: arrays to a running service, and its answers as arrays. Standard library only."""

import http.client
import io
import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, Ids, as_ids, as_rows, to_numpy
from streambits.errors import InputError, StreambitsError, UnreachableError
from streambits.index import Hits
from streambits.model.codes import Codes

JSON, RAW = "application/json", "application/octet-stream"
ARROW = "application/vnd.apache.arrow.stream"
PER_REQUEST = 8 << 20  # bytes of rows, at most, in one request
VARIABLE = "STREAMBITS_TOKEN"


class ServiceError(StreambitsError):
    """The service has refused a request.

    Attributes
    ----------
    status : int
        Of HTTP.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} (status {status})")
        self.status = status


class Client:
    """A service of `streambits serve`, from Python.

    Parameters
    ----------
    address : str, default "http://127.0.0.1:8765"
    token : str, optional
        What the service asks for where something is changed or raw rows are seen; by default the
        variable STREAMBITS_TOKEN.
    token_file : str or Path, optional
        A file that has it, such as FOLDER/token.
    timeout : float, default 60
        Seconds for an answer.

    Notes
    -----
    It can be shared by threads: each has its own connection, which is kept. A request whose
    connection broke is sent once more: adding rows under the same ids again does no harm.
    While the service is busy it refuses with `ServiceError`, whose `status` is 429: send it later.

    Examples
    --------
    >>> with Client("http://127.0.0.1:8765", token="0123456789abcdef") as client:
    ...     client.add(rows, ids)                                           # doctest: +SKIP
    ...     hits = client.search(rows[:2], k=10)                            # doctest: +SKIP
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8765",
        token: str | None = None,
        *,
        token_file: str | Path | None = None,
        timeout: float = 60.0,
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{address!r} is not an address such as http://127.0.0.1:8765")
        self._parts, self._timeout = parts, timeout
        self._path = parts.path.rstrip("/")
        if token_file is not None:
            token = Path(token_file).read_text().strip()
        self._token = token or os.environ.get(VARIABLE)
        self._local = threading.local()

    def add(self, rows: Array, ids: Any) -> int:
        """Add rows, or replace those of the same ids; when this returns, they are on the disk.

        Parameters
        ----------
        rows : array of shape (n, d)
            Sent as float32.
        ids : array of shape (n,)
            Whole numbers or texts.

        Returns
        -------
        int
            How many rows.

        Notes
        -----
        Many rows are sent in several requests, each of which is whole or not there.
        """
        values = np.ascontiguousarray(to_numpy(as_rows(rows)), "<f4")
        names = as_ids(ids)
        if len(names) != len(values):
            raise InputError(f"there are {len(names)} ids for {len(values)} rows")
        step = max(1, min(50_000, PER_REQUEST // max(1, 4 * values.shape[1])))
        return sum(
            self._add(values[start : start + step], names[start : start + step])
            for start in range(0, len(values), step)
        )

    def _add(self, rows: NDArray[Any], ids: Ids) -> int:
        if ids.dtype.kind == "T":
            return int(self._json("POST", "/v1/rows", _arrow(ids, rows), ARROW)["rows"])
        query = urlencode({"columns": rows.shape[1], "ids": "int64"})
        body = ids.astype("<i8").tobytes() + rows.tobytes()
        return int(self._json("POST", f"/v1/rows?{query}", body, RAW)["rows"])

    def remove(self, ids: Any) -> int:
        """Remove rows by their ids; returns how many were there."""
        names = as_ids(ids)
        text = names.dtype.kind == "T"
        body = json.dumps({"ids": names.tolist()}).encode() if text else names.astype("<i8")
        sent = body if isinstance(body, bytes) else body.tobytes()
        return int(self._json("DELETE", "/v1/rows", sent, JSON if text else RAW)["removed"])

    def search(
        self,
        rows: Array = None,
        k: int = 10,
        *,
        ids: Any = None,
        by: str | None = None,
        candidates: int | str | None = None,
        rerank: int | None = None,
        exact: bool | None = None,
        allow: Any = None,
    ) -> Hits:
        """Find the nearest rows of each query.

        Parameters
        ----------
        rows : array of shape (n, d), optional
            The queries.
        k : int, default 10
        ids : array, optional
            Rows of the index to search for, in place of `rows`.
        by : {"default", "hamming", "refined", "true"}, optional
        candidates, rerank, exact, allow
            As for `StreamIndex.search`.

        Returns
        -------
        Hits
        """
        if (rows is None) == (ids is None):
            raise InputError("pass rows to search for, or the ids of rows of the index")
        options: dict[str, Any] = {"k": k, "by": by, "candidates": candidates, "rerank": rerank}
        options = {name: value for name, value in options.items() if value is not None}
        options |= {"exact": True} if exact else {}
        if rows is not None and allow is None:
            values = np.ascontiguousarray(to_numpy(as_rows(rows, name="queries")), "<f4")
            query = urlencode({"columns": values.shape[1], **options}).replace("True", "true")
            answer = self._json("POST", f"/v1/search?{query}", values.tobytes(), RAW)
        else:
            if ids is None:
                options["rows"] = to_numpy(as_rows(rows, name="queries")).tolist()
            else:
                options["ids"] = as_ids(ids).tolist()
            if allow is not None:
                options["allow"] = as_ids(allow, "allow").tolist()
            answer = self._json("POST", "/v1/search", json.dumps(options).encode(), JSON)
        return _hits(answer)

    def encode(self, rows: Array) -> Codes:
        """Encode rows by the current coder, without adding them."""
        values = np.ascontiguousarray(to_numpy(as_rows(rows)), "<f4")
        path = f"/v1/encode?columns={values.shape[1]}"
        found = self._json("POST", path, values.tobytes(), RAW)
        refinement = found.get("refinements")
        packed = _bytes(found["codes"], -(-found["bits"] // 8))
        more = None if refinement is None else _bytes(refinement, found["refine"])
        return Codes(packed, found["bits"], found["epoch"], more)

    def status(self) -> dict[str, Any]:
        """How the service is: the document of GET /v1/status."""
        return dict(self.get("/v1/status"))

    def renew(self) -> int:
        """Begin a new epoch; returns its number."""
        return int(self._json("POST", "/v1/epochs", b"{}", JSON)["epoch"])

    def get(self, path: str) -> Any:
        """Return any JSON document of the service, such as "/v1/drift"."""
        return self._json("GET", path, b"", None)

    # One request

    def _json(self, method: str, path: str, body: bytes, kind: str | None) -> Any:
        headers = {"Accept": JSON} | ({"Content-Type": kind} if kind else {})
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        status, content = self._ask(method, path, body, headers)
        if status >= 300:
            raise ServiceError(status, _reason(content))
        return json.loads(content)

    def _ask(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        """Ask by the connection of this thread; once more if the service had closed it."""
        link = self._link()
        kept = link.sock is not None
        try:
            with suppress(BrokenPipeError):  # it may be refused before all of it is sent
                link.request(method, self._path + path, body, headers)
            answer = link.getresponse()
            return answer.status, answer.read()
        except (http.client.HTTPException, OSError) as error:
            link.close()  # the next request opens it again
            if kept and not isinstance(error, TimeoutError):
                return self._ask(method, path, body, headers)
            raise UnreachableError(
                f"the service at {self._parts.scheme}://{self._parts.netloc} does not answer: "
                f"{error or type(error).__name__}"
            ) from error

    def _link(self) -> http.client.HTTPConnection:
        if not hasattr(self._local, "link"):
            secure = self._parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            host, port = str(self._parts.hostname), self._parts.port
            self._local.link = kind(host, port, timeout=self._timeout)
        link: http.client.HTTPConnection = self._local.link
        return link

    def close(self) -> None:
        """Close the connection of this thread."""
        self._link().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _arrow(ids: Ids, rows: NDArray[Any]) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - slow, and only for ids that are texts

    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
    table = pa.table({"id": pa.array(ids.tolist(), pa.string()), "row": lists})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    return out.getvalue()


def _hits(found: dict[str, Any]) -> Hits:
    ids, distances = found["ids"], found["distances"]
    width = len(ids[0]) if ids else 0
    names = as_ids([one for row in ids for one in row])
    whole = all(type(one) is int for row in distances for one in row)
    kind = np.int32 if whole and width else np.float64
    values = np.array([[np.inf if one is None else one for one in row] for row in distances], kind)
    shape = (len(ids), width)
    return Hits(names.reshape(shape), values.reshape(shape))


def _bytes(texts: list[str], width: int) -> NDArray[np.uint8]:
    joined = bytes.fromhex("".join(texts))
    return np.frombuffer(joined, np.uint8).reshape(len(texts), width)


def _reason(content: bytes) -> str:
    try:
        found = json.loads(content)
        return str(found["error"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode("utf-8", "replace") or "the service refused this"
