"""Checks: a conformance kit for features, sketches, learners and indexes of your own.

Each promise is one named function that raises an AssertionError saying what was expected; the
functions here run all of a kind and put the name of the failing check first. They hold for
every built-in part, and are meant for the tests of yours.

>>> import numpy as np
>>> import streambits as sb
>>> rows = np.random.default_rng(0).random((5000, 8))
>>> check_features(sb.Linear(rows[0]), rows[:100])
>>> check_sketch(lambda: sb.FrequentDirections(8, 4), rows[:100])
>>> check_learner(lambda: sb.ssbc(rows[:50].astype(np.float32), bits=8), rows)
>>> check_index(lambda: sb.HammingIndex(8), sb.Codes.from_bits(rows[:200] > 0.5))

A part that breaks a promise is told which one:

>>> class Forgetful(sb.Gram):
...     def merge(self, other):
...         pass
>>> check_sketch(lambda: Forgetful(8), rows[:100])
Traceback (most recent call last):
AssertionError: check_merge: expected seen 100, got 33
"""

from collections.abc import Callable
from typing import Any

from streambits._arrays import Array
from streambits.checks import features as _features
from streambits.checks import indexes as _indexes
from streambits.checks import learners as _learners
from streambits.checks import sinks as _sinks
from streambits.checks import sketches as _sketches
from streambits.checks import sources as _sources
from streambits.checks._compare import run
from streambits.features import Features
from streambits.io.protocols import Source
from streambits.model.codes import Codes
from streambits.model.learner import Learner
from streambits.sketches import Sketch

__all__ = [
    "check_features",
    "check_index",
    "check_learner",
    "check_sink",
    "check_sketch",
    "check_source",
]


def check_features(features: Features, rows: Array) -> None:
    """Run all checks of `checks.features`. rows: (n, inputs), a few dozen like the data."""
    run(_features.CHECKS, features, rows)


def check_sketch(sketch_factory: Callable[[], Sketch], rows: Array) -> None:
    """Run all checks of `checks.sketches`.

    sketch_factory: makes an empty sketch, the same at every call. rows: (n, width) feature rows
    in the library of the sketch, ten or more; more than it holds, so that it must compress.
    """
    run(_sketches.CHECKS, sketch_factory, rows)


def check_learner(learner_factory: Callable[[], Learner], rows: Array) -> None:
    """Run all checks of `checks.learners`. A learner with own parts needs `storage.register`.

    learner_factory: makes a learner, the same at every call. rows: (n, d), 4097 or more.
    """
    _learners.enough(rows)
    run(_learners.CHECKS, learner_factory, rows)


def check_index(index_factory: Callable[[], Any], codes: Codes) -> None:
    """Run all checks of `checks.indexes`.

    index_factory: makes an empty index. codes: 50 or more of its length, some of them equal.
    """
    run(_indexes.CHECKS, index_factory, codes)


def check_source(source_factory: Callable[[], Source]) -> None:
    """Run all checks of `checks.sources`.

    source_factory: makes the source anew, of the same rows: three batches or more.
    """
    run(_sources.CHECKS, source_factory)


def check_sink(place_factory: Callable[[], Any], codes: Codes) -> None:
    """Run all checks of `checks.sinks`.

    place_factory: gives (open, held) of a new place: `open()` a sink on it, `held()` the code
    batches found there. codes: 50 or more of its length.
    """
    run(_sinks.CHECKS, place_factory, codes)
