"""Akyurek et al. (2022): what its studies measure, on learners whose algorithm is known."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pandas as pd
import pytest
import torch
from torch import Tensor

import innerloop as il
from innerloop.analysis import Estimate, Measured, estimate, spd
from innerloop.analysis.intervals import average
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.learners import OLS, FromFunction, Ridge
from innerloop.studies.akyurek2022.agreement import (
    ALGORITHMS,
    LEAST_SQUARES,
    NEAREST,
    PASS,
    RIDGE,
    STEP,
    algorithms,
    fig1,
    nearer,
    prediction_distances,
    weight_distances,
)
from innerloop.studies.akyurek2022.bayes import CONDITIONS, OCTAVE, PENALTIES, checked, fig2
from innerloop.studies.akyurek2022.lemma import EXPECTED, NORMS, Norm, layer_error, random_program
from innerloop.studies.akyurek2022.sizes import PREDICTORS, SIZES, fig3
from innerloop.studies.akyurek2022.theorems import thm1, thm2, width_order
from innerloop.studies.akyurek_circuits import THEOREM_1, THEOREM_2
from innerloop.studies.claim import Claim, Judged, control, judge
from innerloop.studies.equality import Limit
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Study, premises
from innerloop.tasks import LinearRegression
from innerloop.training.run import Run

T = TypeVar("T")
TASK = LinearRegression(dims=3)
POINTS = 7


def claim_of(study: Study, name: str) -> Claim:
    return next(claim for claim in study.claims if claim.name == name)


def judged(study: Study, name: str, measures: Measures) -> Judged:
    """A claim on what one seed measured, decided by its criterion alone."""
    claim = claim_of(study, name)
    number = estimate(claim.statistic, [measures], log=claim.ratio, draws=100)
    verdict = claim.criterion.judge(number.low, number.high)
    return replace(judge(claim, number, "laptop"), verdict=verdict)


def meets(study: Study, name: str, measures: Measures) -> bool:
    """Whether learners that stand in for models meet a claim and its premise."""
    claim = claim_of(study, name)
    number = estimate(claim.statistic, [measures], log=claim.ratio, draws=100)
    return control(claim.statement, "", number, premises(claim, [measures])).passes


class FewPrompts(Lab):
    """A lab with the tasks and models of its scale, and as few prompts as at smoke scale."""

    @property
    def prompts(self) -> int:
        return 64

    def choose(self, *, smoke: T, laptop: T, paper: T, desk: T | None = None) -> T:
        return smoke


def lab_of(study: Study, learners: Mapping[str, Learner[Any]]) -> Lab:
    """A lab at laptop scale whose models are not trained: learners stand in for them."""
    configs = study.runs("laptop")
    runs = {label: cast(Run, SimpleNamespace(config=own)) for label, own in configs.items()}
    return FewPrompts(study=study.name, scale="laptop", runs=runs, learners=learners)


def assert_controlled(study: Study, right: Mapping[str, Learner[Any]], null: str) -> None:
    """The right learners meet all claims, and those of a null none that excludes it."""
    lab = lab_of(study, right)
    measures = study.measure(lab)
    wrong = study.measure(lab_of(study, {**right, **study.nulls[null](lab)}))
    excluding = [claim.name for claim in study.claims if null in claim.excludes]
    assert excluding
    for name in excluding:
        assert meets(study, name, measures), name
        assert not meets(study, name, wrong), name


def all_of(one: Judged | Estimate) -> tuple[float, float, float]:
    return one.value, one.low, one.high


@pytest.fixture
def lab() -> Lab:
    return Lab(study="akyurek2022/test", scale="smoke")


@pytest.fixture
def prompt(lab: Lab) -> Prompt:
    return lab.draw(TASK, POINTS)


@pytest.fixture
def others(lab: Lab) -> dict[str, Learner[Any]]:
    return algorithms(lab, TASK, POINTS)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", EXPECTED)
def test_a_primitive_takes_one_layer(lab: Lab, kind: str, norm: Norm) -> None:
    program = random_program(lab, kind, norm, 0)
    error, layers = layer_error(program)
    assert layers == 1
    assert error < EXACT_CIRCUIT
    careless, _ = layer_error(replace(program, norm_scale=1e3))
    # The attention of mov has no norm before it where only the MLP has one.
    assert (careless > 1e-6) == ((kind, norm) != ("mov", "mlp-only"))


def test_printed_products_are_less_precise(lab: Lab) -> None:
    program = random_program(lab, "mul", "pre", 0)
    tight, _ = layer_error(replace(program, form="tight"))
    printed, _ = layer_error(replace(program, form="printed"))
    assert printed > 100 * tight


def test_the_order_of_a_width() -> None:
    dims = [2, 4, 8, 8]
    shapes = pd.DataFrame({"dims": dims, "width": [3 * d**2 for d in dims]})
    assert width_order(shapes) == pytest.approx(2.0)


def test_step_sizes_are_those_that_err_least(lab: Lab, others: dict[str, Learner[Any]]) -> None:
    """One step is better than none, and a pass over all examples is better than one step."""
    fresh = lab.draw(TASK, POINTS, prompts=500, purpose="fresh")
    errors = {label: float(lab.error(others[label], fresh, TASK).values.mean()) for label in others}
    assert errors[LEAST_SQUARES] < errors[PASS] < errors[STEP] < 1
    assert set(others) == set(ALGORITHMS)


def nearness(distances: Mapping[str, Measured], own: str) -> Estimate:
    """How much nearer one algorithm is than all others, over all numbers of examples."""
    return estimate(
        lambda m: nearer({label: m[label].mean(dim=-1) for label in m}, own), [distances], draws=100
    )


@pytest.mark.parametrize("label", [LEAST_SQUARES, RIDGE, STEP, NEAREST])
def test_an_algorithm_is_nearest_to_itself(
    lab: Lab, prompt: Prompt, others: dict[str, Learner[Any]], label: str
) -> None:
    distances = prediction_distances(lab, others[label], others, prompt, TASK)
    assert all_of(nearness(distances, label)) == (0.0, 0.0, 0.0)
    another = RIDGE if label != RIDGE else LEAST_SQUARES
    assert nearness(distances, another).low > 1
    # Without examples all predict nothing.
    assert distances[another].ticks["examples"] == list(range(1, POINTS))


def test_implicit_weights_of_least_squares(lab: Lab, prompt: Prompt) -> None:
    compared = {LEAST_SQUARES: OLS(), RIDGE: Ridge(0.1)}
    distances = weight_distances(lab, OLS(), compared, prompt)
    assert float(distances[LEAST_SQUARES].values.amax()) < 1e-8
    # Ridge is known in closed form as well.
    difference = (OLS().weights(prompt) - Ridge(0.1).weights(prompt)).square().sum(dim=(2, 3))
    assert float((distances[RIDGE].values - difference[:, 1:] / 3).abs().amax()) < 1e-5


def from_least_squares(distances: Tensor) -> Measures:
    """Distances (P, n - 1) of predictions and of weights from least squares, from 1 example on."""
    measured = Measured(values=distances, axes=("examples",))
    return {f"{measure}, {LEAST_SQUARES}": measured for measure in ("SPD", "ILW")}


@pytest.mark.parametrize("name", ["predictions", "implicit-weights"])
def test_almost_any_number_of_examples_is_all_but_one_in_twenty(name: str) -> None:
    """Two of twenty prefixes are off, and the median over prefixes is within 0.01 all the same."""
    distances = torch.tensor([*[0.005] * 18, *[0.05] * 2]).expand(20, -1)  # (P, n - 1)
    assert float(distances.mean(dim=0).quantile(0.5)) < 0.01
    most = judged(fig1, name, from_least_squares(distances))
    assert all_of(most) == pytest.approx((0.9, 0.9, 0.9))
    assert most.verdict == "contradicted"
    every = judged(fig1, name, from_least_squares(distances[:, [*range(18), 0, 18]]))
    assert every.verdict == "confirmed"


@pytest.mark.parametrize("null", fig1.nulls)
def test_nulls_of_figure_1(null: str) -> None:
    assert_controlled(fig1, {"model": OLS()}, null)


def test_a_model_that_has_not_learned_the_task_decides_nothing() -> None:
    sizes = dict(zip(ALGORITHMS, (0.005, 2.0, 3.0, 4.0, 8.0, 16.0), strict=True))
    for last, learned in ((0.005, True), (0.02, False)):
        measures = {
            f"SPD, {label}": Measured(values=torch.full((5, 9), size), axes=("examples",))
            for label, size in sizes.items()
        }
        measures[f"SPD, {LEAST_SQUARES}"].values[:, -1] = last
        for name in ("neighbours", "others-agree-less"):
            assert judged(fig1, name, measures).verdict == "confirmed"
            assert meets(fig1, name, measures) == learned


def test_minimum_norm_needs_the_papers_number_and_others_that_are_farther() -> None:
    def few(own: float, other: float) -> Measures:
        return {
            f"few examples, {label}": Measured.exact(own if label == LEAST_SQUARES else other)
            for label in ALGORITHMS
        }

    assert judged(fig1, "minimum-norm", few(0.005, 0.02)).value == pytest.approx(0.5)
    assert judged(fig1, "minimum-norm", few(0.02, 0.1)).value == pytest.approx(2.0)
    assert judged(fig1, "minimum-norm", few(0.005, 0.006)).value == pytest.approx(5 / 3)


def test_the_share_that_agrees_has_an_interval_over_prompts() -> None:
    """A prefix at the very edge is on either side of it, as prompts are drawn."""
    distances = torch.full((20, 2), 0.001)
    distances[::2, 1], distances[1::2, 1] = 0.0, 0.0199  # a mean of 0.00995
    share = judged(fig1, "predictions", from_least_squares(distances))
    assert all_of(share) == (1.0, 0.5, 1.0)
    assert share.verdict == "inconclusive"


def test_neighbours_agree_least_where_both_are_farther_than_all_others() -> None:
    sizes = dict(zip(ALGORITHMS, (1.0, 2.0, 3.0, 4.0, 8.0, 16.0), strict=True))
    measures = {
        f"SPD, {label}": Measured(values=torch.full((5, 3), size), axes=("examples",))
        for label, size in sizes.items()
    }
    assert judged(fig1, "neighbours", measures).value == 0.5
    assert judged(fig1, "others-agree-less", measures).value == 0.5


def right_sizes() -> dict[str, Learner[Any]]:
    """Learners of which all that figure 3 says is true."""
    lab = lab_of(fig3, {})
    config = lab.config("layers 1")
    right: dict[str, Learner[Any]] = {
        "layers 1": algorithms(lab, config.task, config.points)[STEP], "layers 2": Ridge(0.12),
        "width 32": Ridge(1e-3),
    }  # fmt: skip
    return {label: right.get(label, Ridge(2e-4)) for label in lab.labels}


@pytest.mark.parametrize("null", fig3.nulls)
def test_nulls_of_figure_3(null: str) -> None:
    assert_controlled(fig3, right_sizes(), null)


def sized(distances: dict[tuple[str, int, str], float]) -> Measures:
    """Distances by size at laptop scale: 1, but for those of some kinds, sizes and algorithms."""
    return {
        f"{kind}, {label}": Measured(
            values=torch.tensor([distances.get((kind, size, label), 1.0) for size in sizes]).expand(
                20, -1
            ),
            axes=("size",),
        )
        for kind, sizes in ((kind, SIZES[kind]["laptop"]) for kind in ("layers", "width"))
        for label in (*PREDICTORS, "error after the last example")
    }


def test_one_pass_is_no_predictor_and_a_null() -> None:
    """It was counted among the others, from which the paper's list does not have it."""
    assert PASS not in PREDICTORS
    excluding = {claim.name for claim in fig3.claims if PASS in claim.excludes}
    assert excluding == {"shallow", "deeper", "deepest", "modest-width"}
    nearer = sized({("layers", 1, STEP): 0.5, ("layers", 1, "error after the last example"): 0.4})
    assert meets(fig3, "shallow", nearer)
    # A layer that has learned nothing decides nothing.
    assert not meets(fig3, "shallow", sized({("layers", 1, STEP): 0.5}))


def test_slightly_deeper_is_the_next_depth_and_not_the_best_one() -> None:
    last = {("layers", 8, LEAST_SQUARES): 0.5}
    later = sized({**last, ("layers", 2, LEAST_SQUARES): 0.4, ("layers", 4, RIDGE): 0.4})
    assert not meets(fig3, "deeper", later)
    assert meets(fig3, "deeper", sized({**last, ("layers", 2, RIDGE): 0.4}))
    # One pass of SGD is nearest to ridge regression, too, by a fifth.
    assert not meets(fig3, "deeper", sized({**last, ("layers", 2, RIDGE): 0.8}))
    # What all depths are nearest to is no regime of some.
    both = sized({("layers", 2, RIDGE): 0.4, ("layers", 8, RIDGE): 0.4})
    assert judged(fig3, "deeper", both).verdict == "confirmed"
    assert not meets(fig3, "deeper", both)


def test_width_is_set_against_depth_from_the_second_size_to_the_full_one() -> None:
    sizes = {("width", 16): 9.0, ("width", 32): 3.0, ("width", 64): 2.0}
    sizes |= {("layers", 1): 9.0, ("layers", 2): 6.0, ("layers", 4): 5.0, ("layers", 8): 1.0}
    measures = sized({(*size, LEAST_SQUARES): distance for size, distance in sizes.items()})
    assert judged(fig3, "width-against-depth", measures).value == pytest.approx(1.5 / 6)


def noisy_case(lab: Lab, noise: float, learner: Learner[Any]) -> Any:
    """A condition, and a learner with prompts of it."""
    task = LinearRegression(dims=3, noise=noise, dtype="float64")
    return (noise, 1.0), (learner, lab.draw(task, POINTS, prompts=200))


def test_the_penalty_of_least_risk_is_found(lab: Lab) -> None:
    right = checked(lab, dict(noisy_case(lab, noise, Ridge(noise**2)) for noise in (0.5, 1.0)))
    assert all_of(judged(fig2, "nearest-penalty", right)) == (1.0, 1.0, 1.0)
    assert judged(fig2, "equivalent", right).high == 0
    assert judged(fig2, "grows-with-noise", right).value == pytest.approx(4.0)
    table = lab.tables["nearest"]
    assert table[["expected", "best"]].to_numpy().tolist() == [[0.25, 0.25], [1.0, 1.0]]
    cases = [noisy_case(lab, noise, Ridge(8.0)) for noise in (0.5, 1.0)]
    too_small = noisy_case(lab, 0.5, Ridge(2.0**-6))
    for case, factor in zip([*cases, too_small], (32.0, 8.0, 16.0), strict=True):
        assert judged(fig2, "nearest-penalty", checked(lab, dict([case]))).value == factor
    wrong = checked(lab, dict(cases))
    worst = judged(fig2, "nearest-penalty", wrong)
    assert worst.value == 32
    assert worst.low > 2
    assert judged(fig2, "grows-with-noise", wrong).high < 2**0.5 + 1e-9
    assert judged(fig2, "equivalent", wrong).low > 0.01


@pytest.mark.parametrize("null", fig2.nulls)
def test_nulls_of_figure_2(null: str) -> None:
    """One model for all is here ridge regression that is right for one of them."""
    right = {
        label: Ridge(config.task.noise**2 / config.task.prior_variance)
        for label, config in fig2.runs("laptop").items()
        if isinstance(config.task, LinearRegression)
    }
    assert_controlled(fig2, right, null)


def test_no_penalty_is_within_an_octave_of_all_that_are_expected() -> None:
    """Else a ridge regression that chooses nothing would pass; two of one penalty differ."""
    for scale in ("laptop", "desk", "paper"):
        penalties = [noise**2 / prior for noise, prior in CONDITIONS[scale]]
        assert max(penalties) / min(penalties) > OCTAVE**2
        assert len(set(penalties)) < len(penalties)
        assert set(penalties) <= set(PENALTIES)


def test_the_penalty_grows_with_every_noise(lab: Lab) -> None:
    penalties = {0.5: 0.25, 1.0: 0.25, 2.0: 4.0}
    measures = checked(
        lab, dict(noisy_case(lab, noise, Ridge(own)) for noise, own in penalties.items())
    )
    assert judged(fig2, "grows-with-noise", measures).value == 1.0


def test_equivalence_is_measured_as_in_figure_1(lab: Lab) -> None:
    """Over d and from one example on; over E[y^2] with prefix 0, 0.011 would be 0.0073."""

    def off(xs: Tensor, ys: Tensor) -> Tensor:
        answers = il.predict(Ridge(1.0), Prompt(xs=xs, ys=ys))  # (P, n, k)
        answers[:, 1:] += 0.033**0.5  # by 0.011 d at d = 3
        return answers

    condition, case = noisy_case(lab, 1.0, FromFunction(off))
    differences = spd(FromFunction(off), Ridge(1.0), case[1])
    assert float(differences.values.mean()) / (3 + 1.0**2) < 0.01
    equivalent = judged(fig2, "equivalent", checked(lab, {condition: case}))
    assert equivalent.value == pytest.approx(0.011)
    assert equivalent.verdict == "contradicted"


def test_prefix_0_is_left_out_of_the_grid_of_penalties(lab: Lab) -> None:
    """So that the table and the claim have one measure."""
    condition, case = noisy_case(lab, 1.0, Ridge(2.0))
    measures = checked(lab, {condition: case})
    at_expected = measures["distance"].at(penalty=PENALTIES.index(1.0))
    examples = spd(Ridge(2.0), Ridge(1.0), case[1]).at(examples=slice(1, None))
    expected = float(average(examples.mean("examples").values)) / 3
    assert float(average(at_expected.values)) == pytest.approx(expected)
    assert judged(fig2, "equivalent", measures).value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("study", "allowed", "chain"), [(thm1, THEOREM_1, 9), (thm2, THEOREM_2, 14)]
)
def test_the_note_and_the_limit_have_one_count(study: Study, allowed: Limit, chain: int) -> None:
    assert allowed.pre + allowed.step + allowed.post == chain
    assert "printed in the proof" in claim_of(study, "within-the-theorem").criterion.reason
    note = next(note for note in study.notes if "O(1)" in note)
    assert f"{chain} primitives" in note
    assert f"{allowed.pre} before the steps" in note
    assert f"{allowed.step} a step" in note
    lab = Lab(study=study.name, scale="smoke")
    study.measure(lab)
    shapes = lab.tables["shapes"]
    steps = shapes.loc[shapes["part"] == "step", :]
    assert set(steps["layers allowed"]) == {allowed.step}
    (layers,) = set(steps["layers"])
    assert f"{'one' if layers == 1 else 'three'} layer" in note
