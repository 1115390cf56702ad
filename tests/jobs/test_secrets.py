"""A password in a URL is in no file of a job, in no message and in no log, whatever happens."""

import os
from urllib.parse import quote

import numpy as np
import pytest

SECRET = "hunter2"  # and what stands around it
ONLINE = ["online", "ROWS"]
WRONG = [  # (arguments, part of what is said)
    ([*ONLINE, "--to", "postgresqll://me:hunter2@127.0.0.1:1/db"], "names no sink"),
    ([*ONLINE, "--to", "postgresql://me:hunter2@127.0.0.1:1/db=x"], "not a URL of a database"),
    ([*ONLINE, "--to", "postgresql://me:hunter2@127.0.0.1:1/db"], "cannot be reached"),
    ([*ONLINE, "--to=postgresql://me:hunter2@[::1/db"], "is not a URL"),
    ([*ONLINE, "--to", "postgresql://me:a/hunter2?b@127.0.0.1:1/db"], "is not a URL"),
    ([*ONLINE, "--to", "postgresql://127.0.0.1:1/db?password=hunter2"], "cannot be reached"),
    ([*ONLINE, "--to", "postgresql:me:hunter2@127.0.0.1:1/db"], "names no sink"),
    ([*ONLINE, "--to", "jsonl:postgresql://me:hunter2@127.0.0.1:1/db"], "names no sink"),
    (["learn", "nats:me:hunter2@127.0.0.1:1/stream"], "is not a source"),
    (["learn", "nats://me:hunter2@127.0.0.1:1/stream"], "cannot be reached"),
    (["learn", "nats://me:a#hunter2@127.0.0.1:1/stream"], "cannot be reached"),
    (["learn", "nats://hunter2@127.0.0.1:1/stream"], "cannot be reached"),
    (["learn", "nats://127.0.0.1:1/stream?token=hunter2"], "no setting but subject"),
    (["learn", "kafka://me:hunter2@127.0.0.1:1/topic"], "STREAMBITS_KAFKA_SASL_PASSWORD"),
    (["learn", "kafka://127.0.0.1:1/topic?sasl.password=hunter2"], "hosts and a topic only"),
    (["online", "ROWS", "--out", "postgresql://me:hunter2@127.0.0.1:1/db"], "it must be a folder"),
    (["inspect", "postgresql://me:hunter2@127.0.0.1:1/db"], "is a URL"),
    (["index", "postgresql://me:hunter2@127.0.0.1:1/db", "--out", "x.index"], "is a URL"),
    (["merge", "nats://me:hunter2@127.0.0.1:1/x", "ROWS", "--out", "x"], "nats://127.0.0.1:1/x"),
]


@pytest.fixture
def place(tmp_path, mixture):
    """A folder with rows.npy."""
    np.save(tmp_path / "rows.npy", mixture(400))
    return tmp_path


@pytest.fixture
def silent(jobs, place):
    """silent(arguments): the exit code of a job; nothing that it leaves or says has the secret."""

    def run(arguments):
        words = {"ROWS": place / "rows.npy", "OUT": place / "job"}
        arguments = [words.get(argument, argument) for argument in arguments]
        if arguments[0] in ("online", "learn"):
            arguments += ["--bits", 4, "--set", "n_landmarks=10"]
            arguments += [] if "--out" in arguments else ["--out", place / "job"]
        code = jobs.run(arguments)
        assert SECRET not in jobs.said
        assert "Traceback" not in jobs.said
        for folder, folders, files in os.walk(place):
            assert not any(SECRET in name for name in [*folders, *files])
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    assert SECRET.encode() not in file.read(), name
        return code

    return run


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[str(a[-1]) for a, _ in WRONG])
def test_in_what_goes_wrong(arguments, said, silent, jobs):
    for package in ("psycopg", "nats", "confluent_kafka"):
        pytest.importorskip(package)
    assert silent(arguments) == 1, jobs.said
    assert said in jobs.said


@pytest.mark.parametrize(
    ("form", "more"),
    [
        ("me:a#b{}@", ["--set", "log_json=true"]),
        ("query", ["--json"]),
        ("me:{}@h1", ["--set", "quiet=true"]),
    ],
)
def test_in_what_goes_well(form, more, silent, *, jobs, postgres_server, table):
    name, ask = table
    host = f"127.0.0.1:{postgres_server.port}"
    url = f"postgresql://postgres@{host}/postgres?password={quote(SECRET + '#')}&table={name}"
    if form != "query":
        login = form.format(SECRET).removesuffix("h1").replace("me:", "postgres:")
        hosts = f"127.0.0.1:1,{host}" if form.endswith("h1") else host
        url = f"postgresql://{login}{hosts}/postgres?table={name}"
    arguments = [*ONLINE, "--to", url, *more]
    assert silent(arguments) == 0, jobs.said
    warned = jobs.said.count("a password on the command line can be seen by other users")
    assert warned == ("quiet=true" not in more)
    assert silent(arguments) == 0, jobs.said
    assert ask("SELECT count(*) FROM TABLE_") == [(400,)]
    assert silent(["inspect", "OUT"]) == 0
    assert silent(["inspect", "OUT", "--json"]) == 0
    assert f"table={name}" in jobs.said
    postgres_server.stop()
    try:
        assert silent(arguments) == 1
        assert f"{host}/postgres table {name} cannot be reached" in jobs.said
    finally:
        postgres_server.start()


def test_rejects_are_for_their_owner_alone(silent, place):
    rows = np.load(place / "rows.npy")
    rows[7, 3] = np.nan
    np.save(place / "rows.npy", rows)
    assert silent([*ONLINE, "--skip-bad"]) == 0
    assert (place / "job" / "rejects.jsonl").stat().st_mode & 0o777 == 0o600
