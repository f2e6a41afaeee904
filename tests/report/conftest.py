"""A browser for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Started once; skipped where Playwright or Chromium is not installed."""
    pytest.importorskip("playwright", reason="Playwright is not installed")
    from tests.browser import launched_browser

    with launched_browser() as launched:
        yield launched
