"""A learner in several threads, and in a forked child."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event, Thread

import numpy as np
import pytest

import streambits as sb
from forks import in_child
from streambits import Learner
from streambits.errors import ForkError
from streambits.features import GaussianAffinity
from streambits.sketches import Gram

ROWS = np.random.default_rng(0).normal(size=(32_000, 8)).astype(np.float32)


def in_threads(*tasks):
    with ThreadPoolExecutor(len(tasks)) as pool:
        return [done.result(60) for done in [pool.submit(task) for task in tasks]]


def learning(learner, number, step=250):
    """Learn the eighth of the rows with this number, in small batches."""
    return lambda: [learner.learn(part) for part in np.split(ROWS[number::8], 4000 // step)]


def test_rows_of_several_threads_are_learned_once_each():
    learner = Learner(GaussianAffinity(ROWS[:100]), Gram(100), bits=16, prior=ROWS[:100])
    whole = learner.fresh().learn(ROWS)
    in_threads(*(learning(learner, number) for number in range(8)))
    assert learner.seen == len(ROWS) == learner.sketch.seen
    assert np.allclose(learner.sketch.matrix, whole.sketch.matrix, rtol=1e-5, atol=1e-3)
    assert np.allclose(learner.sketch.mean, whole.sketch.mean, rtol=1e-9)
    known = {row.tobytes() for row in ROWS}
    assert all(row.tobytes() in known for row in learner.sample)


def test_batches_of_two_threads_give_the_sketch_of_one_of_their_orders():
    parts = np.split(ROWS[:8192], 2)
    learner = sb.ssbc(ROWS[:50], 16)
    orders = [
        learner.fresh().learn(one).learn(two).sketch.matrix for one, two in (parts, parts[::-1])
    ]
    in_threads(*(lambda part=part: learner.learn(part) for part in parts))
    assert any(np.array_equal(learner.sketch.matrix, order) for order in orders)


def test_a_learner_is_read_while_other_threads_learn():
    learner = sb.ssbc(ROWS[:60], 16, epochs=4096, seed=1)

    def read():
        for _ in range(10):
            seen = learner.seen
            state = learner.state()
            held = state["sketch"].seen + state["waiting"].shape[0]
            assert seen <= held == state["sample"].seen + state["waiting"].shape[0]
            again = Learner.from_state(state)
            assert again.seen == held
            coder = learner.coder()
            assert coder.encode(ROWS[:5]).epoch == coder.epoch
            assert learner.sketch.seen >= held
            assert len(learner.sample) >= min(held, 60)
            assert learner.certificate >= 0
            assert learner.fresh().seen == 0
            assert len(learner.drift) <= len(ROWS) // 512

    in_threads(*(learning(learner, number) for number in range(4)), read, read)
    assert learner.seen == 16_000
    assert learner.epoch == 16_000 // 4096


def test_what_was_read_stays_as_it_was():
    learner = sb.ssbc(ROWS[:60], 16).learn(ROWS[:10_240])
    sample = learner.sample
    before = sample.copy()
    learner.learn(ROWS[10_240:])
    assert np.array_equal(sample, before)


def test_every_thread_takes_its_rows_to_the_end_and_epochs_are_counted_once():
    learner = sb.ssbc(ROWS[:60], 16, epochs=2048)

    def take(number):
        rows = ROWS[number::8]
        while len(rows):
            rows = rows[len(learner.learn_and_encode(rows[:300], learner.coder())) :]

    in_threads(*(lambda number=number: take(number) for number in range(8)), learner.renew)
    assert learner.seen == len(ROWS)
    assert learner.epoch == len(ROWS) // 2048 + 1


def test_two_learners_may_be_merged_into_each_other_at_once():
    for _ in range(10):
        left = sb.ssbc(ROWS[:60], 16)
        right = left.fresh().learn(ROWS[:3000])
        left.learn(ROWS[3000:5000])
        in_threads(partial(left.merge, right), partial(right.merge, left))
        assert (left.seen, right.seen) in {(5000, 5000), (5000, 8000), (7000, 5000)}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_a_thread_is_inside_refuses_and_one_forked_later_goes_on():
    inside, leave = Event(), Event()

    class Slow(GaussianAffinity):
        def __call__(self, rows):
            if len(rows) > 1000:
                inside.set()
                assert leave.wait(30)
            return super().__call__(rows)

    learner = Learner(Slow(ROWS[:60]), Gram(60), bits=8)

    def refuse():
        with pytest.raises(ForkError, match="forked"):
            learner.learn(ROWS[:10])

    thread = Thread(target=learner.learn, args=(ROWS[:2048],))
    thread.start()
    assert inside.wait(30)
    assert in_child(refuse) == "done"
    leave.set()
    thread.join()
    assert in_child(lambda: learner.learn(ROWS[:10]).coder()) == "done"
    assert learner.seen == 2048
