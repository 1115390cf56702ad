"""What is torch's: on a CUDA device where there is one, and on the host's own otherwise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streambits import _device
from streambits._device import Scanner, Uploader, copied, on_device, products, upload
from streambits.errors import InputError, MissingExtraError

torch = pytest.importorskip("torch")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def test_a_name_means_a_device_and_an_array_is_itself():
    assert on_device(DEVICE).device.type == DEVICE
    like = np.zeros(3)
    assert on_device(like) is like


@pytest.mark.parametrize("name", ["cuda:99", "nowhere"])
def test_a_device_that_is_not_there_is_an_error_of_the_user(name):
    with pytest.raises(InputError, match=f"there is no device '{name}' here"):
        on_device(name)


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"streambits\[gpu\]"):
        on_device("cuda")


def test_products_are_exact_whatever_the_program_allows():
    like = on_device(DEVICE)
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((256, 256), dtype=np.float32) for _ in range(2))
    exact = left.astype(np.float64) @ right
    torch.set_float32_matmul_precision("high")
    try:
        with products(like):
            found = torch.asarray(left, device=DEVICE) @ torch.asarray(right, device=DEVICE)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert np.abs(found.cpu().numpy() - exact).max() < 1e-3  # TF32 errs by about 0.03


def test_arrays_are_copied_in_order():
    parts = [torch.full((1000,), i, device=DEVICE) for i in range(20)]
    found = copied(iter(parts), lambda part: part.numpy())
    assert [int(part[0]) for part in found] == list(range(20))


@pytest.mark.parametrize("size", [3, 100_000])
def test_an_array_is_the_same_there(size):
    there = upload(np.arange(size), on_device(DEVICE))
    assert there.device.type == DEVICE
    assert there.cpu().numpy().tolist() == list(range(size))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_rows_that_are_uploaded_do_not_change_with_the_callers(dtype):
    rows = np.arange(12, dtype=dtype).reshape(4, 3)
    there = Uploader(DEVICE)(rows)
    rows[:] = 0
    assert there.device.type == DEVICE
    assert there.cpu().numpy().ravel().tolist() == list(range(12))


def _brute_force(words, alive, queries, k):
    places = np.flatnonzero(alive)
    apart = np.bitwise_count(words[:, places].T[None] ^ queries[:, None]).sum(axis=2)
    order = np.argsort(apart, axis=1, kind="stable")[:, :k]
    return places[order], np.take_along_axis(apart, order, 1)


@given(
    seed=st.integers(0, 1000),
    count=st.integers(1, 400),
    width=st.integers(1, 3),
    distinct=st.integers(1, 400),
    dead=st.floats(0, 0.9),
)
@settings(max_examples=60, deadline=None)
def test_a_scan_finds_what_brute_force_finds(seed, count, width, distinct, dead):
    rng = np.random.default_rng(seed)
    some = rng.integers(0, 2**64, (width, distinct), dtype=np.uint64)
    words = np.sort(some[:, rng.integers(0, distinct, count)], axis=1)  # many equal, in order
    alive = rng.random(count) >= dead
    alive[rng.integers(count)] = True
    queries = rng.integers(0, 2**64, (5, width), dtype=np.uint64)
    k = int(rng.integers(1, alive.sum() + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_device, "ROOM", 8)  # so that passes are many, and some have too few
        places, distances = Scanner(words, alive, count, DEVICE).nearest(queries, k)
    expected = _brute_force(words, alive, queries, k)
    assert (places == expected[0]).all()
    assert (distances == expected[1]).all()


def test_a_scan_with_limits_finds_what_is_closer():
    rng = np.random.default_rng(1)
    words = rng.integers(0, 2**64, (1, 500), dtype=np.uint64)
    alive = np.ones(500, bool)
    queries = rng.integers(0, 2**64, (4, 1), dtype=np.uint64)
    places, distances = _brute_force(words, alive, queries, 10)
    limits = distances[:, 4].astype(np.int64)
    found = Scanner(words, alive, 500, DEVICE).nearest(queries, 10, limits)
    for q in range(4):
        closer = int((distances[q] < limits[q]).sum())
        assert (found[0][q, :closer] == places[q, :closer]).all()
        assert (found[1][q, closer:] > 64).all()
