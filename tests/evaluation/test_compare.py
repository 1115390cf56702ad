import numpy as np
import pytest

import streambits as sb
from streambits.errors import MissingExtraError, StorageError
from streambits.evaluation import compare, datasets, figures, gallery, metrics, online

DIGITS = compare.contest("digits", 100, 500, queries=50)
UNIFORM = compare.contest("uniform", 100, 1000, queries=50, seed=3)


@pytest.fixture(scope="module")
def scores():
    return list(compare.compare(DIGITS, 16))


def test_scores_are_those_of_the_methods_themselves():
    (score,) = compare.compare(UNIFORM, 16, contestants={"mine": sb.ssbc}, seed=4)
    train, rows = UNIFORM.stream
    codes = sb.ssbc(train, 16, seed=4).learn(rows).coder().encode(rows)
    sigma = sb.nearest(30).distance(train)
    assert score.codes == codes
    assert score.quality == metrics.mean_average_precision(codes, rows, UNIFORM.queries, sigma)
    assert (score.data, score.method, score.bits) == ("uniform", "mine", 16)


def test_online_is_told_of_every_refresh():
    steps = []
    got = online.watch_online(UNIFORM, 16, on_step=steps.append, refresh=300)
    assert [step.rows for step in steps] == [300, 600, 900]
    assert got.last == steps[-1]
    assert got.changed == np.mean([step.changed for step in steps])
    train, rows = UNIFORM.stream
    end = sb.ssbc(train, 16).learn(rows).coder().encode(rows)
    assert got.end == UNIFORM.score(end)
    pieces = sb.encode_online(sb.ssbc(train, 16), [rows], refresh=300)
    assert got.online == UNIFORM.score(sb.Codes.concat([codes for _, codes in pieces]))


def test_nearest_codes_leave_themselves_out_and_break_ties_by_place():
    codes = sb.Codes.from_bits([[0, 0, 0], [1, 1, 1], [0, 0, 0], [0, 0, 1]])
    assert gallery.nearest_codes(codes, 3).tolist() == [[2, 3, 1], [3, 0, 2], [0, 3, 1], [0, 2, 1]]


def test_a_gallery_shows_the_first_of_each_digit(scores):
    rows = DIGITS.stream.rows
    labels = datasets.digit_labels(rows)
    shown = gallery.gallery(rows, scores, (0, 7))
    assert labels[shown.queries].tolist() == [0, 7]
    assert not (labels[: shown.queries[1]] == 7).any()
    for found in shown.found:
        expected = labels[found.places] == labels[shown.queries][:, None]
        np.testing.assert_array_equal(found.right, expected)
        assert 0.5 < found.share <= 1


def test_digit_labels_are_scikit_learns():
    from sklearn.datasets import load_digits  # noqa: PLC0415

    bundle = load_digits()
    order = np.random.default_rng(1).permutation(len(bundle.data))
    rows = bundle.data[order].astype(np.float32)
    np.testing.assert_array_equal(datasets.digit_labels(rows), bundle.target[order])


def test_the_picture_shows_every_method_and_figure(scores, tmp_path):
    figure = figures.overview(scores, gallery.gallery(DIGITS.stream.rows, scores))
    bars = figure.axes[0]
    assert [label.get_text() for label in bars.get_yticklabels()] == list(compare.CONTESTANTS)
    assert {text.get_text() for text in bars.texts} == {f"{s.quality:.2f}" for s in scores}
    assert len({bar.get_hatch() for bar in bars.patches}) == len(scores)  # told without colour
    marks = [t.get_text() for t in figure.axes[1].texts if t.get_text() in "\u2713\u2717"]
    assert len(marks) == 3 * 6 * len(scores)
    figures.write(figure, tmp_path / "picture.png")
    figure.draw_without_rendering()
    for text in (*figure.texts, *bars.texts, *figure.axes[1].texts):
        box = text.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1, text
        assert 0 <= box.y0 < box.y1 <= figure.bbox.y1, text
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]


def test_a_failed_picture_leaves_the_old_one(tmp_path):
    class Full:
        def savefig(self, path, **_):
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")

    old = tmp_path / "picture.png"
    old.write_bytes(b"old")
    with pytest.raises(StorageError, match="No space left"):
        figures.write(Full(), old)
    assert old.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_without_scikit_learn_one_sentence_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtraError, match="sklearn"):
        datasets.digit_labels(DIGITS.stream.rows)
