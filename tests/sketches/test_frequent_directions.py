import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits._arrays import array_namespace
from streambits.errors import InputError, RankError
from streambits.sketches import FrequentDirections, Gram
from streambits.sketches.base import eigh


def low_rank(rng, count):
    return rng.standard_normal((count, 2)) @ rng.standard_normal((2, 12))


def duplicates(rng, count):
    return rng.standard_normal((3, 12))[rng.integers(3, size=count)]


def with_zero_rows(rng, count):
    return rng.standard_normal((count, 12)) * (rng.random((count, 1)) > 0.5)


def decaying(rng, count):
    return rng.standard_normal((count, 12)) * 0.6 ** np.arange(12)


def wild_scales(rng, count):
    return rng.standard_normal((count, 12)) * 10 ** rng.uniform(-6, 6, (count, 1))


STREAMS = [low_rank, duplicates, with_zero_rows, decaying, wild_scales]
streams = st.builds(
    lambda kind, seed, count: kind(np.random.default_rng(seed), count),
    st.sampled_from(STREAMS),
    st.integers(0, 1000),
    st.integers(1, 150),
)


def summed(sketch, rows, step):
    for start in range(0, len(rows), step):
        sketch.update(rows[start : start + step])
    return sketch


def gap(sketch, rows):
    """The eigenvalues of A'A - B'B, smallest first."""
    rows = rows - rows.mean(axis=0) if sketch.centred else rows
    return np.linalg.eigvalsh(rows.T @ rows - sketch.matrix.T @ sketch.matrix)


def slack(rows):
    """What the oracle's own rounding may add."""
    return 1e-14 * np.square(rows).sum() + 1e-300


@given(streams, st.integers(2, 14), st.integers(1, 14), st.booleans(), st.integers(1, 40))
def test_the_difference_is_positive_and_below_the_certificate(rows, size, spare, centred, step):
    sketch = summed(FrequentDirections(12, size, spare, centred=centred), rows, step)
    smallest, largest = gap(sketch, rows)[[0, -1]]
    assert smallest >= -sketch.certificate * 1e-9 - slack(rows)
    assert largest <= sketch.certificate + slack(rows)


@pytest.mark.parametrize("spare", [1, 5, None])
@pytest.mark.parametrize("size", [13, 14, 10**12])
def test_more_rows_than_columns_lose_nothing_and_take_no_more_memory(size, spare):
    rows = decaying(np.random.default_rng(0), 300)
    sketch, enough = FrequentDirections(12, size, spare), FrequentDirections(12, 13, spare)
    assert sketch.nbytes == enough.nbytes
    summed(sketch, rows, 11)
    assert sketch.certificate <= 1e-9 * np.square(rows).sum()
    assert abs(gap(sketch, rows)).max() <= 1e-9 * np.square(rows).sum()
    again = FrequentDirections.from_state(sketch.state())
    assert (again.size, again.capacity, again.nbytes) == (size, 12, sketch.nbytes)
    again.merge(summed(sketch.fresh(), rows, 7))
    assert abs(gap(again, np.concatenate([rows, rows]))).max() <= 1e-9 * np.square(rows).sum()


@pytest.mark.parametrize("count", [5, 200])
def test_more_directions_than_the_rank_are_an_error_that_names_it(count):
    sketch = FrequentDirections(12, 6)
    sketch.update(low_rank(np.random.default_rng(0), 200)[:count])
    with pytest.raises(RankError, match="have 2: ask for at most 2 bits"):
        sketch.directions(3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0, 4), "width is 0"),
        ((4, 1), "size is 1; it must be at least 2"),
        ((4, 4, 0), "spare is 0"),
        ((4, True), "size is True"),
        ((4, 4.0), "size is 4.0"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        FrequentDirections(*settings)


def test_the_certificate_allows_for_rounding_where_nothing_was_subtracted():
    """Against sums of products in higher precision than the sketch has."""
    rng = np.random.default_rng(0)
    rows = low_rank(rng, 400) * 10 ** rng.uniform(-3, 3, (400, 1))
    sketch = summed(FrequentDirections(12, 5, centred=False), rows, 11)
    true, found = (part.astype(np.longdouble) for part in (rows, sketch.matrix))
    error = np.linalg.norm((true.T @ true - found.T @ found).astype(float), 2)
    assert sketch.state()["shrinkage"] < error <= sketch.certificate < 1e-9 * np.square(rows).sum()


@pytest.mark.parametrize("kind", [FrequentDirections, Gram])
def test_a_sample_may_stand_for_more_rows_than_it_has(kind):
    rows = decaying(np.random.default_rng(0), 50) + 1
    sketch = kind(12, 20) if kind is FrequentDirections else kind(12)
    sketch.update(rows)
    before, (vectors, energies) = sketch.matrix.copy(), sketch.directions(4)
    sketch.stand_for(1000, 500.0)
    assert (sketch.seen, sketch.weight) == (1000, 500.0)
    after = sketch.directions(4)
    assert np.allclose(after.energies, energies, rtol=1e-12)
    assert np.allclose(after.vectors, vectors)
    factor = np.linalg.norm(sketch.matrix) / np.linalg.norm(before)
    assert factor == pytest.approx(10 if kind is Gram else 10**0.5)


def test_a_matrix_that_does_not_converge_keeps_all_but_what_rounding_hides(monkeypatch):
    linalg = array_namespace(np.zeros(1)).linalg
    solve, matrices = linalg.eigh, []

    def fails_once(matrix):
        matrices.append(matrix)
        if len(matrices) == 1:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        return solve(matrix)

    monkeypatch.setattr(linalg, "eigh", fails_once)
    matrix = np.diag([3.0, 1e-10, 2e-23])
    matrix[0, 1] = matrix[1, 0] = 1e-30
    energies, vectors = eigh(matrix)
    assert energies.tolist() == [2e-23, 1e-10, 3.0]
    assert np.array_equal(abs(vectors), np.eye(3)[::-1])
    assert matrices[1][0, 1] == 0
