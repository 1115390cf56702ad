import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import streambits as sb
from streambits.evaluation.page import as_page, bar_plot, line_plot

ROWS = np.random.default_rng(0).random((800, 6), dtype=np.float32)
LINES = {"short": [(16, 0.2), (64, 0.95)], "a much longer name": [(16, 0.1), (64, 0.94)]}


def parts(svg, kind):
    return [part for part in ET.fromstring(svg) if part.tag.endswith(kind)]


def test_points_are_where_their_values_are():
    svg = line_plot("title", "bits", {"line": [(16, 0.0), (32, 0.5), (64, 1.0)]})
    [line] = parts(svg, "polyline")
    (x0, y0), (x1, y1), (x2, y2) = (map(float, p.split(",")) for p in line.get("points").split())
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)  # a logarithmic axis
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y0 > y2


def test_names_do_not_overlap_and_fit():
    svg = line_plot("title", "bits", LINES)
    root = ET.fromstring(svg)
    names = [text for text in parts(svg, "text") if text.text in LINES]
    heights = [float(text.get("y")) for text in names]
    assert abs(heights[0] - heights[1]) >= 13
    longest = max(names, key=lambda text: len(text.text))
    assert float(longest.get("x")) + 6.5 * len(longest.text) <= float(root.get("width"))


def test_one_point_is_a_plot_too():
    assert parts(line_plot("title", "bits", {"line": [(64, 0.5)]}), "circle")


def test_bars_are_as_high_as_their_values():
    svg = bar_plot("title", "bit", [0.25, 1.0], ("1", "2"))
    first, second = (float(part.get("height")) for part in parts(svg, "rect")[1:])
    assert second == pytest.approx(4 * first, abs=0.3)


@pytest.mark.parametrize(("lengths", "count"), [((), 3), ((4, 16), 5)])
def test_the_page_has_all_figures_and_needs_nothing_else(lengths, count):
    learner = sb.ssbc(ROWS[:50], 8).learn(ROWS)
    found = sb.evaluate(learner, ROWS, lengths=lengths, bytes=(2,) if lengths else ())
    page = as_page(found, "codes of <mine>")
    assert "<h1>codes of &lt;mine&gt;</h1>" in page
    assert found.advice in page
    for value in (found.model.map, *found.model.recall.values()):
        assert f"<td>{value:.3f}</td>" in page
    svgs = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(svgs) == count
    for svg in svgs:
        ET.fromstring(svg)
    without = page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http" not in without
    assert "<script" not in without


def test_recall_against_bytes_is_drawn_first():
    learner = sb.ssbc(ROWS[:50], 16, refine=2).learn(ROWS)
    found = sb.evaluate(learner, ROWS, lengths=(8, 32), bytes=(2, 4))
    page = as_page(found, "title")
    first = re.findall(r"<svg.*?</svg>", page, re.DOTALL)[0]
    texts = [text.text for text in parts(first, "text")]
    assert {"bytes per vector", "sign bits", "refined", "product codes", "this model"} <= {*texts}
    refined, *_ = (one for one in found.sizes if (one.kind, one.n_bytes) == ("refined", 2))
    assert f"<td>{refined.recall:.3f} (8 bits + 1 byte)</td>" in page


def test_a_page_of_product_codes_has_no_bits():
    learner = sb.methods.product(ROWS[:50], refine=2, epochs="never").learn(ROWS)
    page = as_page(sb.evaluate(learner, ROWS, lengths=(4,), bytes=(2,)), "title")
    assert "Balance" not in page
    assert "nan" not in page


def test_reasons_are_on_the_page():
    learner = sb.ssbc(ROWS[:20], 8).learn(ROWS)
    page = as_page(sb.evaluate(learner, ROWS, lengths=(64,), bytes=(8,)), "title")
    assert "64 bits: bits is 64, and 20 features" in page
    assert "32 bits + 4 bytes: bits is 32, and 20 features" in page
