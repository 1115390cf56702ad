"""`make bench`: one table and one figure of ratios, measured in one run of about five minutes.

python -m benchmarks                               # measure and print
python -m benchmarks --only search                 # some of it
python -m benchmarks --json results.json           # and keep the raw results
python -m benchmarks --page docs/performance.md    # and write tables and figure into the page
python -m benchmarks --from results.json --page docs/performance.md   # without measuring
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from benchmarks import core, gpu, refined, report, search
from benchmarks.timer import machine
from streambits._threads import rescan_blas

LINES: dict[str, list[core.Lines]] = {
    **core.LINES,
    "search": [search.lines],
    "refined": [refined.lines],
    "gpu": [gpu.lines],
}
PARTS = tuple(LINES)


def measure(parts: list[str], *, small: bool = False) -> dict[str, Any]:
    """Raw results; lines are printed as they come."""
    rescan_blas()  # scikit-learn and FAISS have brought BLAS libraries of their own
    start, lines = time.perf_counter(), []
    found: dict[str, Any] = {
        "machine": gpu.machine_of() if parts == ["gpu"] else machine(),
        "loads": [os.getloadavg()[0]],
    }
    works = [work for part in parts for work in LINES.get(part, [])]
    for work in works:
        for line in work(small=small):
            lines.append(line)
            print(f"{time.perf_counter() - start:4.0f} s  {line.what}: {line.ratio}", flush=True)
    found["lines"] = report.as_json(lines)
    found["seconds"] = time.perf_counter() - start
    return found


def joined(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The results of several runs, of parts or of machines, as one."""
    return {
        "machine": "; ".join(dict.fromkeys(one["machine"] for one in results)),
        "loads": [load for one in results for load in one["loads"]],
        "lines": [line for one in results for line in one["lines"]],
        "seconds": sum(one["seconds"] for one in results),
    }


def circumstances(found: dict[str, Any]) -> str:
    """On what, in how many runs, how long, and what else the machine did."""
    runs, loads = len(found["loads"]), found["loads"]
    times = "one run" if runs == 1 else f"{runs} runs, one for each part,"
    before = f"{min(loads):.1f}" + (f" to {max(loads):.1f}" if runs > 1 else "")
    took = f"{times} of {found['seconds']:.0f} s in all"
    return f"{found['machine']}. Measured in {took}, load before {before}."


def tables(found: dict[str, Any]) -> dict[str, tuple[str, list[list[str]]]]:
    """What the page has, by the names of its marks: a line of text and a table."""
    told = {}
    for name, lines in by_machine(found).items():
        told[name] = (circumstances(found), report.rows_of(lines))
    return told


def by_machine(found: dict[str, Any]) -> dict[str, list[report.Line]]:
    """The lines of the host, and those of the device, by the names of their marks."""
    lines = report.from_json(found["lines"])
    there = [line for line in lines if line.what.endswith("on the device")]
    both = {"lines": [line for line in lines if line not in there], "gpu": there}
    return {name: some for name, some in both.items() if some}


def write(found: dict[str, Any], page: Path) -> None:
    """Put tables into the page, and the figure beside it."""
    text = page.read_text()
    for name, (above, table) in tables(found).items():
        parts = [above, report.markdown(table)]
        text = report.placed(text, name, "\n\n".join(part for part in parts if part))
    page.write_text(text)
    lines = by_machine(found).get("lines")
    if lines:
        report.draw(lines, page.with_suffix(".png"))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--small", action="store_true", help="tiny sizes: to see that it runs")
    parser.add_argument("--json", type=Path, help="file for the raw results")
    parser.add_argument("--from", type=Path, nargs="+", help="raw results, not measured again")
    parser.add_argument("--page", type=Path, help="page with marks for the tables")
    parser.add_argument("--markdown", action="store_true", help="print tables of Markdown")
    options = parser.parse_args(arguments)
    sources = getattr(options, "from")
    if sources:
        found = joined([json.loads(source.read_text()) for source in sources])
    else:
        found = measure(options.only, small=options.small)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.page:
        write(found, options.page)
    for above, table in tables(found).values():
        print(f"\n{above}\n{report.markdown(table) if options.markdown else report.plain(table)}")


if __name__ == "__main__":
    main()
