import math

import pytest

from paper.summary import Estimate
from paper.verdicts import (
    PARTLY,
    Comparison,
    Verdict,
    describe,
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


def test_the_numbers_are_told_with_the_best_and_the_worst():
    told = describe(
        [
            one(0.3, data="A", level="sigma_30", rival="LSH"),
            one(-0.2, data="B", level="sigma_30", rival="LSH"),
            one(0.1, 0.2, data="A", level="sigma_30", rival="SH"),
        ]
    )
    assert told == (
        "Met in 1 of 3, undecided in 1, missed in 1. Best: A, LSH: 0.8 against 0.5. "
        "Worst: B, LSH: 0.3 against 0.5."
    )
    assert describe([one(0.3, data="A")]) == "Met in 1 of 1, missed in 0. A: 0.8 against 0.5."
