"""All that determines a run, bit for bit."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field, FiniteFloat, model_validator

from innerloop.core.config import Config
from innerloop.core.errors import unknown
from innerloop.core.task import Task
from innerloop.models.settings import Spread
from innerloop.models.table import MODEL_CONFIGS, MODELS, ModelConfig
from innerloop.models.text import TextConfig
from innerloop.models.transformer import TransformerConfig
from innerloop.tasks.truncated import Truncated
from innerloop.training.curriculum import Curriculum, LoopSchedule
from innerloop.training.optimizer import PRESETS, Optimizer
from innerloop.training.task_field import TaskField, read_task, task_name

Precision = Literal["float32", "bfloat16"]
"""The type that the matrix products of a training are computed in."""
FOLLOWS_TASK = ("dims", "outputs", "points", "layout", "vocabulary", "classes")
"""Settings of a model that its task decides: left out, they are filled in."""
MOST_THREADS = 1024
"""No machine is quicker with more, and with far more the process is ended by its own threads."""
_CHANGES_NOTHING = {"save_every"}
"""Neither weights nor metrics depend on it; all other settings are part of the key."""


class RunConfig(Config):
    """A task, a model and how the one is trained on the other.

    The model's dims, outputs, points and layout follow the task where they are left out. An
    optimiser may be named: "paper" or "fast".
    """

    task: TaskField = Field(description="what is learned; name=.. and its settings")
    points: int = Field(ge=1, description="n: the examples of a prompt and its question")
    model: ModelConfig = Field(description="what learns")
    steps: int = Field(default=1000, ge=1, description="updates of the weights")
    batch: int = Field(default=64, ge=1, description="prompts that are computed at once")
    accumulate: int = Field(
        default=1, ge=1, description="batches whose gradients are averaged for one update"
    )
    seed: int = Field(default=0, ge=0, description="of the first weights and of the prompts")
    optimizer: Optimizer = Field(
        default_factory=Optimizer.fast, description="its settings, or paper, or fast"
    )
    spread: Spread = Field(
        default="fan-in", description="first weights: deviation 0.02, or by the inputs of each map"
    )
    identity_start: bool = Field(
        default=False,
        description="let each block begin as the identity: the maps that lead back from its "
        "attention and its MLP start at zero",
    )
    average: FiniteFloat | None = Field(
        default=None,
        gt=0,
        le=0.5,
        description="evaluate and keep a mean of the weights of the last steps: its age over the "
        "steps so far, such as 0.1; None: the weights themselves",
    )
    window: int | None = Field(
        default=None, ge=1, description="T: the last loops, whose losses count; None: all loops"
    )
    loops: LoopSchedule = Field(default_factory=LoopSchedule, description="how b grows")
    curriculum: Curriculum = Field(default_factory=Curriculum, description="how prompts grow")
    balance: bool = Field(
        default=False,
        description="let each position count by the inverse of its error: late ones, which can be "
        "answered, count more than early ones, which cannot",
    )
    label_smoothing: FiniteFloat = Field(
        default=0.0, ge=0, lt=1, description="the share of a target that all classes divide"
    )
    pool: int | None = Field(
        default=None, ge=1, description="number of distinct prompts; None: fresh ones at each step"
    )
    precision: Precision = Field(
        default="float32", description="type that matrix products are computed in"
    )
    compile: bool = Field(default=False, description="compile the blocks of the model")
    kernels: bool = Field(
        default=True, description="fused kernels where they are quicker, to the same numbers"
    )
    threads: int | None = Field(
        default=None,
        ge=1,
        le=MOST_THREADS,
        description="of the CPU; None: as many as torch has at the start",
    )
    device: str = Field(
        default="cpu", pattern=r"^(cpu|mps|cuda(:\d+)?)$", description="where it is computed"
    )
    log_every: int = Field(default=10, ge=1, description="steps between two lines of metrics")
    evaluate_every: int = Field(
        default=100, ge=1, description="steps between two errors on held-out prompts"
    )
    save_every: int = Field(default=200, ge=1, description="steps between two checkpoints")
    target: FiniteFloat | None = Field(
        default=None, gt=0, description="stop once the held-out error is below; None: never"
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        """Read the task and the optimiser's name, and let the model follow the task."""
        if not isinstance(values, Mapping):
            return values
        filled: dict[str, Any] = dict(values)
        if isinstance(filled.get("optimizer"), str):
            name = filled["optimizer"]
            if name not in PRESETS:
                raise ValueError(unknown("optimizer", name, PRESETS))
            filled["optimizer"] = PRESETS[name]()
        if "task" not in filled:
            return filled
        filled["task"] = read_task(filled["task"])
        model, points = filled.get("model"), filled.get("points")
        if isinstance(model, Mapping) and isinstance(points, int | str):
            known = {"kind": "transformer", **model}
            kind = MODEL_CONFIGS.get(str(known["kind"]))
            settings = {} if kind is None else kind.model_fields
            sizes = sizes_of(filled["task"], points)
            follows = {key: size for key, size in sizes.items() if key in settings}
            filled["model"] = {**follows, **known}
        return filled

    @model_validator(mode="after")
    def _check_parts(self) -> "RunConfig":
        for problem in (
            _misfit(self), _cannot_loop(self), _cannot_grow(self), _cannot_balance(self),
            _has_no_blocks(self),
        ):  # fmt: skip
            if problem is not None:
                raise ValueError(problem)
        return self

    @property
    def trained_loops(self) -> int | None:
        """The loops that the model is trained with in the end; None if it does not loop."""
        return self.model.trained_loops

    @property
    def model_type(self) -> type[Any]:
        """The class of its model."""
        return MODELS[self.model.kind]

    @property
    def task_name(self) -> str:
        """What the command line calls the task."""
        return task_name(self.task)

    def key(self) -> str:
        """16 hexadecimal digits that are the same for the same run, in any process.

        Settings at their defaults are left out: a setting that a later version adds, with a default
        that changes nothing, leaves the keys of earlier runs as they are. (A default that changes
        is noticed: the folder's configuration, which holds all values, no longer has its key.)
        """
        values = {
            name: value
            for name, value in _without_defaults(self).items()
            if name not in _CHANGES_NOTHING
        }
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_defaults(value: Any) -> Any:
    """A configuration in plain values without its defaults; its kind always stays."""
    if isinstance(value, BaseModel):
        fields = {
            name: getattr(value, name)
            for name, field in type(value).model_fields.items()
            if name == "kind"
            or getattr(value, name) != field.get_default(call_default_factory=True)
        }
        named = {"name": task_name(value)} if isinstance(value, Task) else {}
        return {**named, **{name: _without_defaults(part) for name, part in fields.items()}}
    if isinstance(value, list | tuple):
        return [_without_defaults(part) for part in value]
    return value


def sizes_of(task: Task, points: int | str) -> dict[str, Any]:
    """What a model must be made for to read prompts of a task, by the names in FOLLOWS_TASK."""
    form = task.form
    return {
        "dims": form.dims, "outputs": form.outputs, "points": points, "layout": form.layout,
        "vocabulary": form.vocabulary, "classes": form.classes,
    }  # fmt: skip


def _misfit(config: RunConfig) -> str | None:
    """Why the model cannot read the task's prompts."""
    sizes = sizes_of(config.task, config.points)
    for key, value in config.model:
        if key in sizes and value != sizes[key]:
            return (
                f"model.{key} is {value!r}, but {config.task_name} with {config.points} points "
                f"needs {sizes[key]!r}: leave it out, it follows the task"
            )
    most = config.task.most_points
    if most is not None and config.points > most:
        return f"points is {config.points}, expected at most {most} for {config.task_name}"
    growth = config.curriculum.points
    fewest = config.points if growth is None else min(growth.start, config.points)
    if fewest < config.task.form.fewest_points:
        return f"{config.task_name} scores none of the first {fewest} points: take more"
    if config.model.head == "binary" and not config.task.form.labels:
        return (
            f"model.head is 'binary', but the outputs of {config.task_name} are not labels -1 "
            "and 1: take 'regression'"
        )
    if config.model.head == "classes":
        return (
            "model.head is 'classes', which needs outputs that are one-hot classes, and no task "
            "has them yet: take 'regression', or 'binary' with the task classification"
        )
    if (config.model.head == "tokens") != bool(config.task.form.classes):
        wanted = "'tokens'" if config.task.form.classes else "another head, such as 'regression'"
        return (
            f"model.head is {config.model.head!r}, which does not fit the outputs of "
            f"{config.task_name}: take {wanted}"
        )
    if config.model.sees_answers and not config.task.form.asks_at_end:
        return (
            "model.backbone.mask is 'full': such a model would see the answers that it is trained "
            "to give, take 'causal'"
        )
    return None


def _cannot_loop(config: RunConfig) -> str | None:
    """Why the loss window or the schedule of loops makes no sense."""
    loops, start = config.trained_loops, config.loops.start
    if loops is None and (config.window is not None or start is not None):
        key = "window" if config.window is not None else "loops.start"
        return f"{key} is given, but the model does not loop: set {key}=null"
    if loops is None:
        return None
    if start is not None and start > loops:
        return (
            f"loops.start is {start}, expected at most the model's loops, {loops}: lower it, or "
            "set loops.start=null"
        )
    if not config.model.reinjects and config.window is not None and config.window < loops:
        return (
            f"window is {config.window} of {loops} loops, but without injection no gradient "
            "reaches the input through the loops before: set window=null"
        )
    return None


def _cannot_grow(config: RunConfig) -> str | None:
    """Why the curriculum makes no sense."""
    growths = {"dims": config.curriculum.dims, "points": config.curriculum.points}
    grown = [f"curriculum.{name}" for name, growth in growths.items() if growth is not None]
    if config.pool is not None and grown:
        return (
            f"pool is given with {' and '.join(grown)}, but a pool holds prompts of one size: set "
            f"pool=null, or {' and '.join(f'{key}=null' for key in grown)}"
        )
    if growths["dims"] is not None and Truncated.refusal(config.task) is not None:
        return (
            f"curriculum.dims is given, but {config.task_name} labels no inputs with a function, "
            "so that none of its dimensions can be left out: set curriculum.dims=null"
        )
    return None


def _cannot_balance(config: RunConfig) -> str | None:
    """Why positions cannot count by their errors."""
    if config.balance and config.model.head not in ("regression", "binary"):
        return (
            f"balance is true, but the losses of a {config.model.head!r} head are not those of "
            "positions, or may be negative: set balance=false"
        )
    return None


def _has_no_blocks(config: RunConfig) -> str | None:
    """Why the model cannot begin as the identity."""
    if config.identity_start and not isinstance(config.model, TransformerConfig | TextConfig):
        return (
            f"identity_start is true, but a model of kind {config.model.kind!r} has no such "
            "blocks: set identity_start=false"
        )
    return None
