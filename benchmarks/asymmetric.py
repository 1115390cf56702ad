"""Real-valued queries and weights of bits: what they cost in time, and what they gain.

    STREAMBITS_DATA=folder python -m benchmarks.asymmetric [--only times] [--data covtype sift]

Times: weighted search beside the plain scan over 4,000,000 codes, in turns; `ratio` is
weighted over plain. Random codes with normal values are the hardest; the others
are rows of a data set, drawn with replacement and with noise of 5 % of each column's deviation,
encoded by ssbc, and queries like them. `same` says whether the answers to one query are those of a
plain sum over all codes. Takes minutes, most of them for encoding.

Quality: MAP at sigma_30 by Hamming distance; by real values against codes (the weighted distance);
by a table of means (paper's Asymmetric); and, between codes, by weights of bits: the deviation or
variance of each bit's values for ssbc and pcah, the weights of mdsh for itself, beside its product.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import streambits as sb
from benchmarks.timer import figures, in_turns, machine
from paper import datasets
from paper.measure import Board, board
from paper.methods import METHODS
from paper.methods.features import Eigenfunctions
from paper.methods.scoring import Asymmetric, scorer
from streambits._threads import one_blas_thread
from streambits.evaluation.quality import quality
from streambits.index import scan, weighted
from streambits.model.coder import Coder

DATA = ("uniform", "covtype", "sift", "mnist")
QUERIES, ROUNDS, NOISE = 64, 5, 0.05
Matrix = NDArray[np.float64]
Words = NDArray[np.uint64]


def random_codes(bits: int, count: int) -> tuple[Words, Matrix]:
    """Planes of codes, and normal values for queries."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**64, (-(-bits // 64), count), np.uint64)
    words[-1] >>= np.uint64(-bits % 64)
    return words, rng.standard_normal((QUERIES, bits))


def real_codes(name: str, bits: int, count: int) -> tuple[Words, Matrix]:
    """The same from rows of a data set."""
    train, rows = datasets.stream(name, datasets.SIZES[name][0], 50_000)
    coder = sb.ssbc(train, bits, seed=0).learn(rows).coder()
    rng, spread = np.random.default_rng(1), NOISE * rows.std(axis=0)

    def draw(size: int) -> Any:
        picked = rows[rng.integers(len(rows), size=size)]
        return picked + spread * rng.standard_normal(picked.shape, np.float32)

    parts = [coder.encode(draw(50_000)).words().T for _ in range(-(-count // 50_000))]
    words = np.concatenate(parts, axis=1)[:, :count]
    return np.ascontiguousarray(words), np.asarray(coder.project(draw(QUERIES)), np.float64)


def same(words: Words, values: Matrix, k: int) -> bool:
    """Whether one query has the answers of a plain sum, whose rounding may differ."""
    count = words.shape[1]
    signs, cost = sb.Codes.from_bits(values[:1] > 0).words(), np.abs(values[:1])
    places, found = weighted.weighted_nearest(
        words, np.ones(count, np.bool_), count, signs, cost, k
    )
    plain: Matrix = np.zeros(count)
    for bit, weight in enumerate(cost[0]):
        differs = (words[bit // 64] ^ signs[0, bit // 64]) >> np.uint64(bit % 64) & np.uint64(1)
        plain += differs * weight
    nearest = np.sort(plain[np.argpartition(plain, k)[:k]])
    return np.allclose(found[0], nearest) and np.allclose(plain[places[0]], nearest)


def compare(label: str, bits: int, words: Words, values: Matrix) -> None:
    count, alive = words.shape[1], np.ones(words.shape[1], np.bool_)
    signs, cost = sb.Codes.from_bits(values > 0).words(), np.abs(values)
    with one_blas_thread() as most:
        pass
    for threads in sorted({1, most}):
        for asked, k in ((QUERIES, 10), (1, 10), (QUERIES, 100), (1, 100)):
            codes, some = (words, alive, count), signs[:asked]
            with threadpool_limits(threads, user_api="blas"):
                plain, ours = in_turns(
                    partial(scan.scan_nearest, *codes, some, k),
                    partial(weighted.weighted_nearest, *codes, some, cost[:asked], k),
                    rounds=ROUNDS,
                )
            each = [figures(timing.median * 1e3) for timing in (plain, ours)]
            print(
                f"{label:8} {bits:4} {threads:7} {asked:7} {k:4} {each[0]:>9} {each[1]:>9} "
                f"{same(words, values, k)!s:>5}  {ours.over(plain)}",
                flush=True,
            )


def times(data: list[str], count: int) -> None:
    print(f"{machine()}\n{count:,} codes, milliseconds")
    print(f"{'codes':8} {'bits':>4} threads queries    k ", end="")
    print(f"{'plain':>9} {'weighted':>9} {'same':>5}  ratio")
    for bits in (64, 256, 32):
        compare("random", bits, *random_codes(bits, count))
    for name in data:
        compare(name, 64, *real_codes(name, 64, count))
    for bits in (256, 32):
        if "covtype" in data:
            compare("covtype", bits, *real_codes("covtype", bits, count))


def against(weights: Matrix, signs: Matrix, codes: sb.Codes) -> Matrix:
    """(n, n') weighted Hamming distances, weights (n, bits) or (bits,), from signs (n, bits)."""
    truth = np.where(codes.unpack(), 1.0, -1.0)
    weights = np.broadcast_to(weights, signs.shape)
    return np.asarray((weights.sum(axis=1)[:, None] - (weights * signs) @ truth.T) / 2)


def distances(on: Board, coder: Coder) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Every way to compare rows of a board with its codes."""
    codes, means = coder.encode(on.rows), Asymmetric(coder, on.train)
    signs = np.where(codes.unpack(), 1.0, -1.0)
    values = np.asarray(coder.project(on.rows), np.float64)
    yield "hamming", lambda some: codes[some].hamming(codes)
    yield "real", lambda some: against(np.abs(values[some]), np.sign(values[some]), codes)
    yield "means", lambda some: means.distances(on.rows[some], codes)
    deviation = np.asarray(coder.project(on.train), np.float64).std(axis=0)
    yield "deviation", lambda some: against(deviation, signs[some], codes)
    yield "variance", lambda some: against(deviation**2, signs[some], codes)
    if isinstance(coder.features, Eigenfunctions):
        weights, product = coder.features.weights, scorer("product", coder)
        yield "own weights", lambda some: against(weights, signs[some], codes)
        yield "product", lambda some: product(codes[some], codes)


def gains(data: list[str], queries: int) -> None:
    print(f"\nMAP at sigma_30, {queries} queries")
    for name in data:
        on = board(name, 0, "shuffled", queries)
        for method, bits in (("ssbc", 64), ("ssbc", 32), ("pcah", 32), ("itq", 32), ("mdsh", 64)):
            coder = METHODS[method](on.train, bits, seed=0).learn(on.rows).coder()
            found = {kind: quality(on.truth, by).map for kind, by in distances(on, coder)}
            shown = "  ".join(f"{kind} {score:.3f}" for kind, score in found.items())
            print(f"{name:8} {method:5} {bits:3}  {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", choices=("times", "quality"))
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=DATA)
    parser.add_argument("--codes", type=int, default=4_000_000)
    parser.add_argument("--queries", type=int, default=500)
    options = parser.parse_args()
    if options.only != "quality":
        times(options.data, options.codes)
    if options.only != "times":
        gains(options.data, options.queries)


if __name__ == "__main__":
    main()
