import threading

import numpy as np
import pytest

import streambits as sb
from forks import in_child
from streambits.errors import EpochError, InputError, ReachWarning, StorageError
from streambits.model.coder import Coder

pytestmark = pytest.mark.filterwarnings("ignore::streambits.errors.ReachWarning")


@pytest.fixture(scope="module")
def streamed():
    """A stream in four epochs: learner, coders, index, rows."""
    rng = np.random.default_rng(0)
    rows = rng.random((4000, 6), dtype=np.float32) + np.arange(4).repeat(1000)[:, None]
    rows = rows.astype(np.float32)
    learner = sb.ssbc(rows[:100], bits=32, epochs=1024, seed=0)
    coders, index = sb.CoderSet(), sb.HammingIndex(32)
    stream = ((np.arange(i, i + 500), rows[i : i + 500]) for i in range(0, 4000, 500))
    for ids, codes in sb.encode_online(learner, stream, coders=coders):
        index.add(codes, ids)
    return learner, coders, index, rows


def test_online_codes_carry_their_epochs_and_all_ids_once(streamed):
    _, coders, index, _ = streamed
    assert list(index) == list(range(4000))
    assert index.epochs == tuple(coders) == (0, 1, 2, 3)
    assert len(coders) == 4
    assert coders.newest is coders[3]
    assert repr(coders) == "CoderSet(epochs 0, 1, 2, 3)"


def test_batches_of_any_size_give_the_same_codes_and_coders(streamed):
    _, coders, index, rows = streamed
    learner, again = sb.ssbc(rows[:100], bits=32, epochs=1024, seed=0), sb.CoderSet()
    found = sb.HammingIndex(32)
    for ids, codes in sb.encode_online(learner, [(np.arange(4000), rows)], coders=again):
        found.add(codes, ids)
    for (ids, codes), (other, codes_again) in zip(index.items(), found.items(), strict=True):
        assert np.array_equal(ids, other)
        assert codes == codes_again
    query = rows[::400] + np.float32(0.01)
    ours, theirs = coders.search(index, query, 10), again.search(found, query, 10)
    assert np.array_equal(ours.ids, theirs.ids)
    assert np.array_equal(ours.distances, theirs.distances)


def test_hits_of_all_epochs_are_on_one_scale():
    """Clouds one after the other, each coded by the coder that learned it."""
    rng = np.random.default_rng(0)
    rows = rng.random((4000, 6), dtype=np.float32)
    rows += 0.3 * np.arange(4, dtype=np.float32).repeat(1000)[:, None]
    learner, coders, index = sb.ssbc(rows[:100], bits=32), sb.CoderSet(), sb.HammingIndex(32)
    for part in np.split(rows, 4):
        learner.learn(part).renew()
        codes = learner.coder().encode(part)
        coders.record(learner.coder(), part, codes)
        index.add(codes)
    queries = rows[5::40]
    true = np.linalg.norm(queries[:, None] - rows, axis=2)
    nearest = np.argsort(true, axis=1)[:, :10]

    def recall(hits):
        return np.mean([np.isin(n, f).mean() for n, f in zip(nearest, hits.ids, strict=True)])

    plain = recall(index.search(coders.encode(queries), 100))
    for real in (False, True):
        hits = coders.search(index, queries, 100, real=real)
        assert recall(hits) > 0.8
        assert recall(hits) > plain + 0.02
        assert (np.diff(hits.distances, axis=1) >= 0).all()
        far = np.take_along_axis(true, hits.ids, axis=1)
        assert np.abs(hits.distances - far).mean() < 0.5 * true.std()


def test_scales_rise_and_belong_to_each_query(streamed):
    _, coders, _, rows = streamed
    queries = rows[::500]
    scales = coders.scales(queries, coders.encode(queries))
    for scale in scales.values():
        assert scale.shape == (len(queries), 33)
        assert (np.diff(scale) > 0).all()
    assert scales[0][0, 5] < scales[0][-1, 5]  # the last query is far from the first epoch


def brute_force(coders, index, queries, k):
    """Every code by every query: what it costs, translated by the scale of its epoch."""
    values = coders.project(queries)
    scales = coders.scales(queries, values)
    found = [[] for _ in queries]
    for ids, codes in index.items():
        bits = codes.unpack()
        for q, (row, scale) in enumerate(
            zip(values[codes.epoch], scales[codes.epoch], strict=True)
        ):
            sizes = np.abs(np.asarray(row, np.float64))
            cost = (np.where(bits != (np.asarray(row) > 0), sizes, 0)).sum(axis=1)
            far = np.interp(cost / sizes.sum(), np.linspace(0, 1, len(scale)), scale)
            found[q] += zip(far.tolist(), ids.tolist(), strict=True)
    return [sorted(one)[:k] for one in found]


@pytest.mark.parametrize("allowed", [None, 3])
def test_real_valued_hits_over_epochs_are_those_of_brute_force(streamed, allowed):
    _, coders, index, rows = streamed
    queries, k = rows[7::400], 9
    allow = None if allowed is None else np.arange(0, 4000, allowed)
    among = index
    if allow is not None:
        among = sb.HammingIndex(32)
        for ids, codes in index.items():
            among.add(codes[np.isin(ids, allow)], ids[np.isin(ids, allow)])
    hits = coders.search(index, queries, k, real=True, allow=allow)
    expected = brute_force(coders, among, queries, k)
    far = np.array([[one[0] for one in each] for each in expected])
    assert len(index.epochs) > 2
    assert np.allclose(hits.distances, far, rtol=1e-9)
    assert np.mean(hits.ids == [[one[1] for one in each] for each in expected]) > 0.99  # ties


def test_auto_is_real(streamed):
    _, coders, index, rows = streamed
    one = sb.HammingIndex(32)
    one.add(coders[0].encode(rows[:300]))
    assert coders.search(one, rows[:2], 3).distances.dtype == np.float64
    ours, theirs = (coders.search(index, rows[:9], 3, real=real) for real in (True, "auto"))
    assert np.array_equal(ours.distances, theirs.distances)
    for wrong in ("yes", 1, None):
        with pytest.raises(InputError, match="real is"):
            coders.search(index, rows[:2], 3, real=wrong)


def test_one_epoch_needs_no_scale_and_none_finds_nothing():
    rows = np.random.default_rng(0).random((300, 4), dtype=np.float32)
    coder = sb.ssbc(rows[:50], bits=8).learn(rows).coder()
    coders, index = sb.CoderSet(), sb.HammingIndex(8)
    assert coders.search(index, rows[:2], 3).ids.shape == (2, 0)
    coders.record(coder, rows, coder.encode(rows))
    index.add(coder.encode(rows))
    for real, kind in (("auto", np.float64), (True, np.float64), (False, np.int32)):
        hits = coders.search(index, rows[:2], 3, allow=range(10), real=real)
        assert hits.distances.dtype == kind
        assert hits.ids[:, 0].tolist() == [0, 1]


def test_coders_come_back_from_a_file(streamed, tmp_path):
    _, coders, index, rows = streamed
    sb.save(coders, tmp_path / "coders.safetensors")
    back = sb.load(tmp_path / "coders.safetensors")
    ours, theirs = coders.search(index, rows[:9], 5), back.search(index, rows[:9], 5)
    assert np.array_equal(ours.ids, theirs.ids)
    assert np.array_equal(ours.distances, theirs.distances)
    assert back.nbytes == coders.nbytes
    (tmp_path / "coders.safetensors").write_bytes(b"rubbish")
    with pytest.raises(StorageError, match="truncated"):
        sb.load(tmp_path / "coders.safetensors")


def test_retired_and_unknown_epochs_are_errors(streamed):
    learner, coders, index, rows = streamed
    some = sb.CoderSet.from_state(coders.state())
    some.keep([2, 3])
    assert list(some) == [2, 3]
    with pytest.raises(EpochError, match="no coder of epoch 0, which the index holds"):
        some.search(index, rows[:1], 1)
    with pytest.raises(EpochError, match="no coder of epoch 1: it was retired"):
        some[1]
    with pytest.raises(EpochError, match="no coder of epoch 7"):
        some.keep([7])
    assert list(some) == [2, 3]
    with pytest.raises(EpochError, match="no coders yet"):
        _ = sb.CoderSet().newest
    with pytest.raises(EpochError, match=r"queries are of epoch 9"):
        index.search(coders.encode(rows[:1]) | {9: [[0.0] * 32]}, 1)
    coder = learner.coder()
    with pytest.raises(InputError, match="are not the codes of 2 rows"):
        some.record(coder, rows[:2], coder.encode(rows[:3]))
    with pytest.raises(InputError, match="sample is 1"):
        sb.CoderSet(sample=1)


def test_reencode_brings_every_row_to_the_newest_epoch(streamed, tmp_path):
    learner, _, index, rows = streamed
    sb.save(index, tmp_path / "index")
    index = sb.load(tmp_path / "index")
    learner = type(learner).from_state(learner.state())
    learner.renew()
    coder = learner.coder()
    source = [(np.arange(i, i + 1000), rows[i : i + 1000]) for i in range(0, 4000, 1000)]
    sb.reencode(coder, reversed(source), index)
    assert index.epochs == (coder.epoch,)
    assert index.get(np.arange(4000)) == coder.encode(rows)
    sb.reencode(coder, [], index)  # nothing is left to do


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.arange(3999), "lacks 1 of the index's rows, among them the id 3999"),
        (np.arange(4001), "has the id 4000, which is not in the index"),
        (np.r_[np.arange(4000), 5], "has the id 5 more than once"),
    ],
)
def test_reencode_with_other_rows_is_refused_and_changes_nothing(streamed, ids, message):
    learner, _, index, rows = streamed
    coder = sb.ssbc(rows[:100], bits=32).coder()
    coder = type(coder)(coder.features, coder.projection, epoch=9)
    before = [(i.tolist(), c.epoch, c.packed.tobytes()) for i, c in index.items()]
    with pytest.raises(InputError, match=message):
        sb.reencode(coder, [(ids, rows[ids % 4000])], index)
    assert [(i.tolist(), c.epoch, c.packed.tobytes()) for i, c in index.items()] == before
    assert learner.seen == 4000


def test_wrong_scales_are_refused(streamed):
    _, coders, index, rows = streamed
    codes = coders.encode(rows[:2])
    scales = coders.scales(rows[:2], codes)
    for wrong, message in (
        ({e: s for e, s in scales.items() if e}, "scales has none for epoch 0"),
        (scales | {0: scales[0][:1]}, "epoch 0 must be"),
        (scales | {0: -scales[0]}, "that rise"),
        (scales | {0: scales[0] * np.nan}, "finite"),
    ):
        with pytest.raises((EpochError, InputError), match=message):
            index.search(codes, 3, scales=wrong)
    values = coders.project(rows[:2])
    for wrong in (scales[0][:1], scales[0][:, :1], scales[0][0], -scales[0]):
        with pytest.raises(InputError, match="epoch 0 must be"):
            index.search(values, 3, scales=coders.scales(rows[:2], values) | {0: wrong})


def test_epochs_in_files_are_put_together_in_a_copy(streamed, tmp_path, monkeypatch):
    _, known, index, rows = streamed
    coders, learner = sb.CoderSet(), sb.ssbc(rows[:100], bits=32, epochs=1024, seed=0)
    coders.store_in(tmp_path, sb.load, sb.save)
    for _ in sb.encode_online(learner, [rows], coders=coders):
        pass
    assert sorted(file.name for file in (tmp_path / "epochs").iterdir()) == [
        f"epoch-00000{epoch}.safetensors" for epoch in range(3)
    ]
    assert coders.nbytes < known.nbytes / 3
    sb.save(coders, tmp_path / "coders.safetensors")
    (tmp_path / "elsewhere").mkdir()
    sb.save(sb.load(tmp_path / "coders.safetensors"), tmp_path / "elsewhere" / "whole")
    wanted = known.search(index, rows[::900], 5)
    for path in ("coders.safetensors", "elsewhere/whole"):
        found = sb.load(tmp_path / path).search(index, rows[::900], 5)
        assert np.array_equal(found.ids, wanted.ids)
        assert np.allclose(found.distances, wanted.distances)
    with pytest.raises(EpochError, match="epoch 0 is over"):
        coders.record(coders[0], rows[:5], coders[0].encode(rows[:5]))
    first = coders[0]
    assert coders[0] is first
    monkeypatch.setattr("streambits.epochs.epoch.OPENED", 1)  # no room for two
    assert coders[1] is coders[1]
    assert coders[0] is not first


@pytest.fixture
def two_parts():
    """Rows in two clouds, a learner of them, and its steady coders after each."""
    rng = np.random.default_rng(3)
    rows = rng.random((1200, 4), dtype=np.float32)
    rows[600:] *= 5
    learner = sb.ssbc(rows[::12], bits=16)
    first = learner.learn(rows[:600]).coder()
    return rows, first, learner.learn(rows[600:]).coder()


def test_the_newest_coder_of_an_epoch_encodes_its_queries(two_parts):
    rows, first, second = two_parts
    assert first.encode(rows) != second.encode(rows)
    coders = sb.CoderSet()
    coders.record(first, rows[:600], first.encode(rows[:600]))
    assert coders[0] is coders.newest is first
    coders.record(second, rows[600:], second.encode(rows[600:]))
    assert coders[0] is coders.newest is second
    assert coders.encode(rows) == {0: second.encode(rows)}


def test_rows_noted_later_change_what_distances_mean(two_parts):
    rows, first, second = two_parts
    asked, never = sb.CoderSet(), sb.CoderSet()
    for coders in (asked, never):
        coders.record(first, rows[:600], first.encode(rows[:600]))
        if coders is asked:
            before = coders.scales(rows[:9], coders.encode(rows[:9]))[0]
        coders.record(second, rows[600:], second.encode(rows[600:]))
    after, expected = (c.scales(rows[:9], c.encode(rows[:9]))[0] for c in (asked, never))
    assert np.array_equal(after, expected)
    assert not np.allclose(after, before, rtol=0.01)


@pytest.mark.parametrize("kept", [(1, 3), (2,)])
def test_only_the_epochs_of_the_index_are_asked(streamed, kept):
    _, coders, index, rows = streamed
    less = sb.HammingIndex(32)
    for ids, codes in index.items():
        if codes.epoch in kept:
            less.add(codes, ids)
    few = sb.CoderSet.from_state(coders.state())
    few.keep(kept)
    ours, theirs = coders.search(less, rows[::300], 7), few.search(less, rows[::300], 7)
    assert np.array_equal(ours.ids, theirs.ids)
    assert np.array_equal(ours.distances, theirs.distances)
    assert ours.ids.shape == (14, 7)


def test_an_epoch_of_one_row_is_searched_by_plain_distances(two_parts):
    rows, first, _ = two_parts
    later = type(first)(first.features, first.projection, epoch=1)
    coders, index = sb.CoderSet(), sb.HammingIndex(16)
    for coder, some in ((first, rows[:1]), (later, rows[1:300])):
        coders.record(coder, some, coder.encode(some))
        index.add(coder.encode(some))
    scales = coders.scales(rows[:3], coders.encode(rows[:3]))
    assert np.array_equal(scales[0], np.tile(np.arange(17.0), (3, 1)))
    values = coders.project(rows[:3])
    sums = np.abs(np.asarray(values[0], np.float64)).sum(axis=1)
    assert np.allclose(coders.scales(rows[:3], values)[0][:, -1], sums)
    for real in (False, True):
        hits = coders.search(index, rows[:3], 300, real=real)
        assert sorted(hits.ids[0].tolist()) == list(range(300))


def test_scales_of_many_queries_are_those_of_each(streamed):
    _, coders, _, rows = streamed
    codes = coders.encode(rows)
    scales = coders.scales(rows, codes)
    for some in (slice(0, 20), slice(2040, 2060), slice(3980, 4000)):
        alone = coders.scales(rows[some], {epoch: part[some] for epoch, part in codes.items()})
        for epoch, scale in alone.items():
            assert np.allclose(scales[epoch][some], scale, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_a_thread_opens_an_epoch_can_open_it_too():
    from streambits.epochs.epoch import EpochCache  # noqa: PLC0415

    opened, inside, go_on = EpochCache(), threading.Event(), threading.Event()

    def slow(number):
        inside.set()
        assert go_on.wait(60)
        return Sized(number)

    thread = threading.Thread(target=opened.get, args=(7, slow))
    thread.start()
    assert inside.wait(60)

    def use():
        assert opened.get(3, Sized).number == 3

    ended = in_child(use, seconds=10)
    go_on.set()
    thread.join()
    assert ended == "done"


class Sized:
    """An epoch, as far as the cache knows."""

    nbytes = 1

    def __init__(self, number):
        self.number = number


def test_queries_that_no_epoch_reaches_are_warned_of(streamed):
    """A row that is far from one epoch's landmarks and near another's is nobody's mistake."""
    _, coders, index, rows = streamed
    assert len(index.epochs) > 1
    coders.search(index, rows[::50], 3)
    with pytest.warns(ReachWarning, match="8 of 8 rows asked for are out of reach"):
        coders.search(index, rows[:8] + 1000, 3)


@pytest.fixture(scope="module", params=[0, 32], ids=["no bits", "32 bits"])
def refined(request):
    """Rows in three epochs of certified codes: coders, index, rows."""
    rng = np.random.default_rng(0)
    rows = rng.random((3000, 6)) + np.arange(3).repeat(1000)[:, None]
    coders, index = sb.CoderSet(), sb.HammingIndex(request.param, refine=5)
    for part in np.split(rows, 3):
        options = {"refine": 4, "certified": True, "seed": 0}
        learner = (
            sb.ssbc(part[:100], request.param, **options)
            if request.param
            else sb.methods.product(part[:100], **options)
        )
        made = learner.learn(part).coder()
        coder = Coder(made.features, made.projection, len(coders), made.refinement)
        codes = coder.encode(part)
        coders.record(coder, part, codes)
        index.add(codes)
    return coders, index, rows


@pytest.mark.parametrize("metric", ["euclidean", "inner", "cosine"])
def test_codes_that_decode_are_ranked_by_what_they_decode_to(refined, metric):
    coders, index, rows = refined
    queries = rows[::300] + 0.01
    hits = coders.search(index, queries, 10, candidates="all", metric=metric)
    codes = [index.get(np.arange(1000) + 1000 * epoch) for epoch in coders]
    decoded = np.concatenate(
        [coders[e].decode(some) for e, some in zip(coders, codes, strict=True)]
    )
    for q, query in enumerate(queries):
        far = -decoded @ query
        if metric == "euclidean":
            far = np.linalg.norm(decoded - query, axis=1)
        elif metric == "cosine":
            far = 1 + far / np.linalg.norm(decoded, axis=1) / np.linalg.norm(query)
        assert hits.distances[q] == pytest.approx(np.sort(far)[:10], abs=1e-9)
        assert hits.distances[q] == pytest.approx(far[hits.ids[q]], abs=1e-9)


def test_a_search_over_epochs_of_codes_that_decode_is_proven_by_raw_rows(refined):
    coders, index, rows = refined
    queries = rows[::500] + 0.01
    hits = coders.search(index, queries, 5, exact=rows)
    for q, query in enumerate(queries):
        far = np.linalg.norm(rows - query, axis=1)
        assert hits.ids[q].tolist() == np.lexsort((np.arange(3000), far))[:5].tolist()
    assert hits.reads.shape == (6,)


def test_candidates_come_from_bits_or_real_values_in_every_epoch(refined):
    coders, index, rows = refined
    queries = rows[::500] + 0.01
    for real in (False, True):
        asked = {epoch: coders[epoch].queries(queries, real=real) for epoch in coders}
        ours = coders.search(index, queries, 5, candidates=20, real=real)
        theirs = index.search(asked, 5, candidates=20)
        assert np.array_equal(ours.ids, theirs.ids)
        assert np.array_equal(ours.distances, theirs.distances)
    one = sb.HammingIndex(index.bits, refine=5)
    one.add(index.get(np.arange(1000)))
    found = coders.search(one, queries[:1], 3, candidates="all")
    assert found.distances.dtype == np.float64
    assert found.distances[0, 0] < 1


def test_refined_codes_of_coders_without_a_refinement_are_searched_by_their_bits(streamed):
    _, coders, _, rows = streamed
    codes = coders[0].encode(rows[:500])
    index, plain = sb.HammingIndex(32), sb.HammingIndex(32)
    index.add(sb.Codes(codes.packed, 32, 0, np.zeros((500, 3), np.uint8)))
    plain.add(codes)
    for real, kind in ((False, np.int32), (True, np.float64)):
        ours, theirs = (coders.search(one, rows[:5], 7, real=real) for one in (index, plain))
        assert np.array_equal(ours.ids, theirs.ids)
        assert ours.distances.dtype == kind
    with pytest.raises(InputError, match=r"coder\.queries"):
        coders.search(index, rows[:5], 7, metric="inner")
