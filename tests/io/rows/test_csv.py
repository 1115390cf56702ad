import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits.errors import InputError, StorageError
from streambits.io.rows import open_source
from streambits.io.rows import text as text_module
from streambits.io.rows.csv import CsvParser
from streambits.io.rows.files import ReadOptions, sift
from streambits.io.rows.text import parse_lines


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,2\n3,4\n",
        "1,2\n3,4",
        "1;2\r\n3;4\r\n",
        "1\t2\n3\t4\n",
        "1 2\n 3   4 \n",
        "a b\n1 2\n3 4\n",
        '"a;b","c,d"\n1,2\n3,4\n',
        'height (cm), weight\n1, 2\n"3"," 4 "\n',
        "\ufeffa,b\n1,2\n3,4\n",
        "\n\n1,2\n\n  \n3,4\n\n",
        "+1,2.0\n.3e1,4.\n",
        "first name; or none,last name\n1,2\n3,4\n",
    ],
)
def test_headers_separators_and_blank_lines(read, content):
    ids, rows, rejects = read("a.csv", content)
    assert (ids, rows.tolist(), rejects) == ([0, 1], [[1, 2], [3, 4]], [])
    assert rows.dtype == np.float64


def test_numbers_are_read_to_the_last_bit(read):
    values = (
        np.random.default_rng(0).standard_normal(999) * 10.0 ** np.arange(-140, 139.5, 0.28)[:999]
    )
    _, rows, _ = read("a.csv", "".join(f"{value!r}\n" for value in values.tolist()))
    assert np.array_equal(rows[:, 0], values)


BAD = {
    "x,5": "column 'a' is 'x', which is not a number",
    "6": "expected 2 cells, got 1",
    "6,7,8": "expected 2 cells, got 3",
    "nan,1": "column 'a' is NaN",
    "1,-inf": "column 'b' is -inf",
    "NA,1": "column 'a' is 'NA', which is not a number",
    ",2": "column 'a' is missing",
    "1e400,2": "column 'a' is inf",
    "1e200,2": "column 'a' is 1e+200, too large to square: scale the data",
    "1_0,2": "column 'a' is '1_0', which is not a number",
    '"1,2': "a quote is not closed",
    '"1,2",3"': "a quote is not closed",
    "1,2\r3,4": "expected 2 cells, got 3",
    "true,1": "column 'a' is 'true', which is not a number",
    "0x10,1": "column 'a' is '0x10', which is not a number",
}


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_is_put_aside_with_its_reason_and_number(read, tmp_path, line):
    ids, rows, (reject,) = read("a.csv", f"a,b\n1,2\n\n{line}\n3,4\n")
    assert reject == (f"{tmp_path / 'a.csv'}:4", BAD[line], line)
    assert (ids, rows.tolist()) == ([0, 2], [[1, 2], [3, 4]])


def test_bytes_that_are_no_text_and_long_lines_are_cut(read):
    _, rows, rejects = read("a.csv", b"1,2\n\xff,3\n" + b"x" * 1000 + b",2\n4,5\n")
    assert rejects[0].reason == "it is not UTF-8 text"
    assert [len(reject.text) for reject in rejects] == [3, 200]
    assert rows.tolist() == [[1, 2], [4, 5]]


CELLS = ["1", "2.5", "-3e2", "", "x", "nan", '"4"', '"', "1_0", " 5", "é", "+6", "0x1F", "\t7 "]
CELLS += ['"1"2', '""3', '"4""5"', '" 6"', "00", "-0", "1e", ".5", "5.", "inf", "NA", "- 1", "1\r2"]
CELLS += ["1e-400", "1e400", "٣", "\x0b8", "0xFFFFFFFFFFFFFFFF", "9223372036854775808", "nan(1)"]
CELLS = st.sampled_from(CELLS) | st.text("0123456789+-.eExX_ \t\"'", max_size=6)
LINES = st.lists(st.lists(CELLS, min_size=2, max_size=3).map(",".join), min_size=1, max_size=12)


@given(LINES, st.booleans())
def test_a_line_is_good_or_bad_by_itself(lines, ids):
    by_itself("a,b", lines, ReadOptions(ids="b" if ids else None), text=False if ids else None)


FLAGS = st.sampled_from(["true", "1", "FALSE", "0", "", "x", "NA", '"true"', " 1"])
MORE = st.lists(st.tuples(CELLS, CELLS, FLAGS, CELLS).map(",".join), min_size=1, max_size=12)


@given(MORE, st.booleans())
def test_so_is_one_with_more_than_numbers(lines, text):
    by_itself("a,b,c,d", lines, ReadOptions(None, "b", removed="c", keep=("d",)), text=text)


def by_itself(header, lines, options, text):
    lines = [line.encode() for line in lines]
    parser = CsvParser(header.encode(), "a.csv", options)
    layout = parser.layout([], text)
    together = parse_lines(parser, lines, layout, options)
    parts = [parse_lines(parser, [line], layout, options) for line in lines]
    told = sift(together, {}, lambda place: place)
    alone = [sift(part, {}, lambda place: place) for part in parts]
    assert told.rejects == tuple(i for i, batch in enumerate(alone) if batch.rejects)
    assert np.array_equal(told.rows, np.concatenate([batch.rows for batch in alone]))
    if options.ids:
        assert told.ids.tolist() == [i for batch in alone for i in batch.ids.tolist()]
        assert removed(told) == [i for batch in alone for i in removed(batch)]
    if options.keep:
        assert told.payload.tolist() == [one for batch in alone for one in batch.payload.tolist()]


def removed(batch):
    return [] if batch.removals is None else batch.removals.ids.tolist()


def test_cells_longer_than_pythons_csv_takes(read):
    text = '"' + "word, " * 40_000 + '"'
    ids, rows, rejects = read("a.csv", f"t,a\n{text},1\n{text},x\n{text},3\n", columns=["a"])
    assert (ids, rows.tolist(), len(rejects)) == ([0, 2], [[1], [3]], 1)


def test_columns_and_ids_by_name(read):
    content = 'id,"text, more",a,b\n7,"x, y",1,2\n-8,z,3,4\n9.5,z,5,6\n,z,7,8\n'
    ids, rows, rejects = read("a.csv", content, columns=["b", "a"], ids="id")
    assert (ids, rows.tolist()) == ([7, -8], [[2, 1], [4, 3]])
    assert [reject.reason for reject in rejects] == [
        "the id '9.5' is not a 64-bit integer",
        "the id is missing",
    ]
    ids, _, (reject,) = read("a.csv", "a,id\n1,0x1F\nx,0x20\n2,3\n", ids="id")
    assert (ids, reject.reason) == ([31, 3], "column 'a' is 'x', which is not a number")
    ids, rows, _ = read("a.csv", "a,id,b\n1,5,2\n", ids="id")
    assert (ids, rows.tolist()) == ([5], [[1, 2]])


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a,b\n1,2\n", {"columns": ["c"]}, "a.csv has no column 'c'; it has a, b"),
        ("a,b\n1,2\n", {"ids": "c"}, "a.csv has no column 'c'; it has a, b"),
        ("a,a\n1,2\n", {}, "a.csv has 2 columns 'a'"),
        ("1,2\n", {"columns": ["a"]}, "a.csv has no header line, so it has no column 'a'"),
        ("1,2\n", {"ids": "a"}, "a.csv has no header line, so it has no column 'a'"),
    ],
)
def test_columns_that_are_not_there(read, content, options, message):
    with pytest.raises(InputError, match=message):
        read("a.csv", content, **options)


def test_a_file_that_is_no_text(read):
    with pytest.raises(StorageError, match=r"a.csv is not CSV: its first line is not UTF-8 text"):
        read("a.csv", "a,b\n".encode("utf-16"))


def test_files_with_columns_in_another_order(tmp_path, gather):
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("b,a\n4,3\n")
    (tmp_path / "3.csv").write_text("5,6\n")
    chunks = list(open_source(str(tmp_path)).read())
    assert gather(chunks)[1].tolist() == [[1, 2], [3, 4], [5, 6]]
    rest = open_source(str(tmp_path)).read(chunks[0].offset)
    assert gather(rest)[1].tolist() == [[3, 4], [5, 6]]
    (tmp_path / "4.csv").write_text("a,c\n1,2\n")
    with pytest.raises(InputError, match=r"4.csv has no column 'b', which .*1.csv has"):
        list(open_source(str(tmp_path)).read())


def test_a_line_without_end(read, monkeypatch):
    monkeypatch.setattr(text_module, "LONGEST", 100)
    with pytest.raises(StorageError, match=r"a.csv cannot be read after line 1: .* 100 bytes"):
        read("a.csv", "1,2\n" + "3" * 200)


def test_many_bad_lines_do_not_take_long(read):
    content = "a,b\n" + "".join(f"{i},{'x' if i % 2 else i}\n" for i in range(20000))
    ids, _, rejects = read("a.csv", content)
    assert (len(ids), len(rejects)) == (10000, 10000)


def test_lines_without_end_are_refused_at_once(read):
    with pytest.raises(InputError, match="has 70,000 cells in its first line"):
        read("a.csv", ",".join(["1"] * 70_000))
    with pytest.raises(StorageError, match="the next has more than 16777216 bytes: is this text"):
        read("a.csv", b"1," * (1 << 23) + b"1")


def test_long_lines_are_handed_out_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("streambits.io.rows.text.TOGETHER", 100)
    (tmp_path / "a.csv").write_text("1.25,2.5\n" * 50)
    chunks = list(open_source(str(tmp_path / "a.csv")).read())
    assert max(len(chunk.rows) for chunk in chunks) == 12
    assert sum(len(chunk.rows) for chunk in chunks) == 50
