"""An installed Chromium, driven by Playwright, for tests of pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-quic",
)  # fmt: skip
"""Nothing of the browser's own business: what is requested, the page requests."""


@contextmanager
def launched_browser() -> Iterator[Browser]:
    """A browser until the end of the block; the tests are skipped where none is installed."""
    named = os.environ.get("INNERLOOP_CHROMIUM")
    found = named or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium is installed: install one, or name it in INNERLOOP_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(QUIET))
        try:
            yield browser
        finally:
            browser.close()
