"""The kit passes our indexes, and says what is wrong with broken ones."""

import numpy as np
import pytest

from streambits import Codes, HammingIndex, Hits
from streambits.checks import check_index

RNG = np.random.default_rng(0)
CODES = Codes.from_bits((RNG.random((30, 20)) < 0.5)[RNG.integers(30, size=120)])


REFINED = Codes(CODES.packed, 20, 0, RNG.integers(256, size=(120, 3)).astype(np.uint8))


@pytest.mark.parametrize("codes", [CODES, REFINED], ids=["plain", "refined"])
@pytest.mark.parametrize("method", ["auto", "scan", "multi"])
def test_our_index_passes(method, codes):
    check_index(lambda: HammingIndex(20, strategy=method), codes)


class Forgetful(HammingIndex):
    """Gives back the sign bits alone."""

    def get(self, ids):
        codes = super().get(ids)
        return Codes(codes.packed, codes.bits, codes.epoch)


class Coarse(HammingIndex):
    """Takes any refinement, and keeps it for some."""

    def upsert(self, codes, ids):
        some = np.resize(REFINED.refinement, (len(codes), 3))
        super().upsert(Codes(codes.packed, codes.bits, 0, some), ids)


@pytest.mark.parametrize("kind", [Forgetful, Coarse])
def test_an_index_that_loses_refinements_is_caught(kind):
    with pytest.raises(AssertionError, match="check_index_refinement: expected codes as they came"):
        check_index(lambda: kind(20), REFINED)


class TiesByChance(HammingIndex):
    def search(self, *arguments, **options):
        hits = super().search(*arguments, **options)
        order = np.lexsort((-hits.ids, hits.distances))
        return Hits(np.take_along_axis(hits.ids, order, 1), hits.distances)


class Strict(HammingIndex):
    def within(self, queries, radius):
        return super().within(queries, max(radius - 1, 0))


class Unfiltered(HammingIndex):
    def search(self, queries, k, *, allow=None):
        del allow
        return super().search(queries, k)


class Sticky(HammingIndex):
    def update(self, codes, ids):
        pass


class FirstWins(HammingIndex):
    def upsert(self, codes, ids):
        super().upsert(codes[::-1], ids[::-1])


class Lenient(HammingIndex):
    def remove(self, ids):
        super().remove([i for i in np.atleast_1d(ids) if int(i) in self])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (TiesByChance, "check_search: k = "),
        (Strict, "check_within: radius"),
        (Unfiltered, "check_allow: k = 10"),
        (Sticky, "check_changes: k = 15"),
        (FirstWins, "check_index_upsert: k = 120"),
        (Lenient, "check_index_refusals: removing an unknown id: expected InputError"),
    ],
)
def test_a_broken_index_is_told_what_it_broke(kind, message):
    with pytest.raises(AssertionError, match=message):
        check_index(lambda: kind(20), CODES)
