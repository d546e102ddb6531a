"""Linear layers in int8, for the CPU: less time to compute a prompt, less memory to read per token.

Weights have one scale per output channel; activations are quantised as they come, with one scale per token. One scale
for the whole input would let a single loud token silence all others.
"""

import gc
import logging
from typing import Any, Literal

import torch
from torch import Tensor, nn

from deepedu.base.errors import Unsupported

logger = logging.getLogger(__name__)

Weights = Literal["auto", "full", "int8"]

# The one int8 product of torch that needs none of its deprecated quantised tensors.
_int_mm: Any = torch._int_mm  # pyright: ignore[reportPrivateImportUsage]
# Rows that are computed at once: their intermediates stay in the processor's cache.
_BLOCK_ROWS = 1024
# Without VNNI the kernel adds pairs of products in 16 bits, which saturates: 255 * 63 * 2 fits, 255 * 127 * 2 not.
_FULL_RANGE, _SAFE_RANGE = 127, 63
# The second pass counts in steps of 1/254 of the first one's: the rounding error, at most half a step, is then 127.
_FINE = 254.0
# Small layers that choose experts: rounding them changes which weights are used at all.
_ROUTERS = frozenset({"gate", "router"})
# Smaller layers gain nothing, and torch's int8 product is wrong for a single input feature.
_MIN_FEATURES = 16


class Int8Linear(nn.Module):
    """Stands for a ``nn.Linear``, for inference.

    With ``passes=2`` what the first rounding of the activations leaves over is multiplied too, so that in effect only
    the weights are rounded; it costs twice the arithmetic, but the weights are read once.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear, *, passes: Literal[1, 2] = 1, weight_range: int = _FULL_RANGE) -> None:
        super().__init__()
        assert linear.in_features > 1
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.passes = passes
        source = linear.weight.detach()
        scale = source.abs().amax(dim=1).float().div_(weight_range).clamp_min_(torch.finfo(torch.float32).tiny)
        weight = torch.empty(source.shape, dtype=torch.int8)
        # In pieces: an output head in float32 is often the largest tensor of the model.
        for start in range(0, len(source), 4096):
            rows = slice(start, start + 4096)
            weight[rows] = (source[rows].float() / scale[rows, None]).round_().clamp_(-weight_range, weight_range)
        self.register_buffer("weight", weight, persistent=False)
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().float(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[..., in_features]`` to ``[..., out_features]`` of the same dtype."""
        rows = x.reshape(-1, self.in_features)
        out = torch.empty(len(rows), self.out_features, dtype=torch.float32)
        for start in range(0, len(rows), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            self._product(rows[block].float(), out[block])
        return out.to(x.dtype).view(*x.shape[:-1], self.out_features)

    def _product(self, x: Tensor, out: Tensor) -> None:
        # What surrounds the product takes about as long as the product itself, in memory traffic: few passes, in place.
        # The bound keeps a row of zeros from becoming 0 / 0.
        # Two reductions: torch's infinity norm is not vectorised and took a sixth of a whole prefill.
        step = torch.maximum(x.amax(dim=1, keepdim=True), x.amin(dim=1, keepdim=True).neg_()).div_(127)
        step.clamp_min_(torch.finfo(torch.float32).tiny)
        steps = x / step
        coarse = steps.round()
        torch.mul(_int_mm(coarse.to(torch.int8), self.weight.t()), self.scale, out=out)
        if self.passes == 2:
            fine = steps.sub_(coarse).mul_(_FINE).round_().to(torch.int8)
            out.addcmul_(_int_mm(fine, self.weight.t()).float(), self.scale, value=1 / _FINE)
        out.mul_(step)
        if self.bias is not None:
            out.add_(self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, passes={self.passes}"


class RowBlocks(nn.Module):
    """A module that treats every row by itself, applied to some hundred rows at a time.

    What an MLP of int8 layers computes in between is read and written several times: kept in the processor's cache it
    takes 0.75 of the time (8,192 rows of the 0.5B demo model).
    """

    ROWS = 512

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """``[..., rows, features]`` as ``inner`` gives it."""
        if x.shape[-2] <= self.ROWS:
            return self.inner(x)
        return torch.cat([self.inner(piece) for piece in x.split(self.ROWS, dim=-2)], dim=-2)


def quantise(model: Any, weights: Weights) -> Literal["full", "int8"]:
    """Replaces the linear layers of a transformers causal language model, one by one, in place.

    An embedding that shares its weights with the output head stays as it is.

    Args:
        model: on the CPU; its forward stays what it was.
        weights: ``auto`` takes int8 where :func:`worthwhile` says so.

    Returns:
        What the model has now.

    Raises:
        Unsupported: int8 was demanded where it cannot be.
    """
    if weights == "full":
        return "full"
    device = model.device.type
    if device != "cpu":
        if weights == "auto":
            return "full"
        raise Unsupported(
            f"engine.weights 'int8' is for the CPU, the model is on {device!r}: set engine.weights='full'"
        )
    if weights == "auto" and not worthwhile():
        return "full"
    weight_range = _FULL_RANGE
    if not exact(_FULL_RANGE):
        if not exact(_SAFE_RANGE):
            raise Unsupported("this processor's int8 product is wrong: set engine.weights='full'")
        logger.warning(
            "this processor has no VNNI, so weights are held in 7 bits; engine.weights='full' is more faithful"
        )
        weight_range = _SAFE_RANGE
    _replace(model, weight_range)
    return "int8"


def _replace(model: nn.Module, weight_range: int) -> None:
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None  # type: ignore[operator]
    names = [name for name, module in model.named_modules() if type(module) is nn.Linear]
    for name in names:
        parent_name, _, own = name.rpartition(".")
        parent = model.get_submodule(parent_name)
        linear = getattr(parent, own)
        if own in _ROUTERS or min(linear.in_features, linear.out_features) < _MIN_FEATURES:
            continue
        # What comes out of a gated MLP has few, very loud channels, and the head decides between close tokens.
        loud = linear is head or linear.in_features > linear.out_features
        setattr(parent, own, Int8Linear(linear, passes=2 if loud else 1, weight_range=weight_range))
        del linear
    for parent in list(model.modules()):
        # By class name: a mixture of experts routes rows and returns more than rows.
        if type(mlp := getattr(parent, "mlp", None)).__name__.endswith("MLP"):
            parent.mlp = RowBlocks(mlp)  # type: ignore[assignment]
    gc.collect()


def exact(weight_range: int) -> bool:
    """Whether this machine's int8 product is right for the largest operands there can be."""
    inputs = torch.tensor([[127], [-127]], dtype=torch.int8).repeat(8, 256)
    weight = torch.tensor([[weight_range], [-weight_range]], dtype=torch.int8).repeat(32, 256)
    wanted = inputs.long() @ weight.long().t()
    return torch.equal(_int_mm(inputs, weight.t()).long(), wanted)


def worthwhile() -> bool:
    """Whether int8 is known to be exact and faster here: by the processor's instructions, not by a stopwatch.

    A short measurement on a busy machine gives another answer at every start, and rows of cached keys kept on disk are
    worth nothing to other weights.
    """
    return bool(torch.cpu.get_capabilities().get("avx512_vnni")) and exact(_FULL_RANGE)
