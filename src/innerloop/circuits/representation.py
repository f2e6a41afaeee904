"""Regression through a representation, by gradient descent: Gao et al. (2025), theorem 3.1."""

import math

import torch
from pydantic import Field

from innerloop.circuits.blueprint import Blueprint, Tokens
from innerloop.circuits.circuit import Positive
from innerloop.circuits.parts import Head, Layer
from innerloop.circuits.positions import SATURATED, Places
from innerloop.circuits.residual import Residual, constant
from innerloop.circuits.residual_descent import Descent, RepresentationSettings


class Representation(RepresentationSettings):
    """y = A Phi(x) with a known network Phi: Phi by the MLPs, A by gradient descent.

    A y token takes over the x before it and is an example from there on, with r = -y at the start;
    x tokens are asked about, with r = 0, and closed as examples. The first layer pairs before its
    MLP computes: L layers for L layers of Phi, of the L + 1 that the theorem allows.
    """

    outputs: int = Field(default=1, ge=1, le=1000, description="outputs of a point")
    largest_output: Positive | None = Field(
        default=None,
        description="bound on |y|; None: sqrt(dims) (sqrt(outputs) + 4), enough for A ~ N(0, 1)",
    )

    @property
    def output_bound(self) -> float:
        """The bound on |y|."""
        if self.largest_output is not None:
            return self.largest_output
        return math.sqrt(self.dims) * (math.sqrt(self.outputs) + 4)

    def descent(self) -> Descent:
        """The steps; Phi of an input within the bound is within its gain times that."""
        return Descent.choose(
            self,
            feature=self.network.gain() * self.input_bound,
            output=self.output_bound,
            examples=max(1, self.points - 1),
            tokens=2 * self.points,
        )

    def blueprint(self) -> Blueprint:
        """Pair x and y; Phi, a layer at a time; steps on residuals."""
        descent = self.descent()
        residual = Residual()
        x = residual.slot("x", self.dims)
        carried = residual.slot("r", self.outputs)
        places = Places.declare(residual, 2 * self.points)
        start = residual.slot("start", 1)
        asked = residual.slot("asked", 1)
        neurons, features = self.network.neurons(residual, x)
        pair = Head(
            # x tokens look at the y before them, which holds no x: theirs stays as it is.
            query=SATURATED * places.looking_back(1),
            key=places.keys(),
            values={x: x},
            says="x_j onto the token of y_j",
        )
        step = descent.layer(
            features=features, carried=carried, sink=start, closed=(constant(1.0), asked)
        )
        place = torch.arange(2 * self.points, dtype=torch.float64)[:, None]  # (T, 1)
        return Blueprint(
            name="representation", source="gao2025 theorem 3.1",
            algorithm="A <- A - eta sum_j (A Phi(x_j) - y_j) Phi(x_j)'", form=self.form,
            dims=self.dims, outputs=self.outputs, points=self.points, steps=self.steps,
            residual=residual,
            tokens=Tokens(
                inputs={x: torch.eye(self.dims, dtype=torch.float64)},
                outputs={carried: -torch.eye(self.outputs, dtype=torch.float64)},
                positions={
                    places.slot: places.values, start: (place == 0).double(), asked: place % 2,
                },
                start=True,
            ),
            pre=tuple(
                Layer(
                    heads=() if number else (pair,), neurons=(part,),
                    title=("" if number else "pair x and y; ") + f"layer {number + 1} of Phi",
                )
                for number, part in enumerate(neurons)
            ),
            body=(step,), answer=carried, mask="full",
            largest_input=self.input_bound, largest_output=self.output_bound,
            condition=descent.condition, bound=descent.bound,
        )  # fmt: skip
