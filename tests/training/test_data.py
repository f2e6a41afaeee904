"""The prompts of a run."""

from typing import Any

import pytest
import torch

from innerloop.core.prompt import Prompt
from innerloop.tasks.linear import LinearRegression
from innerloop.tasks.truncated import Truncated
from innerloop.training.config import RunConfig
from innerloop.training.data import HELD_OUT, Prompts, generator_for, held_out
from tests.training.configs import stack, tiny


def same(one: Prompt, other: Prompt) -> bool:
    return torch.equal(one.xs, other.xs) and torch.equal(one.ys, other.ys)


def distinct(prompts: list[Prompt]) -> int:
    rows = torch.cat([torch.cat([p.xs, p.ys], dim=2).flatten(1) for p in prompts])  # (P, n (d + k))
    return len(rows.unique(dim=0))


def test_the_stream_depends_on_seed_step_and_rank_only() -> None:
    config = tiny()
    first = Prompts(config).at(3, draw=1)
    again = Prompts(config)
    again.at(0)
    assert same(again.at(3, draw=1), first)
    assert same(Prompts(tiny(optimizer="paper", steps=99)).at(3, draw=1), first)
    for other in (again.at(3), again.at(4, draw=1), Prompts(tiny(seed=1)).at(3, draw=1)):
        assert not same(other, first)


def test_purposes_do_not_share_their_numbers() -> None:
    seeds = {
        generator_for(seed, purpose, step, rank).initial_seed()
        for seed in range(3) for purpose in ("train", "pool", "weights")
        for step in range(3) for rank in range(3)
    }  # fmt: skip
    assert len(seeds) == 81


def test_accumulated_batches_are_one_larger_batch() -> None:
    assert same(Prompts(tiny(batch=4, accumulate=2)).at(1), Prompts(tiny(batch=8)).at(1))


def test_models_never_see_the_truth() -> None:
    assert Prompts(tiny()).at(0).truth == {}
    assert held_out(tiny()).truth == {}


def test_fewer_dimensions_are_zeros_with_labels_of_their_own() -> None:
    config = tiny(
        task={"name": "linear", "dims": 3}, steps=4, curriculum={"dims": {"start": 1, "every": 1}}
    )
    for step, active in enumerate([1, 2, 3, 3]):
        prompt = Prompts(config).at(step)
        assert (prompt.xs.flatten(0, 1).abs().sum(dim=0) > 0).tolist() == [
            place < active for place in range(3)
        ]
        generator = generator_for(config.seed, "train", step)
        expected = Truncated(task=LinearRegression(dims=3), active=active)
        assert same(prompt, expected.sample(4, 5, generator=generator))


def test_fewer_points() -> None:
    config = tiny(steps=4, curriculum={"points": {"start": 2, "by": 2, "every": 1}})
    assert [Prompts(config).at(step).points for step in range(4)] == [2, 4, 5, 5]


def test_a_pool_holds_exactly_so_many_prompts() -> None:
    config = tiny(pool=7, batch=16)
    prompts = Prompts(config)
    assert distinct([prompts.at(step) for step in range(20)]) == 7
    again = Prompts(config)
    assert same(again.at(2), prompts.at(2))
    assert not same(prompts.at(2), prompts.at(3))


def test_the_pool_is_that_of_the_seed() -> None:
    one, other = Prompts(tiny(pool=4)).pool, Prompts(tiny(pool=4, seed=1)).pool
    assert one is not None
    assert other is not None
    assert distinct([one, other]) == 8


def test_a_large_pool_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("innerloop.training.data._AT_ONCE", 8)
    config = stack(task={"name": "chain", "dims": 2, "layers": 2}, pool=21)
    pool = Prompts(config).pool
    assert pool is not None
    assert distinct([pool]) == 21
    assert pool.scored is not None
    assert pool.scored.shape == (21, 5)


@pytest.mark.parametrize("changes", [{"seed": 5}, {"batch": 7}, {"optimizer": "paper"}])
def test_held_out_prompts_are_the_same_for_all_runs_of_a_task(changes: dict[str, Any]) -> None:
    config: RunConfig = tiny(**changes)
    assert held_out(config).batch == HELD_OUT
    assert same(held_out(config), held_out(tiny()))
