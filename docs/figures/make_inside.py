"""The figure and the numbers of docs/inside.md: `python make_inside.py RUN`, a run of the demo.

`innerloop demo` leaves its run in demo/runs; it takes some minutes to train.
"""

import dataclasses
import sys
from pathlib import Path

import torch

import innerloop as il
from innerloop.analysis.drawing import save_small
from innerloop.training.run import Run

run = Run.open(Path(sys.argv[1]))
model, task = run.model(), run.config.task
draw = torch.Generator().manual_seed(1)
prompts, others = (task.sample(128, run.config.points, generator=draw) for _ in range(2))
relabelled = dataclasses.replace(prompts, ys=prompts.xs @ others.truth["w"], truth={})
outputs, inputs, asked = list(range(1, 20, 2)), list(range(0, 20, 2)), [20]
groups = [outputs, inputs, asked]

patterns = il.analysis.attention_patterns(model, prompts)
places = torch.tensor(outputs)
pairing = patterns.values[:, :, :, places, places - 1].mean(dim=(0, 3))  # (S, h)
print("weight of x_j where y_j looks, by loop and head", pairing[[0, 1, 5, 19]], sep="\n")
everywhere = il.analysis.ablate(model, prompts, task, span="all", tokens=groups)
print("intact", everywhere.intact.interval())
print("without a head at all loops, at y tokens, earlier x tokens, the asked one")
print(everywhere.errors.values.mean(dim=0)[0])
heads = il.analysis.ablate(model, prompts, task)
mlps = il.analysis.ablate(model, prompts, task, component="mlp")
print("without a head at one loop", heads.errors.values.mean(dim=0), sep="\n")
print("without the MLP at one loop", mlps.errors.values.mean(dim=0), sep="\n")
direct = il.analysis.direct_attribution(model, prompts)
print("direct shares", {name: part.values.mean(dim=0) for name, part in direct.shares.items()})
states = il.analysis.patch(model, prompts, relabelled, component="residual", tokens=groups)
print("restored by the states of y tokens, earlier x tokens, the asked one")
print(states.restored.values.mean(dim=0))
some, other = (one.select(slice(0, 64)) for one in (prompts, relabelled))
for steps, at in ((20, [0, 4, 7, 9, 12, 14, 17, 19]), (40, [4, 9, 14, 19])):
    whole = il.analysis.patch(
        model, some, other, component="residual", tokens="all", at_steps=at, steps=steps
    )  # fmt: skip
    print(f"squared movement by all states after loops {at} of {steps}")
    print(whole.moved.values.mean(dim=0))
later = il.analysis.ablate(model, some, task, at_steps=[4, 9, 14, 19], steps=40)
print("without a head at one loop, of 40; intact", later.intact.values.mean())
print(later.errors.values.mean(dim=0))
figure = il.analysis.draw_inside(patterns, heads, mlps, direct)
save_small(figure, Path(__file__).with_name("inside.png"))
