"""What all tests share: one thread, no windows, explicit randomness, reference answers, browser."""

import os
import signal

# Before anything imports pyplot, and for the processes that tests start.
os.environ["MPLBACKEND"] = "Agg"

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch

from innerloop.core.prompt import Layout, Prompt

# Under nohup, and in the background of a script, these are ignored, also by the processes that
# tests start: those who send them would wait for ever. Windows has no SIGHUP.
_USUAL = {"SIGINT": signal.default_int_handler, "SIGHUP": signal.SIG_DFL}
for _name in _USUAL.keys() & set(dir(signal)):
    if signal.getsignal(getattr(signal, _name)) == signal.SIG_IGN:
        signal.signal(getattr(signal, _name), _USUAL[_name])

# Two workers run side by side: threads of their own would make both several times slower.
torch.set_num_threads(1)

hypothesis.settings.register_profile(
    "innerloop", deadline=None, derandomize=True, max_examples=25, print_blob=False
)
hypothesis.settings.load_profile("innerloop")

REFERENCE = Path(__file__).parent / "reference"
"""Answers of the papers' public code, as numbers."""


@pytest.fixture
def generator() -> torch.Generator:
    """A generator of its own for each test, always in the same state."""
    return torch.Generator().manual_seed(2024)


@pytest.fixture
def random_prompt(generator: torch.Generator) -> Callable[..., Prompt]:
    """A function that draws standard normal prompts, and queries if asked to, for the test."""

    def draw(
        batch: int = 3,
        points: int = 6,
        dims: int = 2,
        outputs: int = 1,
        *,
        queries: int = 0,
        layout: Layout = "pairs",
        dtype: torch.dtype = torch.float64,
    ) -> Prompt:
        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

        xs = normal(batch, points, dims)  # (B, n, d)
        if layout == "stream":
            ys = torch.cat([xs[:, 1:], normal(batch, 1, dims)], dim=1)  # (B, n, d)
        else:
            ys = normal(batch, points, outputs)  # (B, n, k)
        asked = normal(batch, points, queries, dims) if queries else None  # (B, n, q, d)
        return Prompt(xs=xs, ys=ys, queries=asked, layout=layout)

    return draw


@pytest.fixture(scope="session")
def reference() -> dict[str, np.ndarray]:
    """Prompts and the answers of the papers' public code, by name; see that folder's README."""
    with np.load(REFERENCE / "vectors.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium for the tests of pages; they are skipped where it or Playwright is not installed.

    One per file: as long as it runs, its thread has an event loop, which other tests would trip on.
    """
    pytest.importorskip("playwright", reason="Playwright is not installed: see the extra 'dev'")
    from tests.browser import launched_browser

    with launched_browser() as launched:
        yield launched
