"""Checks: a conformance kit for features, sketches, learners, indexes, sources and sinks.

Each promise is one named function that raises an AssertionError saying what was expected; the
functions here run all of a kind and put the name of the failing check first. They hold for every
built-in part, and are meant for the tests of yours.

>>> import numpy as np
>>> import streambits as sb
>>> rows = np.random.default_rng(0).random((5000, 8), dtype=np.float32)
>>> _ = check_features(sb.Linear(rows[0]), rows[:100])
>>> _ = check_sketch(lambda: sb.FrequentDirections(8, 4), rows[:100])
>>> _ = check_learner(lambda: sb.ssbc(rows[:50], bits=8), rows)
>>> _ = check_index(lambda: sb.HammingIndex(8), sb.Codes.from_bits(rows[:200] > 0.5))

The error names the promise that a part breaks:

>>> class Forgetful(sb.Gram):
...     def merge(self, other):
...         pass
>>> check_sketch(lambda: Forgetful(8), rows[:100])
Traceback (most recent call last):
AssertionError: check_sketch_merge: expected seen 100, got 33

A check that cannot test a part fails too, unless `skip` declares that it does not apply; the
report lists what was skipped:

>>> check_features(sb.Linear(np.zeros(8)), rows[:100])
Traceback (most recent call last):
AssertionError: check_features_noise: was not tested, since the features are in double precision...
>>> check_features(sb.Linear(np.zeros(8)), rows[:100], skip=["check_features_noise"]).skipped
('check_features_noise',)
"""

from collections.abc import Callable, Collection
from typing import Any

from streambits._arrays import Array
from streambits.checks import features as _features
from streambits.checks import indexes as _indexes
from streambits.checks import learners as _learners
from streambits.checks import sinks as _sinks
from streambits.checks import sketches as _sketches
from streambits.checks import sources as _sources
from streambits.checks._compare import CheckReport, run_checks
from streambits.features import Features
from streambits.io.protocols import Source
from streambits.model.codes import Codes
from streambits.model.learner import Learner
from streambits.sketches import Sketch

__all__ = [
    "CheckReport",
    "check_features",
    "check_index",
    "check_learner",
    "check_sink",
    "check_sketch",
    "check_source",
]


def check_features(features: Features, rows: Array, *, skip: Collection[str] = ()) -> CheckReport:
    """Run all checks of `checks.features`.

    Parameters
    ----------
    features : Features
        What is to be checked.
    rows : array of shape (n, inputs)
        A few dozen rows like the data.
    skip : collection of str
        Names of checks that do not apply: `check_features_noise` to features in double precision.

    Returns
    -------
    CheckReport
        The checks that passed, and those that were skipped.

    Raises
    ------
    AssertionError
        If a promise is broken, or cannot be tested and `skip` does not say so.
    """
    return run_checks(_features.CHECKS, features, rows, skip=skip)


def check_sketch(
    sketch_factory: Callable[[], Sketch], rows: Array, *, skip: Collection[str] = ()
) -> CheckReport:
    """Run all checks of `checks.sketches`.

    Parameters
    ----------
    sketch_factory : callable
        Makes an empty sketch, the same at every call.
    rows : array of shape (n, width)
        Feature rows in the library of the sketch, ten or more; more than it holds, so that it
        must compress.
    skip : collection of str
        Names of checks that do not apply: `checks.sketches.UNCERTIFIED` to a sketch without
        `matrix` or with an infinite certificate.

    Returns
    -------
    CheckReport
        The checks that passed, and those that were skipped.

    Raises
    ------
    AssertionError
        If a promise is broken, or cannot be tested and `skip` does not say so.
    """
    return run_checks(_sketches.CHECKS, sketch_factory, rows, skip=skip)


def check_learner(
    learner_factory: Callable[[], Learner], rows: Array, *, skip: Collection[str] = ()
) -> CheckReport:
    """Run all checks of `checks.learners`.

    Parameters
    ----------
    learner_factory : callable
        Makes a learner, the same at every call. If it has parts of your own, pass their classes to
        `storage.register` first.
    rows : array of shape (n, d)
        4097 rows or more.
    skip : collection of str
        Names of checks that do not apply: `check_learner_certificate` to a learner whose sketch
        has no certificate.

    Returns
    -------
    CheckReport
        The checks that passed, and those that were skipped.

    Raises
    ------
    AssertionError
        If a promise is broken, or cannot be tested and `skip` does not say so.
    InputError
        If there are too few rows.
    """
    _learners.enough(rows)
    return run_checks(_learners.CHECKS, learner_factory, rows, skip=skip)


def check_index(
    index_factory: Callable[[], Any], codes: Codes, *, skip: Collection[str] = ()
) -> CheckReport:
    """Run all checks of `checks.indexes`.

    Parameters
    ----------
    index_factory : callable
        Makes an empty index.
    codes : Codes
        50 or more of its length, some of them equal.
    skip : collection of str
        Names of checks that do not apply.

    Returns
    -------
    CheckReport
        The checks that passed, and those that were skipped.
    """
    return run_checks(_indexes.CHECKS, index_factory, codes, skip=skip)


def check_source(
    source_factory: Callable[[], Source], *, skip: Collection[str] = ()
) -> CheckReport:
    """Run all checks of `checks.sources`.

    Parameters
    ----------
    source_factory : callable
        Makes the source anew, of the same rows: three batches or more.
    skip : collection of str
        Names of checks that do not apply.

    Returns
    -------
    CheckReport
        The checks that passed, and those that were skipped.
    """
    return run_checks(_sources.CHECKS, source_factory, skip=skip)


def check_sink(
    place_factory: Callable[[], Any], codes: Codes, *, skip: Collection[str] = ()
) -> CheckReport:
    """Run all checks of `checks.sinks`.

    Parameters
    ----------
    place_factory : callable
        Returns (open, held) of a new place: `open()` makes a sink on it, `held()` the code batches
        found there.
    codes : Codes
        50 or more of its length.
    skip : collection of str
        Names of checks that do not apply.

    Returns
    -------
    CheckReport
        The checks that passed, and those that were skipped.
    """
    return run_checks(_sinks.CHECKS, place_factory, codes, skip=skip)
