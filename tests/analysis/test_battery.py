"""`identify` under shifts: what holds, what does not, and what cannot be run."""

import pytest
import torch
from torch import Tensor

from innerloop.analysis.battery import situations
from innerloop.analysis.candidates import FAMILIES, Battery, Parameter, chosen_families
from innerloop.analysis.identification import percent, sureness_of
from innerloop.analysis.identify import identify
from innerloop.core.errors import ConfigurationError
from innerloop.core.iterate import predict
from innerloop.core.prompt import Prompt
from innerloop.learners import OLS, FromFunction, GradientDescent, Ridge
from innerloop.models import InContextTransformer, Loop, TransformerConfig
from innerloop.tasks import DecisionTree, LinearRegression, RepresentationAR
from innerloop.tasks.shifts import ScaledInputs

TASK = LinearRegression(dims=4)


def ridge_of_small_inputs(xs: Tensor, ys: Tensor) -> Tensor:
    """Ridge with penalty 1 where inputs have unit variance, and zero where they are larger."""
    usual = xs.square().mean(dim=(1, 2), keepdim=True) < 2.5  # (B, 1, 1)
    return torch.where(usual, predict(Ridge(1.0), Prompt(xs=xs, ys=ys)), 0.5 * xs[..., :1])


def test_an_algorithm_holds_under_every_shift() -> None:
    found = identify(Ridge(0.5), TASK, points=7, prompts=16, draws=50, families=["ridge", "ols"])
    assert list(found.shifts["holds"]) == [True] * 8
    assert max(found.shifts["unexplained"].tolist()) < 1e-12
    assert set(found.shifts["closest_family"]) == {"Ridge"}
    assert found.statement().startswith("Ridge(penalty=0.5) in distribution and at inputs x 2")


def test_parameters_are_kept_under_shifts() -> None:
    """At twice the inputs ridge with another penalty fits: the one found in distribution counts."""

    def function(xs: Tensor, ys: Tensor) -> Tensor:
        prompt = Prompt(xs=xs, ys=ys)
        large = xs.square().mean(dim=(1, 2), keepdim=True) > 2.5  # (B, 1, 1)
        return torch.where(large, predict(Ridge(200.0), prompt), predict(Ridge(1.0), prompt))

    shifts = {"twice": ScaledInputs(task=TASK, factor=2.0)}
    found = identify(
        FromFunction(function), TASK, points=7, prompts=32, draws=50, families=["ridge"],
        shifts=shifts,
    )  # fmt: skip
    row = found.shifts.iloc[0]
    assert row["algorithm"] == "Ridge(penalty=1)"
    assert not row["holds"]


def test_a_learner_that_breaks_under_a_shift_is_found_out() -> None:
    found = identify(
        FromFunction(ridge_of_small_inputs), TASK, points=9, prompts=32, draws=50,
        families=["ridge", "ols", "lasso"],
    )  # fmt: skip
    assert found.family == "Ridge"
    holds = dict(zip(found.shifts["shift"], found.shifts["holds"], strict=True))
    assert not holds["inputs x 2"]
    assert holds["inputs x 1/2"]
    assert "none of these at inputs x 2 (" in found.statement()


def test_what_explains_a_shift_alone_is_named_there() -> None:
    """Least squares on twice the inputs, the sign of one coordinate elsewhere."""

    def function(xs: Tensor, ys: Tensor) -> Tensor:
        large = xs.square().mean(dim=(1, 2), keepdim=True) > 2.5  # (B, 1, 1)
        return torch.where(large, predict(OLS(), Prompt(xs=xs, ys=ys)), xs[..., :1].sign())

    shifts = {"twice": ScaledInputs(task=TASK, factor=2.0)}
    found = identify(
        FromFunction(function), TASK, points=9, prompts=32, draws=50, families=["ols"],
        shifts=shifts,
    )  # fmt: skip
    assert found.family == "none"
    assert found.statement().endswith("unexplained); OLS() at twice")


def test_what_a_model_cannot_read_has_a_note() -> None:
    config = TransformerConfig(
        dims=4, points=7, backbone=Loop(width=16, heads=2, layers=1, loops=2)
    )
    model = InContextTransformer(config, generator=torch.Generator().manual_seed(0))
    found = identify(model, TASK, points=7, prompts=8, draws=20, families=["ols"])
    row = found.shifts[found.shifts["shift"] == "12 examples"].iloc[0]
    assert row["holds"] is None
    assert "positions" in row["note"]


@pytest.mark.parametrize(
    ("battery", "families"),
    [
        ("quick", {"KernelRidge", "RandomFeatures", "GreedyTree"}),
        pytest.param("full", {"Boosting", "NetworkByAdam"}, marks=pytest.mark.slow),
    ],
)
def test_a_looped_model_gets_a_name_and_a_distance(battery: Battery, families: set[str]) -> None:
    """Untrained: no family is its algorithm, and the closest is named with what it leaves."""
    config = TransformerConfig(
        dims=3, points=9, backbone=Loop(width=16, heads=2, layers=1, loops=3)
    )
    model = InContextTransformer(config, generator=torch.Generator().manual_seed(0))
    task = DecisionTree(dims=3)
    found = identify(model, task, points=9, prompts=16, draws=20, battery=battery)
    assert families <= set(found.ranking["family"])
    closest = found.ranking.iloc[0]
    assert str(closest["algorithm"]) in found.summary()
    assert 0 < float(closest["unexplained"]) < float("inf")


def test_the_batteries() -> None:
    batteries: tuple[Battery, ...] = ("none", "quick", "full")
    names = {battery: [one.name for one in situations(TASK, 9, battery)] for battery in batteries}
    assert names["none"] == []
    assert names["quick"] == [
        "inputs x 2", "inputs x 1/2", "noise 1", "skewed inputs", "repeated queries",
        "orthogonal queries", "2 examples", "16 examples",
    ]  # fmt: skip
    assert set(names["quick"]) < set(names["full"])
    assert "half-subspace" in names["full"]
    assert "scaled-inputs 2" not in names["full"]  # the same as inputs x 2
    orthogonal = next(one for one in situations(TASK, 9, "quick") if "orthogonal" in one.name)
    assert orthogonal.points == TASK.dims


def test_noise_and_shifts_are_chosen() -> None:
    named = situations(TASK, 9, "quick", noise=0.25)
    assert "noise 0.25" in [one.name for one in named]
    own = {"mine": ScaledInputs(task=TASK, factor=3.0)}
    assert [one.name for one in situations(TASK, 9, "quick", shifts=own)] == ["mine"]
    both = situations(TASK, 9, "quick", shifts=own, noise=0.25)
    assert [one.name for one in both] == ["mine", "noise 0.25"]


def test_one_example_is_not_in_the_plural() -> None:
    names = [one.name for one in situations(LinearRegression(dims=2), 2 + 1, "quick")]
    assert names[-2:] == ["1 example", "4 examples"]


def test_a_task_that_cannot_be_shifted_has_fewer_and_more_examples() -> None:
    task = RepresentationAR(dims=4)
    assert all("examples" in one.name for one in situations(task, 9, "quick"))


def test_families_by_name() -> None:
    assert [one.name for one in chosen_families(["lasso", "bayes", "ridge"], "quick")] == [
        "Ridge", "Lasso",
    ]  # fmt: skip
    assert [one.name for one in chosen_families(["gaussian-process"], "quick")] == ["KernelRidge"]
    assert chosen_families(None, "full") == FAMILIES
    assert not any(one.slow for one in chosen_families(None, "quick"))
    with pytest.raises(ConfigurationError, match="unknown candidate 'rigde': did you mean 'Ridge'"):
        chosen_families(["rigde"], "quick")
    with pytest.raises(ConfigurationError, match="no candidate was named"):
        chosen_families([], "quick")


@pytest.mark.parametrize("prompts", [1, 2, 10, 1000])
def test_sureness_is_laplaces_rule(prompts: int) -> None:
    alike = torch.full((prompts,), 3.0)
    assert sureness_of(1.0, alike) == pytest.approx((prompts + 1) / (prompts + 2))
    assert sureness_of(0.0, alike) == pytest.approx(1 / (prompts + 2))
    assert sureness_of(0.5, alike) == pytest.approx(0.5)


def test_a_prompt_that_outweighs_all_others_is_one_prompt() -> None:
    sizes = torch.tensor([1e6, *[1.0] * 99], dtype=torch.float64)
    assert sureness_of(1.0, sizes) == pytest.approx(2 / 3, abs=1e-3)


def test_two_prompts_are_never_sure() -> None:
    found = identify(Ridge(1.0), TASK, points=7, prompts=2, draws=50, families=["ridge", "ols"])
    assert found.family == "Ridge"
    assert found.sureness <= 0.75
    assert "100%" not in found.summary()


def test_percentages_are_rounded_down() -> None:
    assert [percent(share) for share in (0.99999, 0.75, 0.0)] == ["99.9%", "75%", "0%"]


def test_an_end_of_the_search_is_marked() -> None:
    at = [Parameter("penalty", value, 0.1, 10.0) for value in (0.1, 1.0, 10.0)]
    assert [one.describe() for one in at] == ["penalty<=0.1", "penalty=1", "penalty>=10"]
    assert [one.at_edge for one in at] == [True, False, True]
    assert not Parameter("k", 1).at_edge


def test_descent_at_its_cap_says_so() -> None:
    """Three times as many steps as are tried, on prefixes whose slowest direction still moves."""
    found = identify(
        GradientDescent(steps=3000), TASK, points=6, prompts=16, draws=50, battery="none",
        families=["gradient-descent"],
    )  # fmt: skip
    assert found.edges == ("steps",)
    assert "steps>=1000" in found.statement()
    assert "The search for steps ended at its limit" in found.summary()


def test_a_penalty_at_the_end_of_its_grid_says_so() -> None:
    found = identify(
        Ridge(1e8), TASK, points=7, prompts=16, draws=50, families=["ridge"], battery="none"
    )
    assert found.ranking["edges"].iloc[0] == "penalty"
    assert "Ridge(penalty>=1e+06)" in found.statement()
