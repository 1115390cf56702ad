"""Facts about a model, codes, an index or a job, as plain values."""

from collections import Counter
from collections.abc import Iterable
from os.path import lexists
from pathlib import Path
from typing import Any

from streambits._arrays import to_numpy
from streambits.epochs.coder_set import CoderSet
from streambits.epochs.detector import DriftMeasurement, latest
from streambits.errors import RankError, StorageError
from streambits.features import Features, GaussianAffinity
from streambits.index import HammingIndex
from streambits.io.codes import code_format, open_codes
from streambits.io.rows import BROKERS
from streambits.jobs.folder import Checkpoint, JobFolder
from streambits.jobs.progress import finite
from streambits.model.batches import CodeBatch
from streambits.model.coder import Coder
from streambits.model.learner import Learner
from streambits.storage import load

MEASUREMENTS = 5  # of the drift, the last
LEARNING = ("learn", "online")  # verbs that leave a model

Facts = dict[str, Any]


def describe(path: str | Path) -> Facts:
    """Describe what a file or folder holds.

    Parameters
    ----------
    path : path
        A learner, a coder, coders, an index, codes of any format, or the folder of a job.

    Returns
    -------
    dict
        Plain values, as JSON has them. 'kind' is learner, coder, coders, index, codes, checkpoint
        or job; the rest depends on it.

    Raises
    ------
    StorageError
        If there is nothing, it is damaged, or it is something else.

    Notes
    -----
    Reads all codes, and counts them.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import streambits as sb
    >>> rows = np.random.default_rng(0).random((500, 8), dtype=np.float32)
    >>> file = Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> sb.save(sb.ssbc(rows[:100], 16).learn(rows), file)
    >>> facts = describe(file)
    >>> facts["kind"], facts["rows"], facts["bits"], facts["columns"]
    ('learner', 500, 16, 8)
    """
    form = code_format(path)
    if form == "job":
        return _of_job(JobFolder(path))
    if form != "index":
        return {"kind": "codes", **_of_codes(open_codes(path))}
    return _of_file(Path(path))


def _of_file(path: Path) -> Facts:
    found = load(path)
    if isinstance(found, Learner):
        return {"kind": "learner", **_of_learner(found)}
    if isinstance(found, Coder):
        return {"kind": "coder", **_of_coder(found)}
    if isinstance(found, CoderSet):
        each = [_of_coder(found[epoch]) for epoch in found]
        return {"kind": "coders", "epochs": list(found), "bytes": found.nbytes, "coders": each}
    if isinstance(found, HammingIndex):
        codes = _of_codes(found.items(), found.bits)
        return {"kind": "index", **codes, "bytes": found.nbytes}
    if isinstance(found, Checkpoint):
        learner = found.models.get("learner")
        return {"kind": "checkpoint", **found.counts} | (_of_learner(learner) if learner else {})
    raise StorageError(f"{path} holds a {type(found).__name__}, of which there is nothing to say")


def _of_job(folder: JobFolder) -> Facts:
    """How far a job is, and all that it has made."""
    facts: Facts = {"kind": "job", "job": folder.description() or {}, "running": folder.running}
    last = folder.checkpoint()
    if last is not None:
        learns = facts["job"].get("verb") in LEARNING
        facts["finished"] = last.ended and (folder.model_file.exists() or not learns)
        facts["progress"] = last.counts
        source = facts["job"].get("source")  # a broker's end is only the last message there was
        facts["endless"] = isinstance(source, dict) and any(name in source for name in BROKERS)
    if folder.codes.is_dir() and any(folder.codes.glob("*.parquet")):
        facts["codes"] = _of_codes(open_codes(folder.path))
    for name, file in (("model", folder.model_file), ("coders", folder.coders_file)):
        if lexists(file):  # a link that leads nowhere is damage
            facts[name] = _of_file(file)
    return facts


def _of_learner(learner: Learner) -> Facts:
    """What it has seen, and what it would do next."""
    sketch = learner.sketch
    energies = spectrum(learner)
    energy, certificate = sketch.weight * sum(energies), learner.certificate
    share = None if certificate is None or not energy else certificate / energy
    return {
        "rows": learner.seen,
        "bits": learner.bits,
        "refine": learner.refine,
        "certified": learner.certified,
        "epoch": learner.epoch,
        "epochs": learner.epochs,
        "columns": learner.features.inputs,
        "features": _features(learner.features),
        "sketch": f"{type(sketch).__name__} of {sketch.width} columns",
        "half_life": sketch.half_life,
        "whitening": learner.whitening,
        "rotation": learner.rotation,
        "certificate": certificate,
        "certificate_relative": share,
        "bytes": learner.nbytes,
        "spectrum": energies,
        "drift": [finite(one._asdict()) for one in _last_measurements(learner.drift)],
    }


def _features(features: Features) -> str:
    """A line about the features."""
    if isinstance(features, GaussianAffinity):
        return f"affinities to {features.width} landmarks, bandwidth {features.bandwidth:.6g}"
    return f"{features.width} of {type(features).__name__}"


def spectrum(learner: Learner) -> list[float]:
    """The energies of the sketch, strongest first; none where nothing was learned."""
    sketch = learner.sketch
    if not (sketch.learns and sketch.seen):
        return []
    try:
        found = sketch.directions(1, extra=sketch.capacity - 1).energies
    except RankError:
        return []
    return [float(value) for value in to_numpy(found)]


def _of_coder(coder: Coder) -> Facts:
    """What it reads and makes."""
    return {
        "bits": coder.bits,
        "refine": coder.refine,
        "epoch": coder.epoch,
        "columns": coder.features.inputs,
        "features": _features(coder.features),
        "bytes": coder.nbytes,
    }


def _of_codes(batches: Iterable[CodeBatch], bits: int | None = None) -> Facts:
    """How many, and of which epochs."""
    counts: Counter[int] = Counter()
    refine = 0
    for ids, codes in batches:
        bits, refine = codes.bits, codes.refine
        counts[codes.epoch] += len(ids)
    each = [{"epoch": epoch, "codes": counts[epoch]} for epoch in sorted(counts)]
    lengths = {"bits": bits, "refine": refine}
    return {"codes": counts.total(), **lengths, "epochs": sorted(counts), "each": each}


def _last_measurements(drift: tuple[DriftMeasurement, ...]) -> list[DriftMeasurement]:
    """The last measurements of the drift, the very last without gaps."""
    last = latest(drift)
    return [] if last is None else [*drift[-MEASUREMENTS:-1], last]
