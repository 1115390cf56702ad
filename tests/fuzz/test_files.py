"""A damaged file is refused, or changes nothing: some mutations, or 20,000 if asked."""

import os

import pytest

from fuzz import runner, specimens

LONG = bool(os.environ.get("STREAMBITS_SLOW"))
COUNT = 20_000 if LONG else 200


def check(found, seed=7):
    wrong = [verdict for verdict in found if verdict.verdict == runner.WRONG]
    assert not wrong, f"seed {seed}: {wrong}"
    assert sum(verdict.verdict == runner.REFUSED for verdict in found) > len(found) / 2


@pytest.mark.slow
def test_damage_is_refused_or_has_no_effect(tmp_path):
    every = runner.build(tmp_path / "pristine")
    seed, workers = (int.from_bytes(os.urandom(4)), os.cpu_count() or 1) if LONG else (7, 1)
    check(runner.run(every, tmp_path, range(COUNT), seed=seed, workers=workers), seed)


def test_damage_of_coders_indexes_and_codes_is_refused_or_has_no_effect(tmp_path, monkeypatch):
    """Those that are quickly made, in this process."""
    monkeypatch.chdir(tmp_path)
    every = [one for make in specimens.FILES for one in make(tmp_path / "pristine")]
    right = {}
    check([runner.judge(every[n % len(every)], 7, n, right) for n in range(30)])
