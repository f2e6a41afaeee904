"""What the recipes train: each model of the papers on a family, at a scale.

At all sizes but the papers' by the `fast` optimiser; at the papers' by theirs, for a GPU.
"""

from typing import Any

from innerloop.models.backbone import Loop, Stack
from innerloop.tasks.truncated import Truncated
from innerloop.training.config import RunConfig
from innerloop.training.curriculum import Curriculum, Growth, LoopSchedule
from innerloop.training.families import Family, Scale
from innerloop.training.optimizer import Optimizer

STEADY = Optimizer.fast().model_copy(
    update={"matrix_rate": 0.02, "learning_rate": 3e-3, "warmup": 100}
)
"""For all but a single loop: at its rates the stack and the AlgoFormer stall."""
DEEP = STEADY.model_copy(update={"matrix_rate": 0.01})
"""For stacks that begin as the identity: at STEADY the error of twelve layers fell half as fast,
without that beginning as well (one seed each)."""
WIDE = Optimizer.fast().model_copy(update={"matrix_rate": 0.02})
"""For a loop of width 128: half of the error that 0.05 or 0.01 leave (one seed)."""
TABULAR = Optimizer.fast().model_copy(update={"matrix_rate": 0.02, "learning_rate": 3e-3})
"""For tables."""
REAL_TABLES = STEADY.model_copy(update={"matrix_rate": 0.01, "learning_rate": 2e-3})
"""For classes of real rows, which are noisy: at higher rates nothing is learned."""
TEXTS = Optimizer(
    learning_rate=1e-3, warmup=0.1, schedule="cosine", clip=1.0, weight_decay=0.1
)  # fmt: skip
"""For texts: about as good as Muon in one run of each, and simpler."""
ADAM = Optimizer(learning_rate=3e-3, warmup=100, schedule="cosine", clip=1.0)
"""For models that are no transformers: Muon is made for the blocks of one."""


def _blocks(family: Family, scale: Scale, heads: int | None = None) -> dict[str, Any]:
    """The shape of a block: width, heads and the activation of the papers' code."""
    size, activation = family.at(scale), "gelu-tanh" if scale == "paper" else "gelu"
    return {"width": size.width, "heads": heads or size.heads, "activation": activation}


def looped(family: Family, scale: Scale, *, ends: int = 0) -> RunConfig:
    """Yang et al.'s looped transformer, with so many layers before and after the loop."""
    size = family.at(scale)
    loop = Loop(**_blocks(family, scale), loops=size.loops, pre=ends, post=ends)
    single = WIDE if size.width >= 128 else Optimizer.fast()
    optimizer = STEADY if ends else single
    return _transformer(family, scale, loop, window=size.window, optimizer=optimizer)


def algoformer(family: Family, scale: Scale) -> RunConfig:
    """Gao et al.'s: a loop between a pre- and a post-transformer."""
    return looped(family, scale, ends=1)


def tied(family: Family, scale: Scale) -> RunConfig:
    """Shared weights without injection; every loop has a gradient, or the input would get none.

    All from the start, twelve loops do not learn at all: they grow.
    """
    loops = {"smoke": 4, "laptop": 12, "desk": 12, "paper": 20}[scale]
    loop = Loop(**_blocks(family, scale), loops=loops, inject="none")
    return _transformer(family, scale, loop)


def standard(family: Family, scale: Scale, *, heads: int | None = None) -> RunConfig:
    """A stack of GPT-2 blocks."""
    stack = Stack(**_blocks(family, scale, heads), layers=family.at(scale).layers)
    return _transformer(family, scale, stack)


def one_head(family: Family, scale: Scale) -> RunConfig:
    """The same with one head per layer."""
    return standard(family, scale, heads=1)


def akyurek(family: Family, scale: Scale) -> RunConfig:
    """16 layers of width 512 with 4 heads, y in a place of its own, cosine with a long warm-up."""
    if scale != "paper":
        return standard(family, scale)
    stack = Stack(width=512, heads=4, layers=16)
    model = {"kind": "transformer", "backbone": stack, "output_place": "own"}
    optimizer = Optimizer(learning_rate=1e-4, warmup=0.2, schedule="cosine")
    return _config(family, scale, model, optimizer=optimizer)


def lstm(family: Family, scale: Scale) -> RunConfig:
    """Fu et al.'s LSTM: ten layers of width 256."""
    width, layers = {"smoke": (16, 2), "laptop": (64, 4), "desk": (128, 10), "paper": (256, 10)}[
        scale
    ]
    model = {"kind": "lstm", "width": width, "layers": layers}
    optimizer = Optimizer.paper() if scale == "paper" else ADAM
    return _config(family, scale, model, optimizer=optimizer)


def linear_looped(family: Family, scale: Scale) -> RunConfig:
    """Chen et al.'s linear looped transformer, trained as no paper does."""
    model = {"kind": "linear-looped", "loops": family.at(scale).loops}
    return _config(family, scale, model, optimizer=ADAM)


def tabular(family: Family, scale: Scale) -> RunConfig:
    """A looped transformer over tables, features and rows as sets; as no paper has it."""
    size = family.at(scale)
    model = {
        "kind": "tabular",
        "head": "binary" if size.task.form.labels else "gaussian",
        "shape": {"width": size.width, "heads": size.heads, "loops": size.loops},
    }
    config = _config(
        family, scale, model, optimizer=TABULAR, window=size.window,
        loops=LoopSchedule(start=size.window, share=0.3),
    )  # fmt: skip
    # Half of the batch, since a table has many cells; and products in half the time.
    return config.model_copy(
        update={"batch": 32, "precision": "float32" if scale == "smoke" else "bfloat16"}
    )


def tables_looped(family: Family, scale: Scale) -> RunConfig:
    """One block in a loop on prompts from real tables."""
    return _on_tables(looped(family, scale), family, scale)


def tables_standard(family: Family, scale: Scale) -> RunConfig:
    """A stack on prompts from real tables, for as many steps as the loop."""
    return _on_tables(standard(family, scale), family, scale)


def _on_tables(config: RunConfig, family: Family, scale: Scale) -> RunConfig:
    """The paper's recipe at its size; at the others lower rates, and half of the batch."""
    if scale == "paper":
        return config
    changes = {"batch": 32, "optimizer": REAL_TABLES, "steps": family.at(scale).steps}
    return config.model_copy(update=changes)


def text_standard(family: Family, scale: Scale) -> RunConfig:
    """A stack of blocks with full attention over a text."""
    stack = Stack(**_blocks(family, scale), mask="full", layers=family.at(scale).layers)
    return _text(family, scale, stack)


def text_looped(family: Family, scale: Scale, *, ends: int = 0) -> RunConfig:
    """One block in a loop over a text, with so many layers before and after the loop."""
    size = family.at(scale)
    loop = Loop(**_blocks(family, scale), mask="full", loops=size.loops, pre=ends, post=ends)
    return _text(family, scale, loop, window=size.window)


def text_algoformer(family: Family, scale: Scale) -> RunConfig:
    """The same between a pre- and a post-transformer."""
    return text_looped(family, scale, ends=1)


def _text(
    family: Family, scale: Scale, backbone: Stack | Loop, *, window: int | None = None
) -> RunConfig:
    """A text's class: the paper's rate at its size; at the others TEXTS, with averaged weights.

    Texts are few, and models learn them by heart: words are hidden, hidden matrices decay.
    """
    paper = scale == "paper"
    optimizer = Optimizer(learning_rate=1e-3) if paper else TEXTS
    config = _config(
        family, scale, {"kind": "text", "backbone": backbone}, optimizer=optimizer, window=window
    )
    return config if paper else config.model_copy(update={"average": 0.1})


def _transformer(
    family: Family,
    scale: Scale,
    backbone: Stack | Loop,
    *,
    window: int | None = None,
    optimizer: Optimizer = STEADY,
) -> RunConfig:
    """The papers' optimiser at their size; at the others the given one, or DEEP."""
    paper, size = scale == "paper", family.at(scale)
    model = {
        "kind": "transformer",
        "backbone": backbone,
        # The papers put y in the place of x. In a place of its own it differs from x at once, and
        # training needs a third fewer steps.
        "output_place": "first" if paper or family.stream else "own",
        "head": "binary" if size.task.form.labels else "regression",
        "positions": family.positions,
    }
    # What gets its input once learns to change it from not changing it; a loop with injection does
    # not learn that way.
    identity = size.identity and not backbone.reinjects
    optimizer = DEEP if identity else optimizer
    if size.balanced:
        optimizer = optimizer.model_copy(update={"schedule": "trapezoid"})
    loops = None
    if backbone.trained_loops is not None:
        # Few loops at first; the papers start with as many as there are losses.
        loops = LoopSchedule(start=window if paper else 4, share=0.1 if paper else 0.6)
    # A step of a stack is cheaper than one of a loop, and it needs more of them.
    steps = 4 * family.laptop.steps // 3 if scale == "laptop" and loops is None else None
    config = _config(
        family, scale, model, optimizer=Optimizer.paper() if paper else optimizer, window=window,
        loops=loops, steps=steps,
    )  # fmt: skip
    return config.model_copy(
        update={
            "precision": size.precision, "balance": size.balanced, "identity_start": identity
        }
    )  # fmt: skip


def _config(
    family: Family,
    scale: Scale,
    model: dict[str, object],
    *,
    optimizer: Optimizer,
    window: int | None = None,
    loops: LoopSchedule | None = None,
    steps: int | None = None,
) -> RunConfig:
    """What does not depend on the model."""
    return RunConfig.model_validate(
        {
            "task": family.at(scale).task,
            "points": family.at(scale).points,
            "model": model,
            "steps": steps or family.at(scale).steps,
            "optimizer": optimizer,
            "spread": "small" if scale == "paper" else "fan-in",
            "window": window,
            "loops": loops or LoopSchedule(),
            **_batches(family.at(scale).points),
            "curriculum": _curriculum(family, scale, looped=loops is not None),
            **_rhythm(scale),
        }
    )


def _curriculum(family: Family, scale: Scale, *, looped: bool) -> Curriculum:
    """Few dimensions and points first, as in Garg et al. (2022); streams are always whole.

    So are tables, which draw their sizes themselves, and real ones, which have their features.
    """
    task, points = family.at(scale).task, family.at(scale).points
    dims = task.dims
    if family.stream or task.form.varies or Truncated.refusal(task) is not None:
        return Curriculum()
    if scale == "paper" and dims > 5:
        start, by = (11, 2) if points <= 41 else (26, 5)
        # Garg et al. say 2000, Yang et al. 5000.
        every = 5000 if looped else 2000
        return Curriculum(
            dims=Growth(start=5, by=1, every=every), points=Growth(start=start, by=by, every=every)
        )
    if scale == "desk" and dims > 10:
        # As many points as the dimensions need: short prompts are cheap, too. Twelve layers take
        # hundreds of steps to learn four dimensions.
        return Curriculum(
            dims=Growth(start=4, by=1, every=0.02, hold=0.1),
            points=Growth(start=9, by=2, every=0.02, hold=0.1),
        )
    if scale in ("laptop", "desk") and dims > 5:
        return Curriculum(dims=Growth(start=2, by=1, every=0.05))
    return Curriculum()


def _batches(points: int) -> dict[str, int]:
    """The papers' 64 prompts per step; in four parts where long ones would fill a memory."""
    return {"batch": 16, "accumulate": 4} if points > 200 else {"batch": 64, "accumulate": 1}


def _rhythm(scale: Scale) -> dict[str, int]:
    """How often a run reports, evaluates and saves."""
    return {
        "smoke": {"log_every": 5, "evaluate_every": 10, "save_every": 10},
        "laptop": {"log_every": 10, "evaluate_every": 50, "save_every": 250},
        "desk": {"log_every": 20, "evaluate_every": 100, "save_every": 100},
        "paper": {"log_every": 100, "evaluate_every": 1000, "save_every": 1000},
    }[scale]
