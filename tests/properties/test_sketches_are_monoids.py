"""Sums of scatter in any split and any tree of merges; the rest is in tests/conformance."""

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits.errors import MergeError
from streambits.sketches import FrequentDirections, Gram

WIDTH = 7
ROWS = np.random.default_rng(0).standard_normal((120, WIDTH)) * 0.7 ** np.arange(WIDTH) + 5
KINDS = {
    "gram": lambda like=None: Gram(WIDTH, like=like),
    "raw gram": lambda like=None: Gram(WIDTH, centred=False, like=like),
    "single gram": lambda like=None: Gram(WIDTH, precision="single", like=like),
    "frequent directions": lambda like=None: FrequentDirections(WIDTH, 4, like=like),
    "raw frequent directions": lambda like=None: FrequentDirections(
        WIDTH, 4, 1, centred=False, like=like
    ),
    "wide frequent directions": lambda like=None: FrequentDirections(WIDTH, 9, like=like),
}
EXACT = ("gram", "raw gram", "wide frequent directions")
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
exact_kinds = pytest.mark.parametrize("make", [KINDS[name] for name in EXACT], ids=EXACT)
cuts = st.lists(st.integers(0, 120), max_size=8).map(sorted)


def batches(places):
    return [part for part in np.split(ROWS, places) if len(part)]


def summary(sketch):
    """B'B, whatever form it is held in."""
    matrix = np.asarray(sketch.matrix)
    return matrix if isinstance(sketch, Gram) else matrix.T @ matrix


def truth(sketch):
    return np.cov(ROWS.T, bias=True) * len(ROWS) if sketch.centred else ROWS.T @ ROWS


@exact_kinds
@given(cuts)
def test_any_split_gives_the_scatter_of_all_rows(make, places):
    sketch = make()
    for part in batches(places):
        sketch.update(part)
    assert np.allclose(summary(sketch), truth(sketch), rtol=1e-9, atol=1e-9)
    assert sketch.seen == len(ROWS)


@exact_kinds
@given(cuts, st.randoms(use_true_random=False))
def test_any_tree_of_merges_gives_the_scatter_of_all_rows(make, places, random):
    shards = []
    for part in batches(places):
        shards.append(make())
        shards[-1].update(part)
    while len(shards) > 1:
        left = shards.pop(random.randrange(len(shards)))
        left.merge(shards.pop(random.randrange(len(shards))))
        shards.append(left)
    assert np.allclose(summary(shards[0]), truth(shards[0]), rtol=1e-9, atol=1e-9)
    assert np.allclose(shards[0].mean, ROWS.mean(axis=0) if shards[0].centred else 0)
    assert shards[0].seen == len(ROWS)


@pytest.mark.parametrize(
    ("left", "right", "word"),
    [
        (Gram(4), Gram(5), "width is 4 here and 5 there"),
        (Gram(4), Gram(4, centred=False), "centred"),
        (Gram(4), Gram(4, precision="single"), "precision"),
        (Gram(4), FrequentDirections(4, 2), "Gram and FrequentDirections"),
        (FrequentDirections(4, 2), FrequentDirections(4, 3), "size is 2 here and 3 there"),
        (FrequentDirections(4, 2), FrequentDirections(4, 2, 1), "spare"),
        (FrequentDirections(4, 2), FrequentDirections(4, 2, centred=False), "centred"),
    ],
)
def test_sketches_of_other_settings_do_not_merge(left, right, word, fingerprint):
    left.update(np.eye(4))
    before = fingerprint(left)
    with pytest.raises(MergeError, match=rf"{word}.*same settings"):
        left.merge(right)
    assert fingerprint(left) == before


@every_kind
def test_strict_arrays_give_the_same_sketch(make):
    here, there = make(), make(strict.zeros(1))
    for part in batches([30, 31]):
        here.update(part)
        there.update(strict.asarray(part))
    there.merge(there.fresh())
    here.merge(here.fresh())
    assert np.allclose(np.asarray(there.mean), here.mean)
    mine, theirs = here.directions(3), there.directions(3)
    assert isinstance(theirs.vectors, type(strict.zeros(1)))
    assert np.allclose(np.asarray(theirs.energies), mine.energies)
    assert np.allclose(abs(np.asarray(theirs.vectors)), abs(mine.vectors), atol=1e-6)
    assert there.certificate == pytest.approx(here.certificate)
    assert there.nbytes == here.nbytes
