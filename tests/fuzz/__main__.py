"""A long run, with a table at the end; what is wrong is told at once."""

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from fuzz import runner


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="Mutations.")
    parser.add_argument("--first", type=int, default=0, help="Number of the first one.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="Kinds that contain this text.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        every = [s for s in runner.build(Path(root, "pristine")) if given.only in s.kind]
        numbers = range(given.first, given.first + given.count)
        options = {"seed": given.seed, "workers": given.workers, "on_done": tell}
        print(table(runner.run(every, root, numbers, **options)))  # noqa: T201


def tell(verdict):
    if verdict.verdict == runner.WRONG:
        print(*verdict, sep=" | ", flush=True)  # noqa: T201
    elif verdict.number % 1000 == 0:
        print(verdict.number, flush=True)  # noqa: T201


def table(verdicts):
    """A line for each kind of file."""
    columns = (runner.REFUSED, runner.SAME, runner.WRONG)
    counts = Counter((verdict.kind, verdict.verdict) for verdict in verdicts)
    kinds = sorted({kind for kind, _ in counts})
    lines = [f"| damaged | n | {' | '.join(columns)} |", "|---|---:|---:|---:|---:|"]
    for kind in (*kinds, "all"):
        found = [sum(counts[k, c] for k in (kinds if kind == "all" else [kind])) for c in columns]
        lines.append(f"| {kind} | {' | '.join(map(str, [sum(found), *found]))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
