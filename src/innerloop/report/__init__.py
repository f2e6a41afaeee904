"""Tables and figures as one HTML page."""

from innerloop.report.page import Page, Section, write_page

__all__ = ["Page", "Section", "write_page"]
