"""SHA-256 of the codes for several batch sizes and numbers of threads: one line, if all is well.

python -m experiments.same_bits
"""

import hashlib

from threadpoolctl import threadpool_limits

import streambits as sb
from paper import datasets
from paper.datasets import Rows

BATCHES, THREADS = (1, 7, 256, 4096), (1, 2)


def fingerprint(train: Rows, rows: Rows, batch: int) -> str:
    """Learn and encode in batches of one size."""
    pieces = [rows[i : i + batch] for i in range(0, len(rows), batch)]
    learner = sb.ssbc(train, 64)
    for piece in pieces:
        learner.learn(piece)
    coder = learner.coder()
    codes = b"".join(coder.encode(piece).packed.tobytes() for piece in pieces)
    return hashlib.sha256(codes).hexdigest()


def main() -> None:
    train, rows = datasets.stream("uniform", 500, 10000)
    seen: dict[str, list[str]] = {}
    for threads in THREADS:
        with threadpool_limits(threads):
            for batch in BATCHES:
                seen.setdefault(fingerprint(train, rows, batch), []).append(f"{batch}/{threads}")
    for digest, settings in seen.items():
        print(f"{digest}  batch size/threads: {', '.join(settings)}")


if __name__ == "__main__":
    main()
