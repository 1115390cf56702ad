"""Against a PostgreSQL server with pgvector, started on loopback by the fixtures here.

A server that goes away, and one that stays away: `tests/jobs/test_database.py`.
"""

import threading

import numpy as np
import pytest

import streambits as sb
from streambits.errors import InputError, StorageError, StreambitsError
from streambits.io.codes import open_sink

postgres = pytest.importorskip("streambits.io.codes.postgres", exc_type=ImportError)

UUIDS = [f"{n:08x}-9b1d-4c7f-8a2e-0f1e2d3c4b5a" for n in range(0xABCDE, 0xABCDE + 6)]
TYPES = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE "
    "attrelid = 'TABLE_'::regclass AND attnum > 0 ORDER BY attnum"
)
NEAREST = "SELECT id, (code <~> %s)::int FROM TABLE_ ORDER BY code <~> %s, id LIMIT 10"
RECORD = "SELECT model, bits, refine FROM streambits_models WHERE table_name = 'TABLE_'::regclass"


def text(code):
    return "".join("01"[bit] for bit in code.unpack()[0].astype(int))


def test_a_table_of_codes_is_written_searched_changed_and_gone_on_with(
    mixture, postgres_url, table
):
    """The walk: the ten nearest are ours; removals, a payload, the record, and another model."""
    name, ask = table
    rows = mixture(1000)
    codes = sb.ssbc(rows[:100], 24).learn(rows).coder().encode(rows)
    ids = np.random.default_rng(0).permutation(1000) * 5 - 77
    options = {"made_by": "model a1", "keep": ["title", 'odd "name"'], "table": name}
    sink = open_sink(postgres_url, 24, **options)
    titles = np.array([[f"é\n\t'\\N {i}" if i % 2 else None, None] for i in ids], object)
    for start in range(0, 1000, 333):
        some = slice(start, start + 333)
        sink.write(ids[some], codes[some], titles[some])
    state = sink.state()
    sink.close()
    index = sb.HammingIndex(24)
    index.add(codes, ids)
    hits = index.search(codes[::199], 10)
    for i, query in enumerate(codes[::199]):
        wanted = list(zip(hits.ids[i].tolist(), hits.distances[i].tolist(), strict=True))
        assert ask(NEAREST, [text(query)] * 2) == wanted
    assert dict(ask("SELECT id, title FROM TABLE_")) == dict(zip(ids.tolist(), titles[:, 0]))
    kinds = {"id": "bigint", "code": "bit(24)", "epoch": "integer"}
    assert dict(ask(TYPES)) == kinds | {"title": "text", 'odd "name"': "text"}
    again = open_sink(postgres_url, 24, **options)
    again.resume(state)
    again.remove(ids[:10])
    again.write(ids[9:10], codes[:1], np.array([["new", ""]], object))
    again.close()
    assert ask("SELECT count(*) FROM TABLE_") == [(991,)]
    kept = ask('SELECT code::text, title, "odd ""name""" FROM TABLE_ WHERE id = %s', [int(ids[9])])
    assert kept == [(text(codes[0]), "new", "")]
    assert ask(RECORD) == [("model a1", 24, 0)]
    other = open_sink(postgres_url, 24, table=name)
    with pytest.raises(StorageError, match=r"made by model a1, and codes made by run .* would not"):
        other.write([1], codes[:1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("id bigint, code bit(21)", r"column 'code' of type bit\(21\), and bit\(20\) is needed"),
        ("id bigint, name text", r"no 'code', and bit\(20\) is needed: choose another table"),
        ("id date, code bit(20)", "'id' of type date, and bigint, text or uuid is needed"),
        ("code bit(20)", "no 'id', and bigint, text or uuid is needed"),
        ("id int, code bit(20), refinement bytea", "of type bytea, and none is needed"),
        ("id int, code bit(20), epoch int", "no 'kept', and text is needed: .* or add the column"),
        ("id int, code bit(20), kept bytea", "column 'kept' of type bytea, and text is needed"),
    ],
)
def test_another_table_is_refused(columns, message, *, postgres_url, table):
    name, ask = table
    ask(f"CREATE TABLE TABLE_ ({columns})")
    with pytest.raises(StorageError, match=message):
        open_sink(f"{postgres_url}?table={name}", 20, keep=["kept"] * ("kept" in message))


@pytest.mark.slow
def test_what_does_not_pass_is_not_waited_for(postgres_url, table, codes, caplog):
    name, ask = table
    ask("CREATE TABLE TABLE_ (id bigint, code bit(20), epoch int)")  # no id is unique
    sink = open_sink(f"{postgres_url}?table={name}", 20, retry_seconds=3600)
    sink.write([1], codes[:1])
    sink.write([1], sb.Codes(codes.packed[:1], 20, 1))
    assert caplog.text.count("codes of several epochs (0, 1), and only those of one epoch") == 1
    with pytest.raises(StorageError, match="cannot be written: there is no unique"):
        sink.commit()
    with pytest.raises(InputError, match=r"is not a URL of a database, such as"):
        open_sink("postgresql:///dbname=test", 20)
    ask("DROP TABLE TABLE_")
    open_sink(f"{postgres_url}?table={name}", 20, refine=3).close()
    with pytest.raises(StorageError, match="of 3 bytes, and the codes have 5: choose another"):
        open_sink(f"{postgres_url}?table={name}", 20, refine=5)


@pytest.mark.slow
def test_without_pgvector_or_with_an_old_one_it_says_so(postgres_server):
    psycopg = pytest.importorskip("psycopg")
    nowhere = "options=-c%20extension_control_path%3D/nowhere"
    with psycopg.connect(postgres_server.url, autocommit=True) as link:
        for name in ("without", "old"):
            link.execute(f"CREATE DATABASE {name}")
    url = postgres_server.url.removesuffix("/postgres")
    with pytest.raises(StorageError, match="the server has no pgvector; install it there"):
        open_sink(f"{url}/without?{nowhere}", 20)
    with psycopg.connect(f"{url}/old") as link:
        link.execute("CREATE EXTENSION vector")
        link.execute("UPDATE pg_extension SET extversion = '0.6.2' WHERE extname = 'vector'")
    with pytest.raises(StorageError, match=r"pgvector is 0\.6\.2 there, .* need 0\.7"):
        open_sink(f"{url}/old", 20)


@pytest.mark.slow
def test_after_a_break_the_table_is_locked_again(postgres_url, table, codes, monkeypatch):
    """Meanwhile another may have taken it: then it is waited for, as for the server."""
    name, ask = table
    url = f"{postgres_url}?table={name}"
    monkeypatch.setattr("streambits.io.codes.postgres.GRACE", "100ms")
    end = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    sink = open_sink(url, 20)
    sink.write(np.arange(9), codes[:9])
    ask(end)
    other = open_sink(url, 20)
    over = []

    def close():
        over.append("the other")
        other.close()

    later = threading.Timer(1, close)
    later.start()
    sink.commit()
    assert over  # and not before
    later.join()
    for where in (url, f"{postgres_url}?table=public.{name}"):
        with pytest.raises(StorageError, match=r"^another process \(streambits \d+.*\) writes to "):
            open_sink(where, 20)
    sink.close()
    assert ask("SELECT count(*) FROM TABLE_") == [(9,)]


@pytest.mark.slow
def test_rights_to_select_insert_and_update_are_enough(postgres_server, table, codes):
    name, ask = table
    url = f"postgresql://few@127.0.0.1:{postgres_server.port}/postgres?table={name}"
    ask("CREATE TABLE TABLE_ (id bigint PRIMARY KEY, code bit(20) NOT NULL, epoch int NOT NULL)")
    ask("CREATE EXTENSION IF NOT EXISTS vector")
    ask("CREATE ROLE few LOGIN")
    try:
        ask("GRANT SELECT, INSERT, UPDATE ON TABLE_ TO few")
        with pytest.raises(StorageError, match="permission denied for schema public"):
            open_sink(url.replace(name, "none"), 20).write([1], codes[:1])
        ask("DROP TABLE IF EXISTS streambits_models")
        with pytest.raises(StorageError, match="let the owner of the schema run CREATE") as caught:
            open_sink(url, 20).write(np.arange(9), codes[:9])
        ask(str(caught.value).partition(" run ")[2].replace("TO ...", "TO few"))
        sink = open_sink(url, 20)
        sink.write(np.arange(9), codes[:9])
        sink.close()
    finally:
        ask("DROP OWNED BY few")
        ask("DROP ROLE few")
    assert ask("SELECT count(*) FROM TABLE_") == [(9,)]


@pytest.mark.slow
def test_a_table_takes_codes_of_one_model(postgres_url, table, codes):
    """Codes of another would be compared to them as if they were of one."""
    name, ask = table
    url = f"{postgres_url}?table={name}"

    def written(ids, **options):
        sink = open_sink(url, 20, **options)
        sink.write(ids, codes[: len(ids)])
        sink.close()

    written([], made_by="another")  # nothing that would not compare
    assert ask(RECORD) == [("another", 20, 0)]
    written(range(9), made_by="model a1")
    written(range(9, 20), made_by="model a1")
    said = r"made by model a1, and codes made by (\S+ \S+) would not compare to them: name another "
    for options in ({"made_by": "model b2"}, {}):
        with pytest.raises(StorageError, match=rf"{said}table \(\?table=NAME\), or drop it"):
            written([7], **options)
    assert ask("SELECT count(*) FROM TABLE_") == [(20,)]
    ask("DELETE FROM streambits_models WHERE table_name = 'TABLE_'::regclass")
    with pytest.raises(StorageError, match=r"no record of .* run INSERT INTO ") as caught:
        written([7], made_by="model a1")
    ask(str(caught.value).partition(" run ")[2])
    written([7], made_by="model a1")
    ask("DROP TABLE TABLE_")
    sink = open_sink(url, 20)
    sink.write([7], codes[:1])  # of another table by that name there is no record
    state = sink.state()
    sink.close()
    with pytest.raises(StorageError, match=r"was begun with made_by run .*, and now it is model"):
        open_sink(url, 20, made_by="model").resume(state)
    ask("DROP TABLE TABLE_")
    written([7])
    with pytest.raises(StorageError, match="would not compare"):
        open_sink(url, 20).resume(state)
    with pytest.raises(StorageError, match="holds codes made by run "):
        written([8])
    with pytest.raises(InputError, match="pass one line of text"):
        open_sink(url, 20, made_by="two\nlines")


@pytest.mark.slow
@pytest.mark.parametrize("about", ["", " (20 bits; those of one epoch compare)"])
def test_what_older_versions_noted_in_a_comment_becomes_a_record(postgres_url, table, codes, about):
    name, ask = table
    ask("CREATE TABLE TABLE_ (id bigint PRIMARY KEY, code bit(20) NOT NULL, epoch int NOT NULL)")
    ask("INSERT INTO TABLE_ VALUES (1, B'01010101010101010101', 0)")
    ask(f"COMMENT ON TABLE TABLE_ IS 'of products\nstreambits: codes made by model a1{about}'")
    for model, wrong in (("model b2", "made by model a1, and"), ("model a1", "")):
        sink = open_sink(postgres_url, 20, table=name, made_by=model)
        if wrong:
            with pytest.raises(StorageError, match=wrong):
                sink.write([2], codes[:1])
        else:
            sink.write([2], codes[:1])
            sink.close()
    assert ask(RECORD) == [("model a1", 20, 0)]
    assert ask("SELECT count(*) FROM TABLE_") == [(2,)]


@pytest.mark.slow
@pytest.mark.parametrize("hard", [False, True])
def test_changes_that_were_sent_and_not_known_to_have_arrived_are_sent_again(
    hard, postgres_url, table, codes, monkeypatch
):
    """The connection is lost in the middle of the transaction, or right after it."""
    name, ask = table
    sink = open_sink(f"{postgres_url}?table={name}", 20)
    sink.write(range(9), codes[:9])
    sink.commit()
    sink.remove([0, 1, 2])
    sink.write([1, 20], codes[[21, 20]])
    sink.remove([20, 3])
    real, times = sink._send, []

    def send(changes):
        times.append(1)
        if hard and len(times) == 1:
            with sink._link.transaction():
                sink._upsert(sink._link, changes.select(changes.epochs >= 0))
                ask(f"SELECT pg_terminate_backend({sink._link.info.backend_pid})")
        real(changes)
        if not hard and len(times) == 1:
            raise pytest.importorskip("psycopg").OperationalError("lost")

    monkeypatch.setattr(sink, "_send", send)
    sink.close()
    assert len(times) == 2
    wanted = {key: text(codes[key]) for key in (4, 5, 6, 7, 8)} | {1: text(codes[21])}
    assert dict(ask("SELECT id, code::text FROM TABLE_")) == wanted


@pytest.mark.slow
def test_the_first_ids_decide_of_which_type_a_new_table_is(postgres_url, table, codes):
    name, ask = table
    for first, kind in (([7], "bigint"), (["a"], "text"), (UUIDS[:2], "text"), ([], "bigint")):
        sink = open_sink(f"{postgres_url}?table={name}", 20)
        sink.write([], codes[:0])
        sink.state()
        assert ask("SELECT to_regclass('TABLE_')") == [(None,)]
        for ids in (["a\0b"], ["a", "b"]):  # what is refused decides nothing
            with pytest.raises(InputError):
                sink.write(ids, codes[:1])
        sink.write(first, codes[: len(first)])
        sink.close()
        assert dict(ask(TYPES))["id"] == kind
        assert ask("SELECT id::text FROM TABLE_ ORDER BY 1") == [(str(key),) for key in first]
        ask("DROP TABLE TABLE_")
    sink = open_sink(f"{postgres_url}?table={name}", 20)
    sink.remove(UUIDS)
    with pytest.raises(InputError, match="has ids of type text, and the id 7 is not a text"):
        sink.write([7], codes[:1])
    sink.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "good", "bad", "said"),
    [
        ("bigint", 1, "a", "type bigint, and the id 'a' is not a whole number: write such ids, or"),
        ("int", 1, "a", "type bigint, and the id 'a' is not a whole number"),
        ("text", "é\n\t'\\N", 1, "type text, and the id 1 is not a text"),
        ("varchar(9)", "a", "a\0b", r"type text, and the id 'a\\x00b' is not a text without NUL"),
        ("uuid", UUIDS[0], "a", r"type uuid, and the id 'a' is not a UUID \(8-4-4-4-12"),
        ("uuid", UUIDS[0], UUIDS[1] + "\n", "is not a UUID"),
        ("uuid", UUIDS[0], 1, "the id 1 is not a UUID"),
    ],
)
def test_ids_that_do_not_fit_the_table_are_named(
    kind, good, bad, said, *, postgres_url, table, codes
):
    name, ask = table
    ask(f"CREATE TABLE TABLE_ (id {kind} PRIMARY KEY, code bit(20), epoch int)")
    sink = open_sink(f"{postgres_url}?table={name}", 20)
    sink.write([good], codes[:1])
    for call in (lambda: sink.write([bad], codes[1:2]), lambda: sink.remove([bad])):
        with pytest.raises(InputError, match=f"table {name} has ids of .*{said}"):
            call()
    sink.commit()
    assert ask("SELECT id::text FROM TABLE_") == [(str(good),)]
    sink.remove([good.upper() if kind == "uuid" else good])
    sink.close()
    assert ask("SELECT id::text FROM TABLE_") == []


@pytest.mark.slow
def test_what_cannot_be_kept_is_named(postgres_url, table, codes):
    name, ask = table
    url = f"{postgres_url}?table={name}"
    sink = postgres.PostgresSink(url, 20, keep=("text",))
    for value in ("a\0", "\ud800", 5):
        with pytest.raises(InputError, match=r"'text' of the id 8 is .*: pass a text without NUL"):
            sink.write([7, 8], codes[:2], np.array([["a"], [value]], object))
    for payload in (None, np.full((1, 2), "a", object), np.full(1, "a", object)):
        with pytest.raises(InputError, match=r"with text kept beside them need \(1, 1\)"):
            sink.write([7], codes[:1], payload)
    sink.write([7], codes[:1], np.array([[None]], object))
    sink.close()
    assert ask("SELECT id, text FROM TABLE_") == [(7, None)]
    for odd in ("x" * 64, "é" * 32, "x%00y", "a..b", "a.b.c", "." + "x" * 64, "streambits_models"):
        with pytest.raises(InputError, match=r"each of 1 to 63 bytes|NUL character|has records"):
            open_sink(f"{postgres_url}?table={odd}", 20)
    plain = open_sink(url, 20)
    with pytest.raises(InputError, match=r"with none kept beside them need \(1, 0\)"):
        plain.write([1], codes[:1], np.full((1, 1), "a", object))
    plain._drop()
    for keep in (("code",), ("a", "a"), ("",), ("x" * 64,), ("a\0",), (7,)):
        with pytest.raises(InputError, match=r"keep has .*(column|twice)"):
            postgres.PostgresSink(url, 20, keep=keep)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@127.0.0.1:1/there?password=hunter2&sslmode=wrong",
        "postgresql://me@127.0.0.1:1/there?pasword=hunter2",
        "postgresql://me:x%00hunter2@127.0.0.1:1/there",
        "postgresql://me:x#hunter2@127.0.0.1:1,127.0.0.1:2/there",
    ],
)
def test_passwords_are_not_shown(url):
    """Nor by what libpq says of them; other URLs: `tests/jobs/test_secrets.py`."""
    pytest.importorskip("psycopg")
    with pytest.raises(StreambitsError) as caught:
        open_sink(url, 20)
    assert "hunter2" not in str(caught.value)
