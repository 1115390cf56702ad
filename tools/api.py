"""The reference of the library, written from docstrings.

    python -m tools.api            # writes the table of names in docs/reference.md anew

The table is in the repository, so that it can be read there; `tools.site` writes a page for each
group when the site is built, in which every name has its signature, docstring and members.
"""

import inspect
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tools.docstrings import Docstring

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"
BEGIN, END = "<!-- names: python -m tools.api -->\n", "<!-- end -->\n"
WIDTH = 88


class Group(NamedTuple):
    """A page: its file, its title, what it says first, and the names on it.

    A name that is a module stands for all that is public in it.
    """

    file: str
    title: str
    words: str
    names: tuple[str, ...]


GROUPS = (
    Group(
        "stream-index.md",
        "Rows in, answers out",
        "The object that most users need, and the settings that everything shares.",
        ("streambits.StreamIndex", "streambits.Settings"),
    ),
    Group(
        "learning.md",
        "Learners, coders, codes",
        "What learns, what it hands out, and the loops that do both.",
        (
            "streambits.Learner",
            "streambits.Coder",
            "streambits.Codes",
            "streambits.CoderSet",
            "streambits.reservoir",
            "streambits.encode_online",
            "streambits.encode_stream",
            "streambits.reencode",
            "streambits.online.OnlineEncoder",
        ),
    ),
    Group(
        "search.md",
        "Search",
        "Exact search over codes, and how codes are compared.",
        (
            "streambits.HammingIndex",
            "streambits.Hits",
            "streambits.rerank",
        ),
    ),
    Group(
        "methods.md",
        "Methods",
        "Every method is a function that composes features, a sketch and a rotation into a "
        "`Learner`; [how they compare](../methods.md).",
        ("streambits.ssbc", "streambits.methods"),
    ),
    Group(
        "parts.md",
        "Features, sketches, bandwidths",
        "The parts that methods are made of.",
        ("streambits.bandwidth", "streambits.features", "streambits.sketches"),
    ),
    Group(
        "quality.md",
        "Measure and choose",
        "Settings, lengths and quality, measured on your own rows.",
        ("streambits.tune", "streambits.evaluate"),
    ),
    Group(
        "files.md",
        "Files, sources, sinks, jobs",
        "Models and indexes in files, where rows come from, where codes go, and jobs that resume.",
        (
            "streambits.save",
            "streambits.load",
            "streambits.to_bytes",
            "streambits.from_bytes",
            "streambits.describe",
            "streambits.open",
            "streambits.open_codes",
            "streambits.io.rows",
            "streambits.io.codes",
            "streambits.io.codes.convert.export",
            "streambits.jobs.job.run_job",
            "streambits.jobs.folder.JobFolder",
            "streambits.jobs.models.open_model",
            "streambits.jobs.models.merge_models",
            "streambits.storage.register",
        ),
    ),
    Group(
        "service.md",
        "The client of the service",
        "[The service](../service.md) from Python.",
        ("streambits.service",),
    ),
    Group(
        "interop.md",
        "scikit-learn, FAISS, LangChain",
        "One module each, behind an extra.",
        (
            "streambits.interop.sklearn.SSBC",
            "streambits.interop.faiss",
            "streambits.interop.langchain.StreambitsVectorStore",
        ),
    ),
    Group(
        "engines.md",
        "Engines",
        "The same learner [past one machine](../scale.md): one module each, behind an extra.",
        (
            "streambits.engines.dask",
            "streambits.engines.shards.learn_partition",
            "streambits.engines.shards.MergeTree",
            "streambits.engines.shards.finished",
        ),
    ),
    Group(
        "errors.md",
        "Errors",
        "Every exception of this package is a `StreambitsError`, and its message says what to do. "
        "A call that raises one has changed nothing.",
        ("streambits.errors",),
    ),
)


@dataclass(frozen=True)
class Name:
    """A public name: where it is documented, and what it stands for."""

    path: str
    thing: Any
    group: Group

    @property
    def short(self) -> str:
        """How it is called in a program: without `streambits.` in front."""
        return self.path.removeprefix("streambits.")

    @property
    def doc(self) -> Docstring:
        """Its docstring; values have none of their own."""
        return Docstring.read(self.thing.__doc__ if _is_documented(self.thing) else None)

    @property
    def summary(self) -> str:
        """One line."""
        if _is_documented(self.thing):
            return self.doc.summary
        kind = type(self.thing).__name__
        if isinstance(self.thing, Collection):
            return f"A {kind} of {', '.join(f'`{one}`' for one in self.thing)}."
        return f"A {kind}, `{self.thing!r}`."

    @property
    def first(self) -> "Name":
        """The name under which the same thing is documented: this one, or one before it."""
        return next(other for other in names() if other.thing is self.thing)

    @property
    def members(self) -> list[tuple[str, Any]]:
        """The public methods and properties of a class, in the order of the source."""
        if not inspect.isclass(self.thing):
            return []
        found: dict[str, Any] = {}
        for base in reversed(self.thing.__mro__):
            if base.__module__.startswith("streambits"):
                found |= {n: v for n, v in vars(base).items() if _is_member(n, v)}
        return list(found.items())


@cache
def names() -> tuple[Name, ...]:
    """Every name that has a place in the reference, once."""
    found: dict[str, Name] = {}
    for group in GROUPS:
        for path in group.names:
            for one, thing in _expanded(path):
                found.setdefault(one, Name(one, thing, group))
    return tuple(found.values())


def pages() -> dict[str, str]:
    """The text of every page, by its file."""
    return {group.file: "\n".join(_page(group)) for group in GROUPS}


def table(*, linked: bool = False) -> str:
    """All names in one table per group; `linked` to the pages of the site, which have the calls."""
    lines: list[str] = []
    for group in GROUPS:
        lines += [f"### {group.title}\n", "| name | what it is |", "|---|---|"]
        for one in names():
            if one.group is group:
                place = f"api/{group.file}#{one.path}"
                call = f"`{one.short}{_signature(one.thing, defaults=False)}`"
                name = f"[`{one.short}`]({place})" if linked else call
                members = ", ".join(
                    f"[`.{n}`]({place}.{n})" if linked and one.first is one else f"`.{n}`"
                    for n, _ in one.members
                )
                words = f"{_cell(one.summary)} {members}".strip()
                lines.append(f"| {_cell(name)} | {words} |")
        lines.append("")
    return "\n".join(lines)


def with_table(text: str, *, linked: bool = False) -> str:
    """The page with the table between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no {BEGIN.strip()} and {END.strip()}")
    return f"{before}{begin}\n{table(linked=linked)}\n{end}{after}"


def _page(group: Group) -> Iterator[str]:
    yield f"# {group.title}\n"
    yield f"{group.words}\n"
    for one in names():
        if one.group is group:
            yield from _entry(one)


def _entry(one: Name) -> Iterator[str]:
    yield f"## {one.short} {{ #{one.path} }}\n"
    if one.first is not one:
        place = "" if one.first.group is one.group else one.first.group.file
        yield f"The same as [`{one.first.short}`]({place}#{one.first.path}).\n"
        return
    called = one.short.rpartition(".")[2]
    if _is_error(one.thing):
        bases = ", ".join(base.__name__ for base in one.thing.__bases__)
        yield f"```python\nclass {called}({bases})\n```\n"
    elif callable(one.thing):
        yield _code(called, one.thing)
    yield (one.doc.markdown() or one.summary) + "\n"
    for name, declared in one.members:
        yield f"### {called}.{name} {{ #{one.path}.{name} }}\n"
        found = getattr(one.thing, name)
        yield _code(f"{called}.{name}", found, declared) if callable(found) else "*property*\n"
        yield Docstring.read(inspect.getdoc(found)).markdown() + "\n"


def _code(name: str, function: Any, declared: Any = None) -> str:
    """The call as code, one parameter per line if it is long."""
    parameters = _signature(function, skip_self=inspect.isfunction(declared))
    if len(name) + len(parameters) > WIDTH:
        inside = ",\n    ".join(_split(parameters[1:-1]))
        parameters = f"(\n    {inside},\n)"
    return f"```python\n{name}{parameters}\n```\n"


def _split(text: str) -> list[str]:
    """Parameters, cut at the commas outside of brackets and quotes."""
    found, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter in "'\""
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0 and not quoted:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]


def _signature(thing: Any, *, defaults: bool = True, skip_self: bool = False) -> str:
    """The parameters without their types, which are in the docstring."""
    if not callable(thing) or _is_error(thing):
        return ""
    try:
        found = inspect.signature(thing)
    except ValueError:
        return "()"
    empty = inspect.Parameter.empty
    listed = [
        one.replace(annotation=empty, default=_Shown(one.default) if _has_default(one) else empty)
        for one in list(found.parameters.values())[skip_self:]
    ]
    if not defaults:
        return _joined(listed)
    return str(found.replace(parameters=listed, return_annotation=empty))


@dataclass(frozen=True)
class _Shown:
    """A default as it is shown: a function or an object without a value of its own as dots."""

    value: Any

    def __repr__(self) -> str:
        text = repr(self.value)
        return "..." if " at 0x" in text else text


def _has_default(one: inspect.Parameter) -> bool:
    return one.default is not inspect.Parameter.empty


def _joined(parameters: list[inspect.Parameter]) -> str:
    """Names alone, with the star before those that are keywords."""
    shown, starred = [], False
    for one in parameters:
        starred |= one.kind is one.VAR_POSITIONAL
        if one.kind is one.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        shown.append(str(one.replace(default=inspect.Parameter.empty)))
    return f"({', '.join(shown)})"


def _expanded(path: str) -> Iterator[tuple[str, Any]]:
    thing = _resolve(path)
    if not isinstance(thing, ModuleType):
        yield path, thing
        return
    public = getattr(thing, "__all__", None) or [
        n for n, v in vars(thing).items() if getattr(v, "__module__", "") == thing.__name__
    ]
    for name in public:
        if not name.startswith("_") and not isinstance(getattr(thing, name), ModuleType):
            yield f"{path}.{name}", getattr(thing, name)


def _resolve(path: str) -> Any:
    """The module, or what a module has under that name."""
    module, _, name = path.rpartition(".")
    found = getattr(import_module(module), name, None)
    return import_module(path) if found is None else found


def _is_documented(thing: Any) -> bool:
    """Whether its docstring is its own, not that of its type."""
    return inspect.isclass(thing) or inspect.isroutine(thing)


def _is_error(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, BaseException)


def _is_member(name: str, value: Any) -> bool:
    kinds = (property, classmethod, staticmethod)
    return not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("this takes no arguments: it writes docs/reference.md")
    PAGE.write_text(with_table(PAGE.read_text()))
