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
# # Patch a loop
#
# Which head does what, at which loop, at which token? Four tools answer: attention patterns,
# ablation, activation patching and direct attribution. Before we trust them on a trained model, we
# use them on a compiled circuit, where the truth is known because we wrote it down.

# %%
# %matplotlib inline
import dataclasses

import pandas as pd
import torch

import innerloop as il
from innerloop.analysis.drawing import COLOURS, MARKERS, legend, name, panels, plain

# %% [markdown]
# ## A circuit, where the truth is known
#
# `newton-relu` runs four steps of Newton's method, $M \leftarrow 2M - MSM$. Its first layer pairs
# each $y_j$ with its $x_j$, the next makes $M_0$, four layers take the steps, and the last reads
# the answer at the question. Two heads together make the product $MSM$, one for each sign.
#
# First: who looks at whom? A row is a token that looks, a column one that is looked at.

# %%
circuit = il.circuits.compile("newton-relu", dims=3, steps=4, points=7, start=0.002)
exact = il.tasks.LinearRegression(dims=3, dtype="float64")
draw = torch.Generator().manual_seed(0)
clean, others = exact.sample(64, 7, generator=draw), exact.sample(64, 7, generator=draw)

patterns = il.analysis.attention_patterns(circuit, clean)
print("rows:", list(patterns.ticks["step"]))
il.analysis.draw_attention(patterns.at(step=[0], head=[0]))

# %% [markdown]
# Row `pre.0` is the layer that pairs: every $y_j$ looks at the token before it, and so gets its
# $x_j$.
#
# ## Ablation: what breaks without it?
#
# We silence the attention of one layer at a time. The algorithm predicts what must happen: without
# the attention of step $k$, that step becomes $M \leftarrow 2M$, and all others stay. We run
# Newton's method by hand with that one step replaced, and compare.

# %%
without = il.analysis.ablate(circuit, clean, exact, component="attention", kind="zero")
by_layer = dict(zip(without.errors.ticks["step"], without.errors.values.mean(dim=0), strict=True))


def newton_without(skipped):
    """The mean error of four Newton steps, of which one is M <- 2M."""
    xs, ys = clean.xs[:, :6], clean.ys[:, :6]
    gram = xs.mT @ xs  # (64, 3, 3): S
    inverse = 0.002 * gram  # M
    for step in range(4):
        product = 0 if step == skipped else inverse @ gram @ inverse
        inverse = 2 * inverse - product
    answer = clean.xs[:, 6:] @ inverse @ xs.mT @ ys  # (64, 1, 1)
    return (answer - clean.ys[:, 6:]).square().mean() / exact.scale()


print(f"intact {without.intact.values.mean():.4f}")
for step in range(4):
    ablated, by_hand = by_layer[str(step)], newton_without(step)
    print(f"without step {step}: {ablated:.4f} by ablation, {by_hand:.4f} by hand")
    assert torch.allclose(ablated, by_hand)

# %% [markdown]
# ## Patching: where is the answer?
#
# Two prompts with the same inputs and different labels have different answers. We run the circuit
# on the second, and at one place put in the hidden state that it has on the first. If the first
# answer comes back, that place carries what the labels say. 0 is the answer of the second prompt, 1
# that of the first.

# %%
relabelled = dataclasses.replace(clean, ys=clean.xs @ others.truth["w"], truth={})
states = il.analysis.patch(circuit, clean, relabelled, component="residual")
il.analysis.draw_places(states.restored, bar="share of the answer restored")

# %% [markdown]
# All there is to know about the labels stays at the tokens of the $y_j$, until the last layer moves
# it to the question `x6` in one go. That is Newton's method: $M$ inverts $X^\top X$, which no label
# enters, and only at the very end is it multiplied by $X^\top y$. We can patch the slot that holds
# $M x$ alone, and nothing at all must move:

# %%
slot = circuit.slot_numbers("M x")
only = il.analysis.patch(circuit, clean, relabelled, component="residual", numbers=slot)
print(f"moved by patching M x, at most: {only.moved.values.max():.0e}")

# %% [markdown]
# ## Direct attribution: who writes the answer?
#
# What the readout sees is a sum of what every part has added at this token. In this circuit only
# the two heads of the last layer write the answer, one for each sign. The rest has no direct share,
# although without any of it the answer is wrong: importance is not to be read off attributions.
# (White: the layer that pairs has one head only.)

# %%
direct = il.analysis.direct_attribution(circuit, clean)
il.analysis.draw_places(direct.shares["head"], bar="share of the answer")

# %% [markdown]
# ## A trained loop
#
# Now a model whose algorithm nobody wrote: one block, trained to fit linear functions in ten loops
# (about a minute; at once if the tutorial *Train and watch* was run in this folder).

# %%
config = il.training.recipe(
    "looped-linear", points=9, steps=700, window=5, threads=1,
    **{"task.dims": 3, "model.backbone.loops": 10},
)  # fmt: skip
model = il.train(config).model()
task = config.task
draw = torch.Generator().manual_seed(0)
prompts, others = task.sample(128, 9, generator=draw), task.sample(128, 9, generator=draw)
looped = il.analysis.attention_patterns(model, prompts)
il.analysis.draw_attention(looped, rows=[9])

# %% [markdown]
# Is there a head that pairs, as in the circuit? We measure how much every $y_j$ looks at its $x_j$.

# %%
outputs = torch.arange(1, 16, 2)  # the tokens y0 .. y7
pairing = looped.values[:, :, :, outputs, outputs - 1].mean(dim=(0, 3))  # (10, 4): loop, head
pairer = int(pairing[-1].argmax())
print("weight on its own x, by head, in the last loop:", pairing[-1].numpy().round(2))

# %% [markdown]
# Training has found the same first step by itself. And what breaks without each head? We take one
# head out of all loops, at one kind of token.

# %%
groups = {
    "y tokens": list(range(1, 16, 2)),
    "x tokens": list(range(0, 16, 2)),
    "the question": [16],
}
headless = il.analysis.ablate(model, prompts, task, span="all", tokens=list(groups.values()))
errors = headless.errors.values.mean(dim=0)[0]  # (4, 3): head, kind of token
intact = float(headless.intact.values.mean())
print(f"error of the whole model: {intact:.3f}; without a head:")
pd.DataFrame(errors, columns=list(groups), index=[f"head {h}" for h in range(4)]).round(3)

# %% [markdown]
# ## The same patch, on the loop
#
# The question that told most about the circuit, asked of the model: after which loop is what the
# labels say at the tokens of the examples, and when does it reach the question? We replace all $y$
# tokens at once, all $x$ tokens, or the question. Beside it stand two circuits: Newton's method and
# gradient descent.

# %%
descent = il.circuits.compile("linear-attention", dims=3, steps=10, points=7, step_size=0.06)
subjects = {
    "Newton's method, compiled": (circuit, clean, relabelled),
    "gradient descent, compiled": (descent, clean, relabelled),
    "the trained loop": (
        model, prompts, dataclasses.replace(prompts, ys=prompts.xs @ others.truth["w"], truth={})
    ),
}  # fmt: skip
figure, grid = panels(3)
journeys = {}
for axes, (title, (learner, first, second)) in zip(grid, subjects.items(), strict=True):
    asked = 2 * first.points - 2  # the last token
    kinds = [list(range(1, asked, 2)), list(range(0, asked, 2)), [asked]]
    patched = il.analysis.patch(learner, first, second, component="residual", tokens=kinds)
    rows = list(patched.restored.ticks["step"])
    journeys[title] = patched.restored.values.mean(dim=0)  # (rows, 3)
    for kind, (label, colour) in enumerate(zip(groups, COLOURS, strict=False)):
        axes.plot(journeys[title][:, kind], color=colour, marker=MARKERS[kind], label=label)
    axes.set_xticks(range(0, len(rows), 2), rows[::2])
    plain(axes, whole=False)
    name(axes, title=title, x="after layer or loop", y="share of the answer restored")
legend(figure, grid)
figure

# %% [markdown]
# In both circuits the hidden states are the memory: after every layer, what the $y$ tokens and the
# question carry adds up to the whole answer. Newton's method moves it at the end, gradient descent
# a part of what is left at every step.
#
# The trained loop is neither. States that are replaced at an early loop change nothing in the end:
# the prompt is added again at every loop, and the model computes what it needs from there. What
# comes from the labels arrives at the question late, and over several loops.
#
# If that is so, damage must heal. We take each head out of loop 9, the last of 10, and then out of
# the same loop when the model runs for 20.

# %%
for steps in (10, 20):
    damaged = il.analysis.ablate(model, prompts, task, at_steps=[9], steps=steps)
    damage = damaged.errors.values.mean(dim=0)[0]  # (4,)
    print(f"{steps} loops: {damaged.intact.values.mean():.3f} whole,", end=" ")
    print("without head 0, 1, 2, 3 at loop 9:", damage.numpy().round(3))
healed = damage

# %% [markdown]
# ## Who writes the answer of the loop?

# %%
shares = il.analysis.direct_attribution(model, prompts).shares
il.analysis.draw_places(shares["head"], limits=(0.0, 0.3), bar="share of the answer")

# %% [markdown]
# The last loop writes nearly everything, and the head that pairs almost nothing, although no other
# head is missed as much at the $y$ tokens. As in the circuit, what matters and what writes are two
# questions.
#
# ## What we have seen
#
# - On a circuit, ablation and patching return what the algorithm says, to rounding.
# - The trained loop has a head that pairs each $y$ with its $x$, as the circuit does. It is needed
#   at the $y$ tokens, and another head at the question.
# - Unlike the circuits, it keeps no memory between loops that it could not make again from the
#   prompt: states of early loops can be replaced, and damage heals within ten loops.
#
# From here: `docs/inside.md` has the same questions for a larger model, and
# `innerloop inspect RUN` asks them on the command line.

# %%
journey = journeys["the trained loop"]
for title in ("Newton's method, compiled", "gradient descent, compiled"):
    assert torch.allclose(journeys[title].sum(dim=1), torch.tensor(1.0, dtype=torch.float64))
assert only.moved.values.max() == 0
assert pairing[-1, pairer] > 0.7
assert int(errors[:, 0].argmax()) == pairer
assert int(errors[:, 2].argmax()) != pairer
assert journey[1:4].abs().max() < 0.2
assert healed.max() < 2 * intact
assert shares["head"].values.mean(dim=0)[-1].argmax() != pairer
