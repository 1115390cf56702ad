"""docs/formats.md: its numbers are those of the code, and its tables those of real files."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from streambits import index_folder, journal, storage
from streambits.io.codes import faiss, npy, parquet
from streambits.jobs import folder as jobs

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "formats.md").read_text()
KEPT = ROOT / "tests" / "golden" / "0.2.0"


def table(heading, column):
    """Rows of the first table under a heading whose first column has this name."""
    part = PAGE.partition(heading)[2]
    lines = part[part.index(f"| {column} |") :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


NUMBERS = {name: number for name, number, *_ in table("## Numbers", "format")}


def test_numbers_are_those_of_the_code():
    assert {
        "model file": str(storage.FORMAT),
        "folder of a `StreamIndex`": str(index_folder.FORMAT),
        "record of a journal": journal.MAGIC.decode(),
        "folder of a job": str(jobs.FORMAT),
        "codes: Parquet, JSON lines, NumPy": "none",
    } == NUMBERS


def test_numbers_are_those_of_files_of_the_release():
    head = (KEPT / "coder.safetensors").read_bytes()
    length = int.from_bytes(head[:8], "little")
    metadata = json.loads(head[8 : 8 + length])["__metadata__"]
    assert set(metadata) == {"streambits", "streambits.digest"}
    assert str(json.loads(metadata["streambits"])["format"]) == NUMBERS["model file"]
    assert (8 + length) % storage.ALIGNED == 0
    assert f"multiple of {storage.ALIGNED} bytes" in PAGE
    current = json.loads((KEPT / "stream-index" / "current.json").read_text())
    assert str(current["format"]) == NUMBERS["folder of a `StreamIndex`"]
    record = (KEPT / "stream-index" / current["journal"]).read_bytes()
    assert record[:4].decode() == NUMBERS["record of a journal"]
    job = json.loads((KEPT / "job" / "job.json").read_text())
    assert str(job["format"]) == NUMBERS["folder of a job"]


def test_a_record_of_the_journal_is_laid_out_as_the_table_says():
    sizes = [int(size) for size, *_ in table("## The folder of a StreamIndex", "bytes")[:-1]]
    assert sum(sizes) == journal.SIZE
    assert f"a head of {journal.SIZE} bytes" in PAGE
    assert f"a head of {journal.SIZE} bytes" in journal.__doc__
    assert f"the {journal.HEAD.size} bytes before" in PAGE


@pytest.mark.parametrize(
    ("heading", "folder"),
    [("## The folder of a StreamIndex", "stream-index"), ("## The folder of a job", "job")],
)
def test_every_file_of_a_folder_is_named(heading, folder):
    named = " ".join(cell for cell, *_ in table(heading, "file"))
    for path in (KEPT / folder).iterdir():
        name = re.sub(r"-\d{12}$", "-N", path.name) + "/" * path.is_dir()
        assert f"`{name}`" in named, name


def test_columns_of_codes_are_those_of_the_table():
    file = pq.ParquetFile(KEPT / "codes-parquet" / "part-000000.parquet")
    named = [name.strip("`") for name, _ in table("**Parquet**", "column")]
    assert file.schema_arrow.names == named[:4]
    assert {parquet.BITS, parquet.DIGEST} <= set(file.metadata.metadata)
    assert all(f"`{name.decode()}`" in PAGE for name in (parquet.BITS, parquet.DIGEST))
    assert f"{parquet.PART_ROWS:,} rows" in PAGE
    line = json.loads((KEPT / "codes.jsonl").read_text().splitlines()[0])
    assert list(line) == list(json.loads(re.search(r"`(\{\"id\": 7, \"code.*?\})`", PAGE)[1]))
    assert all(f"`{name}.npy`" in PAGE for name in npy.NAMES)
    assert f"{len(faiss.MARK) + 4} bytes" in PAGE
