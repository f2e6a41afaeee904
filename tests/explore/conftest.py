"""An installed Chromium, and a blank page in it that has the scripts of the page."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import innerloop.explore

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--no-first-run", "--disable-quic",
)  # fmt: skip
ASSETS = Path(str(innerloop.explore.__file__)).parent / "assets"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Playwright's handle of the browser."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install innerloop[dev]."
    )
    named = os.environ.get("INNERLOOP_CHROMIUM")
    path = named or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("there is no Chromium: install one, or name it in INNERLOOP_CHROMIUM.")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=list(OPTIONS))
        yield running
        running.close()
