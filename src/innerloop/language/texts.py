"""Encoded texts as prompts: padded at the end, batched by length.

Shapes: N texts, B of them in a prompt, n tokens of the longest.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from innerloop.language.tokenizer import PAD

_BATCHES_AT_ONCE = 16
"""So many batches of texts are drawn and sorted by length, and one of them is taken."""


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Many texts as numbers of tokens, one behind the other."""

    tokens: Tensor
    """(all tokens,) int32."""
    starts: Tensor
    """(N,): where each text begins."""
    lengths: Tensor
    """(N,): how many tokens each has."""

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> "Encoded":
        """Texts given as lists of numbers."""
        lengths = torch.tensor([len(text) for text in texts])  # (N,)
        flat = torch.tensor([token for text in texts for token in text], dtype=torch.int32)
        return cls(flat, lengths.cumsum(0) - lengths, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def padded(self, which: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """The first `most` tokens of some texts (B,): (B, n) with padding, and lengths (B,)."""
        lengths = self.lengths[which].clamp(max=most)  # (B,)
        place = torch.arange(int(lengths.max()))  # (n,)
        inside = place < lengths[:, None]  # (B, n)
        index = (self.starts[which][:, None] + place) * inside  # (B, n)
        return torch.where(inside, self.tokens[index].long(), PAD), lengths


def draw_similar(lengths: Tensor, batch: int, most: int, generator: torch.Generator) -> Tensor:
    """`batch` of N texts (B,) of similar lengths, each with the same chance.

    Several batches are drawn, all texts of them sorted by length, and cut into batches again, of
    which one is taken: little padding, and nothing but the generator decides.
    """
    drawn = torch.randint(
        len(lengths), (_BATCHES_AT_ONCE * batch,), generator=generator, device=generator.device
    ).cpu()  # (16 B,)
    order = lengths[drawn].clamp(max=most).argsort(stable=True)  # (16 B,)
    pick = int(torch.randint(_BATCHES_AT_ONCE, (), generator=generator, device=generator.device))
    return drawn[order[pick * batch : (pick + 1) * batch]]


def by_hash(texts: Sequence[str], salt: str) -> list[int]:
    """The order of texts by a hash of each: the same for anybody, whatever the file's order."""
    keys = [hashlib.sha256(f"{salt}/{text}".encode()).digest() for text in texts]
    return sorted(range(len(texts)), key=lambda index: (keys[index], index))
