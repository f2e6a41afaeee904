# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Train and watch
#
# A *looped* transformer applies one block again and again to its own output. Trained on random
# linear functions, it learns to fit a linear model to the examples in its prompt, and every loop
# looks like a step of an iterative algorithm. We train one from scratch in about a minute, watch it
# work, and ask which algorithm it has learned.

# %%
# %matplotlib inline
import torch

import innerloop as il

# %% [markdown]
# ## The problem
#
# A prompt is a new problem: a weight vector $w$ is drawn, and the model sees
# $x_0, y_0, x_1, y_1, \dots$ with $y_j = w \cdot x_j$. At every $x_j$ it must say $y_j$ from the
# examples before. Nobody tells it $w$, and no two prompts have the same one.

# %%
task = il.tasks.LinearRegression(dims=3)
prompts = task.sample(4, 9, generator=torch.Generator().manual_seed(0))
print("xs", tuple(prompts.xs.shape), "ys", tuple(prompts.ys.shape))  # (prompts, points, numbers)
print("the weights of the first prompt:", prompts.truth["w"][0, :, 0].numpy().round(2))

# %% [markdown]
# ## Train
#
# A recipe is a complete configuration with a name. We take the one of looped transformers on linear
# functions (Yang et al. 2024) and make it smaller: 3 dimensions, 8 examples, 10 loops. The loss is
# that of the last 5 loops. `il.train` keeps its runs in a folder; asked again, it answers at once.

# %%
config = il.training.recipe(
    "looped-linear", points=9, steps=700, window=5, threads=1,
    **{"task.dims": 3, "model.backbone.loops": 10},
)  # fmt: skip
run = il.train(config)
model = run.model()
print(f"{model.name}: {sum(p.numel() for p in model.parameters()):,} weights, one block")

# %%
il.analysis.drawing.draw_training(run.metrics(), title="the error while it trains")

# %% [markdown]
# ## By example
#
# How well does it predict after so many examples? Beside it: least squares, which is exact here as
# soon as there are as many examples as dimensions (3), and as many steps of gradient descent as the
# model has loops. An error of 1 is that of always answering zero.

# %%
descent = il.learners.GradientDescent(model.steps)
by_example = il.analysis.error_curve(
    [model, il.learners.OLS(), descent], task, points=9,
    labels=["looped transformer", "least squares", "gradient descent"],
)  # fmt: skip
il.analysis.draw_error_curve(by_example, title="error by number of examples")

# %% [markdown]
# ## By loop, and beyond
#
# The same readout can be applied after every loop. So we see the prediction improve while the model
# thinks, and we can let it think five times longer than it was trained to.

# %%
by_loop = il.analysis.error_curve(
    [model, il.learners.GradientDescent(50)], task, points=9, by="step", steps=50,
    labels=["looped transformer", "gradient descent"],
)  # fmt: skip
il.analysis.draw_error_curve(
    by_loop, title="error by loop", scale="log", place=(model.steps, "loops in training")
)

# %% [markdown]
# The model does most of its work between the third and the eighth loop, and there it is quicker
# than gradient descent. Beyond the tenth, where training stopped, its curve stays flat: it has not
# learned ten different steps, but one step that leads to a fixed point. Gradient descent has no
# such floor: it overtakes the model, because it goes on for as long as it is run.
#
# ## Which algorithm is it?
#
# `identify` fits every algorithm that it knows to the model's predictions, names the closest, and
# then changes the prompts to see where that still holds. All numbers are parts of the model's own
# predictions that are left unexplained; up to 5% counts as an explanation.

# %%
answer = il.analysis.identify(model, task, points=9, prompts=128)
print(answer.summary())

# %%
il.analysis.draw_identification(answer)

# %% [markdown]
# Left: the candidates, closest first. Middle: the answer under shifts, with the parameters that
# were fitted without a shift. Right: which iteration of Newton's method and of gradient descent
# each loop is most similar to.

# %%
for shift, left, holds in answer.tried[["shift", "unexplained", "holds"]].itertuples(index=False):
    print(f"{shift:20} {left:6.1%}  {'holds' if holds else 'does not hold'}")

# %% [markdown]
# ## What we have seen
#
# - One block, applied again and again, has learned to solve least-squares problems that it sees for
#   the first time: after 8 examples its error is below 0.05, where answering zero has 1.
# - Its loops lead to a fixed point: run five times longer than in training, its error stays.
# - On prompts like those of training it predicts as ridge regression with a small penalty does, up
#   to a few percent. With noisy labels it does not, and no other algorithm explains it there: it is
#   a good imitation within its world, not the algorithm itself.
#
# The demo of the command line, `innerloop demo`, does the same at a larger size, and
# *Patch a loop* looks inside this very model.

# %%
model_error, descent_error = (
    by_loop[by_loop["learner"] == label].set_index("step")["mean"]
    for label in ("looped transformer", "gradient descent")
)
assert model_error[10] < 0.05
assert model_error[50] < 2 * model_error[10]
assert descent_error[50] < model_error[50]
assert "Ridge" in {answer.family, *answer.equivalents}
assert not answer.shifts.set_index("shift").loc["noise 1", "holds"]
