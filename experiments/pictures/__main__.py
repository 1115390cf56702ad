"""Draw the pictures of the documentation.

python -m experiments.pictures              # all of them, into docs/pictures
python -m experiments.pictures recall walk  # some
"""

import argparse
from pathlib import Path

from experiments.pictures import epochs, recall, refresh, walk

PICTURES = {
    "walk": walk.draw,
    "recall": recall.draw,
    "epochs": epochs.draw,
    "refresh": refresh.draw,
}
FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


def main(arguments: list[str] | None = None) -> None:
    """Write the pictures that are asked for."""
    parser = argparse.ArgumentParser(description="Draw the pictures of the documentation.")
    parser.add_argument("names", nargs="*", choices=[*PICTURES, []], help="default: all")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or PICTURES:
        path = options.out / f"{name}.svg"
        path.write_text(PICTURES[name]())
        print(path)


if __name__ == "__main__":
    main()
