"""The walk of a row: a diagram of the parts that docs/design.md names."""

from experiments.pictures.svg import Picture

TITLE = "The walk of a row, from a source to a code, an index and an answer"


def draw() -> str:
    """The picture."""
    picture = Picture(860, 330, TITLE)

    def part(x: int, y: int, name: str, *words: str, width: int = 132) -> None:
        picture.box(x, y, width, 64)
        picture.text(x + width / 2, y + 24, name, "ink title", anchor="middle")
        for line, text in enumerate(words):
            place = y + 42 + 15 * line
            picture.text(x + width / 2, place, text, "soft small", anchor="middle")

    part(20, 40, "Source", "files, a broker,", "your own loop")
    part(190, 40, "Features", "affinities to the", "landmarks, once")
    part(360, 40, "Coder", "signs, packed;", "what they left over")
    part(530, 40, "Codes", "bits, bytes, epoch")
    part(700, 40, "Index or sink", "Hamming search,", "Parquet, SQL", width=140)
    part(190, 200, "Monitor", "has the stream", "moved?")
    part(360, 200, "Sketch", "directions of all", "rows, fixed memory")
    part(700, 200, "Answer", "ids and distances,", "proven if asked", width=140)
    for x in (152, 322, 492, 662):
        picture.arrow([(x, 72), (x + 38, 72)])
    picture.arrow([(235, 104), (235, 200)])
    picture.text(229, 156, "every 8th row", "soft small", anchor="end")
    picture.arrow([(285, 104), (285, 140), (400, 140), (400, 200)])
    picture.text(392, 170, "learned", "soft small", anchor="end")
    picture.arrow([(452, 200), (452, 104)])
    picture.text(462, 170, "refresh: a better coder,", "soft small")
    picture.text(462, 186, "its bits match the last", "soft small")
    picture.arrow([(256, 264), (256, 300), (426, 300), (426, 264)])
    picture.text(341, 318, "new landmarks: a new epoch", "soft small", anchor="middle")
    picture.arrow([(770, 104), (770, 200)])
    picture.text(762, 156, "at any moment", "soft small", anchor="end")
    picture.text(
        20,
        24,
        "code(x) = pack(sign(features(x) . directions . rotation - thresholds))",
        "soft small",
    )
    return picture.as_svg()
