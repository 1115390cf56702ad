"""Charts and diagrams as SVG that can be read on light and on dark pages.

A picture brings its own background, and its colours follow the reader's preference: so it is
legible whatever lies around it. Text is text, and every series is told by its dashes as well as by
its colour (those of Okabe and Ito, darker or lighter, which colour-blind readers can tell apart).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

Point = tuple[float, float]

STYLE = """
  .page { fill: #ffffff } .ink { fill: #1c1e21 } .soft { fill: #55595f }
  .axis { stroke: #8a8f98; fill: none } .grid { stroke: #e3e5e8; fill: none }
  .box { fill: #f3f5f8; stroke: #8a8f98 }
  .arrow { stroke: #55595f; fill: none } .head { fill: #55595f }
  .mark { stroke: #8a8f98; stroke-dasharray: 2 3 }
  .c0 { stroke: #0072b2 } .c1 { stroke: #c44e00 } .c2 { stroke: #00805f } .c3 { stroke: #a8457f }
  .c4 { stroke: #6b6f76 } .c5 { stroke: #8a6d00 }
  .f0 { fill: #0072b2 } .f1 { fill: #c44e00 } .f2 { fill: #00805f } .f3 { fill: #a8457f }
  .f4 { fill: #6b6f76 } .f5 { fill: #8a6d00 }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round }
  text { font: 13px system-ui, sans-serif } .small { font-size: 12px } .title { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #16181d } .ink { fill: #e6e8eb } .soft { fill: #a9aeb6 }
    .axis { stroke: #7d838c } .grid { stroke: #2c3038 }
    .box { fill: #21252c; stroke: #7d838c } .arrow { stroke: #a9aeb6 } .head { fill: #a9aeb6 }
    .mark { stroke: #7d838c }
    .c0 { stroke: #56b4e9 } .c1 { stroke: #f0883e } .c2 { stroke: #3fc79a } .c3 { stroke: #e08fc0 }
    .c4 { stroke: #a9aeb6 } .c5 { stroke: #e3c23c }
    .f0 { fill: #56b4e9 } .f1 { fill: #f0883e } .f2 { fill: #3fc79a } .f3 { fill: #e08fc0 }
    .f4 { fill: #a9aeb6 } .f5 { fill: #e3c23c }
  }
"""
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2")


@dataclass
class Picture:
    """A drawing of a given size, to which parts are added.

    Parameters
    ----------
    width, height : int
    title : str
        What it shows, for those who do not see it.
    """

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, words: str, kind: str = "ink", *, anchor: str = "start"
    ) -> None:
        """Words at a place; `anchor` is "start", "middle" or "end"."""
        place = f'x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"'
        self.parts.append(f"<text {place}>{escape(words)}</text>")

    def line(self, points: Sequence[Point], kind: str, dashes: str = "") -> None:
        """A line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(f'<polyline points="{path}" class="{kind}"{dashed}/>')

    def dot(self, x: float, y: float, kind: str) -> None:
        """A point that was measured."""
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="{kind}"/>')

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box") -> None:
        """A rectangle with round corners."""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'rx="6" class="{kind}"/>'
        )

    def arrow(self, points: Sequence[Point]) -> None:
        """A line that ends in a head."""
        (x0, y0), (x, y) = points[-2:]
        across, down = (x > x0) - (x < x0), (y > y0) - (y < y0)
        self.line([*points[:-1], (x - 6 * across, y - 6 * down)], "arrow")
        back = (x - 8 * across, y - 8 * down)
        sides = [(back[0] + s * 4 * down, back[1] + s * 4 * across) for s in (1, -1)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in [(x, y), *sides])
        self.parts.append(f'<polygon points="{path}" class="head"/>')

    def key(self, x: float, y: float, names: Sequence[str], widths: Sequence[float]) -> None:
        """The names of series beside their lines, in one row."""
        for series, (name, width) in enumerate(zip(names, widths, strict=True)):
            self.line([(x, y - 4), (x + 26, y - 4)], f"line c{series}", DASHES[series])
            self.text(x + 32, y, name, "ink small")
            x += width

    def as_svg(self) -> str:
        """The file."""
        sides, title = (self.width, self.height), escape(self.title)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {sides[0]} {sides[1]}" '
            f'width="{sides[0]}" height="{sides[1]}" role="img" aria-label="{title}">'
            f"\n<title>{title}</title>\n<style>{STYLE}</style>\n"
            f'<rect width="100%" height="100%" rx="8" class="page"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


@dataclass(frozen=True)
class Axes:
    """A place in a picture where values are drawn.

    Parameters
    ----------
    picture : Picture
    left, top, width, height : float
    x, y : (float, float)
        What the sides stand for.
    """

    picture: Picture
    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> Point:
        """Where a value is."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (min(max(y, self.y[0]), self.y[1]) - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + self.width * across, self.top + self.height * (1 - up)

    def frame(
        self,
        title: str,
        x_ticks: Sequence[tuple[float, str]],
        y_ticks: Sequence[tuple[float, str]],
        x_label: str = "",
    ) -> None:
        """Title, grid and numbers."""
        self.picture.text(self.left, self.top - 12, title, "ink title")
        for value, words in y_ticks:
            _, y = self.at(self.x[0], value)
            self.picture.line([(self.left, y), (self.left + self.width, y)], "grid")
            self.picture.text(self.left - 6, y + 4, words, "soft small", anchor="end")
        base = self.top + self.height
        self.picture.line([(self.left, base), (self.left + self.width, base)], "axis")
        for value, words in x_ticks:
            x, _ = self.at(value, self.y[0])
            self.picture.line([(x, base), (x, base + 4)], "axis")
            self.picture.text(x, base + 18, words, "soft small", anchor="middle")
        if x_label:
            middle = self.left + self.width / 2
            self.picture.text(middle, base + 36, x_label, "soft small", anchor="middle")

    def series(self, points: Sequence[Point], number: int, *, dots: bool = False) -> None:
        """A line of values; its number decides colour and dashes."""
        places = [self.at(*point) for point in points]
        self.picture.line(places, f"line c{number}", DASHES[number])
        for place in places if dots else ():
            self.picture.dot(*place, f"f{number}")

    def mark(self, x: float) -> None:
        """A moment, from top to bottom."""
        place, _ = self.at(x, self.y[0])
        self.picture.line([(place, self.top), (place, self.top + self.height)], "mark")
