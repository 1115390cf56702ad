import pytest

from paper.comparisons import EXACT
from paper.report import plots
from paper.report.figures import PAPER
from paper.report.plots import STYLES, look
from paper.report.tables import BEYOND
from paper.summary import Estimate

LINES = {
    "ssbc": [(20, Estimate(0.8, 0.02, 3)), (50, Estimate(0.9, 0.01, 3))],
    "lsh": [(20, Estimate(0.4, float("nan"), 1))],
    "sh": [],
}


def drawn_by(axes, method):
    """The lines of a method, told by its colour and marker."""
    wanted = look(method)
    return [
        line
        for line in axes.lines
        if (line.get_color(), line.get_marker()) == (wanted["color"], wanted["marker"])
    ]


def test_every_method_of_a_figure_has_a_look_of_its_own():
    assert {*PAPER, *EXACT, *BEYOND} == set(STYLES)
    assert len({(s.marker, s.dash, s.hollow) for s in STYLES.values()}) == len(STYLES)
    for methods in ((*PAPER, *EXACT), tuple(m for m in BEYOND if not m.startswith("faiss"))):
        assert len({STYLES[m].colour for m in methods}) == len(methods)


def test_lines_have_their_numbers_labels_and_bars():
    figure = plots.against_bits(LINES, "MAP", "MAP at sigma_30")
    (axes,) = figure.axes
    (ours,), (lsh,) = (drawn_by(axes, method) for method in ("ssbc", "lsh"))
    assert ours.get_xydata().tolist() == [[20, 0.8], [50, 0.9]]
    assert lsh.get_xydata().tolist() == [[20, 0.4]]
    assert not drawn_by(axes, "sh")
    assert axes.get_xlabel() == "length of the codes (bits)"
    assert axes.get_ylabel() == "MAP"
    assert axes.get_title(loc="left") == "MAP at sigma_30"
    bars = axes.containers[0].lines[2][0].get_segments()
    assert bars[0].tolist() == [[20, pytest.approx(0.78)], [20, pytest.approx(0.82)]]
