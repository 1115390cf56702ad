import numpy as np
import pytest

from streambits.sketches import CROSSING, FrequentDirections, Gram, auto


@pytest.mark.parametrize(("extra", "kind"), [(0, Gram), (1, FrequentDirections)])
def test_few_columns_are_summed_exactly_and_many_are_sketched(extra, kind):
    sketch = auto(np.ones((5, 4 * CROSSING + extra)), 2, 4)
    assert type(sketch) is kind
    assert sketch.centred
    assert sketch.width == 4 * CROSSING + extra
