"""Bad rows by format: one sentence for each, with its place; a line is judged by itself."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits.errors import InputError, StorageError
from streambits.io.rows import text as module
from streambits.io.rows.csv import CsvParser
from streambits.io.rows.files import ReadOptions, RowSchema, split_rejects
from streambits.io.rows.jsonl import JsonParser

CSV = {
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
    "1,2\r3,4": "a carriage return stands in the middle of it",
    "true,1": "column 'a' is 'true', which is not a number",
    "0x10,1": "column 'a' is '0x10', which is not a number",
    "é,1": "column 'a' is 'é', which is not a number",
    "٣,1": "column 'a' is '٣', which is not a number",
}
JSON = {
    "[1]": "expected 2 values, got 1",
    "[1,2,3]": "expected 2 values, got 3",
    "[true,1]": "value 1 of 2 is True, which is not a number",
    '["1",1]': "value 1 of 2 is '1', which is not a number",
    "[null,2]": "value 1 of 2 is missing",
    "[NaN,1]": "value 1 of 2 is NaN",
    "[1,-Infinity]": "value 2 of 2 is -inf",
    "[1,1e999]": "value 2 of 2 is inf",
    "[1," + "9" * 400 + "]": "value 2 of 2 is inf",
    "[1,1e200]": "value 2 of 2 is 1e+200, too large to square: scale the data",
    "[[1],2]": "value 1 of 2 is [1], which is not a number",
    "nope": "it is not JSON: Expecting value: line 1 column 1 (char 0)",
    "[01,1]": "it is not JSON: Expecting ',' delimiter: line 1 column 3 (char 2)",
    "[1,2],[3,4]": "it is not JSON: Extra data: line 1 column 6 (char 5)",
    "null": "the row is missing",
    "{}": "{} is not a list of numbers",
    "[" * 10**5: "it is not JSON: it is nested too deep",
}


@pytest.mark.parametrize("line", CSV)
def test_a_bad_line_of_csv(read, tmp_path, line):
    ids, rows, (reject,) = read("a.csv", f"a,b\n1,2\n\n{line}\n3,4\n")
    assert reject == (f"{tmp_path / 'a.csv'}:4", CSV[line], line)
    assert (ids, rows.tolist()) == ([0, 2], [[1, 2], [3, 4]])


@pytest.mark.parametrize("line", JSON, ids=lambda line: line[:12])
def test_a_bad_line_of_json(read, tmp_path, line):
    ids, rows, (reject,) = read("a.jsonl", f" [1, 2.5]\n\n{line}\n[3,4] \n")
    assert reject == (f"{tmp_path / 'a.jsonl'}:3", JSON[line], line[:200])
    assert (ids, rows.tolist()) == ([0, 2], [[1, 2.5], [3, 4]])


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_bytes_that_are_no_text_and_long_lines_are_cut(read, name):
    lines = [b"1,2", b"\xff,3", b"x" * 1000 + b",2", b"4,5"]
    lines = [b"[%b]" % line for line in lines] if name == "a.jsonl" else lines
    _, rows, rejects = read(name, b"\n".join(lines))
    assert rejects[0].reason == "it is not UTF-8 text"
    assert len(rejects[1].text) == 200
    assert rows.tolist() == [[1, 2], [4, 5]]


CELLS = ["1", "2.5", "-3e2", "", "x", "nan", '"4"', '"', "1_0", " 5", "é", "+6", "0x1F", "\t7 "]
CELLS += ['"1"2', '""3', '"4""5"', '" 6"', "00", "-0", "1e", ".5", "5.", "inf", "NA", "- 1", "1\r2"]
CELLS += ["1e-400", "1e400", "٣", "\x0b8", "0xFFFFFFFFFFFFFFFF", "9223372036854775808", "nan(1)"]
CELLS = st.sampled_from(CELLS) | st.text("0123456789+-.eExX_ \t\"'", max_size=6)
FLAGS = st.sampled_from(["true", "1", "FALSE", "0", "", "x", "NA", '"true"', " 1"])
PLAIN = st.lists(st.lists(CELLS, min_size=2, max_size=3).map(",".join), min_size=1, max_size=12)
WIDE = st.lists(st.tuples(CELLS, CELLS, FLAGS, CELLS).map(",".join), min_size=1, max_size=12)
PIECES = ["[1,2]", "[3,4.5]", "[1", "2]", "[1,2],[3,4]", "[[1,2]", "[true,4]", "1,2", "[NaN,1]"]
MORE = ReadOptions(None, "b", removed="c", keep=("d",))


@given(
    st.one_of(
        st.tuples(st.just("a,b"), PLAIN, st.just(ReadOptions()), st.none()),
        st.tuples(st.just("a,b"), PLAIN, st.just(ReadOptions(ids="b")), st.just(False)),
        st.tuples(st.just("a,b,c,d"), WIDE, st.just(MORE), st.booleans()),
        st.tuples(
            st.none(),
            st.lists(st.sampled_from(PIECES), min_size=1),
            st.just(ReadOptions()),
            st.none(),
        ),
    )
)
def test_a_line_is_good_or_bad_by_itself(case):
    header, lines, options, is_text = case
    lines = [line.encode() for line in lines]
    parser = CsvParser(header.encode(), "a.csv", options) if header else JsonParser("a", options)
    schema = RowSchema(2, "a", None, True) if header is None else None
    schema = parser.parse([], schema)[1]._replace(text=is_text)

    def read(lines):
        parsed = parser.parse(lines, schema)[0]
        batch = split_rejects(parsed, {}, lambda _: "here", lambda place: lines[place].decode())
        gone = [] if batch.removals is None else batch.removals.ids.tolist()
        kept = [] if batch.payload is None else batch.payload.tolist()
        return [*zip(batch.ids.tolist(), batch.rows.tolist())], list(batch.rejects), gone, kept

    together, alone = read(lines), [read([line]) for line in lines]
    for part, merged in enumerate(together):
        each = [value for one in alone for value in one[part]]
        if part == 0 and options.ids is None:  # counted
            merged, each = [row for _, row in merged], [row for _, row in each]  # noqa: PLW2901
        assert merged == each


def test_bad_lines_in_an_object_with_ids(read):
    lines = [
        {"id": 3, "v": [1, 2], "text": "[{", "more": {"x": [1, {}]}},
        {"v": [1, 2]},
        {"id": 4.5, "v": [1, 2]},
        {"id": 2**63, "v": [1, 2]},
        {"id": -5, "v": [3, 4], "other": 1},
        {"id": 7},
        [1, 2],
        {"id": 8, "v": 5},
        {"id": "a", "v": [1, 2]},
    ]
    ids, rows, rejects = read("a.jsonl", "\n".join(map(json.dumps, lines)), ids="id")
    assert (ids, rows.tolist()) == ([3, -5], [[1, 2], [3, 4]])
    assert [reject.reason for reject in rejects] == [
        "it has no 'id'",
        "the id 4.5 is not a 64-bit integer",
        "the id 9223372036854775808 is not a 64-bit integer",
        "it has no 'v'",
        "it has no 'v'",
        "5 is not a list of numbers",
        "the id 'a' is not a 64-bit integer",
    ]


def test_numbers_in_an_object(read):
    content = '{"a":1,"s":"x","b":2,"t":true}\n{"b":4,"a":3,"c":9}\n{"a":1}\n{"a":1,"b":"x"}\n'
    ids, rows, rejects = read("a.jsonl", content)
    assert (ids, rows.tolist()) == ([0, 1], [[1, 2], [3, 4]])
    assert [reject.reason for reject in rejects] == [
        "it has no 'b'",
        "column 'b' is 'x', which is not a number",
    ]
    assert read("a.jsonl", content, columns=["b"])[1].tolist() == [[2], [4]]
    assert len(read("a.jsonl", content, columns=["nowhere"])[2]) == 4


def test_the_first_good_line_says_what_a_row_is(read):
    content = '\n[]\nx\n{"a": []}\n[1, 2]\n[3, 4]\n[5]\n'
    for rows in (1, 2, 100):
        ids, found, rejects = read("a.jsonl", content, rows=rows)
        assert (ids, found.tolist(), len(rejects)) == ([3, 4], [[1, 2], [3, 4]], 4)


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
    values = np.random.default_rng(0).standard_normal(999) * 10.0 ** np.linspace(-140, 139, 999)
    for name, form in (("a.csv", "{!r}\n"), ("a.jsonl", "[{!r}]\n")):
        _, rows, _ = read(name, "".join(map(form.format, values.tolist())))
        assert np.array_equal(rows[:, 0], values)


def test_columns_and_ids_by_name(read):
    content = 'id,"text, more",a,b\n7,"x, y",1,2\n-8,z,3,4\n9.5,z,5,6\n,z,7,8\n0x1F,z,1,2\n'
    ids, rows, rejects = read("a.csv", content, columns=["b", "a"], ids="id")
    assert (ids, rows.tolist()) == ([7, -8], [[2, 1], [4, 3]])
    assert [reject.reason for reject in rejects] == [
        "the id '9.5' is not a 64-bit integer",
        "the id is missing",
        "the id '0x1F' is not a 64-bit integer",
    ]


@pytest.mark.parametrize(
    ("content", "options", "error", "message"),
    [
        ("a,b\n1,2\n", {"columns": ["c"]}, InputError, "a.csv has no column 'c'; it has a, b"),
        ("a,b\n1,2\n", {"ids": "c"}, InputError, "a.csv has no column 'c'; it has a, b"),
        ("a,a\n1,2\n", {}, InputError, "a.csv has 2 columns 'a'"),
        ("1,2\n", {"ids": "a"}, InputError, "a.csv has no header line, so it has no column 'a'"),
        ("é".encode("utf-16"), {}, StorageError, "not CSV: its first line is not UTF-8 text"),
        (",".join(["1"] * 70_000), {}, InputError, "has 70,000 cells in its first line"),
        (b"1\n2\n" + b"3" * 2**20, {}, StorageError, "after line 2: the next has more than 9000"),
    ],
)
def test_csv_that_cannot_be_read(read, monkeypatch, content, *, options, error, message):
    monkeypatch.setattr(module, "LONGEST", 9000 if len(content) > 2**20 else 2**24)
    with pytest.raises(error, match=message):
        read("a.csv", content, **options)


def test_long_cells_and_many_bad_lines(read):
    text = '"' + "word, " * 40_000 + '"'
    ids, rows, rejects = read("a.csv", f"t,a\n{text},1\n{text},x\n{text},3\n", columns=["a"])
    assert (ids, rows.tolist(), len(rejects)) == ([0, 2], [[1], [3]], 1)
    content = "a,b\n" + "".join(f"{i},{'x' if i % 2 else i}\n" for i in range(20000))
    ids, _, rejects = read("a.csv", content)
    assert (len(ids), len(rejects)) == (10000, 10000)
