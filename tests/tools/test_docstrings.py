from tools.docstrings import Docstring, Field

TEXT = """What it does, on
two lines.

More of `it`, with *stars* and a_b.

Parameters
----------
rows : array of shape (n, d)
    The rows.

    A second paragraph.
k : int, default 10
a, b
    Both.
**more
    Others.

Returns
-------
Hits
    What was found.

Raises
------
InputError
    If not.

Examples
--------
>>> 1 + 1
2

>>> 2
2
"""


def test_parts_of_a_docstring():
    found = Docstring.read(TEXT)
    assert found.summary == "What it does, on two lines."
    assert found.fields("Parameters") == [
        Field("rows", "array of shape (n, d)", "The rows.\n\nA second paragraph."),
        Field("k", "int, default 10", ""),
        Field("a, b", "", "Both."),
        Field("**more", "", "Others."),
    ]
    assert found.fields("Returns") == [Field("", "Hits", "What was found.")]
    assert found.fields("Yields") == []


def test_markdown_has_all_of_it_and_no_accidents():
    text = Docstring.read(TEXT).markdown()
    assert "More of `it`, with \\*stars\\* and a\\_b." in text
    assert "-   `rows`, *array of shape (n, d)*: The rows.\n    \n    A second paragraph." in text
    assert "\n-   `k`, *int, default 10*\n" in text
    assert "```pycon\n>>> 1 + 1\n2\n\n>>> 2\n2\n```" in text
