"""Figure 4 of Akyurek et al. (2022): what is concluded from probes whose errors are known."""

import math

import pytest
import torch
from torch import Tensor

from innerloop.analysis.probing import ProbeErrors, Probing
from innerloop.studies.akyurek2022.probe_curves import (
    ByLayer,
    attention_to_last,
    both,
    located,
    lowest_over_first,
    reached,
    undecoded,
)
from innerloop.studies.akyurek2022.probes import LINEAR, MLP, PROMPTS, claims_by_layer, fig4
from innerloop.studies.claim import Verdict, judge
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import UNKNOWN, Quantity, exact


@pytest.fixture
def lab() -> Lab:
    return Lab(study="akyurek2022/test", scale="smoke")


def verdict(name: str, *measured: Quantity) -> Verdict:
    """The verdict on what each seed came to, at a scale at which something is concluded."""
    claim = next(claim for claim in fig4.claims if claim.name == name)
    return judge(claim, measured, "laptop").verdict


def probing(errors: Tensor, attention: Tensor) -> Probing:
    """Probes with these errors (S, p) on 20 prompts, of targets of variance 2 in 4 dimensions."""
    layers, prefixes = errors.shape
    found = ProbeErrors(
        mean=errors,
        low=errors,
        high=errors,
        training=errors,
        by_prompt=errors[..., None].expand(-1, -1, 20),
    )
    return Probing(
        steps=torch.arange(layers),
        prefixes=torch.arange(1, prefixes + 1),
        errors=found,
        control=None,
        variances=torch.full((prefixes,), 2.0),
        attention=attention,
        dims=4,
    )


def test_errors_by_layer(lab: Lab) -> None:
    errors = torch.tensor([[0.5, 0.5], [0.5, 0.4], [0.2, 0.1], [0.1, 0.1]]).double()
    attention = torch.zeros(4, 2, 5).double()
    attention[3, 0, 1], attention[3, 0, 0] = 0.75, 0.25  # after one example: y_1
    attention[3, 1, 3], attention[3, 1, 4] = 0.25, 0.75  # after two: y_2
    found = probing(errors, attention)
    own = ByLayer.of(found)
    means = own.errors.mean(dim=0)
    assert means.tolist() == pytest.approx([1.0, 0.9, 0.3, 0.2])
    assert own.best == 3
    assert float(lowest_over_first(means)) == pytest.approx(0.2)
    assert float(reached(means)) == 2  # 0.3 is below the middle of 1.0 and 0.2
    assert attention_to_last(found, 3) == pytest.approx(0.5)
    assert attention_to_last(found, 0) == 0
    sooner = ByLayer.of(probing(errors[[0, 2, 3, 3]], attention))
    layers = both(lab, lambda one, other: reached(one) - reached(other), own, sooner, 0)
    assert layers == Quantity(1.0, 1.0, 1.0)


def test_what_stays_as_it_is_gains_nothing() -> None:
    flat = torch.full((3, 4), 0.5)
    assert lowest_over_first(flat).tolist() == [1.0] * 3
    assert reached(flat).tolist() == [0.0] * 3


def by_layer(*means: float, training: float = 0.1) -> ByLayer:
    """Errors of 20 prompts, all the same, after so many layers."""
    return ByLayer(torch.tensor(means).double().expand(20, -1), torch.full((len(means),), training))


def test_nothing_is_located_that_was_not_decoded(lab: Lab) -> None:
    """The best probe for w leaves half of the variance: it once said that w comes later."""
    moments, weights, linear = by_layer(1, 0.2, 0.1), by_layer(1, 0.9, 0.5), by_layer(1, 1, 1)
    curves = {("X'y", MLP): moments, ("X'y", LINEAR): linear, ("w", LINEAR): linear}
    found = claims_by_layer(lab, {**curves, ("w", MLP): weights}, 0)
    assert verdict("moment-decoded", found["moment-decoded"]) == "confirmed"
    for name in ("weights-decoded", "moment-first"):
        assert math.isnan(found[name].value)
        assert verdict(name, found[name]) == "inconclusive"
        assert verdict(name, found[name], found[name]) == "inconclusive"  # two seeds
    assert located(exact(0.9), weights) == UNKNOWN
    # Of the readers, and not of a place.
    assert verdict("weights-nonlinear", found["weights-nonlinear"]) == "confirmed"
    found = claims_by_layer(lab, {**curves, ("w", MLP): by_layer(1, 0.9, 0.2)}, 0)
    assert found["moment-first"] == Quantity(1.0, 1.0, 1.0)
    assert verdict("weights-decoded", found["weights-decoded"]) == "confirmed"


def test_notes_tell_what_probes_were_short_of() -> None:
    decoded, apart = by_layer(1, 0.2), by_layer(1, 0.6, training=0.1)
    assert undecoded({"w": [decoded]}) == ()
    (few,) = undecoded({"X'y": [decoded], "w": [decoded, apart]})
    assert "leave 0.60" in few
    assert "too few prompts" in few
    (little,) = undecoded({"w": [by_layer(1, 0.6, training=0.55)]})
    assert "more steps or a larger probe" in little


def test_where_probes_look_is_a_claim_over_seeds() -> None:
    """Attention has no interval over prompts: one training decides nothing."""
    assert verdict("attention", exact(0.6)) == "inconclusive"
    assert verdict("attention", exact(0.6), exact(0.9)) == "inconclusive"
    assert verdict("attention", exact(0.7), exact(0.71)) == "confirmed"


def test_the_prompts_of_probes_are_those_that_the_study_says() -> None:
    assert f" {PROMPTS['laptop']} prompts" in fig4.smaller["laptop"]
    assert f" {PROMPTS['smoke']} prompts" in fig4.smaller["smoke"]
