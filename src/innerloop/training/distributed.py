"""Several processes that train one run: `torchrun --nproc-per-node 4 -m innerloop train ..`.

Every process holds the whole model. At each step it draws all prompts and computes its rows of
them; the gradients of all are added up, so that all take the same step. The first process alone
writes. Whatever decides how training goes on (a loss, an error, a signal) is agreed on, so that no
process waits for another that has left.
"""

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.core.prompt import Prompt

Item = TypeVar("Item")

SET_BY_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_SAID = "innerloop/said"
"""Counts the processes that had something to say in the end: the first of them says it."""


class LostProcessError(InnerloopError):
    """Training that cannot go on, since one of its processes has ended."""


@dataclass(frozen=True, slots=True)
class Processes:
    """Those that train a run together, as one of them sees it; by default there is no other."""

    rank: int = 0
    """This one, from 0."""
    number: int = 1
    local: int = 0
    """This one among those on its machine: which GPU is its own."""

    @property
    def first(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    def device(self, name: str) -> str:
        """The device that this process computes on, where the run's is called `name`."""
        if self.number == 1 or not name.startswith("cuda"):
            return name
        if name != "cuda":
            raise ConfigurationError(
                f"device is {name!r}, but {self.number} processes take a GPU each: set device=cuda."
            )
        return f"cuda:{self.local}"

    def require_shareable(self, prompts: int, device: str) -> None:
        """Refuse prompts of a step, or a device, that the processes cannot divide among them."""
        self.device(device)
        if prompts % self.number:
            fewer = max(k for k in range(1, self.number) if prompts % k == 0)
            raise ConfigurationError(
                f"a step has {prompts} prompts (batch times accumulate), which {self.number} "
                f"processes cannot share equally: start {fewer} of them, or change batch."
            )

    def rows(self, prompt: Prompt) -> Prompt:
        """The rows of all prompts of a step that are this process's."""
        if self.number == 1:
            return prompt
        each = prompt.batch // self.number
        return prompt.select(slice(self.rank * each, (self.rank + 1) * each))

    def some(self, items: Iterable[Item]) -> list[Item]:
        """Those of the items that this process works on."""
        return list(items)[self.rank :: self.number]

    def total(self, *numbers: float) -> list[float]:
        """The sums of numbers over all processes."""
        if self.number == 1:
            return list(numbers)
        sums = torch.tensor(numbers, dtype=torch.float64)  # (numbers,)
        _talk(lambda: distributed.all_reduce(sums))
        return sums.tolist()

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in one of the processes."""
        return self.total(float(flag))[0] > 0

    def wait(self) -> None:
        """Go on when all have come here."""
        self.any(False)

    def add_up(self, parameters: Sequence[Tensor], loss: Tensor) -> Tensor:
        """Put the sums over all processes in the place of gradients; return that of the loss ().

        Parameters without a gradient have none in any process, since all run the same model.
        """
        if self.number == 1:
            return loss
        gradients = [each.grad for each in parameters if each.grad is not None]
        flat = [gradient.flatten() for gradient in gradients]
        # All in one message: many small ones would wait for each other.
        sums = torch.cat([*flat, loss.to(flat[0]).view(1)])  # (numbers of all gradients + 1,)
        _talk(lambda: distributed.all_reduce(sums))
        start = 0
        for gradient in gradients:
            end = start + gradient.numel()
            gradient.copy_(sums[start:end].view_as(gradient))
            start = end
        return sums[-1]

    def from_first(self, make: Callable[[], Any]) -> Any:
        """What `make` returns in the first process, which alone calls it: tensors, plain values."""
        if self.number == 1:
            return make()
        buffer = io.BytesIO()
        if self.first:
            torch.save(make(), buffer)
        size = torch.tensor([len(buffer.getbuffer())])  # (1,)
        _talk(lambda: distributed.broadcast(size, src=0))
        content = torch.zeros(int(size), dtype=torch.uint8)  # (bytes,)
        if self.first:
            content.copy_(torch.frombuffer(buffer.getbuffer(), dtype=torch.uint8))
        _talk(lambda: distributed.broadcast(content, src=0))
        return torch.load(io.BytesIO(content.numpy().tobytes()), weights_only=True)

    def require_same(self, what: str, mine: str | None, advice: str) -> None:
        """Raise, in all processes, where one of them has another text than the first."""
        if self.number > 1 and self.any(self.from_first(lambda: mine) != mine):
            raise InnerloopError(
                f"{what} is not the same in all {self.number} processes: {advice}."
            )

    def require_same_weights(self, model: nn.Module, step: int) -> None:
        """Raise, in all processes, where their copies of the model have drifted apart."""
        if self.number > 1:
            self.require_same(
                f"the model at step {step}", _digest(model),
                "give all the same kind of machine and as many threads",
            )  # fmt: skip


ALONE = Processes()
"""A process that trains by itself."""


@contextmanager
def joined(environment: dict[str, str] | None = None) -> Iterator[Processes]:
    """The processes that torchrun has started, of which this is one; without torchrun, it alone.

    They leave together. Where one fails the others cannot go on: an error that all of them raise,
    or raise because of the one, comes out of one of them; the others end without a word.
    """
    known = os.environ if environment is None else environment
    if known.get("WORLD_SIZE", "1") == "1":
        yield ALONE
        return
    missing = [name for name in SET_BY_TORCHRUN if not known.get(name)]
    if missing:
        raise ConfigurationError(
            f"WORLD_SIZE is {known['WORLD_SIZE']}, but {missing[0]} is not set: start with "
            "torchrun, which sets both, or unset WORLD_SIZE."
        )
    store, processes = _join(int(known.get("LOCAL_RANK", "0")))
    try:
        yield processes
        processes.wait()
    except BaseException as error:
        if _said_before(store) and isinstance(error, InnerloopError):
            raise SystemExit(2) from None
        raise
    distributed.destroy_process_group()


def _join(local: int) -> tuple[Store, Processes]:
    """Meet the others; what they share beside their messages, and who they are."""
    gpus = torch.cuda.is_available() and distributed.is_nccl_available()
    try:
        store, rank, number = next(rendezvous("env://"))
        if gpus:
            torch.cuda.set_device(local)
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if gpus else "gloo", store=store, rank=rank, world_size=number
        )
    except (RuntimeError, ValueError) as error:
        raise LostProcessError(
            f"the processes of this training do not find each other ({_in_one_line(error)}): start "
            "all of them with torchrun, and see that they reach MASTER_ADDR."
        ) from error
    return store, Processes(rank, number, local)


def _talk(exchange: Callable[[], Any]) -> None:
    """Exchange tensors with the other processes; a LostProcessError where one is gone."""
    try:
        exchange()
    except RuntimeError as error:
        raise LostProcessError(
            "another process of this training has ended, or cannot be reached: give the same "
            "command again, and it goes on from the last checkpoint."
        ) from error


def _said_before(store: Store) -> bool:
    """Whether another process has said why all of them end."""
    try:
        return store.add(_SAID, 1) > 1
    except RuntimeError:  # the store has gone with the process that kept it
        return False


def _digest(model: nn.Module) -> str:
    """A hash of all weights."""
    digest = hashlib.sha256()
    for weight in model.state_dict().values():
        digest.update(weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _in_one_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
