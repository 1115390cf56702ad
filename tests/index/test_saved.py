"""Indexes in files: the same answers, opened without reading, never half-written."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streambits as sb
from streambits import Codes, HammingIndex
from streambits.errors import StorageError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "index.safetensors"


def codes_of(rng, count, bits, epoch=0):
    return Codes.from_bits(rng.random((count, bits)) < 0.5, epoch)


def contents(index):
    return [(ids.tolist(), codes.epoch, codes.packed.tolist()) for ids, codes in index.coded()]


@given(st.integers(0, 2**32), st.sampled_from([1, 30, 64, 130]), st.sampled_from(["scan", "multi"]))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_loaded_index_goes_on_as_if_never_saved(path, seed, bits, method):
    rng = np.random.default_rng(seed)
    index = HammingIndex(bits, method=method)
    index.add(codes_of(rng, 300, bits))
    index.add(codes_of(rng, 50, bits), rng.permutation(50) - 1000)
    index.search(codes_of(rng, 1, bits), 1)  # builds tables, where there are any
    index.remove(rng.permutation(300)[:20])
    sb.save(index, path)
    loaded = sb.load(path)
    assert (loaded.bits, loaded.method, loaded.epochs) == (bits, method, (0,))
    for changed in (index, loaded):
        again = np.random.default_rng(1)
        changed.add(codes_of(again, 40, bits))
        changed.update(codes_of(again, 20, bits), np.arange(-1000, -980))
        changed.remove(np.arange(-960, -951))
        changed.add(codes_of(again, 30, bits, epoch=2))
    assert contents(loaded) == contents(index)
    queries = {epoch: codes_of(rng, 4, bits, epoch) for epoch in (0, 2)}
    ours, theirs = index.search(queries, 30), loaded.search(queries, 30)
    assert np.array_equal(ours.ids, theirs.ids)
    assert np.array_equal(ours.distances, theirs.distances)
    assert contents(sb.load(path)) != contents(loaded)  # the file stays as it was saved


def test_an_index_may_be_saved_over_the_file_it_was_loaded_from(path):
    rng, index = np.random.default_rng(0), HammingIndex(20)
    index.add(codes_of(rng, 500, 20))
    sb.save(index, path)
    loaded = sb.load(path)
    loaded.remove(np.arange(100))
    sb.save(loaded, path)
    assert contents(sb.load(path)) == contents(loaded)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_opening_reads_nothing_in_proportion_to_the_codes(path):
    """The codes' pages are not touched: the process grows by less than a tenth of the file."""
    index = HammingIndex(64)
    index.add(Codes(np.random.default_rng(0).integers(0, 256, (4_000_000, 8), np.uint8), 64))
    sb.save(index, path)
    script = f"""
import resource, streambits as sb
def held():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
before = held()
index = sb.load({str(path)!r})
print(held() - before, len(index), 77 in index)
"""
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    grown, count, there = run.stdout.split()
    assert (count, there) == ("4000000", "True")
    assert int(grown) < path.stat().st_size / 10


def test_a_save_that_is_killed_leaves_the_old_file_whole(path):
    script = f"""
import numpy as np, streambits as sb
index = sb.HammingIndex(64)
index.add(sb.Codes(np.random.default_rng(0).integers(0, 256, (300_000, 8), np.uint8), 64))
while True:
    sb.save(index, {str(path)!r})
    print("saved", flush=True)
"""
    for delay in (0.0, 0.003, 0.01, 0.02):
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        assert len(sb.load(path)) == 300_000


def test_an_index_cut_off_anywhere_is_an_error(path):
    index = HammingIndex(9, method="multi")
    index.add(codes_of(np.random.default_rng(0), 100, 9))
    index.search(codes_of(np.random.default_rng(0), 1, 9), 1)
    sb.save(index, path)
    whole = path.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 50)):
        path.write_bytes(whole[:length])
        with pytest.raises(StorageError, match="cut off"):
            sb.load(path)


def test_arrays_that_do_not_fit_together_are_an_error(path):
    index = HammingIndex(9)
    index.add(codes_of(np.random.default_rng(0), 100, 9))
    sb.save(index, path)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + size])
    name = next(name for name in head if name.endswith("ids"))
    start, end = head[name]["data_offsets"]
    head[name]["shape"] = [50, 2]
    text = json.dumps(head).encode()
    text += b" " * (size - len(text))
    path.write_bytes(content[:8] + text + content[8 + size :])
    assert end > start
    with pytest.raises(StorageError, match="damaged"):
        sb.load(path)
