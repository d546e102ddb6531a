# pyright: reportMissingImports=false
"""vLLM's attention backend for CPUs with long prompts, and decode steps where that is asked for, read by one of our
methods."""

from typing import Any

import torch
from torch import Tensor
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackend,
    CPUAttentionBackendImpl,
    CPUAttentionMetadataBuilder,
)

from deepedu.base.errors import Unsupported
from deepedu.engine.vllm_backend import SelectiveBuilder, SelectiveImpl


class CpuBackend(CPUAttentionBackend):
    """vLLM's backend with our builder and computation."""

    @staticmethod
    def get_impl_cls() -> type["CpuImpl"]:
        return CpuImpl

    @staticmethod
    def get_builder_cls() -> type["CpuBuilder"]:
        return CpuBuilder


class CpuBuilder(SelectiveBuilder, CPUAttentionMetadataBuilder):
    """See ``SelectiveBuilder``.

    Raises:
        Unsupported: the cache is packed in a way that no test here has seen.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.isa != "vec" or self.dtype != torch.float32:
            raise Unsupported(
                f"vLLM packs its cache of {self.dtype} for {self.isa!r} on this processor, which the methods cannot "
                "read: start it with --dtype float32"
            )


class CpuImpl(SelectiveImpl, CPUAttentionBackendImpl):
    """See ``SelectiveImpl``."""

    def views(self, kv_cache: Tensor) -> tuple[Tensor, Tensor]:
        """See ``SelectiveImpl``. A block's keys lie before its values, transposed for the kernel's sake."""
        blocks, kv_heads, block_tokens, _ = kv_cache.shape
        packed = kv_cache.view(blocks, kv_heads, 2 * block_tokens, -1)
        keys, values = packed.chunk(2, dim=2)
        return keys.view(blocks, kv_heads, -1, block_tokens).transpose(2, 3), values
