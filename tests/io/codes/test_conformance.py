"""Every sink passes the kit."""

import numpy as np
import pytest

from conformance import sinks as checks
from conformance.compare import run_checks
from streambits.io.codes import open_sink
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("parquet", {}),
        ("parquet", {"rows": 64}),
        ("parquet", {"rows": 1}),
        ("jsonl", {}),
        ("npy", {}),
        ("index", {}),
        ("faiss", {}),
    ],
)
@pytest.mark.parametrize("check", checks.CHECKS)
def test_files(kind, options, check, places, codes):
    if kind == "faiss":
        pytest.importorskip("faiss", reason="there is no faiss: pip install 'streambits[faiss]'")
    count = 60 if options.get("rows") == 1 else len(codes)
    run_checks((check,), places(kind, **options), codes[:count])


@pytest.mark.parametrize("check", checks.CHECKS)
@pytest.mark.parametrize("length", ["refined", "pure"])
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "npy", "index"])
def test_files_of_refined_codes(kind, length, check, places, lengths):
    codes, rows = lengths[length], {"rows": 64} if kind == "parquet" else {}
    run_checks((check,), places(kind, codes.bits, refine=codes.refine, **rows), codes)


CASES = [("plain", 65536), ("plain", 100), ("refined", 100), ("pure", 65536)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("check", checks.CHECKS)
def test_postgres(check, case, postgres_url, table, lengths):
    (name, ask), (length, rows) = table, case
    codes = lengths[length]
    code, more = "code::text" if codes.bits else "''", "refinement" if codes.refine else "''::bytea"

    def held():
        for key, text, more_bytes, epoch in ask(f"SELECT id, {code}, {more}, epoch FROM TABLE_"):
            bits = np.array([[int(bit) for bit in text]], np.uint8)
            packed = np.packbits(bits, axis=1, bitorder="little")
            refinement = np.frombuffer(more_bytes, np.uint8)[None] if more_bytes else None
            yield CodeBatch([key], Codes(packed, bits.shape[1], epoch, refinement))

    def place():
        ask("DROP TABLE IF EXISTS TABLE_")
        options = {"rows": rows, "refine": codes.refine}
        return lambda: open_sink(f"{postgres_url}?table={name}", codes.bits, **options), held

    run_checks((check,), place, codes)
