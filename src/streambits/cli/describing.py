"""What models, indexes and codes hold, as plain values."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from streambits._arrays import to_numpy
from streambits.epochs.coder_set import CoderSet
from streambits.epochs.detector import DriftMeasurement, latest
from streambits.errors import RankError, StorageError
from streambits.features import Features, GaussianAffinity
from streambits.index import HammingIndex
from streambits.io.codes import code_format, open_codes
from streambits.jobs.checkpoint import Checkpoint
from streambits.model.batches import CodeBatch
from streambits.model.coder import Coder
from streambits.model.codes import Codes
from streambits.model.learner import Learner
from streambits.model.projection import Projection
from streambits.storage import load

MEASUREMENTS = 5  # of the drift, the last
SAMPLE = 1000  # rows on which changed bits are counted

Facts = dict[str, Any]


def describe(where: str) -> Facts:
    """All there is to say about a model, an index or codes; 'kind' says what it is."""
    if code_format(where) != "index":
        return {"kind": "codes", **of_codes(open_codes(where))}
    return of_model(load(where), Path(where))


def of_model(found: Any, path: Path) -> Facts:
    """Whatever `streambits.load` gives."""
    if isinstance(found, Learner):
        return {"kind": "learner", **of_learner(found)}
    if isinstance(found, Coder):
        return {"kind": "coder", **of_coder(found)}
    if isinstance(found, CoderSet):
        return {"kind": "coders", **of_coders(found)}
    if isinstance(found, HammingIndex):
        more = {"strategy": found.strategy, "bytes": found.nbytes}
        return {"kind": "index", **of_codes(found.items(), found.bits), **more}
    if isinstance(found, Checkpoint):
        learner = found.parts.get("learner")
        return {"kind": "checkpoint", **found.counts} | (of_learner(learner) if learner else {})
    raise StorageError(f"{path} holds a {type(found).__name__}, of which there is nothing to say")


def of_learner(learner: Learner) -> Facts:
    """What it has seen, and what it would do next."""
    sketch = learner.sketch
    energies = spectrum(learner)
    energy = sketch.weight * sum(energies)
    return {
        "rows": learner.seen,
        "bits": learner.bits,
        "epoch": learner.epoch,
        "epochs": learner.epochs,
        "columns": learner.features.inputs,
        "features": features(learner.features),
        "sketch": f"{type(sketch).__name__} of {sketch.width} columns",
        "half_life": sketch.half_life,
        "whitening": learner.whitening,
        "rotation": learner.rotation,
        "certificate": learner.certificate,
        "certificate_relative": learner.certificate / energy if energy else None,
        "bits_changed": changed(learner),
        "bytes": learner.nbytes,
        "spectrum": energies,
        "drift": [_finite(reading._asdict()) for reading in _last(learner.drift)],
    }


def features(part: Features) -> str:
    """A line about the features."""
    if isinstance(part, GaussianAffinity):
        return f"affinities to {part.width} landmarks, bandwidth {part.bandwidth:.6g}"
    return f"{part.width} of {type(part).__name__}"


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


def changed(learner: Learner) -> float | None:
    """The share of bits that the next coder gives another value, against the last one."""
    last, rows = learner.state()["last"], learner.sample[:SAMPLE, :]
    if last is None or not rows.shape[0]:
        return None
    before = Coder(learner.features, Projection.from_state(last), learner.epoch).encode(rows)
    try:
        after = learner.coder().encode(rows)
    except RankError:
        return None
    return float((before.unpack() != after.unpack()).mean())


def of_coder(coder: Coder) -> Facts:
    """What it takes and gives."""
    return {
        "bits": coder.bits,
        "epoch": coder.epoch,
        "columns": coder.features.inputs,
        "features": features(coder.features),
        "bytes": coder.nbytes,
    }


def of_coders(coders: CoderSet) -> Facts:
    """Those of all epochs."""
    each = [of_coder(coders[epoch]) for epoch in coders]
    return {"epochs": list(coders), "bytes": coders.nbytes, "coders": each}


def of_codes(coded: Iterable[CodeBatch], bits: int | None = None) -> Facts:
    """How many, of which epochs, and how balanced their bits are. Reads all of them."""
    ones: dict[int, Any] = {}
    counts: dict[int, int] = {}
    for ids, codes in coded:
        bits = codes.bits
        counts[codes.epoch] = counts.get(codes.epoch, 0) + len(ids)
        ones[codes.epoch] = ones.get(codes.epoch, 0) + _ones(codes)
    shares = {epoch: ones[epoch] / counts[epoch] for epoch in sorted(ones)}
    each = [
        {
            "epoch": epoch,
            "codes": counts[epoch],
            "balance": float(np.abs(2 * share - 1).mean()),
            "constant": int(((share == 0) | (share == 1)).sum()),
        }
        for epoch, share in shares.items()
    ]
    return {"codes": sum(counts.values()), "bits": bits, "epochs": list(shares), "each": each}


def _ones(codes: Codes) -> Any:
    return codes.unpack().sum(axis=0, dtype=np.int64)


def _finite(values: Facts) -> Facts:
    """Without NaN, which JSON has not."""
    return {
        k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()
    }


def _last(measurements: tuple[DriftMeasurement, ...]) -> list[DriftMeasurement]:
    """The last measurements, the very last without gaps."""
    last = latest(measurements)
    return [] if last is None else [*measurements[-MEASUREMENTS:-1], last]
