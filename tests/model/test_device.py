"""Coders and learners on a device, against those on the host."""

import numpy as np
import pytest

import streambits as sb
from streambits.errors import ReachWarning
from streambits.model import device
from streambits.model.learner import BLOCK

torch = pytest.importorskip("torch")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RNG = np.random.default_rng(0)
ROWS = RNG.random((9000, 12), dtype=np.float32)
METHODS = {
    "ssbc": lambda rows, **more: sb.ssbc(rows[:200], 40, **more),
    "linear": lambda rows, **more: sb.methods.linear(rows[:500], 10, **more),
}


def there(rows):
    return torch.asarray(rows, device=DEVICE)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(device, "MIN_BLOCK_ROWS", 1000)
    monkeypatch.setattr(device, "MAX_BLOCK_ROWS", 1000)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", METHODS)
def test_codes_are_those_of_the_host(method, dtype):
    coder = METHODS[method](ROWS).learn(ROWS).coder()
    rows = ROWS.astype(dtype)
    assert coder.on(DEVICE).encode(there(rows)) == coder.encode(rows)


@pytest.mark.parametrize("wide", [False, True])
def test_codes_are_those_of_the_host_in_either_precision(wide):
    coder = METHODS["ssbc"](ROWS).learn(ROWS).coder()
    moved = coder.on(DEVICE)
    moved._there._double = wide
    assert moved.encode(there(ROWS)) == coder.encode(ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"refine": 3}, {"refine": 8, "certified": True}])
def test_refined_codes_are_those_of_the_host(more):
    coder = METHODS["ssbc"](ROWS, **more).learn(ROWS).coder()
    rows = ROWS.copy()
    rows[::100] *= 3  # beyond the codebook
    rows[1] = rows[2] = ROWS[:2].mean(axis=0)
    assert coder.on(DEVICE).encode(there(rows)) == coder.encode(rows)


def test_product_codes_are_those_of_the_host():
    coder = sb.methods.product(ROWS[:2000], refine=4).learn(ROWS).coder()
    assert coder.on(DEVICE).encode(there(ROWS)) == coder.encode(ROWS)


@pytest.mark.filterwarnings("ignore::streambits.errors.ReachWarning")
@pytest.mark.parametrize("scale", [1e-30, 1e6, 1e25, 3e38])
def test_rows_of_any_size_have_the_codes_of_the_host(scale):
    coder = METHODS["ssbc"](ROWS).learn(ROWS).coder()
    rows = np.concatenate([ROWS[:50], (scale * ROWS[50:100]).astype(np.float32)])
    assert coder.on(DEVICE).encode(there(rows)) == coder.encode(rows)


def test_rows_out_of_reach_give_the_warning_of_the_host():
    coder = METHODS["ssbc"](ROWS).learn(ROWS).coder().on(DEVICE)
    with pytest.warns(ReachWarning, match="100 of 100 rows encoded"):
        coder.encode(there(ROWS[:100] + 50))


def same_state(left, right):
    a, b = (part.sketch.state() for part in (left, right))
    arrays = [(a["sum"], b["sum"]), (a["centre"]["mean"], b["centre"]["mean"])]
    return left.certificate == right.certificate and all(bool((x == y).all()) for x, y in arrays)


@pytest.mark.slow
@pytest.mark.parametrize("epochs", ["auto", "never"])
@pytest.mark.parametrize("size", [7, 1000, 4096])
def test_any_split_gives_the_same_learner(monkeypatch, size, epochs):
    monkeypatch.setattr("streambits.model.learner.MOST_THERE", 4096)
    whole, parts = (METHODS["ssbc"](there(ROWS), epochs=epochs) for _ in range(2))
    whole.learn(there(ROWS))
    for start in range(0, len(ROWS), size):
        parts.learn(there(ROWS[start : start + size]))
    assert same_state(whole, parts)
    assert whole.drift == parts.drift or epochs == "never"
    assert whole.coder().encode(there(ROWS)) == parts.coder().encode(there(ROWS))


@pytest.mark.parametrize("precision", ["double", "single", "tf32"])
def test_a_learner_there_comes_close_to_one_on_the_host(precision):
    here = METHODS["ssbc"](ROWS, precision="double").learn(ROWS)
    moved = METHODS["ssbc"](there(ROWS), precision=precision).learn(there(ROWS))
    assert moved.seen == here.seen
    apart = moved.sketch.matrix.cpu().numpy() - here.sketch.matrix
    features = 1e-6 * len(ROWS) ** 0.5 * np.linalg.norm(here.sketch.matrix, 2) ** 0.5 * 200**0.5
    assert np.linalg.norm(apart, 2) <= moved.certificate + features
    assert (precision == "double") == (moved.certificate == 0)


@pytest.mark.parametrize("more", [{}, {"refine": 4}, {"epochs": "never"}])
@pytest.mark.parametrize("method", ["ssbc", "linear"])
def test_a_learner_moves_to_a_device_and_back(method, more, tmp_path):
    here = METHODS[method](ROWS, **more).learn(ROWS[:5000])
    coder = here.coder()
    moved = here.on(DEVICE)
    assert moved.last_coder.encode(there(ROWS)) == coder.encode(ROWS)
    back = moved.on(np.zeros(1))
    assert back.coder().encode(ROWS) == coder.encode(ROWS)
    moved.learn(there(ROWS[5000:]))
    assert moved.seen == len(ROWS)
    sb.save(moved, tmp_path / "model")
    loaded = sb.load(tmp_path / "model")
    assert loaded.seen == len(ROWS)
    agree = loaded.coder().encode(ROWS).unpack() == moved.coder().encode(there(ROWS)).unpack()
    assert agree.mean() > 0.999
    assert len(loaded._blocks.rows) < BLOCK  # what waited there was learned here
