"""Names of columns: an index keeps them, and never takes rows whose columns stand elsewhere."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import streambits as sb
from streambits import StreamIndex
from streambits.errors import InputError

ROWS = np.random.default_rng(0).random((500, 3), dtype=np.float32)
NAMES = ["x", "y", "z"]
FRAMES = {
    "pandas": lambda rows, names: pd.DataFrame(dict(zip(names, rows.T, strict=True))),
    "polars": lambda rows, names: pl.DataFrame(dict(zip(names, rows.T, strict=True))),
    "arrow": lambda rows, names: pa.table(dict(zip(names, map(pa.array, rows.T), strict=True))),
}
SMALL = {"bits": 2, "n_landmarks": 20}


@pytest.mark.parametrize("kind", FRAMES)
def test_an_index_compares_the_names_of_columns(tmp_path, kind):
    frame = FRAMES[kind]
    index = StreamIndex.open(tmp_path / "index", **SMALL)
    index.add(frame(ROWS, NAMES))
    turned = frame(ROWS[:, ::-1], NAMES[::-1])
    index.save(tmp_path / "copy")
    index.close()
    for place in ("index", "copy"):  # by the journal, and by a snapshot
        with StreamIndex.open(tmp_path / place) as again:
            assert again.names == ("x", "y", "z")
            for call in (again.search, again.add, again.encode):
                with pytest.raises(InputError, match=r"another order than.*x, y, z.*index\.names"):
                    call(turned)
            with pytest.raises(InputError, match="lack 'x'"):
                again.search(frame(ROWS[:2], ["w", "y", "z"]))
            with pytest.raises(InputError, match=r"have 'w' beside|built for 3"):
                again.search(frame(np.ones((2, 4)), [*NAMES, "w"]))
            assert len(again) == 500
            whole = again.search(frame(ROWS[:5], NAMES), 3)
            assert np.array_equal(whole.ids, again.search(ROWS[:5], 3).ids)


def test_names_that_come_after_plain_rows_are_kept_and_failed_ones_are_not():
    index = StreamIndex(**SMALL)
    index.add(ROWS[:10])
    with pytest.raises(InputError):
        index.add(FRAMES["pandas"](ROWS, ["a", "b", "c"]), ids=["text"] * 500)
    index.add(FRAMES["pandas"](ROWS, NAMES))
    assert index.names == ("x", "y", "z")
    index.add(pd.DataFrame(ROWS))  # whose names are numbers


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("name", ["id", "Label", "target"])
def test_a_column_that_is_no_coordinate_by_its_name_is_refused(kind, name):
    frame = FRAMES[kind](ROWS, ["x", "y", name])
    learner = sb.ssbc(ROWS[:50], 2)
    for call in (StreamIndex(**SMALL).add, learner.learn, learner.learn(ROWS).coder().encode):
        with pytest.raises(InputError, match=f"'{name}'.*not a coordinate.*to_numpy"):
            call(frame)
