"""What less exact products on a GPU do to the codes and to the certificate.

    STREAMBITS_DATA=folder python -m experiments.precision [--device cuda] [--seeds 3]

Streams are those of `experiments.core`. A learner on the device learns each of them with products
in double precision, single precision and TF32. Printed are the certificate over the energy of the
largest direction that is kept and of the smallest, the share of bits that differ from those
learned in double precision (the rotation begins at the same place, but may settle elsewhere), the
angle between the subspaces, and MAP at the end of the stream.
"""

import argparse
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]

import streambits as sb
from experiments.core import WANTED
from paper import datasets
from streambits.evaluation import quality, truth
from streambits.evaluation.bits import bits_changed

PRECISIONS = ("double", "single", "tf32")


def measure(name: str, seed: int, device: str) -> list[dict[str, Any]]:
    """One row of figures for each precision."""
    bits, _ = WANTED[name]
    train, rows = datasets.stream(name, *datasets.SIZES[name], seed=seed)
    threshold = sb.bandwidth.nearest(30).distance(train)
    queries = truth.draw_queries(1000, len(rows), seed=seed)
    there, found = torch.asarray(rows, device=device), list[dict[str, Any]]()
    exact: tuple[sb.Codes, Any] | None = None
    for precision in PRECISIONS:
        marks = torch.asarray(train, device=device)
        learner = sb.ssbc(marks, bits, epochs="never", precision=precision, seed=seed).learn(there)
        coder, energies = learner.coder(), learner.sketch.directions(bits).energies * len(rows)
        codes, basis = coder.encode(there), coder.projection.basis
        exact = exact or (codes, basis)
        cosines = torch.linalg.svdvals(exact[1].T @ basis)
        found.append(
            {
                "precision": precision,
                "over the first": learner.sketch.certificate / float(energies[0]),
                "over the last": learner.sketch.certificate / float(energies[-1]),
                "bits that differ": bits_changed(exact[0], codes),
                "angle": float(np.degrees(np.arccos(min(1.0, float(cosines[-1]))))),
                "MAP": quality.mean_average_precision(codes, rows, queries, threshold),
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--data", nargs="*", default=list(WANTED))
    options = parser.parse_args()
    print(
        "| data | seed | precision | certificate / first energy | / last | bits that differ |",
        end="",
    )
    print(" largest angle | MAP |\n|---|---:|---|---:|---:|---:|---:|---:|")
    for name in filter(datasets.available, options.data):
        for seed in range(options.seeds):
            for row in measure(name, seed, options.device):
                print(
                    f"| {name} | {seed} | {row['precision']} | {row['over the first']:.1e} | "
                    f"{row['over the last']:.1e} | {row['bits that differ']:.2%} | "
                    f"{row['angle']:.2f} | {row['MAP']:.4f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
