"""Learning and encoding beside scikit-learn, FAISS and the bare products of NumPy.

    python -m benchmarks --only encode-learn wide one-row coders online

Rows are float32 and normal. Rivals, each the fastest that does comparable work: for encoding
`Nystroem.transform` with as many landmarks and `IndexPQ.sa_encode` of as many bytes; for learning
`IncrementalPCA.fit` with as many components as columns or, if those are fewer, bits; for one row
at a time Nystroem and `IncrementalPCA.partial_fit` with `transform`. NumPy's are only the matrix
products that the work cannot do without, in single precision: what the machine could do at most.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import faiss
import numpy as np
from sklearn.decomposition import IncrementalPCA
from sklearn.kernel_approximation import Nystroem

import streambits as sb
from benchmarks.report import Line
from benchmarks.timer import Prepared, Rows, Shape, Timing, in_turns

BLOCK = 2048  # rows that the learner learns at a time
PLAIN: dict[str, dict[str, Any]] = {"": {}}
REFINED: dict[str, dict[str, Any]] = {
    **PLAIN,
    ", refined 8 bytes": {"refine": 8},
    ", certified 9 bytes": {"refine": 8, "certified": True},
}
Lines = Callable[..., Iterator[Line]]


NARROW, EMBEDDINGS = Shape(100_000, 54, 500, 64), Shape(40_000, 768, 1000, 128)
SENTENCES = Shape(40_960, 384, 1000, 128)  # of a small language model
SMALL = Shape(4 * BLOCK, 8, 40, 16)


def throughput(
    shape: Shape, *, rounds: int, kinds: dict[str, dict[str, Any]] | None = None
) -> Iterator[Line]:
    """Rows per second of `encode` and of `learn`."""
    kinds = kinds or PLAIN
    rows, count = shape.drawn(), shape.rows
    works: dict[str, Any] = {}
    for kind, more in kinds.items():
        learner = sb.ssbc(rows[: shape.landmarks], shape.bits, **more).learn(rows[: 10 * BLOCK])
        works[kind] = learner.coder()
    nystroem = nystroem_like(works[""], rows)
    turned, matrix = np.ascontiguousarray(rows[: shape.landmarks].T), bare_projection(shape)
    features = np.empty((count, shape.landmarks), np.float32)
    peers = [
        lambda: nystroem.transform(rows),
        lambda: (np.matmul(rows, turned, out=features), features @ matrix),
    ]
    padded = np.pad(rows, ((0, 0), (0, -shape.columns % 16)))
    product = faiss.IndexPQ(padded.shape[1], 16, 8)
    if len(kinds) > 1:
        product.train(padded[:10_000])
        peers.append(lambda: product.sa_encode(padded))
    ours = [partial(coder.encode, rows) for coder in works.values()]
    taken = [t.per(count) for t in in_turns(*ours, *peers, rounds=rounds, repeats=2)]
    theirs = taken[len(ours) :]
    for kind, mine in zip(works, taken, strict=False):
        name = f"encode {shape}{kind}"
        bar = None if "certified" in kind else 6
        yield Line.of(name, "scikit-learn Nystroem.transform", mine, theirs[0], bar=bar)
        if not kind:
            yield Line.of(name, "NumPy products", mine, theirs[1])
        if kind == ", refined 8 bytes":
            yield Line.of(name, "FAISS IndexPQ.sa_encode, 16 bytes", mine, theirs[2])
    yield from learning(shape, kinds, rows, features, rounds=rounds)


def learning(
    shape: Shape,
    kinds: dict[str, dict[str, Any]],
    rows: Rows,
    features: Rows,
    *,
    rounds: int,
) -> Iterator[Line]:
    """Rows per second of `learn`, the construction of the learner included."""
    count, components = shape.rows, min(shape.columns, shape.bits)
    batch = 5 * shape.columns  # of scikit-learn; a few of them take as long per row as many
    some = rows if shape.columns < 500 else rows[: 3 * batch]
    turned = np.ascontiguousarray(rows[: shape.landmarks].T)

    def products() -> None:
        for start in range(0, count, BLOCK):
            block = np.matmul(
                rows[start : start + BLOCK], turned, out=features[start : start + BLOCK]
            )
            block.T @ block  # NumPy notices the symmetry

    kinds = dict(list(kinds.items())[:2])  # a certificate changes nothing here
    ours = [
        lambda more=more: sb.ssbc(rows[: shape.landmarks], shape.bits, **more).learn(rows)
        for more in kinds.values()
    ]
    taken = in_turns(
        *ours,
        products,
        lambda: IncrementalPCA(components).fit(some),
        rounds=rounds,
        repeats=1 if shape.columns > 500 else 2,  # scikit-learn takes seconds
    )
    taken = [*(timing.per(count) for timing in taken[:-1]), taken[-1].per(len(some))]
    for kind, mine in zip(kinds, taken, strict=False):
        name = f"learn {shape}{kind}"
        pca = f"scikit-learn IncrementalPCA({components}).fit"
        yield Line.of(name, pca, mine, taken[-1], bar=2.5)
        if not kind:
            yield Line.of(name, "NumPy products", mine, taken[-2])


def one_row(shape: Shape, *, rounds: int) -> Iterator[Line]:
    """Rows per second, given one by one."""
    rows = shape.drawn()
    singles = [rows[i : i + 1] for i in range(min(BLOCK, shape.rows // 16))]
    few, some = singles[:64], singles[:32]
    learner = sb.ssbc(rows[: shape.landmarks], shape.bits).learn(rows)
    coder, other = learner.coder(), learner.fresh().learn(rows)
    turned, matrix = np.ascontiguousarray(rows[: shape.landmarks].T), bare_projection(shape)

    def bare() -> None:
        for row in few:
            np.exp(row @ turned) @ matrix

    mine, theirs = in_turns(lambda: [coder.encode(row) for row in few], bare, rounds=2 * rounds)
    count = len(few)
    name, bare_work = f"encode one row {shape}", "NumPy products and exponential"
    yield Line.of(name, bare_work, mine.per(count), theirs.per(count), bar=1 / 3)

    nystroem, pca = nystroem_like(coder, rows), IncrementalPCA(shape.bits)
    pca.partial_fit(nystroem.transform(rows[: 4 * shape.bits]))

    def both() -> None:  # a whole block of rows, so that the time of learning it is in it
        for row in singles:
            coder.encode(row)
            learner.learn(row)

    def peer() -> None:
        for row in some:
            features = nystroem.transform(row)
            pca.partial_fit(features)
            pca.transform(features)

    def through() -> None:
        for _ in sb.encode_online(other, iter(singles)):
            pass

    both_taken, through_taken, theirs = in_turns(both, through, peer, rounds=rounds, repeats=1)
    theirs = theirs.per(len(some))
    rival = "scikit-learn Nystroem and partial_fit"
    for name, mine in (("learn, encode", both_taken), ("encode_online", through_taken)):
        yield Line.of(f"{name} row by row {shape}", rival, mine.per(len(singles)), theirs, bar=15)


def coders(shape: Shape, *, rounds: int, refine: int = 0) -> Iterator[Line]:
    """The first coder and later ones, in rows that are learned in their time."""
    rows = shape.drawn()
    first = min(10 * BLOCK, shape.rows // 2 // BLOCK * BLOCK)
    more = min(4 * BLOCK, first)

    def start() -> sb.Learner:
        return sb.ssbc(rows[: shape.landmarks], shape.bits, refine=refine).learn(rows[:first])

    def grown() -> sb.Learner:  # by rows that are new to it: known ones would move nothing
        learner = start()
        learner.coder()
        return learner.learn(rows[first : first + more])

    running = start()
    begun, refreshed, learning = in_turns(
        Prepared(start, sb.Learner.coder),
        Prepared(grown, sb.Learner.coder),
        lambda: running.learn(rows[:first]),
        rounds=rounds,
        repeats=min(rounds, 2),
    )
    row = learning.per(first)
    kind = f", refined {refine} bytes" if refine else ""
    least = 3000 if shape.landmarks <= 500 else 6000
    rival = "streambits learn"
    first_bar, later_bar = (None, None) if refine else (20_000, least)
    yield Line.of(f"first coder {shape}{kind}", rival, begun, row, unit="coder", bar=first_bar)
    yield Line.of(f"refresh {shape}{kind}", rival, refreshed, row, unit="coder", bar=later_bar)


def online(shape: Shape, *, rounds: int) -> Iterator[Line]:
    """`encode_online` beside `learn` and `encode` one after the other; its coders are included."""
    rows, count = shape.drawn(), shape.rows
    coder = sb.ssbc(rows[: shape.landmarks], shape.bits).learn(rows).coder()

    def fresh() -> sb.Learner:
        return sb.ssbc(rows[: shape.landmarks], shape.bits)

    def through(size: int) -> Prepared:
        batches = [rows[i : i + size] for i in range(0, count, size)]
        return Prepared(fresh, lambda learner: list(sb.encode_online(learner, iter(batches))))

    sizes = (8192, 1000)
    learned, encoded, *taken = in_turns(
        Prepared(fresh, lambda learner: learner.learn(rows)),
        lambda: coder.encode(rows),
        *map(through, sizes),
        rounds=rounds,
        repeats=1,
    )
    apart: Timing = (learned + encoded).per(count)
    for size, mine in zip(sizes, taken, strict=True):
        name = f"encode_online {shape}, batches of {size:,}"
        yield Line.of(name, "streambits learn, then encode", mine.per(count), apart, bar=0.7)


def nystroem_like(coder: sb.Coder, rows: Rows) -> Any:
    """scikit-learn's features of the same bandwidth and number of landmarks."""
    gamma = 1 / coder.features.bandwidth  # type: ignore[attr-defined]
    width = coder.features.width
    return Nystroem(gamma=gamma, n_components=width, random_state=0).fit(rows[:5000])


def bare_projection(shape: Shape) -> Rows:
    """Some matrix of that size."""
    return np.random.default_rng(1).random((shape.landmarks, shape.bits), dtype=np.float32)


def _lines(work: Callable[..., Iterator[Line]], shape: Shape, **settings: Any) -> Lines:
    """The lines of a work; `small` is for tests, which look at the answers and not at times."""

    def lines(*, small: bool = False) -> Iterator[Line]:
        if small:
            return work(SMALL, **settings | {"rounds": 1})
        return work(shape, **settings)

    return lines


LINES: dict[str, list[Lines]] = {
    "encode-learn": [_lines(throughput, NARROW, rounds=5, kinds=REFINED)],
    "wide": [_lines(throughput, EMBEDDINGS, rounds=3)],
    "one-row": [_lines(one_row, NARROW, rounds=5)],
    "coders": [
        _lines(coders, NARROW, rounds=5),
        _lines(coders, NARROW, rounds=3, refine=8),
        _lines(coders, SENTENCES, rounds=3),
    ],
    "online": [_lines(online, NARROW, rounds=5)],
}
