"""HTML in small pieces: one file without scripts, fonts or pictures from elsewhere."""

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

STYLE = Path(__file__).with_name("report.css")


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def safe(value: object) -> Markup:
    """As HTML; markup as it is."""
    return value if isinstance(value, Markup) else Markup(escape(str(value)))


def tag(name: str, *content: object, **attributes: str) -> Markup:
    """<name attributes>content</name>; `klass` is the attribute class."""
    given = "".join(
        f' {key.replace("klass", "class")}="{escape(value)}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{given}>{''.join(map(safe, content))}</{name}>")


def table(head: Sequence[object], rows: Iterable[Sequence[object]], caption: object = "") -> Markup:
    """Numbers by a head row and a head column."""
    lines = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
        for row in rows
    ]
    first = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head)))
    whole = tag("table", first, tag("tbody", *lines), klass="numbers")
    above = tag("p", caption, klass="caption") if caption else ""
    return tag("div", above, tag("div", whole, klass="scroll"))


def image(svg: bytes, alt: str) -> Markup:
    """A picture inside the page."""
    data = base64.b64encode(svg).decode()
    return Markup(f'<img alt="{escape(alt)}" src="data:image/svg+xml;base64,{data}">')


def figure(
    panels: Sequence[Markup], caption: object, *, legend: Markup | str = "", wide: bool = False
) -> Markup:
    """Pictures side by side, as many as fit; one below the other on a phone."""
    klass = "panels wide" if wide else "panels"
    return tag("figure", legend, tag("div", *panels, klass=klass), tag("figcaption", caption))


def section(name: str, heading: str, *content: object) -> Markup:
    """A part of the page that the list of contents leads to."""
    return tag("section", tag("h2", heading), *content, id=name)


def page(title: str, lead: Sequence[object], sections: Sequence[tuple[str, str, Markup]]) -> str:
    """The whole file; sections: (name, heading, content)."""
    links = [tag("li", tag("a", heading, href=f"#{name}")) for name, heading, _ in sections]
    body = [section(name, heading, content) for name, heading, content in sections]
    head = (
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", title),
        tag("style", Markup(STYLE.read_text())),
    )
    main = tag("main", tag("h1", title), *lead, tag("nav", tag("ul", *links)), *body)
    return f'<!doctype html>\n<html lang="en">{tag("head", *head)}{tag("body", main)}</html>\n'
