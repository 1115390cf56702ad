import numpy as np
import pytest
from scipy.spatial.distance import cdist

import streambits as sb
from streambits.evaluation.held_out import recall_of_answers, score_answers, score_ranking
from streambits.evaluation.truth import true_neighbours

RNG = np.random.default_rng(0)
ROWS = (RNG.standard_normal((900, 10)) * np.linspace(3, 1, 10)).astype(np.float32) + 5
LEARNED, HELD = ROWS[:600], ROWS[600:]
CODERS = {
    "kernel": sb.ssbc(LEARNED[:100], 24, refine=2, epochs="never"),
    "linear": sb.methods.linear(LEARNED, 8, refine=3, epochs="never"),
    "product": sb.methods.product(LEARNED, refine=3, epochs="never"),
}


def by_definition(coder, k, candidates):
    """Sort by Hamming distance, then the first ones by decoded distance."""
    codes = coder.encode(HELD)
    true, far = cdist(HELD, HELD), cdist(HELD, coder.decode(codes))
    right = 0
    for place in range(len(HELD)):
        others = np.delete(np.arange(len(HELD)), place)
        if coder.bits:
            hamming = codes[place].hamming(codes)[0, others]
            others = others[np.argsort(hamming, kind="stable")[:candidates]]
        answers = others[np.argsort(far[place, others])[:k]]
        wanted = np.argsort(np.delete(true[place], place), kind="stable")[:k]
        right += np.isin(answers, np.delete(np.arange(len(HELD)), place)[wanted]).sum()
    return right / (k * len(HELD))


@pytest.mark.parametrize("kind", CODERS)
def test_answers_are_those_of_a_search(kind):
    coder = CODERS[kind].learn(LEARNED).coder()
    for k in (1, 3):
        near = true_neighbours(HELD, None, k)
        found = recall_of_answers(coder, HELD, near, k, (5, 20, 299))
        expected = [by_definition(coder, k, count) for count in (5, 20, 299)]
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("copies", [1, 9])
def test_rows_stand_for_a_longer_stream(copies):
    """300 rows are one in 53 of 16,000, and 2,700 one in 6: so many candidates and nearest rows."""
    noise = 0.1 * RNG.standard_normal((300 * copies, 10))
    held = (np.repeat(HELD, copies, axis=0) + noise).astype(np.float32)
    coder = CODERS["kernel"].learn(LEARNED).coder()
    k, depths = {1: (1, (6, 60, 299)), 9: (2, (51, 540, 2699))}[copies]
    found = score_answers((300, 3200, 10**6), held)(coder)
    near = true_neighbours(held, None, k)
    np.testing.assert_allclose(found, recall_of_answers(coder, held, near, k, depths))


def test_rankings_have_one_score():
    coder = CODERS["kernel"].learn(LEARNED).coder()
    scores = [score_ranking(target, 4.0, HELD, 0)(coder) for target in ("map", "recall")]
    assert all(len(score) == 1 and 0 < score[0] < 1 for score in scores)
    assert scores[0] != scores[1]
