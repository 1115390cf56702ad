"""Every sink passes the kit."""

from itertools import count

import numpy as np
import pytest

from conformance import sinks as checks
from conformance.compare import run_checks
from streambits.io.codes import open_sink
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes


@pytest.mark.parametrize("check", checks.CHECKS)
@pytest.mark.parametrize(("length", "rows"), [("plain", 64), ("refined", 3), ("pure", 65536)])
def test_parquet(check, length, rows, *, lengths, last_of_each_id, tmp_path):
    codes, places = lengths[length][:200], count()

    def place():
        path, options = tmp_path / f"{next(places)}", {"refine": codes.refine, "rows": rows}
        return lambda: open_sink(path, codes.bits, **options), lambda: last_of_each_id(path)

    run_checks((check,), place, codes)


CASES = [("plain", 65536), ("refined", 3), ("pure", 65536)]


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
