"""From the first page to a pasted example that works, in a clean environment.

python -m benchmarks.first_example                  # packages from wherever pip finds them
python -m benchmarks.first_example --no-cache-dir   # further arguments are pip's

Does what the first page (README.md, the start of the site) says, as it says it: a new virtual
environment, the command that installs, the Python block pasted into a file. Nothing of the
environment that runs this script is used. Prints seconds of each step, the first run of the example
(in which searches are compiled) and the second.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[1]


def first_page(text: str) -> tuple[list[str], str]:
    """The words of the command that installs, and the code to paste."""
    command = re.search(r"^    (pip install [^#\n]*)", text, re.MULTILINE)
    block = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if command is None or block is None:
        raise ValueError("the first page has no command that installs, or no code to paste")
    return shlex.split(command[1]), block[1]


def measure(folder: Path, pip: list[str]) -> dict[str, float]:
    """Seconds of each step, in a folder of its own."""
    command, code = first_page((ROOT / "README.md").read_text())
    (folder / "example.py").write_text(code)
    python = folder / "venv" / "bin" / "python"
    steps = {
        "virtual environment": [sys.executable, "-m", "venv", str(folder / "venv")],
        " ".join(command): [str(python), "-m", *command, "--quiet", *pip],
        "the example": [str(python), str(folder / "example.py")],
        "the example again": [str(python), str(folder / "example.py")],
    }
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    pips = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    found = {}
    for name, words in steps.items():
        start = perf_counter()
        where = ROOT if "pip" in words else folder
        subprocess.run(words, check=True, cwd=where, env=clean | pips)
        found[name] = perf_counter() - start
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), sys.argv[1:])
    for name, seconds in found.items():
        print(f"{seconds:7.1f} s  {name}")
    whole = sum(found.values()) - found["the example again"]
    print(f"{whole:7.1f} s  from the first page to an example that has worked")


if __name__ == "__main__":
    main()
