"""Ridge regression by Sherman-Morrison updates, one example after the other."""

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.chunks import map_prompts, rows_within_budget
from innerloop.core.config import STRICT
from innerloop.core.errors import RangeError
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.prefix import LinearLearner, tensor_bytes

DIGITS = 1e12
"""|X|^2 / penalty up to which some digits are right: its product with eps is how far weights are
off, relative to their size."""


@dataclass(frozen=True, config=STRICT)
class ShermanMorrison(LinearLearner[Tensor]):
    """Ridge by rank-one updates, example by example.

    Recursive least squares: keep P = (X'X + penalty I)^-1 and move it by each example (x, y). With
    g = P x / (1 + x.P x): w <- w + g (y - x.w) and P <- P - g (P x)', from w = 0 and P = I /
    penalty. Equal to ridge at every prefix (Akyurek et al. 2022, theorem 2), up to rounding that
    grows as |X|^2 / penalty. Where that leaves fewer than three digits the prompt is refused: for
    tiny penalties use `Ridge`.
    """

    penalty: float = Field(gt=0, allow_inf_nan=False, description="what |w|^2 is multiplied by")

    traits = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)

    def init(self, prompt: Prompt) -> Tensor:
        """The weights of each prefix: (B, n, d, k)."""
        self._require_digits(prompt)
        size = tensor_bytes(3 * prompt.dims + 2 * prompt.points * prompt.outputs, prompt.dims)
        return map_prompts(self._run, prompt, rows=rows_within_budget(size))

    def _require_digits(self, prompt: Prompt) -> None:
        """Refuse prompts whose rounding swamps the answer."""
        scaled = prompt.xs[:, :-1].double() / self.penalty**0.5  # (B, n - 1, d)
        ratios = scaled.square().sum(dim=(1, 2))  # (B,): |X|^2 / penalty
        swamped = ~(ratios < DIGITS)  # (B,)
        if bool(swamped.any()):
            b = int(torch.nonzero(swamped)[0])
            raise RangeError(
                f"{self.name} has no digits left on prompt {b} of {prompt.batch}, where |X|^2 / "
                f"penalty is {float(ratios[b]):.1e} and rounding grows with it: take a larger "
                "penalty, smaller inputs, or Ridge."
            )

    def _run(self, prompt: Prompt) -> Tensor:
        # Prompts last: every operation is then one pass over contiguous memory.
        xs = prompt.xs.double().permute(1, 2, 0).contiguous()  # (n, d, B)
        ys = prompt.ys.double().permute(1, 2, 0).contiguous()  # (n, k, B)
        points, dims, batch = xs.shape
        weights = xs.new_zeros(points, dims, prompt.outputs, batch)  # (n, d, k, B)
        identity = torch.eye(dims, dtype=xs.dtype, device=xs.device)  # (d, d)
        p = (identity / self.penalty)[:, :, None].repeat(1, 1, batch)  # (d, d, B)
        scratch = torch.empty_like(p)  # (d, d, B); fresh memory would cost more than the work
        for i in range(points - 1):
            x = xs[i]  # (d, B)
            px = torch.mul(p, x, out=scratch).sum(dim=1)  # (d, B)
            gain = px / (1 + (x * px).sum(dim=0))  # (d, B)
            surprise = ys[i] - (x[:, None] * weights[i]).sum(dim=0)  # (k, B)
            torch.addcmul(weights[i], gain[:, None], surprise, out=weights[i + 1])
            p.addcmul_(gain[:, None], px, value=-1)
        return weights.permute(3, 0, 1, 2)
