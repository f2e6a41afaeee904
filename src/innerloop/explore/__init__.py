"""A page on which small in-context transformers run in the browser."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.explore.sheet import sheet

__all__ = ["sheet"]

import_at_first_use(__name__)
