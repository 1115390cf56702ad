import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits.errors import InputError
from streambits.io.rows import open_source
from streambits.io.rows.files import Layout, ReadOptions
from streambits.io.rows.jsonl import JsonParser
from streambits.io.rows.text import parse_lines

BAD = {
    "[1]": "expected 2 values, got 1",
    "[1,2,3]": "expected 2 values, got 3",
    "[true,1]": "value 1 of 2 is True, which is not a number",
    '["1",1]': "value 1 of 2 is '1', which is not a number",
    "[null,2]": "value 1 of 2 is missing",
    "[NaN,1]": "value 1 of 2 is NaN",
    "[1,-Infinity]": "value 2 of 2 is -inf",
    "[1,1e999]": "value 2 of 2 is inf",
    "[[1],2]": "value 1 of 2 is [1], which is not a number",
    "nope": "it is not JSON: Expecting value: line 1 column 1 (char 0)",
    "[01,1]": "it is not JSON: Expecting ',' delimiter: line 1 column 3 (char 2)",
    "[1,2],[3,4]": "it is not JSON: Extra data: line 1 column 6 (char 5)",
    "{}": "{} is not a list of numbers",
    "[" * 10**5: "it is not JSON: it is nested too deep",
}


@pytest.mark.parametrize("line", BAD, ids=lambda line: line[:12])
def test_a_bad_line_is_put_aside_with_its_reason_and_number(read, tmp_path, line):
    ids, rows, (reject,) = read("a.jsonl", f" [1, 2.5]\n\n{line}\n[3,4] \n")
    assert reject == (f"{tmp_path / 'a.jsonl'}:3", BAD[line], line[:200])
    assert (ids, rows.tolist()) == ([0, 2], [[1, 2.5], [3, 4]])


@pytest.mark.parametrize(
    "line", ["null", "null}", '{"v":[1]}null{"v":[2]}', '{"v":[1]} null', "{}"]
)
def test_what_makes_pyarrow_crash_or_gives_no_row(read, line):
    ids, rows, (reject,) = read("a.jsonl", f'{{"v":[1]}}\n{line}\n{{"v":[3]}}\n', rows=1)
    assert (ids, rows.tolist()) == ([0, 2], [[1], [3]])
    assert reject.text == line
    assert read("a.jsonl", line, columns=["v"])[:2][0] == []


def test_bytes_that_are_no_text(read):
    content = b'{"v":[1],"t":"a"}\n{"v":[2],"t":"\xff"}\n{"v":[3],"t":"\xc3\xa9"}\n'
    ids, rows, (reject,) = read("a.jsonl", content)
    assert (ids, rows.tolist()) == ([0, 2], [[1], [3]])
    assert reject.reason == "it is not UTF-8 text"


def test_a_list_in_an_object_with_ids(read):
    lines = [
        {"id": 3, "v": [1, 2], "text": "[{", "more": {"x": [1, {}]}},
        {"v": [1, 2]},
        {"id": 4.5, "v": [1, 2]},
        {"id": 2**63, "v": [1, 2]},
        {"id": -5, "v": [3, 4], "other": 1},
        {"id": 6, "v": None},
        {"id": 7},
        [1, 2],
    ]
    ids, rows, rejects = read("a.jsonl", "\n".join(map(json.dumps, lines)), ids="id")
    assert (ids, rows.tolist()) == ([3, -5], [[1, 2], [3, 4]])
    assert [reject.reason for reject in rejects] == [
        "it has no 'id'",
        "the id 4.5 is not a 64-bit integer",
        "the id 9223372036854775808 is not a 64-bit integer",
        "it has no 'v'",
        "it has no 'v'",
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


def test_the_first_good_line_says_what_a_row_is(tmp_path, gather):
    path = tmp_path / "a.jsonl"
    path.write_text('\n[]\nx\n{"a": []}\n[1, 2]\n[3, 4]\n[5]\n')
    chunks = list(open_source(str(path), rows=1).read())
    ids, rows, rejects = gather(chunks)
    assert (ids, rows.tolist(), len(rejects)) == ([3, 4], [[1, 2], [3, 4]], 4)
    rest = gather(open_source(str(path)).read(chunks[4].offset))
    assert (rest[0], [reject.where for reject in rest[2]]) == ([], [f"{path}:7"])


@pytest.mark.parametrize("bad", ['{"id": 6, "v": null}', '{"id": 6}', '{"id": 6, "v": [1, "x"]}'])
def test_the_id_of_a_bad_line_is_not_the_row(read, bad):
    content = f'{bad}\n{{"id": 7, "v": [1, 2]}}\n'
    ids, rows, (reject,) = read("a.jsonl", content)
    assert (ids, rows.tolist(), reject.text) == ([1], [[1, 2]], bad)
    assert read("a.jsonl", content, ids="id")[0] == [7]


def test_a_file_with_no_good_line_before_one_that_has(tmp_path, gather):
    (tmp_path / "1.jsonl").write_text("nothing\n")
    (tmp_path / "2.jsonl").write_text("[1, 2]\n")
    (tmp_path / "3.jsonl").write_text("[]\n")
    ids, rows, rejects = gather(open_source(str(tmp_path)).read())
    assert (ids, rows.tolist(), len(rejects)) == ([1], [[1, 2]], 2)


def test_files_must_have_the_same_columns(tmp_path):
    (tmp_path / "1.jsonl").write_text('{"v": [1, 2]}\n')
    (tmp_path / "2.jsonl").write_text('{"w": [1, 2]}\n')
    with pytest.raises(InputError, match=r"2.jsonl has no column 'v', which .*1.jsonl has"):
        list(open_source(str(tmp_path)).read())


PIECES = st.sampled_from(["[1,2]", "[3,4.5]", "[1", "2]", "[1,2],[3,4]", "[[1,2]", "[3,4]]", "1,2"])


@given(st.lists(PIECES, min_size=1, max_size=12))
def test_a_line_is_good_or_bad_by_itself(lines):
    lines = [line.encode() for line in lines]
    parser, layout = JsonParser("a.jsonl", ReadOptions()), Layout(2, "a.jsonl", None, True)
    together = parse_lines(parser, lines, layout, ReadOptions()).rows
    parts = [parse_lines(parser, [line], layout, ReadOptions()).rows for line in lines]
    alone = np.concatenate(parts)
    for rows in (together, alone):
        rows[~np.isfinite(rows).all(axis=1)] = np.nan
    assert np.array_equal(together, alone, equal_nan=True)
