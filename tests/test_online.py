import logging

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streambits as sb
from streambits import Codes, _arrays
from streambits.errors import InputError
from streambits.online import OnlineEncoder


class Twice:
    """A source that can be read again."""

    def __init__(self, *batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def everything(flow):
    results = list(flow)
    return np.concatenate([r.ids for r in results]), Codes.concat([r.codes for r in results])


@given(st.lists(st.integers(0, 1700), max_size=12).map(sorted), st.sampled_from([300, 500, 2000]))
def test_online_codes_are_the_same_for_any_batches(rows, train, fingerprint, cuts, refresh):
    whole, parted = sb.ssbc(train, 8), sb.ssbc(train, 8)
    batches = [part for part in np.split(rows[:1700], cuts) if len(part)]
    ids, codes = everything(sb.encode_online(parted, batches, refresh=refresh))
    assert codes == everything(sb.encode_online(whole, [rows[:1700]], refresh=refresh))[1]
    assert np.array_equal(ids, np.arange(1700))
    assert fingerprint(parted) == fingerprint(whole)


def test_a_row_is_encoded_by_the_coder_of_the_stretches_before_it(rows, train):
    _, codes = everything(sb.encode_online(sb.ssbc(train, 8), [rows[:1200]], refresh=500))
    learner, expected = sb.ssbc(train, 8), []
    for start in (0, 500, 1000):
        stretch = rows[start : min(start + 500, 1200)]
        expected.append(learner.coder().encode(stretch))
        learner.learn(stretch)
    assert codes == Codes.concat(expected)


def test_online_codes_are_final_before_the_next_batch_is_read(rows, train):
    read = []

    def source():
        for part in np.split(rows[:1500], [400, 900]):
            read.append(len(part))
            yield part

    flow = sb.encode_online(sb.ssbc(train, 8), source())
    first = next(flow)
    assert read == [400]
    assert first.codes == next(sb.encode_online(sb.ssbc(train, 8), [rows[:400]])).codes
    before = first.codes.packed.copy()
    assert len(list(flow)) == 2
    assert np.array_equal(first.codes.packed, before)


def test_ids_travel_with_their_codes(rows, train):
    stream = [(np.array([9, 4]), rows[:2]), ([7], rows[2:3])]
    for flow in (sb.encode_online, sb.encode_stream):
        found = list(flow(sb.ssbc(train, 8), stream))
        assert [coded.ids.tolist() for coded in found] == [[9, 4], [7]]
        assert [len(coded.codes) for coded in found] == [2, 1]


def test_refreshes_are_told_with_the_old_and_the_new_coder(rows, train):
    told, learner = [], sb.ssbc(train, 8)
    first = learner.coder()
    flow = sb.encode_online(
        learner,
        [rows[:999], rows[999:2200]],
        refresh=500,
        on_refresh=lambda *pair: told.append(pair),
    )
    list(flow)
    assert len(told) == 4
    assert told[0][0] is first
    assert all(told[i][1] is told[i + 1][0] for i in range(3))


def test_online_goes_on_where_a_learner_was_saved(rows, train, tmp_path):
    never = sb.ssbc(train, 8)
    _, expected = everything(sb.encode_online(never, [rows[:3000]]))
    stopped = sb.ssbc(train, 8)
    _, start = everything(sb.encode_online(stopped, [rows[:1000]]))
    sb.save(stopped, tmp_path / "model")
    _, end = everything(sb.encode_online(sb.load(tmp_path / "model"), [rows[1000:3000]]))
    assert Codes.concat([start, end]) == expected


@pytest.mark.parametrize("refresh", [0, -5, 2.5, True])
def test_a_bad_refresh_is_refused(rows, train, refresh):
    with pytest.raises(InputError, match="refresh is"):
        list(sb.encode_online(sb.ssbc(train, 8), [rows], refresh=refresh))


@pytest.mark.parametrize("flow", [sb.encode_online, sb.encode_stream])
def test_a_bad_batch_is_refused_and_not_learned(rows, train, fingerprint, flow):
    learner = sb.ssbc(train, 8)
    bad = rows[600:700].copy()
    bad[50, 3] = np.nan
    with pytest.raises(InputError, match=r"rows\[50, 3\] is NaN"):
        list(flow(learner, [rows[:600], bad]))
    assert learner.seen == 600


def test_stream_codes_are_those_of_the_final_coder(rows, train):
    learner = sb.ssbc(train, 8)
    _, codes = everything(sb.encode_stream(learner, [rows[:3000], rows[3000:]]))
    assert learner.seen == 5000
    assert codes == sb.ssbc(train, 8).learn(rows).coder().encode(rows)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_a_source_read_twice_and_one_spooled_give_the_same(rows, train, caplog, tmp_path, dtype):
    parts = np.split((rows * 100).astype(dtype), [1000, 1001])
    given_ = [(np.arange(len(part)) + 7, part) for part in parts]
    with caplog.at_level(logging.INFO, logger="streambits"):
        twice = everything(sb.encode_stream(sb.ssbc(train, 8), Twice(*given_)))
        assert "reads the source twice" in caplog.text
        assert "spools" not in caplog.text
        caplog.clear()
        flow = sb.encode_stream(sb.ssbc(train, 8), (part for part in given_), spool=tmp_path)
        once = everything(flow)
        assert "spools the rows to disk" in caplog.text
        assert "twice" not in caplog.text
    assert once[1] == twice[1]
    assert np.array_equal(once[0], twice[0])
    assert list(tmp_path.iterdir()) == []


def test_a_spool_is_removed_when_the_flow_is_abandoned(rows, train, tmp_path):
    flow = sb.encode_stream(sb.ssbc(train, 8), iter([rows[:10], rows[10:20]]), spool=tmp_path)
    next(flow)
    flow.close()
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_read_before_the_first_code_is_asked_for(rows, train):
    read = []
    sb.encode_stream(sb.ssbc(train, 8), (read.append(1) or rows for _ in range(2)))
    sb.encode_online(sb.ssbc(train, 8), (read.append(1) or rows for _ in range(2)))
    assert read == []


@pytest.mark.parametrize("flow", [sb.encode_online, sb.encode_stream])
def test_batches_without_rows_are_passed_over(rows, train, flow):
    parts = [rows[:0], rows[:600], rows[:0], rows[600:700]]
    _, expected = everything(flow(sb.ssbc(train, 8), [rows[:600], rows[600:700]]))
    assert everything(flow(sb.ssbc(train, 8), parts))[1] == expected


def test_an_empty_stream_gives_no_code(train):
    assert list(sb.encode_online(sb.ssbc(train, 8), [])) == []
    assert list(sb.encode_stream(sb.ssbc(train, 8), [])) == []


@pytest.mark.parametrize("flow", [sb.encode_online, sb.encode_stream])
def test_streams_of_other_libraries_give_the_same_codes(rows, train, flow):
    _, expected = everything(flow(sb.ssbc(train, 8), [rows[:300], rows[300:700]]))
    there = [strict.asarray(rows[:300]), strict.asarray(rows[300:700])]
    assert everything(flow(sb.ssbc(train, 8), there))[1] == expected
    once = iter(there)
    assert everything(flow(sb.ssbc(train, 8), once))[1] == expected


def test_a_coder_is_renewed_sooner_where_the_directions_have_moved():
    """A stream that turns to columns it had left out, long after its beginning."""
    still = np.random.default_rng(0).random((65_536, 8), dtype=np.float32)
    still[:, 4:] *= 0.02
    moved = still.copy()
    moved[40_000:] = moved[40_000:, ::-1]
    usual = [512 * 2**i for i in range(8)]
    for stream, has_moved in ((still, False), (moved, True)):
        learner = sb.ssbc(moved[::400], 16, epochs="never")
        coders, ends, seen = [], [], 0
        online = OnlineEncoder(learner, on_refresh=lambda _, new, coders=coders: coders.append(new))
        for codes in online.encode(stream):
            seen += len(codes)
            ends += [seen] * (len(coders) - len(ends))
        sooner = set(ends) - set(usual)
        assert set(usual) <= {*ends, seen}
        assert bool(sooner) == has_moved
        assert all(end > 40_000 and end % 8192 == 0 for end in sooner)


def test_every_row_is_checked_once(monkeypatch, train, rows):
    """Encoding, learning, the monitor and the samples take what has been checked as it is."""
    learner, coders, looked_at = sb.ssbc(train, 12), sb.CoderSet(), []
    usual = _arrays._check_finite

    def check(array, name):
        looked_at.append(len(array))
        usual(array, name)

    monkeypatch.setattr(_arrays, "_check_finite", check)
    for _ in sb.encode_online(learner, [rows[:700], rows[700:]], coders=coders):
        pass
    assert sum(looked_at) == len(rows)


def test_rows_out_of_reach_of_their_time_are_counted(train, rows):
    online = OnlineEncoder(sb.ssbc(train, 12, epochs="never"))
    list(online.encode(np.concatenate([rows[:300], rows[:20] + 50, rows[300:900]])))
    assert online.out_of_reach == 20
