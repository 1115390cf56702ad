"""Any writes, updates, removals, commits, ends and kills: in the end there is what a dict has."""

import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.sinks import ACTIONS, Step, play
from streambits import Codes
from streambits._arrays import as_ids
from streambits.io.codes import open_codes, open_sink
from streambits.model.batches import CodeBatch

pytestmark = [  # sinks are left as they are, as if killed
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
UUIDS = [f"{n:08x}-9b1d-4c7f-8a2e-0f1e2d3c4b5a" for n in range(6)]
NAMES = {"numbers": range(-2, 4), "texts": ["a", "b\n", "é", *UUIDS[:3]], "uuids": UUIDS}


@st.composite
def histories(draw, names, epochs=1):
    """Steps with some of the names, in codes of so many epochs."""
    ids = st.lists(st.sampled_from(list(names)), max_size=4).map(tuple)
    step = st.builds(Step, st.sampled_from(ACTIONS), ids, st.integers(0, epochs - 1))
    return draw(st.lists(step, max_size=10))


@pytest.mark.slow
@pytest.mark.parametrize(("names", "length"), [("numbers", "refined"), ("texts", "plain")])
@given(st.data())
@settings(max_examples=25)
def test_parts(names, length, lengths, last_of_each_id, data):
    steps, rows = data.draw(histories(NAMES[names], 2)), data.draw(st.sampled_from([1, 3, 100]))
    codes = lengths[length]
    with tempfile.TemporaryDirectory() as folder:

        def opened():
            return open_sink(f"{folder}/codes", codes.bits, refine=codes.refine, rows=rows)

        place = opened, lambda: open_codes(f"{folder}/codes")
        play(place, codes, steps, committed=lambda: last_of_each_id(f"{folder}/codes"))


@pytest.mark.parametrize(
    "actions",
    [["write"], ["write", "close", "write"], ["write", "keep", "remove", "commit", "kill"]],
)
def test_texts_that_are_more_than_a_part_holds_or_are_lost(actions, lengths, tmp_path):
    """Before a state knows that ids are texts, and after rows were dropped."""
    steps = [Step(action, (UUIDS[0], UUIDS[0], UUIDS[1])) for action in actions]
    place = (
        lambda: open_sink(tmp_path / "codes", 20, rows=1),
        lambda: open_codes(tmp_path / "codes"),
    )
    play(place, lengths["plain"], steps)


@pytest.mark.parametrize("names", NAMES)
@given(st.data())
@settings(max_examples=5)
def test_a_table(names, postgres_url, lengths, data):
    psycopg = pytest.importorskip("psycopg")
    steps, rows = data.draw(histories(NAMES[names], 2)), data.draw(st.sampled_from([2, 65536]))
    codes = lengths["refined"]
    with psycopg.connect(postgres_url, autocommit=True) as link:
        link.execute("DROP TABLE IF EXISTS of_histories")
        if names == "uuids":  # of tables that are there; a new one has texts
            columns = "id uuid PRIMARY KEY, code bit(20), refinement bytea, epoch int"
            link.execute(f"CREATE TABLE of_histories ({columns})")

        def held():
            query = "SELECT id, code::text, refinement, epoch FROM of_histories"
            if link.execute("SELECT to_regclass('of_histories')").fetchone() == (None,):
                return  # it is made at the first write
            for key, text, more, epoch in link.execute(query):
                packed = Codes.from_bits([list(map(int, text))]).packed
                code = Codes(packed, 20, epoch, np.frombuffer(more, np.uint8)[None])
                yield CodeBatch(as_ids([str(key) if names == "uuids" else key]), code)

        def opened():
            url = f"{postgres_url}?table=of_histories"
            return open_sink(url, codes.bits, refine=codes.refine, rows=rows)

        first = Step("write", (NAMES[names][0],))  # a table without ids is made for whole numbers
        play((opened, held), codes, [first, *steps], committed=held)
        link.execute("DROP TABLE IF EXISTS of_histories")
