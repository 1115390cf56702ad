"""What every part promises: named checks of features, sketches, learners, sources, sinks.

A check is a function that asserts one promise. One that cannot test a part raises an
InapplicableError, unless `skip` names it.

- `check_features(features, rows)`: a few dozen rows (n, inputs) like the data.
- `check_sketch(factory, rows)`: the function makes an empty sketch; more rows than it holds.
- `check_learner(factory, rows)`: the function makes a learner, the same at every call; more than
  two blocks of rows.
- `check_source(factory)`: the function makes a source, always of the same rows: three batches or
  more.
- `check_sink(factory, codes)`: the function returns (open, read) of a new place; 50 codes or more,
  all different.
"""

from functools import partial

from conformance import features, learners, sinks, sketches, sources
from conformance.compare import run_checks

check_features = partial(run_checks, features.CHECKS)
check_sketch = partial(run_checks, sketches.CHECKS)
check_learner = partial(run_checks, learners.CHECKS)
check_source = partial(run_checks, sources.CHECKS)
check_sink = partial(run_checks, sinks.CHECKS)
