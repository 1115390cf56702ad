"""Jobs whose rows are learned and encoded on a device."""

import numpy as np
import pytest

import streambits as sb
from streambits.io.rows import open_source
from streambits.jobs.job import JobPlan, Pace, run_job
from streambits.jobs.work import Encoding, Learning, Online

torch = pytest.importorskip("torch")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SETTINGS = sb.Settings(bits=16, n_landmarks=50, method="ssbc")


@pytest.fixture
def rows(tmp_path):
    rows = np.random.default_rng(0).random((20_000, 8), dtype=np.float32)
    np.save(tmp_path / "rows.npy", rows)
    return rows


def run(tmp_path, out, work, **pace):
    plan = JobPlan(
        verb="online",
        source=open_source(tmp_path / "rows.npy"),
        work=work,
        settings={},
        out=tmp_path / out,
        bits=None if isinstance(work, Learning) and not isinstance(work, Online) else 16,
    )
    return run_job(plan, pace=Pace(**pace) if pace else None)


def bits_of(path):
    return np.concatenate([codes.unpack() for _, codes in sb.open_codes(path)])


def test_codes_by_a_model_are_those_of_the_host(tmp_path, rows):
    coder = SETTINGS.learner([rows[:500]]).learn(rows).coder()
    run(tmp_path, "there", Encoding(coder, "model", DEVICE))
    assert (bits_of(tmp_path / "there") == coder.encode(rows).unpack()).all()


def test_an_online_job_is_that_of_the_library(tmp_path, rows):
    work = Online(SETTINGS, device=DEVICE)
    assert run(tmp_path, "there", work).rows == len(rows)
    run(tmp_path, "here", Online(SETTINGS))
    found = bits_of(tmp_path / "there")
    assert found.shape == (len(rows), 16)
    assert (found == bits_of(tmp_path / "here")).mean() > 0.9
    assert sb.load(tmp_path / "there" / "model.safetensors").seen == len(rows)


def test_a_job_goes_on_where_it_was(tmp_path, rows, monkeypatch):
    run(tmp_path, "whole", Online(SETTINGS, device=DEVICE))

    class StopError(Exception):
        pass

    class Stopping(Online):
        def _work(self, learner, batch):
            if learner.seen > 9000:
                raise StopError
            yield from super()._work(learner, batch)

    monkeypatch.setattr("streambits.jobs.reader.TOGETHER_THERE", 2000)
    with pytest.raises(StopError):
        run(tmp_path, "parts", Stopping(SETTINGS, device=DEVICE), rows=1000)
    run(tmp_path, "parts", Online(SETTINGS, device=DEVICE))
    assert (bits_of(tmp_path / "parts") == bits_of(tmp_path / "whole")).all()
