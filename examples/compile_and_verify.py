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
# # Compile and verify
#
# Several papers prove that a transformer *can* run gradient descent or Newton's method: they write
# down weights that do it. innerloop has these constructions as code. We compile two of them into
# real transformers, check them against the algorithms step by step, look at what their residual
# stream holds, and finally damage one weight to see that the check notices.

# %%
# %matplotlib inline
import copy

import torch

import innerloop as il
from innerloop.analysis.drawing import COLOURS, MARKERS, heatmap, level, name, panels, plain

task = il.tasks.LinearRegression(dims=3, dtype="float64")
prompts = task.sample(64, 8, generator=torch.Generator().manual_seed(0))  # 7 examples, a question

# %% [markdown]
# ## Two algorithms as weights
#
# `linear-attention` is gradient descent on the squared error (von Oswald et al. 2023): one layer of
# one head per step. `newton-relu` inverts $X^\top X$ by Newton's iteration $M \leftarrow 2M - MSM$
# (Fu et al. 2023). Nothing is trained: the weights follow from the algebra.

# %%
descent = il.circuits.compile("linear-attention", dims=3, points=8, steps=12, step_size=0.05)
newton = il.circuits.compile("newton-relu", dims=3, points=8, steps=12, start=0.001)
for circuit in (descent, newton):
    weights = sum(parameter.numel() for parameter in circuit.parameters())
    print(f"{circuit.name}: {circuit.blueprint.algorithm}, {weights} weights")

# %% [markdown]
# A circuit is a model like any other, so it can be evaluated like one. Look at the shapes: gradient
# descent is quick at first and then crawls; Newton's method starts slowly and then squares what is
# left at every step.

# %%
table = il.analysis.error_curve([descent, newton], task, points=8, by="step", prompts=128)
il.analysis.draw_error_curve(table, scale="log", title="two compiled transformers")

# %% [markdown]
# ## Are they the algorithms?
#
# `verify` compares a circuit with the classical learner before the first step and after each, at
# every prefix of every prompt. Each circuit states how far it may be off
# (`circuit.blueprint.bound(step)`). Exact constructions such as these promise $10^{-10}$, which
# leaves room for rounding and nothing else. (In the figure an error of exactly 0, as before the
# first step, is drawn at $10^{-17}$.)

# %%
checks = [
    il.analysis.verify(
        descent, il.learners.GradientDescent(12, step_size=0.05), prompts, tolerance=1e-10
    ),
    il.analysis.verify(newton, il.learners.Newton(12, start=0.001), prompts, tolerance=1e-10),
]
for check in checks:
    print(check)


# %%
def draw_checks(checks, title):
    """Largest error after every step, one line per check; an error of 0 is drawn at 1e-17."""
    figure, (axes,) = panels(1, size=(6.5, 3.4))
    for place, (label, check) in enumerate(checks.items()):
        rows = check.table()
        axes.plot(
            rows["step"], rows["error"].clip(lower=1e-17), color=COLOURS[place],
            marker=MARKERS[place], markersize=4, label=label,
        )  # fmt: skip
    level(axes, 1e-10, label="what the circuit promises", colour="black")
    axes.set_yscale("log")
    axes.set_ylim(3e-18, 1)
    plain(axes)
    name(axes, title=title, x="step", y="largest relative error")
    figure.legend(loc="outside right center", frameon=False, fontsize=8)
    return figure


draw_checks({check.circuit: check for check in checks}, "distance from the algorithm")

# %% [markdown]
# ## What is in the residual stream
#
# A compiled circuit knows where it keeps everything: its residual stream is divided into named
# *slots*. This circuit keeps no weight vector. Every token carries one number in the slot
# `residual`: at the token of $y_j$ what is left to explain, $y_j - w \cdot x_j$, and at the
# question minus the prediction. We run it on one prompt and read that slot after every step.

# %%
one = prompts.select(slice(0, 1))
slot = descent.slot_numbers("residual")
states = list(il.iterate(descent, one))
features = torch.stack([descent.hidden_states.features(one, state)[0] for state in states])
left = features[:, 1::2, slot[0]].detach()  # (13, 7): after each step, at each example

figure, (axes,) = panels(1, size=(6.5, 3.4))
heatmap(
    axes, left.abs().T.numpy(), rows=[f"y{j}" for j in range(7)], columns=range(13),
    limits=(0.0, float(left.abs().max())), bar="|y - w . x|",
)  # fmt: skip
name(axes, title="the slot 'residual' of one prompt", x="step", y="token")
figure

# %% [markdown]
# We can check that by hand: three lines of gradient descent on the seven examples.

# %%
xs, ys, w = one.xs[0, :7], one.ys[0, :7], torch.zeros(3, 1, dtype=torch.float64)
for step in range(13):
    assert torch.allclose(left[step], (ys - xs @ w)[:, 0], atol=1e-12)
    w = w + 0.05 * xs.T @ (ys - xs @ w)
print("the slot holds y - Xw after every step")

# %% [markdown]
# ## Break a weight
#
# A check that cannot fail is worth nothing. We change a single weight of the gradient step, by one
# part in a million, in a thousand, in ten, and verify again.

# %%
key = "backbone.blocks.0.attention.outward.weight"
algorithm = il.learners.GradientDescent(12, step_size=0.05)
broken = {}
for size in (0.0, 1e-6, 1e-3, 1e-1):
    damaged = copy.deepcopy(descent)
    with torch.no_grad():
        damaged.get_parameter(key).mul_(1 + size)  # one number of this matrix is not 0
    broken[size] = il.analysis.verify(damaged, algorithm, prompts, tolerance=1e-10)
print(broken[1e-6])
draw_checks(
    {f"changed by {size:g}" if size else "as compiled": broken[size] for size in broken},
    "one weight of the gradient step is wrong",
)

# %% [markdown]
# The error is proportional to the damage, and the report names the first step, prompt and prefix
# where it shows: step 1, since the damaged weight belongs to the block that every step runs.
#
# ## What we have seen
#
# - Both transformers *are* their algorithms, to rounding, at every step and prefix.
# - Their hidden states hold the quantities that the algorithm needs, in places with names.
# - `verify` tells them from a circuit in which one weight is off by a millionth.
#
# From here: `innerloop compile` lists all constructions, and `docs/circuit.md` shows how to add
# your own.

# %%
assert all(check.holds for check in checks)
assert broken[0.0].holds
assert not any(broken[size].holds for size in (1e-6, 1e-3, 1e-1))
assert broken[1e-6].failed.step == 1
