"""Against a PostgreSQL server with pgvector, started on loopback by the fixtures here."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import streambits as sb
from streambits.errors import InputError, StorageError, UnreachableError
from streambits.sinks import open_sink

NEAREST = "SELECT id, (code <~> %s)::int FROM TABLE_ ORDER BY code <~> %s, id LIMIT 10"


def text(code):
    return "".join("01"[bit] for bit in code.unpack()[0].astype(int))


def test_the_same_ten_nearest_from_the_database_from_faiss_and_from_us(
    mixture, postgres_url, table, tmp_path
):
    bridge = pytest.importorskip("streambits.interop.faiss", exc_type=ImportError)
    name, ask = table
    rows = mixture(4000)
    codes = sb.ssbc(rows[:100], 24).learn(rows).coder().encode(rows)
    ids = np.random.default_rng(0).permutation(4000) * 5 - 77
    targets = [
        f"{postgres_url}?table={name}",
        f"{tmp_path}/codes.faiss",
        f"{tmp_path}/codes.index",
    ]
    for target in targets:
        sink = open_sink(target, 24)
        for start in range(0, 4000, 999):
            sink.write(ids[start : start + 999], codes[start : start + 999])
        sink.close()
    queries = codes[::199]
    ours = sb.load(targets[2]).search(queries, 10)
    theirs = bridge.faiss.read_index_binary(targets[1]).search(queries.packed, 10)
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
    sink = open_sink(url, 20, patience=1)
    sink.write(np.arange(100), codes[:100])
    sink.commit()
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


def test_passwords_are_not_shown():
    pytest.importorskip("psycopg")
    with pytest.raises(UnreachableError) as caught:
        open_sink("postgresql://me:secret@127.0.0.1:1/there?table=x", 20)
    assert "secret" not in str(caught.value)


def test_without_the_package_the_extra_is_named():
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from streambits.errors import MissingExtraError\n"
        "from streambits.sinks import open_sink\n"
        "try: open_sink('postgres://here/there', 8)\n"
        "except MissingExtraError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert b"psycopg" in run.stdout
    assert b"streambits[postgres]" in run.stdout
