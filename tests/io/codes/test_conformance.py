"""Every sink passes the kit."""

import pytest

from streambits.checks import sinks as checks
from streambits.checks._compare import run_checks
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
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "npy"])
def test_files_of_refined_codes(kind, length, check, places, lengths):
    codes, rows = lengths[length], {"rows": 64} if kind == "parquet" else {}
    run_checks((check,), places(kind, codes.bits, refine=codes.refine, **rows), codes)


@pytest.mark.parametrize("rows", [65536, 100])
@pytest.mark.parametrize("check", checks.CHECKS)
def test_postgres(check, rows, postgres_url, table, codes):
    name, ask = table

    def held():
        for key, code, epoch in ask("SELECT id, code::text, epoch FROM TABLE_"):
            yield CodeBatch([key], Codes.from_bits([[int(bit) for bit in code]], epoch))

    def place():
        ask("DROP TABLE IF EXISTS TABLE_")
        return lambda: open_sink(f"{postgres_url}?table={name}", 20, rows=rows), held

    run_checks((check,), place, codes)
