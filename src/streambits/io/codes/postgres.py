"""PostgreSQL: a table that pgvector searches."""

import logging
import os
import re
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import repeat
from typing import Any, LiteralString

from streambits._arrays import as_count
from streambits.errors import InputError, MissingExtraError, StorageError
from streambits.index.queries import last_of_each
from streambits.io.codes._append import CodeColumns, as_lengths, check_begun
from streambits.io.codes.rerank import bit_strings, split_name
from streambits.io.retry import DEFAULT, Retry
from streambits.io.urls import Url, secrets_in, shown, shown_value, without
from streambits.model.codes import Codes

try:
    import psycopg
    from psycopg import sql
except ImportError:
    raise MissingExtraError("psycopg", "postgres") from None

EXAMPLE = "postgresql://user@host:5432/database?table=name"
OLDEST = (0, 7)  # of pgvector: the first that compares bit strings
AWAY = ("08", "53", "57P", "40001", "40P01")  # beginnings of SQLSTATEs that pass with time
ROWS = 65536
ANSWER = 10  # seconds for the server to let us in
LOCK = 0x5354_4249  # the class of our advisory locks; with it goes the number of the table
GRACE = "5s"  # for the session of a process that was killed to end
NEW = sql.Identifier("pg_temp", "streambits_new")
MADE_BY = "streambits: codes made by "  # a line of the table's comment, and then by what
NOTE = re.compile(rf"^{MADE_BY}(.*)$", re.MULTILINE)
LENGTH = re.compile(r"octet_length\(refinement\) = (\d+)")  # in a rule of the table

logger = logging.getLogger("streambits")


class PostgresSink:
    """A table with columns id (bigint, primary key), code (bit(k)) and epoch (int).

    Refined codes have a column refinement (bytea) after the code, by which `rerank_sql` ranks the
    candidates that the code finds; codes without sign bits have no column code.

    Parameters
    ----------
    url
        postgresql://user@host:port/database?table=name; several hosts, and settings of libpq in the
        query, as libpq takes them. The password is best passed as libpq also takes it: in
        PGPASSWORD, in ~/.pgpass or by a service.
    bits
        Sign bits per code.
    refine
        Bytes of refinement per code.
    table
        By default what the URL says, or else `codes`; may be schema.table.
    rows
        Codes that wait in memory at most.
    retry_seconds
        How long a server that goes away is waited for.
    made_by
        What makes the codes, in one line, such as the digest of a model; by default a name that no
        other sink has. Sinks of the same name may add to a table, one after another.

    Notes
    -----
    Bit j of a code is the j-th character of the bit string, so `<~>` gives our distances:
    SELECT id FROM codes ORDER BY code <~> B'0110...', id LIMIT 10. For large tables, CREATE INDEX
    ON codes USING hnsw (code bit_hamming_ops). Codes of different epochs do not compare: there,
    add WHERE epoch = ...

    The extension and the table are made if they are missing. Ids that are in the table are
    replaced. The comment of the table has a line that says what made its codes. A table whose codes
    were made by something else is refused, for they do not compare; so is one with codes and no
    such line. To write to a table, the rights to select, insert and update are enough; only its
    owner can note what makes its codes, and who is not is warned.

    Codes wait in memory until a commit, or until there are `rows`, and are sent in one transaction.
    A server that goes away meanwhile is waited for, and they are sent again, which changes nothing
    if they had arrived. As long as the sink is open an advisory lock keeps other sinks from the
    table. `state()` says what makes the codes, and a sink that resumes it goes on in the table;
    codes that were committed after it stay, and are replaced as they come again.
    """

    kind = "postgres"

    def __init__(
        self,
        url: str,
        bits: int,
        *,
        refine: int = 0,
        table: str | None = None,
        rows: int = ROWS,
        retry_seconds: float = DEFAULT,
        made_by: str | None = None,
    ) -> None:
        self.bits, self.refine = as_lengths(bits, refine)
        self.size = as_count(rows, "rows")
        parts = _parsed(url)
        self.table = table or parts.query.pop("table", None) or "codes"
        parts.query.pop("table", None)
        self._url, self._secrets = str(parts), secrets_in(url)
        named = self.table if table else shown_value(self.table)
        self.name = f"{shown(url).partition('?')[0]} table {named}"
        self._asked = sql.Identifier(*split_name(self.table, self.name))
        self._name = self._asked  # with its schema, once that is known
        self._number = 0  # of the table
        self.retry_seconds = self._retry(retry_seconds).seconds
        self.made_by = made_by or f"run {secrets.token_hex(8)}"
        if not self.made_by.isprintable():
            raise InputError(f"{self.name}: made_by is {self.made_by!r}: pass one line of text")
        self._named = made_by is not None  # and not by chance
        self._resumed = self._begun = False
        self._waiting: list[CodeColumns] = []
        self._link: psycopg.Connection[Any] | None = None
        self._ours = False  # whether the table has been locked before
        self._try(self._retry(0), self._connect)

    def write(self, ids: Any, codes: Codes) -> None:
        """Take codes of one epoch; ids that were written before are replaced."""
        rows = CodeColumns.of(ids, codes, self.bits, self.refine)
        self._begin()
        self._waiting.append(rows)
        if sum(len(some.ids) for some in self._waiting) >= self.size:
            self.commit()

    def commit(self) -> None:
        """Send what waits, and commit it."""
        self._begin()
        rows = [some for some in self._waiting if len(some.ids)]
        if rows:
            together = CodeColumns.concat(rows)
            once = together.select(last_of_each(together.ids))
            self._try(self._retry(self.retry_seconds), lambda: self._send(once))
        self._waiting = []

    def close(self) -> None:
        """Commit and disconnect."""
        self.commit()
        self._drop()

    def state(self) -> dict[str, Any]:
        """Commit, and say what makes the codes."""
        self.commit()
        own = {"kind": self.kind, "bits": self.bits, "refine": self.refine}
        return own | {"made_by": self.made_by}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on in the table that was written to when `state()` was called."""
        ours = {"kind": self.kind, "bits": self.bits, "refine": self.refine}
        ours |= {"made_by": self.made_by} if self._named else {}
        try:
            check_begun(self.name, state, ours)
        except StorageError:
            self._drop()
            raise
        self.made_by, self._resumed = state["made_by"], True
        self._begin()

    def _begin(self) -> None:
        """Refuse codes of others, before anything is written."""
        if not self._begun:
            self._try(self._retry(self.retry_seconds), self._claim)
            self._begun = True

    def _claim(self) -> None:
        link = self._connect()
        try:
            with link.transaction():
                self._own(link)
        except StorageError:
            self._drop()
            raise

    def _own(self, link: psycopg.Connection[Any]) -> None:
        """Note in the table what makes its codes; if it has codes, that must be noted there."""
        [comment] = link.execute(
            "SELECT coalesce(obj_description(%s, 'pg_class'), '')", [self._number]
        ).fetchone() or [""]
        noted = NOTE.search(comment)
        if noted and noted[1] == self.made_by:
            return
        [holds] = link.execute(
            sql.SQL("SELECT EXISTS (SELECT FROM {})").format(self._name)
        ).fetchone() or [True]
        ours = self._resumed or self._begun  # codes without a note, where none could be made
        if holds and (noted or not ours):
            raise self._foreign(link, noted and noted[1])
        query = self._commented(f"{NOTE.sub('', comment).strip()}\n{MADE_BY}{self.made_by}".strip())
        try:
            with link.transaction():
                link.execute(query)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.WrongObjectType):
            remedy = f"let its owner run {query.as_string(link)}"
            if noted:
                raise StorageError(
                    f"{self.name} notes that its codes are made by {noted[1]}, and not by "
                    f"{self.made_by}: {remedy}, or name another table (?table=NAME)"
                ) from None
            logger.warning("%s cannot note what makes its codes: %s", self.name, remedy)

    def _commented(self, comment: str) -> sql.Composed:
        return sql.SQL("COMMENT ON TABLE {} IS {}").format(self._name, sql.Literal(comment))

    def _foreign(self, link: psycopg.Connection[Any], maker: str | None) -> StorageError:
        """Why codes that are there cannot be added to."""
        by = f"made by {maker}" if maker else "and does not say what made them"
        ways = f"name another table (?table=NAME), or drop it (DROP TABLE {self.table})"
        if self._named:
            note = self._commented(MADE_BY + self.made_by).as_string(link)
            ways += f"; or, if you know that they do, {note}"
        return StorageError(
            f"{self.name} holds codes {by}, and codes made by {self.made_by} would not compare to "
            f"them: {ways}"
        )

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _retry(self, seconds: float) -> Retry:
        return Retry(seconds, self.name, self._secrets)

    def _try(self, retry: Retry, work: Callable[[], object]) -> None:
        """Do it, again and again where the reason may pass; then what was sent is sent again."""
        while True:
            try:
                work()
            except psycopg.Error as error:
                self._drop()
                said = without(error.diag.message_primary or error, self._secrets)
                if not _may_pass(error):
                    raise StorageError(f"{self.name} cannot be written: {said}") from error
                retry.wait(said)
            except _HeldError as error:
                self._drop()
                if not self._ours:
                    raise StorageError(
                        f"{error}: wait until it is done, or choose another table"
                    ) from error
                retry.wait(error)  # it may be our own session, which the server takes for alive
            else:
                retry.answered()
                return

    def _connect(self) -> psycopg.Connection[Any]:
        if self._link is None:
            name = f"streambits {os.getpid()}"
            self._link = psycopg.connect(
                self._url, connect_timeout=ANSWER, fallback_application_name=name
            )
            try:
                with self._link.transaction():
                    self._prepare(self._link)
            except BaseException:
                self._drop()
                raise
            self._ours = True
        return self._link

    def _prepare(self, link: psycopg.Connection[Any]) -> None:
        self._check_extension(link)
        found = self._find(link) or self._made(link)
        if found is None:
            raise StorageError(f"{self.name} was made and cannot be seen: choose another schema")
        self._number, schema, table = found
        self._lock(link, self._number)
        self._name = sql.Identifier(schema, table)  # a temporary table by its name would go first
        self._check_type(link, self._number)
        if self._begun:  # another may have been here meanwhile
            self._own(link)
        held = sql.SQL(", ").join(sql.SQL(f"{name} {kind}") for name, kind in self._kinds.items())
        link.execute(sql.SQL("CREATE TEMP TABLE {} ({})").format(NEW, held))

    @property
    def _kinds(self) -> dict[LiteralString, LiteralString]:
        """The columns of the table, and their types."""
        code = {"code": f"bit({self.bits:d})"} if self.bits else {}
        more = {"refinement": "bytea"} if self.refine else {}
        return {"id": "bigint"} | code | more | {"epoch": "int"}

    def _find(self, link: psycopg.Connection[Any]) -> tuple[int, str, str] | None:
        """Number, schema and name of the table, if it is there."""
        found: tuple[int, str, str] | None = link.execute(
            "SELECT c.oid::bigint, n.nspname, c.relname FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)",
            [self._asked.as_string(link)],
        ).fetchone()
        return found

    def _made(self, link: psycopg.Connection[Any]) -> tuple[int, str, str] | None:
        """The same after the table was made, by this or at the same moment by another."""
        rules = {"id": "PRIMARY KEY"}
        rules["refinement"] = f"NOT NULL CHECK (octet_length(refinement) = {self.refine:d})"
        columns = sql.SQL(", ").join(
            sql.SQL(f"{name} {kind} {rules.get(name, 'NOT NULL')}")
            for name, kind in self._kinds.items()
        )
        query = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self._asked, columns)
        with suppress(psycopg.errors.UniqueViolation), link.transaction():
            link.execute(query)
        return self._find(link)

    def _lock(self, link: psycopg.Connection[Any], number: int) -> None:
        """Keep other sinks from the table, until this session ends."""
        try:
            with link.transaction():
                link.execute(f"SET LOCAL lock_timeout = '{GRACE}'")
                link.execute("SELECT pg_advisory_lock(%s)", [LOCK << 32 | number])
        except psycopg.errors.LockNotAvailable:
            raise _HeldError(f"{self._holder(link, number)} writes to {self.name}") from None

    def _holder(self, link: psycopg.Connection[Any], number: int) -> str:
        found = link.execute(
            "SELECT a.application_name, host(a.client_addr) FROM pg_locks l "
            "JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND l.granted "
            "AND l.classid = %s AND l.objid = %s",
            [LOCK, number],
        ).fetchone()
        who = " at ".join(filter(None, found or ()))
        return f"another process ({who})" if who else "another process"

    def _check_type(self, link: psycopg.Connection[Any], number: int) -> None:
        """Refuse a table of other codes."""
        found = dict(
            link.execute(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
                "WHERE attrelid = %s AND attname IN ('code', 'refinement') AND NOT attisdropped",
                [number],
            ).fetchall()
        )
        for name, what in (("code", "codes"), ("refinement", "refinements")):
            has, needed = found.get(name), self._kinds.get(name)
            if has != needed:
                there = f"{what} of type {has}" if has else f"no column '{name}'"
                wanted = f"{needed} is needed" if needed else f"the codes to write have no {name}"
                raise StorageError(f"{self.name} has {there}, and {wanted}: choose another table")
        length = self._length(link, number) if self.refine else None
        if length not in (None, self.refine):
            raise StorageError(
                f"{self.name} has refinements of {length} bytes, and the codes have "
                f"{self.refine}: choose another table"
            )

    def _length(self, link: psycopg.Connection[Any], number: int) -> int | None:
        """Bytes of the refinements in the table, by its rules or else by what it holds."""
        rules = link.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s", [number]
        )
        for [rule] in rules:
            if noted := LENGTH.search(rule):
                return int(noted[1])
        query = sql.SQL("SELECT octet_length(refinement) FROM {} LIMIT 1").format(self._name)
        found: tuple[int] | None = link.execute(query).fetchone()
        return found[0] if found else None

    def _check_extension(self, link: psycopg.Connection[Any]) -> None:
        query = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
        found = link.execute(query).fetchone()
        if found is None:
            offered = link.execute(
                "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
            ).fetchone()
            if offered is None:
                raise StorageError(f"{self.name}: the server has no pgvector; install it there")
            link.execute("CREATE EXTENSION IF NOT EXISTS vector")
            found = link.execute(query).fetchone() or ("0",)
        [version] = found
        if tuple(map(int, version.split(".")[:2])) < OLDEST:
            raise StorageError(
                f"{self.name}: pgvector is {version} there, and bit strings need 0.7 or later: "
                f"ALTER EXTENSION vector UPDATE"
            )

    def _send(self, rows: CodeColumns) -> None:
        link = self._connect()
        columns = sql.SQL(", ").join(map(sql.SQL, self._kinds))
        others = [name for name in self._kinds if name != "id"]
        update = sql.SQL(", ").join(sql.SQL(f"{name} = EXCLUDED.{name}") for name in others)
        with link.transaction():
            into = sql.SQL("COPY {} ({}) FROM STDIN").format(NEW, columns)
            link.execute(sql.SQL("TRUNCATE {}").format(NEW))
            with link.cursor() as cursor, cursor.copy(into) as copy:
                for batch in rows.batches(self.bits):
                    for row in _rows(*batch):
                        copy.write_row(row)
            link.execute(
                sql.SQL(
                    "INSERT INTO {} ({columns}) SELECT {columns} FROM {} "
                    "ON CONFLICT (id) DO UPDATE SET {update}"
                ).format(self._name, NEW, columns=columns, update=update)
            )


def _rows(ids: Any, codes: Codes) -> Iterable[tuple[Any, ...]]:
    """What goes into the columns of the table, row by row."""
    parts: list[Iterable[Any]] = [bit_strings(codes)] if codes.bits else []
    if codes.refinement is not None:
        parts.append(one.tobytes() for one in codes.refinement)
    return zip(ids.tolist(), *parts, repeat(codes.epoch, len(codes)), strict=True)


class _HeldError(Exception):
    """Another session has locked the table."""


def _parsed(url: str) -> Url:
    parts = Url.parse(url, EXAMPLE)
    if "=" in parts.path:
        raise InputError(f"{shown(url)} is not a URL of a database, such as {EXAMPLE}")
    return parts


def _may_pass(error: psycopg.Error) -> bool:
    """Whether the server went away, has no room now or gave way to another transaction."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return str(error.sqlstate).startswith(AWAY)
