"""Tables and figures as one HTML page."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.report.page import Page, Section, write_page

__all__ = ["Page", "Section", "write_page"]

import_at_first_use(__name__)
