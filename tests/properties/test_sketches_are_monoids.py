"""What every sketch promises, whatever it summarises by."""

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits.errors import MergeError
from streambits.sketches import Fixed, FrequentDirections, Gram

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
    "fixed": lambda like=None: Fixed(np.eye(WIDTH) if like is None else strict.eye(WIDTH)),
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


@every_kind
@given(count=st.integers(1, 120))
def test_an_empty_sketch_changes_nothing_on_either_side(make, count):
    sketch = make()
    sketch.update(ROWS[:count])
    before = sketch.state()
    left, right = sketch.copy(), sketch.fresh()
    left.merge(sketch.fresh())
    right.merge(sketch)
    for merged in (left, right):
        assert merged.seen == count
        assert merged.certificate == sketch.certificate
        assert np.allclose(merged.mean, sketch.mean, rtol=1e-12)
        if "energies" not in before:
            assert np.allclose(summary(merged), summary(sketch), rtol=1e-9, atol=1e-9)


@every_kind
def test_fresh_is_empty_and_of_the_same_settings(make, fingerprint):
    sketch = make()
    empty = fingerprint(sketch)
    sketch.update(ROWS)
    assert fingerprint(sketch) != empty
    assert fingerprint(sketch.fresh()) == empty


@every_kind
def test_a_copy_goes_its_own_way(make, fingerprint):
    sketch = make()
    sketch.update(ROWS[:50])
    before, copied = fingerprint(sketch), sketch.copy()
    assert fingerprint(copied) == before
    copied.update(ROWS[50:])
    assert fingerprint(sketch) == before
    frozen = fingerprint(copied)
    sketch.update(ROWS[50:])
    sketch.merge(sketch.copy())
    assert fingerprint(copied) == frozen


@every_kind
def test_a_restored_sketch_goes_on_as_if_never_stopped(make, fingerprint):
    sketch = make()
    sketch.update(ROWS[:50])
    again = type(sketch).from_state(sketch.state())
    for each in (sketch, again):
        each.update(ROWS[50:])
        each.merge(make())
    assert fingerprint(again) == fingerprint(sketch)


@every_kind
def test_a_state_does_not_change_afterwards(make, fingerprint):
    sketch = make()
    sketch.update(ROWS[:50])
    state = sketch.state()
    before = fingerprint(state)
    sketch.update(ROWS[50:])
    sketch.merge(sketch.copy())
    assert fingerprint(state) == before


@every_kind
def test_preparing_changes_nothing_and_absorbing_is_the_rest_of_an_update(make, fingerprint):
    left, right = make(), make()
    for part in batches([40]):
        before = fingerprint(left)
        prepared = left.prepare(part)
        assert fingerprint(left) == before
        left.absorb(prepared)
        right.update(part)
    assert fingerprint(left) == fingerprint(right)


@every_kind
def test_bytes_do_not_grow(make):
    sketch = make()
    before = sketch.nbytes
    for part in batches([1, 2, 50]):
        sketch.update(part)
        assert sketch.nbytes == before
    sketch.merge(sketch.copy())
    sketch.directions(2)
    assert sketch.nbytes == before


@every_kind
def test_reading_changes_nothing(make, fingerprint):
    sketch = make()
    sketch.update(ROWS)
    before = fingerprint(sketch)
    sketch.directions(3, extra=2)
    assert (sketch.seen, sketch.width, sketch.certificate >= 0) == (120, WIDTH, True)
    assert fingerprint(sketch) == before


@every_kind
def test_rows_are_not_changed(make):
    rows = ROWS.copy()
    make().update(rows)
    assert np.array_equal(rows, ROWS)


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
        (Fixed(np.eye(4)), Gram(4), "Fixed and Gram"),
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
