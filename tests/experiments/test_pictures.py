"""Pictures of the documentation: those that need no data are up to date, and all can be read."""

from xml.etree import ElementTree

import numpy as np
import pytest

from experiments.pictures import epochs, refresh
from experiments.pictures.__main__ import FOLDER, PICTURES, main


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
