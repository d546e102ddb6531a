"""Expected Attention: after the prompt, rows that future queries are not expected to read are dropped."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from deepedu.attention.base import Call, Method, Phase
from deepedu.base.errors import ConfigError, Unsupported

MOMENTS = "query_moments"


@dataclass
class _Moments:
    """Sums over the queries seen, each less ``shift``, which keeps them small."""

    shift: Tensor  # [heads, 1, head_dim]
    count: int
    total: Tensor  # [heads, head_dim]
    products: Tensor  # [heads, head_dim, head_dim]

    def add(self, queries: Tensor) -> None:
        centred = queries - self.shift
        self.count += queries.shape[1]
        self.total += centred.sum(1)
        self.products += centred.transpose(1, 2) @ centred

    def mean_and_covariance(self) -> tuple[Tensor, Tensor]:
        count = max(1, self.count)
        mean = self.total / count
        return mean + self.shift[:, 0], self.products / count - mean[:, :, None] * mean[:, None, :]


@dataclass(frozen=True, kw_only=True)
class ExpectedAttention(Method):
    """Keeps, per key/value head, the rows of highest expected attention times the length of their value.

    Queries before RoPE are taken as Gaussian with the mean and covariance of the prompt's; rotated by the mean
    rotation of the next positions they give every key's expected weight in closed form.

    ``sink_tokens``: first rows that are always kept, and whose queries are left out. ``horizon_tokens``: next
    positions that are averaged over. ``value_norm``: whether the length of the value counts.

    Source: Devoto et al. 2025 (arXiv 2510.00636).
    Differs: moments are summed chunk by chunk, less the first chunk's mean (``test_expected_attention``).
    """

    name: ClassVar[str] = "expected_attention"
    paper: ClassVar[str] = "Devoto et al. 2025, Expected Attention (arXiv 2510.00636)"
    phases: ClassVar[frozenset[Phase]] = frozenset({"prefill"})
    limits: ClassVar[str] = (
        "drops rows for good at the end of the prompt, which itself attends densely; needs the model's RoPE; "
        "knows nothing of queries that were answered from a prefix cache"
    )

    sink_tokens: int = 4
    horizon_tokens: int = 512
    value_norm: bool = True

    def __post_init__(self) -> None:
        if self.sink_tokens < 0 or self.horizon_tokens < 1:
            raise ConfigError(
                "expected_attention needs sink_tokens >= 0 and horizon_tokens >= 1, came "
                f"sink_tokens={self.sink_tokens}, horizon_tokens={self.horizon_tokens}"
            )

    def keep(self, call: Call) -> tuple[Tensor, ...] | None:
        if call.phase == "decode":
            return None
        moments = self._observed(call)
        count = call.budget.tokens
        if not call.last or call.stop <= count:
            return None
        call.tally.retrieval_calls += 1
        call.tally.blocks += 1
        votes = self._expected(call, *moments.mean_and_covariance())
        votes[:, : self.sink_tokens] = float("inf")
        return tuple(votes.topk(count, sorted=False).indices.sort().values)

    def _observed(self, call: Call) -> _Moments:
        """The moments of the prompt's queries so far, those of this call among them."""
        if call.unrope is None:
            raise Unsupported(
                "expected_attention needs the model's RoPE angles, and this model gives none: choose another method"
            )
        queries = call.unrope(call.queries, torch.arange(call.start, call.stop, device=call.queries.device)).float()[
            :, max(0, self.sink_tokens - call.start) :
        ]
        moments: _Moments | None = call.state.get(MOMENTS)
        if moments is None or moments.count == 0:
            shift = (
                torch.mean(queries, dim=1, keepdim=True)
                if queries.shape[1]
                else queries.new_zeros(call.heads, 1, call.rows.head_dim)
            )
            total = torch.zeros_like(shift[:, 0])
            moments = _Moments(shift, 0, total, total.new_zeros(*total.shape, call.rows.head_dim))
            call.state[MOMENTS] = moments
        moments.add(queries)
        return moments

    def _expected(self, call: Call, mean: Tensor, covariance: Tensor) -> Tensor:
        """Votes of all rows, [kv_heads, call.stop]."""
        rotation = _mean_rotation(call, self.horizon_tokens)
        mean = mean @ rotation.T
        covariance = rotation @ covariance @ rotation.T
        pieces = list(call.rows.parts(0, call.stop))
        keys = torch.cat([k for k, _ in pieces], dim=1).float()
        votes = keys.new_zeros(keys.shape[:2])
        for head in range(call.heads):
            own = keys[head // call.group]
            spread = ((own @ covariance[head]) * own).sum(1)
            weights = torch.softmax(own @ mean[head] * call.scale + spread * (call.scale**2 / 2), dim=0)
            votes[head // call.group] += weights / call.group
        if self.value_norm:
            votes *= torch.cat([v for _, v in pieces], dim=1).float().square().sum(2).sqrt()
        return votes


def _mean_rotation(call: Call, horizon: int) -> Tensor:
    """Mean RoPE matrix over the positions after the prompt, [head_dim, head_dim]; channel i turns with i + half."""
    assert call.rope_angles is not None, "comes together with unrope"
    positions = torch.arange(call.stop, call.stop + horizon, device=call.queries.device)
    cos, sin = (torch.mean(each.float(), dim=0) for each in call.rope_angles(positions))
    half = cos.shape[0] // 2
    eye = torch.eye(half, device=cos.device)
    none = torch.zeros_like(eye)
    quarter_turn = torch.cat([torch.cat([none, -eye], dim=1), torch.cat([eye, none], dim=1)])
    return torch.diag(cos) + sin[:, None] * quarter_turn
