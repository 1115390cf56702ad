"""Parsers on small files in the official formats, as the sites publish them."""

import gzip
import io
import struct
import tarfile
import zipfile

import numpy as np
import pytest

from paper.datasets import parsers
from paper.datasets.archives import members
from streambits.errors import StorageError

RNG = np.random.default_rng(0)


def lines(rows, separator, style="%g"):
    return "".join(separator.join(style % value for value in row) + "\n" for row in rows).encode()


def parse(parser, root, *places):
    with members(root, places) as files:
        return parser(files)


def zipped(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def unpack(root, files):
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


# Covertype: 54 whole numbers and the class, commas, gzip

COVTYPE = np.column_stack([RNG.integers(-200, 7000, (20, 54)), RNG.integers(1, 8, 20)])


def test_covtype(tmp_path):
    (tmp_path / "covtype.data.gz").write_bytes(gzip.compress(lines(COVTYPE, ",", "%d")))
    rows, labels = parse(parsers.covtype, tmp_path, "covtype.data.gz")
    assert (rows.dtype, labels.dtype) == (np.float32, np.int64)
    np.testing.assert_array_equal(rows, COVTYPE[:, :54])
    np.testing.assert_array_equal(labels, COVTYPE[:, 54])


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (b"\n", b",1\n", "line 1: 56 values, where 55 belong"),
        (b"12,34\n", b"12\n", "line 2: 54 values, where 55 belong"),
        (b"12,34\n", b"12,many\n", "line 2: 'many' is not a number"),
        (b"12,34\n", b"12,NaN\n", "line 2: 'NaN' is not a number"),
        (b"12,34\n", b"12,\n", "line 2: '' is not a number"),
    ],
)
def test_a_bad_line_is_named(tmp_path, old, new, complaint):
    rows = np.ones((4, 55))
    rows[1, -2:] = 12, 34
    content = lines(rows, ",", "%d").replace(old, new, 1)
    (tmp_path / "covtype.data.gz").write_bytes(gzip.compress(content))
    with pytest.raises(StorageError, match=f"covtype.data.gz, {complaint}"):
        parse(parsers.covtype, tmp_path, "covtype.data.gz")


# CBM: 18 numbers in fields of 16 characters

CBM = RNG.random((12, 18)) * 1000
CBM_TEXT = lines(CBM, "", "   %.7e")


CBM_FILES = {"UCI CBM Dataset/Features.txt": b"x", "UCI CBM Dataset/data.txt": CBM_TEXT}


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({"data.txt": CBM_TEXT}, "data.txt"),
        (CBM_FILES, "UCI CBM Dataset"),
        ({"cbm.zip": zipped(CBM_FILES)}, "cbm.zip"),
    ],
)
def test_cbm(tmp_path, files, place):
    unpack(tmp_path, files)
    rows, labels = parse(parsers.cbm, tmp_path, place)
    np.testing.assert_allclose(rows, CBM, rtol=1e-6)
    assert labels is None


# PAMAP2: 54 columns with spaces, NaN where a value is missing


def subject(number, rows=6):
    """Columns that tell where they come from; heart rates mostly missing, as in the files."""
    values = number * 1000 + np.arange(54) + np.arange(rows)[:, None] / 10
    values[:, 1] = np.arange(rows) % 3
    values[1:, 2] = np.nan
    return values


def pamap2_files(**changed):
    every = {f"subject10{number}": subject(number) for number in range(1, 10)} | changed
    folder = "PAMAP2_Dataset/Protocol"
    files = {f"{folder}/{name}.dat": lines(rows, " ") for name, rows in every.items()}
    files["PAMAP2_Dataset/Optional/subject101.dat"] = lines(subject(7), " ").replace(b"nan", b"NaN")
    return {name: text.replace(b"nan", b"NaN") for name, text in files.items()}


def test_pamap2_is_read_from_a_folder_a_zip_and_the_zip_in_a_zip(tmp_path):
    files = pamap2_files()
    unpack(tmp_path, files)
    unpack(tmp_path, {"inner.zip": zipped(files)})
    unpack(
        tmp_path, {"outer.zip": zipped({"readme.pdf": b"x", "PAMAP2_Dataset.zip": zipped(files)})}
    )
    expected = np.concatenate([subject(number) for number in range(1, 10)])
    for place in ("PAMAP2_Dataset", "PAMAP2_Dataset/Protocol", "inner.zip", "outer.zip"):
        rows, labels = parse(parsers.pamap2, tmp_path, place)
        np.testing.assert_allclose(rows, expected[:, parsers.PAMAP2_COLUMNS], rtol=1e-5)
        np.testing.assert_array_equal(labels, expected[:, 1])


# DSADS: a folder an activity, a folder a person, a file a segment


def dsads_files(root=""):
    rows = {
        (a, p, s): np.full((5, 45), 100 * a + 10 * p + s) + RNG.random((5, 45)).round(3)
        for a in (1, 2, 3) for p in (1, 2) for s in (1, 2)
    }  # fmt: skip
    names = {
        f"{root}a{a:02}/p{p}/s{s:02}.txt": lines(part, ",") for (a, p, s), part in rows.items()
    }
    return dict(reversed(names.items())), rows


@pytest.mark.parametrize("root", ["", "data/"])
def test_dsads(tmp_path, root):
    files, rows = dsads_files(root)
    unpack(tmp_path, {"daily.zip": zipped(files)})
    found, labels = parse(parsers.dsads, tmp_path, "daily.zip")
    np.testing.assert_allclose(found, np.concatenate(list(rows.values())), rtol=1e-5)
    np.testing.assert_array_equal(labels, np.repeat([1, 2, 3], 20))
    unpack(tmp_path, files)
    again, _ = parse(parsers.dsads, tmp_path, *(f"{root}a{number:02}" for number in (1, 2, 3)))
    np.testing.assert_array_equal(again, found)


# MNIST: idx files with gzip


def idx(values, end=None):
    head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return gzip.compress((head + values.astype(np.uint8).tobytes())[:end])


def mnist_files():
    train, test = RNG.integers(0, 256, (7, 28, 28)), RNG.integers(0, 256, (3, 28, 28))
    digits = RNG.integers(0, 10, 10)
    files = {
        "train-images-idx3-ubyte.gz": idx(train),
        "train-labels-idx1-ubyte.gz": idx(digits[:7]),
        "t10k-images-idx3-ubyte.gz": idx(test),
        "t10k-labels-idx1-ubyte.gz": idx(digits[7:]),
    }
    return files, np.concatenate([train, test]).reshape(10, 784), digits


def test_mnist(tmp_path):
    files, images, digits = mnist_files()
    unpack(tmp_path, files)
    rows, labels = parse(parsers.mnist, tmp_path, *files)
    assert rows.dtype == np.uint8
    np.testing.assert_array_equal(rows, images)
    np.testing.assert_array_equal(labels, digits)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (idx(np.zeros((3, 4, 4)), end=-1), "cut off: 63 bytes, where 64"),
        (idx(np.zeros((3, 4, 4)))[:-9], "is cut off, damaged"),
        (idx(np.zeros(3)), "not an idx file of bytes with 3 axes"),
        (gzip.compress(b""), "not an idx file"),
        (idx(np.zeros((4, 28, 28))), "t10k files are of 4 images and 3 labels"),
    ],
    ids=["short", "short gzip", "labels", "empty", "too many"],
)  # fmt: skip
def test_mnist_names_a_bad_file(tmp_path, content, complaint):
    files, _, _ = mnist_files()
    unpack(tmp_path, files | {"t10k-images-idx3-ubyte.gz": content})
    with pytest.raises(StorageError, match=f"t10k.*{complaint}|{complaint}"):
        parse(parsers.mnist, tmp_path, *files)


# SIFT: fvecs in a tar archive


def fvecs(rows):
    return b"".join(struct.pack("<i", len(row)) + row.astype("<f4").tobytes() for row in rows)


def tarred(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


VECTORS = RNG.integers(0, 200, (9, 128))
SIFT = {
    "siftsmall/siftsmall_learn.fvecs": fvecs(VECTORS[4:]),
    "siftsmall/siftsmall_query.fvecs": fvecs(VECTORS[:2]),
    "siftsmall/siftsmall_base.fvecs": fvecs(VECTORS[:4]),
}


def test_sift(tmp_path):
    unpack(tmp_path, SIFT | {"siftsmall.tar.gz": tarred(SIFT)})
    for place in ("siftsmall.tar.gz", "siftsmall"):
        rows, labels = parse(parsers.sift, tmp_path, place)
        assert rows.dtype == np.float32
        np.testing.assert_array_equal(rows, VECTORS)
        assert labels is None
