"""Time series through a representation, by gradient descent: Gao et al. (2025), theorem 3.2."""

import math

import torch
from pydantic import Field, model_validator
from torch import Tensor

from innerloop.circuits.blueprint import Blueprint, Tokens
from innerloop.circuits.next_token import take_next
from innerloop.circuits.parts import Head, Layer, Neurons
from innerloop.circuits.positions import SATURATED, Places
from innerloop.circuits.residual import Affine, Residual, Slot, constant, join
from innerloop.circuits.residual_descent import Descent, RepresentationSettings


class Autoregression(RepresentationSettings):
    """x_{t+1} = A Phi(x_{t-q+1}, .., x_t) with a known network Phi: A by gradient descent.

    q heads copy the last q tokens, oldest first; each token then takes -r from the next one, and
    the last one, which has no next, is what is asked about. A history that is not complete counts
    as none: its features are 0, so that it is no example and its answer is 0.
    """

    order: int = Field(default=3, ge=1, description="q, tokens that the next one depends on")

    @model_validator(mode="after")
    def _require_example(self) -> "Autoregression":
        if self.points <= self.order:
            raise ValueError(
                f"{self.points} points hold no history of {self.order} tokens and its target: "
                f"take at least {self.order + 1} points, or a smaller order"
            )
        return self

    @property
    def numbers(self) -> int:
        """Those of q tokens."""
        return self.order * self.dims

    def descent(self) -> Descent:
        """The steps; a history has sqrt(q) times the bound of a token."""
        return Descent.choose(
            self,
            feature=self.network.gain() * math.sqrt(self.order) * self.input_bound,
            output=self.input_bound,
            examples=self.points - self.order,
            tokens=self.points + 1,
        )

    def blueprint(self) -> Blueprint:
        """The history and the first layer of Phi; the target and the second; steps."""
        descent = self.descent()
        residual = Residual()
        x = residual.slot("x", self.dims)
        carried = residual.slot("r", self.dims)
        places = Places.declare(residual, self.points + 1)
        start = residual.slot("start", 1)
        oldest = residual.slot("oldest", 2)
        follows = residual.slot("followed", 1)
        past = [residual.slot(f"x[{lag}]", self.dims) for lag in range(self.order)]
        neurons, features = self.network.neurons(residual, join(*past))
        target = take_next(
            places, start, values={carried: -x}, follows=follows, says="r_t = -x_{t+1}"
        )
        closed = constant(1.0), constant(1.0) - follows - start
        step = descent.layer(features=features, carried=carried, sink=start, closed=closed)
        place = torch.arange(self.points + 1)[:, None]  # (T, 1)
        return Blueprint(
            name="autoregression", source="gao2025 theorem 3.2",
            algorithm="A <- A - eta sum_t (A Phi_t - x_{t+1}) Phi_t'", form=self.form,
            dims=self.dims, outputs=self.dims, points=self.points, steps=self.steps,
            layout="stream", residual=residual,
            tokens=Tokens(
                inputs={x: torch.eye(self.dims, dtype=torch.float64)},
                positions={
                    places.slot: places.values,
                    start: (place == 0).double(),
                    oldest: self._oldest(place),
                },
                start=True,
            ),
            pre=_layers(self._copies(places, oldest, x, past), target, neurons), body=(step,),
            answer=carried, mask="full", largest_input=self.input_bound,
            condition=descent.condition, bound=descent.bound,
        )  # fmt: skip

    def _oldest(self, place: Tensor) -> Tensor:
        """The place o where the history of each place (T, 1) begins, and o^2: (T, 2).

        Where it is not complete o is -q, and all heads look left of the start token: they find it
        to be the nearest, with zeros.
        """
        first = torch.where(place >= self.order, place - self.order + 1, -self.order)  # (T, 1)
        return torch.cat([first, first.square()], dim=1).double()

    def _copies(self, places: Places, oldest: Slot, x: Slot, past: list[Slot]) -> tuple[Head, ...]:
        """One head per token of the history: the one at place o + lag."""

        def query(lag: int) -> Affine:
            at = oldest[0] + constant(float(lag))
            square = oldest[1] + 2.0 * lag * oldest[0] + constant(float(lag**2))
            return SATURATED * join(2.0 * at, constant(-1.0), -square)

        return tuple(
            Head(
                query=query(lag), key=places.keys(), values={slot: x},
                says=f"x_(t - {self.order - 1 - lag}), where the history is complete",
            )
            for lag, slot in enumerate(past)
        )  # fmt: skip


def _layers(
    copies: tuple[Head, ...], target: Head, neurons: tuple[Neurons, ...]
) -> tuple[Layer, ...]:
    """The heads of the first layer and of the second, beside the layers of Phi."""
    titled = ((copies, ["the history"]), ((target,), ["the target"]))
    layers: list[Layer] = []
    for number in range(max(2, len(neurons))):
        heads, titles = titled[number] if number < 2 else ((), [])
        titles = [*titles, *([f"layer {number + 1} of Phi"] if number < len(neurons) else [])]
        own = neurons[number : number + 1]
        layers.append(Layer(heads=heads, neurons=own, title="; ".join(titles)))
    return tuple(layers)
