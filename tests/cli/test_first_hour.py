"""Every command of the pages that are a session, in order, with a PostgreSQL of our own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import streambits as sb
from forks import quick_command
from streambits.io.rows import open_source

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "first-hour.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def database(postgres_url):
    """The URL of a new database, which is dropped afterwards."""
    psycopg = pytest.importorskip("psycopg")
    name = f"first_hour_{os.getpid()}"
    with psycopg.connect(postgres_url, autocommit=True) as link:
        link.execute(f"CREATE DATABASE {name}")
    yield urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
    with psycopg.connect(postgres_url, autocommit=True) as link:
        link.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module", autouse=True)
def quick(tmp_path_factory):
    """`streambits` is a quick one: each command takes a second to load otherwise."""
    folder = tmp_path_factory.mktemp("bin")
    with quick_command(folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        yield


def run(language, text, folder, database):
    """What a block prints; of SQL, what the database answers."""
    if language == "sql":
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(database, autocommit=True) as link:
            found = link.execute(text)
            while found.nextset():
                pass  # the last statement answers
            return found.fetchall() if found.description else []
    command = {"sh": ["bash", "-euc"], "python": [sys.executable, "-c"]}[language]
    done = subprocess.run(
        [*command, text],
        check=False,
        cwd=folder,
        env={**os.environ, "DATABASE": database},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_every_command_of_the_first_hour(tmp_path, database):
    blocks = BLOCK.findall(PAGE.read_text())
    assert {language for language, _ in blocks} == {"python", "sh", "sql"}
    assert sum(text.count("streambits ") for language, text in blocks if language == "sh") >= 8
    answers = [run(*block, tmp_path, database) for block in blocks]
    [answer] = [answer for answer in answers if isinstance(answer, list) and answer]
    assert answer == nearest(tmp_path)


@pytest.mark.slow
def test_every_command_of_the_page_on_jobs(tmp_path):
    blocks = BLOCK.findall((ROOT / "docs" / "jobs.md").read_text())
    assert {language for language, _ in blocks} == {"python", "sh"}
    said = [run(*block, tmp_path, "") for block in blocks]
    lines = [line for text in said for line in text.splitlines() if line.startswith('{"query"')]
    nearest = [(answer["query"], answer["ids"][0]) for answer in map(json.loads, lines)]
    assert {(query, f"doc-{query}") for query in range(3)} <= set(nearest)
    assert sb.load(tmp_path / "merged.safetensors").seen == 11_000
    assert len(sb.open(tmp_path / "job")) == 9000
    assert len(sb.open(tmp_path / "docs")) == 5999


@pytest.mark.slow
def test_every_command_of_the_page_on_postgres(tmp_path, database):
    blocks = BLOCK.findall((ROOT / "docs" / "postgres.md").read_text())
    assert {language for language, _ in blocks} == {"python", "sh", "sql"}
    answers = [run(*block, tmp_path, database) for block in blocks]
    found = [answer for answer in answers if isinstance(answer, list) and answer]
    near, again, _, [(model, *lengths)], counted = found
    assert counted == [(100,)]
    source = open_source(tmp_path / "docs.jsonl", ids="id", columns=["embedding"])
    batch = next(source.read())
    ids, rows = batch.ids, batch.rows
    asked = next(open_source(tmp_path / "queries.jsonl", ids="id").read()).rows
    places = {key: place for place, key in enumerate(ids.tolist())}

    def look_up(some):
        return rows[[places[key] for key in some.tolist()]]

    coder = sb.load(tmp_path / "job" / "coders.safetensors").newest
    index = sb.HammingIndex(64, refine=coder.refine)
    index.add(coder.encode(rows), ids)
    hits = index.search(coder.encode(asked), 100)
    best = sb.rerank(hits, asked, look_up, 10)
    assert by_query(again) == best.ids.tolist()
    assert np.allclose([row[-1] for row in again], best.distances.ravel(), rtol=1e-5)
    assert [row[3] for row in near] == hits.distances[:, :10].ravel().tolist()
    assert all(title == f"document {places[str(key)]}" for _, key, title, _ in near)
    assert model
    assert lengths == [64, 8]
    types = "SELECT string_agg(format_type(atttypid, atttypmod), ',' ORDER BY attnum) FROM "
    types += "pg_attribute WHERE attrelid = 'docs'::regclass AND attnum > 0"
    assert run("sql", types, tmp_path, database) == [("text,bit(64),bytea,integer,text",)]


def by_query(answer):
    """The ids of a table of queries and their ids, query by query."""
    found = {}
    for query, name, _ in answer:
        found.setdefault(query, []).append(str(name))
    return list(found.values())


def nearest(folder):
    """The same answer from an index in memory."""
    coder = sb.load(folder / "job" / "model.safetensors").coder()
    index = sb.HammingIndex(64)
    for ids, rows, *_ in open_source(folder / "embeddings", ids="id").read():
        index.add(coder.encode(rows), ids)
    hits = index.search(coder.encode(np.load(folder / "queries.npy")), 5)
    return [
        (query, name, float(distance))
        for query, (names, distances) in enumerate(zip(hits.ids, hits.distances, strict=True))
        for name, distance in zip(names.tolist(), distances.tolist(), strict=True)
    ]
