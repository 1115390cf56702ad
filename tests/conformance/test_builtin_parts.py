"""Every built-in part keeps every promise of the kit."""

import numpy as np
import pytest

import streambits as sb
from conformance import check_features, check_learner, check_sketch
from conformance import sketches as kit

RNG = np.random.default_rng(7)
ROWS = RNG.random((4500, 8)) + np.arange(8)
KINDS = {"float32": ROWS.astype(np.float32), "float64": ROWS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_features(kind, offset):
    rows = KINDS[kind][:80] + KINDS[kind].dtype.type(offset)
    skip = ["check_features_noise"] if kind == "float64" else []
    for features in (
        sb.features.GaussianAffinity(rows[:30]),
        sb.features.GaussianAffinity(rows[:30], 1e-3),
        sb.features.GaussianAffinity(sb.features.centres(rows, 12), sb.bandwidth.all_pairs()),
        sb.features.Linear.around(rows),
    ):
        check_features(features, rows, skip=skip)


SKETCHES = {
    "gram": lambda: sb.sketches.Gram(8),
    "gram raw": lambda: sb.sketches.Gram(8, centred=False),
    "gram single": lambda: sb.sketches.Gram(8, precision="single"),
    "frequent directions": lambda: sb.sketches.FrequentDirections(8, 4),
    "frequent directions raw": lambda: sb.sketches.FrequentDirections(8, 4, centred=False),
    "frequent directions as printed": lambda: sb.sketches.FrequentDirections(
        8, 4, 1, centred=False
    ),
    "frequent directions, nothing lost": lambda: sb.sketches.FrequentDirections(8, 20),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SKETCHES)
def test_sketch(name, kind):
    check_sketch(SKETCHES[name], KINDS[kind][:150])


def test_directions_stay_orthonormal_down_to_the_rank_tolerance():
    """A direction that counts towards the rank has length one, however weak it is."""
    left = np.linalg.qr(RNG.standard_normal((50, 20)))[0]
    right = np.linalg.qr(RNG.standard_normal((20, 20)))[0]
    graded = left * np.logspace(0, -6.8, 20) @ right.T
    kit.check_sketch_directions(lambda: sb.sketches.Gram(20, centred=False), graded)
    kit.check_sketch_directions(
        lambda: sb.sketches.FrequentDirections(20, 60, centred=False), graded
    )


METHODS = {
    **{
        name: (lambda train, make=make: make(train, 6, seed=3))
        for name, make in sb.methods.METHODS.items()
        if name != "product"
    },
    "product": lambda train: sb.methods.product(train, refine=1, seed=3),
    "product of 3 bytes": lambda train: sb.methods.product(train, refine=3, seed=3),
    "ssbc, refined": lambda train: sb.ssbc(train, 6, refine=2, certified=True, seed=3),
    "ssbc as printed": lambda train: sb.ssbc(train, 6, paper=True),
    "ssbc, random": lambda train: sb.ssbc(train, 6, rotation="random", whitening=1),
}


LONG = ("ssbc as printed", "product of 3 bytes")


def check_method(name, rows):
    skip = ["check_learner_project"] if name.startswith("product") else []
    check_learner(lambda: METHODS[name](rows[:40]), rows, skip=skip)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in METHODS],
)
def test_learner_of_single_precision(name):
    check_method(name, KINDS["float32"])


@pytest.mark.parametrize("name", ["ssbc", "linear"])
def test_learner_of_double_precision(name):
    check_method(name, ROWS)


def test_learner_of_frequent_directions_that_must_shrink():
    def factory():
        features = sb.features.GaussianAffinity(ROWS[:40].astype(np.float32))
        return sb.Learner(
            features, sb.sketches.FrequentDirections(40, 12), bits=6, prior=features.landmarks
        )

    check_learner(factory, KINDS["float32"])
