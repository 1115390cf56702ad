"""MAP at the end of the stream and online, steadiness, shards.

    STREAMBITS_DATA=folder python -m experiments.core [--seeds 3] [--refresh 500]

Protocol: landmarks are a uniform sample disjoint from the stream, the stream is shuffled, MAP is
tie-aware at sigma_30 of the landmarks over 1000 queries drawn from the stream. Online means
strictly online: each code is final before the next 500 rows are read. A refresh comes when the
rows have doubled, as by default, or, with --refresh, every so many rows.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import streambits as sb
from paper import datasets
from streambits.evaluation.bits import bits_changed
from streambits.evaluation.ranking import hamming_counts, mean_average_precision
from streambits.evaluation.truth import draw_queries, neighbours_within

WANTED = {  # bits, and the MAP that is wanted at least
    "uniform": (64, 0.93),
    "covtype": (64, 0.93),
    "sift": (64, 0.57),
    "mnist": (64, 0.63),
    "cbm": (32, 0.93),
}
BATCH, SHARDS, FIXED = 500, 16, 2000
SSBC = partial(sb.ssbc, epochs="never")  # shards that draw landmarks of their own do not merge


def measure(
    name: str, seed: int, build: Callable[..., sb.Learner] = SSBC, refresh: str | int = "auto"
) -> dict[str, Any]:
    """All figures for one data set and one seed."""
    bits, _ = WANTED[name]
    train, rows = datasets.stream(name, *datasets.SIZES[name], seed=seed)
    queries = draw_queries(1000, len(rows), seed=seed)
    near = neighbours_within(rows, queries, sb.bandwidth.nearest(30).distance(train))

    def score(codes: sb.Codes) -> float:
        return mean_average_precision(hamming_counts(codes, codes[queries], near, queries))

    pieces = [rows[i : i + BATCH] for i in range(0, len(rows), BATCH)]
    end = score(build(train, bits, seed=seed).learn(rows).coder().encode(rows))
    changed: list[float] = []
    fixed = rows[np.random.default_rng(seed).choice(len(rows), FIXED, replace=False)]

    def watch(old: sb.Coder, new: sb.Coder) -> None:
        changed.append(bits_changed(old.encode(fixed), new.encode(fixed)))

    learner = build(train, bits, seed=seed)
    online = sb.encode_online(learner, pieces, refresh=refresh, on_refresh=watch)
    strict = score(sb.Codes.concat([codes for _, codes in online]))
    shards = [build(train, bits, seed=seed).learn(rows[i::SHARDS]) for i in range(SHARDS)]
    whole = shards[0]
    for shard in shards[1:]:
        whole.merge(shard)
    merged = score(whole.coder().encode(rows))
    return {
        "end": end,
        "online": strict,
        "ratio": strict / end,
        "changed": float(np.mean(changed)),
        "first": changed[0],
        "merged": merged - end,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--refresh", default="auto")
    parser.add_argument("--data", nargs="*", default=list(WANTED))
    options = parser.parse_args()
    print(
        f"{'data':8} {'bits':>4} {'wanted':>6} {'seed':>4} {'end':>6} {'online':>6} {'ratio':>6} "
        f"{'changed/refresh':>15} {'first':>7} {'16 shards - one pass':>20}"
    )
    for name in options.data:
        if not datasets.available(name):
            print(f"{name:8} not measured: its file is not in STREAMBITS_DATA")
            continue
        bits, wanted = WANTED[name]
        for seed in range(options.seeds):
            refresh = options.refresh if options.refresh == "auto" else int(options.refresh)
            got = measure(name, seed, refresh=refresh)
            print(
                f"{name:8} {bits:4} {wanted:6} {seed:4} {got['end']:6.3f} {got['online']:6.3f} "
                f"{got['ratio']:6.3f} {got['changed']:14.3%} {got['first']:7.2%} "
                f"{got['merged']:+20.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
