import math

import pytest

from paper.summary import Estimate
from paper.verdicts import (
    PARTLY,
    Comparison,
    Verdict,
    judge,
)


def one(lead, half=math.nan, **labels):
    seeds = 1 if math.isnan(half) else 3
    return Comparison(labels, 0.5 + lead, 0.5, Estimate(lead, half, seeds))


@pytest.mark.parametrize(
    ("lead", "half", "outcome"),
    [
        (0.1, math.nan, 1),
        (-0.1, math.nan, -1),
        (0.0, math.nan, 0),
        (0.1, 0.05, 1),
        (0.1, 0.2, 0),
        (-0.1, 0.2, 0),
        (-0.1, 0.05, -1),
        (0.1, 0.0, 1),
    ],
)
def test_an_interval_decides_or_the_sign_with_one_seed(lead, half, outcome):
    assert one(lead, half).outcome == outcome


@pytest.mark.parametrize(("worse", "part"), [("A", "on B, C"), ("AB", "against LSH")])
def test_a_condition_is_the_largest_part_that_can_be_named(worse, part):
    grid = [
        one(-0.1 if rival == "MDSH" and data in worse else 0.1, data=data, rival=rival)
        for data in "ABC"
        for rival in ("MDSH", "LSH")
    ]
    assert judge(grid) == Verdict(PARTLY, f"only {part}")
