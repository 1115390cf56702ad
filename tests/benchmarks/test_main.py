"""The whole of `python -m benchmarks`, on tiny sizes: measured, joined, put into a page."""

import json
import warnings
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from benchmarks import gpu, report
from benchmarks.__main__ import circumstances, joined, main, tables
from benchmarks.report import Line

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
FAST = Line("encode", "NumPy products", [1e-6, 2e-6, 4e-6], [4e-6, 4e-6, 8e-6], bar=2)
COST = Line("refresh", "streambits learn", [0.03] * 3, [1e-5] * 3, unit="coder", bar=2999)
RATE = Line("encode on the device", "host", [1e-8], [1e-6], rate=2e8)
QUERY = Line("search", "FAISS IndexPQ", [0.002], [0.001], unit="query", note="R10@10 0.9")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Raw results of all parts."""
    path = tmp_path_factory.mktemp("bench") / "results.json"
    with warnings.catch_warnings(), threadpool_limits(1):  # beside other tests, more are slower
        warnings.simplefilter("ignore")  # of scikit-learn, about so few rows
        main(["--small", "--json", str(path)])
    return path


@pytest.mark.slow
def test_results_are_measured_joined_and_put_into_the_page(results, tmp_path, capsys):
    whole = json.loads(results.read_text())
    whats = " ".join(line["what"] for line in whole["lines"])
    for word in ("encode 8", "learn 8", "refined 8 bytes", "one row", "first coder", "64 queries"):
        assert word in whats
    assert all(min(line["ours"] + line["theirs"]) > 0 for line in whole["lines"])
    page = tmp_path / "performance.md"
    page.write_text(PAGE.read_text())
    main(["--from", str(results), "--page", str(page), "--markdown"])
    text, printed = page.read_text(), capsys.readouterr().out
    for _, table in tables(whole).values():
        row = "| " + " | ".join(table[-1]) + " |"
        assert row in text
        assert row in printed
    assert (tmp_path / "performance.png").exists()
    both = joined([{**whole, "lines": whole["lines"][:2]}, {**whole, "lines": whole["lines"][2:]}])
    assert both["lines"] == whole["lines"]
    assert "Measured in 2 runs, one for each part," in circumstances(both)


def test_ratios_say_what_is_better():
    assert (FAST.ratio.median, FAST.met) == (2, True)
    assert (COST.ratio.median, COST.met) == (pytest.approx(3000), False)
    assert (QUERY.ratio.median, QUERY.met) == (0.5, None)
    assert (RATE.ratio.median, RATE.met) == (pytest.approx(100), False)


def test_the_table_shows_bar_and_measured_side_by_side():
    heading, fast, cost, *_ = report.rows_of([FAST, COST, RATE, QUERY])
    assert heading[1:] == ["measured", "against", "ratio (quartiles)", "bar", "met"]
    assert fast[1:4] == ["1.00 million rows/s", "NumPy products", "2.00 (2.00 to 3.00)"]
    assert cost[3:] == ["3,000 (3,000 to 3,000) rows", "<= 2,999 rows", "no"]
    assert report.from_json(json.loads(json.dumps(report.as_json([FAST, QUERY])))) == [FAST, QUERY]


def test_a_page_gets_new_tables_and_keeps_the_rest():
    page = "one\n<!-- lines -->\nold\n<!-- end -->\ntwo\n<!-- gpu -->\nx\n<!-- end -->\n"
    assert report.placed(page, "lines", r"new \1") == page.replace("old", r"new \1")
    with pytest.raises(ValueError, match="0 places"):
        report.placed(page, "shares", "new")


def test_without_torch_there_are_no_lines_of_a_device(monkeypatch):
    monkeypatch.setattr(gpu, "find_spec", lambda _: None)
    assert list(gpu.lines(small=True)) == []
