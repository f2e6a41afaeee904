"""Figure 4 of Akyurek et al. (2022): what is concluded from probes whose errors are known."""

import math

import pytest
import torch
from torch import Tensor

from innerloop.analysis import Measured, Probing, estimate
from innerloop.analysis.intervals import average
from innerloop.studies.akyurek2022.probes import (
    LINEAR,
    MLP,
    PROMPTS,
    attention_of,
    attention_to_last,
    fig4,
    measures_by_layer,
    reached,
)
from innerloop.studies.claim import Judged, judge
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures


@pytest.fixture
def lab() -> Lab:
    return Lab(study="akyurek2022/test", scale="smoke")


def judged(name: str, *seeds: Measures) -> Judged:
    """A claim on what each seed measured, at a scale at which something is concluded."""
    claim = next(claim for claim in fig4.claims if claim.name == name)
    number = estimate(claim.statistic, seeds, log=claim.ratio, draws=100)
    return judge(claim, number, "laptop")


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
    means = average(both[f"w, {MLP}"].values)
    assert means.tolist() == pytest.approx([1.0, 0.9, 0.3, 0.2])
    assert average(both[f"w, {MLP}, training"].values).tolist() == pytest.approx(means.tolist())
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
    assert judged("moment-decoded", measures(lab, moments=flat, weights=flat)).value == 1
    assert reached(torch.full((3, 4), 0.5)).tolist() == [0.0] * 3


def by_layer(*means: float, training: float = 0.1) -> Probing:
    """Errors over the variance of 20 prompts, all the same, after so many layers."""
    errors = torch.tensor(means).double()[:, None] / 2  # (S, 1)
    return probing(errors, training=torch.full_like(errors, training / 2))


def measures(lab: Lab, *, moments: Probing, weights: Probing) -> Measures:
    """What MLPs with these errors measure, where linear probes find nothing."""
    linear = by_layer(1, 1, 1)
    probes = {("X'y", MLP): moments, ("X'y", LINEAR): linear}
    return measures_by_layer(lab, {**probes, ("w", MLP): weights, ("w", LINEAR): linear})


def test_nothing_is_located_that_was_not_decoded(lab: Lab) -> None:
    """The best probe for w leaves half of the variance: it once said that w comes later."""
    moments = by_layer(1, 0.2, 0.1)
    half = measures(lab, moments=moments, weights=by_layer(1, 0.9, 0.5))
    assert judged("moment-decoded", half).verdict == "confirmed"
    half = {**half, "attention to the last y": Measured.exact(0.9)}
    for name in ("weights-decoded", "moment-first", "attention"):
        for seeds in ([half], [half, half]):
            assert math.isnan(judged(name, *seeds).value)
            assert judged(name, *seeds).verdict == "inconclusive"
    # Of the readers, and not of a place.
    assert judged("weights-nonlinear", half).verdict == "confirmed"
    most = measures(lab, moments=moments, weights=by_layer(1, 0.9, 0.2))
    first = judged("moment-first", most)
    assert (first.value, first.low, first.high) == (1.0, 1.0, 1.0)
    assert judged("weights-decoded", most).verdict == "confirmed"


def notes_of(seed: int, weights: Probing) -> list[str]:
    lab = Lab(study="akyurek2022/test", scale="smoke", seed=seed)
    measures(lab, moments=by_layer(1, 0.2), weights=weights)
    return lab.notes


def test_notes_tell_what_probes_were_short_of() -> None:
    assert notes_of(0, by_layer(1, 0.2)) == []
    (few,) = notes_of(0, by_layer(1, 0.6, training=0.1))
    assert "MLP probes for w leave 0.60" in few
    assert "too few prompts" in few
    (little,) = notes_of(1, by_layer(1, 0.6, training=0.55))
    assert "MLP probes for w (seed 1) leave 0.60" in little
    assert "more steps or a larger probe" in little


def looks(attention: float) -> Measures:
    """Probes that have decoded w, and give so much to the last y."""
    return {
        "attention to the last y": Measured.exact(attention), "w is decoded": Measured.exact(1.0)
    }  # fmt: skip


def test_where_probes_look_is_a_claim_over_seeds() -> None:
    """Attention has no interval over prompts: one training decides nothing."""
    assert judged("attention", looks(0.6)).verdict == "inconclusive"
    assert judged("attention", looks(0.6), looks(0.9)).verdict == "inconclusive"
    assert judged("attention", looks(0.7), looks(0.71)).verdict == "confirmed"


def test_the_prompts_of_probes_are_those_that_the_study_says() -> None:
    assert f" {PROMPTS['laptop']} prompts" in fig4.smaller["laptop"]
    assert f" {PROMPTS['smoke']} prompts" in fig4.smaller["smoke"]
