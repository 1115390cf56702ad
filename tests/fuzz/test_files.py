"""A damaged file is refused, or changes nothing: some mutations, or 20,000 if asked."""

import os

import pytest

from fuzz import runner, specimens

LONG = bool(os.environ.get("STREAMBITS_SLOW"))
COUNT = 20_000 if LONG else 200


def test_damage_is_refused_or_has_no_effect(tmp_path):
    every = runner.build(tmp_path / "pristine")
    seed, workers = (int.from_bytes(os.urandom(4)), os.cpu_count() or 1) if LONG else (7, 1)
    found = runner.run(every, tmp_path, range(COUNT), seed=seed, workers=workers)
    assert [verdict for verdict in found if verdict.verdict == runner.WRONG] == []
    assert sum(verdict.verdict == runner.REFUSED for verdict in found) > COUNT / 2


@pytest.mark.slow
def test_what_is_wrong_is_found(tmp_path):
    """Each kind of fault is a verdict, and the mutation after it is judged like any other."""
    pristine = tmp_path / "pristine"
    pristine.mkdir()
    (pristine / "file").write_bytes(specimens.WHOLE)
    for fault, told in (
        (specimens.answers_otherwise, "answers_otherwise: "),
        (specimens.dies, "dies of SIGSEGV"),
    ):
        wrong = specimens.Specimen("a test", pristine, "file", (fault,))
        found = runner.run([wrong], tmp_path, range(2), seed=3)
        assert [verdict.verdict for verdict in found] == [runner.WRONG] * 2
        assert all(told in verdict.told for verdict in found)
