"""The page as people use it, in a real browser, from a file."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest
import torch

from innerloop.core.iterate import iterate
from innerloop.core.prompt import Prompt
from innerloop.explore.gallery import gallery
from innerloop.explore.page import explore_page, write_explore_page
from innerloop.models.pretrained import pretrained

LARGEST_FILE = 3_000_000


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with all models that come with it."""
    return write_explore_page(gallery(), tmp_path_factory.mktemp("page"))


class Visitor:
    """A person in front of the page."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page, self.path = page, path
        self.complaints: list[str] = []
        self.asked_for: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.asked_for.append(request.url))

    def open(self, fragment: str = "") -> "Visitor":
        # A fragment alone would not load the page again.
        self.page.goto("about:blank")
        self.page.goto(f"{self.path.as_uri()}{fragment}")
        self.settle()
        return self

    def settle(self) -> None:
        """Wait until all is computed, drawn, and in the link."""
        self.page.wait_for_selector("body[data-settled=true]")

    def state(self) -> dict[str, str]:
        """What the link to the page holds."""
        self.settle()
        fragment = self.page.evaluate("location.hash.slice(1)")
        return {key: value[0] for key, value in parse_qs(fragment).items()}

    def examples(self) -> np.ndarray:
        """The examples (n, d + 1) of the page."""
        return np.array([row.split(",") for row in self.state()["e"].split(";")], dtype=float)

    def curve(self, panel: int = 0) -> np.ndarray:
        """The y of the drawn curve of a model, read off its pixels."""
        path = self.page.locator(".panel").nth(panel).locator("path.model").get_attribute("d")
        pixels = np.array(re.findall(r"[ML]([\d.-]+) ([\d.-]+)", path), dtype=float)
        bottom, top, span = 300.0, 8.0, 5.0
        return -span + (bottom - pixels[:, 1]) / (bottom - top) * 2 * span

    def mark(self, text: str) -> None:
        self.page.get_by_role("button", name=text, exact=True).click()

    def wait(self, condition: str, argument: Any = None) -> None:
        self.page.wait_for_function(condition, arg=argument)


@pytest.fixture
def visitor(browser: Any, exported: Path) -> Any:
    # Its policy would also refuse the conditions that these tests wait for.
    context = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True)
    visitor = Visitor(context.new_page(), exported)
    yield visitor
    context.close()
    # Whatever was done: no error in the console, and nothing asked for but the file itself.
    assert visitor.complaints == []
    assert {url.split("#")[0] for url in visitor.asked_for} <= {exported.as_uri(), "about:blank"}


def test_the_exported_file_is_small_and_whole(exported: Path):
    assert exported.stat().st_size < LARGEST_FILE
    text = exported.read_text("utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:,)""", text)


@pytest.mark.parametrize("loop", [0, 3, 12, 40])
@pytest.mark.parametrize("kind", ["looped", "standard"])
def test_the_drawn_curve_is_that_of_python(visitor: Visitor, kind: str, loop: int):
    visitor.open(f"#d=1&p=noise&k={loop}&m={kind}-line")
    examples = torch.tensor(visitor.examples())  # (n, 2)
    count = len(examples)
    grid = torch.linspace(-3, 3, 61).double()  # (q,)
    asked = torch.zeros(1, count + 1, 61, 1)
    asked[0, -1, :, 0] = grid
    xs = torch.cat([examples[:, :1], torch.zeros(1, 1)])[None]  # (1, n + 1, 1)
    ys = torch.cat([examples[:, 1:], torch.zeros(1, 1)])[None]  # (1, n + 1, 1)
    model = pretrained(f"{kind}-line")
    steps = loop if kind == "looped" else min(loop, model.steps)
    prompt = Prompt(xs=xs.float(), ys=ys.float(), queries=asked)
    with torch.no_grad():
        state = list(iterate(model, prompt, steps=steps))[-1]
        expected = model.read(prompt, state)[0, -1, :, 0].clamp(-170, 170)  # (q,)
    # A tenth of a pixel is 0.0034.
    assert np.abs(visitor.curve() - expected.double().numpy()).max() < 0.004


def test_an_example_is_dragged(visitor: Visitor):
    visitor.open("#d=1&k=12")
    before, drawn = visitor.examples(), visitor.curve()
    box = visitor.page.locator("circle.point").nth(3).bounding_box()
    at = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    visitor.page.mouse.move(*at)
    visitor.page.mouse.down()
    visitor.page.mouse.move(at[0] + 40, at[1] - 60, steps=4)
    visitor.page.mouse.up()
    after = visitor.examples()
    assert (np.delete(after, 3, 0) == np.delete(before, 3, 0)).all()
    assert after[3][0] > before[3][0] + 0.2
    assert after[3][1] > before[3][1] + 0.2
    assert np.abs(visitor.curve() - drawn).max() > 0.02


def test_a_drag_beyond_the_frame_stays_in_it(visitor: Visitor):
    visitor.open("#d=1&k=4")
    box = visitor.page.locator("circle.point").first.bounding_box()
    visitor.page.mouse.move(box["x"] + 5, box["y"] + 5)
    visitor.page.mouse.down()
    visitor.page.mouse.move(1, 1)
    visitor.page.mouse.up()
    assert visitor.examples()[0].tolist() == [-3.0, 5.0]


def test_examples_are_moved_added_and_removed_by_keys(visitor: Visitor):
    visitor.open("#d=1&k=4")
    before = visitor.examples()
    visitor.page.locator("circle.point.marked").first.focus()
    keyboard = visitor.page.keyboard
    keyboard.press("ArrowRight")
    keyboard.press("Shift+ArrowUp")
    assert np.allclose(visitor.examples()[0], before[0] + [0.1, 0.5])
    keyboard.press("n")
    keyboard.press("ArrowLeft")
    assert np.allclose(visitor.examples()[1], before[1] - [0.1, 0])
    keyboard.press("a")
    assert len(visitor.examples()) == len(before) + 1
    keyboard.press("Delete")
    keyboard.press("Delete")
    assert len(visitor.examples()) == len(before) - 1
    focused = visitor.page.evaluate("document.activeElement.getAttribute('class')")
    assert focused == "point marked"


def test_all_examples_can_be_removed(visitor: Visitor):
    visitor.open("#d=1&k=4&e=1,1;2,2")
    for _ in range(2):
        visitor.mark("Remove the marked one")
    visitor.wait("document.querySelectorAll('circle.point').length === 0")
    assert np.isfinite(visitor.curve()).all()
    assert visitor.page.get_by_role("button", name="Remove the marked one").is_disabled()


def test_a_double_click_adds_an_example(visitor: Visitor):
    visitor.open("#d=1&k=4")
    count = len(visitor.examples())
    visitor.page.locator(".plot svg").first.dblclick(position={"x": 100, "y": 60})
    visitor.wait("count => document.querySelectorAll('.panel:first-child circle').length > count",
                 count)  # fmt: skip
    assert len(visitor.examples()) == count + 1


def test_the_slider_says_what_is_beyond_training(visitor: Visitor):
    visitor.open("#d=1&k=12")
    now = visitor.page.locator("#now")
    assert now.inner_text() == "loop 12 of 12 trained"
    visitor.page.locator("#loop").focus()
    visitor.page.keyboard.press("ArrowRight")
    visitor.wait("document.getElementById('now').textContent.startsWith('loop 13')")
    assert now.inner_text() == "loop 13, beyond the 12 of training"
    assert visitor.state()["k"] == "13"


def test_play_goes_on_and_pauses(visitor: Visitor):
    visitor.open("#d=1&k=0")
    visitor.mark("Play")
    visitor.wait("Number(document.getElementById('loop').value) >= 3")
    visitor.mark("Pause")
    paused = visitor.page.locator("#loop").input_value()
    assert visitor.page.locator("#play").inner_text() == "Play"
    # Two more frames would show another loop if it went on.
    visitor.page.evaluate("new Promise(done => requestAnimationFrame(() => "
                          "requestAnimationFrame(done)))")  # fmt: skip
    assert visitor.page.locator("#loop").input_value() == paused


@pytest.mark.slow
@pytest.mark.parametrize(("motion", "between"), [("reduce", False), ("no-preference", True)])
def test_reduced_motion_shows_whole_loops_only(visitor: Visitor, motion: str, between: bool):
    visitor.page.emulate_media(reduced_motion=motion)
    visitor.open("#d=1&k=0&p=noise")
    whole = set()
    for loop in range(1, 4):
        visitor.open(f"#d=1&k={loop}&p=noise")
        whole.add(visitor.page.locator("path.model").first.get_attribute("d"))
    visitor.open("#d=1&k=1&p=noise")
    seen = visitor.page.evaluate("""() => new Promise(done => {
        const seen = new Set(), line = document.querySelector("path.model");
        const look = () => {
            const loop = Number(document.getElementById("loop").value);
            if (loop >= 3) return done([...seen]);
            seen.add(line.getAttribute("d"));
            requestAnimationFrame(look);
        };
        document.getElementById("play").click();
        requestAnimationFrame(look);
    })""")
    assert (set(seen) <= whole) is not between


@pytest.mark.slow
def test_every_preset_has_its_text_and_its_examples(visitor: Visitor):
    for dims in (1, 2):
        visitor.open(f"#d={dims}&k=6")
        seen = set()
        for button in visitor.page.locator("#presets button").all():
            name = button.inner_text()
            visitor.mark(name)
            visitor.wait("name => document.querySelector('#presets [aria-pressed=true]')"
                         ".textContent === name", name)  # fmt: skip
            seen.add((visitor.page.locator("#lesson").inner_text(), visitor.state()["p"]))
            assert visitor.examples().shape[1] == dims + 1
        assert len(seen) == 7


def test_a_link_brings_everything_back(visitor: Visitor):
    fragment = (
        "#d=2&p=outlier&k=17&m=looped-plane,untrained-plane,newton-plane&s=newton,least&r=least"
        "&o=newton:3&e=1,2,3;-1,0.5,-2"
    )
    visitor.open(fragment)
    state = visitor.state()
    assert state["e"] == "1,2,3;-1,0.5,-2"
    assert (state["d"], state["k"], state["p"]) == ("2", "17", "outlier")
    assert state["m"] == "looped-plane,untrained-plane,newton-plane"
    assert (state["s"], state["r"], state["o"]) == ("newton,least", "least", "newton:3")
    titles = [panel.get_attribute("aria-label") for panel in visitor.page.locator(".panel").all()]
    assert titles == ["Looped", "Untrained", "Newton, compiled"]


@pytest.mark.parametrize(
    "fragment",
    [
        "#d=7&k=-3&m=nothing&p=<b>",
        "#d=1&k=1e99&e=1,2,3;x,y",
        "#d=2&e=" + "1,1,1;" * 500,
        "#%E0%A4%A",
        "#d=1&e=NaN,1;Infinity,2",
        "#d=1&o=newton:-4,descent:9999,ridge:2&s=constructor",
    ],
)
def test_a_broken_link_is_a_fresh_page(visitor: Visitor, fragment: str):
    visitor.open(fragment)
    state = visitor.state()
    assert state["d"] in ("1", "2")
    assert 0 <= int(state["k"]) <= 60
    assert "o" not in state
    assert np.isfinite(visitor.examples()).all()


def test_with_two_inputs_a_surface_is_drawn(visitor: Visitor):
    visitor.open("#d=2&k=12&m=looped-plane&s=descent,newton,ridge,least")
    colours = visitor.page.evaluate("""() => [...document.querySelectorAll("canvas")]
        .filter(one => one.closest(".plot"))
        .map(one => new Set(new Uint32Array(one.getContext("2d")
            .getImageData(0, 0, one.width, one.height).data.buffer)).size)""")
    assert len(colours) == 5  # the model and the four algorithms
    assert min(colours) > 20
    before = visitor.examples()
    visitor.page.locator("circle.point.marked").first.focus()
    visitor.page.keyboard.press("+")
    visitor.page.keyboard.press("ArrowUp")
    assert np.allclose(visitor.examples()[0], before[0] + [0, 0.1, 0.1])


def test_the_nearest_algorithm_is_named_at_every_loop(visitor: Visitor):
    visitor.open("#d=2&k=40&m=newton-plane&p=noise")
    assert "nearest to" in visitor.page.locator("#nearest").inner_text()
    cells = visitor.page.locator("#algorithms tbody tr").all_inner_texts()
    least = next(text for text in cells if "least squares" in text)
    # The compiled circuit has converged to least squares.
    assert float(least.split("\t")[-1]) < 1e-8


def test_predictions_that_overflow_are_told(visitor: Visitor):
    # The compiled Newton diverges: all examples lie at the edge.
    visitor.open("#d=1&k=40&m=newton-line&e=" + ";".join(["3,3"] * 60))
    assert "overflowed" in visitor.page.locator("#nearest").inner_text()


def test_the_height_of_an_example_reaches_as_far_as_the_plot(visitor: Visitor):
    visitor.open("#d=2&p=scaled&k=4&m=looped-plane&e=1,1,0")
    slider = visitor.page.get_by_label("Its y")
    slider.focus()
    visitor.page.keyboard.press("End")
    assert visitor.examples()[0].tolist() == [1.0, 1.0, 15.0]


@pytest.mark.parametrize("dims", [1, 2])
def test_a_phone_shows_the_page_without_scrolling_sideways(visitor: Visitor, dims: int):
    visitor.page.set_viewport_size({"width": 390, "height": 800})
    visitor.open(f"#d={dims}&k=20")
    width = visitor.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("dims", [1, 2])
def test_no_serious_faults_of_accessibility(visitor: Visitor, scheme: str, dims: int):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    visitor.page.emulate_media(color_scheme=scheme)
    visitor.open(f"#d={dims}&k=20")
    for fold in visitor.page.locator("summary").all():
        fold.click()
    found = axe.Axe().run(visitor.page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []


def test_dark_and_light_differ(visitor: Visitor):
    backgrounds = set()
    for scheme in ("light", "dark"):
        visitor.page.emulate_media(color_scheme=scheme)
        visitor.open()
        backgrounds.add(visitor.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(backgrounds) == 2


def test_titles_of_strangers_are_text(browser: Any, tmp_path: Path):
    sheets = gallery()
    sheets[0] = {**sheets[0], "title": "</script><script>document.title='x'</script>"}
    (tmp_path / "page.html").write_text(explore_page(sheets), "utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector("body[data-settled=true]")
    assert page.title() == "Watch a transformer learn in context"
    assert page.locator(".panel option").first.inner_text() == sheets[0]["title"]
    page.close()
