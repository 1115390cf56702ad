"""Specimens: one small file of every kind that streambits writes, and what is asked of it."""

import contextlib
import hashlib
import io
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import typer
from typer.main import get_command

import streambits as sb
import streambits.jobs.job
import streambits.jobs.reader
from streambits.cli import app as cli
from streambits.cli import config, tune
from streambits.errors import StreambitsError
from streambits.io.codes import faiss, open_sink
from streambits.io.codes.convert import export
from streambits.io.codes.parquet import write_codes

BITS, COLUMNS = 12, 12
COUNT = 700  # rows of a job
QUICK = ("--set", "commit_rows=100", "--set", "quiet=true")
JOB = ("--bits", str(BITS), "--set", "n_landmarks=30", *QUICK)
ONLINE = ["bad.csv", "--ids", "id", "--skip-bad"]


class Specimen(NamedTuple):
    """kind: what it is; folder: with all that belongs to it; file: the one to damage; asked:
    questions, functions of its path and its name.
    """

    kind: str
    folder: Path
    file: str
    asked: tuple[Callable[[Path, str], str], ...]

    @property
    def whole(self):
        """What decides about the right answers: those about a job do not depend on the file."""
        return self._replace(file="") if set(self.asked) <= OF_JOBS else self

    def answers(self):
        """What the questions give, each a text; the working folder is a copy of `folder`."""
        return {question.__name__: _answer(question, self.file) for question in self.asked}


def _answer(question, file):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            return question(Path(file), file)
        except StreambitsError as error:
            return f"refused: {error}"
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            return f"raises {error!r}"


def rows(count=400, seed=0):
    """Clustered rows, so that all methods have something to learn."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, COLUMNS)).astype(np.float32) + 3 * rng.integers(0, 2, (count, 1))


def verb(*arguments):
    """What a command prints; its refusal is one of our errors, anything else is a fault."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    code: object = 0
    before = sys.argv
    sys.argv = ["streambits", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = before
    said, told = ((part.flush(), part.buffer.getvalue().decode())[1] for part in (out, err))
    if code in (0, None):
        return said
    lines = [line for line in told.splitlines() if line.startswith("streambits: ")]
    if code == 1 and len(lines) == 1 and "Traceback" not in told:
        raise StreambitsError(lines[0])
    raise AssertionError(f"{arguments[0]} ends with {code}: {told}")


# Questions: of the damaged file, from the folder it is in.


def codes_by_learner(path, _):
    """Of rows, before and after learning more."""
    learner = sb.load(path)
    first = learner.coder().encode(rows(50, seed=1))
    learner.learn(rows(60, seed=2))
    return _text(first) + _text(learner.coder().encode(rows(50, seed=1)))


def merged(path, _):
    whole = sb.load("other.safetensors")
    whole.merge(sb.load(path))
    return _text(whole.coder().encode(rows(50, seed=1)))


def codes_by_coder(path, _):
    return _text(sb.load(path).encode(rows(50, seed=1)))


def found_by_coders(path, _):
    coders = sb.load(path)
    found = coders.search(sb.load("codes.index"), rows(5, seed=1), 10)
    each = [_text(coders[epoch].encode(rows(50, seed=1))) for epoch in coders]
    return f"{found.ids.tolist()} {found.distances.tolist()} {each}"


def found_in_index(path, _):
    index = sb.load(path)
    queries = {
        epoch: sb.Codes.from_bits(rows(6, seed=epoch)[:, :1] * np.ones(index.bits) > 1, epoch)
        for epoch in index.epochs
    }
    near, within = index.search(queries, 5), index.within(queries, 3)
    return f"{near.ids.tolist()} {near.distances.tolist()} {[hits.ids.tolist() for hits in within]}"


def changed_index(path, _):
    """Contents of an index after it was changed."""
    index = sb.load(path)
    index.remove([next(iter(index))])
    more = sb.Codes.from_bits(rows(3, seed=5)[:, :1] * np.ones(index.bits) > 1, 1)
    index.add(more, [10_001, 10_002, 10_003])
    return _contents(index)


def contents_of_codes(_, file):
    """Through the verb, into an index."""
    verb("index", file.partition("/")[0], "--out", "all.index", "--bits", str(BITS))
    return _contents(sb.load("all.index"))


def contents_of_faiss(path, _):
    return _contents(faiss.read_faiss(path, bits=BITS))


def contents_of_product_codes(path, _):
    """In a file of FAISS, with what they stand for."""
    found = faiss.read_faiss(path)
    decoded = found.coder.decode(found.index.get(range(300)))
    return _contents(found.index) + hashlib.sha256(decoded.tobytes()).hexdigest()


def contents_of_parquet(_, file):
    """Batch by batch, and by an index."""
    found = sb.open_codes(file.partition("/")[0], bits=BITS)
    each = "".join(f"{ids.tolist()} {_text(codes)}" for ids, codes in found)
    return each + _contents(found.index())


def inspected(_, file):
    """The file, or the folder that it is in."""
    return verb("inspect", file.partition("/")[0], "--json")


def job_inspected(_, __):
    return verb("inspect", "job", "--json")


def job_searched(_, __):
    return verb("search", "job", "--query", "queries.npy", "-k", "5")


def codes_of_job(_, __):
    verb("index", "job/codes", "--out", "all.index", "--bits", str(BITS))
    return _contents(sb.load("all.index"))


def resumed(_, __):
    """The job goes on to its end; then what it has made. Asked last: it changes the files."""
    verb(*json.loads(Path("command.json").read_text()))
    made = {}
    if Path("job/model.safetensors").exists():
        made["model"] = codes_by_learner("job/model.safetensors", "")
    if Path("job/rejects.jsonl").exists():
        made["rejects"] = Path("job/rejects.jsonl").read_text()
    if os.path.lexists("job/codes"):
        made["codes"] = codes_of_job("", "")
    return json.dumps(made)


def settings_read(path, _):
    try:
        return json.dumps([(one.name, one.text) for one in config.read_config(path)])
    except typer.BadParameter as error:  # one line on stderr, as for all settings
        raise StreambitsError(str(error)) from error


OF_JOBS = {job_inspected, job_searched, codes_of_job, resumed}


def _text(codes):
    held = codes.packed.tobytes() + (
        b"" if codes.refinement is None else codes.refinement.tobytes()
    )
    lengths = f"{codes.bits} bits and {codes.refine} bytes"
    digest = hashlib.sha256(held).hexdigest()[:16]
    return f"{len(codes)} of {lengths}, epoch {codes.epoch}: {digest}; "


def _contents(index):
    return "".join(f"{ids.tolist()} {_text(codes)}" for ids, codes in index.items())


# The specimens themselves.


def build(root):
    """All specimens, each in a folder of its own under `root`."""
    prepare()
    found = []
    for make in (*FILES, learners, unfinished_jobs, finished_jobs):
        found += make(root)
    found += others(root)
    return found


def prepare():
    """Jobs that read and commit a few rows at a time; verbs that are made once."""
    cli.app = get_command(cli.app) if isinstance(cli.app, typer.Typer) else cli.app
    streambits.jobs.reader.TOGETHER = 100
    sb.io.rows.open_source.__kwdefaults__["rows"] = 100


def learners(root):
    for name, method in sb.methods.METHODS.items():
        folder = _folder(root, f"learner-{name}")
        for file, part in (("model", rows()), ("other", rows(seed=3))):
            learner = method(rows(40), BITS)
            learner.learn(part)
            learner.coder()
            sb.save(learner, folder / f"{file}.safetensors")
        asked = (codes_by_learner, merged, inspected)
        yield Specimen("learner", folder, "model.safetensors", asked)


def _two_epochs():
    learner, kept = sb.ssbc(rows(40), BITS, epochs=512), sb.CoderSet()
    index = sb.HammingIndex(BITS)
    for ids, codes in sb.encode_online(learner, np.split(rows(800), 8), coders=kept):
        index.add(codes, ids)
    return learner, kept, index


def coders(root):
    folder = _folder(root, "coders")
    learner, kept, index = _two_epochs()
    sb.save(learner.coder(), folder / "coder.safetensors")
    sb.save(kept, folder / "coders.safetensors")
    sb.save(index, folder / "codes.index")
    asked = (codes_by_coder, inspected)
    yield Specimen("coder", folder, "coder.safetensors", asked)
    asked = (found_by_coders, inspected)
    yield Specimen("coders", folder, "coders.safetensors", asked)


def indexes(root):
    rng = np.random.default_rng(0)
    index = sb.HammingIndex(BITS)
    index.add(sb.Codes.from_bits(rng.random((500, BITS)) < 0.5))
    yield _index(_folder(root, "index-one"), index, "index, one epoch")
    index = _two_epochs()[2]
    yield _index(_folder(root, "index-epochs"), index, "index, several epochs")
    index.remove(list(index)[10:40])
    yield _index(_folder(root, "index-dead"), index, "index, removed codes")


def _index(folder, index, kind):
    sb.save(index, folder / "codes.index")
    asked = (found_in_index, changed_index, inspected)
    return Specimen(kind, folder, "codes.index", asked)


def codes(root):
    index = sb.HammingIndex(BITS)
    index.add(sb.Codes.from_bits(np.random.default_rng(0).random((300, BITS)) < 0.5))
    folder = _folder(root, "codes")
    export(index, folder / "codes.parquet")
    asked = (contents_of_parquet, contents_of_codes, inspected)
    yield Specimen("Parquet, a file", folder, "codes.parquet", asked)
    (folder / "parts").mkdir()
    for part, (ids, some) in enumerate(index.items(100)):
        write_codes(
            [sb.model.batches.CodeBatch(ids, some)], BITS, folder / f"parts/part-{part:06d}.parquet"
        )
    yield Specimen("Parquet, a folder", folder, "parts/part-000001.parquet", asked)
    faiss.write_faiss(index, folder / "codes.faiss")
    asked = (contents_of_faiss, contents_of_codes, inspected)
    yield Specimen("FAISS", folder, "codes.faiss", asked)


def refined_codes(root):
    """Codes with refinements, as sinks write them; and codes without sign bits in FAISS."""
    rng = np.random.default_rng(1)
    plain = sb.Codes.from_bits(rng.random((300, BITS)) < 0.5)
    codes = sb.Codes(plain.packed, BITS, 0, rng.integers(0, 256, (300, 3), np.uint8))
    folder = _folder(root, "refined")
    sink = open_sink(folder / "parts", BITS, refine=3)
    sink.write(rng.integers(0, 250, 300), codes)  # some ids come twice
    sink.close()
    file, asked = "parts/part-000000.parquet", (contents_of_parquet,)
    yield Specimen("refined codes, Parquet", folder, file, asked)
    learner = sb.Learner(sb.features.Linear(rows()[0]), sb.sketches.Gram(COLUMNS), bits=0, refine=3)
    coder = learner.learn(rows()).coder()
    index = sb.HammingIndex(0, refine=3)
    index.add(coder.encode(rows(300)))
    faiss.write_faiss(index, folder / "codes.faiss", coder)
    asked = (contents_of_product_codes,)
    yield Specimen("product codes, FAISS", folder, "codes.faiss", asked)


def unfinished_jobs(root):
    """Stopped after a commit; then any of their files is damaged."""
    asked = (job_inspected, resumed)
    folder = _sources(root, "unfinished-online")
    _job(folder, "online", *ONLINE, *JOB)
    yield from _files(folder, "unfinished online", (codes_of_job, *asked))
    folder = _sources(root, "unfinished-learn")
    _job(folder, "learn", "rows.npy", *JOB)
    yield from _files(folder, "unfinished learn", asked)
    folder = _sources(root, "unfinished-encode")
    _job(folder, "encode", "model.safetensors", "rows.npy", *QUICK)
    yield from _files(folder, "unfinished encode", (job_searched, *asked))


def finished_jobs(root):
    """Ids came twice, so rows were dropped at the end; then any of the files is damaged."""
    asked = (job_inspected, codes_of_job, resumed)
    folder = _sources(root, "finished")
    _job(folder, "online", *ONLINE, *JOB, "--set", "epochs=512", stopped=False)
    yield from _files(folder, "finished online, folder", (job_searched, *asked))


def others(root):
    folder = _folder(root, "others")
    told = {"method": "ssbc", "bits": 64, "n_landmarks": 500, "whitening": 0.5, "rotation": "itq"}
    tune.write(folder / "tuned.toml", told)
    yield Specimen("settings of tune", folder, "tuned.toml", (settings_read,))


def _folder(root, name):
    folder = Path(root) / name
    folder.mkdir(parents=True)
    return folder


def _sources(root, name):
    """A folder with rows, bad rows among them, ids that come twice, queries, and a model."""
    folder = _folder(root, name)
    np.save(folder / "rows.npy", rows(COUNT))
    np.save(folder / "queries.npy", rows(3, seed=1))
    with (folder / "bad.csv").open("w") as file:
        print("id", *"abcdefghijkl", sep=",", file=file)
        for number, row in enumerate(rows(COUNT)):
            values = ["?"] * COLUMNS if number % 50 == 7 else row.tolist()
            print(number % 690, *values, sep=",", file=file)
    learner = sb.ssbc(rows(40), BITS)
    sb.save(learner.learn(rows()), folder / "model.safetensors")
    return folder


def _job(folder, *arguments, stopped=True):
    """Run a job there; its command is kept, to go on with."""
    command = [*arguments, "--out", "job"]
    (folder / "command.json").write_text(json.dumps(command))
    with contextlib.chdir(folder), _stopping(stopped):
        verb(*command)


def _files(folder, kind, asked):
    """A specimen for each file that the job there has made."""
    sources = {path.name for path in folder.glob("*.*")}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.name not in {"lock", *sources}:
            yield Specimen(kind, folder, str(path.relative_to(folder)), asked)


@contextlib.contextmanager
def _stopping(wanted):
    """Jobs are asked to stop when they have committed some rows."""
    tell = streambits.jobs.job.Job._report

    def and_stop(job, event, **more):
        if event == "commit" and not job.__dict__.get("asked") and job.rows >= 100:
            job.asked = True
            signal.raise_signal(signal.SIGTERM)
        return tell(job, event, **more)

    streambits.jobs.job.Job._report = and_stop if wanted else tell
    try:
        yield
    finally:
        streambits.jobs.job.Job._report = tell


FILES = (coders, indexes, codes, refined_codes)  # quickly made
