"""Speed of learning and encoding, as ratios against scikit-learn in one run.

    python benchmarks/core.py [usual] [wide] [row] [growth]

usual: 100,000 x 54 float32 rows, 500 landmarks, 64 bits. Encoding is compared with
Nystroem(500).transform, learning with IncrementalPCA(54).fit; both beside the time that the bare
matrix products take. wide: 768 columns, 1,000 landmarks, 128 bits, fewer rows. row: one row at a
time. growth: time against n and landmarks, and memory of learning against n. All by default.
"""

import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.decomposition import IncrementalPCA
from sklearn.kernel_approximation import Nystroem

import streambits as sb
from streambits.online import OnlineEncoder

COLUMNS, LANDMARKS, BITS = 54, 500, 64
LINE = "{:16} {:>12} {:>26} {:>6} {:>10}"


def best(*works: Callable[[], object], rounds: int = 4, each: int = 3) -> list[float]:
    """The shortest time of each, a few times in a row, in turns."""
    times = [[min(_timed(work) for _ in range(each)) for work in works] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def normal(count: int, columns: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((count, columns), dtype=np.float32)


def blocks(count: int, columns: int, landmarks: int, bits: int, rounds: int = 4) -> None:
    """Encoding and learning of many rows."""
    rows, rng = normal(count, columns), np.random.default_rng(1)
    train = rows[:landmarks]
    coder = sb.ssbc(train, bits).learn(rows).coder()
    refined = sb.ssbc(train, bits, refine=8).learn(rows).coder()
    bandwidth = coder.features.bandwidth  # type: ignore[attr-defined]
    nystroem = Nystroem(gamma=1 / bandwidth, n_components=landmarks, random_state=0)
    nystroem.fit(rows[:5000])
    turned = np.ascontiguousarray(train.T)
    features = rng.random((min(count, 20_000), landmarks), dtype=np.float32)
    matrix = rng.random((landmarks, bits), dtype=np.float32)
    block, repeats = features[:2048], count / len(features)

    encode, with_bytes, peer, first, second = best(
        lambda: coder.encode(rows),
        lambda: refined.encode(rows),
        lambda: nystroem.transform(rows),
        lambda: rows[: len(features)] @ turned,
        lambda: features @ matrix,
        rounds=rounds,
    )
    learn, learn_refined, gram = best(
        lambda: sb.ssbc(train, bits).learn(rows),
        lambda: sb.ssbc(train, bits, refine=8).learn(rows),
        lambda: block.T @ block,
        rounds=rounds,
    )
    (pca,) = best(lambda: IncrementalPCA(columns).fit(rows), rounds=1, each=1 + (columns < 100))
    affinity, gram = first * repeats, gram * count / len(block)
    products = affinity + second * repeats
    values, error = coder._measured(rows[:10_000])
    again = np.mean(np.abs(values).min(axis=1) <= error)
    print(f"{count:,} x {columns}, {landmarks} landmarks, {bits} bits")
    print(LINE.format("", "rows/s", "peer", "ratio", "products"))
    for name, own, rival, other, bare in (
        ("encode", encode, "Nystroem.transform", peer, products),
        ("encode refine=8", with_bytes, "Nystroem.transform", peer, products),
        ("learn", learn, f"IncrementalPCA({columns}).fit", pca, affinity + gram),
        ("learn refine=8", learn_refined, f"IncrementalPCA({columns}).fit", pca, affinity + gram),
    ):
        speed, ratio, share = f"{count / own:,.0f}", f"{other / own:.2f}", f"{bare / own:.0%}"
        print(LINE.format(name, speed, rival, ratio, share))
    print(f"rows decided again in double precision: {again:.2%}\n")


def row_by_row() -> None:
    """One row at a time: encoding, learning, searching."""
    rows = normal(20_000, COLUMNS)
    learner = sb.ssbc(rows[:LANDMARKS], BITS)
    coder = learner.learn(rows).coder()
    turned = np.ascontiguousarray(rows[:LANDMARKS].T)
    matrix = np.random.default_rng(1).random((LANDMARKS, BITS), dtype=np.float32)
    index = sb.HammingIndex(BITS)
    index.add(coder.encode(rows[:1000]))
    query, few = coder.encode(rows[:1]), [rows[i : i + 1] for i in range(1000)]
    nystroem = Nystroem(n_components=LANDMARKS, random_state=0).fit(rows[:5000])
    pca = IncrementalPCA(BITS).fit(nystroem.transform(rows[:1000]))
    online = OnlineEncoder(learner)

    def ours() -> None:
        for row in few:
            learner.learn(row)
            coder.encode(row)

    def theirs() -> None:
        for row in few[:20]:
            features = nystroem.transform(row)
            pca.partial_fit(features)
            pca.transform(features)

    bare, encode, learn, search, both, loop, peer = best(
        lambda: [np.exp(row @ turned) @ matrix for row in few],
        lambda: [coder.encode(row) for row in few],
        lambda: [learner.learn(row) for row in few],
        lambda: [index.search(query, 10) for _ in few],
        ours,
        lambda: [list(online.encode(row)) for row in few],
        theirs,
    )
    peer *= len(few) / 20
    print("one row at a time, microseconds (one in a thousand)")
    print(f"bare products and exponential {1e3 * bare:8.1f}")
    print(f"encode                        {1e3 * encode:8.1f}   {encode / bare:.1f} x bare")
    print(f"learn                         {1e3 * learn:8.1f}")
    print(f"search of 1,000 codes         {1e3 * search:8.1f}")
    print(f"learn + encode                {1e3 * both:8.1f}   {peer / both:.0f} x as fast as")
    print(f"OnlineEncoder, with refreshes {1e3 * loop:8.1f}   {peer / loop:.0f} x as fast as")
    print(f"Nystroem + IncrementalPCA     {1e3 * peer:8.1f}\n")


def growth() -> None:
    """Exponents of time, each over a factor of 32, and the memory of learning."""
    rows = normal(128_000, COLUMNS)
    counts, landmarks = [4000 * 2**i for i in range(6)], [125 * 2**i for i in range(6)]
    encode, learn = _encoding(rows, LANDMARKS), _learning(rows)
    _report("encode, n", counts, [best(partial(encode, n), rounds=2)[0] for n in counts])
    _report("learn, n", counts, [best(partial(learn, n), rounds=2)[0] for n in counts])
    works = [partial(_encoding(rows, m), 8192) for m in landmarks]
    _report("encode, landmarks", landmarks, [best(work, rounds=2)[0] for work in works])
    for count in (4000, 128_000):
        learner = sb.ssbc(rows[:LANDMARKS], BITS).learn(rows[:8192])
        tracemalloc.start()
        learner.learn(rows[:count])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"learn of {count:,} rows allocates at most {peak / 2**20:.0f} MiB")


def _report(name: str, sizes: list[int], times: list[float]) -> None:
    print(f"{name}: exponent {np.polyfit(np.log(sizes), np.log(times), 1)[0]:.2f}")


def _encoding(rows: np.ndarray, landmarks: int) -> Callable[[int], object]:
    coder = sb.ssbc(rows[:landmarks], BITS).coder()
    return lambda count: coder.encode(rows[:count])


def _learning(rows: np.ndarray) -> Callable[[int], object]:
    learner = sb.ssbc(rows[:LANDMARKS], BITS)
    return lambda count: learner.learn(rows[:count])


def main(parts: list[str]) -> None:
    warnings.simplefilter("ignore")
    if not parts or "usual" in parts:
        blocks(100_000, COLUMNS, LANDMARKS, BITS)
    if not parts or "wide" in parts:
        blocks(10_000, 768, 1000, 128, rounds=2)
    if not parts or "row" in parts:
        row_by_row()
    if not parts or "growth" in parts:
        growth()


if __name__ == "__main__":
    main(sys.argv[1:])
