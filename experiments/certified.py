"""Raw rows that are read to prove the ten nearest, with product codes and a byte for the error.

    STREAMBITS_DATA=folder python -m experiments.certified

The median over 200 held-out queries; bytes count that of the error.
"""

import numpy as np

import streambits as sb
from experiments.bytes import K, learned, task_of
from paper import datasets

QUERIES = 200


def main() -> None:
    print("| data | rows | bytes | reads, median |")
    print("|---|---:|---:|---:|")
    for name, count in (("covtype", 8), ("sift", 16), ("sift", 64)):
        if not datasets.available(name):
            continue
        task, _ = task_of(name, 0)
        settings = sb.Settings(method="product", refine=count, certified=True, epochs="never")
        coder, index = learned(settings, task)
        hits = index.search(coder.queries(task.queries[:QUERIES]), K, exact=task.rows)
        assert hits.reads is not None
        reads = np.median(hits.reads)
        print(f"| {name} | {len(index)} | {coder.refine} | {reads:.0f} |", flush=True)


if __name__ == "__main__":
    main()
