"""What verbs that run a job share."""

import numpy as np
import pytest

import streambits as sb
from streambits import storage
from streambits.io.codes import open_sink
from streambits.jobs import job


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """The databases that jobs have opened, and how; a file stands for each."""
    found = []

    def opening(target, bits, **options):
        found.append((target, options))
        return open_sink(tmp_path / "codes", bits)

    monkeypatch.setattr(job, "open_sink", opening)
    return found


@pytest.mark.parametrize(("told", "retry_seconds"), [(["--retry-seconds", 7], 7.0), ([], None)])
@pytest.mark.parametrize("verb", ["online", "encode"])
def test_a_database_is_waited_for_as_long_as_told(
    verb, told, retry_seconds, *, command, opened, rows, tmp_path
):
    np.save(tmp_path / "rows.npy", rows[:500])
    sb.save(sb.ssbc(rows[:50], 8), tmp_path / "model.safetensors")
    first = [tmp_path / "model.safetensors"] if verb == "encode" else ["--bits", 8]
    target = "postgresql://127.0.0.1/x"
    done = command(
        verb, *first, tmp_path / "rows.npy", "--to", target, "--out", tmp_path / "job", *told
    )
    assert done.code == 0, done.err
    made_by = storage.digest(tmp_path / "model.safetensors") if verb == "encode" else None
    options = {"refine": 0, "keep": (), "retry_seconds": retry_seconds, "made_by": made_by}
    assert opened == [(target, options)]


def test_retry_is_taken_where_nothing_can_go_away(command, misused, rows, tmp_path):
    np.save(tmp_path / "rows.npy", rows[:500])
    arguments = ["learn", tmp_path / "rows.npy", "--bits", 8, "--out", tmp_path / "job"]
    assert "Invalid value for '--retry-seconds'" in misused(*arguments, "--retry-seconds", -1)
    assert command(*arguments, "--retry-seconds", 5).code == 0


def test_a_table_takes_codes_of_one_model_from_any_number_of_jobs(
    *, command, fails, rows, postgres_url, table, tmp_path
):
    name, ask = table
    here, target = tmp_path / "rows.npy", f"{postgres_url}?table={name}"
    np.save(here, rows[:500])
    online = ["online", here, "--bits", 8, "--to", target, "--out"]
    assert command(*online, tmp_path / "first").code == 0
    assert command(*online, tmp_path / "first").code == 0  # it goes on where it ended
    said = fails(*online, tmp_path / "second")
    assert f"table {name} holds codes made by run " in said
    assert f"name another table (?table=NAME), or drop it (DROP TABLE {name})" in said
    ask("DROP TABLE TABLE_")
    for model, seed in (("a", 0), ("b", 1)):
        sb.save(sb.ssbc(rows[:50], 8, seed=seed).learn(rows[:500]), tmp_path / f"{model}.model")
    encode = ["--to", target, "--out"]
    for out in ("third", "fourth"):
        assert command("encode", tmp_path / "a.model", here, *encode, tmp_path / out).code == 0
    said = fails("encode", tmp_path / "b.model", here, *encode, tmp_path / "fifth")
    assert "would not compare to them" in said
    assert ask("SELECT count(*) FROM TABLE_") == [(500,)]
