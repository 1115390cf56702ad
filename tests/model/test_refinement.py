"""What sign bits leave over, as bytes, and codes that decode."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streambits as sb
from streambits.errors import EpochError, InputError, MergeError
from streambits.model.refinement import Refinement


def cloud(count=4000, columns=10, seed=0):
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    return (rng.standard_normal((count, columns)) * 0.8 ** np.arange(columns) @ turn + 3).astype(
        np.float32
    )


ROWS = cloud()
LEARNER = sb.ssbc(ROWS[:200], bits=20, refine=4, certified=True, epochs="never").learn(ROWS)
CODER = LEARNER.coder()
CODES = CODER.encode(ROWS)


def errors(coder, rows):
    return np.linalg.norm(coder.decode(coder.encode(rows)) - rows.astype(np.float64), axis=1)


def test_codes_have_bits_bytes_and_a_bound():
    assert (CODES.bits, CODES.refine, CODER.refine) == (20, 5, 5)
    assert repr(CODES) == "Codes(4000 x 20 bits + 5 bytes, epoch 0)"
    assert CODES.refinement.shape == (4000, 5)


def test_decoding_is_the_sum_that_the_definition_says():
    """An oracle by loops over bits and bytes."""
    refinement, quantiser = CODER.refinement, CODER.refinement.quantiser
    decoded = CODER.decode(CODES[:20])
    for row in range(20):
        expected = refinement.offset + quantiser.mean
        bits = CODES[row].unpack()[0]
        for half in range(len(refinement.tables)):
            four = bits[4 * half : 4 * half + 4]
            expected = expected + refinement.tables[half, sum(1 << j for j in np.flatnonzero(four))]
        for group in range(4):
            start, end = quantiser.starts[group : group + 2]
            centre = quantiser.centres[start:end, CODES.refinement[row, group]]
            expected = expected + quantiser.axes[:, start:end] @ centre
        np.testing.assert_allclose(decoded[row], expected, atol=1e-12)


def test_tables_for_kernels_decode_to_the_same_rows():
    decoder, (basis, origin) = CODER.refinement.decoder, CODER.refinement.coordinates
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)
    some = CODES[:50]
    along = np.zeros((50, basis.shape[1]))
    for half in range(len(decoder.signs)):
        along += decoder.signs[half][some.packed[:, half // 2] >> 4 * (half % 2) & 15]
    for group in range(4):
        start, end = decoder.starts[group : group + 2]
        own = decoder.centres[256 * start : 256 * end].reshape(256, end - start)
        along[:, start:end] += own[some.refinement[:, group]]
    np.testing.assert_allclose(origin + along @ basis.T, CODER.decode(some), atol=1e-12)


@given(
    start=st.integers(0, len(ROWS) - 1), size=st.integers(1, 40), columns=st.sampled_from([10, 3])
)
def test_any_batch_gives_the_same_bytes(start, size, columns):
    coder, rows = (CODER, ROWS) if columns == 10 else SMALL
    whole = CODES if columns == 10 else SMALL_CODES
    assert coder.encode(rows[start : start + size]) == whole[start : start + size]


INTEGERS = np.random.default_rng(1).integers(0, 4, (4000, 3)).astype(np.float32)
SMALL = (
    sb.methods.product(INTEGERS[:200], refine=1, certified=True).learn(INTEGERS[::2]).coder(),
    (INTEGERS + np.roll(INTEGERS, 7, axis=0)) / 2,  # many of them between two centres
)
SMALL_CODES = SMALL[0].encode(SMALL[1])


@pytest.mark.parametrize(
    "rows", [ROWS, cloud(seed=5) * 3 + 10, ROWS[:1]], ids=["own", "far", "one"]
)
def test_the_last_byte_bounds_the_error(rows):
    codes = CODER.encode(rows, warn=False)
    bounds = CODER.refinement.bounds(codes.refinement)
    true = np.linalg.norm(CODER.decode(codes) - rows.astype(np.float64), axis=1)
    assert (bounds >= true).all()
    if rows is ROWS:
        assert (bounds <= 1.1 * true + 0.01 * true.max()).all()


def test_inside_an_epoch_old_codes_decode_by_every_later_coder():
    learner = sb.ssbc(ROWS[:200], bits=20, refine=4, epochs="never").learn(ROWS[:1000])
    first = learner.coder()
    codes = first.encode(ROWS)
    later = learner.learn(ROWS[1000:]).coder()
    assert later is not first
    np.testing.assert_array_equal(later.decode(codes), first.decode(codes))


def test_merged_and_resumed_learners_have_refinements(tmp_path):
    shards = [sb.ssbc(ROWS[:200], bits=20, refine=4) for _ in range(2)]
    for shard, part in zip(shards, (ROWS[:2000], ROWS[2000:]), strict=True):
        shard.learn(part)
    merged = shards[0].merge(shards[1]).coder()
    assert errors(merged, ROWS).mean() < 1.1 * errors(CODER, ROWS).mean()
    half = sb.ssbc(ROWS[:200], bits=20, refine=4).learn(ROWS[:2000])
    half.coder()
    sb.save(half, tmp_path / "half")
    resumed = sb.load(tmp_path / "half").learn(ROWS[2000:])
    assert resumed.coder().encode(ROWS) == half.learn(ROWS[2000:]).coder().encode(ROWS)
    sb.save(resumed.coder(), tmp_path / "coder")
    assert sb.load(tmp_path / "coder").encode(ROWS) == half.coder().encode(ROWS)
    with pytest.raises(MergeError, match="refine"):
        shards[0].merge(sb.ssbc(ROWS[:200], bits=20, refine=5))


def test_a_reference_stands_in_for_a_sample_that_is_not_there_yet():
    early = sb.ssbc(ROWS[:200], bits=20, refine=4, reference=ROWS).coder()
    alone = sb.ssbc(ROWS[:200], bits=20, refine=4).coder()
    assert errors(early, ROWS).mean() < 0.9 * errors(alone, ROWS).mean()


def test_a_refinement_of_few_rows_is_outgrown_and_replaced_online():
    learner, coders = sb.ssbc(ROWS[:200], bits=20, refine=4), sb.CoderSet()
    assert not learner.has_outgrown
    codes = [batch.codes for batch in sb.encode_online(learner, [cloud(9000)], coders=coders)]
    assert [(part.epoch, len(part)) for part in codes] == [(0, 1024), (1, 7168), (2, 808)]
    never = sb.ssbc(ROWS[:200], bits=20, refine=4, epochs="never")
    assert {batch.codes.epoch for batch in sb.encode_online(never, [cloud(9000)])} == {0}


def test_product_codes_have_no_sign_bits():
    learner = sb.methods.product(ROWS[:200], refine=6).learn(ROWS)
    codes = learner.coder().encode(ROWS)
    assert (codes.bits, codes.refine, codes.packed.shape) == (0, 6, (4000, 0))
    assert errors(learner.coder(), ROWS).mean() < 0.2 * np.linalg.norm(ROWS.std(axis=0))
    assert sb.Codes.concat([codes[:5], codes[5:]]) == codes
    moved = sb.methods.product(ROWS[:200]).learn(ROWS).learn(ROWS * 0.2 + 30)
    assert moved.epoch


@pytest.mark.parametrize(
    ("wrong", "kind", "complaint"),
    [
        (lambda: sb.ssbc(ROWS[:20], 8, refine=3).coder(), InputError, "20 rows supports at most 2"),
        (lambda: sb.ssbc(ROWS[:20], 8, refine=300), InputError, "refine is 300"),
        (lambda: sb.ssbc(ROWS[:20], 8, refine=-1), InputError, "refine is -1"),
        (lambda: sb.ssbc(ROWS[:20], 0), InputError, "bits is 0"),
        (lambda: sb.ssbc(ROWS[:20], 8, certified=True), InputError, "set refine too"),
        (lambda: sb.ssbc(ROWS[:20], 8, refine=2, paper=True), InputError, "paper"),
        (lambda: sb.methods.product(ROWS[:20], 8), InputError, "no sign bits"),
        (lambda: sb.methods.product(ROWS[:20], refine=0), InputError, "refine is 0"),
        (lambda: sb.ssbc(ROWS[:20], 8).coder().decode(CODES), InputError, "refine=8"),
        (lambda: sb.ssbc(ROWS[:20], 8).coder().queries(ROWS), InputError, "refine=8"),
        (lambda: PLAIN.decode(CODES), InputError, "have 20 bits, and this coder makes 8"),
        (lambda: PLAIN.decode(PLAIN.encode(ROWS[:2])[:1]), None, ""),
        (lambda: CODER.decode(sb.Codes(CODES.packed, 20)), InputError, "0 bytes of refinement"),
        (
            lambda: CODER.decode(sb.Codes(CODES.packed, 20, 1, CODES.refinement)),
            EpochError,
            "epoch 1",
        ),
        (lambda: sb.Codes.concat([CODES, sb.Codes(CODES.packed, 20)]), InputError, "do not mix"),
        (lambda: sb.Codes(CODES.packed, 20, 0, CODES.refinement[:5]), InputError, r"\(4000, r\)"),
        (lambda: sb.Codes(CODES.packed, 20, 0, CODES.packed * 1.0), InputError, "float64"),
    ],
)
def test_bad_input(wrong, kind, complaint):
    if kind is None:
        assert len(wrong()) == 1
        return
    with pytest.raises(kind, match=complaint):
        wrong()


PLAIN = sb.ssbc(ROWS[:100], 8, refine=2).coder()


FAR_ROWS = np.concatenate(
    [ROWS[:600], 8 * ROWS[600:700] - 21, np.roll(ROWS, 1, axis=1)[700:900] * 3]
)
FAR_CODERS = {
    bits: sb.Learner(
        sb.features.Linear.around(ROWS),
        sb.sketches.Gram(10),
        bits=bits,
        refine=6,
        certified=True,
        sample=3000,
    )
    .learn(ROWS)
    .coder()
    for bits in (0, 8)
}


@pytest.mark.parametrize("bits", FAR_CODERS)
def test_rows_beyond_the_centres_are_encoded_at_their_own_scale(bits):
    coder = FAR_CODERS[bits]
    codes = coder.encode(FAR_ROWS)
    far = coder.refinement.is_far(codes.refinement)
    assert not far[:600].any()
    assert far[600:].mean() > 0.9
    spread = np.linalg.norm(FAR_ROWS - ROWS.mean(axis=0), axis=1)
    found = errors(coder, FAR_ROWS)
    assert np.median((found / spread)[600:700]) < 0.15
    assert (found < spread)[far].all()
    assert (found <= coder.refinement.bounds(codes.refinement)).all()
    without = replace(coder.refinement, far=None)
    plain = sb.Coder(coder.features, coder.projection, 0, without)
    assert (found <= errors(plain, FAR_ROWS) + 1e-9).all()
    for start in (0, 595, 698, 890):  # a row has the same bytes in any batch
        assert coder.encode(FAR_ROWS[start : start + 7]) == codes[start : start + 7]


@pytest.mark.parametrize("bits", FAR_CODERS)
@pytest.mark.parametrize("metric", ["euclidean", "inner", "cosine"])
def test_a_search_ranks_rows_beyond_the_centres_by_what_they_decode_to(bits, metric):
    coder, asked = FAR_CODERS[bits], (FAR_ROWS[::45] + np.float32(0.1)).astype(np.float64)
    index = sb.HammingIndex(bits)
    index.add(coder.encode(FAR_ROWS))

    def nearest(rows):
        products = asked @ rows.T
        lengths = np.linalg.norm(asked, axis=1)[:, None] * np.linalg.norm(rows, axis=1)
        far = {
            "euclidean": np.linalg.norm(asked[:, None] - rows, axis=2),
            "inner": -products,
            "cosine": 1 - products / lengths,
        }[metric]
        return np.sort(far, axis=1)[:, :5]

    hits = index.search(coder.queries(asked), 5, candidates="all", metric=metric)
    expected = nearest(coder.decode(coder.encode(FAR_ROWS)))
    np.testing.assert_allclose(hits.distances, expected, rtol=1e-9, atol=1e-9)
    exact = index.search(coder.queries(asked), 5, metric=metric, exact=FAR_ROWS)
    np.testing.assert_allclose(
        exact.distances, nearest(FAR_ROWS.astype(np.float64)), rtol=1e-9, atol=1e-9
    )


def test_the_one_length_of_rows_is_noticed_and_kept(tmp_path):
    """Whatever it is, and whether some rows are zeros; but not one that hides what rows are."""
    centred = ROWS - ROWS.mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    blank = unit.copy()
    blank[::50] = 0

    def length_of(rows):
        coder = sb.ssbc(rows[:200], bits=8, refine=4, certified=True).learn(rows).coder()
        sb.save(coder, tmp_path / "coder")
        assert sb.load(tmp_path / "coder").refinement.length == coder.refinement.length
        return coder.refinement.length

    assert length_of(unit) == pytest.approx(1)
    assert length_of(512 * blank) == pytest.approx(512)
    assert length_of(unit * np.linspace(0.9, 1.1, len(unit), dtype=np.float32)[:, None]) == 0
    assert length_of(ROWS) == 0
    assert length_of(0.001 * centred + 100) == 0  # lengths differ by 1 in 10,000: all there is


def test_a_state_whose_arrays_do_not_fit_is_refused():
    state = FAR_CODERS[8].refinement.state()
    far = state["far"]
    wrong = [({name: state[name][:-1]}, name) for name in ("tables", "offset", "radii")]
    for change, complaint in (
        ({"centre": np.zeros(3)}, "columns"),
        ({"widths": np.array([60])}, "arrays of"),
        ({"unit": 0.0}, "unit 0.0"),
        ({"reach": -far["reach"]}, "unit"),
        ({"widths": far["widths"] + 9}, "bits in 6 bytes"),
    ):
        wrong.append(({"far": far | change}, complaint))
    for change, complaint in wrong:
        with pytest.raises(ValueError, match=complaint):
            Refinement.from_state(state | change)
