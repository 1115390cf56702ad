"""Speed of learning and encoding, as ratios against scikit-learn in one run.

    python benchmarks/core.py

100,000 x 54 float32 rows, m = 500, 64 bits. Encoding is compared with Nystroem(500).transform,
learning with IncrementalPCA(54).fit; both beside the time that the bare matrix products take.
"""

import time
from collections.abc import Callable

import numpy as np
from sklearn.decomposition import IncrementalPCA
from sklearn.kernel_approximation import Nystroem

import streambits as sb

ROWS, COLUMNS, LANDMARKS, BITS, ROUNDS = 100_000, 54, 500, 64, 4


def best(*works: Callable[[], object]) -> list[float]:
    """The shortest time of each, a few times in a row, in turns."""
    times = [[min(_timed(work) for _ in range(3)) for work in works] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*times, strict=True)]


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((ROWS, COLUMNS), dtype=np.float32)
    train = rows[:LANDMARKS]
    coder = sb.ssbc(train, BITS).learn(rows).coder()
    nystroem = Nystroem(gamma=1 / coder.features.bandwidth, n_components=LANDMARKS, random_state=0)  # type: ignore[attr-defined]
    nystroem.fit(rows[:5000])
    turned = np.ascontiguousarray(train.T)
    features = rng.random((ROWS, LANDMARKS), dtype=np.float32)
    matrix = rng.random((LANDMARKS, BITS), dtype=np.float32)
    block = features[:1024].astype(np.float64)

    encode, peer, products = best(
        lambda: coder.encode(rows),
        lambda: nystroem.transform(rows),
        lambda: (rows @ turned, features @ matrix),
    )
    learn, pca, gram = best(
        lambda: sb.ssbc(train, BITS).learn(rows),
        lambda: IncrementalPCA(COLUMNS).fit(rows),
        lambda: [block.T @ block for _ in range(ROWS // 1024)],
    )
    values, error = coder._measured(rows[:10_000])
    again = np.mean(np.abs(values).min(axis=1) <= error)
    print(f"{'':10} {'rows/s':>12} {'peer':>24} {'ratio':>6} {'share of the product limit':>28}")
    print(
        f"{'encode':10} {ROWS / encode:12,.0f} {'Nystroem.transform':>24} {peer / encode:6.2f} "
        f"{products / encode:28.0%}"
    )
    print(
        f"{'learn':10} {ROWS / learn:12,.0f} {'IncrementalPCA.fit':>24} {pca / learn:6.2f} "
        f"{gram / learn:28.0%}"
    )
    print(f"rows decided again in double precision: {again:.2%}")


if __name__ == "__main__":
    main()
