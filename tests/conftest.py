"""Fixtures that every test may use; functions among them stand for importable helpers."""

import hashlib
import signal

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, settings

import streambits as sb

pytest.register_assert_rewrite("conformance")
pytest_plugins = ["servers.kafka", "servers.nats", "servers.postgres", "servers.sail"]
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

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # in the background: children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
    return sb.methods.METHODS[name](train, bits, **settings)


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
        more = b"" if codes.refinement is None else codes.refinement.tobytes()
        return hashlib.sha256(head + codes.packed.tobytes() + more).hexdigest()

    return of


@pytest.fixture(params=["nats_server", "kafka_cluster"])
def broker(request):
    """A broker of each kind, with new(), publish(), cut(), stop() and start()."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def train():
    """(60, 8) landmarks in single precision."""
    return _mixture(60, seed=1)


@pytest.fixture(scope="session")
def rows():
    """(5000, 8) rows in single precision: two full blocks of the learner, and some that wait."""
    return _mixture(5000, seed=2)


@pytest.fixture(scope="session")
def edge_rows():
    """edge_rows(coder, rows): pairs of rows, as close as their precision allows, that some bit
    tells apart: the decision lies within rounding.
    """

    def between(coder, rows):
        low, high = rows[0::2].copy(), rows[1::2].copy()
        count = min(len(low), len(high))
        low, high = low[:count], high[:count]
        bit = np.arange(count) % coder.bits
        here, there = (
            coder.encode(side, warn=False).unpack()[np.arange(count), bit] for side in (low, high)
        )
        low, high, bit, here = (part[here != there] for part in (low, high, bit, here))
        for _ in range(60):
            middle = (low / 2 + high / 2).astype(rows.dtype)
            same = coder.encode(middle).unpack()[np.arange(len(bit)), bit] == here
            low[same], high[~same] = middle[same], middle[~same]
        return np.concatenate([low, high])

    return between


@pytest.fixture
def learner(train):
    """An ssbc learner of 12 bits that has seen nothing but its prior."""
    return sb.ssbc(train, 12)


def _bad_rows():
    """What no learner and no coder of 8 columns takes, and a word of the complaint."""
    good = _mixture(3)
    with_nan, with_infinity = good.copy(), good.copy()
    with_nan[1, 2], with_infinity[2, 0] = np.nan, -np.inf
    return {
        "NaN": (with_nan, r"rows\[1, 2\] is NaN: drop or fill"),
        "infinity": (with_infinity, r"rows\[2, 0\] is -inf: drop or fill"),
        "wrong width": (good[:, :7], r"7 columns.*\(n, 8\)"),
        "complex": (good + 1j, "complex.*pass real numbers"),
        "text": (good.astype(str), "not numeric: convert"),
        "objects": (np.full((2, 8), object()), "not a number"),
        "words as objects": (np.full((2, 8), "a", object), "not numeric: convert"),
        "empty": (good[:0], r"empty.*\(0, 8\).*skip"),
        "one dimension": (good[0], r"reshape\(1, -1\)"),
        "three dimensions": (good[None], r"two-dimensional.*\(1, 3, 8\)"),
        "sparse": (scipy.sparse.csr_array(good), r"sparse.*toarray\(\)"),
        "ragged": ([[1.0] * 8, [1.0]], "cannot be read"),
        "too large for float32": (np.full((2, 8), 1e60), r"rows\[0, 0\] is inf"),
    }


def pytest_generate_tests(metafunc):
    """`method` runs a test for every method of the table, `bad_rows` for all that is refused."""
    chosen = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "method" in metafunc.fixturenames and not any("method" in names for names in chosen):
        metafunc.parametrize("method", [*sb.methods.METHODS, "paper"])
    if "bad_rows" in metafunc.fixturenames:
        bad = _bad_rows()
        metafunc.parametrize(("bad_rows", "complaint"), bad.values(), ids=bad.keys())
