"""Files that are replaced while they are read: each time all of the old one, or all of the new."""

import multiprocessing
import os

import numpy as np
import pytest

import streambits as sb
from streambits.io.codes.parquet import read_codes, write_codes
from streambits.model.batches import CodeBatch

LOADS = 100_000 if os.environ.get("STREAMBITS_SLOW") else 50
VERSIONS = 4  # of a file, that take turns


def index_of(version):
    """Two epochs for every second one, other lengths and other ids for each."""
    rng = np.random.default_rng(version)
    index = sb.HammingIndex(64 + 64 * (version % 2))
    for epoch in range(1 + version % 2):
        bits = rng.random((300 + version, index.bits)) < 0.5
        index.add(sb.Codes.from_bits(bits, epoch), 1000 * epoch + np.arange(len(bits)))
    return index


def codes_of(version):
    return CodeBatch(np.arange(200 + version), index_of(version).get(np.arange(200 + version)))


def write(kind, version, path):
    if kind == "parquet":
        part = codes_of(version)
        write_codes([part], part.codes.bits, path)
    else:
        sb.save(index_of(version), path)


def read(kind, path):
    """All that is in a file, as one text."""
    if kind == "parquet":
        parts = list(read_codes(path))
        return repr([(ids.tolist(), codes.bits, codes.packed.tobytes()) for ids, codes in parts])
    return repr([(ids.tolist(), repr(c), c.packed.tobytes()) for ids, c in sb.load(path).items()])


def go_on_writing(kind, path, ready):
    """Put one version after the other there, until this process is ended."""
    contents = []
    for version in range(VERSIONS):
        write(kind, version, path)
        contents.append(path.read_bytes())
    ready.set()
    number = 0
    while True:
        beside = path.with_name("beside")
        beside.write_bytes(contents[number % VERSIONS])
        beside.replace(path)
        number += 1


@pytest.mark.parametrize("kind", ["index", "parquet"])
def test_a_load_is_all_of_one_file(tmp_path, kind):
    path = tmp_path / "file"
    right = []
    for version in range(VERSIONS):
        write(kind, version, path)
        right.append(read(kind, path))
    assert len(set(right)) == VERSIONS
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    writer = context.Process(target=go_on_writing, args=(kind, path, ready), daemon=True)
    writer.start()
    try:
        assert ready.wait(60)
        found = {read(kind, path) for _ in range(LOADS)}
    finally:
        writer.kill()
        writer.join()
    assert found <= set(right)
    assert len(found) > 1  # it was replaced meanwhile
