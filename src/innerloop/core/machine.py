"""The machine that numbers were measured on, in one line, and the threads that it can have."""

import os
import platform
from pathlib import Path

import humanize
import torch

from innerloop.core.errors import ConfigurationError

_PROCESSORS = Path("/proc/cpuinfo")
_THREADS, _PER_CORE = 256, 4
"""What any machine may be asked for, and what a large one may."""


def describe_machine() -> str:
    """Processor, cores, memory, system and torch, as far as the system says."""
    parts = [_processor(), f"{_cores()} cores", _memory(), platform.system(), platform.machine()]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    parts += [f"Python {platform.python_version()}", f"torch {torch.__version__}"]
    return ", ".join(part for part in parts if part)


def require_threads(number: int) -> None:
    """Refuse far more threads than there are cores: nothing is quicker with them.

    Where the system has no room for them, they would end the process without a word.
    """
    cores = os.cpu_count() or 1
    most = max(_THREADS, _PER_CORE * cores)
    if number > most:
        raise ConfigurationError(
            f"threads is {number}, expected at most {most} on a machine with {cores} cores: take "
            "as many as it has cores."
        )


def multiplies_bfloat16() -> bool:
    """Whether the processor has units for products in bfloat16, by whatever name torch has."""
    return any(there for name, there in torch.cpu.get_capabilities().items() if "bf16" in name)


def _processor() -> str:
    """Its name; Linux has it in a file, other systems answer when they are asked."""
    if _PROCESSORS.is_file():
        for line in _PROCESSORS.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return " ".join(value.split())
    return platform.processor()


def _cores() -> int:
    """Those that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def _memory() -> str:
    if not hasattr(os, "sysconf"):  # Windows
        return ""
    return humanize.naturalsize(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
