"""Make the files that later versions must read and the fingerprints that they must reproduce.

    python tests/golden/make.py codes       # models and digests.json: only for new methods
    python tests/golden/make.py fixtures    # a folder of saved files, named by this version

What is there is never overwritten: a fingerprint that has changed is a bug, not a new fingerprint.
"""

import hashlib
import json
import os
import shutil
import sys
from contextlib import chdir
from itertools import product
from pathlib import Path

import numpy as np

import streambits as sb
from paper import methods as rivals
from streambits.cli.app import main as command
from streambits.io.codes import open_sink
from streambits.io.codes.convert import export

HERE = Path(__file__).parent
MODELS, DIGESTS = HERE / "models", HERE / "digests.json"
FORMATS = {  # name: where codes lie, and bytes of refinement
    "parquet": ("codes-parquet", 2),
    "jsonl": ("codes.jsonl", 2),
    "npy": ("codes.npy", 2),
    "index": ("codes.index", 2),
    "faiss": ("codes.faiss", 0),
}
JOB = ("online", "rows", "--bits", "8", "--refine", "2", "--set", "n_landmarks=30")
JOB = (*JOB, "--set", "epochs=never", "--out", "job", "--set", "quiet=true")


METHODS = {
    "ssbc": lambda rows, **more: sb.ssbc(rows[:40], 16, epochs="never", **more),
    "rff_fd": lambda rows, **more: rivals.rff_fd(rows[:40], 16, count=48, **more),
    "linear": lambda rows, **more: sb.methods.linear(rows[:40], 8, epochs="never", **more),
    "itq": lambda rows, **more: sb.methods.METHODS["itq"](rows[:40], 8, **more),
    "osh": lambda rows, **more: rivals.osh(rows[:40], 8, **more),
    "semi_supervised": lambda rows, **more: rivals.semi_supervised(
        rows[:40], 8, labels=np.arange(40) % 3, **more
    ),
}
DATA = ("sensors", "grid")  # waves with offsets and jumps; whole numbers, many of them equal
KINDS = {"plain": {}, "refined": {"refine": 2, "certified": True}}


def rows_of(data):
    """The rows of a data set as they are kept: random numbers may be others in a later NumPy."""
    return np.load(HERE / f"{data}.npy")


def digest(codes):
    """Of the bytes of codes and of what they mean."""
    head = f"{codes.bits} {codes.epoch} ".encode()
    more = b"" if codes.refinement is None else codes.refinement.tobytes()
    return hashlib.sha256(head + codes.packed.tobytes() + more).hexdigest()


def contents(stored):
    """Of batches of ids and codes, by id."""
    held = {}
    for ids, codes in stored:
        for place, key in enumerate(ids.tolist()):
            held[key] = f"{codes.epoch} {digest(codes[place : place + 1])}"
    return hashlib.sha256(json.dumps(sorted(held.items())).encode()).hexdigest()


def make_codes():
    MODELS.mkdir(exist_ok=True)
    known = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    for data, method, kind in product(DATA, METHODS, KINDS):
        name, rows = f"{method}-{data}-{kind}", rows_of(data)
        if name not in known:
            coder = METHODS[method](rows, **KINDS[kind]).learn(rows).coder()
            sb.save(coder, MODELS / f"{name}.safetensors")
            known[name] = digest(coder.encode(rows))
    DIGESTS.write_text(json.dumps(known, indent=1) + "\n")


def make_fixtures():
    folder = HERE / sb.__version__
    folder.mkdir()
    with chdir(folder):  # so that files name each other by relative paths
        found = {"models": _models()}
        found["stream_index"] = _stream_index()
        found["job"] = _job()
        found["codes"] = {name: _codes(name) for name in FORMATS}
        Path("expected.json").write_text(json.dumps(found, indent=1) + "\n")
        for lock in Path().rglob("lock"):
            lock.unlink()


def _models():
    rows = rows_of("sensors")
    learner = sb.ssbc(rows[:30], 8, refine=2, epochs="never").learn(rows[:300])
    learner.coder()
    sb.save(learner, "learner.safetensors")
    sb.save(learner.coder(), "coder.safetensors")
    coders, index = sb.CoderSet(sample=100), sb.HammingIndex(8)
    plain = sb.ssbc(rows[:30], 8, epochs="never")
    for start in (0, 300):
        some = rows[start : start + 300]
        coder = plain.learn(some).coder()
        coders.record(coder, some, coder.encode(some))
        index.add(coder.encode(some), np.arange(start, start + 300))
        plain.renew()
    index.remove([7])
    sb.save(coders, "coders.safetensors")
    sb.save(index, "two-epochs.index")
    return {
        "seen": learner.seen,
        "learner": digest(learner.coder().encode(rows)),
        "coder": digest(learner.coder().encode(rows)),
        "epochs": list(index.epochs),
        "index": len(index),
        "found": coders.search(index, rows[::100], 5, real=False).ids.tolist(),
    }


def _stream_index():
    """With a snapshot, and a journal of changes since."""
    rows = rows_of("sensors")
    settings = {"bits": 8, "refine": 2, "n_landmarks": 30, "epochs": "never", "method": "ssbc"}
    with sb.StreamIndex.open("stream-index", keep_rows=True, **settings) as index:
        index.add(rows[:400])
        index.compact()
        index.remove([3, 4])
        index.add(rows[400:500], np.arange(400, 500), note={"place": 500})
        return {"rows": len(index), "journal": index.journal_bytes}


def _job():
    Path("rows").mkdir()
    np.save("rows/a.npy", rows_of("sensors")[:400])
    assert run(*JOB) == 0
    return {"rows": 400, "codes": contents(sb.open_codes("job"))}


def run(*arguments):
    """The exit status of a command."""
    held, sys.argv = sys.argv, ["streambits", *arguments]
    try:
        command()
    except SystemExit as end:
        return end.code or 0
    finally:
        sys.argv = held
    return 0


def _codes(name):
    target, refine = FORMATS[name]
    rng = np.random.default_rng(5)
    packed = rng.integers(256, size=(50, 2), dtype=np.uint8)
    more = rng.integers(256, size=(50, refine), dtype=np.uint8) if refine else None
    codes = sb.Codes(packed, 16, 1, more)
    sink = open_sink(target if name == "parquet" else "made", 16, refine=refine)
    sink.write(np.arange(50), codes)
    sink.remove([4])
    sink.close()
    if name != "parquet":
        export("made", target)
        shutil.rmtree("made")
    held = [(np.delete(np.arange(50), 4), codes[np.delete(np.arange(50), 4)])]
    return contents(held)


if __name__ == "__main__":
    os.umask(0o022)
    {"codes": make_codes, "fixtures": make_fixtures}[sys.argv[1]]()
