import json
from dataclasses import replace

import numpy as np
import pytest

from streambits.evaluation.bits import BitUse
from streambits.evaluation.result import (
    BytesScore,
    Evaluation,
    LengthScore,
    best_by_bytes,
    bytes_rows,
    headings,
    table_rows,
)


def evaluation(own, others, *, constant=0):
    """With recalls by length, each in the first 10 and after re-ranking 100 and 200."""
    scores = {
        bits: LengthScore(bits, dict(zip((10, 100, 200), recalls, strict=True)), 0.5)
        for bits, recalls in {64: own, **others}.items()
    }
    lengths = tuple(scores[bits] for bits in sorted(scores))
    use = BitUse(0.1, constant, 0.1, 0.2)
    return Evaluation(scores[64], lengths, 10, 0.95, 1000, 100, 8, use, np.zeros(64), np.eye(64))


LESS = "64 bits reach a recall of 0.90 after re-ranking 200 candidates, less than 0.95."
NONE = (
    "No other length up to 96 bits reaches it; the best is 96 bits with 0.93. More landmarks or "
    "`tune` may help."
)


def would(bits, after):
    return f"{bits} bits would reach 0.95 after re-ranking {after}."


@pytest.mark.parametrize(
    ("own", "others", "advice"),
    [
        ((0.3, 0.8, 0.9), {96: (0.5, 0.96, 1), 128: (0.6, 1, 1)}, f"{LESS} {would(96, 100)}"),
        ((0.3, 0.8, 0.9), {96: (0.4, 0.85, 0.96)}, f"{LESS} {would(96, 200)}"),
        ((0.3, 0.8, 0.9), {96: (0.4, 0.85, 0.93)}, f"{LESS} {NONE}"),
        (
            (0.3, 0.8, 0.96),
            {96: (0.5, 0.96, 0.99)},
            f"64 bits reach 0.95 after re-ranking 200. {would(96, 100)}",
        ),
        (
            (0.96, 0.97, 0.99),
            {32: (0.5, 0.98, 1)},
            f"64 bits reach 0.95 without re-ranking. {would(32, 100)}",
        ),
        ((0.3, 0.97, 0.99), {96: (0.5, 0.98, 1)}, "64 bits reach 0.95 after re-ranking 100."),
        ((0.3, 0.8, 0.96), {}, "64 bits reach 0.95 after re-ranking 200."),
    ],
)
def test_advice_follows_from_the_figures(own, others, advice):
    assert evaluation(own, others).advice == advice


def test_constant_bits_are_named():
    advice = evaluation((0.96, 0.97, 0.99), {}, constant=3).advice
    assert advice.endswith(
        "3 of the 64 bits are the same for all rows and carry nothing: a "
        "shorter code would do as well."
    )


def test_the_table_has_a_row_per_length_and_dashes_where_there_are_no_codes():
    found = evaluation((0.3, 0.8, 0.9), {96: (0.4, 0.85, 0.93)})
    missing = LengthScore(512, {}, reason="too long")
    table = list(table_rows(replace(found, lengths=(*found.lengths, missing))))
    assert headings(found) == ["bits", "bytes", "MAP", "first 10", "re-rank 100", "re-rank 200"]
    assert table[0] == ("64", "8", "0.500", "0.300", "0.800", "0.900")
    assert table[2] == ("512", "64", "-", "-", "-", "-")


OWN = BytesScore("refined", 64, 8, 0.5)
PLAIN = BytesScore("plain", 128, 0, 0.3)
SCAN = BytesScore("product", 0, 16, 0.7)


@pytest.mark.parametrize(
    ("own", "others", "advice"),
    [
        (
            OWN,
            [BytesScore("refined", 32, 12, 0.6), SCAN],
            (
                "64 bits + 8 bytes find 0.50 of the 10 nearest; in the same 16 bytes 32 bits + 12 "
                "bytes would find 0.60, and product codes, by a scan of all of them, 0.70."
            ),
        ),
        (
            OWN,
            [BytesScore("refined", 32, 12, 0.4), SCAN],
            (
                "64 bits + 8 bytes find 0.50 of the 10 nearest, the best split of 16 bytes that "
                "was tried; in the same 16 bytes product codes, by a scan of all of them, 0.70."
            ),
        ),
        (
            PLAIN,
            [OWN, BytesScore("product", 0, 8, 0.7)],
            (
                "128 bits find 0.30 of the 10 nearest; in the same 16 bytes 64 bits + 8 bytes "
                "would find 0.50."
            ),
        ),
        (SCAN, [OWN], "16 bytes find 0.70 of the 10 nearest."),
        (
            PLAIN,
            [BytesScore("refined", 64, 8, reason="too few rows")],
            "128 bits find 0.30 of the 10 nearest.",
        ),
    ],
)
def test_advice_names_the_best_codes_of_the_same_bytes(own, others, advice):
    found = replace(evaluation((0.96, 0.97, 0.99), {}), itself=own, sizes=(own, *others))
    assert found.advice == (f"64 bits reach 0.95 without re-ranking. Without the rows, {advice}")


SIZES = (
    PLAIN,
    OWN,
    BytesScore("refined", 32, 12, 0.6),
    BytesScore("product", 0, 8, 0.55),
    BytesScore("product", 0, 32, reason="too few rows"),
)


def test_the_table_of_bytes_has_the_best_of_each_kind():
    found = replace(evaluation((0.3, 0.8, 0.9), {}), itself=OWN, sizes=SIZES)
    assert list(bytes_rows(found)) == [
        ("8", "-", "-", "0.550"),
        ("16", "0.300", "0.600 (32 bits + 12 bytes)", "-"),
    ]
    assert best_by_bytes(found, "refined") == {16: SIZES[2]}


def test_all_figures_are_plain_values():
    found = replace(evaluation((0.3, 0.8, 0.9), {}), itself=OWN, sizes=SIZES).as_dict()
    assert found["itself"] == {
        "kind": "refined", "bytes": 16, "bits": 64, "refine": 8, "recall": 0.5
    }  # fmt: skip
    assert found["sizes"][-1]["reason"] == "too few rows"
    assert json.loads(json.dumps(found, allow_nan=False)) == found
