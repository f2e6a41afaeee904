"""Random tables: sizes, padding, labels, noise and determinism."""

from typing import Literal

import pytest
import torch

from innerloop.core.prompt import Prompt
from innerloop.tasks.table import TASKS
from innerloop.tasks.tabular_prior import FEWEST_EXAMPLES, TabularPrior
from tests.tasks.task_statistics import seeded


def drawn(number: int = 40, batch: int = 8, points: int = 33, **settings: object) -> list[Prompt]:
    task = TabularPrior.model_validate({"dims": 6, **settings})
    return [task.sample(batch, points, generator=seeded(seed)) for seed in range(number)]


def features_of(prompt: Prompt) -> torch.Tensor:
    """How many columns of each table are not zero, (B,)."""
    return (prompt.xs != 0).any(dim=1).sum(dim=1)


def test_tables_have_all_numbers_of_features_and_many_of_examples() -> None:
    prompts = drawn()
    features = {int(features_of(prompt).max()) for prompt in prompts}
    assert features == set(range(1, 7))
    examples = [prompt.points - 1 for prompt in prompts]
    assert min(examples) >= FEWEST_EXAMPLES
    assert max(examples) <= 32
    assert len(set(examples)) > 10


def test_features_that_are_missing_are_zeros_in_examples_and_questions() -> None:
    for prompt in drawn():
        width = int(features_of(prompt).max())
        assert prompt.dims == 6
        assert not prompt.xs[..., width:].any()
        assert prompt.queries is not None
        assert not prompt.queries[..., width:].any()


def test_questions_come_after_the_last_example_and_their_answers_are_the_truth() -> None:
    prompt = drawn(1, questions=7)[0]
    assert prompt.at_end
    assert prompt.queries is not None
    assert prompt.queries.shape == (8, 1, 7, 6)
    assert prompt.truth["query_ys"].shape == (8, 1, 7, 1)
    # The last point of the prompt is the first question.
    assert torch.equal(prompt.xs[:, -1], prompt.queries[:, 0, 0])
    assert torch.equal(prompt.ys[:, -1], prompt.truth["query_ys"][:, 0, 0])


def test_outputs_have_mean_0_and_variance_1_over_all_rows() -> None:
    for prompt in drawn(10):
        outputs = torch.cat([prompt.ys[:, :-1, 0], prompt.truth["query_ys"][:, 0, :, 0]], dim=1)
        torch.testing.assert_close(outputs.mean(dim=1), torch.zeros(8), atol=1e-4, rtol=0)
        torch.testing.assert_close(
            outputs.var(dim=1, correction=0), torch.ones(8), atol=1e-2, rtol=0
        )


def test_labels_are_two_classes_of_which_neither_is_rare() -> None:
    shares = []
    for prompt in drawn(20, labels=True):
        labels = torch.cat([prompt.ys[:, :-1, 0], prompt.truth["query_ys"][:, 0, :, 0]], dim=1)
        assert set(labels.unique().tolist()) == {-1.0, 1.0}
        shares.append((labels < 0).double().mean(dim=1))
        # A share of 0.2 to 0.8, up to the rounding of a row.
        assert 0.2 - 1e-9 <= float(shares[-1].min())
        assert float(shares[-1].max()) <= 0.8 + 1 / labels.shape[1]
    assert float(torch.cat(shares).std()) > 0.1


def test_tables_are_what_a_linear_fit_explains_more_or_less_of() -> None:
    explained = []
    for prompt in drawn(30, batch=16, points=129):
        xs, ys = prompt.xs[:, :-1].double(), prompt.ys[:, :-1].double()
        if prompt.points < 40:
            continue
        xs = torch.cat([xs, torch.ones_like(xs[..., :1])], dim=2)
        rest = ys - xs @ torch.linalg.pinv(xs) @ ys  # (B, m, 1)
        explained.append(1 - rest.square().mean(dim=1) / ys.var(dim=1, correction=0))
    share = torch.cat(explained)
    # Some tables are nearly linear, some are not linear at all, or noise.
    assert float(share.max()) > 0.9
    assert float(share.min()) < 0.2
    assert 0.1 < float((share > 0.5).double().mean()) < 0.9


def test_columns_are_of_several_kinds() -> None:
    few = skewed = total = 0
    for prompt in drawn(40, points=129):
        columns = prompt.xs[:, :-1].transpose(1, 2).flatten(0, 1).double()  # (B d, m)
        for column in columns[columns.abs().sum(dim=1) > 0]:
            total += 1
            few += len(column.unique()) <= min(9, len(column) - 1)
            skewed += abs(float((column - column.mean()).pow(3).mean() / column.std() ** 3)) > 1
    assert few > 0.05 * total
    assert skewed > 0.02 * total


def test_the_same_generator_draws_the_same_tables() -> None:
    task = TabularPrior(dims=4)
    one, two, other = (task.sample(3, 20, generator=seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(one.xs, two.xs)
    assert torch.equal(one.ys, two.ys)
    assert one.xs.shape != other.xs.shape or not torch.equal(one.xs, other.xs)


def test_what_is_held_out_has_one_number_of_examples_and_many_of_features() -> None:
    prompt = TabularPrior(dims=8).held_out(19, 129, generator=seeded(0))
    assert prompt.batch == 19
    assert prompt.points == 33
    assert set(features_of(prompt).tolist()) == set(range(1, 9))
    assert TabularPrior(dims=8).held_out(3, 11, generator=seeded(0)).points == 11


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_command_line_knows_it(dtype: Literal["float32", "float64"]) -> None:
    task = TASKS["tabular-prior"](dims=2, dtype=dtype)
    prompt = task.sample(2, 6, generator=seeded(0))
    assert prompt.xs.dtype == getattr(torch, dtype)
