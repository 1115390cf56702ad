"""The table of published data sets: their files, where they are had, what is done with them."""

from collections.abc import Callable
from typing import NamedTuple

from paper.datasets import parsers
from paper.datasets.archives import Member
from paper.datasets.fetch import Remote
from paper.datasets.table import Rows, Table, single, standardise

SAMPLE = 60000  # rows, of the sets that are larger; the ready files hold as many
UCI = "https://archive.ics.uci.edu/static/public"


class Published(NamedTuple):
    """remotes: the official files, as they are downloaded.

    places: the names under which a folder may hold them, the likeliest first: each a group of
    files, archives or folders that all lie there. parse: from the files to all rows. ready: the
    .npz that may stand in for them, '' if there is none. most: how many rows are kept, 0 for all.
    finish: what is done to the rows in the end.
    """

    remotes: tuple[Remote, ...]
    places: tuple[tuple[str, ...], ...]
    parse: Callable[[list[Member]], Table]
    ready: str = ""
    most: int = 0
    finish: Callable[[Rows], Rows] = single


def _uci(number: int, title: str, checksum: str = "") -> Remote:
    name = f"{title.replace(' ', '+')}.zip"
    return Remote(name, f"{UCI}/{number}/{name}", checksum)


COVTYPE = Remote(
    "covtype.data.gz",
    "https://ndownloader.figshare.com/files/5976039",  # the copy that scikit-learn downloads
    "sha256:614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
)
CBM = _uci(  # the checksum as three unrelated public projects give it
    316,
    "condition based maintenance of naval propulsion plants",
    "sha256:91a3815da80b5ab7e2d5b82ac82f1c2cbf89182c7a65bcdf240db1e014423cb9",
)
PAMAP2 = _uci(231, "pamap2 physical activity monitoring")  # no checksum is published
DSADS = _uci(256, "daily and sports activities")  # nor here
MNIST = tuple(  # the copy that torchvision downloads, with its checksums
    Remote(
        f"{name}-ubyte.gz", f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}-ubyte.gz", md5
    )
    for name, md5 in {
        "train-images-idx3": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1": "md5:d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3": "md5:9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1": "md5:ec29112dd5afa0611ce80d1b7f02629c",
    }.items()
)
SIFT = Remote(
    "siftsmall.tar.gz",
    "ftp://ftp.irisa.fr/local/texmex/corpus/siftsmall.tar.gz",
    "md5:0b8324a7a82d7f2663d7dcbd57642df7",  # of the site's own MD5SUM
)
_ACTIVITIES = [f"a{number:02}" for number in range(1, 20)]

PUBLISHED = {
    "covtype": Published(
        (COVTYPE,), (("covtype.data.gz",),), parsers.covtype, "covtype60k.npz", SAMPLE
    ),
    "cbm": Published(
        (CBM,),
        (("data.txt",), (CBM.name,), ("UCI CBM Dataset.zip",), ("UCI CBM Dataset",)),
        parsers.cbm,
        "cbm_naval.npz",
        finish=standardise,
    ),
    "pamap2": Published(
        (PAMAP2,),
        (("PAMAP2_Dataset.zip",), (PAMAP2.name,), ("PAMAP2_Dataset",), ("Protocol",)),
        parsers.pamap2,
        most=SAMPLE,
    ),
    "dsads": Published(
        (DSADS,),
        ((DSADS.name,), tuple(_ACTIVITIES), tuple(f"data/{name}" for name in _ACTIVITIES)),
        parsers.dsads,
        "dsads60k.npz",
        SAMPLE,
    ),
    "mnist": Published(MNIST, (tuple(file.name for file in MNIST),), parsers.mnist, "mnist70k.npz"),
    "sift": Published(
        (SIFT,),
        ((SIFT.name,), ("siftsmall_base.fvecs", "siftsmall_learn.fvecs"), ("siftsmall",)),
        parsers.sift,
        "siftsmall.npz",
    ),
}
