"""Raw rows by id, against a dict."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits.errors import StorageError
from streambits.row_store import RowStore

batches = st.lists(st.lists(st.integers(-50, 50), max_size=30), max_size=20)


@given(steps=batches, in_file=st.booleans())
def test_the_last_row_of_each_id_is_found(tmp_path_factory, steps, in_file):
    path = tmp_path_factory.mktemp("rows") / "rows"
    store, held, rng = RowStore(path if in_file else None), {}, np.random.default_rng(0)
    for ids in steps:
        rows = rng.random((len(ids), 3), np.float32)
        if in_file:
            store.write(rows)
        store.put(np.array(ids, np.int64), rows)
        held |= dict(zip(ids, rows))
    names = np.array(sorted(held), np.int64)
    if len(names):
        assert (store.get(names) == np.stack([held[i] for i in names.tolist()])).all()
        live = names[::2]
        again = store.written(path.with_name("again"), live)
        assert len(again) == len(live)
        assert (again.get(live) == store.get(live)).all()
        again.sync()
        opened = RowStore.from_state(again.state(), again.path, writes=False)
        assert (opened.get(live) == store.get(live)).all()
        if not in_file:
            compacted = store.compacted(live)
            assert len(compacted) == len(live)
            assert (compacted.get(live) == again.get(live)).all()
    with pytest.raises(KeyError):
        store.get(np.array([99]))


def test_rows_that_were_written_but_not_named_are_written_over(tmp_path):
    store = RowStore(tmp_path / "rows")
    store.write(np.ones((5, 2)))
    store.write(np.full((1, 2), 2.0))
    store.put(np.array([3]), np.full((1, 2), 2.0))
    assert store.get(np.array([3])).tolist() == [[2.0, 2.0]]


def test_a_file_that_is_cut_off(tmp_path):
    store = RowStore(tmp_path / "rows")
    store.write(np.ones((5, 2)))
    store.put(np.arange(5), np.ones((5, 2)))
    (tmp_path / "rows").write_bytes(b"")
    with pytest.raises(StorageError, match="cut off"):
        RowStore.from_state(store.state(), tmp_path / "rows", writes=False)
