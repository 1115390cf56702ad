"""A damaged file is refused, or changes nothing: a few hundred mutations, or 20,000 if asked."""

import os
from collections import Counter

import pytest

from fuzz import runner, specimens

SHORT, LONG = 250, 20_000


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    """All specimens, and a folder to work in."""
    root = tmp_path_factory.mktemp("fuzz")
    return runner.build(root / "pristine"), root


def check(every, count, seed, workers):
    found = runner.run(*every, range(count), seed=seed, workers=workers)
    assert [verdict for verdict in found if verdict.verdict == runner.WRONG] == []
    return Counter(verdict.verdict for verdict in found)


@pytest.mark.slow
def test_damage_is_refused_or_has_no_effect(every):
    counts = check(every, SHORT, seed=7, workers=1)
    assert counts[runner.REFUSED] > SHORT / 2


@pytest.mark.skipif(not os.environ.get("STREAMBITS_SLOW"), reason="takes long: STREAMBITS_SLOW=1")
def test_damage_is_refused_or_has_no_effect_at_length(every):
    check(every, LONG, seed=int.from_bytes(os.urandom(4)), workers=os.cpu_count() or 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("answers_otherwise", "answers_otherwise: "),
        ("raises_otherwise", "raises KeyError"),
        ("dies", "dies of SIGSEGV"),
        ("hangs", "hangs"),
    ],
)
def test_what_is_wrong_is_found(tmp_path, monkeypatch, fault, told):
    """Each kind of fault is a verdict, and the mutation after it is judged like any other."""
    pristine = tmp_path / "pristine"
    pristine.mkdir()
    (pristine / "file").write_bytes(specimens.WHOLE)
    wrong = specimens.Specimen("a test", pristine, "file", (fault,))
    if fault == "hangs":
        monkeypatch.setattr(runner, "SECONDS", 1)
    found = runner.run([wrong], tmp_path, range(2), seed=3)
    assert [verdict.verdict for verdict in found] == [runner.WRONG] * 2
    assert all(told in verdict.told for verdict in found)
