"""How fast this tree is beside another one, as ratios of one run.

    git worktree add ../before COMMIT
    python -m benchmarks.trees ../before/src
    # or only the tasks with a word in their name, in so many rounds:
    python -m benchmarks.trees ../before/src "one row" 60

Both trees work in turn, each in a process of its own that stays, so that both meet the same
machine; a figure is the median over the rounds of the time of this tree over that of the other,
each the best of three in a row.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timer import Reported, figures, in_turns, machine, seconds

ROUNDS = 15
ROOT = Path(__file__).resolve().parents[1]


def tasks(folder: Path) -> dict[str, Callable[[], Any]]:
    import streambits as sb  # noqa: PLC0415 - of the tree that PYTHONPATH names

    rng = np.random.default_rng(0)
    rows = rng.random((40_000, 54), dtype=np.float32)
    learner = sb.ssbc(rows[:500], 64).learn(rows)
    coder = learner.coder()
    packed = rng.integers(0, 256, (2_000_000, 8), np.uint8)
    index, codes = sb.HammingIndex(64, strategy="scan"), sb.Codes(packed, 64)
    index.add(codes)
    tables = sb.HammingIndex(64, strategy="multi")
    tables.add(codes[:200_000])
    tables.search(codes[:1], 1)
    path = folder / "index"
    sb.save(index, path)
    few, real = codes[:64], rng.normal(size=(16, 64))
    changing, new = sb.HammingIndex(64), iter(range(1 << 40))

    def change() -> None:
        for _ in range(50):
            name = next(new)
            changing.add(codes[name % 1000 : name % 1000 + 1], [name])
            if name % 2:
                changing.remove([name])

    return {
        "encode 40,000 rows": lambda: coder.encode(rows),
        "encode one row, 100 times": lambda: [coder.encode(rows[:1]) for _ in range(100)],
        "learn 40,000 rows": lambda: learner.fresh().learn(rows),
        "learn one row, 200 times": lambda: [learner.learn(rows[:1]) for _ in range(200)],
        "scan, 64 queries": lambda: index.search(few, 10),
        "scan, one query, 20 times": lambda: [index.search(codes[:1], 10) for _ in range(20)],
        "tables, 64 queries": lambda: tables.search(few, 10),
        "real values, 16 queries": lambda: index.search(real, 10),
        "within": lambda: index.within(few, 12),
        "open an index, 20 times": lambda: [sb.load(path) for _ in range(20)],
        "add and remove by one, 50 times": change,
    }


def work(folder: str) -> None:
    """Answer each line, the name of a task, with the seconds it took."""
    found = tasks(Path(folder))
    for task in found.values():
        task()
    print(json.dumps(list(found)), flush=True)
    for line in sys.stdin:
        print(seconds(found[line.strip()]), flush=True)


def started(source: Path, folder: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-m", "benchmarks.trees", "--work", folder]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment, cwd=ROOT)


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


def asked(process: subprocess.Popen[str], task: str) -> float:
    assert process.stdin
    process.stdin.write(task + "\n")
    process.stdin.flush()
    return float(answer(process))


def main(other: Path, word: str = "", rounds: int = ROUNDS) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        ours, theirs = started(ROOT / "src", one), started(other, two)
        names, _ = (json.loads(answer(process)) for process in (ours, theirs))
        print(f"{machine()}\n")
        print("| what | this tree, ms | time over the other's (quartiles) |\n|---|---:|---:|")
        for name in [name for name in names if word in name]:
            works = [Reported(partial(asked, process, name)) for process in (ours, theirs)]
            mine, its = in_turns(*works, rounds=rounds)
            print(f"| {name} | {figures(mine.median * 1e3)} | {mine.over(its)} |", flush=True)
        for process in (ours, theirs):
            process.kill()


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work(sys.argv[2])
    else:
        word = sys.argv[2] if len(sys.argv) > 2 else ""
        rounds = int(sys.argv[3]) if len(sys.argv) > 3 else ROUNDS
        main(Path(sys.argv[1]).resolve(), word, rounds)
