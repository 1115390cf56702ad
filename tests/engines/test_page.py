"""docs/scale.md: its code can be pasted."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


def test_the_code_of_the_page_runs(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names = {}
    for block in blocks:
        exec(block, names)
    first, second = capsys.readouterr().out.splitlines()
    assert (first, second) == ("8000 [2000, 2000, 2000, 2000] [0 1 2]", "8000")
