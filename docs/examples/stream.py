"""A source of your own, served: a small stream without an end, of topics that move now and then.

python docs/examples/stream.py build/example-index [seconds]
"""

import sys
import time

import numpy as np

from streambits.model.batches import Removals, RowBatch
from streambits.service.server import serve

COLUMNS, TOPICS, BATCH = 16, 12, 50
FIRST, MOVES, KEPT = 6000, 20_000, 30_000  # rows: at once, until topics move, until one is removed


class Topics:
    """Rows near topics, 500 per second; the same rows from any offset."""

    name, length = "an example", None

    def identity(self):
        """What tells this source from others."""
        return {"example": 1}

    def read(self, offset=None):
        """Batches from an offset on."""
        start = offset or 0
        while True:
            topics = np.random.default_rng(start // MOVES).standard_normal((TOPICS, COLUMNS)) * 3
            rng = np.random.default_rng([start, 1])
            rows = topics[rng.integers(TOPICS, size=BATCH)] + rng.standard_normal((BATCH, COLUMNS))
            ids = np.arange(start, start + BATCH)
            old = ids[ids >= KEPT] - KEPT
            removals = Removals(old, np.zeros(len(old), np.int64)) if len(old) else None
            start += BATCH
            yield RowBatch(ids, rows.astype(np.float32), start, removals=removals)
            if start > FIRST:
                time.sleep(0.1)


def show(address, token):
    print(f"serving at {address}, with the token in {token}")


if __name__ == "__main__":
    folder, *seconds = sys.argv[1:]
    limit = {"port": 0, "seconds": float(seconds[0])} if seconds else {}
    serve(folder, source=Topics(), refine=8, keep_rows=True, tell=show, **limit)
