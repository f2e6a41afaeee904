"""Chains of thought through an unknown network, by gradient descent: Gao et al. (2025), thm 3.3."""

import math

import torch
from pydantic import Field, FiniteFloat, model_validator
from torch import Tensor

from innerloop.circuits.blueprint import Blueprint, Tokens
from innerloop.circuits.circuit import Positive
from innerloop.circuits.leaky import leaky_add
from innerloop.circuits.next_token import take_next
from innerloop.circuits.parts import Layer
from innerloop.circuits.positions import Places
from innerloop.circuits.residual import Residual, constant, join
from innerloop.circuits.residual_descent import Descent, DescentSettings


class Chain(DescentSettings):
    """The next state s^{l+1} = leaky(W_l s^l) of a chain, from the chains before it.

    Tokens are x, s^1, .., s^L, again and again; the last is asked about, at level l. Each token
    takes the next one and inverts its leaky ReLU, which leaves a linear regression at every level.
    The filter is a part of the steps' scores: tokens of other levels are closed to each other.
    So the L regressions go on side by side, and that of the last token's level is read.

    The last level has no next state, since a fresh x follows: it is closed to itself, too, and its
    answer is 0. Tasks do not score it.
    """

    layers: int = Field(default=6, ge=1, description="L, layers of the network that is learned")
    slope: FiniteFloat = Field(
        default=0.01, ge=0, le=1, description="of the leaky ReLU below zero; 0 has no inverse"
    )
    largest_output: Positive | None = Field(
        default=None,
        description="bound on W_l s, before the activation; None: sqrt(2) times that on |x|",
    )

    @model_validator(mode="after")
    def _require_inverse_and_example(self) -> "Chain":
        if self.slope == 0:
            raise ValueError(
                "a ReLU with slope 0 has no inverse, so that its inputs cannot be learned from: "
                "take a slope above 0"
            )
        if self.points < self.layers + 2:
            raise ValueError(
                f"{self.points} points hold no chain of {self.layers + 1} tokens and a question "
                f"after it: take at least {self.layers + 2} points, or fewer layers"
            )
        return self

    @property
    def output_bound(self) -> float:
        """The bound on a state before its activation; what can be checked is the state itself."""
        return self.largest_output or math.sqrt(2) * self.input_bound

    def descent(self) -> Descent:
        """The steps; their features are the states themselves."""
        return Descent.choose(
            self,
            feature=self.input_bound,
            output=self.output_bound,
            examples=(self.points - 1) // (self.layers + 1),
            tokens=self.points + 1,
        )

    def blueprint(self) -> Blueprint:
        """The next state without its activation; steps, a level by itself; the activation."""
        descent = self.descent()
        residual = Residual()
        state = residual.slot("s", self.dims)
        carried = residual.slot("r", self.dims)
        places = Places.declare(residual, self.points + 1)
        start = residual.slot("start", 1)
        level = residual.slot("level", self.layers + 1)
        closed = residual.slot("closed to", self.layers + 1)
        follows = residual.slot("followed", 1)
        following = residual.slot("next s", self.dims)
        answer = residual.slot("answer", self.dims)
        take = take_next(
            places, start, values={following: state}, follows=follows, says="the next state"
        )
        invert = leaky_add(
            following, carried, slope=1 / self.slope, factor=-1.0, says="r = -W s, by 1 / slope"
        )
        shut = join(level, constant(1.0)), join(closed, constant(1.0) - follows - start)
        step = descent.layer(features=state, carried=carried, sink=start, closed=shut)
        activate = leaky_add(carried, answer, slope=self.slope, says="leaky(W s)")
        first = torch.arange(self.points + 1)[:, None] == 0  # (T, 1)
        levels, closings = self._levels()
        return Blueprint(
            name="chain", source="gao2025 theorem 3.3",
            algorithm="W <- W - eta sum_j (W s_j - leaky^-1(s'_j)) s_j' at the last token's level",
            form=self.form, dims=self.dims, outputs=self.dims, points=self.points,
            steps=self.steps, layout="stream", residual=residual,
            tokens=Tokens(
                inputs={state: torch.eye(self.dims, dtype=torch.float64)},
                positions={
                    places.slot: places.values, start: first.double(),
                    level: levels, closed: closings,
                },
                start=True,
            ),
            pre=(Layer(heads=(take,), neurons=(invert,), title="the next state, inverted"),),
            body=(step,), post=(Layer(neurons=(activate,), title="the activation"),),
            answer=answer, mask="full",
            largest_input=self.input_bound, largest_output=self.output_bound,
            condition=descent.condition, bound=descent.bound,
        )  # fmt: skip

    def _levels(self) -> tuple[Tensor, Tensor]:
        """The level of each place, one-hot, and the levels that it is closed to: (T, L + 1) each.

        The start token has no level, and is open to all: it is the sink.
        """
        of = torch.arange(self.points) % (self.layers + 1)  # (n,)
        levels = torch.nn.functional.one_hot(of, self.layers + 1).double()  # (n, L + 1)
        closings = 1 - levels  # (n, L + 1)
        closings[of == self.layers] = 1.0
        nothing = torch.zeros(1, self.layers + 1, dtype=torch.float64)  # (1, L + 1)
        return torch.cat([nothing, levels]), torch.cat([nothing, closings])
