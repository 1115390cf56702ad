import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import streambits as sb
from streambits.errors import InputError

RNG = np.random.default_rng(0)
CENTRES = RNG.uniform(-2, 2, (30, 12))
ROWS = (CENTRES[RNG.integers(30, size=2500)] + RNG.standard_normal((2500, 12))).astype(np.float32)
QUERIES, BASE = ROWS[:100], ROWS[100:]


@pytest.fixture(scope="module")
def learner():
    return sb.ssbc(BASE[:200], 32).learn(BASE)


@pytest.fixture(scope="module")
def found(learner):
    return sb.evaluate(learner, BASE, queries=QUERIES, lengths=(16, 32, 48, 512), bytes=())


def by_definition(coder, rows, k, candidates):
    """Recall of the k nearest after re-ranking, by sorting everything."""
    true = np.argsort(cdist(QUERIES, rows), axis=1)[:, :k]
    hamming = coder.encode(QUERIES).hamming(coder.encode(rows))
    first = np.argsort(hamming, axis=1, kind="stable")[:, :candidates]
    return np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(true, first, strict=True)])


@pytest.mark.parametrize("candidates", [10, 20, 50, 100, 200])
def test_recall_is_that_of_a_search(learner, found, candidates):
    order = np.random.default_rng(0).permutation(len(BASE))  # the order in which ties are broken
    expected = by_definition(learner.coder(), BASE[order], 10, candidates)
    assert found.model.recall[candidates] == pytest.approx(expected)


def test_map_is_that_of_the_ten_nearest(learner, found):
    coder = learner.coder()
    true = np.argsort(cdist(QUERIES, BASE), axis=1)[:, :10]
    hamming = coder.encode(QUERIES).hamming(coder.encode(BASE)).astype(np.float64)
    hamming += 1e-3 * np.random.default_rng(1).random(hamming.shape)  # ties in random order
    ranks = np.argsort(np.argsort(hamming, axis=1), axis=1)
    places = np.sort(np.take_along_axis(ranks, true, axis=1), axis=1) + 1
    expected = (np.arange(1, 11) / places).mean()
    assert found.model.map == pytest.approx(expected, abs=0.02)


def test_other_lengths_are_learned_by_the_same_method(learner, found):
    assert [one.bits for one in found.lengths] == [16, 32, 48, 512]
    assert found.lengths[1] is found.model
    order = np.random.default_rng(0).permutation(len(BASE))
    coder = sb.ssbc(BASE[:200], 48).learn(BASE[order]).coder()
    expected = by_definition(coder, BASE[order], 10, 100)
    assert found.lengths[2].recall[100] == pytest.approx(expected, abs=1e-9)
    assert found.lengths[0].recall[100] < expected


def test_a_length_that_is_impossible_says_why(found):
    last = found.lengths[-1]
    assert last.recall == {}
    assert math.isnan(last.map)
    assert "512" in last.reason
    assert "200" in last.reason


def test_bits_are_described(learner, found):
    bits = learner.coder().encode(BASE).unpack()
    np.testing.assert_allclose(found.balance, bits.mean(axis=0))
    assert found.correlation.shape == (32, 32)
    assert found.use.imbalance == pytest.approx(np.abs(2 * bits.mean(axis=0) - 1).mean())


def test_queries_are_held_out_and_rows_drawn(learner):
    got = sb.evaluate(learner, ROWS, queries=50, sample=1000, lengths=())
    assert (got.queries, got.rows, got.columns) == (50, 950, 12)
    assert got.lengths == ()
    again = sb.evaluate(learner, ROWS, queries=50, sample=1000, lengths=())
    assert again.model == got.model
    few = sb.evaluate(learner, ROWS[:60], lengths=())
    assert (few.queries, few.rows) == (12, 48)
    assert few.candidates == (10, 20, 48)
    assert few.model.recall[48] == 1


def test_coders_are_measured_at_their_own_length_only(learner):
    got = sb.evaluate(learner.coder(), BASE, queries=QUERIES, lengths=(16,))
    assert "evaluate the learner" in got.lengths[0].reason
    coders = sb.CoderSet()
    coders.record(learner.coder(), BASE, learner.coder().encode(BASE))
    assert sb.evaluate(coders, BASE, queries=QUERIES, lengths=()).model == got.model


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rows": BASE[:10]}, "10 rows, 2 of them held out as queries, and k is 10"),
        ({"rows": BASE[:9], "queries": QUERIES}, "9 rows, and k is 10"),
        ({"rows": BASE[:, :5]}, "5 columns"),
        ({"queries": QUERIES[:, :5]}, "queries.*5 columns"),
        ({"rows": BASE * np.nan}, "NaN"),
        ({"k": 0}, "k is 0"),
        ({"queries": 0}, "queries is 0"),
        ({"lengths": (0,)}, "bits is 0"),
        ({"bytes": (1,)}, "bytes is 1"),
        ({"target": 1.5}, "target is 1.5"),
        ({"model": "model.safetensors"}, "model is a str"),
        ({"model": sb.HammingIndex(8)}, "model is a HammingIndex"),
    ],
)
def test_bad_input_is_refused(learner, change, complaint):
    asked = {"model": learner, "rows": BASE, "lengths": ()} | change
    with pytest.raises(InputError, match=complaint):
        sb.evaluate(asked.pop("model"), asked.pop("rows"), **asked)


def refined_by_definition(coder, rows, candidates=300):
    """Recall of the first ten, by Hamming distance and then by decoded distance."""
    codes = coder.encode(rows)
    far = cdist(QUERIES, coder.decode(codes))
    true = np.argsort(cdist(QUERIES, rows), axis=1)[:, :10]
    if coder.bits:
        hamming = coder.encode(QUERIES).hamming(codes)
        order = np.argsort(hamming, axis=1, kind="stable")[:, candidates:]
        np.put_along_axis(far, order, np.inf, axis=1)
    first = np.argsort(far, axis=1)[:, :10]
    return np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(true, first, strict=True)])


@pytest.fixture(scope="module")
def refined():
    return sb.ssbc(BASE[:200], 32, refine=4, certified=True).learn(BASE)


@pytest.fixture(scope="module")
def sized(refined):
    return sb.evaluate(refined, BASE, queries=QUERIES, lengths=(16, 64), bytes=(4, 500 // 2))


def shuffled():
    return BASE[np.random.default_rng(0).permutation(len(BASE))]


def test_a_refined_model_is_searched_by_its_refinement(refined, sized):
    coder, rows = refined.coder(), shuffled()
    assert (sized.itself.kind, sized.itself.label) == ("refined", "32 bits + 5 bytes")
    assert sized.itself.n_bytes == 9
    assert sized.itself.recall == pytest.approx(refined_by_definition(coder, rows))
    assert sized.model.recall[10] == pytest.approx(by_definition(coder, rows, 10, 10))
    assert sized.itself.recall > sized.model.recall[10]


def test_other_sizes_are_learned_from_the_same_rows(refined, sized):
    rows = shuffled()
    found = {(one.kind, one.label): one for one in sized.sizes}
    assert sized.itself in found.values()
    for key, learner in {
        ("refined", "16 bits + 2 bytes"): sb.ssbc(BASE[:200], 16, refine=2, epochs="never"),
        ("product", "9 bytes"): sb.methods.product(rows[:500], refine=9, epochs="never"),
        ("product", "4 bytes"): sb.methods.product(rows[:500], refine=4, epochs="never"),
    }.items():
        expected = refined_by_definition(learner.learn(rows).coder(), rows)
        assert found[key].recall == pytest.approx(expected, abs=1e-9), key
    for length in sized.lengths:
        assert found["plain", f"{length.bits} bits"].recall == length.recall[10]


def test_a_size_that_is_impossible_says_why(sized):
    reasons = [one.reason for one in sized.sizes if one.n_bytes == 250 and one.kind == "refined"]
    assert len(reasons) == 1
    assert "1000" in reasons[0]


def test_product_codes_are_ranked_by_what_they_decode_to():
    learner = sb.methods.product(BASE[:500], refine=4, epochs="never").learn(BASE)
    found = sb.evaluate(learner, BASE, queries=QUERIES, lengths=(8, 16), bytes=(4,))
    coder, rows = learner.coder(), shuffled()
    assert found.itself.recall == pytest.approx(refined_by_definition(coder, rows))
    assert found.model.recall[10] == found.itself.recall
    far = cdist(QUERIES, coder.decode(coder.encode(rows)))
    ranks = np.argsort(np.argsort(far, axis=1), axis=1)
    true = np.argsort(cdist(QUERIES, rows), axis=1)[:, :10]
    places = np.sort(np.take_along_axis(ranks, true, axis=1), axis=1) + 1
    assert found.model.map == pytest.approx((np.arange(1, 11) / places).mean())
    assert [one.bits for one in found.lengths] == [0, 8, 16]
    assert found.lengths[1].recall
    assert "12 features" in found.lengths[2].reason
    assert found.advice.startswith("Product codes of 4 bytes reach")
    assert math.isnan(found.use.imbalance)


def test_a_plain_model_is_compared_at_its_own_bytes(learner):
    found = sb.evaluate(learner, BASE, queries=QUERIES, lengths=(32,), bytes=(2,))
    assert (found.itself.kind, found.itself.recall) == ("plain", found.model.recall[10])
    own = {(one.kind, one.bits, one.refine) for one in found.sizes if one.n_bytes == 4}
    assert own == {
        ("plain", 32, 0), ("refined", 8, 3), ("refined", 16, 2), ("refined", 24, 1),
        ("product", 0, 4),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore::streambits.errors.ReachWarning")
@pytest.mark.parametrize(("bandwidth", "advice"), [(0.01, "larger"), (1e5, "smaller"), (None, "")])
def test_a_bandwidth_that_does_not_suit_the_rows_is_told(bandwidth, advice):
    learner = sb.ssbc(BASE[:200], 8, bandwidth=bandwidth).learn(BASE)
    found = sb.evaluate(learner, BASE, lengths=())
    linear = sb.Settings(8, "linear").learner([BASE]).learn(BASE)
    assert ("learn with a" in found.advice) == bool(advice)
    assert f"learn with a {advice}" in found.advice or not advice
    assert found.as_dict()["affinities"]["bandwidth"] == learner.features.bandwidth
    assert sb.evaluate(linear, BASE, lengths=()).affinities is None
