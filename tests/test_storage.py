import json
import os
import stat
import subprocess
from functools import reduce
from operator import getitem
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open

import streambits as sb
from streambits import Coder, Learner, _files, storage
from streambits.errors import InputError, StorageError
from streambits.features import GaussianAffinity
from streambits.model.projection import Projection
from streambits.sketches import Gram


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def rewritten(path, change):
    """The file with its manifest changed and digests that fit: made by others, not damaged."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    manifest = json.loads(json.loads(content[8:start])["__metadata__"]["streambits"])
    arrays = manifest["arrays"]
    manifest = change(manifest)
    path.write_bytes(storage._head(json.dumps(manifest), arrays) + content[start:])


def places(content):
    """Where the arrays of a file begin and end, by name."""
    start = 8 + int.from_bytes(content[:8], "little")
    head = json.loads(content[8:start])
    del head["__metadata__"]
    return {name: [start + i for i in entry["data_offsets"]] for name, entry in head.items()}


@pytest.mark.parametrize("count", [0, 10, 2048, 3000])
def test_a_loaded_learner_goes_on_as_if_never_stopped(
    *, method, count, build, train, rows, path, fingerprint
):
    learner = build(method, train)
    for part in np.array_split(rows[:count], 3) if count else []:
        learner.learn(part).coder()
    sb.save(learner, path)
    again = sb.load(path)
    assert fingerprint(again) == fingerprint(learner)
    assert again.nbytes == learner.nbytes
    for each in (learner, again):
        each.learn(rows[count:4500]).coder()
        each.learn(rows[4500:])
    assert fingerprint(again) == fingerprint(learner)
    assert again.coder().encode(rows) == learner.coder().encode(rows)


def test_a_learner_is_steady_and_keeps_its_epoch_across_a_file(train, rows, path, fingerprint):
    learner = sb.ssbc(train, 8).learn(rows[:100])
    learner.new_epoch()
    learner.coder()
    sb.save(learner, path)
    again = sb.load(path)
    assert again.epoch == 1
    assert fingerprint(again.learn(rows).coder()) == fingerprint(learner.learn(rows).coder())


def test_a_loaded_coder_gives_the_same_codes(*, method, build, train, rows, path, digest):
    coder = build(method, train).learn(rows).coder()
    sb.save(coder, path)
    again = sb.load(path)
    assert type(again) is Coder
    assert digest(again.encode(rows)) == digest(coder.encode(rows))


def test_saving_twice_gives_the_same_bytes_and_one_file(train, rows, path, tmp_path):
    learner = sb.ssbc(train, 8).learn(rows)
    sb.save(learner, path)
    first = path.read_bytes()
    sb.save(learner, str(path))
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_has_the_permissions_of_any_new_file(train, path, tmp_path):
    sb.save(sb.ssbc(train, 8), path)
    (tmp_path / "plain").write_bytes(b"")
    modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert len(modes) == 1


def test_a_file_cut_off_anywhere_is_an_error_that_says_so(train, path):
    sb.save(sb.ssbc(train, 8), path)
    whole = path.read_bytes()
    lengths = {0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1}
    lengths |= set(range(0, len(whole), len(whole) // 40))
    for length in sorted(lengths):
        path.write_bytes(whole[:length])
        with pytest.raises(StorageError, match=f"{path.name} is truncated.*save the model again"):
            sb.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.random.default_rng(0).bytes(1000), "not a streambits file"),
        (safetensors.numpy.save({"weight": np.eye(3)}), "not of streambits"),
        (safetensors.numpy.save({"weight": np.eye(3)}, {"format": "pt"}), "not of streambits"),
        (safetensors.numpy.save({"a": np.eye(2)}, {"streambits": "{"}), "damaged"),
    ],
)
def test_a_file_of_something_else_is_an_error(path, content, message):
    path.write_bytes(content)
    for load in (lambda: sb.load(path), lambda: sb.from_bytes(content)):
        with pytest.raises(StorageError, match=message):
            load()


PART = ("model", "state", "dict")
CHANGES = [  # where in the manifest, what is put there (None: it is taken out), and the complaint
    (("format",), storage.FORMAT + 1, f"{storage.FORMAT + 1}.*reads {storage.FORMAT}: upgrade"),
    (("format",), storage.FORMAT - 1, f"{storage.FORMAT - 1}.*reads {storage.FORMAT}; learn it"),
    (("format",), "one", "damaged"),
    (("model", "kind"), "Oracle", "Oracle.*register"),
    ((*PART, "sketch", "kind"), "Oracle", "Oracle.*register"),
    ((*PART, "bits"), None, "intact, but not what.*bits.*save the model again"),
    ((*PART, "waiting", "array"), "nowhere", "nowhere"),
    (("model",), None, "damaged.*save the model again"),
    (("model",), 5, "model.safetensors"),
    (("model",), (*PART, "features"), "model.safetensors"),  # only a part
    ((), ["streambits"], "not a streambits file"),
]


@pytest.mark.parametrize(("where", "value", "message"), CHANGES)
def test_a_manifest_that_does_not_hold_is_an_error(*, train, path, where, value, message):
    def change(manifest):
        if not where:
            return value
        *outer, last = where
        place = reduce(getitem, outer, manifest)
        place[last] = reduce(getitem, value, manifest) if isinstance(value, tuple) else value
        if value is None:
            del place[last]
        return manifest

    sb.save(sb.ssbc(train, 8), path)
    rewritten(path, change)
    with pytest.raises(StorageError, match=message):
        sb.load(path)


def test_a_missing_file_and_a_folder_are_errors_that_name_it(path, tmp_path):
    with pytest.raises(StorageError, match=r"model.safetensors does not exist"):
        sb.load(path)
    with pytest.raises(StorageError, match=tmp_path.name):
        sb.load(tmp_path)


def test_a_missing_folder_is_an_error_that_names_it(train, tmp_path):
    with pytest.raises(StorageError, match="nowhere"):
        sb.save(sb.ssbc(train, 8), tmp_path / "nowhere" / "model.safetensors")


@pytest.mark.parametrize("model", [None, "learner", {"bits": 8}, np.eye(2)])
def test_only_learners_and_coders_are_saved(path, model):
    with pytest.raises(InputError, match=f"not {type(model).__name__}"):
        sb.save(model, path)
    assert not path.exists()


@pytest.mark.parametrize("broken", ["write", "fsync", "replace"])
def test_a_failure_in_the_middle_leaves_the_old_file_whole_and_no_other(
    *, train, rows, path, tmp_path, monkeypatch, broken
):
    sb.save(sb.ssbc(train, 8), path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("the disk is full")

    learner = sb.ssbc(train, 9).learn(rows)
    if broken == "write":
        opened = open

        class Half:
            def __init__(self, *args, **options):
                self.file = opened(*args, **options)

            def __enter__(self):
                return self

            def __exit__(self, *_):
                self.file.close()

            def write(self, content):
                self.file.write(content[: len(content) // 2])
                fail()

        monkeypatch.setattr("builtins.open", Half)
    else:
        monkeypatch.setattr(Path if broken == "replace" else os, broken, fail)
    with pytest.raises(StorageError, match="disk is full"):
        sb.save(learner, path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_any_changed_byte_is_an_error(train, rows, path):
    """Every byte of the head, and a byte of every array."""
    sb.save(sb.ssbc(train, 8, epochs="auto").learn(rows), path)
    whole = path.read_bytes()
    at = places(whole)
    first = min(start for start, _ in at.values())
    checked = [*range(0, first, 7), *(start for start, end in at.values() if end > start)]
    assert len(at) > 10
    for place in checked:
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(StorageError, match=path.name):
            sb.load(path)


def test_what_another_library_reads_is_what_was_saved(train, rows, path):
    """The format is that of safetensors: its own library is the oracle."""
    coder = sb.ssbc(train, 8).learn(rows).coder()
    sb.save(coder, path)
    with safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert np.array_equal(arrays["model.matrix"], coder.projection.matrix)
    assert np.array_equal(arrays["model.features.landmarks"], coder.features.landmarks)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["matrix", "thresholds"])
def test_a_model_with_numbers_that_are_not_finite_is_neither_saved_nor_loaded(
    *, train, rows, path, name, value, monkeypatch
):
    coder = sb.ssbc(train, 8).learn(rows).coder()
    getattr(coder.projection, name)[...] = value
    with pytest.raises(StorageError, match=f"{name} has numbers that are not finite"):
        sb.save(coder, path)
    assert not path.exists()
    with monkeypatch.context() as blind:
        blind.setattr(storage, "_is_finite", lambda *_: True)
        sb.save(coder, path)
    with pytest.raises(StorageError, match="not finite"):
        sb.load(path)


def test_the_digest_tells_files_apart(train, rows, path):
    learner = sb.ssbc(train, 8)
    digests = []
    for part in np.array_split(rows, 3):
        for _ in range(2):
            sb.save(learner, path)
            digests.append(storage.opened(path).digest)
        learner.learn(part)
    assert digests[::2] == digests[1::2]
    assert len(set(digests)) == 3


def test_a_private_file_is_for_its_owner_alone(train, path):
    sb.save(sb.ssbc(train, 8), path, private=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_may_not_be_read_is_not_said_to_be_missing(train, path, monkeypatch):
    sb.save(sb.ssbc(train, 8), path)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(StorageError, match="cannot be read: Permission denied"):
        sb.load(path)


def test_what_killed_processes_left_is_removed_and_what_others_write_is_not(train, path):
    process = subprocess.Popen(["sleep", "30"])
    names = [
        path.with_name(f".{path.name}.{_files._MACHINE}.{number}.7.new")
        for number in (process.pid, 2**22 + 1)
    ]
    elsewhere = path.with_name(f".{path.name}.00000000.{2**22 + 1}.7.new")
    for name in (*names, elsewhere):
        name.write_bytes(b"half")
    sb.save(sb.ssbc(train, 8), path)
    process.kill()
    process.wait()
    assert [name.exists() for name in (*names, elsewhere)] == [True, False, True]


class Doubled(Gram):
    """A sketch of one's own."""


def test_parts_of_ones_own_are_stored_once_registered(train, rows, path, fingerprint, monkeypatch):
    learner = Learner(GaussianAffinity(train), Doubled(60), bits=8).learn(rows)
    with pytest.raises(StorageError, match=r"Doubled.*storage\.register"):
        sb.save(learner, path)
    monkeypatch.setattr(storage, "KINDS", dict(storage.KINDS))
    assert storage.register(Doubled) is Doubled
    sb.save(learner, path)
    assert fingerprint(sb.load(path)) == fingerprint(learner)


def test_arrays_of_another_library_come_back_on_the_host(rows, path):
    strict = pytest.importorskip("array_api_strict")
    coder = sb.ssbc(rows[:60], 8).learn(rows).coder()
    sb.save(coder.on(strict.zeros(1)), path)
    assert sb.load(path).encode(rows) == coder.encode(rows)


def test_arrays_in_any_order_of_memory_come_back_as_they_were(path, rows):
    rng = np.random.default_rng(0)
    landmarks, matrix = rows[:60], rng.standard_normal((60, 9))
    for mixed in (
        np.asfortranarray,
        lambda array: array[::-1][::-1],
        lambda a: a.repeat(2, 1)[:, ::2],
    ):
        projection = Projection(mixed(matrix), rng.standard_normal(9))
        coder = Coder(GaussianAffinity(mixed(landmarks)), projection, epoch=2)
        sb.save(coder, path)
        again = sb.load(path)
        assert np.array_equal(again.projection.matrix, matrix)
        assert np.array_equal(again.features.landmarks, landmarks)
        assert again.encode(rows) == coder.encode(rows)


def test_every_array_lies_where_its_numbers_may_be_mapped(path):
    rng, index = np.random.default_rng(0), sb.HammingIndex(70)
    for epoch, count in ((0, 5), (3, 7)):  # bytes of marks, before words of 8 bytes
        codes = sb.Codes.from_bits(rng.random((count, 70)) < 0.5, epoch)
        index.add(codes, np.arange(count) + 100 * epoch)
    sb.save(index, path)
    sizes = {name: array.itemsize for name, array in safetensors.numpy.load_file(path).items()}
    found = places(path.read_bytes())
    assert len(found) == 6
    assert all(found[name][0] % size == 0 for name, size in sizes.items())


def test_changes_of_a_loaded_index_do_not_reach_its_file(path):
    rng, index = np.random.default_rng(0), sb.HammingIndex(20)
    codes = sb.Codes.from_bits(rng.random((100, 20)) < 0.5)
    index.add(codes)
    sb.save(index, path)
    before, loaded = path.read_bytes(), sb.load(path)
    loaded.update(codes[[1, 0]], [0, 1])  # in place, as nobody else reads it
    loaded.remove([7])
    assert loaded.get([0, 1]) == codes[[1, 0]]
    assert path.read_bytes() == before
    assert sb.load(path).get([0, 1, 7]) == codes[[0, 1, 7]]


# Bytes


def test_bytes_are_what_a_file_has(*, method, build, train, rows, path, fingerprint):
    learner = build(method, train).learn(rows)
    sb.save(learner, path)
    data = sb.to_bytes(learner)
    assert data == path.read_bytes()
    assert storage.digest(data) == storage.digest(path)
    assert fingerprint(sb.from_bytes(data)) == fingerprint(learner)
    assert fingerprint(sb.from_bytes(memoryview(data))) == fingerprint(learner)


def test_an_index_and_a_coder_come_back_from_bytes(train, rows):
    coder = sb.ssbc(train, 12, refine=2).learn(rows).coder()
    index = sb.HammingIndex(12)
    index.add(coder.encode(rows))
    again = sb.from_bytes(sb.to_bytes(index))
    asked = coder.queries(rows[:5])
    assert again.search(asked, 3).ids.tolist() == index.search(asked, 3).ids.tolist()
    again.remove([0])  # it is not a view of the bytes
    assert sb.from_bytes(sb.to_bytes(coder)).encode(rows) == coder.encode(rows)


def test_bytes_that_are_damaged_are_refused(learner):
    data = sb.to_bytes(learner)
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(data), 40):
        broken = bytearray(data)
        broken[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(StorageError, match="a shard"):
            sb.from_bytes(broken, name="a shard")
    for size in (0, 7, 100, len(data) - 1):
        with pytest.raises(StorageError, match="the data"):
            sb.from_bytes(data[:size])
    with pytest.raises(InputError, match="not dict"):
        sb.to_bytes({})
