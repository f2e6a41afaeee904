"""Figures 2 to 5, 7, 9 and 17 of Yang et al. (2024), measured where the answer is known."""

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from innerloop.analysis import Averages, Estimate, Measured, estimate
from innerloop.learners import GradientDescent
from innerloop.studies.claim import judge
from innerloop.studies.lab import Lab
from innerloop.studies.study import Study, premises
from innerloop.studies.yang2024.distinct_prompts import (
    ENOUGH,
    fig5,
    needed_ratio,
    prompts_needed,
)
from innerloop.studies.yang2024.fixed_points import fig3
from innerloop.studies.yang2024.loop_grid import (
    GRIDS,
    Place,
    cost_of_few_losses,
    few_loops,
    fig4,
)
from innerloop.studies.yang2024.needed_loops import NEEDED, fig9, networks_stay, stays_better
from innerloop.studies.yang2024.schedules import fig17
from innerloop.studies.yang2024.shape import SIZES, USUAL, fig7, loops_until
from innerloop.studies.yang2024.shared import distance, geometric_mean, learned, shown_loops
from innerloop.studies.yang2024.shifts import fig6
from innerloop.tasks import LinearRegression
from innerloop.training.families import Scale
from innerloop.training.recipes import find_recipe
from innerloop.training.trainer import first_model

LAB = Lab(study="yang2024/test", scale="laptop")
TASK = LinearRegression(dims=5)
POINTS = 11
POOLS = torch.tensor([100.0, 1000.0, 10_000.0], dtype=torch.float64)  # (k,)


def by_step(learner: GradientDescent, steps: int) -> Tensor:
    """Errors (P, K + 1) after the last example."""
    prompt = LAB.draw(TASK, POINTS)
    return LAB.error(learner, prompt, TASK, by="step", steps=steps).values


def measures(values: Mapping[str, Tensor], axis: str = "loop") -> dict[str, Measured]:
    """Measures of errors (P,) or (P, m) by name."""
    return {
        name: Measured(values=errors, axes=(axis,) * (errors.ndim - 1))
        for name, errors in values.items()
    }


def of_grid(
    grid: tuple[Place, ...], errors: Mapping[Place, tuple[float, float]]
) -> dict[str, Measured]:
    """Errors of the models of a grid at b loops and far beyond; 1 and 1 where nothing is said."""
    values: dict[str, Tensor] = {}
    for place in grid:
        at_b, beyond = errors.get(place, (1.0, 1.0))
        values |= {
            place.label: torch.ones(50, 41),  # (P, K + 1)
            f"{place.label}, at b loops": torch.full((50,), at_b),  # (P,)
            f"{place.label}, far beyond": torch.full((50,), beyond),  # (P,)
        }
    return measures(values)


def quantity(study: Study, name: str, measured: Mapping[str, Measured]) -> Estimate:
    """What a claim is about, of one seed with its interval over prompts."""
    (claim,) = [each for each in study.claims if each.name == name]
    return estimate(claim.statistic, [measured], log=claim.ratio)


def answer(study: Study, name: str, measured: Mapping[str, Measured]) -> str:
    """What the criterion says of three seeds that agree, where the premise holds."""
    (claim,) = [each for each in study.claims if each.name == name]
    seeds = [measured] * 3
    number = estimate(claim.statistic, seeds, log=claim.ratio)
    return judge(claim, number, "laptop", premises=premises(claim, seeds)).verdict


def test_ratios_are_averaged_by_their_logarithms() -> None:
    assert geometric_mean(torch.tensor([[2.0, 8.0], [3.0, 3.0]])).tolist() == pytest.approx([4, 3])


def test_curves_are_apart_by_their_mean_distance() -> None:
    first, second = torch.tensor([[1.0, 0.5, 0.1], [0.0, 0.0, 0.0]]), torch.tensor([1.0, 0.2, 0.4])
    assert distance(first, second).tolist() == pytest.approx([0.2, 1.6 / 3])


def test_models_have_learned_if_the_worst_of_them_has() -> None:
    curves = {"one": torch.tensor([[1.0, 0.01]]), "other": torch.tensor([[0.0, 0.04]])}  # (P, n)
    scalar = {"at b": torch.tensor([0.06])}  # (P,)
    averages = Averages({**measures(curves, "examples"), **measures(scalar)})
    fine, half = learned("one", "other"), learned("one", "at b")
    assert float(fine.statistic(averages)) == pytest.approx(0.04)
    assert fine.criterion.meets(float(fine.statistic(averages)))
    assert not half.criterion.meets(float(half.statistic(averages)))


def test_loops_are_counted_between_whole_numbers() -> None:
    means = torch.tensor([[1.0, 0.5, 0.1, 0.2], [1.0, 0.9, 0.8, 0.7]])  # (2, K + 1)
    part = math.log(0.5 / 0.2) / math.log(0.5 / 0.1)
    assert loops_until(means, 0.2).tolist() == pytest.approx([1 + part, math.inf])
    assert loops_until(means, torch.tensor([1.0, 0.8])).tolist() == pytest.approx([0, 2])


@pytest.mark.parametrize(("last", "trained"), [(12, 4), (150, 30), (150, 33), (15, 15)])
def test_shown_loops_hold_the_first_the_trained_and_the_last(last: int, trained: int) -> None:
    shown = shown_loops(last, trained)
    assert shown == sorted(set(shown))
    assert {0, 1, trained, last} <= set(shown)
    assert shown[-1] == last
    assert len(shown) <= 45


def test_few_loops_are_at_most_the_layers_of_the_standard_model() -> None:
    assert few_loops(GRIDS["laptop"]) == [Place("linear", 5, 5)]
    assert few_loops(GRIDS["paper"]) == [Place("linear", 12, window) for window in (5, 10, 15)]
    for scale in ("smoke", "laptop", "paper"):
        layers = first_model(find_recipe("standard-linear", scale)).steps
        assert all(place.loops <= layers for place in few_loops(GRIDS[scale]))


def test_drift_tells_a_fixed_point_from_divergence() -> None:
    grid, few = GRIDS["laptop"], Place("linear", 5, 5)
    many = Place("linear", 30, 5), Place("linear", 30, 10)
    calm = dict.fromkeys(many, (0.01, 0.0105))
    right = of_grid(grid, {few: (0.01, 0.03), **calm})
    assert answer(fig4, "few-loops-diverge", right) == "confirmed"
    assert answer(fig4, "many-loops-stay", right) == "confirmed"
    # Of several that should stay, the one counts that does not.
    wrong = of_grid(grid, {few: (0.01, 0.011), **calm, many[1]: (0.01, 0.02)})
    assert answer(fig4, "few-loops-diverge", wrong) == "contradicted"
    assert answer(fig4, "many-loops-stay", wrong) == "contradicted"
    # What was never learned cannot be lost, and what was not learned stays for nothing.
    idle = of_grid(grid, {few: (0.3, 0.9), **dict.fromkeys(many, (1.0, 1.0))})
    assert answer(fig4, "few-loops-diverge", idle) == "not at this size"
    assert answer(fig4, "many-loops-stay", idle) == "not at this size"


def test_the_cost_of_few_losses_is_taken_at_the_loops_that_both_windows_have() -> None:
    errors = {
        Place("linear", 5, 5): (100.0, 1.0),
        **{Place("linear", loops, 10): (0.01, 1.0) for loops in (10, 20, 30)},
        **{Place("linear", *at): (by * 0.01, 1.0) for at, by in {(10, 5): 2, (20, 5): 4}.items()},
        Place("linear", 30, 5): (0.08, 1.0),
    }
    named = of_grid(GRIDS["laptop"], errors)
    assert float(cost_of_few_losses(Averages(named))) == pytest.approx(4)
    assert answer(fig4, "few-losses-cost", named) == "confirmed"
    # Of several families the one counts where it costs least.
    several = {
        place: ((3.0 if place.family == "tree" else 5.0) if place.window == 5 else 1.0, 1.0)
        for place in GRIDS["paper"]
    }
    several = of_grid(GRIDS["paper"], several)
    assert float(cost_of_few_losses(Averages(several))) == pytest.approx(3)


def shapes_of(errors: Mapping[str, Tensor], loops: int) -> dict[str, Measured]:
    """The measures of figure 7, of errors (P, K + 1) of loops and (P, 1) of stacks."""
    looped = {label: each for label, each in errors.items() if label.startswith("looped")}
    at_b = {f"at b, {label}": each[:, loops] for label, each in looped.items()}
    return measures({**errors, **at_b})


DEPTHS = SIZES["laptop"]["standard L"]
CHANGED = ("looped D = 32", "looped h = 2", "looped h = 16")


def test_shapes_are_compared_by_the_loops_that_they_need() -> None:
    # One block is descent; two of them take two steps per loop, a stack of L layers takes 2.5 L,
    # and is a little worse, so that rounding decides nothing.
    descent = by_step(GradientDescent(20), 200)  # (P, K + 1)
    errors = {USUAL: descent[:, :101], "looped L = 2": descent[:, ::2]}
    errors |= {
        f"standard L = {depth}": 1.001 * descent[:, round(2.5 * depth)][:, None] for depth in DEPTHS
    }
    errors |= {label: 2 * errors[USUAL] for label in CHANGED}
    named = shapes_of(errors, 20)
    values = {claim.name: quantity(fig7, claim.name, named).value for claim in fig7.claims}
    assert values["layers-faster"] == pytest.approx(2, rel=0.1)
    assert values["more-loops-than-layers"] == pytest.approx(2, rel=0.01)  # 2.5, to even
    assert values["twenty-for-eight"] == pytest.approx(2.5, rel=0.01)
    assert values["width-helps"] == pytest.approx(2)
    assert {answer(fig7, claim, named) for claim in values} == {"confirmed"}


def test_a_loop_that_is_as_good_as_a_layer_needs_no_more() -> None:
    descent = by_step(GradientDescent(20), 200)[:, ::2]  # (P, K + 1): two steps per loop
    errors = {label: descent for label in (USUAL, "looped L = 2", *CHANGED)}
    errors |= {f"standard L = {depth}": 1.001 * descent[:, depth : depth + 1] for depth in DEPTHS}
    named = shapes_of(errors, 20)
    assert {answer(fig7, claim.name, named) for claim in fig7.claims} == {"contradicted"}


def test_the_fewest_and_the_most_heads_are_compared_with_the_usual_ones() -> None:
    errors = torch.ones(20, 31)  # (P, K + 1)
    factors = {"D = 64": 3, "D = 512": 30, "h = 2": 4, "h = 4": 40, "h = 32": 5, "L = 4": 50}
    labels = {USUAL: errors, **{f"looped {size}": by * errors for size, by in factors.items()}}
    named = shapes_of(labels, 30)
    assert quantity(fig7, "width-helps", named).value == 3
    assert quantity(fig7, "few-heads-worse", named).value == 4
    assert quantity(fig7, "many-heads-worse", named).value == 5


def test_a_change_counts_either_way() -> None:
    low, high = torch.full((50, 4), 0.01), torch.full((50, 4), 0.04)  # (P, n) each
    better = measures({"linear with": low, "linear without": high}, "examples")
    worse = measures({"linear with": high, "linear without": low}, "examples")
    for each in (better, worse):
        assert quantity(fig17, "linear-alike", each).value == pytest.approx(0.03)
        assert answer(fig17, "linear-alike", each) == "contradicted"
    same = measures({"linear with": low, "linear without": low + 0.015}, "examples")
    assert answer(fig17, "linear-alike", same) == "confirmed"
    trees = measures({"tree with": low, "tree without": 4 * low}, "examples")
    assert quantity(fig17, "helps-trees", trees).value == pytest.approx(4)
    assert math.isnan(quantity(fig17, "helps-trees", same).value)


def falling(scale: float) -> Tensor:
    """Errors that fall as scale / prompts: they come to ENOUGH at scale / ENOUGH prompts."""
    return scale / POOLS  # (k,)


@pytest.mark.parametrize("needed", [150.0, 500.0, 1000.0, 7000.0])
def test_the_prompts_needed_are_between_pools(needed: float) -> None:
    assert float(prompts_needed(falling(ENOUGH * needed), POOLS)) == pytest.approx(needed)


def test_the_prompts_needed_lie_beyond_the_pools() -> None:
    both = torch.stack([falling(ENOUGH * 20), falling(ENOUGH * 1e6)])  # (2, k)
    assert prompts_needed(both, POOLS).tolist() == pytest.approx([100.0, math.inf])


def test_four_times_the_prompts_are_a_ratio_of_a_quarter() -> None:
    few, many = falling(ENOUGH * 500), falling(ENOUGH * 2000)
    assert float(needed_ratio(few, many, POOLS)) == pytest.approx(0.25)
    assert float(needed_ratio(many, few, POOLS)) == pytest.approx(4)


def test_pools_that_tell_nothing_give_no_ratio() -> None:
    never, some, at_once = (falling(ENOUGH * needed) for needed in (1e6, 500, 20))
    assert math.isnan(needed_ratio(never, never, POOLS))
    assert math.isnan(needed_ratio(at_once, at_once, POOLS))
    # One of them alone is enough to tell which needs fewer.
    assert float(needed_ratio(some, never, POOLS)) == 0
    assert float(needed_ratio(never, some, POOLS)) == math.inf
    assert float(needed_ratio(at_once, some, POOLS)) == pytest.approx(100 / 500)


def test_models_are_compared_in_the_dimension_where_looped_ones_need_most() -> None:
    def pooled(*scales: float) -> Measured:
        values = torch.stack([falling(ENOUGH * scale) for scale in scales])  # (G, k)
        return Measured.exact(
            values, "dims", "distinct prompts", **{"distinct prompts": POOLS.tolist()}
        )

    both = {"looped pool": pooled(500, 4000), "standard pool": pooled(2000, 8000)}
    assert quantity(fig5, "fewer-prompts", both).value == pytest.approx(0.5)
    assert quantity(fig5, "lower-error", both).value == pytest.approx(0.5)


def test_pools_hold_what_the_paper_says() -> None:
    runs = fig5.runs("paper")
    assert len(runs) == 2 * 3 * 7
    for label, config in runs.items():
        assert config.points == 2 * config.task.dims + 1
        assert config.pool is not None
        assert f"{config.pool} prompts" in label
        assert config.curriculum.dims is None
        assert config.curriculum.points is None
        if label.startswith("looped"):
            assert (config.trained_loops, config.window, config.loops.start) == (30, 15, None)


def test_families_are_compared_by_drift() -> None:
    errors = {
        Place("sparse", 6, 10): (1.0, 8.0), Place("sparse", 20, 10): (1.0, 1.05),
        Place("network", 6, 5): (1.0, 2.0), Place("network", 20, 5): (1.0, 1.05),
    }  # fmt: skip
    named = of_grid(NEEDED["laptop"], errors)
    assert quantity(fig9, "sparse-stays", named).value == pytest.approx(1.05)
    assert float(stays_better(Averages(named))) == pytest.approx(1.05 / 4)
    assert float(networks_stay(Averages(named))) == pytest.approx(2 / 8)


@pytest.mark.parametrize("family", ["sparse", "tree", "network"])
def test_the_loops_of_the_recipe_are_the_run_of_the_recipe(family: str) -> None:
    for scale in ("smoke", "laptop"):
        recipe = find_recipe(f"looped-{family}", scale)
        assert recipe.trained_loops is not None
        assert recipe.window is not None
        place = Place(family, recipe.trained_loops, recipe.window)
        assert place.run(scale).key() == recipe.key()
    small = Place(family, 3, 5).run("laptop")
    assert (small.trained_loops, small.window, small.loops.start) == (3, 3, 3)
    paper = Place(family, 50, 10).run("paper")
    assert (paper.trained_loops, paper.window, paper.loops.start) == (50, 10, 10)


def test_figure_9_has_the_windows_of_the_recipes_and_of_the_paper() -> None:
    for scale in ("smoke", "laptop"):
        for label, config in fig9.runs(scale).items():
            recipe = find_recipe(f"looped-{label.split()[0]}", scale)
            assert recipe.window is not None
            assert config.trained_loops is not None
            assert config.window == min(recipe.window, config.trained_loops)
    paper = fig9.runs("paper").values()
    assert {config.window for config in paper} == {10}
    assert len({config.key() for config in paper}) == 5 + 4 + 5


@pytest.mark.parametrize("scale", ["smoke", "laptop"])
def test_studies_share_runs(scale: Scale) -> None:
    linear = {find_recipe(f"{kind}-linear", scale).key() for kind in ("looped", "standard")}
    assert linear <= {config.key() for config in fig5.runs(scale).values()}
    sparse = find_recipe("looped-sparse", scale).key()
    assert sparse in {config.key() for config in fig9.runs(scale).values()}


def test_laptop_studies_share_their_models() -> None:
    grid = {config.key() for config in fig4.runs("laptop").values()}
    assert fig7.runs("laptop")[USUAL].key() in grid
    assert fig3.runs("laptop")["injected"].key() in grid
    looped = [config for config in fig6.runs("laptop").values() if config.trained_loops is not None]
    assert looped
    assert all(config.key() in grid for config in looped)


def test_the_papers_grid_is_that_of_the_paper() -> None:
    runs = fig4.runs("paper")
    assert len({config.key() for config in runs.values()}) == 3 * (5 + 5 + 4 + 5)
    for config in runs.values():
        assert config.trained_loops is not None
        assert config.window is not None
        assert config.window <= config.trained_loops
        assert config.loops.start == config.window
    assert runs["linear b=12 T=15"].window == 12


@pytest.mark.parametrize(
    "study", [fig3, fig4, fig5, fig6, fig7, fig9, fig17], ids=lambda each: each.id
)
def test_runs_of_a_study_differ(study: Study) -> None:
    scales: tuple[Scale, ...] = ("smoke", "laptop")
    for scale in scales:
        keys = [config.key() for config in study.runs(scale).values()]
        assert len(set(keys)) == len(keys)
