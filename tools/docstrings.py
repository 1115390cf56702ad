"""numpydoc docstrings as Markdown: sections, fields with their types, examples as code."""

import re
from dataclasses import dataclass, field
from inspect import cleandoc

FIELDS = (  # sections of names and types, in the order in which a page has them
    "Parameters",
    "Other Parameters",
    "Attributes",
    "Methods",
    "Returns",
    "Yields",
    "Receives",
    "Raises",
    "Warns",
)
TEXTS = ("Warnings", "See Also", "Notes", "Examples", "References")  # and those of text
_HEAD = re.compile(r"^([A-Z][A-Za-z ]+)\n(-{3,})$", re.MULTILINE)
_CODE = re.compile(r"(`[^`\n]+`)")


@dataclass(frozen=True)
class Field:
    """One line of a section such as Parameters, with what is said of it.

    Attributes
    ----------
    name : str
        Empty in Returns and Raises, where a line is a type.
    kind : str
        The type as it is written.
    text : str
    """

    name: str
    kind: str
    text: str


@dataclass(frozen=True)
class Docstring:
    """What a docstring has.

    Attributes
    ----------
    summary : str
        The first paragraph, on one line.
    text : str
        What follows it, up to the first section.
    sections : dict of str to str
        The rest, by the names of the sections.
    """

    summary: str
    text: str
    sections: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, docstring: str | None) -> "Docstring":
        """The parts of a docstring; of none, empty ones.

        >>> found = Docstring.read('''What it is.
        ...
        ... Parameters
        ... ----------
        ... bits : int, default 64
        ...     At most m.
        ... ''')
        >>> found.summary, found.fields("Parameters")
        ('What it is.', [Field(name='bits', kind='int, default 64', text='At most m.')])
        """
        head, *rest = _HEAD.split(cleandoc(docstring or ""))
        summary, _, text = head.strip().partition("\n\n")
        sections = {name: body.strip("\n") for name, body in zip(rest[::3], rest[2::3])}
        unknown = set(sections) - {*FIELDS, *TEXTS}
        if unknown:
            raise ValueError(f"sections that numpydoc does not have: {sorted(unknown)}")
        return cls(" ".join(summary.split()), text.strip("\n"), sections)

    def fields(self, section: str) -> list[Field]:
        """The lines of a section of fields."""
        found: list[Field] = []
        for block in re.split(r"\n(?=\S)", self.sections.get(section, "")):
            head, _, body = block.partition("\n")
            name, colon, kind = head.partition(" : ")
            if section in ("Returns", "Yields", "Raises", "Warns") and not colon:
                name, kind = "", head
            if head:
                found.append(Field(name.strip(), kind.strip(), cleandoc("\n" + body)))
        return found

    def markdown(self) -> str:
        """All of it but the summary's heading."""
        parts = [_prose(self.summary), _body(self.text)]
        for section in FIELDS:
            if section in self.sections:
                parts.append(f"**{section}**")
                parts.append("\n".join(_field(one) for one in self.fields(section)))
        for section in TEXTS:
            if section in self.sections:
                parts += [f"**{section}**", _body(self.sections[section])]
        return "\n\n".join(filter(None, parts))


def _field(one: Field) -> str:
    """An item of a list: name, type, and what is said of it."""
    kind = f"*{_plain(one.kind)}*" if one.kind else ""
    term = ", ".join(filter(None, (f"`{one.name}`" if one.name else "", kind)))
    text = _body(one.text).replace("\n", "\n    ")
    return f"-   {term}: {text}" if text else f"-   {term}"


def _body(text: str) -> str:
    """Paragraphs of prose, and examples as code."""
    found: list[str] = []
    for block in text.split("\n\n"):
        if block.lstrip().startswith(">>>"):
            found.append(f"```pycon\n{cleandoc(block)}\n```")
        elif all(line.startswith("    ") or not line for line in block.split("\n")):
            found.append(block)  # indented: code as it stands
        else:
            found.append(_prose(block))
    return "\n\n".join(filter(None, found)).replace("\n```\n\n```pycon\n", "\n\n")


def _prose(text: str) -> str:
    """Text in which code stays as it is, and the rest means nothing."""
    pieces = _CODE.split(text)
    return "".join(p if p.startswith("`") else _plain(p) for p in pieces)


def _plain(text: str) -> str:
    escaped = re.sub(r"([*_>\[\]|])", r"\\\1", text.replace("\\", "\\\\"))
    return escaped.replace("<", "&lt;")  # a backslash before it would be shown
