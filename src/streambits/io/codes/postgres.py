"""PostgreSQL: a table that pgvector searches."""

import logging
import os
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any
from zlib import crc32

import numpy as np

from streambits._arrays import TEXT, Ids, as_count, as_ids
from streambits.errors import InputError, MissingExtraError, StorageError
from streambits.index.queries import last_of_each
from streambits.io.bad_rows import short
from streambits.io.codes.columns import (
    COLUMNS,
    TOMBSTONE,
    CodeColumns,
    as_lengths,
    check_begun,
    check_names,
)
from streambits.io.pgvector import LONGEST, bit_strings, split_name
from streambits.io.protocols import Payload
from streambits.io.retry import DEFAULT, Retry
from streambits.io.urls import Url, redact, redact_url, redact_value, secrets_in
from streambits.model.codes import Codes

try:
    import psycopg
    from psycopg import sql
except ImportError:
    raise MissingExtraError("psycopg", "postgres") from None

EXAMPLE = "postgresql://user@host:5432/database?table=name"
OLDEST = (0, 7)  # of pgvector: the first that compares bit strings
MAY_PASS = ("08", "53", "57P", "40001", "40P01")  # beginnings of SQLSTATEs that pass with time
BATCH_ROWS = 65536
ANSWER = 10  # seconds for the server to let us in
LOCK = 0x5354_4249  # the class of our advisory locks; with it goes a sum of the table's name
GRACE = "5s"  # for the session of a process that was killed to end
NEW = sql.Identifier("pg_temp", "streambits_new")
MODELS = "streambits_models"  # the table, one for each schema, of what made the codes of tables
MODEL_COLUMNS = "table_name regclass PRIMARY KEY, model text NOT NULL, bits int, refine int"
COMMENT = re.compile(r"^streambits: codes made by (.*?)(?: \(\d+ bits[^()]*\))?$", re.MULTILINE)
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
ID_TYPES = {  # what ids are sent as, by the type that a table has for them
    **dict.fromkeys(("bigint", "integer", "smallint", "numeric"), "bigint"),
    **dict.fromkeys(("text", "character varying"), "text"),
    "uuid": "uuid",
}
FIT = {  # what an id must be for each
    "bigint": "a whole number",
    "text": "a text without NUL characters",
    "uuid": "a UUID (8-4-4-4-12 hexadecimal digits)",
}

logger = logging.getLogger("streambits")


class PostgresSink:
    """A table with columns id (primary key), code (bit(k)) and epoch (int), then kept texts.

    Refined codes have a column refinement (bytea) after the code, by which `ranking_sql` ranks the
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
    keep
        Names of the payload: a column of type text for each, NULL where there is none.
    table
        By default what the URL says, or else `codes`; may be schema.table.
    rows
        Codes and removals that wait in memory at most.
    retry_seconds
        How long a server that goes away is waited for.
    made_by
        What makes the codes, in one line, such as the digest of a model; by default a name that no
        other sink has. Sinks of the same name may add to a table, one after another.

    Notes
    -----
    Bit j of a code is the j-th character of the bit string, so `<~>` gives our distances:
    SELECT id FROM codes ORDER BY code <~> B'0110...', id LIMIT 10. `bit_strings` gives these
    strings; docs/postgres.md has indexes, ranking by vectors, and search in several epochs, the
    codes of which do not compare.

    The extension is made if it is missing, and the table at the first write, when it is known what
    ids are: bigint or text. In a table that is there the column id decides, which may be uuid too;
    ids that do not fit it are refused. UUIDs are the same in capitals.

    An id that is in the table is replaced. The table streambits_models of the same schema records
    for each table the model that made its codes, and their lengths. A table whose codes were made
    by another model is refused, for they do not compare; so is one that holds codes and has no
    record. The rights to select, insert and update both tables are enough to write, and that to
    delete to remove.

    Changes wait in memory until a commit, or until there are `rows`, and the last of every id is
    sent, all in one transaction. A server that goes away meanwhile is waited for, and they are sent
    again, which changes nothing if they had arrived. As long as the sink is open an advisory lock
    keeps other sinks from the table. `state()` says what makes the codes, and a sink that resumes
    it goes on in the table; changes that were committed after it stay, and are made again as they
    come again.
    """

    kind = "postgres"

    def __init__(
        self,
        url: str,
        bits: int,
        *,
        refine: int = 0,
        keep: Sequence[str] = (),
        table: str | None = None,
        rows: int = BATCH_ROWS,
        retry_seconds: float = DEFAULT,
        made_by: str | None = None,
    ) -> None:
        self.bits, self.refine = as_lengths(bits, refine)
        self.size = as_count(rows, "rows")
        parts = Url.parse(url, EXAMPLE)
        if "=" in parts.path:
            raise InputError(f"{redact_url(url)} is not a URL of a database, such as {EXAMPLE}")
        self.table = table or parts.query.pop("table", None) or "codes"
        parts.query.pop("table", None)
        self._url, self._secrets = str(parts), secrets_in(url)
        self.name = f"{redact_url(url).partition('?')[0]} table {redact_value(self.table)}"
        self._parts = split_name(self.table, self.name)
        if self._parts[-1] == MODELS:
            raise InputError(f"{self.name} has records of other tables: choose another table")
        self._name = self._models = sql.Identifier(*self._parts)  # with schemas, once connected
        self.keep = check_names(keep, self.name)
        for name in self.keep:
            if not _is_text(name) or not 0 < len(name.encode()) <= LONGEST:
                raise InputError(
                    f"{self.name}: keep has {name!r}, and a column is named by a text of 1 to "
                    f"{LONGEST} bytes"
                )
        self._id_type: str | None = None  # a key of FIT; of the table, or to make it with
        self._epochs: set[int] = set()
        self.retry_seconds = self._retry(retry_seconds).seconds
        self.made_by = made_by or f"run {secrets.token_hex(8)}"
        if not self.made_by.isprintable():
            raise InputError(f"{self.name}: made_by is {self.made_by!r}: pass one line of text")
        self._named = made_by is not None
        self._resumed = self._begun = False
        self._waiting: list[CodeColumns] = []
        self._link: psycopg.Connection[Any] | None = None
        self._ready = False  # whether the table is there, locked and ours in this session
        self._ours = False  # whether it has been locked before
        self._try(self._connect, seconds=0)

    def write(self, ids: Any, codes: Codes, payload: Payload | None = None) -> None:
        """Take codes of one epoch; ids that were written before are replaced.

        payload: (n, p) texts or None, if the sink keeps p of them for each id.
        """
        columns = CodeColumns.of(
            ids, codes, self.bits, self.refine, payload=payload, keep=self.keep
        )
        for name, values in zip(self.keep, columns.payload.T, strict=True):
            for key, value in zip(columns.ids, values.tolist(), strict=True):
                if value is not None and not _is_text(value):
                    raise InputError(
                        f"{self.name} keeps texts, and {name!r} of the id {key} is "
                        f"{short(value)}: pass a text without NUL characters, or None"
                    )
        self._add(columns)
        self._note_epoch(codes)

    def remove(self, ids: Any) -> None:
        """Take out ids, in the order of the calls; those that are not there do not matter."""
        self._add(CodeColumns.tombstones(as_ids(ids), self.bits, self.refine, len(self.keep)))

    def commit(self) -> None:
        """Send what waits, and commit it."""
        self._begin(self._id_type)
        if self._waiting:
            columns = CodeColumns.concat(self._waiting)
            last = columns.select(last_of_each(columns.ids))
            self._try(lambda: self._send(last), self.retry_seconds)
            self._waiting = []

    def close(self) -> None:
        """Commit and disconnect."""
        self._begin("bigint")  # if there were no rows, of an empty table
        self.commit()
        self._drop()

    def state(self) -> dict[str, Any]:
        """Commit, and say what makes the codes."""
        self.commit()
        return self._settings | {"made_by": self.made_by}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on in the table that was written to when `state()` was called."""
        made_by = {"made_by": self.made_by} if self._named else {}
        try:
            check_begun(self.name, {"keep": []} | state, self._settings | made_by)
            self.made_by, self._resumed = state["made_by"], True
            self._begin(self._id_type)
        except StorageError:
            self._drop()
            raise

    @property
    def _settings(self) -> dict[str, Any]:
        settings = {"kind": self.kind, "bits": self.bits, "refine": self.refine}
        return settings | {"keep": list(self.keep)}

    def _add(self, columns: CodeColumns) -> None:
        if not len(columns.ids):
            return
        kind = self._id_type or ("bigint" if columns.ids.dtype.kind == "i" else "text")
        columns = columns._replace(ids=self._as_typed(columns.ids, kind))
        self._begin(kind)
        self._waiting.append(columns)
        if sum(len(some.ids) for some in self._waiting) >= self.size:
            self.commit()

    def _as_typed(self, ids: Ids, kind: str) -> Ids:
        """Ids as a column of that type has them."""
        if kind == "bigint" and ids.dtype.kind == "i":
            return ids
        wrong = next((value for value in ids.tolist() if not _fits(value, kind)), None)
        if wrong is not None:
            raise InputError(
                f"{self.name} has ids of type {kind}, and the id {short(wrong)} is not "
                f"{FIT[kind]}: write such ids, or name another table (?table=NAME)"
            )
        return np.array([text.lower() for text in ids.tolist()], TEXT) if kind == "uuid" else ids

    def _note_epoch(self, codes: Codes) -> None:
        """Warn once that codes are of several epochs."""
        before = len(self._epochs)
        self._epochs |= {codes.epoch} if len(codes) else set()
        if before == 1 < len(self._epochs):
            logger.warning(
                "%s gets codes of several epochs (%s), and only those of one epoch compare: ask "
                "for each with the query encoded by its coder (docs/postgres.md)",
                self.name,
                ", ".join(map(str, sorted(self._epochs))),
            )

    # The session: connected, the table locked, fitting and ours

    def _begin(self, kind: str | None) -> None:
        """Make the table if it is missing, and refuse codes of others, before anything is sent.

        kind: of its ids, for a new table; None as long as it is not known.
        """
        self._id_type = self._id_type or kind
        if not self._begun and self._id_type is not None:
            self._begun = True
            self._try(self._connect, self.retry_seconds)

    def _retry(self, seconds: float) -> Retry:
        return Retry(seconds, self.name, self._secrets)

    def _try(self, work: Callable[[], object], seconds: float) -> None:
        """Do it, again and again where the reason may pass; then what was sent is sent again."""
        self._retry(seconds).run(work, (psycopg.Error, _LockedError), self._reason)

    def _reason(self, error: "psycopg.Error | _LockedError") -> str:
        """Disconnect, and say what the reason was; one that does not pass ends the attempts."""
        self._drop()
        if isinstance(error, _LockedError):
            if not self._ours:
                raise StorageError(
                    f"{error}: wait until it is done, or choose another table"
                ) from error
            return str(error)  # it may be our own session, which the server takes for alive
        said = redact(error.diag.message_primary or error, self._secrets)
        if not _may_pass(error):
            raise StorageError(f"{self.name} cannot be written: {said}") from error
        return said

    def _connect(self) -> psycopg.Connection[Any]:
        if self._link is None:
            self._link = psycopg.connect(
                self._url,
                connect_timeout=ANSWER,
                fallback_application_name=f"streambits {os.getpid()}",
            )
        if not self._ready:
            try:
                with self._link.transaction():
                    self._ready = self._prepare(self._link)
            except BaseException:
                self._drop()
                raise
            self._ours = True
        return self._link

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link, self._ready = None, False

    def _prepare(self, link: psycopg.Connection[Any]) -> bool:
        """Lock the table and see that it fits; False as long as nothing is to be written."""
        self._check_extension(link)
        number, schema = self._locate(link)
        self._name = sql.Identifier(schema, self._parts[-1])  # a temporary table would go first
        self._models = sql.Identifier(schema, MODELS)
        self._lock(link, crc32(f"{schema}.{self._parts[-1]}".encode()))
        number = number or self._locate(link)[0]  # another may have made it meanwhile
        if number is None and self._begun:
            self._create(link)
            number, _ = self._locate(link)
        if number is None:
            return False
        self._check_columns(link, number)
        model = self._recorded(link, number)
        if self._begun:
            self._own(link, number, model)
            columns = self._definitions(dict.fromkeys(self._columns, ""))
            link.execute(sql.SQL("CREATE TEMP TABLE {} ({})").format(NEW, columns))
        return self._begun

    def _check_extension(self, link: psycopg.Connection[Any]) -> None:
        query = "SELECT installed_version, default_version FROM pg_available_extensions "
        versions = link.execute(f"{query} WHERE name = 'vector'").fetchone()
        if versions is None:
            raise StorageError(f"{self.name}: the server has no pgvector; install it there")
        if versions[0] is None:
            link.execute("CREATE EXTENSION IF NOT EXISTS vector")
        version = versions[0] or versions[1]
        if tuple(map(int, version.split(".")[:2])) < OLDEST:
            raise StorageError(
                f"{self.name}: pgvector is {version} there, and bit strings need 0.7 or later: "
                f"ALTER EXTENSION vector UPDATE"
            )

    def _locate(self, link: psycopg.Connection[Any]) -> tuple[int | None, str]:
        """The number of the table, None if it is not there, and its schema."""
        asked = sql.Identifier(*self._parts).as_string(link)
        named = self._parts[0] if len(self._parts) == 2 else None
        [(number, schema)] = link.execute(
            "SELECT c.oid::bigint, coalesce(n.nspname, %s, current_schema()) "
            "FROM (SELECT to_regclass(%s)::oid AS oid) AS asked LEFT JOIN pg_class c USING (oid) "
            "LEFT JOIN pg_namespace n ON n.oid = c.relnamespace",
            [named, asked],
        )
        if schema is None:
            raise StorageError(f"{self.name} has no schema: name one (?table=SCHEMA.NAME)")
        return number, schema

    def _lock(self, link: psycopg.Connection[Any], key: int) -> None:
        """Keep other sinks from the table, until this session ends."""
        try:
            with link.transaction():
                link.execute(f"SET LOCAL lock_timeout = '{GRACE}'")
                link.execute("SELECT pg_advisory_lock(%s)", [LOCK << 32 | key])
        except psycopg.errors.LockNotAvailable:
            holder = link.execute(
                "SELECT concat_ws(' at ', a.application_name, host(a.client_addr)) "
                "FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' "
                "AND l.granted AND l.classid = %s AND l.objid = %s",
                [LOCK, key],
            ).fetchone()
            who = f"another process ({holder[0]})" if holder else "another process"
            raise _LockedError(f"{who} writes to {self.name}") from None

    @property
    def _columns(self) -> dict[str, str]:
        """The columns of the table, and their types."""
        code = {"code": f"bit({self.bits:d})"} if self.bits else {}
        more = {"refinement": "bytea"} if self.refine else {}
        kept = dict.fromkeys(self.keep, "text")
        return {"id": self._id_type or "bigint"} | code | more | {"epoch": "int"} | kept

    def _definitions(self, rules: dict[str, str]) -> sql.Composed:
        return sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(f"{kind} {rules[name]}"))
            for name, kind in self._columns.items()
        )

    def _create(self, link: psycopg.Connection[Any]) -> None:
        rules = dict.fromkeys(COLUMNS, "NOT NULL") | {"id": "PRIMARY KEY"}
        rules["refinement"] += f" CHECK (octet_length(refinement) = {self.refine:d})"
        columns = self._definitions(rules | dict.fromkeys(self.keep, ""))
        link.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self._name, columns))

    def _check_columns(self, link: psycopg.Connection[Any], number: int) -> None:
        """Refuse a table of other codes, and take the type of its ids."""
        query = (
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped"
        )
        types: dict[str, str] = dict(link.execute(query, [number]))
        kind = _id_type(types.get("id"))
        fits = {name: types.get(name) == self._columns.get(name) for name in ("code", "refinement")}
        fits |= {name: _id_type(types.get(name)) == "text" for name in self.keep}
        fits["id"] = kind is not None and self._id_type in (None, kind)
        for name in (name for name, good in fits.items() if not good):
            has = f"a column {name!r} of type {types[name]}" if name in types else f"no {name!r}"
            needed = self._columns.get(name, "none")
            if name == "id" and self._id_type is None:
                needed = "bigint, text or uuid"
            more = " or add the column" if name in self.keep and name not in types else ""
            raise StorageError(
                f"{self.name} has {has}, and {needed} is needed: choose another table{more}"
            )
        self._id_type = kind

    # What makes the codes

    def _recorded(self, link: psycopg.Connection[Any], number: int) -> str | None:
        """The model that made the codes of the table, by its record; None without one."""
        if not self._has_models(link):
            return None
        query = sql.SQL("SELECT model, refine FROM {} WHERE table_name = %s::bigint::oid")
        for model, refine in link.execute(query.format(self._models), [number]):
            if refine != self.refine:
                raise StorageError(
                    f"{self.name} has refinements of {refine} bytes, and the codes have "
                    f"{self.refine}: choose another table"
                )
            return str(model)
        return None

    def _has_models(self, link: psycopg.Connection[Any]) -> bool:
        models = self._models.as_string(link)
        return bool(link.execute("SELECT to_regclass(%s)", [models]).fetchone() != (None,))

    def _own(self, link: psycopg.Connection[Any], number: int, model: str | None) -> None:
        """Record what makes the codes; of codes that are there, the record must say the same."""
        if model == self.made_by:
            return
        before = model
        if model is None:  # older versions have it in a comment, which is moved here
            comment = link.execute("SELECT obj_description(%s, 'pg_class')", [number]).fetchone()
            noted = COMMENT.search(comment[0] or "") if comment else None
            before = noted[1] if noted else None
        holds = link.execute(sql.SQL("SELECT EXISTS (SELECT FROM {})").format(self._name))
        record = sql.SQL(
            "INSERT INTO {} VALUES ({}, {}, {}, {}) ON CONFLICT (table_name) "
            "DO UPDATE SET model = excluded.model, bits = excluded.bits, refine = excluded.refine"
        ).format(self._models, self._name.as_string(link), self.made_by, self.bits, self.refine)
        continued = before is None and self._resumed  # by a version that could not note it
        if before != self.made_by and not continued and holds.fetchone() == (True,):
            by = f"made by {before}" if before else "and no record of what made them"
            ways = f"name another table (?table=NAME), or drop it (DROP TABLE {self.table})"
            if before is None and self._named:
                ways += f"; or, if you know that they do, run {record.as_string(link)}"
            raise StorageError(
                f"{self.name} holds codes {by}, and codes made by {self.made_by} would not compare "
                f"to them: {ways}"
            )
        create = sql.SQL(f"CREATE TABLE IF NOT EXISTS {{}} ({MODEL_COLUMNS})").format(self._models)
        try:
            if not self._has_models(link):
                with suppress(psycopg.errors.UniqueViolation), link.transaction():
                    link.execute(create)  # which another sink may do at the same moment
            link.execute(record)
        except psycopg.errors.InsufficientPrivilege:
            query = create.as_string(link)
            raise StorageError(
                f"{self.name} cannot record what makes its codes: let the owner of the schema run "
                f"{query}; GRANT SELECT, INSERT, UPDATE ON {self._models.as_string(link)} TO ..."
            ) from None

    # Changes

    def _send(self, last: CodeColumns) -> None:
        """Make changes, of every id one; to make them twice is the same."""
        link = self._connect()
        gone = last.epochs == TOMBSTONE
        with link.transaction():
            if not gone.all():
                self._upsert(link, last.select(~gone))
            if gone.any():
                kind = sql.SQL(f"{self._id_type}[]")
                query = sql.SQL("DELETE FROM {} WHERE id = ANY(%s::{})").format(self._name, kind)
                link.execute(query, [last.ids[gone].tolist()])

    def _upsert(self, link: psycopg.Connection[Any], written: CodeColumns) -> None:
        names = {name: sql.Identifier(name) for name in self._columns}
        columns = sql.SQL(", ").join(names.values())
        update = sql.SQL(", ").join(
            sql.SQL("{0} = EXCLUDED.{0}").format(name) for key, name in names.items() if key != "id"
        )
        into = sql.SQL("COPY {} ({}) FROM STDIN").format(NEW, columns)
        link.execute(sql.SQL("TRUNCATE {}").format(NEW))
        with link.cursor() as cursor, cursor.copy(into) as copy:
            for row in self._rows(written):
                copy.write_row(row)
        link.execute(
            sql.SQL(
                "INSERT INTO {} ({columns}) SELECT {columns} FROM {} "
                "ON CONFLICT (id) DO UPDATE SET {update}"
            ).format(self._name, NEW, columns=columns, update=update)
        )

    def _rows(self, written: CodeColumns) -> Iterable[tuple[Any, ...]]:
        """What goes into the columns of the table, row by row."""
        ids, packed, epochs, refinement, payload = written
        parts: list[Iterable[Any]] = [bit_strings(Codes(packed, self.bits))] if self.bits else []
        if self.refine:
            parts.append(one.tobytes() for one in refinement)
        return zip(ids.tolist(), *parts, epochs.tolist(), *payload.T.tolist(), strict=True)


class _LockedError(Exception):
    """Another session has locked the table."""


def _id_type(kind: str | None) -> str | None:
    """What ids are sent as to a column of that type; None if it cannot have any."""
    return ID_TYPES.get((kind or "").partition("(")[0])


def _fits(value: int | str, kind: str) -> bool:
    """Whether an id can be in a column."""
    if isinstance(value, int):
        return kind == "bigint"
    return bool(UUID.fullmatch(value)) if kind == "uuid" else kind == "text" and _is_text(value)


def _is_text(value: object) -> bool:
    """Whether PostgreSQL can have it as text: no NUL, no half of a surrogate pair."""
    try:
        return isinstance(value, str) and b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False


def _may_pass(error: psycopg.Error) -> bool:
    """Whether the server went away, has no room now or gave way to another transaction."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return str(error.sqlstate).startswith(MAY_PASS)
