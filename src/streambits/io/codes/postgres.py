"""PostgreSQL: a table that pgvector searches."""

import logging
import os
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from streambits._arrays import NO_IDS, TEXT, Ids, as_count, as_ids, concat_ids
from streambits.errors import InputError, MissingExtraError, StorageError
from streambits.index.queries import last_of_each
from streambits.io.codes.columns import CodeColumns, as_lengths, check_begun
from streambits.io.codes.rerank import LONGEST, bit_strings, split_name, vector_text
from streambits.io.protocols import Payload
from streambits.io.retry import DEFAULT, Retry
from streambits.io.urls import Url, redact, redact_url, redact_value, secrets_in
from streambits.model.codes import Codes

try:
    import psycopg
    from psycopg import sql
except ImportError:
    raise MissingExtraError("psycopg", "postgres") from None

__all__ = ["PostgresSink", "bit_strings", "vector_text"]

EXAMPLE = "postgresql://user@host:5432/database?table=name"
OLDEST = (0, 7)  # of pgvector: the first that compares bit strings
AWAY = ("08", "53", "57P", "40001", "40P01")  # beginnings of SQLSTATEs that pass with time
ROWS = 65536
ANSWER = 10  # seconds for the server to let us in
LOCK = 0x5354_4249  # the class of our advisory locks; with it goes the number of the table
LOCK_NAME = LOCK + 1  # the same for a table that is not there yet; with it goes a sum of its name
GRACE = "5s"  # for the session of a process that was killed to end
NEW = sql.Identifier("pg_temp", "streambits_new")
MADE_BY = "streambits: codes made by "  # a line of the table's comment, and then by what
NOTE = re.compile(rf"^{MADE_BY}(.*)$", re.MULTILINE)
ABOUT = re.compile(
    r" \(\d+ bits[^()]*; those of one epoch compare\)$"
)  # the end of that line, for people
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
OWN = ("id", "code", "refinement", "epoch")
LENGTH = re.compile(r"octet_length\(refinement\) = (\d+)")  # in a rule of the table

logger = logging.getLogger("streambits")


class _Change(NamedTuple):
    """Codes that wait with their ids; without codes, ids to take out."""

    ids: Ids
    codes: Codes | None = None
    payload: Payload | None = None

    def select(self, which: Any) -> "_Change":
        ids, codes, payload = self
        return _Change(
            ids[which],
            None if codes is None else codes[which],
            None if payload is None else payload[which],
        )


class PostgresSink:
    """A table with columns id (primary key), code (bit(k)) and epoch (int), then kept texts.

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
    ids are: bigint, or uuid if all texts of that write are UUIDs (8-4-4-4-12 hexadecimal digits),
    or text. In a table that is there the column id decides; ids that do not fit it are refused.
    UUIDs are the same in capitals. A sink that is closed without ids makes a table for bigint.

    Ids that are in the table are replaced. The comment of the table has a line that says what made
    its codes, and of what length they are. A table whose codes were made by something else is
    refused, for they do not compare; so is one with codes and no such line. To write to a table,
    the rights to select, insert and update are enough, and to remove, that to delete; only its
    owner can note what makes its codes, and who is not is warned.

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
        named = self.table if table else redact_value(self.table)
        self.name = f"{redact_url(url).partition('?')[0]} table {named}"
        self._parts = split_name(self.table, self.name)
        self._asked = sql.Identifier(*self._parts)
        self._name = self._asked  # with its schema, once that is known
        self._number = 0  # of the table
        self.keep = _as_names(keep, self.name)
        self._id_type: str | None = None  # a key of FIT; of the table, or to make it with
        self._seen = NO_IDS  # the first id
        self._epochs: set[int] = set()
        self.retry_seconds = self._retry(retry_seconds).seconds
        self.made_by = made_by or f"run {secrets.token_hex(8)}"
        if not self.made_by.isprintable():
            raise InputError(f"{self.name}: made_by is {self.made_by!r}: pass one line of text")
        self._named = made_by is not None  # and not by chance
        self._resumed = self._begun = False
        self._waiting: list[_Change] = []
        self._link: psycopg.Connection[Any] | None = None
        self._ready = False  # whether the table is there, and locked in this session
        self._ours = False  # whether it has been locked before
        self._try(self._retry(0), self._connect)

    def write(self, ids: Any, codes: Codes, payload: Payload | None = None) -> None:
        """Take codes of one epoch; ids that were written before are replaced.

        payload: (n, p) texts or None, if the sink keeps p of them for each id.
        """
        paired = CodeColumns.of(ids, codes, self.bits, self.refine).ids
        kept = self._as_payload(payload, paired)
        kind = self._id_type or (_type_of(paired) if len(paired) else None)
        named = self._as_named(paired, kind)
        self._check_kind(named)
        self._id_type = kind
        self._begin()
        self._add(_Change(named, codes, kept))
        self._note_epoch(codes)

    def remove(self, ids: Any) -> None:
        """Take out ids, in the order of the calls; those that are not there do not matter."""
        some = as_ids(ids)
        named = self._as_named(some, self._id_type)
        self._check_kind(some)
        if self._id_type is not None:  # without a table there is nothing to take out
            self._begin()
            self._add(_Change(named))

    def commit(self) -> None:
        """Send what waits, and commit it."""
        self._begin()
        changes = [some for some in self._waiting if len(some.ids)]
        if changes:
            last = last_of_each(concat_ids(some.ids for some in changes))
            ends = np.cumsum([len(some.ids) for some in changes])[:-1]
            parts = zip(changes, np.split(last, ends), strict=True)
            once = [some.select(which) for some, which in parts]
            self._try(self._retry(self.retry_seconds), lambda: self._send(once))
        self._waiting = []

    def close(self) -> None:
        """Commit and disconnect."""
        if self._id_type is None:  # there were no rows, and there is no table
            self._id_type = _type_of(self._seen)
        self.commit()
        self._drop()

    def _add(self, change: _Change) -> None:
        self._waiting.append(change)
        if sum(len(some.ids) for some in self._waiting) >= self.size:
            self.commit()

    def _check_kind(self, ids: Ids) -> None:
        """Refuse ids of both kinds, also before there is a table that says which it has."""
        self._seen = concat_ids([self._seen, ids[:1]])[:1]

    def _as_named(self, ids: Ids, kind: str | None) -> Ids:
        """Ids as a column of that type has them."""
        if kind is None or not len(ids) or (kind == "bigint" and ids.dtype.kind == "i"):
            return ids
        wrong = next((value for value in ids.tolist() if not _fits(value, kind)), None)
        if wrong is not None:
            raise InputError(
                f"{self.name} has ids of type {kind}, and the id {_short(wrong)} is not "
                f"{FIT[kind]}: write such ids, or name another table (?table=NAME)"
            )
        return np.array([text.lower() for text in ids.tolist()], TEXT) if kind == "uuid" else ids

    def _as_payload(self, payload: Payload | None, ids: Ids) -> Payload:
        """Check what is to be kept: (n, p) texts that PostgreSQL can have, or None."""
        shape = (len(ids), len(self.keep))
        if payload is None and 0 in shape:
            return np.empty(shape, object)
        kept: Payload = np.asarray(payload, object)
        if payload is None or kept.shape != shape:
            got = "none" if payload is None else f"the shape {kept.shape}"
            raise InputError(
                f"{self.name} keeps {', '.join(self.keep) or 'no payload'}: pass a payload of "
                f"shape {shape}, and not {got}"
            )
        for name, values in zip(self.keep, kept.T, strict=True):
            for key, value in zip(ids, values.tolist(), strict=True):
                if value is not None and not _is_text(value):
                    raise InputError(
                        f"{self.name} keeps texts, and {name!r} of the id {key} is "
                        f"{_short(value)}: pass a text without NUL characters, or None"
                    )
        return kept

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

    def state(self) -> dict[str, Any]:
        """Commit, and say what makes the codes."""
        self.commit()
        own = {"kind": self.kind, "bits": self.bits, "refine": self.refine}
        kept = {"keep": list(self.keep)} if self.keep else {}
        return own | kept | {"made_by": self.made_by}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on in the table that was written to when `state()` was called."""
        ours = {"kind": self.kind, "bits": self.bits, "refine": self.refine}
        ours |= {"keep": list(self.keep)}
        ours |= {"made_by": self.made_by} if self._named else {}
        try:
            check_begun(self.name, {"keep": []} | state, ours)
        except StorageError:
            self._drop()
            raise
        self.made_by, self._resumed = state["made_by"], True
        self._begin()

    def _begin(self) -> None:
        """Refuse codes of others, before anything is written."""
        if not self._begun and self._id_type is not None:
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
        maker = noted and ABOUT.sub("", noted[1])
        if maker == self.made_by:
            return
        [holds] = link.execute(
            sql.SQL("SELECT EXISTS (SELECT FROM {})").format(self._name)
        ).fetchone() or [True]
        ours = self._resumed or self._begun  # codes without a note, where none could be made
        if holds and (noted or not ours):
            raise self._foreign(link, maker)
        query = self._commented(f"{NOTE.sub('', comment).strip()}\n{self._note}".strip())
        try:
            with link.transaction():
                link.execute(query)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.WrongObjectType):
            remedy = f"let its owner run {query.as_string(link)}"
            if noted:
                raise StorageError(
                    f"{self.name} notes that its codes are made by {maker}, and not by "
                    f"{self.made_by}: {remedy}, or name another table (?table=NAME)"
                ) from None
            logger.warning("%s cannot note what makes its codes: %s", self.name, remedy)

    @property
    def _note(self) -> str:
        """What made the codes, and what of them compares, for people too."""
        more = f", {self.refine} bytes of refinement" if self.refine else ""
        return f"{MADE_BY}{self.made_by} ({self.bits} bits{more}; those of one epoch compare)"

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
            self._link, self._ready = None, False

    def _retry(self, seconds: float) -> Retry:
        return Retry(seconds, self.name, self._secrets)

    def _try(self, retry: Retry, work: Callable[[], object]) -> None:
        """Do it, again and again where the reason may pass; then what was sent is sent again."""
        while True:
            try:
                work()
            except psycopg.Error as error:
                self._drop()
                said = redact(error.diag.message_primary or error, self._secrets)
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
        if not self._ready:
            try:
                with self._link.transaction():
                    self._ready = self._prepare(self._link)
            except BaseException:
                self._drop()
                raise
            self._ours = True
        return self._link

    def _prepare(self, link: psycopg.Connection[Any]) -> bool:
        """Lock the table and see that it fits; False if it is not there and cannot be made yet."""
        self._check_extension(link)
        found = self._find(link)
        if found is None:
            self._reserve(link)
            if self._id_type is None:
                return False
            found = self._made(link)
        if found is None:
            raise StorageError(f"{self.name} was made and cannot be seen: choose another schema")
        self._number, schema, table = found
        self._lock(link, LOCK, self._number)
        self._name = sql.Identifier(schema, table)  # a temporary table by its name would go first
        self._check_type(link, self._number)
        if self._begun:  # another may have been here meanwhile
            self._own(link)
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind))
            for name, kind in self._columns.items()
        ]
        held = sql.SQL(", ").join(columns)
        link.execute(sql.SQL("CREATE TEMP TABLE {} ({})").format(NEW, held))
        return True

    def _reserve(self, link: psycopg.Connection[Any]) -> None:
        """Keep other sinks from the name of a table that is not there, where it can be made."""
        schema = self._parts[0] if len(self._parts) == 2 else None
        found = link.execute("SELECT coalesce(%s, current_schema())", [schema]).fetchone()
        [schema] = found or [None]
        if schema is None:
            raise StorageError(f"{self.name} has no schema: name one (?table=SCHEMA.NAME)")
        query = "SELECT has_schema_privilege(%s, 'CREATE')"
        if link.execute(query, [schema]).fetchone() != (True,):
            raise StorageError(
                f"{self.name} cannot be made: permission denied for schema {schema}: name a table "
                f"that is there, or let its owner run GRANT CREATE ON SCHEMA {schema} TO ..."
            )
        self._lock(link, LOCK_NAME, crc32(f"{schema}.{self._parts[-1]}".encode()))

    @property
    def _columns(self) -> dict[str, str]:
        """The columns of the table, and their types."""
        code = {"code": f"bit({self.bits:d})"} if self.bits else {}
        more = {"refinement": "bytea"} if self.refine else {}
        kept = dict.fromkeys(self.keep, "text")
        return {"id": self._id_type or "bigint"} | code | more | {"epoch": "int"} | kept

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
        rules = {"id": "PRIMARY KEY"} | dict.fromkeys(self.keep, "")
        rules["refinement"] = f"NOT NULL CHECK (octet_length(refinement) = {self.refine:d})"
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(
                sql.Identifier(name), sql.SQL(f"{kind} {rules.get(name, 'NOT NULL')}")
            )
            for name, kind in self._columns.items()
        )
        query = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self._asked, columns)
        with suppress(psycopg.errors.UniqueViolation), link.transaction():
            link.execute(query)
        return self._find(link)

    def _lock(self, link: psycopg.Connection[Any], kind: int, number: int) -> None:
        """Keep other sinks from the table, until this session ends."""
        try:
            with link.transaction():
                link.execute(f"SET LOCAL lock_timeout = '{GRACE}'")
                link.execute("SELECT pg_advisory_lock(%s)", [kind << 32 | number])
        except psycopg.errors.LockNotAvailable:
            raise _HeldError(f"{self._holder(link, kind, number)} writes to {self.name}") from None

    def _holder(self, link: psycopg.Connection[Any], kind: int, number: int) -> str:
        found = link.execute(
            "SELECT a.application_name, host(a.client_addr) FROM pg_locks l "
            "JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND l.granted "
            "AND l.classid = %s AND l.objid = %s",
            [kind, number],
        ).fetchone()
        who = " at ".join(filter(None, found or ()))
        return f"another process ({who})" if who else "another process"

    def _check_type(self, link: psycopg.Connection[Any], number: int) -> None:
        """Refuse a table of other codes."""
        found = dict(
            link.execute(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
                "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped",
                [number],
            ).fetchall()
        )
        for name, what in (("code", "codes"), ("refinement", "refinements")):
            has, needed = found.get(name), self._columns.get(name)
            if has != needed:
                there = f"{what} of type {has}" if has else f"no column '{name}'"
                wanted = f"{needed} is needed" if needed else f"the codes to write have no {name}"
                raise StorageError(f"{self.name} has {there}, and {wanted}: choose another table")
        self._check_ids(found.get("id"))
        self._check_kept(link, found)
        length = self._length(link, number) if self.refine else None
        if length not in (None, self.refine):
            raise StorageError(
                f"{self.name} has refinements of {length} bytes, and the codes have "
                f"{self.refine}: choose another table"
            )

    def _check_ids(self, has: str | None) -> None:
        """Take the type of the column id, or refuse it."""
        kind = ID_TYPES.get((has or "").partition("(")[0])
        if kind is None or self._id_type not in (None, kind):
            there = f"ids of type {has}" if has else "no column 'id'"
            wanted = f"{self._id_type} is" if self._id_type else "bigint, text or uuid is"
            raise StorageError(
                f"{self.name} has {there}, and {wanted} needed: choose another table"
            )
        self._id_type = kind

    def _check_kept(self, link: psycopg.Connection[Any], found: dict[str, str]) -> None:
        """Refuse a table without a column for each text that is to be kept."""
        for name in self.keep:
            has = found.get(name, "text")
            if ID_TYPES.get(has.partition("(")[0]) != "text":
                raise StorageError(
                    f"{self.name} has a column {name!r} of type {has}, and text is needed to keep "
                    f"it: choose another table"
                )
        lacking = [name for name in self.keep if name not in found]
        if lacking:
            add = sql.SQL(", ").join(
                sql.SQL("ADD COLUMN {} text").format(sql.Identifier(name)) for name in lacking
            )
            query = sql.SQL("ALTER TABLE {} {}").format(self._name, add).as_string(link)
            raise StorageError(
                f"{self.name} has no column for {', '.join(lacking)}, to be kept: run {query}, or "
                f"choose another table"
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

    def _send(self, changes: list[_Change]) -> None:
        """Make changes, of every id one; to make them twice is the same."""
        link = self._connect()
        written = [some for some in changes if some.codes is not None]
        removed = concat_ids(some.ids for some in changes if some.codes is None)
        with link.transaction():
            if written:
                self._upsert(link, written)
            if len(removed):
                kind = sql.SQL(f"{self._id_type}[]")
                query = sql.SQL("DELETE FROM {} WHERE id = ANY(%s::{})").format(self._name, kind)
                link.execute(query, [removed.tolist()])

    def _upsert(self, link: psycopg.Connection[Any], written: list[_Change]) -> None:
        names = {name: sql.Identifier(name) for name in self._columns}
        columns = sql.SQL(", ").join(names.values())
        update = sql.SQL(", ").join(
            sql.SQL("{0} = EXCLUDED.{0}").format(name) for key, name in names.items() if key != "id"
        )
        into = sql.SQL("COPY {} ({}) FROM STDIN").format(NEW, columns)
        link.execute(sql.SQL("TRUNCATE {}").format(NEW))
        with link.cursor() as cursor, cursor.copy(into) as copy:
            for some in written:
                for row in _rows(some):
                    copy.write_row(row)
        link.execute(
            sql.SQL(
                "INSERT INTO {} ({columns}) SELECT {columns} FROM {} "
                "ON CONFLICT (id) DO UPDATE SET {update}"
            ).format(self._name, NEW, columns=columns, update=update)
        )


def _rows(change: _Change) -> Iterable[tuple[Any, ...]]:
    """What goes into the columns of the table, row by row."""
    ids, codes, payload = change
    assert codes is not None
    assert payload is not None
    parts: list[Iterable[Any]] = [bit_strings(codes)] if codes.bits else []
    if codes.refinement is not None:
        parts.append(one.tobytes() for one in codes.refinement)
    epochs = repeat(codes.epoch, len(codes))
    return zip(ids.tolist(), *parts, epochs, *payload.T.tolist(), strict=True)


def _type_of(ids: Ids) -> str:
    """The type of the column for such ids in a new table."""
    if ids.dtype.kind == "i":
        return "bigint"
    return "uuid" if all(map(UUID.fullmatch, ids.tolist())) else "text"


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


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) < 60 else f"{shown[:56]}..."


def _as_names(keep: Sequence[str], holder: str) -> tuple[str, ...]:
    """Check the names of columns for texts."""
    names = (keep,) if isinstance(keep, str) else tuple(keep)
    for name in names:
        if not _is_text(name) or not 0 < len(name.encode()) <= LONGEST:
            raise InputError(
                f"{holder}: keep has {name!r}, and a column is named by a text of 1 to {LONGEST} "
                f"bytes"
            )
        if name in OWN or names.count(name) > 1:
            why = "is a column of codes" if name in OWN else "comes twice"
            raise InputError(f"{holder}: keep has {name!r}, which {why}: choose another name")
    return names


class _HeldError(Exception):
    """Another session has locked the table."""


def _parsed(url: str) -> Url:
    parts = Url.parse(url, EXAMPLE)
    if "=" in parts.path:
        raise InputError(f"{redact_url(url)} is not a URL of a database, such as {EXAMPLE}")
    return parts


def _may_pass(error: psycopg.Error) -> bool:
    """Whether the server went away, has no room now or gave way to another transaction."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return str(error.sqlstate).startswith(AWAY)
