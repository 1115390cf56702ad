"""Compiled bets against the same in a few lines of NumPy."""

import numpy as np

from streambits.kernels.embedding import DetectorState, Plan, bet_on_means

PLAN = Plan(burn_in=4, stretch=2, clip=1.5, tolerance=0.25, bet=0.25)


def plainly(values):
    """What each measurement gains; `values` are (n, k, rows)."""
    centre = values[0:4:2].mean(axis=(0, 2))
    reference = np.concatenate(values[1:4:2], axis=1) - centre[:, None]
    recent, gains = np.zeros(len(centre)), [0.0] * 6
    for number in range(6, len(values)):
        if number % 2 == 0:
            recent = (recent + values[number - 2 : number].mean(axis=(0, 2)) - centre) / 2
            direction = recent / np.linalg.norm(recent)
            scores = np.clip(direction @ reference, -1.5, 1.5)
            bound = scores.mean() + 0.25 * scores.std()
            bet = 0.25 * min(1 / scores.std(), 1.5 / (1.5 + bound))
        scores = np.clip(direction @ (values[number] - centre[:, None]), -1.5, 1.5)
        gains.append(np.log1p(bet * (scores - bound)).sum())
    return gains


def test_bets_are_those_of_the_definition():
    values = np.random.default_rng(0).standard_normal((15, 3, 20)).astype(np.float32)
    values[9:] += 0.5
    reference = np.zeros((3, 40), np.float32)
    held = DetectorState(np.zeros((3, 3)), reference, np.zeros(5))
    first = bet_on_means(values[:7], 0, held, PLAN)
    rest = bet_on_means(values[7:], 7, held, PLAN)
    np.testing.assert_allclose([*first, *rest], plainly(values.astype(np.float64)), rtol=1e-4)
