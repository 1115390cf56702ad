"""A cache of its own for every test, and a site on this machine to download from."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("STREAMBITS_CACHE", str(folder))
    return folder


class Site:
    """files: what it serves, by name; cut: those that break off half way; asked: what was got."""

    def __init__(self):
        self.files, self.cut, self.asked = {}, set(), []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path[1:]
                site.asked.append(name)
                if name not in site.files:
                    self.send_error(404)
                    return
                content = site.files[name]
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if name in site.cut else content)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def url(self, name):
        return f"http://127.0.0.1:{self.server.server_port}/{name}"

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = Site()
    yield found
    found.close()
