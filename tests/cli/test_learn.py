"""`streambits learn`: a model, and nothing else."""

import numpy as np

import streambits as sb


def test_a_model(command, mixture, tmp_path, fingerprint):
    rows = mixture(3000)
    np.save(tmp_path / "rows.npy", rows)
    arguments = [
        "learn",
        tmp_path / "rows.npy",
        "--bits",
        8,
        "--set",
        "n_landmarks=40",
        "--set",
        "seed=3",
    ]
    done = command(*arguments, "--out", tmp_path / "job", "--json")
    assert done.code == 0, done.err
    assert (done.json["verb"], done.json["rows"], done.json["epoch"]) == ("learn", 3000, 0)
    wanted = sb.Settings(8, n_landmarks=40, seed=3).learner([rows[:400]]).learn(rows)
    found = sb.load(tmp_path / "job" / "model.safetensors")
    assert fingerprint(found) == fingerprint(wanted)
    names = {file.name for file in (tmp_path / "job").iterdir()}
    assert names == {"job.json", "checkpoint.safetensors", "model.safetensors"}
