"""Every command of docs/first-hour.md and docs/jobs.md, in order, with a PostgreSQL of our own."""

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


def run(language, text, folder, database):
    """What a block prints; of SQL, what the database answers."""
    if language == "sql":
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(database, autocommit=True) as link:
            found = link.execute(text)
            return found.fetchall() if found.description else []
    command = {"sh": ["bash", "-euc"], "python": [sys.executable, "-c"]}[language]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*command, text],
        check=False,
        cwd=folder,
        env={**os.environ, "PATH": path, "DATABASE": database},
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
    [found] = [text for text in said if '"query": 0' in text and '"code"' not in text]
    ids = [json.loads(line)["ids"] for line in found.splitlines()]
    assert [names[0] for names in ids] == ["doc-0", "doc-1", "doc-2"]
    assert sb.load(tmp_path / "merged.safetensors").seen == 11_000
    assert len(sb.open(tmp_path / "job")) == 9000
    assert len(sb.open(tmp_path / "docs")) == 5999


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
