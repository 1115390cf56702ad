"""Every command of docs/service.md, in order, with a NATS server of our own; and its examples."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import typer

from servers import free_port
from streambits.cli.app import app

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    """Where the commands run; what they leave running is ended."""
    yield tmp_path
    with suppress(OSError, ValueError):
        os.kill(int((tmp_path / "service.pid").read_text()), signal.SIGKILL)


@pytest.mark.slow
def test_every_command_of_the_page(folder, nats_server):
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    port = str(free_port())
    blocks = BLOCK.findall((ROOT / "docs" / "service.md").read_text())
    assert {language for language, _ in blocks} == {"python", "sh"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NATS": nats_server.url}
    environment.pop("STREAMBITS_TOKEN", None)
    said = []
    for language, text in blocks:
        command = {"sh": ["bash", "-euc"], "python": [sys.executable, "-c"]}[language]
        done = subprocess.run(
            [*command, text.replace("8765", port)],
            check=False,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        log = folder / "service.log"
        more = log.read_text() if log.exists() else ""
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}\n{more}"
        said.append(done.stdout)
    status = json.loads(said[2])
    assert (status["rows"], status["healthy"]) == (3999, True)
    assert "[[100000]]" in said[3]
    first, again = (re.search(r'\{"ids":\[\[(\d+)', said[i]) for i in (4, 5))
    assert first[1] == again[1] == "5"
    assert '{"removed":1}' in said[4]


@pytest.mark.parametrize("name", ["Dockerfile", "streambits.service"])
def test_the_commands_of_the_examples_parse(name):
    text = (ROOT / "docs" / "examples" / name).read_text().replace("\\\n", " ")
    [line] = [line for line in text.splitlines() if line.startswith(("ENTRYPOINT", "ExecStart="))]
    listed = line.startswith("ENTRYPOINT")
    words = json.loads(line.removeprefix("ENTRYPOINT")) if listed else shlex.split(line)
    words = words[words.index("serve") + 1 :]
    verb = typer.main.get_command(app).commands["serve"]
    with verb.make_context("serve", words, resilient_parsing=True) as context:
        assert not context.args
