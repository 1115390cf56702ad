"""streambits learns short codes for vectors from one pass over a stream, and searches them.

Most users need `ssbc`, `encode_online`, `CoderSet` and `HammingIndex`. `streambits.methods` is the
table of all methods, and the file to read first.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streambits import errors, features, methods, sketches
from streambits.epochs.coder_set import CoderSet
from streambits.features import bandwidth
from streambits.index import HammingIndex, Hits, rerank
from streambits.methods import ssbc
from streambits.methods.settings import Settings
from streambits.model.coder import Coder
from streambits.model.codes import Codes
from streambits.model.learner import Learner
from streambits.model.sampling import reservoir
from streambits.online import encode_online, encode_stream, reencode
from streambits.storage import from_bytes, load, save, to_bytes
from streambits.stream_index import StreamIndex
from streambits.tune import tune

if TYPE_CHECKING:
    from streambits.evaluation.evaluate import evaluate
    from streambits.io.codes import open_codes
    from streambits.jobs.describe import describe
    from streambits.jobs.search import open_searcher as open  # noqa: A004 - sb.open

__version__ = "0.2.0"

__all__ = [
    "Coder",
    "CoderSet",
    "Codes",
    "HammingIndex",
    "Hits",
    "Learner",
    "Settings",
    "StreamIndex",
    "bandwidth",
    "describe",
    "encode_online",
    "encode_stream",
    "errors",
    "evaluate",
    "features",
    "from_bytes",
    "load",
    "methods",
    "open",
    "open_codes",
    "reencode",
    "rerank",
    "reservoir",
    "save",
    "sketches",
    "ssbc",
    "to_bytes",
    "tune",
]

_LATER = {  # imported when they are first used: nothing else needs what they import
    "describe": "streambits.jobs.describe:describe",
    "evaluate": "streambits.evaluation.evaluate:evaluate",
    "open": "streambits.jobs.search:open_searcher",
    "open_codes": "streambits.io.codes:open_codes",
}


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module 'streambits' has no attribute {name!r}")
        module, _, attribute = _LATER[name].partition(":")
        found = import_module(module)
        return getattr(found, attribute) if attribute else found
