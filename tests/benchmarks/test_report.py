"""Lines, tables, the page and the figure, from results that were made up."""

import json

import pytest

from benchmarks import report
from benchmarks.report import Line

FAST = Line("encode", "NumPy products", [1e-6, 2e-6, 4e-6], [4e-6, 4e-6, 8e-6], bar=2)
COST = Line("refresh", "streambits learn", [0.03] * 3, [1e-5] * 3, unit="coder", bar=2999)
RATE = Line("encode there", "host", [1e-8], [1e-6], rate=2e8)
QUERY = Line("search", "FAISS IndexPQ", [0.002], [0.001], unit="query", note="R10@10 0.9")


def test_ratios_say_what_is_better():
    assert FAST.ratio.median == 2
    assert FAST.met
    assert COST.ratio.median == pytest.approx(3000)
    assert COST.met is False
    assert QUERY.ratio.median == 0.5
    assert QUERY.met is None
    assert RATE.ratio.median == pytest.approx(100)
    assert RATE.met is False


def test_the_table_shows_bar_and_measured_side_by_side():
    heading, fast, cost, rate, query = report.rows_of([FAST, COST, RATE, QUERY])
    assert heading[1:] == ["measured", "against", "ratio (quartiles)", "bar", "met"]
    assert fast[1:] == [
        "1.00 million rows/s",
        "NumPy products",
        "2.00 (2.00 to 3.00)",
        ">= 2",
        "yes",
    ]
    assert cost[1] == "30.0 ms"
    assert cost[3:] == ["3,000 (3,000 to 3,000) rows", "<= 2,999 rows", "no"]
    assert rate[1] == "100 million rows/s"
    assert rate[4:] == [">= 200 million rows/s", "no"]
    assert query[0] == "search; R10@10 0.9"
    assert query[4:] == ["", ""]


def test_tables_are_aligned_and_markdown():
    table = [["a", "long"], ["longer", "b"]]
    assert report.plain(table) == "a       long\nlonger  b"
    assert report.markdown(table) == "| a | long |\n|---|---|\n| longer | b |"


def test_lines_survive_json():
    lines = [FAST, COST, RATE, QUERY]
    assert report.from_json(json.loads(json.dumps(report.as_json(lines)))) == lines


def test_a_page_gets_new_tables_and_keeps_the_rest():
    page = "one\n<!-- lines -->\nold\nold\n<!-- end -->\ntwo\n<!-- growth -->\nx\n<!-- end -->\n"
    once = report.placed(page, "lines", r"new \1")
    assert once == page.replace("old\nold", r"new \1")
    assert report.placed(once, "lines", "old\nold") == page
    empty = page.replace("old\nold\n", "")
    assert report.placed(empty, "lines", "old\nold") == page
    with pytest.raises(ValueError, match="0 places"):
        report.placed(page, "shares", "new")


@pytest.mark.parametrize("lines", [[FAST, COST, RATE, QUERY], [QUERY]])
def test_the_figure_is_drawn(lines, tmp_path):
    report.draw(lines, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
