"""A picture of an evaluation: recall against bytes, and against bits. Needs matplotlib."""

from pathlib import Path
from typing import Any

from streambits._files import replacing
from streambits.errors import InputError, MissingExtraError
from streambits.evaluation.result import KIND_NAMES, Evaluation, best_by_bytes, candidates_label

FORMATS = (".png", ".svg", ".pdf")


def check_plot(path: Path) -> None:
    """Refuse what `write_plot` cannot do, before anything is measured.

    Raises
    ------
    InputError
        If the name of the file does not say a format.
    MissingExtraError
        If matplotlib is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} should end in one of {', '.join(FORMATS)}")
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error


def write_plot(evaluation: Evaluation, path: Path) -> None:
    """Write a picture of an evaluation, whole or not at all.

    Parameters
    ----------
    evaluation : Evaluation
        What to show: its sizes in bytes on the left, its lengths in bits on the right.
    path : Path
        A file that ends in .png, .svg or .pdf.

    Raises
    ------
    InputError, MissingExtraError
        As for `check_plot`.
    """
    check_plot(path)
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for kind, name in KIND_NAMES.items():
        best = best_by_bytes(evaluation, kind)
        _line(left, list(best), [one.recall for one in best.values()], name)
    if evaluation.itself is not None:
        own = evaluation.itself
        left.plot(own.n_bytes, own.recall, "k*", markersize=11, label=f"this model: {own.label}")
    lengths = [one for one in evaluation.lengths or (evaluation.model,) if one.recall and one.bits]
    for count in evaluation.candidates:
        label = candidates_label(count, evaluation.k)
        _line(right, [one.bits for one in lengths], [one.recall[count] for one in lengths], label)
    _line(right, [one.bits for one in lengths], [one.map for one in lengths], "MAP")
    left.set(xlabel="bytes per row", ylabel=f"recall of the {evaluation.k} nearest", ylim=(0, 1))
    right.set(xlabel="sign bits")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix.lower().removeprefix("."))


def _line(axes: Any, x: list[int], y: list[float], label: str) -> None:
    if x:
        axes.plot(x, y, "o-", markersize=4, label=label)
