"""The layouts of ann-benchmarks and of the streaming track, without either of them installed.

Both import an algorithm as a module inside of their own packages, below a base class of theirs. So
that our modules are run here exactly as they are, packages of these names are made in memory, with
stand-ins for the base classes: what they have that an algorithm may call, and no more.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
ANN = HERE / "ann_benchmarks" / "streambits"
STREAMING = HERE / "big_ann_benchmarks" / "streambits"


class BaseANN:
    """What algorithms of ann-benchmarks inherit."""

    def done(self) -> None:
        """Clean up."""

    def get_batch_results(self) -> Any:
        """What `batch_query` found."""
        return self.res  # type: ignore[attr-defined]

    def get_additional(self) -> dict[str, Any]:
        """What is stored beside the results."""
        return {}

    def __str__(self) -> str:
        return str(self.name)  # type: ignore[attr-defined]


class BaseStreamingANN:
    """What algorithms of the streaming track inherit."""

    def track(self) -> str:
        """The name of the track."""
        return "stream"


def ann_module() -> ModuleType:
    """Our module as `ann_benchmarks.algorithms.streambits.module`."""
    _package("ann_benchmarks", "ann_benchmarks.algorithms", "ann_benchmarks.algorithms.base")
    _module("ann_benchmarks.algorithms.base.module", BaseANN=BaseANN)
    _package("ann_benchmarks.algorithms.streambits")
    return _from_file("ann_benchmarks.algorithms.streambits.module", ANN / "module.py")


def streaming_module() -> ModuleType:
    """Our module as `neurips23.streaming.streambits.streambits_index`."""
    _package("neurips23", "neurips23.streaming", "neurips23.streaming.streambits")
    _module("neurips23.streaming.base", BaseStreamingANN=BaseStreamingANN)
    name = "neurips23.streaming.streambits.streambits_index"
    return _from_file(name, STREAMING / "streambits_index.py")


def _package(*names: str) -> None:
    for name in names:
        made = sys.modules.setdefault(name, ModuleType(name))
        made.__path__ = []


def _module(name: str, **contents: Any) -> None:
    made = sys.modules.setdefault(name, ModuleType(name))
    made.__dict__.update(contents)


def _from_file(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
