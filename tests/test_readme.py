"""What README.md says at the top is so: its code runs as it stands, and its sizes are right."""

import re
from pathlib import Path

import numpy as np

import streambits as sb

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "README.md").read_text()
BLOCKS = [
    block
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    if ">>>" not in block
]


def test_code_can_be_pasted_and_ends_in_ids(capsys):
    names = {}
    for block in BLOCKS:
        exec(block, names)  # what a reader does with it
    *ids, recall = filter(None, capsys.readouterr().out.split("\n"))
    assert len(BLOCKS) == 1
    assert [int(line.strip(" []").split()[0]) for line in ids] == [0, 1, 2]
    assert 0.8 < float(recall) < 1
    assert len(names["index"]) == len(names["rows"]) - 1


def test_commands_are_named():
    assert {"make demo", "make test"} <= set(re.findall(r"^    (make \w+)", PAGE, re.MULTILINE))


def test_sizes(tmp_path):
    million, columns, bits = 10**6, 768, 64
    assert f"{million * columns * 4 / 1e9:.2f} GB" in PAGE
    assert f"{million * bits / 8 / 1e6:.0f} MB" in PAGE
    rng = np.random.default_rng(0)
    index = sb.HammingIndex(bits)
    index.add(sb.Codes.from_words(rng.integers(2**63, size=(million, 1), dtype=np.uint64), bits))
    assert f"{index.nbytes / 1e6:.0f} MB" in PAGE
    learner = sb.ssbc(rng.standard_normal((500, columns), dtype=np.float32), bits)
    assert f"{learner.nbytes / 1e6:.0f} MB" in PAGE
    sb.save(learner.coder(), tmp_path / "coder.safetensors")
    assert f"{(tmp_path / 'coder.safetensors').stat().st_size / 1e6:.1f} MB" in PAGE


def test_links_lead_to_files_and_headings():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for link, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
            target = page.parent / link if link else page
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in headings(target), f"{page.name}: {link}#{anchor}"


def headings(page):
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}
