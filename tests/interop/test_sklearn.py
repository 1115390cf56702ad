import json
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import BernoulliNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

import streambits as sb
from streambits.errors import InputError, LandmarkWarning, RankError
from streambits.interop.sklearn import SSBC

ROWS = np.random.default_rng(0).random((3000, 8))
CHECKS = """
import json, warnings
from sklearn.utils.estimator_checks import check_estimator
from streambits.errors import LandmarkWarning
from streambits.interop.sklearn import SSBC

warnings.simplefilter("error")
warnings.simplefilter("ignore", LandmarkWarning)  # partial_fit without landmarks, as documented
results = check_estimator(SSBC(), on_fail=None, on_skip=None)
print(json.dumps([[r["check_name"], r["status"], repr(r["exception"])] for r in results]))
"""
MORE_CHECKS = [  # scikit-learn runs these on its own estimators only
    "check_dataframe_column_names_consistency",
    "check_estimators_partial_fit_n_features",
    "check_global_output_transform_pandas",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_transformer_preserve_dtypes",
]


@pytest.mark.slow
def test_every_check_of_check_estimator_passes_and_none_is_skipped():
    # Without SCIPY_ARRAY_API, which SciPy reads at import, check_array_api_input is skipped.
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHECKS], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert len(results) > 40
    assert [result for result in results if result[1] != "passed"] == []


@pytest.mark.parametrize("name", MORE_CHECKS)
@pytest.mark.filterwarnings("ignore::streambits.errors.LandmarkWarning")
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")  # checks mix both
def test_further_checks_of_scikit_learn(name):
    getattr(estimator_checks, name)("SSBC", SSBC(random_state=0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_fit_gives_the_codes_of_ssbc(dtype):
    rows = (200 * ROWS).astype(dtype)
    landmarks = sb.reservoir([rows], 100, seed=5)
    coder = sb.ssbc(landmarks, 24, seed=7).learn(rows).coder()
    model = SSBC(24, landmarks=landmarks, random_state=7).fit(rows)
    assert model.encode(rows) == coder.encode(rows)
    np.testing.assert_array_equal(model.transform(rows), coder.encode(rows).unpack())
    np.testing.assert_array_equal(model.project(rows), coder.project(rows))


@pytest.mark.parametrize(
    "settings",
    [
        {"bandwidth": 4 * sb.bandwidth.nearest(10)},
        {"bandwidth": sb.bandwidth.all_pairs(), "whitening": 0.0, "rotation": "random"},
        {"bandwidth": 0.3, "rotation": "none"},
        {"paper": True},
    ],
)
def test_settings_are_those_of_ssbc(settings):
    model = SSBC(12, n_landmarks=80, random_state=3, **settings).fit(ROWS)
    drawn = model.learner_.features.landmarks
    same = sb.ssbc(drawn, 12, seed=3, **settings).learn(ROWS).coder()
    assert model.encode(ROWS) == same.encode(ROWS)


@pytest.mark.parametrize("cuts", [[], [1], [700, 701, 2500]])
def test_partial_fit_over_any_split_is_fit(cuts):
    landmarks = ROWS[::30]
    parts = SSBC(16, landmarks=landmarks, random_state=0)
    for part in np.split(ROWS, cuts):
        parts.partial_fit(part)
    whole = SSBC(16, landmarks=landmarks, random_state=0).fit(ROWS)
    assert parts.encode(ROWS) == whole.encode(ROWS)
    assert parts.learner_.seen == len(ROWS)


@pytest.mark.filterwarnings("ignore::streambits.errors.ReachWarning")
def test_epochs_follow_a_stream_that_moves():
    """Warnings are errors here: with epochs there is nothing to warn of."""
    moved = np.concatenate([ROWS, ROWS + 4])
    model = SSBC(bits=8, n_landmarks=100, epochs="auto", random_state=0)
    before = model.partial_fit(ROWS).encode(ROWS[:5])
    after = model.partial_fit(ROWS + 4).encode(ROWS[:5] + 4)
    assert before.epoch == 0
    assert after.epoch == model.learner_.epoch > 0
    frozen = SSBC(bits=8, landmarks=ROWS[:100], random_state=0).fit(ROWS)
    distinct = [len(np.unique(m.transform(ROWS + 4), axis=0)) for m in (frozen, model)]
    assert distinct[1] > 5 * distinct[0]
    whole = SSBC(bits=8, n_landmarks=100, epochs="auto", random_state=0).fit(moved)
    beyond = (whole.learner_.features.landmarks[:, 0] > 2.5).mean()
    assert 0.3 < beyond < 0.7
    assert SSBC(bits=8, half_life=500.0).fit(ROWS).learner_.sketch.half_life == 500


def test_partial_fit_warns_once_that_its_landmarks_are_a_prefix():
    model = SSBC(16, n_landmarks=100, epochs="never", random_state=0)
    with pytest.warns(LandmarkWarning, match=r"100 landmarks .* 1000 rows of the first batch"):
        model.partial_fit(ROWS[:1000])
    before = model.transform(ROWS)
    model.partial_fit(ROWS[1000:])  # warnings are errors here
    changed = (before != model.transform(ROWS)).mean()
    assert 0 < changed < 0.05
    assert model.learner_.features.width == 100


def test_a_refused_first_batch_leaves_nothing_behind():
    model = SSBC(16, landmarks=ROWS[:50, :4])
    with pytest.raises(InputError, match="columns"):
        model.partial_fit(ROWS)
    assert not hasattr(model, "learner_")
    model.partial_fit(ROWS[:, :4])
    assert model.n_features_in_ == 4


def test_landmarks_are_drawn_from_all_rows_and_apart_from_the_rotations_sample():
    rows = np.arange(20000.0)[:, None] + ROWS[:1]
    model = SSBC(4, n_landmarks=1000, epochs="never", random_state=0).fit(rows)
    drawn = model.learner_.features.landmarks[:, 0]
    assert len(np.unique(drawn)) == 1000
    assert abs(drawn.mean() - 10000) < 1000
    shared = np.isin(drawn, model.learner_.sample[:, 0]).mean()
    assert shared < 0.35  # a quarter of all rows are in the sample


def test_bits_are_64_or_what_the_rank_allows():
    assert SSBC(random_state=0).fit(ROWS).bits_ == 64
    few = SSBC().fit(ROWS[:10])
    assert few.bits_ == 9
    assert few.transform(ROWS).shape == (3000, 9)
    distinct = np.repeat(ROWS[:5], 100, axis=0)
    assert SSBC(random_state=0, bandwidth=1.0).fit(distinct).bits_ == 4


def test_too_many_bits_are_an_error_that_says_so():
    with pytest.raises(InputError, match="at most 10 bits"):
        SSBC(bits=64).fit(ROWS[:10])
    with pytest.raises(RankError, match="at most 9 bits"):
        SSBC(bits=10).fit(ROWS[:10])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_landmarks": 1}, "n_landmarks is 1"),
        ({"n_landmarks": "many"}, "n_landmarks is 'many'"),
        ({"rotation": "none at all"}, "rotation"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"random_state": -1}, "seed is -1"),
    ],
)
def test_wrong_parameters_are_named_at_fit(settings, message):
    with pytest.raises(InputError, match=message):
        SSBC(8, **settings).fit(ROWS)


def test_in_a_pipeline_and_a_grid_search():
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(
        SSBC(n_landmarks=200, random_state=0), KNeighborsClassifier(3, metric="hamming")
    )
    search = GridSearchCV(model, {"ssbc__bits": [4, 32]}, cv=3).fit(X[:900], y[:900])
    assert search.best_params_ == {"ssbc__bits": 32}
    assert search.score(X[900:], y[900:]) > 0.85
    bayes = make_pipeline(SSBC(64, n_landmarks=200, random_state=0), BernoulliNB())
    assert bayes.fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.75


def test_refined_codes_are_those_of_the_library_and_decode():
    rows = np.random.default_rng(0).random((2000, 6))
    model = SSBC(bits=8, n_landmarks=100, refine=2, certified=True, random_state=0).fit(rows)
    codes = model.encode(rows)
    assert (codes.bits, codes.refine) == (8, 3)
    assert codes == model.learner_.coder().encode(rows)
    error = np.linalg.norm(model.decode(codes) - rows, axis=1)
    assert error.mean() < 0.5 * np.linalg.norm(rows - rows.mean(axis=0), axis=1).mean()
    assert model.transform(rows).shape == (2000, 8)
    with pytest.raises(InputError, match="refine=8"):
        SSBC(bits=8, n_landmarks=100).fit(rows).decode(codes)
