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
# # Your own model
#
# You have a PyTorch model that learns in context, trained by code of your own, and want to know
# which algorithm it runs. Here the model is a small GPT and the training loop is plain PyTorch.
# innerloop enters afterwards, with one line: `il.wrap`.

# %%
# %matplotlib inline
import copy

import pandas as pd
import torch
from torch import nn

import innerloop as il
from innerloop.analysis.drawing import draw_curves, legend, level, name, panels

torch.set_num_threads(1)  # the model is small, and the numbers are the same on every machine

# %% [markdown]
# ## A GPT, and how it reads a prompt
#
# A token is the question $x_j$ together with the example before it, $x_{j-1}$ and $y_{j-1}$. The
# model predicts $y_j$ at every token, and its causal mask keeps it from looking ahead.


# %%
class GPT(nn.Module):
    def __init__(self, inputs, width=64, heads=4, layers=3, tokens=8):
        super().__init__()
        self.read_in = nn.Linear(inputs, width)
        self.places = nn.Parameter(0.02 * torch.randn(tokens, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.norm, self.read_out = nn.LayerNorm(width), nn.Linear(width, 1)

    def forward(self, tokens):  # (prompts, points, inputs)
        points = tokens.shape[1]
        later = torch.ones(points, points, dtype=torch.bool).triu(1)
        hidden = self.read_in(tokens) + self.places[:points]
        for block in self.blocks:
            hidden = block(hidden, src_mask=later)
        return self.read_out(self.norm(hidden))  # (prompts, points, 1)


def tokens_of(prompt):
    examples = torch.cat([prompt.xs, prompt.ys], dim=2)  # (prompts, points, d + 1)
    before = torch.cat([torch.zeros_like(examples[:, :1]), examples[:, :-1]], dim=1)
    return torch.cat([prompt.xs, before], dim=2)  # (prompts, points, 2 d + 1)


# %% [markdown]
# ## Train it, in plain PyTorch
#
# The problem is noisy linear regression in two dimensions, $y = w \cdot x + 0.5\,\epsilon$, with
# standard normal $w$, $x$ and $\epsilon$. The best possible answer is known: ridge regression with
# the penalty $0.5^2 = 0.25$. We keep a copy of the untrained model to compare with.

# %%
task = il.tasks.LinearRegression(dims=2, noise=0.5)
draw = torch.Generator().manual_seed(0)
torch.manual_seed(0)
model = GPT(inputs=5)
untrained = copy.deepcopy(model)

steps = 1000
optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps, pct_start=0.1)
for step in range(steps):
    prompt = task.sample(64, 8, generator=draw)
    loss = (model(tokens_of(prompt)) - prompt.ys).square().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if step % 250 == 0 or step == steps - 1:
        print(f"step {step}: loss {loss.item():.2f}")

# %% [markdown]
# ## One line
#
# `layers` names the modules whose outputs are the steps; `head` is what your model applies after
# the last of them; `prompts` turns a prompt into what your model reads. (Without it, `wrap` gives
# the model $x_0, y_0, x_1, y_1, \dots$ as tokens in turn.) From here on the GPT is a learner like
# ridge regression or a compiled circuit, and the same functions work on it.

# %%
learner = il.wrap(model, layers="blocks", head=["norm", "read_out"], prompts=tokens_of)
best = il.learners.Ridge(0.25)
errors = il.analysis.error_curve(
    [learner, best, il.learners.OLS()], task, points=8,
    labels=["your GPT", "ridge regression, penalty 0.25", "least squares"],
)  # fmt: skip
il.analysis.draw_error_curve(errors, title="error by number of examples, with noise")

# %% [markdown]
# Least squares believes the noise: with as many examples as dimensions (2) it fails. The GPT does
# not make that mistake. It stays close to the best possible curve, which is that of ridge
# regression.
#
# ## Which algorithm is it?
#
# Having the same error does not mean giving the same answers. `identify` compares predictions, one
# by one, with all algorithms that it knows, and then changes the distribution of the prompts.

# %%
answer = il.analysis.identify(learner, task, points=8, prompts=128)
print(answer.summary())

# %%
il.analysis.draw_identification(answer)

# %% [markdown]
# Nobody told the model how noisy the labels are. It has learned that from data: the penalty that
# fits its answers best is close to 0.25, the best possible one. The middle panel says where this
# holds. With inputs twice as large as in training it does not.
#
# ## What do the layers know?
#
# Two questions about the hidden states, layer by layer, each asked of the trained model and of its
# untrained copy. Left: can $X^\top y$, which ridge regression needs, be read from all tokens
# together by a linear probe? Right: can the answer be read from the token of the question, by a
# linear readout that is fitted for this layer?

# %%
blank = il.wrap(untrained, layers="blocks", head=["norm", "read_out"], prompts=tokens_of)
prompts, fresh = task.sample(4000, 8, generator=draw), task.sample(1000, 8, generator=draw)
ridge_probe = il.analysis.RidgeSettings()
figure, (first, second) = panels(2, size=(3.8, 3.0))
unread, answered = {}, {}
for label, subject in {"trained": learner, "untrained": blank}.items():
    probes = il.analysis.probe(
        subject, prompts, il.analysis.moment, at_prefixes=(7,), settings=ridge_probe
    )
    unread[label] = probes.relative.mean("examples").table().assign(label=label)
    readable = il.analysis.fit_readouts(subject, prompts)
    answered[label] = il.analysis.error(readable, fresh, task, by="step", label=label).table()
draw_curves(first, pd.concat(unread.values()), x="step", log=False)
draw_curves(second, pd.concat(answered.values()), x="step", log=False)
floor = float(il.analysis.error(best, fresh, task).interval().value[-1])
level(second, floor, label="ridge regression", colour="black")
for axes, title, y in (
    (first, "X'y, from all tokens", "part that a probe cannot read"),
    (second, "the answer, from the question", "squared error / E[y²]"),
):
    axes.set_ylim(0, 1.15)
    axes.set_xticks(range(4))
    name(axes, title=title, x="layer (0 is the embedding)", y=y)
legend(figure, (first, second))
figure

# %% [markdown]
# On the left the untrained copy is no worse: with examples in its tokens, any random network has
# products of $x$ and $y$ that a probe can add up. A probe that succeeds says nothing until it is
# compared with one on an untrained model. On the right training shows: it is the trained layers
# that bring the answer to where it is asked for.
#
# ## What we have seen
#
# - `il.wrap` is all that a model of your own needs, whatever its prompts look like.
# - This GPT is close to the best possible error at every number of examples.
# - Its answers are those of ridge regression with about the right penalty, up to a few percent, and
#   under most shifts; with larger inputs they are not.
#
# From here: `docs/own-model.md` has a GPT-2 of `transformers` and prompts of other forms.

# %%
mean = errors.set_index(["learner", "prefix"])["mean"]
for examples in range(8):
    ratio = mean["your GPT", examples] / mean["ridge regression, penalty 0.25", examples]
    assert ratio < 1.3
assert answer.family == "Ridge"
assert 0.15 < answer.parameters["penalty"] < 0.5
assert not answer.shifts.set_index("shift").loc["inputs x 2", "holds"]
assert unread["untrained"]["mean"].iloc[-1] < 0.5
assert answered["trained"]["mean"].iloc[-1] < 0.5 * answered["untrained"]["mean"].iloc[-1]
