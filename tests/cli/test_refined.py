"""Refined codes from the command line: learned, written, searched, proven, re-encoded."""

from dataclasses import replace

import numpy as np
import pytest

import streambits as sb

LEARN = "--bits 16 --set n_landmarks=60 --refine 4 --set certified=true --set quiet=true"
SETTINGS = sb.Settings(16, n_landmarks=60, refine=4, certified=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, rows):
    """rows.npy, and queries.npy beside it."""
    path = tmp_path_factory.mktemp("refined")
    np.save(path / "rows.npy", rows)
    np.save(path / "queries.npy", rows[:6] + np.float32(0.01))
    return path


def online(rows, settings=SETTINGS):
    """Codes of all rows, and the coders that made them."""
    coders = sb.CoderSet()
    index = sb.HammingIndex(settings.sign_bits)
    for ids, codes in sb.encode_online(settings, [rows], coders=coders):
        index.add(codes, ids)
    return index, coders


def held(index):
    return [
        (key, codes.epoch, codes.packed[i].tobytes(), codes.refinement[i].tobytes())
        for ids, codes in index.items()
        for i, key in enumerate(ids.tolist())
    ]


@pytest.mark.parametrize("target", [None, "codes.jsonl", "codes.npy", "codes.index"])
def test_a_job_writes_what_the_library_encodes(command, folder, tmp_path, rows, target):
    to = [] if target is None else ["--to", tmp_path / target]
    done = command("online", folder / "rows.npy", *LEARN.split(), *to, "--out", tmp_path / "job")
    assert done.code == 0, done.err
    where = tmp_path / (target or "job")
    bits = {"bits": 16} if target == "codes.jsonl" else {}
    assert held(sb.open_codes(where, **bits).index()) == held(online(rows)[0])


def test_a_search_ranks_by_decoded_rows_and_proves(command, folder, tmp_path, rows):
    job = tmp_path / "job"
    assert command("online", folder / "rows.npy", *LEARN.split(), "--out", job).code == 0
    index, coders = online(rows)
    queries = np.load(folder / "queries.npy")
    ask = ["search", job, "--query", folder / "queries.npy", "-k", 3]
    for more, options in (
        ([], {}),
        (["--candidates", 50, "--set", "real=true"], {"candidates": 50, "real": True}),
        (["--metric", "cosine", "--candidates", "all"], {"candidates": "all", "metric": "cosine"}),
    ):
        found = command(*ask, *more).lines
        hits = coders.search(index, queries, 3, **options)
        assert [line["ids"] for line in found] == hits.ids.tolist()
        assert np.allclose([line["distances"] for line in found], hits.distances)
    proven = command(*ask, "--exact", folder / "rows.npy").lines
    far = np.linalg.norm(queries[:, None].astype(float) - rows, axis=2)
    assert [line["ids"] for line in proven] == np.argsort(far, axis=1)[:, :3].tolist()
    assert all(3 <= line["reads"] < len(rows) for line in proven)


def test_mistakes(command, fails, misused, *, folder, tmp_path, rows):
    plain = replace(SETTINGS, certified=None)
    learner = plain.learner([rows[:600]]).learn(rows)
    sb.save(learner, tmp_path / "uncertified.safetensors")
    out = ["--out", tmp_path / "codes", "--set", "quiet=true"]
    encode = ["encode", tmp_path / "uncertified.safetensors", folder / "rows.npy", *out]
    assert command(*encode).code == 0
    ask = ["search", tmp_path / "codes", "--query", folder / "queries.npy"]
    assert "certified" in fails(*ask, "--exact", folder / "rows.npy")
    assert "--exact proves" in misused(*ask, "--exact", "x", "--rerank", "x")
    assert "not all or a number" in misused(*ask, "--candidates", "many")
    assert "--candidates" in misused(*ask, "--radius", 3, "--candidates", 10)
    few = tmp_path / "few.npy"
    np.save(few, rows[:40])
    arguments = ["--bits", 8, "--refine", 30, "--set", "quiet=true", "--out", tmp_path / "few"]
    assert "40 rows supports at most" in fails("online", few, *arguments)
    sb.save(sb.ssbc(rows[:60], 16).learn(rows), tmp_path / "signs.safetensors")
    said = fails(*ask, "--model", tmp_path / "signs.safetensors")
    assert "16 bits and 4 bytes of refinement" in said
