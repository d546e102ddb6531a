# pyright: reportMissingImports=false
"""Our backends for CUDA on a CPU: vLLM's code and ours, with plain twins of its two kernels, which need a GPU."""

import importlib
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from deepedu.engine import vllm_plugin


def put_in_place(name: str) -> None:
    """Where vLLM would take its backend for CPUs, it takes ours for CUDA (``FLASH_ATTN`` or ``TRITON_ATTN``)."""
    register = vllm_plugin.register

    def registering() -> None:
        register()
        backend = vllm_plugin.CUDA_BACKENDS[name]
        register_backend(AttentionBackendEnum.CPU_ATTN, f"deepedu.engine.vllm_cuda.{backend}")

    vllm_plugin.register = registering
    module = importlib.import_module(f"vllm.v1.attention.backends.{name.lower()}")
    if name == "FLASH_ATTN":
        twins = {"flash_attn_varlen_func": attention, "reshape_and_cache_flash": write}
        # A CPU has none.
        twins["get_flash_attn_version"] = lambda **_: 2
    else:
        twins = {"unified_attention": attention, "triton_reshape_and_cache_flash": write}
    for kernel, twin in twins.items():
        setattr(module, kernel, twin)


def attention(
    *,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    cu_seqlens_q: Tensor,
    seqused_k: Tensor,
    softmax_scale: float,
    causal: bool,
    block_table: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    **_: Any,
) -> None:
    """Causal attention of each sequence's queries, which are its last rows: ``q``, ``out`` [tokens, heads, head_dim],
    ``k``, ``v`` [blocks, block_tokens, kv_heads, head_dim]."""
    assert causal
    bounds, lengths = cu_seqlens_q.tolist(), seqused_k.tolist()
    assert len(bounds) == len(lengths) + 1
    assert max(lengths) <= max_seqlen_k
    for index, length in enumerate(lengths):
        begin, end = bounds[index : index + 2]
        assert end - begin <= max_seqlen_q
        blocks = block_table[index, : -(-length // k.shape[1])].to(torch.int64)
        keys, values = (each[blocks].flatten(0, 1)[:length].transpose(0, 1) for each in (k, v))
        rows = torch.arange(length)
        mask = rows <= rows[length - (end - begin) :, None]
        queries = q[begin:end].transpose(0, 1)
        found = scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, scale=softmax_scale, enable_gqa=True
        )
        out[begin:end] = found.transpose(0, 1)


def write(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, *_: Any) -> None:
    """Puts rows [tokens, kv_heads, head_dim] where ``slot_mapping`` says."""
    slots = slot_mapping.to(torch.int64)
    place = slots // key_cache.shape[1], slots % key_cache.shape[1]
    key_cache[place], value_cache[place] = key[: len(slots)], value[: len(slots)]
