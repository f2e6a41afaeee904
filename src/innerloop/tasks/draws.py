"""Random numbers from an explicit generator, on its device."""

import torch
from torch import Tensor


def normal(generator: torch.Generator, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(shape, generator=generator, dtype=dtype, device=generator.device)


def uniform(generator: torch.Generator, *shape: int) -> Tensor:
    """Numbers from [0, 1), in float64."""
    return torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device)


def signs(generator: torch.Generator, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """-1 or +1, with equal probability."""
    bits = torch.randint(2, shape, generator=generator, device=generator.device)
    return (2 * bits - 1).to(dtype)


def integers(generator: torch.Generator, low: int, high: int, *shape: int) -> Tensor:
    """Whole numbers from low to high - 1, each as likely as the others."""
    return torch.randint(low, high, shape, generator=generator, device=generator.device)
