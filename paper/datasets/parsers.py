"""What the official files hold: one function a data set, from its files to all of its rows."""

import re

import numpy as np

from paper.datasets.archives import Member, find, missing
from paper.datasets.formats import fvecs, idx, numbers
from paper.datasets.table import Table
from streambits.errors import StorageError

_UNIT = (0, 1, 2, 3, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
PAMAP2_COLUMNS = (0, 1, *(3 + 17 * unit + column for unit in range(3) for column in _UNIT))
"""The 44 of PAMAP2's 54 columns, counted from 0: timestamp, activity, and 14 of each motion unit.

The paper "removed columns containing missing values and used a subset with d = 44 columns", of
rank 44, and does not name them; this is our reading. A unit that loses its connection leaves a gap
in all of its 17 columns, so gaps alone never choose 44: rows with a gap go instead. With equally
many columns of each of the three units, 44 is 3 x 14 and two more, which are timestamp and
activity, since the heart rate (column 2) is missing in nine rows of ten. Only 41 columns are
neither heart rate nor orientation, so orientation was among the 44. The three left out of a unit
are then the accelerometer of 6 g (columns 4 to 6 of the unit), which saturates, and beside which
there is that of 16 g. What stays of a unit: temperature, acceleration (3), gyroscope (3),
magnetometer (3), orientation (4; the site calls it invalid).
"""


def covtype(files: list[Member]) -> Table:
    """UCI Covertype, covtype.data.gz: 54 measures and the class, 1 to 7, with commas between."""
    values = numbers(find(files, "covtype.data.gz"), 55, ",")
    return Table(values[:, :54].astype(np.float32), values[:, 54].astype(np.int64))


def cbm(files: list[Member]) -> Table:
    """UCI's naval propulsion plants, data.txt: 16 measures and 2 decay coefficients, no classes."""
    return Table(numbers(find(files, "data.txt"), 18).astype(np.float32))


def pamap2(files: list[Member]) -> Table:
    """PAMAP2, Protocol/subject101.dat to 109: `PAMAP2_COLUMNS` of the rows without a gap in them.

    The class is the activity; 0 is what lies between two activities, and stays.
    """
    parts = []
    for subject in range(101, 110):
        file = find(files, f"Protocol/subject{subject}.dat")
        values = numbers(file, 54, gaps=True)[:, PAMAP2_COLUMNS]
        parts.append(values[np.isfinite(values).all(axis=1)].astype(np.float32))
    rows = np.concatenate(parts)
    return Table(rows, rows[:, 1].astype(np.int64))


def dsads(files: list[Member]) -> Table:
    """Daily and Sports Activities, a01/p1/s01.txt to a19/p8/s60.txt: 45 measures, with commas.

    Activity by activity, person by person, segment by segment; the class is the activity.
    """
    found = {}
    for file in files:
        place = re.search(r"/a(\d\d)/p(\d)/s(\d\d)\.txt$", f"/{file.name}")
        if place:
            found[tuple(int(number) for number in place.groups())] = file
    for place_before in np.ndindex(*np.max([(1, 1, 1), *found], axis=0)):
        activity, person, segment = (number + 1 for number in place_before)
        if (activity, person, segment) not in found:
            raise missing(files, f"a{activity:02}/p{person}/s{segment:02}.txt")
    parts = [numbers(found[key], 45, ",").astype(np.float32) for key in sorted(found)]
    labels = np.repeat([key[0] for key in sorted(found)], [len(part) for part in parts])
    return Table(np.concatenate(parts), labels.astype(np.int64))


def mnist(files: list[Member]) -> Table:
    """MNIST, four idx files with gzip: the 60,000 images to train on, then the 10,000 to test."""
    parts, labels = [], []
    for name in ("train", "t10k"):
        images = idx(find(files, f"{name}-images-idx3-ubyte.gz"), 3)
        parts.append(images.reshape(len(images), -1))
        labels.append(idx(find(files, f"{name}-labels-idx1-ubyte.gz"), 1))
        if len(parts[-1]) != len(labels[-1]):
            raise StorageError(
                f"MNIST's {name} files are of {len(parts[-1])} images and {len(labels[-1])} labels"
            )
    return Table(np.concatenate(parts), np.concatenate(labels).astype(np.int64))


def sift(files: list[Member]) -> Table:
    """TEXMEX SIFT10K: the 10,000 base vectors, then the 25,000 to learn from; no classes."""
    parts = [fvecs(find(files, f"siftsmall_{name}.fvecs"), 128) for name in ("base", "learn")]
    return Table(np.concatenate(parts))
