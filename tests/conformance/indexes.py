"""Checks of indexes: exact neighbours among codes that come and go; each promise has a check.

Every check takes a function that makes an empty index (`add`, `upsert`, `remove`, `update`, `get`,
`search`, `within`, `len`, `in`, iteration over ids) and codes, 50 or more, some of them equal; it
raises an AssertionError that says what was expected. The right answers are counted bit by bit.
"""

import numpy as np

from conformance.compare import expect, expect_error
from streambits.errors import InputError, StreambitsError
from streambits.model.codes import Codes

QUERIES = 5


def check_empty(factory, codes):
    """An empty index finds nothing, and says so in the usual shape."""
    index = factory()
    expect((len(index), list(index)) == (0, []), "expected an empty index")
    shape = index.search(codes[:2], 3).ids.shape
    expect(shape == (2, 0), f"expected no hits for 2 queries, (2, 0), got shape {shape}")
    expect([len(h.ids) for h in index.within(codes[:2], 1)] == [0, 0], "expected nothing within")


def check_search(factory, codes):
    """The k nearest, whole and by id where distances are equal; all where k is above the size."""
    ids = np.arange(len(codes)) * 7 - 100
    index, held = _filled(factory, codes, ids)
    for k in (1, 10, len(codes), len(codes) + 5):
        _expect_hits(index.search(codes[:QUERIES], k), held, codes, k)


def check_within(factory, codes):
    """All within a radius and no others, nearest first."""
    index, held = _filled(factory, codes, np.arange(len(codes)))
    for radius in (0, 1, codes.bits // 3, codes.bits):
        for query, hits in zip(codes, index.within(codes[:QUERIES], radius), strict=False):
            wanted = [pair for pair in _pairs(held, query) if pair[0] <= radius]
            found = list(zip(hits.distances.tolist(), hits.ids.tolist(), strict=True))
            expect(
                found == wanted, f"radius {radius}: expected {wanted[:3]}..., got {found[:3]}..."
            )


def check_allow(factory, codes):
    """A filter leaves only the ids it names; unknown ones do not matter."""
    index, held = _filled(factory, codes, np.arange(len(codes)))
    allow = np.concatenate([np.arange(0, len(codes), 3), [10**12]])
    some = {key: held[key] for key in allow.tolist() if key in held}
    _expect_hits(index.search(codes[:QUERIES], 10, allow=allow), some, codes, 10)


def check_order_of_insertion(factory, codes):
    """The order in which codes came leaves no trace."""
    order = np.random.default_rng(0).permutation(len(codes))
    index, held = factory(), {}
    for some in np.array_split(order, 7):
        index.add(codes[some], some)
        held.update(zip(some.tolist(), codes[some].unpack(), strict=True))
    expect(list(index) == sorted(held), "expected ids in ascending order")
    _expect_hits(index.search(codes[:QUERIES], 20), held, codes, 20)


def check_changes(factory, codes):
    """What is removed is gone, and what is updated has its new code."""
    index, held = _filled(factory, codes, np.arange(len(codes)))
    half = len(codes) // 2
    index.search(codes[:1], 1)  # whatever is built for searching must follow
    gone, changed = np.arange(0, half, 2), np.arange(half, len(codes))
    index.remove(gone)
    index.update(codes[changed][::-1], changed)
    held = {key: bits for key, bits in held.items() if key not in set(gone.tolist())}
    held.update(zip(changed.tolist(), codes[changed][::-1].unpack(), strict=True))
    expect(len(index) == len(held), f"expected {len(held)} codes, got {len(index)}")
    expect(0 not in index, "expected a removed id not to be in the index")
    _expect_hits(index.search(codes[:QUERIES], 15), held, codes, 15)


def check_index_upsert(factory, codes):
    """Codes of new ids are added, and those of others replaced; of an id, the last code counts."""
    half = len(codes) // 2
    index, held = _filled(factory, codes[:half], np.arange(half))
    ids = np.concatenate([np.arange(len(codes)), np.arange(5)])[::-1]
    some = codes[np.concatenate([np.arange(len(codes)), np.arange(5) + half])]
    index.upsert(some, ids)
    held.update(zip(ids.tolist(), some.unpack(), strict=True))
    expect(list(index) == sorted(held), "expected every id once")
    _expect_hits(index.search(codes[:QUERIES], len(held)), held, codes, len(held))


def check_index_refinement(factory, codes):
    """`get` returns codes as they came, with their refinement; another number of bytes is refused.

    Whatever was removed and came again in between, and in whatever order.
    """
    ids = np.random.default_rng(0).permutation(len(codes))
    index = factory()
    for some in np.array_split(ids, 3):
        index.add(codes[some], some)
    index.remove(np.arange(0, len(codes), 3))
    index.upsert(codes[::-1][::2], np.arange(len(codes))[::-1][::2])
    missing = np.array([i for i in range(len(codes)) if i not in index], np.int64)
    if len(missing):
        index.add(codes[missing], missing)
    expect(index.get(np.arange(len(codes))) == codes, "expected codes as they came")
    more = np.zeros((1, codes.refine + 1), np.uint8)
    other = Codes(codes[:1].packed, codes.bits, codes.epoch, more)
    what = f"{codes.refine + 1} bytes of refinement beside {codes.refine}"
    expect_error(InputError, lambda: index.add(other, [10**6]), what)
    expect_error(InputError, lambda: index.upsert(other, [0]), what)
    expect(index.get(np.arange(len(codes))) == codes, "expected refused codes to change nothing")


def check_index_refusals(factory, codes):
    """Bad input is an error of this package, and changes nothing."""
    index, held = _filled(factory, codes, np.arange(len(codes)))
    one = codes[:1]
    for action, what in (
        (lambda: index.add(one, [0]), "adding an id that is there"),
        (lambda: index.add(codes[:2], [-1, -1]), "adding an id twice"),
        (lambda: index.add(one, [0.5]), "ids that are not integers"),
        (lambda: index.remove([10**12]), "removing an unknown id"),
        (lambda: index.remove([1, 1]), "removing an id twice"),
        (lambda: index.update(one, [10**12]), "updating an unknown id"),
        (lambda: index.search(one, 0), "k = 0"),
        (lambda: index.within(one, -1), "a radius below 0"),
    ):
        expect_error(InputError, action, what)
    later = Codes(one.packed, one.bits, one.epoch + 1, one.refinement)
    expect_error(StreambitsError, lambda: index.search(later, 1), "a query of an unknown epoch")
    expect(list(index) == sorted(held), "expected refused calls to change nothing")
    _expect_hits(index.search(codes[:QUERIES], 10), held, codes, 10)


CHECKS = (
    check_empty,
    check_search,
    check_within,
    check_allow,
    check_order_of_insertion,
    check_changes,
    check_index_upsert,
    check_index_refinement,
    check_index_refusals,
)


def _filled(factory, codes, ids):
    index = factory()
    index.add(codes, ids)
    return index, dict(zip(ids.tolist(), codes.unpack(), strict=True))


def _pairs(held, query):
    """(distance, id) of all that is held, in the right order."""
    bits = query.unpack()[0]
    return sorted((int(np.count_nonzero(bits != row)), key) for key, row in held.items())


def _expect_hits(hits, held, codes, k):
    for i in range(QUERIES):
        wanted = _pairs(held, codes[i])[:k]
        found = list(zip(hits.distances[i].tolist(), hits.ids[i].tolist(), strict=True))
        expect(found == wanted, f"k = {k}: expected {wanted[:3]}..., got {found[:3]}...")
