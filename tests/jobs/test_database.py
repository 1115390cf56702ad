"""A database that is stopped in the middle of a job, in the middle of a transaction."""

import re
import time

import numpy as np
import pytest

from streambits.jobs.folder import JobFolder

pytestmark = pytest.mark.slow
HELD = 4000  # the row that a trigger holds back as long as someone has the lock
TRIGGER = f"""
CREATE TABLE held (id bigint PRIMARY KEY, code bit(8) NOT NULL, epoch int NOT NULL);
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN IF NEW.id = {HELD} THEN PERFORM pg_advisory_xact_lock(1); END IF; RETURN NEW; END';
CREATE TRIGGER wait BEFORE INSERT ON held FOR EACH ROW EXECUTE FUNCTION wait();
"""
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


class Database:
    """Jobs that write to the table `held` wait at a row until the server has been stopped."""

    def __init__(self, server, source, folder):
        psycopg = pytest.importorskip("psycopg")
        self.server, self.source, self.folder = server, source, folder
        self.connect = lambda: psycopg.connect(server.url, autocommit=True)
        self.ask(TRIGGER)
        self.holder = self.connect()
        self.holder.execute("SELECT pg_advisory_lock(1)")

    def ask(self, query):
        with self.connect() as link:
            found = link.execute(query)
            return found.fetchall() if found.description else []

    def job(self, table):
        """The command of a job that writes there."""
        settings = ["--bits", 8, "--set", "n_landmarks=40", "--set", "refresh=700", "--skip-bad"]
        where = ["--to", f"{self.server.url}?table={table}", "--out", self.folder / table]
        return ["online", self.source, *settings, "--set", "commit_rows=500", *where]

    def rows(self, table):
        """id: (code, epoch)."""
        found = self.ask(f"SELECT id, code::text, epoch FROM {table}")
        return {key: (code, epoch) for key, code, epoch in found}

    def stop(self):
        """As in a crash, while a job is in the middle of a transaction."""
        for _ in range(600):
            if self.ask(WAITING) == [(1,)]:
                break
            time.sleep(0.05)
        assert 0 < len(self.rows("held")) <= HELD
        self.server.stop(hard=True)
        self.holder.close()


@pytest.fixture
def database(own_postgres, moving_files, tmp_path):
    return Database(own_postgres, moving_files, tmp_path)


@pytest.fixture
def same(jobs, moving, database, content):
    """same(): the table and the folder are what an uninterrupted job leaves."""

    def same():
        jobs.whole(database.job("alone"))
        wanted = database.rows("alone")
        assert sorted(wanted) == np.flatnonzero(np.isfinite(moving).all(axis=1)).tolist()
        assert len({epoch for _, epoch in wanted.values()}) > 1
        assert database.rows("held") == wanted
        return content(database.folder / "held") == content(database.folder / "alone")

    return same


def test_one_that_comes_back_is_waited_for(jobs, database, same):
    def restart():
        database.stop()
        jobs.says("table held cannot be reached (")
        database.server.start()

    assert jobs.during(database.job("held"), restart) == 0, jobs.said
    assert "table held is there again" in jobs.said
    assert "Traceback" not in jobs.said
    assert same()


def test_one_that_stays_away_is_told_and_the_same_command_goes_on(jobs, database, same):
    command = database.job("held")
    stopped = []

    def stop():
        database.stop()
        stopped.append(time.monotonic())

    assert jobs.during([*command, "--set", "retry_seconds=1"], stop) == 1
    assert time.monotonic() - stopped[0] < 15  # and not a minute
    said = jobs.said.splitlines()[-1]
    assert re.search(r"^streambits: .* table held cannot be reached for [12] s \(", said)
    assert said.endswith(
        "committed is safe, and the same command continues once the server is there"
    )
    assert "Traceback" not in jobs.said
    assert jobs.run(command) == 1  # at the start nobody waits
    assert len(jobs.said.splitlines()) == 1
    database.server.start()
    rows = JobFolder(database.folder / "held", {}).checkpoint().counts["rows"]
    safe = database.rows("held")
    assert len(safe) >= rows > 0
    jobs.whole(command)
    assert safe.items() <= database.rows("held").items()
    assert same()
