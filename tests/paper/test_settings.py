"""The streaming and the online setting (Sections 3.1 and 3.2)."""

import numpy as np
import pytest

import streambits as sb
from paper import datasets
from streambits.evaluation.bits import bits_changed


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).random((3000, 6))


def batches(rows, size):
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def test_online_gives_a_code_before_the_next_point_is_seen(rows):
    """'we are obliged to output binary codeword of current datapoint before seeing next'."""
    read = []

    def stream():
        for i in range(20):
            read.append(i)
            yield rows[i : i + 1]

    for count, (ids, codes) in enumerate(sb.encode_online(sb.ssbc(rows[:50], 8), stream())):
        assert read == list(range(count + 1))
        assert ids.tolist() == [count]
        assert len(codes) == 1


@pytest.mark.parametrize("paper", [True, False])
def test_online_codes_do_not_depend_on_the_future(rows, paper):
    """A code is final: other rows later change nothing."""
    found = []
    for tail in (rows[600:900], 1 - rows[1600:1900]):
        stream = [rows[:600], tail]
        learner = sb.ssbc(rows[:50], 8, paper=paper)
        found.append(next(iter(sb.encode_online(learner, stream, refresh=100))).codes)
    assert found[0] == found[1]


def test_online_uses_the_current_v(rows, literal):
    """'using current iteration's matrix V': with refresh=1, each code is by V of all rows before.

    The point's own affinity vector enters B after its code is given out.
    """
    learner = sb.ssbc(rows[:30], 5, bandwidth=0.5, paper=True)
    (coded,) = sb.encode_online(learner, [rows[100:130]], refresh=1)
    for i, code in enumerate(coded.codes.unpack()):
        printed = literal.ssbc(rows[:30], rows[100 : 100 + i], 5, 1.0, 0.5)
        w = literal.gaussian_affinity(rows[100 + i], rows[:30], 0.5)
        _, _, vt = np.linalg.svd(printed.b, full_matrices=False)
        upward = np.where(vt.max(axis=1) >= -vt.min(axis=1), 1, -1)  # signs are any library's whim
        np.testing.assert_array_equal(code, w @ (upward[:, None] * vt)[:5].T > 0)


@pytest.mark.parametrize("paper", [True, False])
def test_streaming_gives_all_codes_by_the_final_v(rows, paper):
    """'we output all binary codewords at the end of stream', by the final matrix V."""
    learner = sb.ssbc(rows[:50], 8, paper=paper)
    coded = list(sb.encode_stream(learner, batches(rows, 700)))
    other = sb.ssbc(rows[:50], 8, paper=paper).learn(rows)
    assert sb.Codes.concat(c for _, c in coded) == other.coder().encode(rows)
    np.testing.assert_array_equal(np.concatenate([ids for ids, _ in coded]), np.arange(3000))


def test_streaming_from_a_source_that_is_read_once(rows, tmp_path):
    """'one datapoint arrives at a time ... and not read again': raw rows are spooled instead of
    the n x m affinities that the paper stores (paper-notes 8), and the codes are the same.
    """
    twice, once = (
        sb.Codes.concat(c for _, c in sb.encode_stream(sb.ssbc(rows[:50], 8), source, spool=place))
        for source, place in ((batches(rows, 700), None), (iter(batches(rows, 700)), tmp_path))
    )
    assert twice == once
    assert list(tmp_path.iterdir()) == []


# paper-notes 1: "use the current V" for online codes


@pytest.mark.slow
def test_bits_that_change_from_coder_to_coder():
    """Each new V of the paper changes some percent of all bits, a steady one far fewer."""
    train, rows = datasets.stream("uniform", 400, 1600)
    changed = {}
    for paper in (True, False):
        shares = []
        learner = sb.ssbc(train, 24, paper=paper)

        def compare(last, now, shares=shares):
            shares.append(bits_changed(last.encode(rows[:300]), now.encode(rows[:300])))

        for _ in sb.encode_online(learner, [rows], refresh=400, on_refresh=compare):
            pass
        assert len(shares) == 4
        changed[paper] = np.mean(shares)
    assert changed[True] > 0.01
    assert changed[False] < 0.5 * changed[True]
