"""Results as pages of the documentation."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.report import headlines, markdown, words
from innerloop.report.headlines import Headline
from innerloop.report.markdown import BEGIN, END, WRITTEN, write_docs, write_summary
from innerloop.studies.measuring import TrainingTime
from innerloop.studies.result import Result
from tests.report.made import a_result, a_study


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    """Results of two studies, which are all that there are."""
    studies = (a_study("yang2024", "fig2", also=("fig7",)), a_study("chen2025", "thm4.2"))
    monkeypatch.setattr(markdown, "STUDIES", studies)
    return [a_result(tmp_path / "results", study) for study in studies]


def two_hours(results: Sequence[Result]) -> TrainingTime:
    """An hour per result by the clock, on a machine that had much else to do."""
    return TrainingTime(3600.0 * len(results), 900.0 * len(results))


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def own_names(place: str) -> set[str]:
    return {f"{place}{end}" for end in (".json", ".png", "-by-step.csv", "-sizes.csv")}


def test_pages_pictures_and_tables_are_written(two: list[Result], tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    assert write_docs(docs, two, training=two_hours) == two
    written = files(docs)
    pages = {"README.md", "yang2024.md", "chen2025.md"}
    assert set(written) == {
        *pages, WRITTEN, *own_names("yang2024/fig2"), *own_names("chen2025/thm4.2")
    }  # fmt: skip
    assert written["yang2024/fig2.png"] == two[0].figure.read_bytes()
    assert set(written[WRITTEN].decode().split()) == set(written)
    overview = written["README.md"].decode()
    assert "innerloop reproduce --all --scale laptop" in overview
    assert "training 2 hours, each run counted once" in overview
    assert "a core that does nothing else would train for 30 minutes" in overview
    assert r"Five\_dimensions, not 20." in written["yang2024.md"].decode()
    rows = written["yang2024.md"].decode().splitlines()
    (unmet,) = [row for row in rows if "its premise is not met" in row]
    assert unmet.count("the error of unlearned") == 1, "a premise is said once"
    assert any("; premise: the error of against" in row for row in rows)
    for page in pages:
        for link in re.findall(r"\]\(([^)#]+)", written[page].decode()):
            assert (docs / link).is_file(), f"{page} links to {link}"
    write_docs(docs, two, training=two_hours)
    assert files(docs) == written


def test_tables_keep_their_columns_whatever_the_words(two: list[Result], tmp_path: Path) -> None:
    write_docs(tmp_path / "docs", two)
    lines = (tmp_path / "docs" / "yang2024.md").read_text("utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + 5 + 2 + 1, "five claims and a control"
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 7 for row in rows)
    assert any("It &lt;holds&gt;." in row for row in rows)
    assert any("✗ contradicted" in row for row in rows)
    assert '<a id="fig2"></a>' in lines


EVIL = "<script>alert(1)</script> `x` [a](javascript:b) | ![c](d) & \x1b[31m\n# heading\n```"


def test_words_from_files_stay_words(tmp_path: Path) -> None:
    """In every field of a result that is text: as they are in HTML, not as Markdown or HTML."""
    result = a_result(tmp_path)
    judged = result.claims[0]
    evil = replace(
        result, paper=EVIL, title=EVIL, notes=(EVIL,), smaller=EVIL, called=EVIL, finished=EVIL,
        versions={EVIL: EVIL}, failed={0: EVIL},
        claims=(
            replace(
                judged, why=EVIL, verdict="inconclusive",
                claim=replace(
                    judged.claim, sentence=EVIL, quantity=EVIL, paper=EVIL,
                    criterion=replace(judged.claim.criterion, reason=EVIL),
                ),
            ),
        ),
    )  # fmt: skip
    docs = tmp_path / "docs"
    write_docs(docs, [evil])
    pages = [text.decode() for name, text in files(docs).items() if name.endswith(".md")]
    assert len(pages) == 2
    for page in pages:
        assert "\x1b" not in page
        # Between backticks, and in the block of commands, nothing means anything.
        prose = re.sub(r"(`{2,}) .*? \1|```sh\n.*?\n```|(?<!\\)`.*?(?<!\\)`", "", page)
        assert "<script" not in prose
        assert not re.search(r"(?<!\\)\]\(javascript", prose)
        assert prose.count("\n# ") == 0
        assert not re.search(r"^```", re.sub(r"```sh\n.*?\n```", "", page), re.MULTILINE)


def test_one_study_again_leaves_the_others(two: list[Result], tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write_docs(docs, two)
    before = files(docs)
    everything = write_docs(docs, two[1:])
    assert [result.name for result in everything] == ["yang2024/fig2", "chen2025/thm4.2"]
    assert files(docs) == before


def test_what_is_no_study_any_more_is_removed_and_nothing_else(
    two: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = tmp_path / "docs"
    write_docs(docs, two)
    (docs / "yang2024" / "mine.txt").write_text("mine")
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    note = docs / WRITTEN
    note.write_text(note.read_text() + f"../outside.txt\n{outside}\n")
    monkeypatch.setattr(markdown, "STUDIES", (a_study("yang2024", "fig2"),))
    write_docs(docs, two[:1])
    assert outside.is_file()
    assert (docs / "yang2024" / "mine.txt").is_file()
    assert not (docs / "chen2025.md").exists()
    assert not (docs / "chen2025").exists()
    assert own_names("yang2024/fig2") <= set(files(docs))


def test_a_file_of_somebody_else_is_not_written_over(two: list[Result], tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    own = tmp_path / "docs" / "README.md"
    own.write_text("mine")
    with pytest.raises(ConfigurationError, match="move it away"):
        write_docs(tmp_path / "docs", two)
    assert files(tmp_path / "docs") == {"README.md": b"mine"}


def test_the_readme_gets_headlines_and_counts_between_its_lines(
    two: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Headline("yang2024/fig2", "against", "it is against", "in few words", "the opposite")
    other = Headline("none/fig1", "a", "not here", "nothing", "-")
    monkeypatch.setattr(headlines, "HEADLINES", (one, other))
    monkeypatch.setattr(words, "STUDIES", ())  # studies of others, which nothing is known of
    docs, readme = tmp_path / "docs" / "results", tmp_path / "README.md"
    readme.write_text(f"before\n\n{BEGIN}\nold words\n{END}\n\nafter\n")
    written = write_docs(docs, two)
    write_summary(readme, written, docs)
    text = readme.read_text("utf-8")
    assert text.startswith(f"before\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\n\nafter\n")
    assert "old words" not in text
    (row,) = [line for line in text.splitlines() if "it is against" in line]
    assert "[yang2024 fig2](docs/results/yang2024.md#fig2)" in row
    assert "| in few words | the opposite | at" in row
    assert "| 20.1 (19.9 to 20.3) | 3 | 20, 20.1, 20.2 | ✗ contradicted" in row
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (tmp_path / link).is_file()
    assert "- 2 exact claims: 2 confirmed" in text
    assert "three seeds or more: 2 contradicted, 2 inconclusive" in text
    assert "- 4 claims not decided at this size" in text
    assert "out of date" not in text
    write_summary(readme, written, docs)
    assert readme.read_text("utf-8") == text


def test_results_of_other_code_are_counted_apart(two: list[Result], tmp_path: Path) -> None:
    readme, number = tmp_path / "README.md", sum(len(result.claims) for result in two)
    readme.write_text(f"{BEGIN}\n{END}\n")
    write_summary(readme, two, tmp_path / "docs")  # made by no study of these names
    text = readme.read_text("utf-8")
    assert f"- {number} claims out of date, in none of the lines above" in text
    assert "- 0 exact claims: none" in text
    assert "- 0 claims about trained models, three seeds or more: none" in text


def test_pages_of_nothing_are_not_written(
    two: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = tmp_path / "docs"
    write_docs(docs, two)
    before = files(docs)
    monkeypatch.setattr(markdown, "STUDIES", ())  # nothing that is there is of a known study
    with pytest.raises(ConfigurationError, match="no results that can be read"):
        write_docs(docs, [])
    assert files(docs) == before


def test_the_documentation_says_what_this_code_makes_of_its_results(tmp_path: Path) -> None:
    """Code that changes puts results out of date: pages and README must not count them on."""
    root = Path(__file__).parents[2]
    docs, readme = tmp_path / "docs" / "results", tmp_path / "README.md"
    shutil.copytree(root / "docs" / "results", docs)
    shutil.copy(root / "README.md", readme)
    write_summary(readme, write_docs(docs, []), docs)
    pages = sorted(docs.glob("*.md"))
    assert len(pages) > 4
    for page in [readme, *pages]:
        known = (root / page.relative_to(tmp_path)).read_text("utf-8")
        advice = "`innerloop report --docs docs/results --readme README.md` writes it"
        assert page.read_text("utf-8") == known, f"{page.name} is of other code: {advice}"


@pytest.mark.parametrize("text", ["no lines", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n"])
def test_a_readme_without_a_place_is_left_as_it_is(
    two: list[Result], tmp_path: Path, text: str
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(text)
    with pytest.raises(ConfigurationError, match="no place for a summary"):
        write_summary(readme, two, tmp_path)
    assert readme.read_text() == text
    with pytest.raises(InnerloopError, match="cannot read"):
        write_summary(tmp_path / "none.md", two, tmp_path)
