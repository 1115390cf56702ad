import math

import pytest
import scipy.stats

from paper import summary
from paper.measure import Cell
from paper.runs import Result
from paper.summary import collect, estimate, place


def result(method="ssbc", bits=20, seed=0, level="sigma_30", **figures):
    return Result(Cell("cbm", method, bits, seed, level=level), figures)


def maps(values, **more):
    return {"map": dict.fromkeys(("sigma_30", "sigma_30 / 4", "sigma_all"), values), **more}


def test_the_interval_is_students():
    values = [0.52, 0.55, 0.50, 0.58]
    found = estimate(values)
    low, high = scipy.stats.t.interval(0.95, 3, loc=sum(values) / 4, scale=scipy.stats.sem(values))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.seeds == 4
    assert str(found) == f"{found.mean:.3f} ± {found.half:.3f}"


def test_map_at_a_level_reads_the_cell_of_that_level():
    book = collect(
        [
            result("ssbc", **maps(0.3)),
            result("ssbc", level="sigma_all", **maps(0.9)),
            Result(Cell("cbm", "lsh", 20), {"map": {"sigma_30": 0.1, "sigma_all": 0.7}}),
        ]
    )
    for method, wanted in (("ssbc", 0.9), ("lsh", 0.7)):
        ((bits, value),) = summary.series(
            book, "cbm", method, summary.mean_average_precision, level="sigma_all"
        )
        assert (bits, value.mean) == (20, wanted)


def test_what_is_missing_is_left_out():
    nothing = {"pooled_precision": math.nan}
    book = collect(
        [
            result(seed=0, matched={"sigma_30": nothing}),
            result(seed=1, reason="too many bits"),
            result(seed=2, matched={"sigma_30": {"pooled_precision": 0.4}}),
        ]
    )
    cell = place("cbm", "ssbc", 20)
    assert summary.values(book, cell, summary.precision) == {2: 0.4}
    assert summary.summarise(book, cell, summary.asymmetric) is None
    assert summary.summarise(book, place("cbm", "lsh", 20), summary.precision) is None
    assert summary.reasons(book) == {"too many bits": [cell]}
