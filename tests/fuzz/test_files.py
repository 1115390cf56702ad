"""A damaged file is refused, or changes nothing: some mutations, or 20,000 if asked."""

import os

from fuzz import runner

LONG = bool(os.environ.get("STREAMBITS_SLOW"))
COUNT = 20_000 if LONG else 200


def test_damage_is_refused_or_has_no_effect(tmp_path):
    every = runner.build(tmp_path / "pristine")
    seed, workers = (int.from_bytes(os.urandom(4)), os.cpu_count() or 1) if LONG else (7, 1)
    found = runner.run(every, tmp_path, range(COUNT), seed=seed, workers=workers)
    assert [verdict for verdict in found if verdict.verdict == runner.WRONG] == []
    assert sum(verdict.verdict == runner.REFUSED for verdict in found) > COUNT / 2
