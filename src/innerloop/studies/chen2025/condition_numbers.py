"""Figure 1: the error of gradient descent by loop, for more and more examples, beside theory."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Measured, drawing
from innerloop.studies.chen2025.definition import draw_examples, generated, spectra
from innerloop.studies.claim import Claim, at_least, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Tables, declare

DIMS, LOOPS, TRIALS = 4, 200, 10
"""d, T and the trials per curve, as in the paper."""
MANY = 2000
"""Draws that the claims are decided on; the first ten are the trials of the figure."""
KAPPAS = {16: 4.57, 32: 3.13, 64: 2.07, 128: 1.62}
"""The paper's mean condition number of ten trials, by the number of examples."""
FLOOR = 1e-24
"""Squared errors over the first one that float64 still holds: 1e-12 squared."""


@dataclass(frozen=True, slots=True, eq=False)
class Descents:
    """Many draws with one number of examples."""

    errors: Tensor
    """(T + 1, B): |theta_t - theta|^2 over |theta_0 - theta|^2."""
    kappa: Tensor
    """(B,)."""

    @property
    def bounds(self) -> Tensor:
        """(T + 1, B): exp(-t / kappa), what theorem 5.8 has for the square."""
        loops = torch.arange(len(self.errors), dtype=torch.float64)[:, None]  # (T + 1, 1)
        return (-loops / self.kappa).exp()

    @property
    def rates(self) -> Tensor:
        """(B,): how far the logarithm falls per loop, from the first to the last above rounding.

        What is below stays below: gradient descent at 1/L never goes up.
        """
        last = (self.errors > FLOOR).sum(dim=0) - 1  # (B,)
        there = self.errors.gather(0, last[None])[0]  # (B,)
        return -there.log() / last.clamp(min=1)


def descend(lab: Lab, examples: int, prompts: int = MANY) -> Descents:
    """Gradient descent at 1/L from zero, on the loop itself."""
    lab.tell(f"n {examples}")
    xs, ys, theta = draw_examples(lab, "trials", dims=DIMS, examples=examples, prompts=prompts)
    largest, kappa = spectra(xs)  # (B,) each
    vectors = generated(
        xs, ys, query=torch.zeros_like(theta), alpha=torch.ones_like(largest),
        rates=1 / largest, loops=LOOPS,
    )  # (T + 1, B, d)  # fmt: skip
    squares = (vectors - theta).square().sum(dim=2)  # (T + 1, B)
    return Descents(squares / squares[0], kappa)


def _draw_fig1(tables: Tables) -> Figure:
    figure, (axes,) = drawing.panels(1, size=(6.4, 4.4))
    table, floor = tables["by-loop"], np.log(FLOOR)
    names = zip(table["examples"], table["mean kappa"], strict=True)
    # Below what float64 holds an error says nothing; the trials get there one after the other.
    spread = table[["lowest", "highest"]].where(table["highest"] > floor)
    curves = table.assign(
        label=[f"n = {examples}, kappa {kappa:.2f}" for examples, kappa in names],
        mean=table["median"].where(table["median"] > floor),
        low=spread["lowest"],
        high=spread["highest"],
    )
    drawing.draw_curves(axes, curves, x="loop", log=False)
    for index, (_, rows) in enumerate(table.groupby("examples", sort=False)):
        colour = drawing.COLOURS[index]
        axes.plot(rows["loop"], rows["theory"], color=colour, linestyle="--", linewidth=1.2)
    axes.plot([], [], color="0.3", label="median, lowest to highest")
    axes.plot([], [], color="0.3", linestyle="--", label="theory, exp(-t / kappa)")
    axes.set_ylim(floor - 4, 2)
    y = "log of squared error / first squared error"
    drawing.name(axes, title="ten trials, d = 4", x="loops", y=y)
    drawing.legend(figure, (axes,), columns=3)
    return figure


@declare(
    paper="chen2025",
    id="fig1",
    title="More examples, a smaller condition number, faster convergence",
    claims=(
        Claim(
            name="below-theory",
            sentence="The measured error stays below the bound for every number of examples.",
            quantity="largest of error / max(bound, 1e-24), squared errors, over all draws and "
            "loops from 1 on",
            statistic=lambda m: m["worst ratio"],
            criterion=at_most(1.0, "a bound; 1e-24 is what float64 leaves of a square"),
        ),
        Claim(
            name="kappa",
            sentence="The mean condition numbers of ten trials are 4.57, 3.13, 2.07 and 1.62 for "
            "16, 32, 64 and 128 examples.",
            quantity="largest distance of these four from the mean of many draws, in standard "
            "errors of a mean of ten",
            statistic=lambda m: m["kappa off by"],
            criterion=at_most(
                2.5, "of four honest means one in twenty has one that is further off"
            ),
            paper="4.57, 3.13, 2.07, 1.62",
        ),
        Claim(
            name="faster-with-examples",
            sentence="With more examples it converges faster.",
            quantity="smallest ratio of the median decay a loop at 2 n to that at n",
            statistic=lambda m: (m["rate"][..., 1:] / m["rate"][..., :-1]).amin(dim=-1),
            criterion=at_least(1.0, "faster, however little"),
            ratio=True,
        ),
        Claim(
            name="gap-narrows",
            sentence="The gap between measured and theoretical convergence narrows with n.",
            quantity="measured / theoretical decay of the logarithm a loop, median, n = 128 over "
            "n = 16",
            statistic=lambda m: m["rate over theory"][..., -1] / m["rate over theory"][..., 0],
            criterion=at_most(
                1.0,
                "narrower, however little; theory has a ratio of -2 kappa log(1 - 1/kappa) "
                "in the long run, which grows as kappa falls",
            ),
            ratio=True,
        ),
    ),
    draw=_draw_fig1,
    minutes={"smoke": 0.1, "laptop": 0.1, "paper": 0.1},
    notes=(
        "The paper's curves go on for 200 loops; the bound for 128 examples is then 1e-53 and "
        "no float64 can be compared with it. Here curves end where rounding begins.",
    ),
)
def fig1(lab: Lab) -> Measures:
    """Ten trials for the curves, two thousand draws for the claims, above rounding alone."""
    descents = {examples: descend(lab, examples) for examples in KAPPAS}
    worst = [(each.errors / each.bounds.clamp(min=FLOOR))[1:].amax() for each in descents.values()]
    curves = [_by_loop(each, number) for number, each in descents.items()]
    lab.table("by-loop", pd.concat(curves, ignore_index=True))
    drawn = pd.DataFrame({number: each.kappa for number, each in descents.items()})  # one per row
    columns = {"ten trials": drawn[:TRIALS].mean(), "many draws": drawn.mean()}
    kappas = pd.DataFrame({**columns, "paper": pd.Series(KAPPAS)}).rename_axis("examples")
    distance = kappas["paper"] - kappas["many draws"]
    kappas["standard errors"] = distance / (drawn.std() / TRIALS**0.5)
    lab.table("kappa", kappas.reset_index())
    return {
        "worst ratio": Measured.exact(torch.stack(worst).amax()),
        "kappa off by": Measured.exact(kappas["standard errors"].abs().to_numpy().max()),
        "rate": _medians({n: each.rates for n, each in descents.items()}),
        "rate over theory": _medians({n: each.rates * each.kappa for n, each in descents.items()}),
    }


def _medians(values: Mapping[int, Tensor]) -> Measured:
    """Numbers (B,) per draw by the number of examples, of which the median is taken."""
    measures = {n: Measured(values=each, average="median") for n, each in values.items()}
    return Measured.stack("examples", measures)


def _by_loop(each: Descents, examples: int) -> pd.DataFrame:
    """Logarithms of the ten trials, and of the bound at their mean kappa."""
    kappa = float(each.kappa[:TRIALS].mean())
    loops = np.array([*range(20), *range(20, 60, 2), *range(60, LOOPS + 1, 5)])
    logs = each.errors[loops, :TRIALS].clamp(min=FLOOR / 10).log()  # (m, 10)
    return pd.DataFrame(
        {
            "examples": examples,
            "loop": loops,
            "median": logs.median(dim=1).values,
            "lowest": logs.amin(dim=1),
            "highest": logs.amax(dim=1),
            "theory": -loops / kappa,
            "mean kappa": kappa,
        }
    )
