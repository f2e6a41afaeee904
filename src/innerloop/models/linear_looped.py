"""The linear looped transformer: one layer of linear attention, whose last row alone moves.

Z = [[X, y], [q', alpha]] holds one example per row, and a last row that attends to all of them:
Z <- Z - eta (M o (Z Q Z')) Z P, with M zero but for the last row's look at the examples. For the
last row z = (q, alpha) and the examples z_j = (x_j, y_j) that is

    z <- z - eta sum_j (z Q z_j') z_j P

This is linear in z, so that an alpha other than 1 multiplies all of it, and the vector -q that
Chen et al. (2025) ask for is alpha times the weights that are found with alpha = 1.
"""

from functools import cached_property
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from innerloop.core.components import Components, Place, Tap
from innerloop.core.config import Float32
from innerloop.core.errors import PromptError
from innerloop.core.iterate import iterate
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import HiddenStates, MovingPart
from innerloop.models.model import Head, Model, expect_config, initialise
from innerloop.models.settings import BACKWARD, MOST_LOOPS, ModelSettings, Spread


class LinearLoopedConfig(ModelSettings):
    """All that a `LinearLoopedTransformer` is but its weights."""

    kind: Literal["linear-looped"] = Field(
        default="linear-looped", description="the model: transformer, lstm, linear-looped or text"
    )
    dims: int = Field(ge=1, description="dimensions of an input")
    loops: int = Field(default=20, ge=1, le=MOST_LOOPS, description="loops that it is trained with")
    step_size: Float32 = Field(default=0.02, gt=0, description="eta before training")

    head: ClassVar[Head] = "regression"

    @property
    def trained_loops(self) -> int | None:
        """As they are given."""
        return self.loops

    def operations(self, points: int, loops: int | None, window: int | None) -> float:
        """One product of (n, d) matrices per loop, and much overhead."""
        return (1 + BACKWARD) * (loops or 1) * 3e5


class LinearLoopedTransformer(Model[Tensor, LinearLoopedConfig]):
    """Looped linear attention from q = 0 and alpha = 1: predicts -x . q, Chen et al. (2025).

    Only the last row moves, and no example sees it, so all prefixes run at once: prefix i has a
    last row of its own, which attends to the examples before point i. Each output has one, too.
    The state holds these rows (B, k, n, d + 1). Prompts may have any number of points and outputs.

    Q and P start small and random: 200 steps of Adam at 0.01, or of Muon, find a solution from
    there. eta is trained as its logarithm, since it is positive and of any order of magnitude.
    """

    head: Head = "regression"
    looped = True
    answers_at_end = True

    def __init__(
        self, config: LinearLoopedConfig, *, generator: torch.Generator | None = None
    ) -> None:
        """Weights are drawn from the generator; without one, from a seed of 0."""
        expect_config(config, LinearLoopedConfig)
        super().__init__()
        self.config = config
        self.steps = config.loops
        # Examples enter by a sum. The rest depends on Q and P.
        self.traits = Traits(order_invariant=True)
        self.query_key = nn.Parameter(torch.empty(config.dims + 1, config.dims + 1))
        """Q: what the last row compares with the examples."""
        self.value_output = nn.Parameter(torch.empty(config.dims + 1, config.dims + 1))
        """P: what it takes from them."""
        self.log_step_size = nn.Parameter(torch.empty(()))
        # What hooks reach: the part of a step that a head computes, and the rows after it.
        self.scores, self.taken, self.rows = nn.Identity(), nn.Identity(), nn.Identity()
        generator = generator or torch.Generator().manual_seed(0)
        initialise(self, spread="small", generator=generator)
        with torch.no_grad():
            self.log_step_size.fill_(config.step_size).log_()

    @classmethod
    def gradient_descent(
        cls, *, dims: int, loops: int, step_size: float, dtype: torch.dtype = torch.float64
    ) -> "LinearLoopedTransformer":
        """The weights of theorem 4.2: gradient descent on half the sum of squares, from zero.

        Q = I and P = diag(I, 0) give q <- q - eta X'(Xq + y), so that -q is the iterate.
        """
        model = cls(LinearLoopedConfig(dims=dims, loops=loops, step_size=step_size)).to(dtype)
        with torch.no_grad():
            model.query_key.copy_(torch.eye(dims + 1))
            model.value_output.copy_(torch.eye(dims + 1))
            model.value_output[-1, -1] = 0.0
            model.log_step_size.fill_(step_size).log_()
        return model

    @cached_property
    def name(self) -> str:
        """What it is."""
        return "linear looped transformer"

    def init(self, prompt: Prompt) -> Tensor:
        """The last row of each prefix, q = 0 and alpha = 1: (B, k, n, d + 1)."""
        if prompt.dims != self.config.dims:
            raise PromptError(
                f"the prompt has {prompt.dims} dimensions, the model was made for "
                f"{self.config.dims}: give such prompts, or another model."
            )
        rows = self.query_key.new_zeros(  # (B, k, n, d + 1)
            prompt.batch, prompt.outputs, prompt.points, prompt.dims + 1
        )
        rows[..., -1] = 1.0
        return rows

    def step(self, prompt: Prompt, state: Tensor, k: int) -> Tensor:
        """Every prefix's last row after one more look at its examples."""
        examples = self._examples(prompt)  # (B, k, n, d + 1)
        scores = self.scores((state @ self.query_key @ examples.mT).tril(-1))  # (B, k, n, n)
        taken = self.taken(scores @ examples @ self.value_output)  # (B, k, n, d + 1)
        return self.rows(state - self.log_step_size.exp() * taken)

    def outputs(self, prompt: Prompt, state: Tensor) -> Tensor:
        """-x . q, at x_i (B, n, k) or at the queries (B, n, q, k)."""
        weights = self._weights(state)[:, -prompt.asked.shape[1] :]  # (B, n or 1, d, k)
        answers = prompt.asked.to(weights) @ weights  # (B, n or 1, q, k)
        return answers.squeeze(2) if prompt.queries is None else answers

    def weights(self, prompt: Prompt, state: Tensor | None = None) -> Tensor:
        """-q of each prefix: (B, n, d, k) in float64."""
        if state is None:
            *_, state = iterate(self, prompt)
        return self._weights(state).double()

    @property
    def hidden_states(self) -> HiddenStates[Tensor]:
        """The last row of each prefix, those of several outputs side by side: (B, n, k (d + 1)).

        The last row of prefix i is token i; it knows the examples before x_i. What is read are the
        products whose sum is -x . q, coordinate by coordinate: (B, n[, q], d k).
        """

        def products(prompt: Prompt, state: Tensor) -> Tensor:
            weights = self._weights(state)[:, -prompt.asked.shape[1] :]  # (B, n or 1, d, k)
            asked = prompt.asked.to(weights)  # (B, n, q, d)
            each = (asked[..., None] * weights[:, :, None]).flatten(3)  # (B, n, q, d k)
            return each.squeeze(2) if prompt.queries is None else each

        return HiddenStates(
            features=lambda prompt, state: state.transpose(1, 2).flatten(2),
            input_tokens=lambda prompt: range(prompt.points),
            readout_inputs=products,
        )

    @property
    def components(self) -> Components:
        """One head and the last rows at every loop; the last row of prefix i is token i."""

        def taps(k: int, steps: int) -> list[Tap]:
            if not 0 <= k < steps:
                return []
            return [
                Tap(place=Place("pattern", k), module=self.scores, put=None),
                Tap(
                    place=Place("head", k), module=self.taken,
                    get=lambda rows: rows.transpose(1, 2).flatten(2)[:, :, None],  # (B, n, 1, k s)
                    put=lambda rows, new: new.reshape(rows.transpose(1, 2).shape).transpose(1, 2),
                ),
                Tap(
                    place=Place("residual", k), module=self.rows,
                    get=lambda rows: rows.transpose(1, 2).flatten(2),  # (B, n, k (d + 1))
                    put=lambda rows, new: new.reshape(rows.transpose(1, 2).shape).transpose(1, 2),
                ),
            ]  # fmt: skip

        return Components(taps=taps, complete=True)

    @property
    def moving(self) -> MovingPart[Tensor]:
        """The last rows."""
        return MovingPart(self.name, lambda state: state, lambda state, moving: moving)

    def redraw(self, *, spread: Spread, generator: torch.Generator) -> None:
        """Nothing: its first weights are its own, whatever the spread of others."""

    def matrices(self) -> list[nn.Parameter]:
        """Q and P."""
        return [self.query_key, self.value_output]

    def _examples(self, prompt: Prompt) -> Tensor:
        """x_j and y_j in a row, for each output: (B, k, n, d + 1)."""
        xs = prompt.xs.to(self.query_key)[:, None]  # (B, 1, n, d)
        ys = prompt.ys.to(self.query_key).mT[..., None]  # (B, k, n, 1)
        return torch.cat([xs.expand(-1, prompt.outputs, -1, -1), ys], dim=-1)

    def _weights(self, state: Tensor) -> Tensor:
        """-q of each prefix: (B, n, d, k)."""
        return -state[..., :-1].permute(0, 2, 3, 1)
