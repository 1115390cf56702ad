"""Pictures. The only file that knows matplotlib; every picture can be read without colour."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from streambits.errors import MissingExtraError, StorageError
from streambits.evaluation.compare import Score
from streambits.evaluation.gallery import Found, Gallery

OURS, OTHERS = "#1f4e79", "#dfe5ec"
RIGHT, WRONG = "#2e7d32", "#c62828"
HATCHES = ("", "//", "..", "xx")
DPI = 160


def check(path: Path) -> None:
    """Raise now what writing a picture to `path` would raise later."""
    _figure_class()
    temporary = _beside(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        temporary.write_bytes(b"")
        temporary.unlink()
    except OSError as error:
        raise _unwritable(path, error) from None


def new(width: float, height: float) -> Any:
    """An empty figure, in inches."""
    return _figure_class()(figsize=(width, height), facecolor="white", layout="constrained")


def as_svg(figure: Any) -> bytes:
    """The same bytes every time: no date, no random names."""
    from matplotlib import rc_context  # noqa: PLC0415 - an extra

    file = io.BytesIO()
    with rc_context({"svg.hashsalt": "streambits", "svg.fonttype": "path"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def overview(scores: list[Score], gallery: Gallery) -> Any:
    """Left, MAP by method, a panel a data set; right, the nearest digits by each method."""
    figure = _figure_class()(figsize=(12.5, 6.8), facecolor="white")
    data = list(dict.fromkeys(score.data for score in scores))
    height = 0.80 / len(data)
    for row, name in enumerate(data):
        bottom = 0.90 - (row + 1) * height + 0.065
        axes = figure.add_axes((0.155, bottom, 0.30, height - 0.115))
        _bars(axes, [score for score in scores if score.data == name])
    _pictures(figure.add_axes((0.51, 0.09, 0.48, 0.84)), gallery)
    bits = scores[0].bits
    _title(figure, 0.012, f"How well {bits}-bit codes rank true neighbours")
    _title(figure, 0.515, f"Nearest digits by {bits}-bit Hamming distance")
    figure.text(0.515, 0.042, _shares(gallery), size=9.5, va="center", linespacing=1.4)
    return figure


def write(figure: Any, path: Path) -> None:
    """As PNG, under another name first: a crash leaves an old picture whole."""
    temporary = _beside(path)
    try:
        figure.savefig(temporary, format="png", dpi=DPI)
        os.replace(temporary, path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def _bars(axes: Any, scores: list[Score]) -> None:
    names = [score.method for score in scores]
    values = [score.quality for score in scores]
    colours = [OURS] + [OTHERS] * (len(scores) - 1)
    bars = axes.barh(names, values, color=colours, edgecolor="#333333", height=0.72)
    for bar, hatch, name, value in zip(bars, HATCHES, names, values, strict=False):
        bar.set_hatch(hatch)
        weight = "bold" if name == names[0] else "normal"
        axes.text(value + 0.015, name, f"{value:.2f}", va="center", weight=weight, size=11)
    rows = f"{scores[0].data.capitalize()}, {len(scores[0].codes):,} rows"
    axes.set_title(rows, loc="left", size=11.5, weight="bold")
    axes.set_xlim(0, 1.1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0, labelsize=11)
    axes.set_xlabel("mean average precision (1 is perfect)", size=10.5)


def _pictures(axes: Any, gallery: Gallery) -> None:
    """Cells of height 1: the query at the left, its nearest by one method a line."""
    block = len(gallery.found) + 0.5
    for number, place in enumerate(gallery.queries):
        top = number * block
        _digit(axes, gallery.images[place], 0.1, top + 0.3, 2.2)
        axes.text(1.2, top + 2.75, "query", ha="center", va="top", size=11)
        for line, found in enumerate(gallery.found):
            _line(axes, gallery, found, number, top + line)
    axes.set_xlim(0, 14.4)
    axes.set_ylim(len(gallery.queries) * block - 0.4, -0.1)
    axes.set_axis_off()


def _line(axes: Any, gallery: Gallery, found: Found, number: int, y: float) -> None:
    axes.text(6.3, y + 0.48, found.method, ha="right", va="center", size=10.5)
    for column, place in enumerate(found.places[number]):
        x, right = 6.55 + 1.33 * column, found.right[number, column]
        _digit(axes, gallery.images[place], x, y + 0.03, 0.94)
        mark, colour = ("\u2713", RIGHT) if right else ("\u2717", WRONG)
        axes.text(x + 1.09, y + 0.5, mark, color=colour, ha="center", va="center", size=12)


def _shares(gallery: Gallery) -> str:
    shares = ",  ".join(f"{found.method} {found.share:.0%}" for found in gallery.found)
    nearest, rows = gallery.found[0].places.shape[1], len(gallery.images)
    digits = ", ".join(map(str, gallery.digits))
    shown = f"Queries: the first {digits} of the stream. \u2713 the same digit."
    return f"{shown}\nThe same digit among the nearest {nearest}, over all {rows:,}:\n{shares}"


def _digit(axes: Any, image: Any, x: float, y: float, size: float) -> None:
    image = np.pad(image, 1)  # digits fill their 8 x 8 cells to the brim
    axes.imshow(image, cmap="gray_r", extent=(x, x + size, y + size, y), interpolation="bilinear")


def _title(figure: Any, x: float, text: str) -> None:
    figure.text(x, 0.95, text, size=14, weight="bold")


def _figure_class() -> Any:
    """Figures that draw to files only, and leave the user's matplotlib settings alone."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("matplotlib", "plots") from None
    return Figure


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def _unwritable(path: Path, error: OSError) -> StorageError:
    return StorageError(f"{path} cannot be written ({error.strerror}): choose another place")
