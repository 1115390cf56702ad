"""Checks of learners: what `model.learner.Learner` promises, one named check per promise.

Every check takes a function that makes a new learner, always the same one, and rows (n, d) of its
stream; it raises an AssertionError that says what was expected. Learners work in blocks of 2048
rows, so the checks want more than two blocks of them, and a learner that can code what it saw.
"""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from conformance.compare import InapplicableError, checks_in, equal
from conformance.sketches import expect_certified
from streambits import storage
from streambits._arrays import as_rows, to_numpy
from streambits.errors import InputError, MergeError, StreambitsError
from streambits.model.learner import BLOCK


def check_learner_seen(factory, rows):
    """`seen` counts every row, those still waiting for a full block too."""
    learner = factory()
    start = learner.seen
    learner.learn(rows[:3]).learn(rows[3:])
    assert learner.seen == start + len(rows)


def check_learner_codes(factory, rows):
    """There is one code per row, of the learner's bits and epoch, and not all the same."""
    learner = factory().learn(rows)
    codes = learner.coder().encode(rows)
    found, wanted = (len(codes), codes.bits, codes.epoch), (len(rows), learner.bits, learner.epoch)
    assert found == wanted
    every = [codes.packed, *([] if codes.refinement is None else [codes.refinement])]
    different = len(np.unique(np.concatenate(every, axis=1), axis=0)) > 1
    assert different


def check_learner_decode(factory, rows):
    """Refined codes decode to rows near their own, within the bound where there is one.

    All codes of an epoch decode by every coder of it. Codes of sign bits alone are refused.
    """
    learner = factory().learn(rows[: BLOCK + 5])
    coder = learner.coder()
    codes, epoch = coder.encode(rows), learner.epoch
    if coder.refinement is None or codes.refinement is None:
        with pytest.raises(InputError):
            coder.decode(codes)
        return
    decoded, true = coder.decode(codes), to_numpy(rows).astype(np.float64)
    errors = np.linalg.norm(decoded - true, axis=1)
    spread = np.linalg.norm(true - true.mean(axis=0), axis=1)
    assert errors.mean() < spread.mean()
    bounds = coder.refinement.bounds(codes.refinement)
    assert (bounds >= errors).all()
    later = learner.learn(rows[BLOCK + 5 :]).coder()
    if learner.epoch == epoch:
        same = np.array_equal(later.decode(codes), decoded)
        assert same


def check_learner_split(factory, rows):
    """Any split of the stream into batches gives the same learner and codes, bit for bit."""
    assert len(rows) > 2 * BLOCK, "the checks would be empty with fewer rows"
    whole = factory().learn(rows)
    for sizes in ((1, 1, 3, BLOCK - 4, 7), (BLOCK + 1,), (700,) * 5):
        split = factory()
        for batch in _batches(rows, sizes):
            split.learn(batch)
        _expect_equal(split, whole, rows)


def check_learner_threads(factory, rows):
    """Any number of threads gives the same learner and codes, bit for bit."""
    with threadpool_limits(1, user_api="blas"):
        alone = factory().learn(rows)
        codes = _codes(alone, rows)
    with threadpool_limits(3, user_api="blas"):
        together = factory().learn(rows)
        assert _codes(together, rows) == codes
        _expect_equal(together, alone, rows)


def check_learner_isolated_rows(factory, rows):
    """A row has the same code isolated and in a batch, bit for bit."""
    coder = factory().learn(rows).coder()
    together = coder.encode(rows)
    for i in range(0, len(rows), max(1, len(rows) // 50)):
        isolated = coder.encode(rows[i : i + 1])
        assert isolated == together[i : i + 1]


def check_learner_project(factory, rows):
    """The bits are the signs of `project`, wherever these are clear of rounding."""
    coder = factory().learn(rows).coder()
    if not coder.bits:
        raise InapplicableError("its codes have no sign bits")
    values, bits = to_numpy(coder.project(rows)), coder.encode(rows).unpack()
    clear = np.abs(values) > 1e-3 * np.abs(values).max()
    assert np.array_equal((values > 0)[clear], bits[clear])


def check_learner_coder_changes_nothing(factory, rows):
    """`coder()` changes nothing that was learned, and repeats itself."""
    learner = factory().learn(rows)
    before = _learned(learner)
    first = _codes(learner, rows)
    assert equal(_learned(learner), before)
    assert _codes(learner, rows) == first


def check_learner_coder_frozen(factory, rows):
    """A coder stays as it is while its learner goes on."""
    learner = factory().learn(rows[: BLOCK + 5])
    coder = learner.coder()
    before = coder.encode(rows)
    learner.learn(rows[BLOCK + 5 :]).coder()
    assert coder.encode(rows) == before


def check_learner_memory(factory, rows):
    """`nbytes` is constant from construction."""
    learner = factory()
    before = learner.nbytes
    for batch in _batches(rows, (1, 500, BLOCK)):
        learner.learn(batch).coder()
        assert learner.nbytes == before


def check_learner_save(factory, rows):
    """A learner that is saved, loaded and goes on gives the bits of one that never stopped."""
    learner = factory().learn(rows[: BLOCK + 9])
    learner.coder()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.safetensors"
        storage.save(learner, path)
        loaded = storage.load(path)
    assert equal(_learned(loaded), _learned(learner))
    for one in (learner, loaded):
        one.learn(rows[BLOCK + 9 :])
    _expect_equal(loaded, learner, rows)


def check_learner_fresh(factory, rows):
    """`fresh` has seen nothing, learns by itself, and shares features, bits and epoch."""
    learner = factory().learn(rows)
    before, fresh = _learned(learner), learner.fresh()
    assert fresh.seen == 0
    fresh.learn(rows[:10])
    assert fresh.seen == 10
    assert equal(_learned(learner), before)
    for name in ("features", "bits", "epoch"):
        mine, theirs = getattr(learner, name), getattr(fresh, name)
        assert equal(mine, theirs)


def check_learner_merge(factory, rows):
    """Merged shards have seen all rows; the other stays as it was."""
    left, right = _shards(factory, rows)
    before = _learned(right)
    left.merge(right)
    assert left.seen == len(rows)
    assert equal(_learned(right), before)
    left.coder().encode(rows)


def check_learner_certificate(factory, rows):
    """The sketch of merged shards keeps to its certificate, as `check_sketch` has it."""
    left, right = _shards(factory, rows)
    left.merge(right)
    checked = as_rows(rows, like=left.features.like)
    expect_certified(left.sketch, left.features(checked))


def check_learner_merge_refusal(factory, rows):
    """Merging a learner of other settings is a MergeError and changes nothing."""
    learner, other = factory().learn(rows), factory().learn(rows)
    other.whitening += 1
    before = _learned(learner)
    with pytest.raises(MergeError):
        learner.merge(other)
    assert equal(_learned(learner), before)


def check_learner_bad_rows(factory, rows):
    """Rows that cannot be used are an InputError and change nothing."""
    learner = factory().learn(rows)
    before = _learned(learner)
    for bad in _bad(to_numpy(rows[: BLOCK + 1])):
        with pytest.raises(InputError):
            learner.learn(bad)
        assert equal(_learned(learner), before)


def check_learner_huge_rows(factory, rows):
    """Finite rows too large to square are refused whole, or learned without harm."""
    learner = factory().learn(rows)
    before = _learned(learner)
    huge = np.array(rows[: BLOCK + 1], np.float64)
    huge[BLOCK - 1] = 1e200
    try:
        with np.errstate(all="ignore"):
            learner.learn(huge)
    except StreambitsError:
        assert equal(_learned(learner), before)
    with np.errstate(all="ignore"):
        learner.coder().encode(rows[:2])


CHECKS = checks_in(globals())


def _shards(factory, rows):
    third = len(rows) // 3
    return factory().fresh().learn(rows[:third]), factory().fresh().learn(rows[third:])


def _codes(learner, rows):
    return learner.coder().encode(rows)


def _expect_equal(left, right, rows):
    for name, value in _learned(left).items():
        assert equal(value, getattr(right, name))
    assert _codes(left, rows) == _codes(right, rows)


def _learned(learner):
    """All that a learner has learned, waiting rows included."""
    names = ("seen", "certificate", "sketch", "sample", "epoch")
    return {name: getattr(learner, name) for name in names}


def _batches(rows, sizes):
    """Batches of these sizes, then the rest."""
    start = 0
    for size in sizes:
        yield rows[start : start + size]
        start += size
    yield rows[start:]


def _bad(rows):
    for value in (np.nan, np.inf, -np.inf):
        bad = rows.copy()
        bad[-1, -1] = value
        yield bad
    yield np.concatenate([rows, rows[:, :1]], axis=1)
    yield from (rows[:, :-1], rows[:0], rows[0], rows.astype(str), rows * 1j)
