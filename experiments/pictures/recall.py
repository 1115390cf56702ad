"""Recall against bytes: the table of docs/recall.md, made by `experiments.bytes`, as a picture."""

from pathlib import Path

from experiments.pictures.svg import Axes, Picture

PAGE = Path(__file__).parents[2] / "docs" / "recall.md"
SHOWN = {  # column of the table: name in the picture
    "product (ours)": "product codes",
    "refined: half signs, 300 candidates (ours)": "bits and refinement",
    "FAISS PQ": "FAISS PQ",
    "FAISS OPQ": "FAISS OPQ",
    "ssbc, Hamming": "sign bits alone",
}
TITLE = "Recall of the ten nearest among the first ten answers, against bytes per vector"
Figures = dict[str, dict[str, list[tuple[float, float]]]]


def figures(page: str) -> Figures:
    """The first table of the page: data set, then column, then (bytes, recall)."""
    lines = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    heads = [cell.strip() for cell in lines[0]]
    found: Figures = {}
    for line in lines[2:]:
        cells = dict(zip(heads, (cell.strip() for cell in line)))
        if len(line) != len(heads):
            break  # the next table
        for column in SHOWN:
            if cells[column] != "-":
                point = float(cells["bytes"]), float(cells[column])
                found.setdefault(cells["data"], {}).setdefault(column, []).append(point)
    return found


def draw() -> str:
    """The picture."""
    picture = Picture(860, 470, TITLE)
    for number, (name, columns) in enumerate(figures(PAGE.read_text()).items()):
        left, top = 60 + 270 * (number % 3), 70 + 200 * (number // 3)
        axes = Axes(picture, left, top, 215, 125, (6, 18), (0, 1))
        ticks = [(value / 4, f"{value / 4:g}") for value in range(5)]
        axes.frame(name, [(8, "8"), (16, "16")], ticks, "bytes per vector" if number > 2 else "")
        for series, column in enumerate(SHOWN):
            axes.series(columns.get(column, []), series, dots=True)
    picture.key(60, 28, list(SHOWN.values()), [150, 180, 120, 130, 150])
    return picture.as_svg()
