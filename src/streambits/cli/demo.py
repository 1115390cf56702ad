"""`streambits demo`: what the codes are worth, in a table, without a download."""

import time
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from streambits._arrays import blocks
from streambits.cli import output
from streambits.cli.options import AsJson
from streambits.evaluation.bits import bits_changed
from streambits.evaluation.ranking import hamming_counts, mean_average_precision
from streambits.evaluation.truth import draw_queries, neighbours_within
from streambits.features import nearest
from streambits.methods import ssbc
from streambits.methods.settings import Settings
from streambits.model.codes import Codes
from streambits.online import encode_online

ONLINE_BITS, LANDMARKS, QUERIES = 64, 500, 1000
BITS = (8, 16, 32)
METHODS = {"ssbc": "ssbc", "linear": "linear ITQ"}
CHANGED_ROWS = 1000  # on which changed bits are counted
REFRESH = 500  # rows between two coders


def demo_command(
    *,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(min=0, hidden=True, help="Random seed.")] = 0,
    rows: Annotated[int, typer.Option(min=1000, hidden=True, help="Rows of the stream.")] = 10_000,
) -> None:
    """Stream the paper's Uniform data, then compare two methods on it at several lengths.

    Prints mean average precision (MAP). Needs no download, no extra package and no settings.

    Example: streambits demo
    """
    shape = (LANDMARKS + rows, 50)  # column t is uniform on [0, 1 / t^2]
    drawn = np.random.default_rng(seed).random(shape) / np.arange(1, 51) ** 2
    landmarks, stream = np.split(drawn.astype(np.float32), [LANDMARKS])
    queries = draw_queries(QUERIES, rows, seed=seed)
    near = neighbours_within(stream, queries, nearest(30).distance(landmarks))

    def score(codes: Codes) -> float:
        return mean_average_precision(hamming_counts(codes, codes[queries], near, queries))

    with output.working(output.stderr(), f"Uniform, {ONLINE_BITS} bits, online"):
        codes, online = encode_while_learning(landmarks, stream, seed)
        last = ssbc(landmarks, ONLINE_BITS, seed=seed).learn(stream).coder()
        online |= {"map_online": score(codes), "map_end": score(last.encode(stream))}
    scores = list[dict[str, Any]]()
    for method, name in METHODS.items():
        with output.working(output.stderr(), f"Uniform, {BITS[0]} to {BITS[-1]} bits: {name}"):
            for bits in BITS:
                learner = Settings(bits, method, seed=seed).build(landmarks)
                value = score(learner.learn(stream).coder().encode(stream))
                scores.append({"method": name, "bits": bits, "map": value})
    text = (
        f"\nssbc on Uniform, {ONLINE_BITS} bits, one pass over {rows:,} rows:\n"
        f"  MAP online    {online['map_online']:.3f}  each code is final at once\n"
        f"  MAP at end    {online['map_end']:.3f}  all codes made after the last row\n"
        f"  bits changed  {online['bits_changed']:.2%}  at each refresh, every {REFRESH} rows\n"
    )
    lines = [
        (name, *(f"{one['map']:.3f}" for one in scores if one["method"] == name))
        for name in METHODS.values()
    ]
    heads = ("method", *(f"{bits} bits" for bits in BITS))
    facts = {**output.VERSION, "seed": seed, "rows": rows, "online": online, "scores": scores}
    table = output.table("MAP at the end of the stream", heads, lines)
    output.result(facts, [text, table], as_json)


def encode_while_learning(
    landmarks: NDArray[Any], stream: NDArray[Any], seed: int
) -> tuple[Codes, dict[str, Any]]:
    """ssbc in the online setting: every code is final before the next rows are read."""
    learner, changes = ssbc(landmarks, ONLINE_BITS, seed=seed), list[float]()
    started = time.perf_counter()

    def compare(old: Any, new: Any) -> None:
        changes.append(bits_changed(*(one.encode(stream[:CHANGED_ROWS]) for one in (old, new))))

    parts = encode_online(learner, blocks(stream, REFRESH), refresh=REFRESH, on_refresh=compare)
    codes = Codes.concat([part for _, part in parts])
    rate = round(len(stream) / (time.perf_counter() - started), 1)
    facts = {"rows_per_second": rate, "certificate": learner.certificate}
    return codes, facts | {"bits_changed": float(np.mean(changes))}
