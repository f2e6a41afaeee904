"""Memory stays bounded at 1280 prompts, d = 20, 101 points: each learner in its own process."""

import subprocess
import sys

import pytest

LIMIT = 4 * 2**30
"""Bytes, of the whole process: interpreter, torch and prompts included."""

MANY, FEW = 1280, 64
"""Learners that fit one model a prefix in a loop, or hold a network a prefix, get fewer prompts."""

LEARNERS = {
    "OLS()": MANY,
    "Ridge(0.1)": MANY,
    "Bayes(0.5)": MANY,
    "Averaging()": MANY,
    "GradientDescent(3)": MANY,
    "OnlineGradientDescent()": MANY,
    "Newton(3)": MANY,
    "ConjugateGradient(3)": MANY,
    "ShermanMorrison(0.1)": MANY,
    "Lasso(0.1)": MANY,
    "ElasticNet(0.1)": MANY,
    "KernelRidge(0.1)": MANY,
    "GaussianProcess(0.1)": MANY,
    "RandomFeatures(0.1)": MANY,
    "MomentumDescent(3)": MANY,
    "NearestNeighbors(3)": MANY,
    "GreedyTree()": MANY,
    "Boosting(rounds=2)": FEW,
    "NetworkByAdam(steps=3)": FEW,
    "FromFunction(lambda xs, ys: ys * 0)": FEW,
    "FromEstimator(Ridge_())": FEW,
}

PROGRAM = """
import resource, torch
from sklearn.linear_model import Ridge as Ridge_
import innerloop as il
from innerloop.learners import *
torch.set_num_threads(1)
prompt = il.tasks.LinearRegression(dims=20).sample(
    {prompts}, 101, generator=torch.Generator().manual_seed(0)
)
if {queries}:
    prompt = prompt.ask(prompt.xs[:, :, None].expand(-1, -1, {queries}, -1))
answer = il.predict({learner}, prompt)
assert answer.isfinite().all()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def peak(learner: str, prompts: int, queries: int = 0) -> int:
    program = PROGRAM.format(learner=learner, prompts=prompts, queries=queries)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)
def test_peak_memory(learner: str) -> None:
    assert peak(learner, LEARNERS[learner]) < LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["OLS()", "NearestNeighbors(3)"])
def test_peak_memory_with_queries(learner: str) -> None:
    # 64 prompts x 101 prefixes x 100 queries: the distances alone would be half a gigabyte at once.
    assert peak(learner, FEW, queries=100) < LIMIT
