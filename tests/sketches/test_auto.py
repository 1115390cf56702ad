import numpy as np
import pytest

from streambits.sketches import CROSSING, FrequentDirections, Gram, auto


@pytest.mark.parametrize(("extra", "kind"), [(0, Gram), (1, FrequentDirections)])
def test_few_columns_are_summed_exactly_and_many_are_sketched(extra, kind):
    sketch = auto(np.ones((5, 4 * CROSSING + extra)), 2, 4)
    assert type(sketch) is kind
    assert sketch.centred
    assert sketch.width == 4 * CROSSING + extra


def test_single_precision_is_chosen_only_where_it_does_no_harm():
    rows = np.random.default_rng(0).standard_normal((100, 6))
    weak = rows * [1e4, 1, 1, 1, 1, 1]
    assert auto(rows.astype(np.float32), 4, 4).single
    assert not auto(rows, 4, 4).single
    assert not auto(weak.astype(np.float32), 4, 4).single
