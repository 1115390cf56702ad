"""Against a PostgreSQL server with pgvector, started on loopback by the fixtures here."""

import subprocess
import sys
import threading
import time
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streambits as sb
from servers.postgres import Postgres
from streambits.errors import InputError, StorageError, StreambitsError, UnreachableError
from streambits.io.codes import open_sink

postgres = pytest.importorskip("streambits.io.codes.postgres", exc_type=ImportError)

UUIDS = [f"{n:08x}-9b1d-4c7f-8a2e-0f1e2d3c4b5a" for n in range(0xABCDE, 0xABCDE + 6)]
IDS = {
    "bigint": [-5, 0, 3, 2**63 - 1],
    "text": ["a", "B", "é\n\t'", UUIDS[0], "\\N"],
    "uuid": UUIDS,
}
TYPE = (
    "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE "
    "attrelid = 'TABLE_'::regclass AND attname = 'id'"
)
NEAREST = "SELECT id, (code <~> %s)::int FROM TABLE_ ORDER BY code <~> %s, id LIMIT 10"


def text(code):
    return "".join("01"[bit] for bit in code.unpack()[0].astype(int))


def test_the_same_ten_nearest_from_the_database_from_faiss_and_from_us(
    mixture, postgres_url, table
):
    bridge = pytest.importorskip("streambits.interop.faiss", exc_type=ImportError)
    name, ask = table
    rows = mixture(4000)
    codes = sb.ssbc(rows[:100], 24).learn(rows).coder().encode(rows)
    ids = np.random.default_rng(0).permutation(4000) * 5 - 77
    sink = open_sink(f"{postgres_url}?table={name}", 24)
    for start in range(0, 4000, 999):
        sink.write(ids[start : start + 999], codes[start : start + 999])
    sink.close()
    index = sb.HammingIndex(24)
    index.add(codes, ids)
    queries = codes[::199]
    ours = index.search(queries, 10)
    theirs = bridge.to_faiss(index).search(queries.packed, 10)
    everything = queries.hamming(codes)
    compared = 0
    for i, query in enumerate(queries):
        wanted = list(zip(ours.ids[i].tolist(), ours.distances[i].tolist(), strict=True))
        assert ask(NEAREST, [text(query)] * 2) == wanted
        assert theirs[0][i].tolist() == ours.distances[i].tolist()
        for (key, distance), found in zip(wanted, theirs[1][i].tolist(), strict=True):
            if np.count_nonzero(everything[i] == distance) == 1:
                assert found == key
                compared += 1
    assert compared > 5


@pytest.mark.parametrize("bits", [1, 8, 20, 65])
def test_bits_are_characters_in_their_order(bits, postgres_url, table):
    name, ask = table
    codes = sb.Codes.from_bits(np.random.default_rng(0).random((30, bits)) < 0.5, epoch=3)
    sink = open_sink(postgres_url, bits, table=f"public.{name}")
    sink.write(np.arange(30), codes)
    sink.close()
    found = ask("SELECT code::text, epoch FROM TABLE_ ORDER BY id")
    assert found == [(text(code), 3) for code in codes]
    distances = ask("SELECT (code <~> %s)::int FROM TABLE_ ORDER BY id", [text(codes[0])])
    assert [d for (d,) in distances] == codes[0].hamming(codes)[0].tolist()
    [(kind,)] = ask(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE "
        "attrelid = 'TABLE_'::regclass AND attname = 'code'"
    )
    assert kind == f"bit({bits})"


def test_a_server_that_restarts_is_waited_for(postgres_server, postgres_url, table, codes, caplog):
    if postgres_url != postgres_server.url:
        pytest.skip("the server is not ours to restart")
    name, ask = table
    sink = open_sink(f"{postgres_url}?table={name}", 20)
    sink.write(np.arange(100), codes[:100])
    sink.commit()
    sink.write(np.arange(100, 200), codes[100:200])
    postgres_server.stop()
    back = threading.Timer(1, postgres_server.start)
    back.start()
    sink.commit()
    back.join()
    assert "cannot be reached" in caplog.text
    assert "is there again" in caplog.text
    sink.write(np.arange(200, 300), codes[200:300])
    ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'"
    )
    sink.close()
    assert ask("SELECT count(*) FROM TABLE_") == [(300,)]


def test_a_server_that_stays_away_is_told_in_a_sentence(postgres_server, codes):
    url = f"{postgres_server.url}?table=away"
    sink = open_sink(url, 20, retry_seconds=1)
    sink.write(np.arange(100), codes[:100])
    state = sink.state()
    sink.write(np.arange(100, 200), codes[100:200])
    postgres_server.stop()
    start = time.monotonic()
    with pytest.raises(UnreachableError, match=r"for 1 s \(.*committed is safe, and the same"):
        sink.commit()
    assert time.monotonic() - start < 5
    with pytest.raises(UnreachableError) as caught:  # at the start nobody waits
        open_sink(url, 20)
    assert time.monotonic() - start < 5
    assert f"127.0.0.1:{postgres_server.port}/postgres table away cannot" in str(caught.value)
    assert "\n" not in str(caught.value)
    postgres_server.start()
    sink = open_sink(url, 20)
    sink.resume(state)
    sink.write(np.arange(100, 200), codes[100:200])
    sink.close()
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres_server.url) as link:
        assert link.execute("SELECT count(*) FROM away").fetchone() == (200,)


def test_another_table_is_refused(postgres_url, table, codes):
    name, ask = table
    url = f"{postgres_url}?table={name}"
    open_sink(url, 20).close()
    with pytest.raises(StorageError, match=r"codes of type bit\(20\), and bit\(21\) is needed"):
        open_sink(url, 21)
    ask("DROP TABLE TABLE_")
    ask("CREATE TABLE TABLE_ (id bigint, text text)")
    with pytest.raises(StorageError, match="no column 'code'"):
        open_sink(url, 20)
    ask("DROP TABLE TABLE_")
    ask("CREATE TABLE TABLE_ (id bigint, code bit(20), epoch int)")
    sink = open_sink(url, 20)
    sink.write([1], codes[:1])
    with pytest.raises(StorageError, match="cannot be written: there is no unique"):
        sink.commit()
    with pytest.raises(InputError, match=r"is not a URL of a database, such as"):
        open_sink("postgresql:///dbname=test", 20)


def test_tables_of_refined_and_of_plain_codes_are_not_mixed(postgres_url, table, lengths):
    name, ask = table
    url = f"{postgres_url}?table={name}"
    plain, refined, pure = (lengths[key] for key in ("plain", "refined", "pure"))
    said = (
        (plain, r"no column 'refinement', and bytea is needed|the codes to write have no code"),
        (refined, r"of type bytea, and the codes to write have no refinement|have no code"),
        (pure, r"no column 'code', and bit\(20\) is needed: choose another table"),
    )
    for codes, message in said:
        sink = open_sink(url, codes.bits, refine=codes.refine)
        sink.write(np.arange(9), codes[:9])
        state = sink.state()
        with pytest.raises(InputError, match=r"bits, and the sink is|bytes of refinement, and"):
            sink.write(np.arange(9), (refined if codes is plain else plain)[:9])
        sink.close()
        for other in (plain, refined, pure):
            if other is not codes:
                with pytest.raises(StorageError, match=message):
                    open_sink(url, other.bits, refine=other.refine)
        if codes.refine:
            with pytest.raises(
                StorageError, match=rf"of {codes.refine} bytes, and the codes have 5: choose"
            ):
                open_sink(url, codes.bits, refine=5)
            with pytest.raises(Exception, match="violates check constraint"):
                ask("UPDATE TABLE_ SET refinement = ''")
        again = open_sink(url, codes.bits, refine=codes.refine)
        again.resume(state)
        again.close()
        assert ask("SELECT count(*) FROM TABLE_") == [(9,)]
        ask("DROP TABLE TABLE_")


def test_the_length_of_refinements_is_seen_in_a_table_without_rules(postgres_url, table):
    name, ask = table
    ask("CREATE TABLE TABLE_ (id bigint PRIMARY KEY, refinement bytea, epoch int)")
    open_sink(f"{postgres_url}?table={name}", 0, refine=2).close()  # there is nothing yet
    ask("INSERT INTO TABLE_ VALUES (1, '\\x010203', 0)")
    with pytest.raises(StorageError, match="refinements of 3 bytes, and the codes have 2"):
        open_sink(f"{postgres_url}?table={name}", 0, refine=2)


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


def test_without_the_package_the_extra_is_named():
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from streambits.errors import MissingExtraError\n"
        "from streambits.io.codes import open_sink\n"
        "try: open_sink('postgres://here/there', 8)\n"
        "except MissingExtraError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert b"psycopg" in run.stdout
    assert b"streambits[postgres]" in run.stdout


def test_one_sink_writes_to_a_table_at_a_time(postgres_url, table, codes, monkeypatch):
    name, ask = table
    url = f"{postgres_url}?table={name}"
    monkeypatch.setattr("streambits.io.codes.postgres.GRACE", "100ms")
    sink = open_sink(url, 20)
    for other in (url, f"{postgres_url}?table=public.{name}"):
        with pytest.raises(StorageError, match=r"^another process \(streambits \d+.*\) writes to "):
            open_sink(other, 20)
    state = sink.state()
    sink.write(np.arange(9), codes[:9])
    sink.close()
    again = open_sink(url, 20)
    again.resume(state)
    again.close()
    assert ask("SELECT count(*) FROM TABLE_") == [(9,)]


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
    with pytest.raises(StorageError, match="another process"):
        open_sink(url, 20)
    sink.close()
    assert ask("SELECT count(*) FROM TABLE_") == [(9,)]


def test_rights_to_select_insert_and_update_are_enough(postgres_server, table, codes, caplog):
    name, ask = table
    url = f"postgresql://few@127.0.0.1:{postgres_server.port}/postgres?table={name}"
    ask("CREATE TABLE TABLE_ (id bigint PRIMARY KEY, code bit(20) NOT NULL, epoch int NOT NULL)")
    ask("CREATE EXTENSION IF NOT EXISTS vector")
    ask("DROP ROLE IF EXISTS few")
    ask("CREATE ROLE few LOGIN")
    try:
        ask("GRANT SELECT, INSERT, UPDATE ON TABLE_ TO few")
        sink = open_sink(url, 20)
        sink.write(np.arange(9), codes[:9])
        state = sink.state()
        assert f'its owner run COMMENT ON TABLE "public"."{name}" IS \'streambits' in caplog.text
        sink.close()
        with pytest.raises(StorageError, match="and does not say what made them"):
            open_sink(url, 20).commit()
        again = open_sink(url, 20)
        again.resume(state)  # what it wrote itself
        again.close()
        ask("CREATE TABLE noted_TABLE_ (LIKE TABLE_)")
        ask("COMMENT ON TABLE noted_TABLE_ IS 'streambits: codes made by model a1'")
        ask("GRANT SELECT, INSERT, UPDATE ON noted_TABLE_ TO few")
        with pytest.raises(
            StorageError, match=r"made by model a1, and not by run .*: let its owner"
        ):
            open_sink(url.replace(name, f"noted_{name}"), 20).commit()
        with pytest.raises(StorageError, match="permission denied for schema public"):
            open_sink(url.replace(name, "none"), 20)
    finally:
        ask("DROP TABLE IF EXISTS noted_TABLE_")
        ask("DROP OWNED BY few")
        ask("DROP ROLE few")
    assert ask("SELECT count(*) FROM TABLE_") == [(9,)]


def test_a_table_takes_codes_of_one_model(postgres_url, table, codes):
    """Codes of another would be compared to them as if they were of one."""
    name, ask = table
    url = f"{postgres_url}?table={name}"

    def written(ids, **options):
        sink = open_sink(url, 20, **options)
        sink.write(ids, codes[: len(ids)])
        sink.close()

    written([], made_by="another")  # nothing that would not compare
    ask("COMMENT ON TABLE TABLE_ IS 'of products\nstreambits: codes made by another'")
    written(range(9), made_by="model a1")
    written(range(9, 20), made_by="model a1")
    said = r"made by model a1, and codes made by (\S+ \S+) would not compare to them: name another "
    for options in ({"made_by": "model b2"}, {}):
        with pytest.raises(StorageError, match=rf"{said}table \(\?table=NAME\), or drop it"):
            written([7], **options)
    assert ask("SELECT count(*) FROM TABLE_") == [(20,)]
    [(comment,)] = ask("SELECT obj_description('TABLE_'::regclass)")
    about = "(20 bits; those of one epoch compare)"
    assert comment == f"of products\nstreambits: codes made by model a1 {about}"
    ask("COMMENT ON TABLE TABLE_ IS 'streambits: codes made by model a1'")  # of older versions
    written([7], made_by="model a1")
    ask("COMMENT ON TABLE TABLE_ IS NULL")
    with pytest.raises(StorageError, match=r"does not say .* COMMENT ON TABLE .*model a1'$"):
        written([7], made_by="model a1")
    ask("DROP TABLE TABLE_")
    written([7])
    with pytest.raises(StorageError, match="holds codes made by run "):
        written([8])
    with pytest.raises(InputError, match="pass one line of text"):
        open_sink(url, 20, made_by="two\nlines")


def test_a_table_that_came_to_hold_codes_of_others_is_not_gone_on_with(postgres_url, table, codes):
    name, ask = table
    url = f"{postgres_url}?table={name}"
    sink = open_sink(url, 20)
    sink.write(range(9), codes[:9])
    state = sink.state()
    sink.close()
    with pytest.raises(StorageError, match=r"was begun with made_by run .*, and now it is model"):
        open_sink(url, 20, made_by="model").resume(state)
    ask("DROP TABLE TABLE_")
    other = open_sink(url, 20)
    other.write(range(9), codes[:9])
    other.close()
    with pytest.raises(StorageError, match="would not compare"):
        open_sink(url, 20).resume(state)


@st.composite
def changes(draw):
    """The type of a column, and calls of write and remove: (ids, texts), of ids alone, None."""
    kind = draw(st.sampled_from(list(IDS)))
    ids = st.lists(st.sampled_from(IDS[kind]), max_size=4)
    text = st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    written = ids.flatmap(
        lambda some: st.tuples(
            st.just(some), st.lists(text, min_size=len(some), max_size=len(some))
        )
    )
    removed = st.tuples(ids, st.none())
    return kind, draw(st.lists(written | removed | st.just(None), max_size=8))


@given(changes(), st.sampled_from([1, 3, 65536]), st.booleans())
@settings(max_examples=40)
def test_a_table_is_what_the_changes_in_their_order_make_of_it(
    codes, one_table, case, rows, breaks
):
    """None commits; with breaks, the connection is lost before every commit."""
    (kind, calls), (url, ask) = case, one_table
    ask("DROP TABLE IF EXISTS TABLE_")
    kept = ("text", 'odd "name"')
    sink = postgres.PostgresSink(url, 20, rows=rows, keep=kept)
    if kind == "text":  # and not uuid, though the first to come may be one
        sink.write(["first"], codes[:1], np.full((1, 2), None))
        sink.remove(["first"])
    wanted, count = {}, 0
    for call in calls:
        if call is None:
            if breaks and sink._link is not None:
                ask(f"SELECT pg_terminate_backend({sink._link.info.backend_pid})")
            sink.commit()
            assert held(ask, kind) in (wanted, None)
            continue
        ids, texts = call
        some = slice(count, count + len(ids))
        count += len(ids)
        if texts is None:
            sink.remove([key.upper() if kind == "uuid" else key for key in ids])
            wanted = {key: value for key, value in wanted.items() if key not in ids}
        else:
            sink.write(
                ids, codes[some], np.array([[t, None] for t in texts], object).reshape(-1, 2)
            )
            for key, code, value in zip(ids, codes[some], texts, strict=True):
                wanted[key] = (text(code), value)
    sink.close()
    assert held(ask, kind) == wanted


def held(ask, kind):
    """id: (code, text); None without a table."""
    if ask("SELECT to_regclass('TABLE_')") == [(None,)]:
        return None
    found = ask('SELECT id::text, code::text, text, "odd ""name""" FROM TABLE_')
    assert {odd for *_, odd in found} <= {None}
    return {int(key) if kind == "bigint" else key: (code, value) for key, code, value, _ in found}


@pytest.fixture(scope="module")
def one_table(postgres_url):
    """The URL of a table for all examples of a property, and what to ask the server with."""
    psycopg = pytest.importorskip("psycopg")
    link = psycopg.connect(postgres_url, autocommit=True)

    def ask(query):
        found = link.execute(query.replace("TABLE_", "of_changes"))
        return found.fetchall() if found.description else []

    yield f"{postgres_url}?table=of_changes", ask
    ask("DROP TABLE IF EXISTS TABLE_")
    link.close()


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
                sink._upsert(sink._link, [some for some in changes if some.codes is not None])
                ask(f"SELECT pg_terminate_backend({sink._link.info.backend_pid})")
        real(changes)
        if not hard and len(times) == 1:
            raise pytest.importorskip("psycopg").OperationalError("lost")

    monkeypatch.setattr(sink, "_send", send)
    sink.close()
    assert len(times) == 2
    wanted = {key: text(codes[key]) for key in (4, 5, 6, 7, 8)} | {1: text(codes[21])}
    assert dict(ask("SELECT id, code::text FROM TABLE_")) == wanted


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ([7], "bigint"),
        (["a"], "text"),
        ([UUIDS[0].upper(), UUIDS[1]], "uuid"),
        ([UUIDS[0], "a"], "text"),
        ([UUIDS[0].replace("-", "")], "text"),
        ([], "bigint"),
    ],
)
def test_the_first_ids_decide_of_which_type_a_new_table_is(first, kind, postgres_url, table, codes):
    name, ask = table
    sink = open_sink(f"{postgres_url}?table={name}", 20)
    sink.write([], codes[:0])
    sink.state()
    assert ask("SELECT to_regclass('TABLE_')") == [(None,)]
    sink.write(first, codes[: len(first)])
    sink.close()
    assert ask(TYPE) == [(kind,)]
    assert sorted(key for (key,) in ask("SELECT id::text FROM TABLE_")) == sorted(
        str(key).lower() for key in first
    )


def test_removals_alone_do_not_make_texts_uuids(postgres_url, table, codes):
    name, ask = table
    sink = open_sink(f"{postgres_url}?table={name}", 20)
    sink.remove(UUIDS)
    with pytest.raises(InputError, match=r"whole numbers \(7\) and texts"):
        sink.write([7], codes[:1])
    sink.write(["a"], codes[:1])
    sink.close()
    assert ask(TYPE) == [("text",)]


@pytest.mark.parametrize(
    ("kind", "good", "bad", "said"),
    [
        ("bigint", 1, "a", "type bigint, and the id 'a' is not a whole number: write such ids, or"),
        ("int", 1, "a", "type bigint, and the id 'a' is not a whole number"),
        ("text", "a", 1, "type text, and the id 1 is not a text"),
        ("varchar(9)", "a", "a\0b", r"type text, and the id 'a\\x00b' is not a text without NUL"),
        ("uuid", UUIDS[0], "a", r"type uuid, and the id 'a' is not a UUID \(8-4-4-4-12"),
        ("uuid", UUIDS[0], UUIDS[1] + "\n", "is not a UUID"),
        ("uuid", UUIDS[0], 1, "the id 1 is not a UUID"),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_ids_that_do_not_fit_the_table_are_named(
    kind, good, bad, said, there, *, postgres_url, table, codes
):
    name, ask = table
    if there:
        ask(f"CREATE TABLE TABLE_ (id {kind} PRIMARY KEY, code bit(20), epoch int)")
    sink = open_sink(f"{postgres_url}?table={name}", 20)
    sink.write([good], codes[:1])
    for call in (lambda: sink.write([bad], codes[1:2]), lambda: sink.remove([bad])):
        with pytest.raises(InputError, match=f"table {name} has ids of .*{said}"):
            call()
    sink.close()
    assert ask("SELECT id::text FROM TABLE_") == [(str(good),)]


def test_a_first_write_that_is_refused_decides_nothing(postgres_url, table, codes):
    name, ask = table
    sink = open_sink(f"{postgres_url}?table={name}", 20)
    for ids in (["a\0b"], ["a", "b"]):
        with pytest.raises(InputError):
            sink.write(ids, codes[:1])
    assert ask("SELECT to_regclass('TABLE_')") == [(None,)]
    sink.write([7], codes[:1])
    sink.close()
    assert ask(TYPE) == [("bigint",)]


def test_a_table_with_ids_of_another_type_is_refused(postgres_url, table):
    name, ask = table
    ask("CREATE TABLE TABLE_ (id date PRIMARY KEY, code bit(20), epoch int)")
    with pytest.raises(StorageError, match="ids of type date, and bigint, text or uuid is needed"):
        open_sink(f"{postgres_url}?table={name}", 20)
    ask("ALTER TABLE TABLE_ DROP COLUMN id")
    with pytest.raises(StorageError, match="has no column 'id'"):
        open_sink(f"{postgres_url}?table={name}", 20)


def test_a_table_without_columns_for_what_is_kept_is_refused(postgres_url, table, codes):
    name, ask = table
    url = f"{postgres_url}?table={name}"
    open_sink(url, 20).close()
    options = {"keep": ("text", 'an "url"')}
    with pytest.raises(
        StorageError, match='has no column for text, an "url", to be kept'
    ) as caught:
        postgres.PostgresSink(url, 20, **options)
    ask(str(caught.value).partition("run ")[2].partition(", or choose")[0])
    sink = postgres.PostgresSink(url, 20, **options)
    sink.write([1, 2], codes[:2], np.array([["a", None], [None, '{"b": 1}']], object))
    state = sink.state()
    sink.close()
    assert ask('SELECT id, text, "an ""url""" FROM TABLE_ ORDER BY id') == [
        (1, "a", None),
        (2, None, '{"b": 1}'),
    ]
    with pytest.raises(StorageError, match="was begun with keep"):
        open_sink(url, 20).resume(state)
    again = postgres.PostgresSink(url, 20, **options)
    again.resume(state)
    again.close()
    ask("ALTER TABLE TABLE_ ALTER COLUMN text TYPE bytea USING NULL")
    with pytest.raises(StorageError, match="column 'text' of type bytea, and text is needed"):
        postgres.PostgresSink(url, 20, **options)


def test_what_cannot_be_kept_is_named(postgres_url, table, codes):
    name, ask = table
    url = f"{postgres_url}?table={name}"
    sink = postgres.PostgresSink(url, 20, keep=("text",))
    for value in ("a\0", "\ud800", 5):
        with pytest.raises(InputError, match=r"'text' of the id 8 is .*: pass a text without NUL"):
            sink.write([7, 8], codes[:2], np.array([["a"], [value]], object))
    for payload in (None, np.full((1, 2), "a", object), np.full(1, "a", object)):
        with pytest.raises(InputError, match=r"keeps text: pass a payload of shape \(1, 1\)"):
            sink.write([7], codes[:1], payload)
    sink.write([7], codes[:1], np.array([[None]], object))
    sink.close()
    assert ask("SELECT id, text FROM TABLE_") == [(7, None)]
    plain = open_sink(url, 20)
    with pytest.raises(InputError, match=r"keeps no payload: pass a payload of shape \(1, 0\)"):
        plain.write([1], codes[:1], np.full((1, 1), "a", object))
    plain._drop()
    for keep in (("code",), ("a", "a"), ("",), ("x" * 64,), ("a\0",), (7,)):
        with pytest.raises(InputError, match=r"keep has .*(column|twice)"):
            postgres.PostgresSink(url, 20, keep=keep)


def test_several_epochs_are_told(postgres_url, table, codes, caplog):
    sink = open_sink(f"{postgres_url}?table={table[0]}", 20)
    sink.write([1], codes[:1])
    sink.write([], sb.Codes(codes.packed[:0], 20, 9))
    assert "epoch" not in caplog.text
    for epoch in (1, 2):
        sink.write([1], sb.Codes(codes.packed[:1], 20, epoch))
    sink.close()
    assert caplog.text.count("codes of several epochs (0, 1), and only those of one epoch") == 1


@pytest.mark.parametrize("name", ["x" * 64, "é" * 32, "x%00y", "a..b", "a.b.c", "." + "x" * 64])
def test_names_that_postgres_would_cut_off_are_refused(name, postgres_url):
    with pytest.raises(InputError, match=r"each of 1 to 63 bytes|NUL character"):
        open_sink(f"{postgres_url}?table={name}", 20)


def test_the_table_may_have_the_name_of_our_temporary_one(postgres_url, table, codes):
    _, ask = table
    sink = open_sink(f"{postgres_url}?table=streambits_new", 20)
    try:
        sink.write(np.arange(9), codes[:9])
        sink.close()
        assert ask("SELECT count(*) FROM public.streambits_new") == [(9,)]
    finally:
        ask("DROP TABLE public.streambits_new")


def test_what_does_not_pass_is_not_waited_for(postgres_url, table, codes):
    name, ask = table
    ask(
        f"CREATE VIEW v_{name} AS SELECT 1::bigint AS id, B'1'::bit(20) AS code, 0 AS epoch LIMIT 0"
    )
    try:
        sink = open_sink(f"{postgres_url}?table=v_{name}", 20, retry_seconds=3600)
        sink.write([1], codes[:1])
        with pytest.raises(StorageError, match=r"table v_\w+ cannot be written: "):
            sink.commit()
    finally:
        ask(f"DROP VIEW v_{name}")


def test_epochs_without_room_are_refused(postgres_url, table, codes):
    sink = open_sink(f"{postgres_url}?table={table[0]}", 20)
    with pytest.raises(InputError, match="epoch 2147483648, and this sink takes epochs up to"):
        sink.write([1], sb.Codes(codes.packed[:1], 20, 2**31))
    sink.close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@127.0.0.1:1/there?table=x",
        "postgresql://me:hunter2@127.0.0.1:1/there=x",
        "postgresql://me:hunter2@[::1/there",
        "postgresql://me:hunter2@h:port/there",
        "postgresql://me:a/hunter2@127.0.0.1:1/there",
        "postgresql://me@127.0.0.1:1/there?password=hunter2&sslmode=wrong",
        "postgresql://me@127.0.0.1:1/there?pasword=hunter2",
        "postgresql://me:x%00hunter2@127.0.0.1:1/there",
        "postgresql://me:x#hunter2@127.0.0.1:1,127.0.0.1:2/there",
    ],
)
def test_passwords_are_not_shown(url):
    pytest.importorskip("psycopg")
    with pytest.raises(StreambitsError) as caught:
        open_sink(url, 20)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("odd", ["a#b", "a@b", "a[b", "a%b", "a+b", "é b", "a:b", "a,b"])
def test_passwords_with_odd_characters_let_us_in(odd, own_server_with_passwords):
    ask, url = own_server_with_passwords
    ask(f"ALTER ROLE me PASSWORD '{odd}'")
    for where in (
        url.replace("me@", f"me:{odd}@"),
        url.replace("me@", f"me:{quote(odd, '')}@"),
        f"{url}?password={quote(odd, '')}",
    ):
        open_sink(f"{where}{'&' if '?' in where else '?'}table=mine", 20).close()
    with pytest.raises(UnreachableError, match="password authentication failed"):
        open_sink(url.replace("me@", "me:other@"), 20)


@pytest.fixture(scope="module")
def own_server_with_passwords(postgres_programs):
    """A server that asks the role `me` for its password."""
    psycopg = pytest.importorskip("psycopg")
    server = Postgres(postgres_programs)
    rules = server.folder / "data" / "pg_hba.conf"
    rules.write_text(f"host all me 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    try:
        server.start()
        with psycopg.connect(server.url, autocommit=True) as link:
            link.execute("CREATE ROLE me LOGIN SUPERUSER")
            yield link.execute, server.url.replace("postgres@", "me@")
    finally:
        server.remove()
