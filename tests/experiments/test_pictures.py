"""Pictures of the documentation: those that need no data are up to date, and all can be read."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from experiments.pictures import epochs, recall, refresh, walk
from experiments.pictures.__main__ import FOLDER, PICTURES, main
from experiments.pictures.svg import STYLE

LIGHT, DARK = STYLE.partition("@media")[::2]


@pytest.mark.parametrize("name", ["walk", "recall"])
def test_the_picture_in_the_repository_is_up_to_date(name, tmp_path, capsys):
    main([name, "--out", str(tmp_path)])
    assert capsys.readouterr().out
    assert (tmp_path / f"{name}.svg").read_text() == (FOLDER / f"{name}.svg").read_text()


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_whole_and_described(name):
    root = ElementTree.fromstring((FOLDER / f"{name}.svg").read_text())
    assert root.get("role") == "img"
    assert root.get("aria-label")
    width, height = (float(root.get(side)) for side in ("width", "height"))
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 <= float(text.get("x")) <= width
        assert 0 <= float(text.get("y")) <= height


def colours(style):
    return dict(re.findall(r"\.(\w+) \{ (?:fill|stroke): (#\w{6})", style))


def luminance(colour):
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_contrast_suffices(style):
    found = colours(style)
    for name in ("ink", "soft"):
        assert contrast(found[name], found["page"]) >= 4.5
    assert contrast(found["soft"], found["box"]) >= 4.5
    for name in ("c0", "c1", "c2", "c3", "c4", "c5", "axis", "arrow", "mark"):
        assert contrast(found[name], found["page"]) >= 3, name


def test_the_table_is_read_as_it_stands():
    found = recall.figures(recall.PAGE.read_text())
    assert list(found) == ["Uniform", "Covertype", "CBM", "DSADS", "SIFT", "MNIST"]
    assert found["SIFT"]["FAISS PQ"] == [(8.0, 0.476), (16.0, 0.661)]
    assert "FAISS PQ" not in found["MNIST"] or len(found["MNIST"]["FAISS PQ"]) == 1


def test_epochs_are_seen_where_a_stream_moves(monkeypatch):
    monkeypatch.setattr(epochs, "STEP", 512)
    rng = np.random.default_rng(0)
    rows = (rng.random((2560, 6)) + np.arange(2560)[:, None] / 1000).astype(np.float32)
    seen = epochs.watch(rows, "auto", n_landmarks=64)
    assert seen.epochs
    assert all(0.5 < value <= 1 for _, value in seen.recall)
    assert "a new epoch" in epochs.drawn(seen, seen, len(rows))


def test_refreshes_are_seen(monkeypatch):
    monkeypatch.setattr(refresh, "HELD", 500)
    monkeypatch.setattr(refresh, "ASKED", 50)
    rows = np.random.default_rng(0).random((3200, 8), dtype=np.float32)
    seen = refresh.follow(rows[:100], rows[100:])
    assert [round(2**place) for place, _ in seen.changed] == [512, 1024, 2048]
    assert all(0 < share < 20 for _, share in seen.changed)
    assert all(0.3 < found <= 1 for _, found in seen.precision)
    assert "Uniform" in refresh.drawn({"Uniform": seen})


def test_the_walk_has_all_parts():
    drawn = walk.draw()
    for part in ("Source", "Features", "Coder", "Codes", "Sketch", "Monitor", "Answer"):
        assert f">{part}<" in drawn
