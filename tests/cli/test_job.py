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


@pytest.mark.parametrize(
    ("told", "retry_seconds"), [(["--set", "retry_seconds=7"], 7.0), ([], None)]
)
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
