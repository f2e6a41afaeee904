"""A study's page, and all of them on one."""

import base64
import math
import re
from itertools import pairwise
from pathlib import Path

import pytest

from innerloop.analysis.intervals import Estimate
from innerloop.report import words
from innerloop.report.joined import choose, joined_page
from innerloop.report.page import render_page
from innerloop.report.study_page import ROWS, study_page, write_study_page
from innerloop.studies.claim import judge
from innerloop.studies.result import read_results
from tests.report.made import a_result, a_study
from tests.report.test_page import Balanced


def estimated(value: float, low: float, high: float, seeds: tuple[float, ...] = ()) -> Estimate:
    return Estimate(value=value, low=low, high=high, seeds=seeds)


def parsed(text: str) -> Balanced:
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert text.count("<script") == 1 + text.count("<svg"), "its own, and values of figures"
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in parser.links)
    return parser


def test_a_study_has_a_page_that_needs_nothing_else(tmp_path: Path) -> None:
    result = a_result(tmp_path)
    path = write_study_page(result)
    assert path == result.folder / "index.html"
    text = path.read_text("utf-8")
    parser = parsed(text)
    (picture,) = [link for link in parser.links if link.startswith("data:")]
    assert base64.b64decode(picture.partition(",")[2]) == result.figure.read_bytes()
    assert re.search(r'<img [^>]*alt="What fig2 \| says: fig2 of yang2024', text)
    assert "innerloop reproduce yang2024/fig2 --scale laptop" in text
    assert "Five_dimensions, not 20." in text
    assert "Worth &lt;knowing&gt;." in text
    assert all(name in text for name in ("torch", "numpy", "3 seconds of measuring"))


def test_verdicts_are_told_by_word_and_colour_with_their_reasons(tmp_path: Path) -> None:
    text = render_page(study_page(a_result(tmp_path)))
    found = re.findall(r'class="verdict ([a-z-]+)">(.) ([a-z ]+)<', text)
    assert found == [
        ("confirmed", "✓", "confirmed"),
        ("contradicted", "✗", "contradicted"),
        ("inconclusive", "?", "inconclusive"),
        *[("not-at-this-size", "○", "not at this size")] * 2,
    ]
    for reason in (
        "reaches across the criterion",
        "its premise is not met",
        "cannot be measured at this size",
    ):
        assert text.count(reason) == 1
    for kind, _, _ in found:
        assert re.search(rf"\.{kind}\b[^{{]*{{ color:", text)
    assert text.count("ten &lt;is&gt; a | round number") == 5
    assert "1/12" in text


def test_controls_are_shown_with_what_became_of_them(tmp_path: Path) -> None:
    text = render_page(study_page(a_result(tmp_path)))
    row = text[text.index("Controls") : text.index("How it was done")]
    assert "a &lt;null&gt;" in row
    assert "20.5 (20.5 to 20.5)" in row
    assert "fails, as it should" in row


def test_tables_show_their_first_rows_and_say_where_the_rest_is(tmp_path: Path) -> None:
    text = render_page(study_page(a_result(tmp_path)))
    assert f"by-step.csv (first {ROWS} of 40 rows)" in text
    assert text.count("a*b*") == ROWS
    assert "sizes.csv (1 row)" in text
    assert '<td class="number">-</td>' in text, "no number is a dash"


def test_the_joined_page_links_every_claim_to_its_study(tmp_path: Path) -> None:
    for paper, id in (("chen2025", "thm4.2"), ("yang2024", "fig3"), ("mine", "fig1")):
        a_result(tmp_path, a_study(paper, id))
    chosen = choose(read_results(tmp_path)[0])
    assert [result.name for result in chosen] == ["yang2024/fig3", "chen2025/thm4.2", "mine/fig1"]
    text = render_page(joined_page(chosen))
    links = [link[1:] for link in parsed(text).links if link.startswith("#")]
    contents, claims = links[:7], links[7:]
    assert contents == [
        "summary", "yang2024", "yang2024-fig3", "chen2025", "chen2025-thm4.2", "mine", "mine-fig1",
    ]  # fmt: skip
    assert claims == ["yang2024-fig3"] * 5 + ["chen2025-thm4.2"] * 5 + ["mine-fig1"] * 5
    for link in links:
        assert text.count(f'id="{link}"') == 1
    # The table has studies of the first two names, which are others.
    assert "3 studies, 15 claims. Exact: 1 confirmed. Trained: 1 contradicted, 1 inconc" in text
    assert "Out of date: 10 claims" in text
    headings = [int(level) for level in re.findall(r"<h(\d)>", text)]
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))


def test_the_largest_scale_is_chosen_unless_one_is_asked_for(tmp_path: Path) -> None:
    for scale in ("smoke", "laptop"):
        a_result(tmp_path, scale=scale)
    a_result(tmp_path, a_study(id="fig3"), scale="smoke")
    found, _ = read_results(tmp_path)
    assert [(r.id, r.scale) for r in choose(found)] == [("fig2", "laptop"), ("fig3", "smoke")]
    assert [(r.id, r.scale) for r in choose(found, "smoke")] == [
        ("fig2", "smoke"),
        ("fig3", "smoke"),
    ]
    assert choose(found, "paper") == []


def test_a_result_without_its_files_is_not_complete(tmp_path: Path) -> None:
    result = a_result(tmp_path)
    (result.folder / "sizes.csv").unlink()
    found, refused = read_results(tmp_path)
    assert found == []
    assert len(refused) == 1
    assert "lacks some of its files" in refused[0]


def test_a_study_that_has_changed_since_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = a_study(also=("fig7",))
    result = a_result(tmp_path, study)
    monkeypatch.setattr(words, "STUDIES", (study,))
    assert not words.changed_since(result)
    assert "out of date" not in render_page(study_page(result))
    assert words.figures(result) == "fig2, fig7"
    other = a_study()
    object.__setattr__(other, "claims", study.claims[:1])
    monkeypatch.setattr(words, "STUDIES", (other,))
    assert words.changed_since(result)
    assert "has changed since this was measured" in render_page(study_page(result))


def test_numbers_and_times_in_words() -> None:
    claim = a_study().claims[1].statement
    several = judge(claim, estimated(20.0, 19.0, 21.0, (20.0, 20.0)), "laptop")
    assert words.by_seed(several) == "by seed: 20, 20"
    narrow = judge(claim, estimated(1.00004, 1.00003, 1.00005), "laptop")
    assert words.measured(narrow) == "1.00004 (1.00003 to 1.00005)"
    missing = judge(claim, estimated(math.nan, math.nan, math.nan), "laptop")
    assert (words.measured(missing), words.why(missing)) == (
        "no number", "it cannot be measured at this size",
    )  # fmt: skip
    # Of a criterion of at most 10: none of the interval meets it, and one can read that.
    missed = judge(claim, estimated(10.1, 10.004, 10.2), "laptop")
    assert words.measured(missed) == "10.1 (10.004 to 10.2)"
    times = [words.duration(seconds) for seconds in (0.2, 12, 600, 3.5 * 3600, 50.1 * 3600)]
    assert times == ["a moment", "12 seconds", "10 minutes", "3 hours and 30 minutes", "50 hours"]
    assert (words.count(1, "study"), words.count(3, "study")) == ("1 study", "3 studies")
    assert words.count(51_969, "parameter") == "51,969 parameters"
