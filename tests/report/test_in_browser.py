"""The joined report in Chromium, opened as a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd
import pytest

from innerloop.report import study_page
from innerloop.report.joined import choose, joined_page
from innerloop.report.page import write_page
from innerloop.studies.result import read_results
from tests.report.made import FINDINGS, a_result, a_study
from tests.report.test_plot import HOSTILE, a_figure, a_table

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two studies whose figures are drawn in the page, and one that only has its picture.

    The last has a claim of another verdict than the others.
    """
    folder = tmp_path_factory.mktemp("report")
    findings = replace(FINDINGS, tables={"curves": a_table("model", HOSTILE, "least squares")})
    ours = [
        replace(a_study(paper, id), draw=lambda tables: a_figure(tables["curves"]))
        for paper, id in (("yang2024", "fig2"), ("chen2025", "fig1"))
    ]
    theirs = a_study("mine", "fig9")
    theirs = replace(theirs, claims=theirs.claims[:1])  # confirmed
    for study, found in ((ours[0], findings), (ours[1], findings), (theirs, FINDINGS)):
        a_result(folder, study, findings=found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study_page, "STUDIES", tuple(ours))
        return write_page(joined_page(choose(read_results(folder)[0])), folder / "report.html")


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Page]:
    """The page, which must neither complain nor ask for anything."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    faults: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    yield page
    page.close()
    assert faults == []
    assert {url for url in asked if not url.startswith("data:")} == {report.as_uri()}


def hover(page: Page, figure: Locator, label: str, point: int) -> str:
    """Move the pointer near a point of a curve; what is shown."""
    left, top = figure.evaluate(
        """(figure, [label, point]) => {
            const svg = figure.querySelector("svg"), box = svg.getBoundingClientRect();
            const values = JSON.parse(figure.querySelector("script").textContent);
            const number = values.labels.indexOf(label);
            const curve = values.curves.find((curve) => curve.label === number);
            const scale = box.width / svg.viewBox.baseVal.width, at = curve.points[point];
            return [box.left + at[0] * scale + 2, box.top + at[1] * scale - 2];
        }""",
        [label, point],
    )
    page.mouse.move(left, top)
    return page.locator("#tip").inner_text()


def test_hovering_shows_the_numbers_of_the_table(opened: Page, report: Path) -> None:
    figure = opened.locator("figure.plot").first
    figure.scroll_into_view_if_needed()
    table = pd.read_csv(report.parent / "laptop/yang2024/fig2/curves.csv")
    rows = table[table["label"] == "least squares"]
    for place, (_, row) in enumerate(rows.iterrows()):
        if place < 2:  # at the third all curves meet
            assert hover(opened, figure, "least squares", place).split("\n") == [
                "least squares", f"step: {row['step']}", f"error: {row['mean']:.6g}",
                f"interval: {row['low']:.6g} to {row['high']:.6g}",
            ]  # fmt: skip
    opened.mouse.move(0, 0)
    assert opened.locator("#tip").is_hidden()


def test_the_keyboard_reaches_every_value(opened: Page) -> None:
    opened.locator("figure.plot svg").first.focus()
    tip = opened.locator("#tip")
    opened.keyboard.press("ArrowRight")
    assert tip.inner_text().split("\n")[:3] == ["model", "step: 1", "error: 0.5"]
    opened.keyboard.press("ArrowRight")
    assert "step: 2" in tip.inner_text()
    opened.keyboard.press("ArrowDown")
    assert tip.inner_text().startswith("</script>"), "the next curve, whose label is text"
    # Scrolled, as by the focus itself, it goes along with its point.
    before = tip.bounding_box()
    opened.evaluate(
        "new Promise(end => { addEventListener('scroll', end, { once: true }); scrollBy(0, 40); })"
    )
    after = tip.bounding_box()
    assert before is not None
    assert after is not None
    assert before["y"] - after["y"] == pytest.approx(40, abs=1)
    opened.keyboard.press("Escape")
    assert tip.is_hidden()


def test_an_entry_of_the_legend_hides_its_curve_and_shows_it_again(opened: Page) -> None:
    first, second = opened.locator("figure.plot").all()
    entry = first.get_by_role("button", name="show model")
    curve, band = first.locator('[data-series="0"]').all()
    entry.click()
    assert curve.is_hidden()
    assert band.is_hidden()
    assert entry.get_attribute("aria-pressed") == "false"
    assert first.locator('[data-series="1"]').first.is_visible()
    assert second.locator('[data-series="0"]').first.is_visible(), "the other figure's stays"
    entry.press("Enter")
    assert curve.is_visible()


def test_filters_hide_what_is_of_another_verdict_or_paper(opened: Page) -> None:
    shown = opened.locator("#summary tbody tr:visible")
    assert shown.count() == 11
    opened.get_by_label("verdict").select_option("contradicted")
    assert shown.locator(".verdict").all_inner_texts() == ["✗ contradicted"] * 2
    assert opened.locator(".filters output").inner_text() == "2 of 11 claims"
    assert opened.locator("#yang2024-fig2").is_visible()
    assert opened.locator("#mine-fig9").is_hidden(), "it has none such"
    assert opened.locator('nav a[href="#mine-fig9"]').is_hidden()
    opened.get_by_label("paper").select_option("chen2025")
    assert shown.count() == 1
    assert opened.locator("#yang2024-fig2").is_hidden()
    for name in ("verdict", "paper"):
        opened.get_by_label(name).select_option("")
    assert shown.count() == 11


def test_the_contents_lead_to_every_study(opened: Page) -> None:
    links = opened.locator("nav a")
    assert links.count() == 7
    for link in links.all():
        link.click()
        target = opened.locator(link.get_attribute("href") or "")
        assert target.evaluate("it => it.matches(':target')")
        assert target.evaluate("it => it.getBoundingClientRect().top < innerHeight")


def test_a_study_of_somebody_else_shows_its_picture(opened: Page) -> None:
    picture = opened.locator("figure img")
    assert picture.count() == 1
    assert picture.evaluate("image => image.naturalWidth") > 0


def test_a_phone_scrolls_figures_and_never_the_page(opened: Page) -> None:
    opened.set_viewport_size({"width": 390, "height": 844})
    opened.reload()
    assert opened.locator("nav a").first.is_hidden(), "the contents are folded"
    width = "document.documentElement.scrollWidth"
    assert opened.evaluate(width) <= 390
    opened.get_by_label("verdict").select_option("not-at-this-size")
    assert opened.evaluate(width) <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_fault_for_those_who_read_otherwise(
    opened: Page, scheme: Literal["light", "dark"]
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    opened.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    ground = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 23, 26)"}[scheme]
    opened.locator("details").evaluate_all("all => all.forEach((one) => (one.open = true))")
    opened.locator("figure.plot svg").first.focus()
    opened.keyboard.press("ArrowRight")  # the values are judged too
    found = axe.Axe().run(opened).response["violations"]
    assert [
        (fault["id"], [node["html"][:200] for node in fault["nodes"]])
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ] == []
