"""Fixtures that every test may use; functions among them stand for importable helpers."""

import hashlib

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import streambits as sb

settings.register_profile(
    "default",
    deadline=None,
    max_examples=25,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", settings.get_profile("default"), derandomize=False)
settings.load_profile("default")


def _mixture(count, width=8, seed=0, dtype=np.float32):
    """Rows around ten centres; the centres are the same for every seed."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1234).uniform(-2, 2, (10, width))
    return (centres[rng.integers(10, size=count)] + rng.standard_normal((count, width))).astype(
        dtype
    )


def _fingerprint(value):
    """A hash of everything in a state, to the last bit."""
    found = hashlib.sha256()

    def visit(part):
        if hasattr(part, "state"):
            found.update(type(part).__name__.encode())
            visit(part.state())
        elif isinstance(part, dict):
            for name in sorted(part):
                found.update(name.encode())
                visit(part[name])
        elif hasattr(part, "dtype"):
            array = np.ascontiguousarray(np.asarray(part))
            found.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        else:
            found.update(repr(part).encode())

    visit(value)
    return found.hexdigest()


def _parts(rows, size):
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _build(name, train, bits=6, **settings):
    """A learner by its row of the table; 'paper' is the switch of ssbc."""
    if name == "paper":
        return sb.ssbc(train, bits, paper=True, **settings)
    return sb.METHODS[name](train, bits, **settings)


@pytest.fixture(scope="session")
def mixture():
    """mixture(count, width, seed, dtype): clustered rows."""
    return _mixture


@pytest.fixture(scope="session")
def fingerprint():
    """fingerprint(part): a hash of its whole state."""
    return _fingerprint


@pytest.fixture(scope="session")
def parts():
    """parts(rows, size): the rows in batches of that size."""
    return _parts


@pytest.fixture(scope="session")
def build():
    """build(method, train, bits): a learner of any method of the table, or of 'paper'."""
    return _build


@pytest.fixture(scope="session")
def digest():
    """digest(codes): SHA-256 of the bytes and of what they mean."""

    def of(codes):
        head = f"{codes.bits} {codes.epoch} ".encode()
        return hashlib.sha256(head + codes.packed.tobytes()).hexdigest()

    return of


@pytest.fixture(scope="session")
def train():
    """(60, 8) landmarks in single precision."""
    return _mixture(60, seed=1)


@pytest.fixture(scope="session")
def rows():
    """(5000, 8) rows in single precision: two full blocks of the learner, and some that wait."""
    return _mixture(5000, seed=2)


@pytest.fixture
def learner(train):
    """An ssbc learner of 12 bits that has seen nothing but its prior."""
    return sb.ssbc(train, 12)


def pytest_generate_tests(metafunc):
    """`method` runs a test for every method of the table and for paper=True."""
    if "method" in metafunc.fixturenames:
        metafunc.parametrize("method", [*sb.METHODS, "paper"])
