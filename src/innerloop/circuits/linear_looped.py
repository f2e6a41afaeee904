"""Gradient descent by the linear looped transformer: Chen et al. (2025), lemma 4.1, theorem 4.2.

It is another model than the rest: an example is one row (x_j, y_j) of Z, and the last row
(q, alpha), which starts at (0, 1), is the only one that attends. With Q = I and P = diag(I, 0) a
step is q <- q - step_size sum_j (q . x_j + alpha y_j) x_j, so that -q runs gradient descent from 0.
"""

from innerloop.circuits.blueprint import Blueprint, Tokens
from innerloop.circuits.circuit import Circuit
from innerloop.circuits.linear_attention import LinearSettings
from innerloop.circuits.parts import Head, Layer
from innerloop.circuits.residual import Residual, join, zeros
from innerloop.models.linear_looped import LinearLoopedTransformer


class LinearLooped(LinearSettings):
    """w <- w - step_size X'(Xw - y) from 0, exactly: one layer of one head per step, d + 1 numbers.

    Prompts may have any number of points; `points` counts in the step size only.
    """

    def blueprint(self) -> Blueprint:
        """What the weights mean, in the terms of the other circuits; nothing is compiled from it.

        The slots are those of a row of Z: an example has x where the last row has q, and y where it
        has alpha. The answer -x . q is no function of slots, and is left out.
        """
        residual = Residual()
        weights = residual.slot("q, or x of an example", self.dims)
        scale = residual.slot("alpha, or y of an example", 1)
        step = Head(
            query=join(weights, scale),
            key=join(weights, scale),
            values={weights: -self.rate * weights},
            says="only the last row: q <- q - step_size sum_j (q . x_j + alpha y_j) x_j",
        )
        return Blueprint(
            name="linear-looped", source="chen2025 theorem 4.2",
            algorithm="w <- w - step_size X'(Xw - y)",
            dims=self.dims, points=self.points, steps=self.steps, residual=residual,
            tokens=Tokens.of_pairs(weights, scale, positions={}),
            body=(Layer(heads=(step,), title="a gradient step"),),
            answer=zeros(1), attention="linear",
        )  # fmt: skip

    def build(self) -> Circuit:
        """The weights of theorem 4.2."""
        return LinearLoopedCircuit(self)


class LinearLoopedCircuit(Circuit, LinearLoopedTransformer):
    """A linear looped transformer with the weights of theorem 4.2, which can be trained further."""

    def __init__(self, settings: LinearLooped) -> None:
        """Set Q = I, P = diag(I, 0) and the step size."""
        model = LinearLoopedTransformer.gradient_descent(
            dims=settings.dims, loops=max(1, settings.steps), step_size=settings.rate
        )
        super().__init__(settings.blueprint(), model.config, model.state_dict())
