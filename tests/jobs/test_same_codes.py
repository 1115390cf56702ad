"""What a job gives is what the library gives."""

import numpy as np
import pytest

import streambits as sb
from streambits.io.codes.parquet import read_codes
from streambits.model.batches import RowBatch
from streambits.online import OnlineEncoder

pytestmark = pytest.mark.filterwarnings("ignore::streambits.errors.ReachWarning")

SETTINGS = ["--bits", 8, "--set", "n_landmarks=40", "--set", "quiet=true"]


def held(folder):
    """id: (epoch, code)."""
    return collected(read_codes(folder))


def collected(batches):
    return {
        key: (codes.epoch, code.tobytes())
        for ids, codes in batches
        for key, code in zip(ids.tolist(), codes.packed, strict=True)
    }


def online(settings, rows, coders):
    """Codes by `encode_online`, and the learner of the same loop."""
    first = [RowBatch(np.arange(len(rows)), rows)]
    encoder, batches = OnlineEncoder.start(settings, first, coders=coders)
    found = collected(batches)
    assert found == collected(sb.encode_online(settings, [rows]))
    return found, encoder.learner


@pytest.mark.parametrize(
    ("epochs", "refresh"), [("auto", "auto"), ("auto", 700), ("never", 700), (1536, 700)]
)
def test_online_is_encode_online(
    epochs, refresh, jobs, moving, *, as_parquet, tmp_path, fingerprint
):
    """There is one loop, in a job as in a notebook."""
    rows = np.nan_to_num(moving)
    as_parquet(tmp_path / "rows.parquet", rows)
    more = ["--set", f"epochs={epochs}", "--set", f"refresh={refresh}"]
    jobs.whole(["online", tmp_path / "rows.parquet", *SETTINGS, *more, "--out", tmp_path / "job"])
    settings = sb.Settings(8, n_landmarks=40, refresh=refresh, epochs=epochs)
    coders, alone = sb.CoderSet(), tmp_path / "alone"
    alone.mkdir()
    coders.store_in(alone, sb.load, sb.save)
    codes, learner = online(settings, rows, coders)
    assert held(tmp_path / "job" / "codes") == codes
    sb.save(coders, alone / "coders.safetensors")
    files = {file.relative_to(alone) for file in alone.rglob("*.safetensors")}
    assert len(files) == 1 + learner.epoch
    for file in files:
        assert (tmp_path / "job" / file).read_bytes() == (alone / file).read_bytes()
    ours, theirs = sb.load(tmp_path / "job" / "model.safetensors"), learner
    if learner.epoch == coders.newest.epoch:
        theirs = learner.with_coder(coders.newest)
        assert fingerprint(ours.coder()) == fingerprint(coders.newest)
    assert fingerprint(ours) == fingerprint(theirs)


def test_learn_then_encode_is_the_final_coder(jobs, moving, as_parquet, tmp_path):
    rows = np.nan_to_num(moving)
    as_parquet(tmp_path / "rows.parquet", rows)
    jobs.whole(
        [
            "learn",
            tmp_path / "rows.parquet",
            *SETTINGS,
            "--set",
            "epochs=never",
            "--out",
            tmp_path / "job",
        ]
    )
    learner = sb.Settings(8, n_landmarks=40, epochs="never").learner([rows[:400]]).learn(rows)
    for model in ("job", "job/model.safetensors"):
        name = f"codes-{model.replace('/', '-')}"
        command = ["encode", tmp_path / model, tmp_path / "rows.parquet", "--set", "quiet=true"]
        command += ["--set", "out_of_reach=accept"]
        jobs.whole([*command, "--out", tmp_path / name])
        wanted = learner.coder().encode(rows).packed
        found = held(tmp_path / name / "codes")
        assert [found[i] for i in range(len(rows))] == [(0, code.tobytes()) for code in wanted]
