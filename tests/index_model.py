"""What a StreamIndex must hold: a dict of rows by id, and exact search by NumPy."""

import copy

import numpy as np

WIDTH = 4
KINDS = {  # small ones: 80 rows are gathered for the first coder
    "plain": {"method": "ssbc", "bits": 6, "n_landmarks": 8, "epochs": 512},
    "auto": {"bits": 4, "n_landmarks": 8},
    "refined": {"method": "ssbc", "bits": 6, "n_landmarks": 8, "refine": 1},
    "product": {"method": "product", "n_landmarks": 8, "refine": 2},
    "certified": {"method": "product", "n_landmarks": 8, "refine": 2, "certified": True},
    "linear": {"method": "linear", "bits": 3, "n_landmarks": 8},
}
LAST = 2**63 - 1


def made(seed, count, kind="usual"):
    """Rows (count, WIDTH) of a kind, always the same for a seed."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, WIDTH))
    if kind == "equal":
        rows[:] = 1.0
    elif kind == "few":  # distinct ones
        rows = np.eye(WIDTH)[rng.integers(WIDTH, size=count)]
    elif kind == "far":
        rows = 30.0 + 0.1 * rows
    return rows if kind == "double" else rows.astype(np.float32)


class Model:
    """The rows by id, what was counted, and the last note."""

    def __init__(self, *, keep_rows=False):
        self.keep_rows, self.rows = keep_rows, {}
        self.seen = self.removed = self.next = 0
        self.note, self.single = None, True

    def after_add(self, rows, ids=None, note=None):
        """The model after a change; this one stays as it is."""
        new = copy.copy(self)
        ids = list(range(self.next, self.next + len(rows))) if ids is None else ids
        new.rows = self.rows | dict(zip(ids, rows.copy(), strict=True))
        new.seen = self.seen + len(ids)
        new.next = max([self.next, *(i + 1 for i in ids if not isinstance(i, str))])
        new.note = self.note if note is None else note
        new.single = self.single and (rows.dtype == np.float32 or not len(rows))
        return new

    def after_remove(self, ids, note=None):
        new = copy.copy(self)
        new.rows = {key: row for key, row in self.rows.items() if key not in set(ids)}
        new.removed = self.removed + len(self.rows) - len(new.rows)
        new.note = self.note if note is None else note
        return new

    @property
    def has_texts(self):
        """None where there are no ids, and either kind can come."""
        return isinstance(next(iter(self.rows)), str) if self.rows else None

    def distances(self, queries, ids):
        held = np.array([self.rows[i] for i in ids], np.float64).reshape(-1, WIDTH)
        return np.linalg.norm(queries[:, None].astype(np.float64) - held, axis=2)

    def check(self, index):
        """All that can be asked of an index, in so many words."""
        live = list(self.rows)
        assert (index.seen, index.removed, index.note) == (self.seen, self.removed, self.note)
        assert len(index) == len(live)
        assert all(i in index for i in live[:: 1 + len(live) // 10])
        assert "nobody" not in index
        assert -77 not in index
        assert index.waiting in (0, len(live))
        self.check_search(index, made(1, 2), len(live) + 3)
        if live and (self.keep_rows or index.waiting):
            self.check_rows(index, live)

    def check_rows(self, index, ids):
        rows = index.rows(ids)
        wanted = [self.rows[i] for i in ids]
        assert rows.dtype == np.result_type(*wanted)
        assert all(np.array_equal(row, want) for row, want in zip(rows, wanted, strict=True))

    def check_search(self, index, queries, k, allow=None, **options):
        """Live and allowed ids only, none twice, as many as there can be."""
        chosen = self.rows if allow is None else [i for i in self.rows if i in set(allow)]
        hits = index.search(queries, k, allow=allow, **options)
        count = min(k, len(chosen))
        assert hits.ids.shape == hits.distances.shape == (len(queries), count)
        for ids, distances in zip(hits.ids.tolist(), hits.distances, strict=True):
            assert len(set(ids)) == count
            assert set(ids) <= set(chosen)
            assert (np.diff(distances) >= 0).all()
        exact = options.get("exact") or options.get("rerank", 0) >= len(self.rows)
        if index.waiting or exact or not chosen:
            self.check_exact(hits, queries, chosen)

    def check_exact(self, hits, queries, chosen):
        far = np.sort(self.distances(queries, chosen), axis=1)[:, : hits.ids.shape[1]]
        np.testing.assert_allclose(hits.distances, far, rtol=1e-6, atol=1e-9)
        for query, ids in zip(queries, hits.ids.tolist(), strict=True):
            own = self.distances(query[None], ids)[0]
            assert (np.diff(own) >= -1e-9 * (1 + own[1:])).all()

    def recall(self, index, k):
        """Recall of every row among the k nearest others, by brute force."""
        live = list(self.rows)
        rows = np.array([self.rows[i] for i in live])
        far = self.distances(rows, live)
        np.fill_diagonal(far, np.inf)
        radius = np.sort(far, axis=1)[:, k - 1] * (1 + 1e-6) + 1e-9
        place = {key: number for number, key in enumerate(live)}
        shares = []
        for number, ids in enumerate(index.search(rows, k + 1).ids.tolist()):
            answers = [place[i] for i in ids if place[i] != number][:k]
            shares.append((far[number, answers] <= radius[number]).mean())
        return np.mean(shares)
