"""Figures 4, 5, 7, 9 and 17 of Yang et al. (2024): what they measure where the answer is known."""

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from innerloop.analysis import Averages, Estimate, Measured, estimate
from innerloop.learners import GradientDescent
from innerloop.studies.claim import judge
from innerloop.studies.lab import Lab
from innerloop.studies.study import Study
from innerloop.studies.yang2024.distinct_prompts import (
    LEARNED,
    fig5,
    needed_ratio,
    prompts_needed,
)
from innerloop.studies.yang2024.fixed_points import fig3
from innerloop.studies.yang2024.loop_grid import (
    Place,
    cost_of_few_losses,
    drifts,
    fig4,
    fig9,
    largest,
    smallest_stable,
)
from innerloop.studies.yang2024.schedules import fig17
from innerloop.studies.yang2024.shape import SIZES, USUAL, fig7, loops_until
from innerloop.studies.yang2024.shared import geometric_mean, shown_loops
from innerloop.studies.yang2024.shifts import fig6
from innerloop.tasks import LinearRegression
from innerloop.training.families import Scale
from innerloop.training.recipes import find_recipe

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


def of_places(errors: Mapping[Place, Tensor]) -> Averages:
    """The averages of errors (P, K + 1) by loop of models of a grid."""
    return Averages(measures({place.label: each for place, each in errors.items()}))


def quantity(study: Study, name: str, measured: Mapping[str, Measured]) -> Estimate:
    """What a claim is about, of one seed with its interval over prompts."""
    (claim,) = [each for each in study.claims if each.name == name]
    return estimate(claim.statistic, [measured], log=claim.ratio)


def verdict(study: Study, name: str, measured: Mapping[str, Measured]) -> str:
    """The verdict on two seeds that agree: of one, nothing is concluded about training."""
    (claim,) = [each for each in study.claims if each.name == name]
    number = estimate(claim.statistic, [measured, measured], log=claim.ratio)
    return judge(claim, number, "laptop").verdict


def test_ratios_are_averaged_by_their_logarithms() -> None:
    assert geometric_mean(torch.tensor([[2.0, 8.0], [3.0, 3.0]])).tolist() == pytest.approx([4, 3])
    errors = torch.rand(200, 31, generator=LAB.generator("errors")) + 0.1  # (P, K + 1)
    factors = {(20, 5): 2, (30, 5): 8, (20, 10): 1, (30, 10): 1}
    named = {Place("linear", *place).label: by * errors for place, by in factors.items()}
    cost = quantity(fig4, "few-losses-cost", measures(named))
    assert cost.value == pytest.approx(4)
    assert (cost.low, cost.high) == pytest.approx((4, 4))  # on the same prompts


def test_loops_are_counted_until_the_first_that_is_good_enough() -> None:
    means = torch.tensor([[1.0, 0.5, 0.1, 0.2], [1.0, 0.9, 0.8, 0.7]])  # (2, K + 1)
    assert loops_until(means, 0.2).tolist() == [2, 4]
    assert loops_until(means, torch.tensor([1.0, 0.8])).tolist() == [0, 2]


@pytest.mark.parametrize(("last", "trained"), [(12, 4), (150, 30), (150, 33), (15, 15)])
def test_shown_loops_hold_the_first_the_trained_and_the_last(last: int, trained: int) -> None:
    shown = shown_loops(last, trained)
    assert shown == sorted(set(shown))
    assert {0, 1, trained, last} <= set(shown)
    assert shown[-1] == last
    assert len(shown) <= 45


def test_drift_tells_a_fixed_point_from_divergence() -> None:
    # Descent by 1/L converges, here to an error that nothing makes smaller; by steps beyond 2/L
    # it grows.
    calm = by_step(GradientDescent(40), 100) + 0.01  # (P, K + 1)
    wild = by_step(GradientDescent(40, 0.2), 100)  # (P, K + 1)
    few, many = Place("linear", 5, 5), Place("linear", 30, 5)
    grid = measures({few.label: wild, many.label: calm})
    assert verdict(fig4, "few-loops-diverge", grid) == "confirmed"
    assert verdict(fig4, "many-loops-stay", grid) == "confirmed"
    other = measures({few.label: calm, many.label: wild})
    assert verdict(fig4, "few-loops-diverge", other) == "contradicted"
    assert verdict(fig4, "many-loops-stay", other) == "contradicted"
    ends = measures({"tied, far beyond": wild[:, -1], "tied, at b loops": wild[:, 5]})
    assert verdict(fig3, "tied-falls-apart", ends) == "confirmed"


def test_drift_takes_one_model_of_each_window() -> None:
    errors = torch.full((50, 41), 1.0)  # (P, K + 1)
    twice, eight = errors.clone(), errors.clone()
    twice[:, -1], eight[:, -1] = 2, 8
    grid = {
        Place("linear", 5, 5): twice, Place("linear", 20, 5): errors,
        Place("linear", 10, 10): eight, Place("linear", 20, 10): errors,
        Place("tree", 12, 5): 9 * eight,
    }  # fmt: skip
    # By b within each window, and those of other families on their own.
    by_loops = drifts(of_places(grid))
    assert {key: {b: float(by) for b, by in own.items()} for key, own in by_loops.items()} == {
        ("linear", 5): {5: 2, 20: 1}, ("linear", 10): {10: 8, 20: 1}, ("tree", 5): {12: 8}
    }  # fmt: skip
    assert float(largest(lambda own: own[max(own)], "linear")(of_places(grid))) == 1
    named = measures({place.label: each for place, each in grid.items()})
    # Of the smallest b the calmest window counts, of the largest the wildest and of all families.
    assert quantity(fig4, "few-loops-diverge", named).value == 2
    assert quantity(fig4, "many-loops-stay", named).value == 8


def test_the_cost_of_few_losses_is_taken_at_the_loops_that_both_windows_have() -> None:
    ones = torch.ones(50, 41)  # (P, K + 1)
    grid = {
        Place("linear", 12, 5): 100 * ones, Place("linear", 40, 5): 3 * ones,
        Place("linear", 40, 10): 50 * ones, Place("linear", 40, 15): ones,
    }  # fmt: skip
    assert float(cost_of_few_losses(of_places(grid))) == pytest.approx(3)
    named = measures({place.label: each for place, each in grid.items()})
    assert verdict(fig4, "few-losses-cost", named) == "confirmed"
    # Of several families the one counts where it costs least.
    grid |= {Place("network", 12, 5): 2 * ones, Place("network", 12, 15): ones}
    assert float(cost_of_few_losses(of_places(grid))) == pytest.approx(2)


def shapes_of(errors: Mapping[str, Tensor], loops: int) -> dict[str, Measured]:
    """The measures of figure 7, of errors (P, K + 1) of loops and (P, 1) of stacks."""
    looped = {label: each for label, each in errors.items() if label.startswith("looped")}
    at_b = {f"at b, {label}": each[:, loops] for label, each in looped.items()}
    return measures({**errors, **at_b})


DEPTHS = SIZES["laptop"]["standard L"]
CHANGED = ("looped D = 32", "looped h = 1", "looped h = 16")


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
    assert values["layers-faster"] == pytest.approx(2, rel=0.2)
    assert values["more-loops-than-layers"] == 1  # two loops (2.5, to even) for one layer
    assert values["twenty-for-eight"] == 2.5
    assert values["width-helps"] == pytest.approx(2)
    assert {verdict(fig7, claim, named) for claim in values} == {"confirmed"}


def test_a_loop_that_is_as_good_as_a_layer_needs_no_more() -> None:
    descent = by_step(GradientDescent(20), 100)  # (P, K + 1)
    errors = {label: descent for label in (USUAL, "looped L = 2", *CHANGED)}
    errors |= {f"standard L = {depth}": 1.001 * descent[:, depth : depth + 1] for depth in DEPTHS}
    named = shapes_of(errors, 20)
    assert {verdict(fig7, claim.name, named) for claim in fig7.claims} == {"contradicted"}


def test_the_fewest_and_the_most_heads_are_compared_with_the_usual_ones() -> None:
    errors = torch.ones(20, 31)  # (P, K + 1)
    factors = {"D = 64": 3, "D = 512": 30, "h = 2": 4, "h = 4": 40, "h = 32": 5, "L = 4": 50}
    labels = {USUAL: errors, **{f"looped {size}": by * errors for size, by in factors.items()}}
    named = shapes_of(labels, 30)
    assert quantity(fig7, "width-helps", named).value == 3
    assert quantity(fig7, "few-heads-worse", named).value == 4
    assert quantity(fig7, "many-heads-worse", named).value == 5


def test_a_change_counts_either_way() -> None:
    ones = torch.ones(50, 4)  # (P, n)
    noise = 0.1 * torch.rand(50, 4, generator=LAB.generator("noise"))  # (P, n)
    halved = measures({"linear with": ones, "linear without": ones / 2 + noise}, "examples")
    doubled = measures({"linear with": ones / 2 + noise, "linear without": ones}, "examples")
    first, second = (quantity(fig17, "matters-little", each) for each in (halved, doubled))
    assert first.value == second.value == pytest.approx(1 / float(0.5 + noise.mean()))
    assert (first.low, first.high) == (second.low, second.high)
    assert first.low < first.value < first.high
    assert verdict(fig17, "matters-little", halved) == "contradicted"
    same = measures({"network with": ones, "network without": ones}, "examples")
    assert verdict(fig17, "matters-little", same) == "confirmed"
    # The family that differs most counts, but for trees, which have a claim of their own.
    trees = measures({"tree with": ones, "tree without": 9 * ones}, "examples")
    assert quantity(fig17, "matters-little", {**same, **halved, **trees}).value == first.value
    assert quantity(fig17, "helps-trees", {**same, **trees}).value == 9
    assert math.isnan(quantity(fig17, "helps-trees", same).value)


def falling(scale: float) -> Tensor:
    """Errors that fall as scale / prompts: they come to LEARNED at scale / LEARNED prompts."""
    return scale / POOLS  # (k,)


@pytest.mark.parametrize("needed", [150.0, 500.0, 1000.0, 7000.0])
def test_the_prompts_needed_are_between_pools(needed: float) -> None:
    assert float(prompts_needed(falling(LEARNED * needed), POOLS)) == pytest.approx(needed)


def test_the_prompts_needed_lie_beyond_the_pools() -> None:
    both = torch.stack([falling(LEARNED * 20), falling(LEARNED * 1e6)])  # (2, k)
    assert prompts_needed(both, POOLS).tolist() == pytest.approx([100.0, math.inf])


def test_four_times_the_prompts_are_a_ratio_of_a_quarter() -> None:
    few, many = falling(LEARNED * 500), falling(LEARNED * 2000)
    assert float(needed_ratio(few, many, POOLS)) == pytest.approx(0.25)
    assert float(needed_ratio(many, few, POOLS)) == pytest.approx(4)


def test_pools_that_tell_nothing_give_no_ratio() -> None:
    never, some, at_once = (falling(LEARNED * needed) for needed in (1e6, 500, 20))
    assert math.isnan(needed_ratio(never, never, POOLS))
    assert math.isnan(needed_ratio(at_once, at_once, POOLS))
    # One of them alone is enough to tell which needs fewer.
    assert float(needed_ratio(some, never, POOLS)) == 0
    assert float(needed_ratio(never, some, POOLS)) == math.inf
    assert float(needed_ratio(at_once, some, POOLS)) == pytest.approx(100 / 500)


def test_models_are_compared_in_the_dimension_where_looped_ones_need_most() -> None:
    def pooled(*scales: float) -> Measured:
        values = torch.stack([falling(LEARNED * scale) for scale in scales])  # (G, k)
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


def test_the_smallest_stable_loops_are_the_first_that_stay() -> None:
    drifts = torch.tensor([[1.5, 1.05, 1.0], [1.0, 1.0, 1.0], [9.0, 2.0, math.inf]])  # (3, g)
    first, second, third = drifts.unbind(dim=1)  # (3,) each
    assert smallest_stable({6: first, 12: second, 20: third}).tolist() == [12, 6, math.inf]


def test_families_are_compared_by_drift_and_by_the_loops_that_they_need() -> None:
    def drifting(by: float) -> Tensor:
        errors = torch.ones(50, 31)  # (P, K + 1)
        errors[:, -1] = by
        return errors

    named = measures(
        {
            Place(family, loops, window).label: drifting(by)
            for family, loops, window, by in (
                ("sparse", 6, 10, 2.0), ("sparse", 20, 10, 1.05),
                ("network", 6, 5, 1.0), ("network", 20, 5, 1.04),
            )
        }
    )  # fmt: skip
    assert quantity(fig9, "sparse-stays", named).value == pytest.approx(1.05)
    assert quantity(fig9, "larger-b-stays", named).value == pytest.approx(1.04)
    assert quantity(fig9, "network-needs-least", named).value == 6 / 20
    assert {verdict(fig9, claim.name, named) for claim in fig9.claims} == {"confirmed"}


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
