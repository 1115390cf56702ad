"""What an installation costs: bytes on the disk per package, and seconds to import.

    python -m benchmarks.install [--wheel dist/streambits-0.2.0-py3-none-any.whl]
    python -m benchmarks.install --environment folder    # one that is there already

A clean environment is made, pip installs the wheel (or this repository) into it without extras,
with the versions in constraints.txt. Bytes are those of all files that pip has recorded, without
compiled bytecode. Times are the median of some new processes, with bytecode compiled before: the
whole process, and what the import adds to an interpreter that imports nothing; and the seconds of
the first example of the README, which compiles what it needs, and of the second time.
"""

import argparse
import json
import re
import statistics
import subprocess
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

from benchmarks.timer import machine

ROOT = Path(__file__).parents[1]
TIMES = 7
SIZES = """
import importlib.metadata as m, json
found = {}
for one in m.distributions():
    files = [f.locate() for f in one.files or () if "__pycache__" not in f.parts]
    found[one.metadata["Name"]] = sum(f.stat().st_size for f in files if f.is_file())
print(json.dumps(found))
"""
TOOLS = ("pip", "setuptools", "wheel", "pytest", "pluggy", "iniconfig", "packaging")


def installed(folder: Path, what: str) -> Path:
    """The interpreter of a new environment with the package in it."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    limits = ["--constraint", str(ROOT / "constraints.txt")]
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *limits, what], check=True)
    return python


def sizes(python: Path) -> dict[str, int]:
    """Bytes of each package but tools, largest first."""
    done = subprocess.run([python, "-I", "-c", SIZES], check=True, capture_output=True, text=True)
    found = {k: v for k, v in json.loads(done.stdout).items() if k not in TOOLS}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def seconds(command: list[Any], times: int = TIMES) -> float:
    """The median of the seconds that a process takes, not counting the first one."""
    found = []
    for _ in range(times + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        found.append(time.perf_counter() - start)
    return statistics.median(found[1:])


def example(python: Path) -> tuple[float, float]:
    """Seconds of the README's example, for the first and the second time."""
    page = (ROOT / "README.md").read_text()
    [code] = re.findall(r"^```python\n((?:(?!>>>).)*?)^```$", page, re.MULTILINE | re.DOTALL)
    found = []
    for _ in range(2):
        start = time.perf_counter()
        subprocess.run([python, "-I", "-c", code], check=True, capture_output=True)
        found.append(time.perf_counter() - start)
    return found[0], found[1]


def report(python: Path, *, times: int = TIMES, readme: bool = True) -> str:
    """All of it, as text."""
    held = sizes(python)
    total = sum(held.values())
    lines = [f"{machine()}, Python {_version(python)}", "", "| package | MB |", "|---|---:|"]
    large = {name: size for name, size in held.items() if size >= 2e6 or name == "streambits"}
    lines += [f"| {name} | {size / 1e6:.1f} |" for name, size in large.items()]
    lines += [f"| {len(held) - len(large)} more | {(total - sum(large.values())) / 1e6:.1f} |"]
    lines += [f"| **all** | **{total / 1e6:.0f}** |", "", "| what | seconds |", "|---|---:|"]
    bare = seconds([python, "-I", "-c", "pass"], times)
    whole = seconds([python, "-I", "-c", "import streambits"], times)
    lines += [f"| `import streambits`, beyond an empty interpreter | {whole - bare:.2f} |"]
    command = seconds([python.parent / "streambits", "--version"], times)
    lines += [f"| `streambits --version` | {command:.2f} |"]
    if readme:
        first, again = example(python)
        lines += [f"| the README's example for the first time, when it is compiled | {first:.0f} |"]
        lines += [f"| the same again | {again:.1f} |"]
    return "\n".join(lines)


def _version(python: Path) -> str:
    done = subprocess.run([python, "-V"], check=True, capture_output=True, text=True)
    return done.stdout.split()[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", default=str(ROOT))
    parser.add_argument("--environment", type=Path)
    parser.add_argument("--no-example", action="store_true")
    options = parser.parse_args()
    if options.environment:
        python = options.environment / "bin" / "python"
        print(report(python, readme=not options.no_example))
        return
    with tempfile.TemporaryDirectory() as folder:
        python = installed(Path(folder), options.wheel)
        print(report(python, readme=not options.no_example))


if __name__ == "__main__":
    main()
