"""A job of two epochs made by the library, and the command line as a function."""

import io
import json
import sys
from typing import NamedTuple

import numpy as np
import pytest
import typer.main

import streambits as sb
from streambits._digests import seal
from streambits.cli import app as cli
from streambits.io.codes import open_sink


class Done(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(scope="session")
def verbs():
    """All verbs, which Typer makes anew for each call otherwise."""
    return typer.main.get_command(cli.app)


@pytest.fixture
def command(monkeypatch, capsys, verbs):
    """command(*arguments, stdin=b""): the entry point, as a process would run it."""
    monkeypatch.setattr(cli, "app", verbs)

    def command(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["streambits", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as stopped:
            code = stopped.code or 0
        return Done(code, *capsys.readouterr())

    return command


@pytest.fixture
def fails(command):
    """fails(*arguments): the one line on stderr of a command that exits with 1."""

    def fails(*arguments, **more):
        done = command(*arguments, **more)
        assert (done.code, done.out) == (1, ""), done
        assert "Traceback" not in done.err
        assert done.err.splitlines()[-1].startswith("streambits: ")
        return done.err.splitlines()[-1].removeprefix("streambits: ")

    return fails


@pytest.fixture
def misused(command):
    """misused(*arguments): what a command that exits with 2 complains about, as one line."""

    def misused(*arguments):
        done = command(*arguments)
        assert (done.code, done.out) == (2, ""), done
        return " ".join(done.err.replace("│", " ").split())

    return misused


@pytest.fixture(scope="session")
def job(tmp_path_factory, rows, train):
    """A folder like that of `online`, with codes of 16 bits in two epochs; rows.npy is beside."""
    folder = tmp_path_factory.mktemp("made") / "job"
    learner, coders = sb.ssbc(train, 16, epochs=3000), sb.CoderSet()
    sink = open_sink(folder / "codes", 16)
    parts = [rows[start : start + 500] for start in range(0, len(rows), 500)]
    for ids, codes in sb.encode_online(learner, parts, coders=coders):
        sink.write(ids, codes)
    sink.close()
    sb.save(learner.with_coder(coders.newest), folder / "model.safetensors")
    sb.save(coders, folder / "coders.safetensors")
    (folder / "job.json").write_bytes(seal({"verb": "online", "settings": {"bits": 16}}))
    np.save(folder.parent / "rows.npy", rows)
    np.save(folder.parent / "queries.npy", rows[:3])
    return folder


@pytest.fixture(scope="session")
def one_epoch(tmp_path_factory, job, rows):
    """The same rows in a folder of one epoch, by the last coder."""
    folder = tmp_path_factory.mktemp("made") / "one"
    learner = sb.load(job / "model.safetensors")
    sink = open_sink(folder / "codes", 16)
    sink.write(np.arange(len(rows)), learner.coder().encode(rows))
    sink.close()
    sb.save(learner, folder / "model.safetensors")
    return folder
