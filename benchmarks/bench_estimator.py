"""`predict` of an estimator: 1000 questions in one pass after 128 examples, and one by one."""

import time

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.timing import Row, compare
from innerloop.core.iterate import predict
from innerloop.core.prompt import Prompt
from innerloop.estimators import InContextRegressor
from innerloop.estimators.source import open_source
from innerloop.models.pretrained import is_shipped
from innerloop.models.tabular import TabularConfig, TabularTransformer

QUESTIONS, EXAMPLES, FEATURES, PART = 1000, 128, 8, 10
Array = NDArray[np.float64]


def run() -> list[Row]:
    """The shipped model, or one of its size with random weights as long as there is none."""
    name = "tabular-regression"
    model = name if is_shipped(name) else TabularTransformer(TabularConfig())
    random = np.random.default_rng(0)
    xs = random.standard_normal((EXAMPLES, FEATURES))  # (m, d)
    ys = xs.sum(axis=1) + random.standard_normal(EXAMPLES)  # (m,)
    asked = random.standard_normal((QUESTIONS, FEATURES))  # (q, d)
    fitted = InContextRegressor(model).fit(xs, ys)
    some = asked[:PART]
    worst = float(np.abs(fitted.predict(asked)[:PART] - one_by_one(model, xs, ys, some)).max())
    if worst > 1e-8:
        raise AssertionError(f"one pass is {worst:.1g} off")
    seconds, processor = seconds_of(fitted, asked)
    row = compare(
        f"{QUESTIONS} questions after {EXAMPLES} examples, {FEATURES} features "
        f"({seconds:.2f} s, {processor:.2f} s of processor on {torch.get_num_threads()} threads)",
        lambda: fitted.predict(asked),
        lambda: one_by_one(model, xs, ys, some),
        target=50,
        repeats=3,
        share=PART / QUESTIONS,
    )
    return [row]


def seconds_of(fitted: InContextRegressor, asked: Array) -> tuple[float, float]:
    """The least seconds of three, and of processor time, with as many threads as torch has."""
    times: list[tuple[float, float]] = []
    for _ in range(3):
        start, used = time.perf_counter(), time.process_time()
        fitted.predict(asked)
        times.append((time.perf_counter() - start, time.process_time() - used))
    return min(times)


@torch.no_grad()
def one_by_one(model: object, xs: Array, ys: Array, asked: Array) -> Array:
    """As one does without: one pass per question, (q,)."""
    learner = open_source(model, "cpu").learner
    examples = Prompt.from_arrays(np.vstack([xs, xs[:1]]), np.append(ys, 0))  # (1, m + 1, d)
    asks = torch.as_tensor(asked)[:, None, None, None]  # (q, 1, 1, 1, d)
    return torch.stack([predict(learner, examples.ask(x)).flatten() for x in asks])[:, 0].numpy()
