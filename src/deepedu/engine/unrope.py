"""Queries as they were before RoPE, for methods that compare them."""

from collections.abc import Callable

import torch
from torch import Tensor


class Unrope:
    """Turns queries back to what they were before RoPE (rotate-half form, as Llama, Qwen, Mistral and Gemma use it)."""

    def __init__(self, angles: Callable[[Tensor], tuple[Tensor, Tensor]]) -> None:
        self._angles = angles
        self._last: tuple[Tensor, Tensor, Tensor] | None = None

    def __call__(self, queries: Tensor, positions: Tensor) -> Tensor:
        """``queries`` [..., n, head_dim] at ``positions`` (int64 [n])."""
        # All layers of a step ask for the same positions.
        if self._last is None or not torch.equal(self._last[0], positions):
            cos, sin = self._angles(positions)
            # The angles carry a model's attention scaling, once in each factor.
            norm = cos.square() + sin.square()
            self._last = (positions, cos / norm, sin / norm)
        _, cos, sin = self._last
        turned = queries[..., : cos.shape[-1]]
        half = cos.shape[-1] // 2
        swapped = torch.cat((-turned[..., half:], turned[..., :half]), dim=-1)
        back = turned * cos.to(queries.dtype) - swapped * sin.to(queries.dtype)
        rest = queries[..., cos.shape[-1] :]
        return torch.cat((back, rest), dim=-1) if rest.shape[-1] else back
