"""A real browser for tests of pages: chromium, or the one that STREAMBITS_BROWSER names."""

import os
import shutil
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect, sync_playwright

SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def browser_file():
    """Where the browser is; without one the tests are skipped, and fail in CI."""
    found = os.environ.get("STREAMBITS_BROWSER") or shutil.which("chromium")
    if found is None:
        reason = "no browser: install chromium, or name one by STREAMBITS_BROWSER"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@contextmanager
def started():
    """A browser that runs as long as the context; while it does, asyncio.run cannot be called."""
    file = browser_file()
    expect.set_options(timeout=10_000)
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=file, args=SWITCHES)
        yield running
        running.close()
