"""PostgreSQL: a table that pgvector searches."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from streambits._arrays import as_count
from streambits.codes import Coded, Codes, as_bits
from streambits.errors import InputError, MissingExtraError, StorageError
from streambits.sinks.given import Rows, as_given, last_of_each
from streambits.streams.patience import DEFAULT, Patience

try:
    import psycopg
    from psycopg import sql
except ImportError:
    raise MissingExtraError("psycopg", "postgres") from None

OLDEST = (0, 7)  # of pgvector: the first that compares bit strings
LOST = (psycopg.OperationalError, psycopg.InterfaceError)
ROWS = 65536
ANSWER = 10  # seconds for the server to let us in
NEW = sql.Identifier("streambits_new")


class PostgresSink:
    """A table with columns id (bigint, primary key), code (bit(k)) and epoch (int).

    Bit j of a code is the j-th character of the bit string, so `<~>` gives our distances:
    SELECT id FROM codes ORDER BY code <~> B'0110...', id LIMIT 10. For large tables, CREATE INDEX
    ON codes USING hnsw (code bit_hamming_ops). The extension and the table are made if they are
    missing; a table that is there is added to, and ids that are in it are replaced.

    Codes wait in memory until a commit, or until `rows` do, and are sent in one transaction. A
    server that goes away meanwhile is waited for, and they are sent again, which changes nothing if
    they had arrived.

    url: postgresql://user:password@host:port/database?table=name. table: by default what the URL
    says, or else 'codes'; may be schema.table. patience: seconds to wait for the server.
    """

    def __init__(
        self,
        url: str,
        bits: int,
        *,
        table: str | None = None,
        rows: int = ROWS,
        patience: float = DEFAULT,
    ) -> None:
        self.bits, self.size = as_bits(bits), as_count(rows, "rows")
        self._url, named = _without_table(url)
        self.table = table or named or "codes"
        self._name = sql.Identifier(*self.table.split("."))
        parts = urlsplit(self._url)
        self.name = f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path} table {self.table}"
        self.patience = Patience(patience, self.name).seconds
        self._waiting: list[Coded] = []
        self._link: psycopg.Connection[Any] | None = None
        self._try(Patience(0, self.name), self._connect)

    def write(self, ids: Any, codes: Codes) -> None:
        """Take codes of one epoch; ids that were written before are replaced."""
        chosen = as_given(ids, codes, self.bits)
        self._waiting.append(Coded(chosen, codes))
        if sum(len(part.ids) for part in self._waiting) >= self.size:
            self.commit()

    def commit(self) -> None:
        """Send what waits, and commit it."""
        rows = [Rows.of(*part) for part in self._waiting if len(part.ids)]
        if rows:
            together = Rows.concat(rows)
            once = together.take(last_of_each(together.ids))
            self._try(Patience(self.patience, self.name), lambda: self._send(once))
        self._waiting = []

    def close(self) -> None:
        """Commit and disconnect."""
        self.commit()
        self._drop()

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _try(self, patience: Patience, work: Callable[[], object]) -> None:
        while True:
            try:
                work()
            except LOST as error:
                self._drop()
                patience.wait(error)
            except psycopg.Error as error:
                self._drop()
                raise StorageError(f"{self.name} cannot be written: {_said(error)}") from error
            else:
                patience.answered()
                return

    def _connect(self) -> psycopg.Connection[Any]:
        if self._link is None:
            self._link = psycopg.connect(self._url, connect_timeout=ANSWER)
            try:
                with self._link.transaction():
                    self._prepare(self._link)
            except BaseException:
                self._drop()
                raise
        return self._link

    def _prepare(self, link: psycopg.Connection[Any]) -> None:
        self._check_extension(link)
        kind = sql.SQL(f"bit({self.bits:d})")
        link.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {} "
                "(id bigint PRIMARY KEY, code {} NOT NULL, epoch int NOT NULL)"
            ).format(self._name, kind)
        )
        found = link.execute(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attname = 'code'",
            [self._name.as_string(link)],
        ).fetchone()
        if found != (f"bit({self.bits})",):
            has = f"codes of type {found[0]}" if found else "no column 'code'"
            raise StorageError(
                f"{self.name} has {has}, and bit({self.bits}) is needed: choose another table"
            )
        link.execute(
            sql.SQL("CREATE TEMP TABLE {} (id bigint, code {}, epoch int)").format(NEW, kind)
        )

    def _check_extension(self, link: psycopg.Connection[Any]) -> None:
        found = link.execute(
            "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
        ).fetchone()
        if found is None:
            raise StorageError(f"{self.name}: the server has no pgvector; install it there")
        link.execute("CREATE EXTENSION IF NOT EXISTS vector")
        [version] = link.execute(
            "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
        ).fetchone() or ("0",)
        if tuple(map(int, version.split(".")[:2])) < OLDEST:
            raise StorageError(
                f"{self.name}: pgvector is {version} there, and bit strings need 0.7 or later: "
                f"ALTER EXTENSION vector UPDATE"
            )

    def _send(self, rows: Rows) -> None:
        link = self._connect()
        with link.transaction():
            into = sql.SQL("COPY {} (id, code, epoch) FROM STDIN").format(NEW)
            link.execute(sql.SQL("TRUNCATE {}").format(NEW))
            with link.cursor() as cursor, cursor.copy(into) as copy:
                for ids, codes in rows.coded(self.bits):
                    for name, text in zip(ids.tolist(), _texts(codes), strict=True):
                        copy.write_row((name, text, codes.epoch))
            link.execute(
                sql.SQL(
                    "INSERT INTO {} (id, code, epoch) SELECT id, code, epoch FROM {} "
                    "ON CONFLICT (id) DO UPDATE SET code = EXCLUDED.code, epoch = EXCLUDED.epoch"
                ).format(self._name, NEW)
            )


def _texts(codes: Codes) -> list[str]:
    """Codes as strings of 0 and 1."""
    digits = (codes.unpack().view("u1") + ord("0")).tobytes().decode()
    return [digits[i : i + codes.bits] for i in range(0, len(digits), codes.bits)]


def _without_table(url: str) -> tuple[str, str | None]:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    table = query.pop("table", None)
    if "=" in parts.path:
        raise InputError(f"{url!r} is no URL of a database: postgresql://host/database")
    return urlunsplit(parts._replace(query=urlencode(query, quote_via=quote))), table


def _said(error: psycopg.Error) -> str:
    return error.diag.message_primary or " ".join(str(error).split())
