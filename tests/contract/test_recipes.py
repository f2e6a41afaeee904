"""The contract on the models that recipes make, in the type that they are trained in."""

import pytest
import torch

import innerloop as il
from innerloop.models.model import AnyModel
from innerloop.training.config import RunConfig
from innerloop.training.recipes import RECIPES, find_recipe
from innerloop.training.trainer import first_model

MODELS = {
    config.model: (name, config)
    for name, config in reversed([(name, find_recipe(name, "smoke")) for name in RECIPES])
}
"""The first recipe of each model: several train the same one on another task."""


def check(model: AnyModel, config: RunConfig, dtype: torch.dtype = torch.float64) -> None:
    form = config.task.form
    assert model.dtype == torch.float32
    il.check_learner(
        model, dims=form.dims, points=config.points, outputs=(form.outputs,), layout=form.layout,
        dtype=dtype,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "config"), MODELS.values(), ids=[n for n, _ in MODELS.values()])
def test_models_of_recipes_keep_the_contract(name: str, config: RunConfig) -> None:
    check(first_model(config), config)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["looped-linear", "standard-linear"])
def test_trained_models_keep_the_contract(
    name: str, dtype: torch.dtype, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = il.training.recipe(name, scale="smoke")
    store = tmp_path_factory.getbasetemp() / "contract-runs"  # each is trained once
    check(il.train(config, store=store).model(), config, dtype=dtype)
