"""Sentences in, 48 bytes per sentence out: sentence-transformers and a `StreamIndex`.

python docs/examples/sentences.py sentences.txt index/ "what to look for" [--model NAME or folder]

Every line of the file that is not empty is a sentence. They are embedded and added in batches, so
neither all texts nor all vectors are ever in memory; run it again with more lines, and the index
goes on. The first 5,000 are kept as they are, for a model of 48 bytes is learned from them.
"""

import argparse
from itertools import islice
from pathlib import Path

from sentence_transformers import SentenceTransformer

import streambits as sb

BATCH = 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("index", type=Path)
    parser.add_argument("query")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    options = parser.parse_args()
    try:
        with options.sentences.open(encoding="utf-8") as file:
            count = sum(1 for _ in file)
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"{options.sentences} cannot be read: {error}")
    model = SentenceTransformer(options.model)
    # embeddings have directions, not lengths, that mean something: metric="cosine"
    with sb.StreamIndex.open(options.index, method="product", refine=48, metric="cosine") as index:
        done = index.note or 0  # lines of the file, which the index keeps with its rows
        if done > count:
            parser.error(f"{options.index} has {done:,} lines, and {options.sentences} {count:,}")
        with options.sentences.open(encoding="utf-8") as file:
            lines = islice(enumerate(file), done, None)  # those that are not there yet
            while batch := list(islice(lines, BATCH)):
                texts = {number: text.strip() for number, text in batch if text.strip()}
                if texts:
                    rows = model.encode(list(texts.values()))
                    index.add(rows, list(texts), note=batch[-1][0] + 1)
        if not len(index):
            parser.error(f"there is no sentence in {options.sentences}")
        hits = index.search(model.encode([options.query]), k=5)
        size = (
            "not yet enough to learn from" if index.waiting else f"{index.codes.refine} bytes each"
        )
        print(f"{len(index):,} sentences, {size}")
    found = dict(zip(hits.ids[0].tolist(), hits.distances[0].tolist(), strict=True))
    with options.sentences.open(encoding="utf-8") as file:
        texts = {number: text.strip() for number, text in enumerate(file) if number in found}
    for number, distance in found.items():
        print(f"{1 - distance:.3f}  {texts[number]}")


if __name__ == "__main__":
    main()
