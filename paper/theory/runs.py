"""The paper's theory on each data set, measured once and kept in a file like the cells."""

import dataclasses
from collections.abc import Callable
from os.path import lexists
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from paper import datasets
from paper.grid import Grid
from paper.runs import made_with, read_result, write_result
from paper.theory import lemmas
from paper.theory.columns import columns
from streambits.features import nearest

SAMPLES = (50, 200, 800, 3200)  # columns of W
SKETCHES = (10, 20, 40, 100)  # rows of B
BITS = (20, 50)  # whose sketches of l = 2 k rows Theorem 1 is measured with
TABLE_1 = {"pamap2": (44, 44), "cbm": (18, 16), "uniform": (50, 50), "covtype": (54, 53)}


class Proof(NamedTuple):
    """What the theory gives on a data set; figures: by the names of `theory`'s functions."""

    data: str
    figures: dict[str, Any]
    made_with: dict[str, str]


def run(grid: Grid, folder: Path, *, on_start: Callable[[str], None]) -> None:
    """Measure what is missing; reports every data set before it starts."""
    for name in missing(grid, folder):
        on_start(name)
        content = {"data": name, "figures": measure(name, grid.theory_rows)}
        write_result(_file(folder, name, grid.theory_rows), content)


def missing(grid: Grid, folder: Path) -> list[str]:
    """Data sets that have no result yet."""
    return [n for n in grid.theory if not lexists(_file(folder, n, grid.theory_rows))]


def results(grid: Grid, folder: Path) -> list[Proof]:
    """The results that there are."""
    paths = {name: _file(folder, name, grid.theory_rows) for name in grid.theory}
    found = {name: read_result(path) for name, path in paths.items() if lexists(path)}
    return [Proof(name, c["figures"], made_with(c)) for name, c in found.items()]


def measure(name: str, rows: int) -> dict[str, Any]:
    """All of the theory on the first rows of a shuffled stream, with the paper's landmarks.

    The bandwidth is that of the landmarks for every n: it is what the algorithm would use.
    Costs a few passes over `rows` x `rows` doubles for each size.
    """
    landmarks, _ = datasets.SIZES.get(name, (200, rows))
    train, points = datasets.stream(name, landmarks, rows)
    bandwidth, n = nearest(30).of(train), len(points)
    w = lemmas.affinities(points, bandwidth)
    sizes = [m for m in SAMPLES if m <= n]
    return {
        "n": n,
        "m": landmarks,
        "columns": [_plain(columns(points[:k], bandwidth)) for k in (n // 4, n)],
        "sampling": [_plain(at) for at in lemmas.sampling(w, sizes)],
        "sketching": [_plain(at) for at in lemmas.sketching(w[:, :landmarks], SKETCHES)],
        "theorem": [_plain(lemmas.theorem(w, landmarks, 2 * bits)) for bits in BITS],
        "table": _table(name),
    }


def _table(name: str) -> dict[str, int] | None:
    """Dimension and rank of the data, where the paper's Table 1 has them."""
    if name not in TABLE_1:
        return None
    rows = datasets.load(name).astype(np.float64)
    return {"columns": rows.shape[1], "rank": int(np.linalg.matrix_rank(rows))}


def _plain(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return dict(value._asdict())


def _file(folder: Path, name: str, rows: int) -> Path:
    return folder / f"theory-{name}-{rows}.json"
