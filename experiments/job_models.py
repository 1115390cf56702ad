"""How far the coder that an `online` job leaves is from one that is made after the last row.

python -m experiments.job_models

Of the last epoch of a stream, the share of bits in which they differ: the coder that made the last
codes, which the job leaves, and a new one of the same learner; and the codes that were given out
and those that the new one gives.
"""

import numpy as np
from numpy.typing import NDArray

from paper import datasets
from paper.datasets import Rows
from streambits.jobs.work import Change, Online
from streambits.methods.settings import Settings
from streambits.model.batches import RowBatch

BITS, SPARE, LENGTH, CHUNK = 64, 500, 60_000, 8192
DATA, ORDERS = ("uniform", "covtype", "mnist"), ("shuffled", "sorted")


def given_out(work: Online, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Ids and codes of the last epoch, as `streambits online` gives them."""
    coded: list[Change] = []
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        coded += work.process(RowBatch(np.arange(start, start + len(some)), some))
    newest = work.coders.newest.epoch
    coded += work.finish()
    last = [part for part in coded if part.codes and part.codes.epoch == newest]
    ids = np.concatenate([part.ids for part in last])
    return ids, np.concatenate([part.codes.unpack() for part in last if part.codes])


def compare(name: str, order: str) -> str:
    """One line of figures."""
    work = Online(Settings(BITS).checked())
    rows = datasets.stream(name, SPARE, LENGTH, order=order).rows
    ids, given = given_out(work, rows)
    assert work.learner is not None
    final = work.learner.coder().encode(rows[ids]).unpack()
    coder = np.mean(work.coders.newest.encode(rows[ids]).unpack() != final)
    codes = np.mean(given != final)
    epochs = f"epoch {work.epoch}, {len(ids)} rows of it"
    return f"{name}, {order}: coders {coder:.2%}, codes {codes:.2%} ({epochs})"


def main() -> None:
    for name in DATA:
        for order in ORDERS:
            print(compare(name, order), flush=True)


if __name__ == "__main__":
    main()
