"""What every part promises: named checks of features, sketches, learners, sources, sinks.

A check is a function that asserts one promise. One that cannot test a part raises an
InapplicableError, unless `skip` names it.
"""

from conformance import features as _features
from conformance import learners as _learners
from conformance import sinks as _sinks
from conformance import sketches as _sketches
from conformance import sources as _sources
from conformance.compare import run_checks

__all__ = [
    "check_features",
    "check_learner",
    "check_sink",
    "check_sketch",
    "check_source",
    "run_checks",
]


def check_features(features, rows, *, skip=()):
    """Features of rows (n, inputs): a few dozen like the data."""
    run_checks(_features.CHECKS, features, rows, skip=skip)


def check_sketch(sketch_factory, rows, *, skip=()):
    """A function that makes an empty sketch; more rows (n, width) than it holds."""
    run_checks(_sketches.CHECKS, sketch_factory, rows, skip=skip)


def check_learner(learner_factory, rows, *, skip=()):
    """A function that makes a learner, the same at every call; more than two blocks of rows."""
    assert len(rows) > 2 * _learners.BLOCK, "the checks would be empty with fewer rows"
    run_checks(_learners.CHECKS, learner_factory, rows, skip=skip)


def check_source(source_factory, *, skip=()):
    """A function that makes a source, always of the same rows: three batches or more."""
    run_checks(_sources.CHECKS, source_factory, skip=skip)


def check_sink(place_factory, codes, *, skip=()):
    """A function that returns (open, read) of a new place; 50 codes or more, all different."""
    run_checks(_sinks.CHECKS, place_factory, codes, skip=skip)
