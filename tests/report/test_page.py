"""One self-contained page."""

from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from innerloop.report.page import Page, Section, render_page, write_page

VOID = {"meta", "br", "img", "link", "hr", "input"}


class Balanced(HTMLParser):
    """Complains about a tag that is not closed where it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def a_page() -> Page:
    figure = Figure()
    figure.add_subplot().plot([0, 1], [1, 2], label="a < b & c")
    table = pd.DataFrame({"learner": ["<OLS>"], "mean": [0.123456], "steps": [20]})
    section = Section(title="One & two", text="first\n\nsecond <b>", figure=figure, table=table)
    return Page(title="A <page>", summary="what it says", sections=(section,), footer="the end")


def test_a_page_is_well_formed_and_needs_nothing_from_elsewhere() -> None:
    text = render_page(a_page())
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert all(link.startswith("#") for link in parser.links)
    assert text.count("<script>") == 1, "its own, which the policy of the page names"


def test_text_is_escaped() -> None:
    text = render_page(a_page())
    assert "A &lt;page&gt;" in text
    assert "&lt;OLS&gt;" in text
    assert "second &lt;b&gt;" in text


def test_figures_numbers_and_paragraphs_are_there() -> None:
    text = render_page(a_page())
    assert text.count("<svg") == 1
    assert '<td role="cell" data-name="mean" class="number">0.123</td>' in text
    assert '<td role="cell" data-name="steps" class="number">20</td>' in text
    assert text.count("<p>") == 2


def test_the_same_page_twice_is_the_same_file(tmp_path: Path) -> None:
    first = write_page(a_page(), tmp_path / "one.html").read_bytes()
    assert write_page(a_page(), tmp_path / "two.html").read_bytes() == first
