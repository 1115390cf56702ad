"""The process: its token, its end, kills, and a broker."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from service.conftest import SMALL, TOKEN
from streambits import StreamIndex
from streambits.errors import InputError, StreambitsError
from streambits.service import Client
from streambits.service.server import find_token, serve

KILLS = 10 if os.environ.get("STREAMBITS_SLOW") else 3


def test_a_token_is_made_once_and_only_its_owner_reads_it(tmp_path, monkeypatch):
    monkeypatch.delenv("STREAMBITS_TOKEN", raising=False)
    token, place = find_token(tmp_path)
    assert place == str(tmp_path / "token")
    assert len(token) > 40
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert find_token(tmp_path)[0] == token
    monkeypatch.setenv("STREAMBITS_TOKEN", "of-the-environment")
    assert find_token(tmp_path) == ("of-the-environment", "the variable STREAMBITS_TOKEN")
    (tmp_path / "mine").write_text("short")
    with pytest.raises(InputError, match="16 ASCII"):
        find_token(tmp_path, tmp_path / "mine")


def test_it_says_where_it_is_and_ends_with_0(serving, vectors):
    one = serving(*SMALL, token=None)
    token = (one.folder / "token").read_text().strip()
    assert f"token in {one.folder / 'token'}" in one.said
    with one.client(token) as client:
        client.add(vectors[:1000], np.arange(1000))
    listener = socket.create_connection(("127.0.0.1", one.port), 10)
    listener.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    listener.recv(1000)
    started = time.monotonic()
    assert one.stop() == 0
    assert time.monotonic() - started < 10
    listener.close()
    one.start()  # with settings that the index has
    with one.client(token) as client:
        assert client.status()["rows"] == 1000
        assert client.search(vectors[:1], 1).ids.tolist() == [[0]]
    assert one.stop(signal.SIGINT) == 0
    assert "Traceback" not in one.said


def test_other_settings_a_used_folder_and_a_used_port_are_refused(serving, tmp_path):
    one = serving(*SMALL)
    with pytest.raises(InputError, match="cannot listen"):
        serve(tmp_path / "other", port=one.port)
    with pytest.raises(StreambitsError, match="writes to the index"):
        serve(one.folder, port=0)
    one.stop()
    with pytest.raises(InputError, match="was begun with 32"):
        serve(one.folder, port=0, bits=64)


def test_without_the_extra_there_is_one_sentence(tmp_path):
    code = (
        "import sys; sys.modules['fastapi'] = None\nfrom streambits.cli.app import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "serve", str(tmp_path / "x")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'streambits[serve]'" in done.stderr


class Worker:
    """A client that adds, updates and removes ids of its own, and knows what was acknowledged."""

    def __init__(self, number, vectors):
        self.number, self.vectors = number, vectors
        self.rng = np.random.default_rng(number)
        self.sure, self.unsure = {}, set()  # id -> place of its row, or None; ids of no answer

    def work(self, address, until):
        with Client(address, TOKEN, timeout=10) as client:
            while not until.is_set():
                ids = self.number * 1000 + self.rng.choice(200, self.rng.integers(1, 6), False)
                gone = self.rng.random() < 0.3
                places = self.rng.integers(0, 3000, len(ids))
                try:
                    if gone:
                        client.remove(ids)
                    else:
                        client.add(self.vectors[places], ids)
                except StreambitsError:  # no answer: done or not
                    self.unsure |= set(ids.tolist())
                    return
                for one, place in zip(ids.tolist(), places.tolist(), strict=True):
                    self.sure[one] = None if gone else place
                    self.unsure.discard(one)

    def check(self, index):
        for one, place in self.sure.items():
            if one in self.unsure:
                continue
            assert (one in index) == (place is not None), one
            if place is not None:
                assert np.array_equal(index.rows([one])[0], self.vectors[place])


@pytest.mark.slow
def test_whatever_was_acknowledged_survives_kills(serving, vectors):
    one = serving(*SMALL, "--keep-rows")
    with one.client() as client:
        client.add(vectors[:600], np.arange(10**6, 10**6 + 600))
    workers = [Worker(number, vectors) for number in range(1, 5)]
    rng = np.random.default_rng(7)
    for _ in range(KILLS):
        until = threading.Event()
        threads = [threading.Thread(target=w.work, args=(one.address, until)) for w in workers]
        for thread in threads:
            thread.start()
        time.sleep(rng.uniform(0.05, 0.4))
        one.stop(signal.SIGKILL)
        until.set()
        for thread in threads:
            thread.join()
        with StreamIndex.open(one.folder, read_only=True) as index:
            for worker in workers:
                worker.check(index)
        one.start()
    assert sum(len(worker.sure) for worker in workers) > 100
    assert one.stop() == 0
