"""Figure 4 of Akyurek et al. (2022): what is concluded from probes whose errors are known."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from innerloop.analysis import Measured, Probing, RidgeSettings, estimate
from innerloop.analysis.intervals import average
from innerloop.analysis.probe_features import hidden_states
from innerloop.core.learner import Learner
from innerloop.studies.akyurek2022.probes import (
    EMBEDDING,
    LINEAR,
    MLP,
    PROMPTS,
    TARGETS,
    UNTRAINED,
    attention_of,
    attention_to_last,
    fig4,
    measures_by_layer,
    reached,
)
from innerloop.studies.claim import Judged, control, judge
from innerloop.studies.lab import Lab
from innerloop.studies.probe_gate import fit_probes, untrained
from innerloop.studies.study import Measures, premises
from innerloop.training.run import Run
from innerloop.training.trainer import first_model


@pytest.fixture
def lab() -> Lab:
    return Lab(study="akyurek2022/test", scale="smoke")


def judged(name: str, *seeds: Measures) -> Judged:
    """A claim on what each seed measured, at a scale at which something is concluded."""
    claim = next(claim for claim in fig4.claims if claim.name == name)
    number = estimate(claim.statistic, seeds, log=claim.ratio, draws=100)
    return judge(claim, number, "laptop", premises=premises(claim, seeds))


def meets(name: str, measures: Measures) -> bool:
    """Whether a claim and its premise hold of what one seed measured."""
    claim = next(claim for claim in fig4.claims if claim.name == name)
    number = estimate(claim.statistic, [measures], log=claim.ratio, draws=100)
    return control(claim.statement, "", number, premises(claim, [measures])).passes


def probing(
    errors: Tensor, attention: Tensor | None = None, *, training: Tensor | None = None
) -> Probing:
    """Probes with these errors (S, p) on 20 prompts, of targets of variance 2 in 4 dimensions."""
    layers, prefixes = errors.shape
    held_out, trained = (
        Measured(
            values=own.expand(20, -1, -1),
            axes=("layer", "examples"),
            ticks={"layer": range(layers), "examples": range(1, prefixes + 1)},
        )
        for own in (errors, errors if training is None else training)
    )
    return Probing(
        errors=held_out,
        training=trained,
        control=None,
        control_training=None,
        variances=torch.full((prefixes,), 2.0) / 4,
        attention=torch.zeros(layers, prefixes, 5) if attention is None else attention,
    )


def test_errors_by_layer(lab: Lab) -> None:
    errors = torch.tensor([[0.5, 0.5], [0.5, 0.4], [0.2, 0.1], [0.1, 0.1]]).double()
    attention = torch.zeros(4, 2, 5).double()
    attention[3, 0, 1], attention[3, 0, 0] = 0.75, 0.25  # after one example: y_1
    attention[3, 1, 3], attention[3, 1, 4] = 0.25, 0.75  # after two: y_2
    own = probing(errors, attention)
    sooner = probing(errors[[0, 2, 3, 3]], attention)
    both = measures(lab, moments=sooner, weights=own)
    means = average(both[f"w, {LINEAR}"].values)
    assert means.tolist() == pytest.approx([1.0, 0.9, 0.3, 0.2])
    assert average(both[f"w, {LINEAR}, training"].values).tolist() == pytest.approx(means.tolist())
    assert judged("weights-decoded", both).value == pytest.approx(0.2)
    assert float(reached(means)) == 2  # 0.3 is below the middle of 1.0 and 0.2
    layers = judged("moment-first", both)
    assert (layers.value, layers.low, layers.high) == (1.0, 1.0, 1.0)
    table = attention_of("w", own)
    assert set(table["layer"]) == {3}  # the one with the lowest error
    assert attention_to_last(table) == pytest.approx(0.5)
    assert attention_to_last(attention_of("w", probing(errors.flip(0), attention))) == 0


def test_what_stays_as_it_is_gains_nothing(lab: Lab) -> None:
    flat = by_layer(0.2, 0.2, 0.2)
    same = measures(lab, moments=flat, weights=flat)
    assert judged("moment-decoded", same).value == 1
    assert not meets("moment-decoded", same)
    assert reached(torch.full((3, 4), 0.5)).tolist() == [0.0] * 3


def by_layer(*means: float, training: float = 0.1) -> Probing:
    """Errors over the variance of 20 prompts, all the same, after so many layers."""
    errors = torch.tensor(means).double()[:, None] / 2  # (S, 1)
    return probing(errors, training=torch.full_like(errors, training / 2))


def measures(
    lab: Lab,
    *,
    moments: Probing,
    weights: Probing,
    mlp: Probing | None = None,
    untrained: Probing | None = None,
) -> Measures:
    """What linear probes with these errors measure, beside MLPs with others."""
    other = by_layer(1, 1, 1) if mlp is None else mlp
    probes = {("X'y", MLP): other, ("X'y", LINEAR): moments}
    probes |= {("w", MLP): other, ("w", LINEAR): weights}
    nothing = by_layer(1, 1, 1) if untrained is None else untrained
    return measures_by_layer(lab, probes, {"X'y": nothing, "w": nothing})


def test_nothing_is_located_that_was_not_decoded(lab: Lab) -> None:
    """The best probe for w leaves half of the variance: it once said that w comes later."""
    moments = by_layer(1, 0.2, 0.1)
    half = measures(lab, moments=moments, weights=by_layer(1, 0.9, 0.5))
    assert meets("moment-decoded", half)
    half = {**half, "attention to the last y": Measured.exact(0.9)}
    for name in ("weights-decoded", "moment-first", "attention", "weights-nonlinear"):
        assert not meets(name, half)
        assert judged(name, *[half] * 3).verdict == "not at this size"
    most = measures(lab, moments=moments, weights=by_layer(1, 0.9, 0.2))
    assert meets("moment-first", most)
    assert meets("weights-decoded", most)


def test_what_random_layers_give_is_not_decoded(lab: Lab) -> None:
    own = by_layer(1, 0.4, 0.2)
    assert meets("weights-decoded", measures(lab, moments=own, weights=own))
    random = measures(lab, moments=own, weights=own, untrained=by_layer(1, 0.3, 0.5))
    assert judged("weights-decoded", random).value == pytest.approx(2 / 3)
    assert not meets("weights-decoded", random)


def test_an_embedding_is_not_encoded_nonlinearly(lab: Lab) -> None:
    """MLPs leave 0.69 of the embedding and linear maps all of it: it once was confirmed."""
    nothing = by_layer(1, 1, 1)
    embedding = measures(lab, moments=nothing, weights=nothing, mlp=by_layer(0.69, 0.69, 0.69))
    assert judged("moment-nonlinear", embedding).value > 1.1
    assert not meets("moment-nonlinear", embedding)
    own = by_layer(1, 0.5, 0.3)
    deep = measures(lab, moments=own, weights=own, mlp=by_layer(1, 0.4, 0.2))
    assert meets("moment-nonlinear", deep)


@pytest.mark.parametrize("null", [UNTRAINED, EMBEDDING])
def test_nulls_of_figure_4(null: str) -> None:
    config = fig4.runs("smoke")["model"]
    run = cast(Run, SimpleNamespace(config=config, model=lambda: first_model(config)))
    lab = Lab(study=fig4.name, scale="smoke", runs={"model": run})
    wrong = fig4.measure(lab.standing_in(fig4.nulls[null]))
    assert fig4.claims
    for claim in fig4.claims:
        assert null in claim.excludes
        assert not meets(claim.name, wrong)


def test_the_embedding_alone_is_the_same_after_every_layer() -> None:
    config = fig4.runs("smoke")["model"]
    run = cast(Run, SimpleNamespace(config=config, model=lambda: first_model(config)))
    lab = Lab(study=fig4.name, scale="smoke", runs={"model": run})
    prompt = lab.draw(config.task, config.points, prompts=4)
    own, without = (
        hidden_states(learner, prompt, range(3), 2 * prompt.points)
        for learner in (lab.model("model"), fig4.nulls[EMBEDDING](lab)["model"])
    )  # (S, P, T, D) each
    assert torch.equal(own[0], without[0])
    assert torch.equal(without[0], without[1])
    assert not torch.equal(own[0], own[1])


def test_probes_of_untrained_models_are_fitted_once() -> None:
    """They stand beside every null; other prompts and other models have probes of their own."""
    config = fig4.runs("smoke")["model"]
    run = cast(Run, SimpleNamespace(config=config, model=lambda: first_model(config)))
    labs = [Lab(study=fig4.name, scale="smoke", seed=seed, runs={"model": run}) for seed in (0, 1)]

    def fitted(lab: Lab, learner: Learner[Any]) -> Mapping[str, Probing]:
        return fit_probes(
            lab, learner, "model", TARGETS, prompts=32, at_steps=(0, 1), at_prefixes=(2,),
            axis="layer", settings=RidgeSettings(),
        )  # fmt: skip

    own = untrained(labs[0])["model"]
    beside_null = labs[0].standing_in(fig4.nulls[EMBEDDING])
    assert untrained(beside_null)["model"] is own
    assert fig4.nulls[UNTRAINED](labs[0])["model"] is own
    assert fitted(beside_null, own) is fitted(labs[0], own)
    for other in (fitted(labs[1], own), fitted(labs[0], beside_null.model("model"))):
        assert not torch.equal(other["w"].errors.values, fitted(labs[0], own)["w"].errors.values)


def notes_of(seed: int, weights: Probing) -> list[str]:
    lab = Lab(study="akyurek2022/test", scale="smoke", seed=seed)
    measures(lab, moments=by_layer(1, 0.2), weights=weights, mlp=by_layer(1, 0.2))
    return lab.notes


def test_notes_tell_what_probes_were_short_of() -> None:
    assert notes_of(0, by_layer(1, 0.2)) == []
    (few,) = notes_of(0, by_layer(1, 0.6, training=0.1))
    assert "Seed 0: linear probes for w leave 0.60" in few
    assert "too few prompts" in few
    (little,) = notes_of(1, by_layer(1, 0.6, training=0.55))
    assert "Seed 1: linear probes for w leave 0.60" in little
    assert "even there they fit too little" in little


def looks(attention: float) -> Measures:
    """MLPs that have decoded w, and give so much to the last y."""
    errors = Measured(values=torch.full((5, 3), 0.1), axes=("layer",))
    return {"attention to the last y": Measured.exact(attention), f"w, {MLP}": errors}


def test_where_probes_look_is_a_claim_over_seeds() -> None:
    """Attention has no interval over prompts: three trainings decide."""
    assert judged("attention", looks(0.6)).verdict == "exploratory"
    assert judged("attention", looks(0.6), looks(0.9), looks(0.5)).verdict == "inconclusive"
    assert judged("attention", looks(0.7), looks(0.71), looks(0.72)).verdict == "confirmed"


def test_the_prompts_of_probes_are_those_that_the_study_says() -> None:
    assert f" {PROMPTS['laptop']} prompts" in fig4.smaller["laptop"]
    assert f" {PROMPTS['smoke']} prompts" in fig4.smaller["smoke"]
