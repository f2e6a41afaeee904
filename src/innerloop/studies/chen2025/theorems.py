"""Theorems 4.2 and 4.5: the loop is gradient descent, and its error falls as exp(-T / 2 kappa)."""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import drawing
from innerloop.analysis.measured import Measured
from innerloop.core.iterate import iterate
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.learners import GradientDescent
from innerloop.models.linear_looped import LinearLoopedTransformer
from innerloop.studies.chen2025 import definition
from innerloop.studies.circuits import rows_of
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Tables, declare
from innerloop.studies.theorem_figure import draw_theorem
from innerloop.studies.theorems import Theorem, measure_theorem, theorem_claims
from innerloop.tasks import VectorGeneration

LOOPS = 200
"""T, as in the paper's figure."""

THEOREM = Theorem(
    rows=rows_of("linear-looped"),
    says="With Q = I and P = diag(I, 0) the linear looped transformer runs gradient descent: after "
    "every loop its vector is the iterate.",
    sizes=((4, 17), (4, 129)),
)
EXACTLY = at_most(
    EXACT_CIRCUIT,
    "the same sums in another order: float64 has 16 digits, and loops add up roundings",
)


@declare(
    paper="chen2025",
    id="thm4.2",
    title="A linear looped transformer runs gradient descent, exactly",
    claims=(
        *theorem_claims(THEOREM),
        Claim(
            name="any-start",
            sentence="From any q and alpha it generates alpha times the iterate of gradient "
            "descent that starts at -q / alpha.",
            quantity="worst difference after any loop / max(1, |vector|), over starts, alphas "
            "from -3 to 3, sizes and prompts",
            statistic=lambda m: m["from any start"],
            criterion=EXACTLY,
        ),
        Claim(
            name="by-definition",
            sentence="That is what the definition says, with all of Z, M, Q and P.",
            quantity="worst difference of the model from the whole matrices / max(1, |vector|)",
            statistic=lambda m: m["from the definition"],
            criterion=EXACTLY,
        ),
    ),
    draw=draw_theorem,
    minutes={"smoke": 0.05, "laptop": 0.1, "paper": 0.1},
    smaller={"smoke": "Two sizes instead of fourteen, prompts of one seed instead of three."},
)
def thm42(lab: Lab) -> Measures:
    """The circuit against the learner, then any start against both of them."""
    differences = [
        start_differences(lab, dims=dims, examples=examples, alpha=alpha)
        for dims, examples in ((2, 5), (4, 16), (8, 32))
        for alpha in (-3.0, -0.5, 1.0, 2.0)
    ]
    started, defined = (Measured.exact(max(each)) for each in zip(*differences, strict=True))
    theorem = measure_theorem(lab, THEOREM)
    return {**theorem, "from any start": started, "from the definition": defined}


@torch.no_grad()
def start_differences(
    lab: Lab, *, dims: int, examples: int, alpha: float, loops: int = 20, prompts: int = 8
) -> tuple[float, float]:
    """How far a model is from gradient descent and from the definition, from a start of its own."""
    lab.tell(f"d {dims}, n {examples}, alpha {alpha:g}")
    task = VectorGeneration(dims=dims, dtype="float64")
    # The last point is no example of the last prefix.
    prompt = lab.draw(task, examples + 1, prompts=prompts, purpose=f"start {dims} {alpha:g}")
    query = torch.randn(dims, dtype=torch.float64, generator=lab.generator("query"))  # (d,)
    rate = 1 / float(definition.spectra(prompt.xs)[0].amax())
    model = LinearLoopedTransformer.gradient_descent(dims=dims, loops=loops, step_size=rate)
    start = model.init(prompt).clone()  # (B, 1, n, d + 1)
    start[..., :-1], start[..., -1] = query, alpha
    states = iterate(model, prompt, start=(start, 0))
    run = torch.stack([model.weights(prompt, state)[:, -1, :, 0] for state in states])
    descent = GradientDescent(loops, step_size=rate, start=tuple((-query / alpha).tolist()))
    iterates = [descent.weights_of(state)[:, -1, :, 0] for state in iterate(descent, prompt)]
    alphas, rates = torch.tensor([[alpha], [rate]], dtype=torch.float64).expand(2, prompts)  # (B,)
    whole = definition.generated_by_whole_matrices(
        prompt.xs[:, :-1], prompt.ys[:, :-1, 0], query=query.expand(prompts, -1), alpha=alphas,
        rates=rates, loops=loops,
    )  # fmt: skip
    # All of them are (T + 1, B, d).
    return _difference(run, alpha * torch.stack(iterates)), _difference(run, whole)


def _difference(one: Tensor, other: Tensor) -> float:
    return float(((one - other).abs() / other.abs().clamp(min=1)).amax())


SIZES = ((2, 3), (2, 8), (4, 5), (4, 16), (4, 64), (8, 9), (8, 32))
"""d and n of theorem 4.5: from one more example than dimensions to the paper's plenty."""
CONSTANT = 9.0
"""What kappa tends to for many dimensions and four times as many examples: Marchenko and Pastur's
edges, ((1 + 1 / 2) / (1 - 1 / 2))^2."""


def _draw_thm45(tables: Tables) -> Figure:
    figure, (left, right) = drawing.panels(2, columns=2, size=(4.4, 3.4))
    table = tables["by-loop"].rename(columns={"worst": "mean"})
    table = table.assign(low=table["mean"], high=table["mean"])
    drawing.draw_curves(left, table, x="loops", band=False, floor=1e-13)
    drawing.level(left, 1.0, label="the bound")
    drawing.name(left, title="worst error of all draws", x="loops T", y="error / bound")
    left.set_xscale("log")
    kappas = tables["by-dims"].assign(mean=tables["by-dims"]["median"])
    others = list(dict.fromkeys(table["label"]))
    drawing.draw_curves(right, kappas, x="dims", order=[*others, "n = 4 d"], log=False)
    drawing.level(right, CONSTANT, label="limit of many dimensions")
    drawing.name(right, title="condition number at n = 4 d", x="dimensions d", y="kappa, median")
    right.set_ylim(bottom=0)
    drawing.legend(figure, (left, right), columns=5)
    return figure


@declare(
    paper="chen2025",
    id="thm4.5",
    title="The error of the loop falls as exp(-T / 2 kappa)",
    claims=(
        Claim(
            name="within-the-bound",
            sentence="With eta = 1/L the error after T loops is at most |alpha| exp(-T / 2 kappa).",
            quantity="largest of error / max(bound, 1e-12 |alpha|) over all draws and T = 1 to 200",
            statistic=lambda m: m["worst ratio"],
            criterion=at_most(
                1.0, "a bound that is broken once is none; below 1e-12 of alpha float64 rounds"
            ),
        ),
        Claim(
            name="order-d-examples",
            sentence="A number of examples of order d is enough for a constant condition number.",
            quantity="median kappa for d = 128, n = 4 d",
            statistic=lambda m: m["kappa"][..., -1],
            criterion=at_most(
                CONSTANT,
                "9 is its limit for many dimensions, from Marchenko and Pastur's law, and "
                "it comes from below; a kappa without limit would pass it",
            ),
            ratio=True,
        ),
    ),
    draw=_draw_thm45,
    minutes={"smoke": 0.1, "laptop": 0.2, "paper": 0.2},
)
def thm45(lab: Lab) -> Measures:
    """Draws of every size, each held to its own bound after each loop."""
    curves: list[pd.DataFrame] = []
    worst: list[float] = []
    prompts = 2000
    for dims, examples in SIZES:
        lab.tell(f"d {dims}, n {examples}")
        ratios, bounds = bound_ratios(lab, dims=dims, examples=examples, prompts=prompts)  # (T, B)
        worst.append(float(ratios.amax()))
        clear = bounds.amin(dim=1) > definition.ROUNDING  # (T,): no bound is below rounding
        curves.append(_by_loop(ratios[clear], f"d = {dims}, n = {examples}"))
    lab.table("by-loop", pd.concat(curves, ignore_index=True))
    lab.note(
        f"{prompts * len(SIZES)} draws, each after 1 to {LOOPS} loops, with alphas from -3 to 3."
    )
    kappas: dict[int, Measured] = {}
    for dims in (2, 4, 8, 16, 32, 64, 128):
        lab.tell(f"condition numbers, d {dims}")
        drawn = definition.draw_examples(lab, "kappa", dims=dims, examples=4 * dims, prompts=500)
        kappas[dims] = Measured(values=definition.spectra(drawn[0])[1], average="median")
    kappa = replace(Measured.stack("dims", kappas), label="n = 4 d")
    return {"worst ratio": Measured.exact(max(worst)), "kappa": kappa}


def bound_ratios(
    lab: Lab, *, dims: int, examples: int, prompts: int, rate: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Error over its bound after each loop, and the bound over |alpha|: (T, B) each.

    `rate` is eta in units of 1/L.
    """
    xs, ys, theta = definition.draw_examples(
        lab, "bound", dims=dims, examples=examples, prompts=prompts
    )
    largest, kappa = definition.spectra(xs)  # (B,) each
    drawn = torch.rand(prompts, dtype=torch.float64, generator=lab.generator("alpha"))  # (B,)
    alpha = 6 * drawn - 3  # (B,)
    vectors = definition.generated(
        xs, ys, query=torch.zeros_like(theta), alpha=alpha, rates=rate / largest, loops=LOOPS
    )  # (T + 1, B, d)
    errors = ((vectors * theta).sum(dim=2) - alpha).abs()[1:]  # (T, B)
    loops = torch.arange(1, LOOPS + 1, dtype=torch.float64)[:, None]  # (T, 1)
    bounds = (-loops / (2 * kappa)).exp().clamp(min=definition.ROUNDING)  # (T, B)
    return errors / (alpha.abs() * bounds), bounds


def _by_loop(ratios: Tensor, label: str) -> pd.DataFrame:
    """The worst and the median draw, at loops that a logarithmic axis can tell apart."""
    loops = np.unique(np.logspace(0, 2.3, 24).round().astype(int))
    loops = loops[loops <= len(ratios)]
    chosen = ratios[loops - 1]  # (m, B)
    worst, median = chosen.amax(dim=1), chosen.median(dim=1).values  # (m,) each
    return pd.DataFrame({"label": label, "loops": loops, "worst": worst, "median": median})
