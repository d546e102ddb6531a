# pyright: reportMissingImports=false
"""vLLM's FlashAttention and Triton backends for CUDA with long prompts, and decode steps where that is asked for, read
by one of our methods.

The tests run both on a CPU, with plain twins of vLLM's two kernels; no GPU has run them yet.
"""

from typing import Any

from torch import Tensor
from vllm.v1.attention.backend import AttentionCGSupport
from vllm.v1.attention.backends.flash_attn import (
    FlashAttentionBackend,
    FlashAttentionImpl,
    FlashAttentionMetadataBuilder,
)
from vllm.v1.attention.backends.triton_attn import (
    TritonAttentionBackend,
    TritonAttentionImpl,
    TritonAttentionMetadataBuilder,
)

from deepedu.engine.vllm_backend import SelectiveBuilder, SelectiveImpl
from deepedu.engine.vllm_batch import configured


class CudaBuilder(SelectiveBuilder):
    """See ``SelectiveBuilder``."""

    @classmethod
    def get_cudagraph_support(cls, vllm_config: Any, kv_cache_spec: Any) -> AttentionCGSupport:
        """See vLLM: a recorded graph runs no Python, so only what a method never reads may be in one: single decode
        steps, unless those choose too."""
        del vllm_config, kv_cache_spec
        attention, _, _ = configured()
        if attention.decode_above is None:
            return AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE
        return AttentionCGSupport.NEVER


class CudaImpl(SelectiveImpl):
    """See ``SelectiveImpl``."""

    def views(self, kv_cache: Tensor) -> tuple[Tensor, Tensor]:
        """See ``SelectiveImpl``. A row's key lies before its value."""
        return kv_cache[..., : self.head_size], kv_cache[..., self.head_size :]


class FlashBackend(FlashAttentionBackend):
    """vLLM's backend with our builder and computation."""

    @staticmethod
    def get_impl_cls() -> type["FlashImpl"]:
        return FlashImpl

    @staticmethod
    def get_builder_cls() -> type["FlashBuilder"]:
        return FlashBuilder


class FlashBuilder(CudaBuilder, FlashAttentionMetadataBuilder):
    """See ``SelectiveBuilder``."""


class FlashImpl(CudaImpl, FlashAttentionImpl):
    """See ``SelectiveImpl``."""


class TritonBackend(TritonAttentionBackend):
    """vLLM's backend with our builder and computation."""

    @staticmethod
    def get_impl_cls() -> type["TritonImpl"]:
        return TritonImpl

    @staticmethod
    def get_builder_cls() -> type["TritonBuilder"]:
        return TritonBuilder


class TritonBuilder(CudaBuilder, TritonAttentionMetadataBuilder):
    """See ``SelectiveBuilder``."""


class TritonImpl(CudaImpl, TritonAttentionImpl):
    """See ``SelectiveImpl``."""
