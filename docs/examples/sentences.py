"""Sentences in, 48 bytes per sentence out: sentence-transformers and a `StreamIndex`.

python docs/examples/sentences.py sentences.txt index/ "what to look for" [--model NAME or folder]

Every line of the file is a sentence. They are embedded and added in batches, so neither all texts
nor all vectors are ever in memory; run it again with more lines, and the index goes on.
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
    model = SentenceTransformer(options.model)
    # embeddings have directions, not lengths, that mean something: metric="cosine"
    with sb.StreamIndex.open(options.index, method="product", refine=48, metric="cosine") as index:
        with options.sentences.open(encoding="utf-8") as file:
            lines = islice(enumerate(file), len(index), None)  # those that are not there yet
            while batch := list(islice(lines, BATCH)):
                numbers, texts = zip(*batch, strict=True)
                index.add(model.encode([text.strip() for text in texts]), numbers)
        hits = index.search(model.encode([options.query]), k=5)
        print(f"{len(index):,} sentences, {index.codes.refine} bytes each")
    found = dict(zip(hits.ids[0].tolist(), hits.distances[0].tolist(), strict=True))
    with options.sentences.open(encoding="utf-8") as file:
        texts = {number: text.strip() for number, text in enumerate(file) if number in found}
    for number, distance in found.items():
        print(f"{1 - distance:.3f}  {texts[number]}")


if __name__ == "__main__":
    main()
