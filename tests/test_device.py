"""What is torch's: on a CUDA device where there is one, and on the host's own otherwise."""

import numpy as np
import pytest

from streambits._device import Uploader, copied, on_device, products, upload
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
