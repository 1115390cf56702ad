"""Indexes in files: the same answers, opened without reading, never half-written."""

import json
import subprocess
import sys
from functools import reduce
from operator import getitem

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import streambits as sb
from streambits import Codes, HammingIndex, storage
from streambits.errors import StorageError

SEGMENT = ("shelves", "dict", "0", "dict", "0", "dict")  # in the manifest


@pytest.fixture
def path(tmp_path):
    return tmp_path / "index.safetensors"


def codes_of(rng, count, bits, epoch=0, refine=0):
    packed = np.packbits(rng.random((count, bits)) < 0.5, axis=1, bitorder="little")
    refinement = rng.integers(0, 256, (count, refine), np.uint8) if refine else None
    return Codes(packed, bits, epoch, refinement)


def contents(index):
    return [
        (
            ids.tolist(),
            codes.epoch,
            codes.packed.tolist(),
            codes.refine and codes.refinement.tolist(),
        )
        for ids, codes in index.items()
    ]


@given(st.integers(0, 2**32), st.sampled_from([1, 30, 64, 130]), st.sampled_from([0, 5]))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(0, 0, 5)
def test_a_loaded_index_goes_on_as_if_never_saved(path, seed, bits, refine):
    rng = np.random.default_rng(seed)
    index = HammingIndex(bits)
    index.add(codes_of(rng, 300, bits, 0, refine))
    index.add(codes_of(rng, 50, bits, 0, refine), rng.permutation(50) - 1000)
    index.remove(rng.permutation(300)[:20])
    sb.save(index, path)
    loaded = sb.load(path)
    assert (loaded.bits, loaded.refine, loaded.epochs) == (bits, refine, (0,))
    assert contents(loaded) == contents(index)
    for changed in (index, loaded):
        again = np.random.default_rng(1)
        changed.add(codes_of(again, 40, bits, 0, refine))
        changed.update(codes_of(again, 20, bits, 0, refine), np.arange(-1000, -980))
        changed.remove(np.arange(-960, -951))
        changed.add(codes_of(again, 30, bits, 2, refine))
    assert contents(loaded) == contents(index)
    if bits:
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


@pytest.mark.slow
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


def test_an_index_cut_off_anywhere_is_an_error(path):
    index = HammingIndex(9)
    index.add(codes_of(np.random.default_rng(0), 100, 9))
    sb.save(index, path)
    whole = path.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 50)):
        path.write_bytes(whole[:length])
        with pytest.raises(StorageError, match="truncated"):
            sb.load(path)


def rewritten(path, change):
    """The file with its manifest and arrays changed and digests that fit: a lie, not damage."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    manifest = json.loads(json.loads(content[8:start])["__metadata__"]["streambits"])
    with path.open("rb") as file:
        arrays = storage._mapped(file, manifest["arrays"], start)
    change(manifest["model"]["state"]["dict"], arrays)
    manifest["arrays"] = {name: storage._entry(name, array) for name, array in arrays.items()}
    head = storage._head(json.dumps(manifest), manifest["arrays"])
    path.write_bytes(head + b"".join(array.tobytes() for array in arrays.values()))


def other(name, value):
    """Another value in the manifest, where it is."""

    def change(model, _):
        if name in model:
            model[name] = value
        else:
            reduce(getitem, (*SEGMENT, "store", "dict"), model)[name] = value

    return change


def array(name, change):
    """Another array."""

    def changed(_, arrays):
        full = f"model.shelves.0.0.{name}"
        arrays[full] = np.ascontiguousarray(change(arrays[full].copy()))

    return changed


def written(place, value):
    def change(values):
        values.reshape(-1)[place] = value
        return values

    return change


LIES = {
    "bits": other("bits", 94),
    "many bits": other("bits", 3999),
    "bits of another type": other("bits", "64"),
    "next": other("next", -3),
    "dead": other("dead", -5_000_000),
    "dead of another type": other("dead", 0.5),
    "all dead": array("store.alive", np.zeros_like),
    "alive is 2": array("store.alive", lambda alive: (2 * alive.view(np.uint8)).view(np.bool_)),
    "planes": array("store.words", lambda words: np.repeat(words, 64, axis=0)),
    "no planes": array("store.words", lambda words: words[:0]),
    "words of another type": array("store.words", lambda words: words.astype(np.float64)),
    "bits past the last": array("store.words", written(-1, 1 << 63)),
    "descending ids": array("store.ids", lambda ids: ids[::-1]),
    "equal ids": array("store.ids", lambda ids: 0 * ids),
    "ids of another type": array("store.ids", lambda ids: ids.astype(np.float32)),
    "fewer ids": array("store.ids", lambda ids: ids[:-1]),
}


def test_a_plain_index_says_nothing_of_refinements(path):
    """So its files are those that were written before there were any."""
    sb.save(HammingIndex(64, refine=5), path)
    assert sb.load(path).refine == 5
    index = HammingIndex(64)
    sb.save(index, path)
    assert sb.load(path).refine is None
    index.add(codes_of(np.random.default_rng(0), 30, 64))
    sb.save(index, path)
    assert b"refine" not in path.read_bytes()
    assert sb.load(path).refine == 0


def without_refine(model, _):
    del model["refine"]


def without_refinement(model, arrays):
    del reduce(getitem, (*SEGMENT, "store", "dict"), model)["refinement"]
    del arrays["model.shelves.0.0.store.refinement"]


REFINED_LIES = {
    "more bytes": other("refine", 6),
    "bytes of another type": other("refine", "5"),
    "too many bytes": other("refine", 400),
    "no bytes": other("refine", 0),
    "no word of bytes": without_refine,
    "no refinement": without_refinement,
    "fewer rows": array("store.refinement", lambda refinement: refinement[:-1]),
    "fewer columns": array("store.refinement", lambda refinement: refinement[:, 1:]),
    "another type": array("store.refinement", lambda refinement: refinement.view(np.int8)),
    "transposed": array("store.refinement", lambda refinement: refinement.T),
}


@pytest.mark.parametrize(
    ("lie", "bits", "refine"),
    [
        *((lie, 61, 0) for lie in LIES.values()),
        *((lie, bits, 5) for lie in REFINED_LIES.values() for bits in (0, 64)),
    ],
    ids=[*LIES, *(f"{lie}, {bits} bits" for lie in REFINED_LIES for bits in (0, 64))],
)
def test_a_file_that_lies_is_refused_before_a_kernel_follows_it(path, lie, bits, refine):
    """With digests that fit, so that only the checks of the contents are left."""
    index = HammingIndex(bits)
    index.add(codes_of(np.random.default_rng(0), 3000, bits, 0, refine))
    index.remove([5])
    sb.save(index, path)
    rewritten(path, lambda *_: None)
    assert contents(sb.load(path)) == contents(index)
    rewritten(path, lie)
    with pytest.raises(StorageError, match=r"index.safetensors is intact, but not what"):
        sb.load(path).get([1])


def test_search_tables_of_older_files_are_passed_over(path):
    index = HammingIndex(64)
    index.add(codes_of(np.random.default_rng(0), 30, 64))
    sb.save(index, path)
    tables = {"kind": "Tables", "state": {"dict": {}}}
    rewritten(path, lambda model, _: reduce(getitem, SEGMENT, model).update(tables=tables))
    assert contents(sb.load(path)) == contents(index)


def test_damage_is_found_when_the_codes_are_first_needed_or_by_verify(path):
    rng = np.random.default_rng(0)
    index, codes = HammingIndex(64), codes_of(rng, 500, 64)
    index.add(codes)
    sb.save(index, path)
    sb.load(path).verify()
    whole = path.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    for place in range(start, len(whole), len(whole) // 100):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        bad = sb.load(path)
        assert (len(bad), bad.epochs) == (500, (0,))
        uses = [
            bad.verify,
            lambda: bad.search(codes[:1], 1),  # noqa: B023
            lambda: bad.within(codes[:1], 1),  # noqa: B023
            lambda: bad.add(codes[:1]),  # noqa: B023
            lambda: bad.remove([3]),  # noqa: B023
            lambda: bad.update(codes[:1], [3]),  # noqa: B023
            lambda: bad.get([3]),  # noqa: B023
            lambda: 3 in bad,  # noqa: B023
            lambda: list(bad),  # noqa: B023
            lambda: list(bad.items()),  # noqa: B023
            lambda: sb.save(bad, path),  # noqa: B023
        ]
        for use in uses:
            with pytest.raises(StorageError, match=r"damaged \(model.shelves.0.0"):
                use()
        assert len(bad) == 500


@pytest.mark.slow
def test_an_index_that_is_replaced_while_it_is_loaded_is_the_old_one_or_the_new(path):
    """A writer alternates between two indexes of different lengths and sizes."""
    rng = np.random.default_rng(0)
    kinds = {}
    for bits, count in ((64, 500), (128, 300)):
        index = HammingIndex(bits)
        index.add(codes_of(rng, count, bits))
        other = path.with_name(f"{bits}")
        sb.save(index, other)
        kinds[bits] = (other, contents(index))
    script = f"""
import os, shutil
paths = {[str(kind[0]) for kind in kinds.values()]!r}
new = {str(path)!r} + ".next"
while True:
    for path in paths:
        shutil.copyfile(path, new)
        os.replace(new, {str(path)!r})
"""
    sb.save(index, path)
    with subprocess.Popen([sys.executable, "-c", script]) as writer:
        try:
            found = [sb.load(path) for _ in range(1500)]
        finally:
            writer.kill()
    assert {index.bits for index in found} == set(kinds)
    for index in found:
        assert contents(index) == kinds[index.bits][1]
