"""Neighbours that PostgreSQL finds among refined codes are those of decoded rows."""

import os

import numpy as np
import pytest

import streambits as sb
from streambits.errors import InputError
from streambits.io.codes import open_sink
from streambits.io.pgvector import bit_strings, ranking_sql, vector_text

FUNCTION = f"decode_{os.getpid()}"


@pytest.fixture
def written(table, postgres_url):
    """written(coder, ids, codes): the SQL that ranks these codes, which are in a table now."""
    name, ask = table

    def of(coder, ids, codes):
        sink = open_sink(postgres_url, codes.bits, refine=codes.refine, table=name, made_by="us")
        sink.write(ids, codes)
        sink.close()
        sql = ranking_sql(coder, name, function=FUNCTION)
        for _ in range(2):  # as often as one likes
            ask(sql.setup)
        return sql

    yield of
    ask(f"DROP TABLE IF EXISTS {FUNCTION}_values")
    for arguments in ("bit, bytea", "bytea"):
        for epoch in range(2):
            ask(f"DROP FUNCTION IF EXISTS {FUNCTION}_{epoch}({arguments})")


def nearest(ask, sql, coder, query, candidates):
    """The ten neighbours of a row, with their distances."""
    values = {"row": vector_text(query), "k": 10, "candidates": candidates}
    values |= {"code": bit_strings(coder.encode(query[None]))[0]} if coder.bits else {}
    return ask(sql.query, values)


def learned(rows, bits, **settings):
    sketch = sb.sketches.Gram(rows.shape[1])
    features = sb.features.Linear.around(rows)
    return sb.Learner(features, sketch, bits=bits, **settings).learn(rows)


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "refine"), [(13, 3), (0, 5), (8, 5)])
def test_ranks_are_those_of_decoded_rows(bits, refine, mixture, table, written):
    """With 4 bytes or more, a fifth of the rows lies beyond the centres."""
    _, ask = table
    rows = mixture(2000, 16) + 3
    coder = learned(rows, bits, refine=refine, certified=bits % 2 == 0).coder()
    rows[::5] = 10 * rows[::5] - 20
    far = coder.refinement.is_far(coder.encode(rows).refinement)
    assert far.sum() > 300 if refine > 3 else not far.any()
    codes, ids = coder.encode(rows), np.random.default_rng(0).permutation(2000) * 5 - 77
    sql = written(coder, ids, codes)
    decoded = coder.decode(codes)
    for query in rows[:100:10] + 0.25:
        asked = coder.encode(query[None, :])
        order = np.lexsort((ids, asked.hamming(codes)[0]))[:300] if bits else np.arange(2000)
        distances = dict(zip(ids[order], np.linalg.norm(decoded[order] - query, axis=1)))
        near = nearest(ask, sql, coder, query, 300)
        wanted = np.sort(list(distances.values()))[:10]
        assert np.allclose([distance for _, distance in near], wanted, rtol=1e-5)
        assert np.allclose([distances[key] for key, _ in near], wanted, rtol=1e-5)
    first = f"SELECT {FUNCTION}_0({'code, ' * (bits > 0)}refinement)::text FROM TABLE_"
    [(text,)] = ask(f"{first} WHERE id = %s", [int(ids[7])])
    assert np.allclose(np.array(text[1:-1].split(","), float), decoded[7], rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [0, 8])
def test_rows_of_one_length_are_ranked_at_that_length(bits, mixture, table, written):
    rows = mixture(1500, 16) + 1
    rows *= 4 / np.linalg.norm(rows, axis=1, keepdims=True)
    coder = learned(rows, bits, refine=5).coder()
    assert coder.refinement.length == pytest.approx(4)
    rows[::5] *= 10
    codes, index = coder.encode(rows), sb.HammingIndex(bits)
    index.add(codes)
    sql = written(coder, np.arange(1500), codes)
    for query in rows[:50:10] + 0.25:
        near = nearest(table[1], sql, coder, query, 1500)
        hits = index.search(coder.queries(query[None]), 10, candidates="all")
        assert np.allclose([distance for _, distance in near], hits.distances[0], rtol=1e-5)


@pytest.mark.slow
def test_each_epoch_is_decoded_by_its_coder(mixture, table, written):
    """Also codes of rows beyond the centres, whose bits each coder lays out in its own way."""
    rows = mixture(1200)
    parts = rows[:600], rows[600:] * [2, 9, *[1] * (rows.shape[1] - 2)]
    coders = [learned(part, 8, refine=5).coder() for part in parts]
    coders[1] = sb.Coder(coders[1].features, coders[1].projection, 1, coders[1].refinement)
    layouts = [coder.refinement.far.widths.tolist() for coder in coders]
    assert layouts[0] != layouts[1]
    asked = np.concatenate([rows[:9], 100 * rows[:9]])
    for epoch, coder in enumerate(coders):
        written(coder, np.arange(18) + 18 * epoch, coder.encode(asked))
    for epoch, coder in enumerate(coders):
        codes = coder.encode(asked)
        assert coder.refinement.is_far(codes.refinement)[9:].all()
        texts = table[1](
            f"SELECT {FUNCTION}_{epoch}(code, refinement)::text FROM TABLE_ "
            f"WHERE epoch = {epoch} ORDER BY id"
        )
        found = [np.array(text[1:-1].split(","), float) for (text,) in texts]
        assert np.allclose(found, coder.decode(codes), rtol=1e-5, atol=1e-4)


def test_codes_that_do_not_decode_and_odd_names_are_refused(mixture):
    rows = mixture(600)
    with pytest.raises(InputError, match="sign bits alone do not decode: learn with refine=8"):
        ranking_sql(learned(rows, 8).coder())
    coder = learned(rows, 8, refine=2).coder()
    with pytest.raises(InputError, match="each of 1 to 63 bytes"):
        ranking_sql(coder, "a.b.c")
    with pytest.raises(InputError, match="each of 1 to 63 bytes"):
        ranking_sql(coder, function="x" * 60)  # with what is added to it
    found = ranking_sql(coder, 'my"schema.100%', function="of.it")
    assert '"my""schema"."100%%" WHERE epoch = 0' in found.query
    assert 'CREATE TABLE IF NOT EXISTS "of"."it_values" (' in found.setup
