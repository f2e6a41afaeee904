import numpy as np
import pytest
import torch

import innerloop as il
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import PUBLIC_CODE
from innerloop.learners.averaging import Averaging
from tests.learners.references import linear_prompt, normal


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_is_the_mean_of_outputs_times_inputs(seed: int) -> None:
    prompt = linear_prompt(seed, normal(seed, 3, 41, 20), outputs=2)
    weights = Averaging().weights(prompt)  # (B, n, d, k)
    assert not weights[:, 0].any()
    for i in range(1, 41):
        mean = (prompt.xs[:, :i, :, None] * prompt.ys[:, :i, None]).mean(dim=1)  # (B, d, k)
        torch.testing.assert_close(weights[:, i], mean)


def test_public_code(reference: dict[str, np.ndarray]) -> None:
    prompt = Prompt.from_arrays(reference["xs"], reference["ys"])
    answer = il.predict(Averaging(), prompt)[..., 0].numpy()
    np.testing.assert_allclose(answer, reference["averaging"], rtol=0, atol=PUBLIC_CODE)
