"""The scripts of the page in a real browser, against the library: the same predictions.

Shapes, beside those of a prompt: T tokens of the examples, K steps, h heads.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

import innerloop.explore
from innerloop.analysis.similarity import prediction_differences
from innerloop.circuits import compile
from innerloop.core.errors import NotSupportedError
from innerloop.core.iterate import trajectory
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import CONTRACT, REFERENCE
from innerloop.explore import sheet
from innerloop.learners import OLS, GradientDescent, Newton, Ridge
from innerloop.models import LSTM, InContextTransformer, LSTMConfig, TransformerConfig
from innerloop.models.block import Block
from innerloop.models.hidden import Hidden, Visible

ASSETS = Path(str(innerloop.explore.__file__)).parent / "assets"
POINTS = 31
QUERIES = 5
EXAMPLES = (0, 1, 2, 3, 5, 12, 30)
"""How many a prompt has; prompts with equally many are one batch in Python."""
SCALES = (0.1, 0.1, 1.0, 1.0, 1.0, 3.0, 3.0, 10.0)
"""Of the inputs of each prompt of a batch."""
COLLINEAR = slice(4, 6)
"""Which of these lie on a line."""

TOY = {"width": 12, "heads": 2, "hidden": 20}
LOOP = {**TOY, "kind": "loop", "loops": 3}
STACK = {**TOY, "kind": "stack"}
MODELS: dict[str, dict[str, Any]] = {
    "loop": {"backbone": {**LOOP, "layers": 2}},
    "loop, no injection": {"backbone": {**LOOP, "inject": "none"}},
    "loop, multiplied": {"backbone": {**LOOP, "inject": "multiply"}},
    "loop, norm outside": {"backbone": {**LOOP, "norm_inside": False}},
    "loop, no final norm": {"backbone": {**LOOP, "final_norm": False}},
    "AlgoFormer": {"backbone": {**LOOP, "pre": 1, "post": 1}},
    "AlgoFormer, no injection": {"backbone": {**LOOP, "pre": 1, "post": 1, "inject": "none"}},
    "stack": {"backbone": {**STACK, "layers": 3}},
    "stack, two layers per step": {"backbone": {**STACK, "layers": 4, "layers_per_step": 2}},
    "stack between blocks": {
        "backbone": {**STACK, "layers": 2, "pre": 1, "post": 1, "final_norm": False}
    },
    "sizes": {
        "backbone": {
            **LOOP, "layers": 2,
            "sizes": [
                {"heads": 3, "head_size": 1, "hidden": 0},
                {"heads": 1, "head_size": 7, "hidden": 3},
            ],
        }
    },
    "ReLU attention": {"backbone": {**LOOP, "attention": "relu"}},
    "linear attention": {"backbone": {**LOOP, "attention": "linear", "divisor": 9.0}},
    "score scale": {"backbone": {**LOOP, "score_scale": 1.5}},
    "tanh GELU": {"backbone": {**LOOP, "activation": "gelu-tanh"}},
    "ReLU": {"backbone": {**LOOP, "activation": "relu"}},
    "norm of the MLP": {"backbone": {**LOOP, "norm": "mlp-only"}},
    "RMSNorm": {"backbone": {**LOOP, "norm": "rms"}},
    "no norm": {"backbone": {**LOOP, "layers": 1, "norm": "none"}},
    "no biases": {"backbone": {**LOOP, "biases": False}},
    "no positions": {"positions": False, "backbone": LOOP},
    "y of its own": {"output_place": "own", "backbone": LOOP},
    "start token": {"start_token": True, "backbone": {**STACK, "layers": 2}},
}  # fmt: skip

LEARNERS: dict[str, Learner[Any]] = {
    "new GradientDescent()": GradientDescent(steps=20),
    # So many that rounding outside the span of collinear inputs would have doubled past 1.
    "new Newton()": Newton(steps=180),
    "new Ridge(0.5)": Ridge(penalty=0.5),
    "new Ridge(0)": Ridge(penalty=0),
    "new LeastSquares()": OLS(),
}
"""By the expression that makes it in the page."""

CIRCUITS = {
    # Starts that converge for 40 examples with inputs from -3 to 3.
    "newton-relu": lambda dims: {"steps": 12, "start": (360 * dims) ** -2},
    "linear-attention": lambda dims: {"steps": 12, "step_size": 1 / (360 * dims)},
    "causal-gradient-descent": lambda dims: {"steps": 4},
}


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    """A blank page with the scripts."""
    blank = browser.new_page()
    for name in ("transformer.js", "learners.js"):
        blank.add_script_tag(content=(ASSETS / name).read_text("utf-8"))
    yield blank
    blank.close()


def draw(dims: int, *, most: int = 30, largest: float = torch.inf) -> list[Prompt]:
    """A batch of prompts of every number of examples, 56 in all: of several sizes, some collinear.

    The queries are asked after the last example; the last x and y are 0.
    """
    generator = torch.Generator().manual_seed(dims)
    batch = len(SCALES)
    scales = torch.tensor(SCALES, dtype=torch.float64)[:, None, None]  # (B, 1, 1)
    prompts: list[Prompt] = []
    for number in [number for number in EXAMPLES if number <= most]:
        shape = (batch, number + 1, dims)
        xs = scales * torch.randn(shape, generator=generator, dtype=torch.float64)  # (B, n, d)
        line = torch.tensor([1.0, -0.7], dtype=torch.float64)[:dims]  # (d,)
        xs[COLLINEAR] = xs[COLLINEAR, :, :1] * line
        ys = torch.randn(batch, number + 1, 1, generator=generator, dtype=torch.float64)
        asked = torch.randn(batch, 1, QUERIES, dims, generator=generator, dtype=torch.float64)
        for values in (xs, asked):
            values *= (largest / values.norm(dim=-1, keepdim=True)).clamp(max=1)
        xs[:, -1], ys[:, -1] = 0, 0
        prompts.append(Prompt(xs=xs, ys=ys, queries=asked))
    return prompts


def as_problem(prompt: Prompt, b: int) -> dict[str, Any]:
    """One of the prompts as JSON."""
    assert prompt.queries is not None
    parts = {"xs": prompt.xs[b, :-1], "ys": prompt.ys[b, :-1], "queries": prompt.queries[b]}
    return {"dims": prompt.dims} | {name: part.flatten().tolist() for name, part in parts.items()}


PROBLEM = """({ dims, xs, ys, queries }) => ({
  dims, xs: Float64Array.from(xs), ys: Float64Array.from(ys), queries: Float64Array.from(queries) })
"""
RUN = f"""([sheet, problems, steps]) => {{
  const learner = LEARNER;
  return problems.map({PROBLEM}).map((problem) => {{
    const start = learner.init(problem), answers = [];
    for (let k = 0, state = start; k <= steps; state = learner.step(state, k), k++)
      answers.push(...learner.read(state));
    if (learner.read(start).some((value, i) => value !== answers[i])) throw Error("state changed");
    return answers.join();
  }});
}}"""


def in_page(
    page: Any, learner: str, prompts: list[Prompt], steps: int, made: Any = None
) -> list[Tensor]:
    """What a learner in the page predicts before the first step and after each: (K + 1, B, q)."""
    problems = [as_problem(prompt, b) for prompt in prompts for b in range(prompt.batch)]
    found = page.evaluate(RUN.replace("LEARNER", learner), [made, problems, steps])
    # As text, which is as exact as numbers and ten times as quick to send.
    rows = [[float(number) for number in answers.split(",")] for answers in found]
    answers = torch.tensor(rows, dtype=torch.float64).unflatten(1, (steps + 1, -1))  # (P, K + 1, q)
    parts = answers.transpose(0, 1).split([prompt.batch for prompt in prompts], dim=1)
    return list(parts)


def in_python(learner: Learner[Any], prompt: Prompt, steps: int) -> Tensor:
    """The same in Python: (K + 1, B, q)."""
    return trajectory(learner, prompt, steps=steps).predictions.double()[:, :, 0, :, 0]


def apart(one: Tensor, other: Tensor) -> float:
    """The largest difference of predictions (K + 1, B, q), over the size of the second's."""
    size = other.abs().amax(dim=-1, keepdim=True).clamp(min=1)  # (K + 1, B, 1)
    return float(((one - other).abs() / size).max())


def make(dims: int, settings: dict[str, Any]) -> InContextTransformer:
    """A model with random weights, also where training starts at 0 or 1."""
    config = TransformerConfig.model_validate({"dims": dims, "points": POINTS, **settings})
    generator = torch.Generator().manual_seed(1)
    model = InContextTransformer(config, generator=generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model


def as_json(model: Any) -> dict[str, Any]:
    return json.loads(json.dumps(sheet(model, name="it", title="It"), allow_nan=False))


@pytest.mark.parametrize("kind", MODELS)
def test_models_predict_what_python_predicts(page: Any, kind: str) -> None:
    for dims in (1, 2):
        model = make(dims, MODELS[kind])
        made, steps = as_json(model), model.steps + 2
        prompts = draw(dims)
        found = in_page(page, "new Transformer(sheet)", prompts, steps, made)
        for dtype in (torch.float32, torch.float64):
            model.to(dtype)
            for prompt, answers in zip(prompts, found, strict=True):
                assert apart(answers, in_python(model, prompt, steps)) < CONTRACT[dtype]


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits_predict_what_python_predicts(page: Any, name: str, dims: int) -> None:
    circuit = compile(name, dims=dims, points=13, **CIRCUITS[name](dims))
    made = as_json(circuit)
    prompts = draw(dims, most=12, largest=3.0)
    found = in_page(page, "new Transformer(sheet)", prompts, 15, made)
    for prompt, answers in zip(prompts, found, strict=True):
        assert apart(answers, in_python(circuit, prompt, 15)) < REFERENCE


def test_gradient_descent_goes_at_a_pace(page: Any) -> None:
    whole = draw(2)[-1]
    assert whole.queries is not None
    prompt = Prompt(xs=whole.xs[1:2], ys=whole.ys[1:2], queries=whole.queries[1:2])
    largest = float(torch.linalg.matrix_norm(prompt.xs[0, :-1], 2)) ** 2
    (found,) = in_page(page, "new GradientDescent(0.3)", [prompt], 20)
    learner = GradientDescent(steps=20, step_size=0.3 / largest)
    assert apart(found, in_python(learner, prompt, 20)) < REFERENCE


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("learner", LEARNERS)
def test_learners_predict_what_python_predicts(page: Any, learner: str, dims: int) -> None:
    same = LEARNERS[learner]
    prompts = draw(dims)
    found = in_page(page, learner, prompts, same.steps + 1)
    for prompt, answers in zip(prompts, found, strict=True):
        assert apart(answers, in_python(same, prompt, same.steps + 1)) < REFERENCE


def test_least_squares_of_nearly_collinear_inputs(page: Any) -> None:
    drawn = draw(2)[-1]
    xs = drawn.xs.clone()  # (B, n, 2)
    xs[..., 1] = xs[..., 0] + 1e-5 * xs[..., 1]
    prompt = Prompt(xs=xs, ys=drawn.ys, queries=drawn.queries)
    (answers,) = in_page(page, "new LeastSquares()", [prompt], 0)
    assert apart(answers, in_python(OLS(), prompt, 0)) < REFERENCE


def test_distances_are_those_of_the_analysis(page: Any) -> None:
    one, other = torch.randn(2, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = page.evaluate("([one, other]) => spd(one, other)", [one.tolist(), other.tolist()])
    expected = prediction_differences(one[None, None, :, None], other[None, None, :, None])
    assert found == pytest.approx(float(expected), rel=REFERENCE)


ATTENTION = f"""([sheet, given, k]) => {{
  const model = new Transformer(sheet), problem = ({PROBLEM})(given);
  let state = model.init(problem);
  for (let i = 0; i < k; i++) state = model.step(state, i);
  return model.attention(state, k).map(({{ heads, tokens, among, asked }}) => (
    {{ heads, tokens, among: Array.from(among), asked: Array.from(asked) }}));
}}"""


def patterns(model: InContextTransformer, prompt: Prompt, k: int) -> list[Tensor]:
    """What the blocks of step k look at, (h, T + 1, T + 1) each; the last token is the question."""
    state = model.init(prompt)
    for i in range(k):
        state = model.step(prompt, state, i)
    hidden, found = state.entering(), []
    for module in list(model.backbone.blocks)[model.config.backbone.blocks_of_step(k)]:
        block = cast(Block, module)
        found.append(block.attention.pattern(block.attention_norm(hidden.tokens))[0])
        hidden = block(Hidden(hidden.tokens), Visible())
    return found


SHOWN = {
    "loop": lambda: make(1, MODELS["loop"]),
    "ReLU attention": lambda: make(2, MODELS["ReLU attention"]),
    "start token": lambda: make(2, MODELS["start token"]),
    "full attention": lambda: compile("newton-relu", dims=1, points=13, steps=4, start=1e-4),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_attention_is_the_pattern_of_python(page: Any, kind: str) -> None:
    model = SHOWN[kind]().double()
    prompt = draw(model.config.dims)[4].select(slice(2, 3))
    asked = prompt.asked[:, 0]  # (1, q, d)
    found = page.evaluate(ATTENTION, [as_json(model), as_problem(prompt, 0), 1])
    for i in range(QUERIES):
        xs = torch.cat([prompt.xs[:, :-1], asked[:, i : i + 1]], dim=1)  # (1, n, d)
        expected = patterns(model, Prompt(xs=xs, ys=prompt.ys), 1)
        assert len(found) == len(expected) > 0
        for one, pattern in zip(found, expected, strict=True):
            heads, tokens = one["heads"], one["tokens"]
            among = torch.tensor(one["among"]).reshape(heads, tokens, tokens)  # (h, T, T)
            rows = torch.tensor(one["asked"]).reshape(heads, QUERIES, tokens + 1)  # (h, q, T + 1)
            torch.testing.assert_close(among.double(), pattern[:, :-1, :-1], rtol=0, atol=1e-6)
            torch.testing.assert_close(rows[:, i].double(), pattern[:, -1], rtol=0, atol=1e-6)


def test_a_problem_that_does_not_fit_is_refused(page: Any) -> None:
    """Too many examples for the positions, or an input beyond what a circuit was made for."""
    model = make(1, {"points": 3, "backbone": LOOP})
    circuit = compile("causal-gradient-descent", dims=1, points=3, steps=1, largest_input=2.0)
    fits = f"([sheet, given]) => new Transformer(sheet).fits(({PROBLEM})(given))"
    problem = {"dims": 1, "xs": [1.0, -1.0], "ys": [0.5, 0.5], "queries": [0.1]}
    more = {**problem, "xs": [1.0, 2.0, 3.0], "ys": [1.0, 1.0, 1.0]}
    large, asked = {**problem, "xs": [1.0, -2.5]}, {**problem, "queries": [2.5]}
    for made, given, expected in (
        (model, problem, True), (model, more, False), (model, large, True),
        (circuit, problem, True), (circuit, large, False), (circuit, asked, False),
    ):  # fmt: skip
        assert page.evaluate(fits, [as_json(made), given]) is expected
    playwright = pytest.importorskip("playwright.sync_api")
    with pytest.raises(playwright.Error, match="was not made for this problem"):
        page.evaluate(
            f"([sheet, given]) => {{ new Transformer(sheet).init(({PROBLEM})(given)) }}",
            [as_json(model), more],
        )


def test_the_exact_gelu_has_small_errors_everywhere(page: Any) -> None:
    """Through an MLP of one unit, from far below 0 to far above, beside torch's."""
    model = make(1, {"positions": False, "backbone": {
        "kind": "stack", "layers": 1, "width": 1, "heads": 1, "hidden": 1, "norm": "none",
        "final_norm": False,
    }}).double()  # fmt: skip
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(0.0 if "bias" in name or "attention" in name else 1.0)
    asked = torch.linspace(-12, 12, 4001, dtype=torch.float64)[None, None, :, None]  # (1, 1, q, 1)
    zeros = torch.zeros(1, 1, 1, dtype=torch.float64)
    prompt = Prompt(xs=zeros, ys=zeros, queries=asked)
    (found,) = in_page(page, "new Transformer(sheet)", [prompt], 1, as_json(model))
    answers = found[1, 0]  # (q,)
    expected = asked.flatten() + torch.nn.functional.gelu(asked.flatten())  # (q,)
    assert float((answers - expected).abs().max()) < 1e-12  # 1e-13 beside numbers up to 24


def test_a_sheet_says_what_a_page_needs() -> None:
    model = make(2, MODELS["AlgoFormer"])
    made = sheet(model, name="algo", title="AlgoFormer", about="Of blocks.", untrained=True)
    for key, value in {
        "name": "algo", "title": "AlgoFormer", "about": "Of blocks.", "trained": False,
        "dims": 2, "looped": True, "steps": 3, "points": POINTS,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }.items():  # fmt: skip
        assert made[key] == value
    assert {each["type"] for each in made["tensors"].values()} == {"float32"}
    circuit = sheet(compile("newton-relu", dims=1), name="newton", title="Newton")
    assert {each["type"] for each in circuit["tensors"].values()} == {"float64"}
    assert not circuit["trained"]  # it was derived


SMALL = {"backbone": {**LOOP, "layers": 1}}
REFUSED = {
    "no transformer": (lambda: LSTM(LSTMConfig(dims=1)), "LSTM"),
    "no model": (lambda: OLS(), "OLS"),
    "linear-looped": (lambda: compile("linear-looped", dims=1), "linear-looped"),
    "dims": (lambda: make(3, SMALL), "has dims 3"),
    "outputs": (lambda: make(1, {**SMALL, "outputs": 2}), "has outputs 2"),
    "stream": (lambda: make(1, {**SMALL, "layout": "stream"}), "has layout 'stream'"),
    "labels": (lambda: make(1, {**SMALL, "head": "binary"}), "has head 'binary'"),
    "full attention": (
        lambda: make(1, {"backbone": {**LOOP, "mask": "full"}}), "see the question",
    ),
    "full ReLU attention": (
        lambda: make(1, {"backbone": {**LOOP, "mask": "full", "attention": "relu"}}),
        "see the question",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_models_that_cannot_be_shown_are_refused(kind: str) -> None:
    make_model, words = REFUSED[kind]
    with pytest.raises(NotSupportedError, match=words) as caught:
        sheet(make_model(), name="it", title="It")
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_weights_that_are_not_finite_are_refused() -> None:
    model = make(1, SMALL)
    with torch.no_grad():
        model.readout.bias.fill_(torch.nan)
    with pytest.raises(NotSupportedError, match="not finite"):
        sheet(model, name="it", title="It")
