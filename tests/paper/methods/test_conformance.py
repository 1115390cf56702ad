"""Every rival keeps every promise of features, sketches and learners."""

import numpy as np
import pytest

from conformance import check_features, check_learner, check_sketch
from conformance.sketches import UNCERTIFIED
from paper.methods import METHODS
from paper.methods.features import Cosines, Eigenfunctions, Spheres
from paper.methods.sketches import Fixed, HadamardDirections, SupervisedGram
from streambits.errors import StorageError
from streambits.methods import METHODS as OURS
from streambits.storage import KINDS, load, save

ROWS = np.random.default_rng(7).random((4500, 8)) + np.arange(8)
FEATURES = {
    "random": lambda rows: Cosines.random(rows, 20),
    "dithered": lambda rows: Cosines.random(rows, 20, spread=1.0),
    "narrow": lambda rows: Cosines.random(rows, 20, 1e-6),
    "stable": lambda rows: Cosines.stable(rows, 20),
    "box": lambda rows: Cosines.box(rows, 20),
    "smoothest": lambda rows: Eigenfunctions.smoothest(rows, 20),
    "heaviest": lambda rows: Eigenfunctions.heaviest(rows, 20),
    "constant": lambda rows: Eigenfunctions.smoothest(rows, 3, constant=True),
    "spheres": lambda rows: Spheres.balanced(rows, 20),
}
ORTHONORMAL = np.linalg.qr(np.random.default_rng(1).standard_normal((8, 5)))[0]
GUIDE = ORTHONORMAL * np.arange(5.0, 0, -1) @ ORTHONORMAL.T
SKETCHES = {
    "hadamard": (lambda: HadamardDirections(8, 4), UNCERTIFIED),
    "hadamard, all whole": (lambda: HadamardDirections(8, 4, 200), ()),
    "guided": (lambda: SupervisedGram(GUIDE), ("check_sketch_energies",)),
    "fixed": (lambda: Fixed(ORTHONORMAL, np.arange(5.0, 0, -1)), UNCERTIFIED),
}
LABELS = np.arange(40) % 4 - 1
RIVALS = {
    **{name: {} for name in METHODS if name not in OURS},
    "ssh, labelled": {"labels": LABELS},
    "semi_supervised, labelled": {"labels": LABELS},
    "supervised_ibp, labelled": {"labels": LABELS},
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize("name", FEATURES)
def test_features(name, offset, dtype):
    rows = ROWS[:120].astype(dtype) + dtype(offset)
    features = FEATURES[name](rows[:60])
    check_features(features, rows, skip=["check_features_noise"] if dtype == np.float64 else [])
    assert features(rows).dtype == dtype


@pytest.mark.parametrize("name", FEATURES)
def test_huge_rows_in_single_precision_have_finite_features(name):
    rows = np.array([[1e30] * 8, [-1e30, *[1e30] * 7]], np.float32)
    features = FEATURES[name](ROWS[:60].astype(np.float32))
    found = features(rows)
    assert np.isfinite(found).all()
    assert np.isfinite(features.noise(rows, found)).all()


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
@pytest.mark.parametrize("name", FEATURES)
def test_features_of_other_libraries(name, library):
    rows = ROWS[:60].astype(np.float32)
    moved = pytest.importorskip(library).asarray(rows)
    here, there = FEATURES[name](rows), FEATURES[name](moved)
    assert np.allclose(np.asarray(there(moved)), here(rows), atol=2e-2)
    assert np.array_equal(there.on(np.zeros(1)).centre, here.centre)
    assert np.asarray(there.noise(moved, there(moved))).shape == (60,)


@pytest.mark.parametrize("name", SKETCHES)
def test_sketch(name):
    factory, skip = SKETCHES[name]
    check_sketch(factory, ROWS[:150], skip=skip)


@pytest.mark.filterwarnings("ignore::streambits.errors.ReachWarning")  # e2lsh has few codes
@pytest.mark.parametrize("name", RIVALS)
def test_learner(name):
    rows, kind = ROWS.astype(np.float32), name.split(",")[0]
    certified = METHODS[kind].streams and kind != "frosh"
    check_learner(
        lambda: METHODS[kind](rows[:40], 6, seed=3, **RIVALS[name]),
        rows,
        skip=[] if certified else ["check_learner_certificate"],
    )


@pytest.mark.parametrize("name", [name for name, one in METHODS.items() if not one.streams])
def test_what_learns_nothing_has_the_same_codes_for_ever(name, train, rows):
    learner = METHODS[name](train, 6)
    first = learner.coder().encode(rows[:500])
    assert learner.learn(rows).coder().encode(rows[:500]) == first


def test_a_model_of_a_rival_says_which_part_is_not_in_the_package(train, tmp_path, monkeypatch):
    save(METHODS["lsh"](train, 6).coder(), tmp_path / "lsh")
    save(METHODS["lsh"](train, 6), tmp_path / "learner")
    assert load(tmp_path / "learner").coder() is not None
    monkeypatch.delitem(KINDS, "Fixed")
    with pytest.raises(StorageError, match=r"holds a Fixed, which .* 'import paper\.methods'"):
        load(tmp_path / "learner")
    assert load(tmp_path / "lsh").bits == 6
