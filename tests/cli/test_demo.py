"""`streambits demo`: figures, in a table or as one object."""

import pytest

from streambits.cli import demo

SMALL = ("demo", "--set", "rows=1000")


def test_one_object_and_a_table_of_the_same(command, monkeypatch):
    monkeypatch.setattr(demo, "BITS", (8, 16))
    done = command(*SMALL, "--json")
    assert done.code == 0, done.err
    assert done.out.count("\n") == 1
    found = done.json
    assert [(one["method"], one["bits"]) for one in found["scores"]] == [
        (name, bits) for name in demo.METHODS.values() for bits in demo.BITS
    ]
    best = {bits: max(s["map"] for s in found["scores"] if s["bits"] == bits) for bits in (8, 16)}
    ours = {s["bits"]: s["map"] for s in found["scores"] if s["method"] == "ssbc"}
    assert ours == best
    online = found["online"]
    assert 0 < online["bits_changed"] < 0.1
    assert 0.8 * online["map_end"] < online["map_online"] < 1
    text = command(*SMALL).out
    assert f"MAP online    {online['map_online']:.3f}" in text
    assert f"{ours[16]:.3f}" in text


@pytest.mark.parametrize("word", ["seed=-1", "seed=many", "rows=10"])
def test_wrong_settings(misused, word):
    assert word in misused("demo", "--set", word)
