"""The index of the parts that plays runbooks until there is one of its own."""

import numpy as np
import pytest

import streambits as sb
from streambits.errors import InputError
from streambits.evaluation.online_index import OnlineIndex
from streambits.evaluation.runbook import clustered, play

RNG = np.random.default_rng(0)
ROWS = RNG.random((2000, 8)).astype(np.float32)
SETTINGS = sb.Settings(8, method="linear", refine=2, n_landmarks=20)


def test_it_plays_from_its_first_row_on():
    runbook, order = clustered(ROWS, 4, seed=1)
    index = OnlineIndex(SETTINGS, candidates="all")
    played = play(runbook, ROWS[order], ROWS[:20] + 0.01, index)
    assert played.searches[0].recall == 1  # by raw rows
    assert played.mean > 0.4
    assert len(index) == played.searches[-1].live


def test_ids_have_their_last_rows():
    index, asked = OnlineIndex(SETTINGS, candidates="all"), ROWS[1000:1001]
    ids = np.arange(600)
    assert index.search(asked).ids.shape == (1, 0)
    index.add(ROWS[:100], ids[:100])
    index.add(asked, ids[7:8])
    assert index.search(asked, 1).ids.tolist() == [[7]]  # as it is
    index.remove(ids[7:8])
    assert len(index) == 99
    index.add(ROWS[:600], ids)
    index.add(asked, ids[9:10])
    index.remove(ids[:5])
    assert len(index) == 595
    assert 9 in index.search(asked, 20).ids


def test_bad_rows_are_refused():
    with pytest.raises(InputError, match="is NaN"):
        OnlineIndex(SETTINGS).add(np.full((3, 8), np.nan), np.arange(3))
