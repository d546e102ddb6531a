# pyright: reportMissingImports=false
"""vLLM's attention backend for CPUs with long prompts, and decode steps where that is asked for, read by one of our
methods."""

from typing import Any

import torch
from torch import Tensor
from vllm.model_executor.models.utils import extract_layer_index
from vllm.v1.attention.backend import AttentionType
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackend,
    CPUAttentionBackendImpl,
    CPUAttentionMetadata,
    CPUAttentionMetadataBuilder,
)

from deepedu.base.errors import ConfigError, Unsupported
from deepedu.engine.vllm_batch import Plan, Planner, Reader
from deepedu.engine.vllm_plugin import SCHEDULER
from deepedu.engine.vllm_scheduler import PartScheduler


class SelectiveBackend(CPUAttentionBackend):
    """vLLM's backend with our builder and computation."""

    @staticmethod
    def get_impl_cls() -> type["SelectiveImpl"]:
        return SelectiveImpl

    @staticmethod
    def get_builder_cls() -> type["SelectiveBuilder"]:
        return SelectiveBuilder


class SelectiveBuilder(CPUAttentionMetadataBuilder):
    """Builds vLLM's metadata, and the plan of the batch beside it.

    Raises:
        ConfigError: vLLM runs with a scheduler of its own.
        Unsupported: the cache is packed in a way that no test here has seen.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        scheduler = self.vllm_config.scheduler_config.scheduler_cls
        if scheduler not in (PartScheduler, SCHEDULER):
            raise ConfigError(
                f"the methods need prompts cut at the same places every time: start vLLM with --scheduler-cls "
                f"{SCHEDULER}, came {scheduler!r}"
            )
        if self.isa != "vec" or self.dtype != torch.float32:
            raise Unsupported(
                f"vLLM packs its cache of {self.dtype} for {self.isa!r} on this processor, which the methods cannot "
                "read: start it with --dtype float32"
            )
        self._planner = Planner()

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
        """See vLLM; the metadata carries a ``plan``."""
        common = common_attn_metadata
        metadata = super().build(common_prefix_len, common, fast_build)
        metadata.plan = self._planner.plan(
            common.query_start_loc_cpu.tolist(),
            metadata.seq_lens.tolist(),
            metadata.block_table,
            lambda wanted: self._metadata_of(wanted, metadata, common),
        )
        return metadata

    def _metadata_of(self, wanted: tuple[int, ...], metadata: CPUAttentionMetadata, common: Any) -> Any:
        """The metadata of some of the batch's requests, their queries one after the other."""
        picked = torch.tensor(wanted)
        bounds = common.query_start_loc_cpu
        counts = bounds[picked + 1] - bounds[picked]
        starts = torch.cat([counts.new_zeros(1), torch.cumsum(counts, 0)]).to(metadata.query_start_loc.dtype)
        tokens = int(starts[-1])
        asked = common.replace(
            query_start_loc=starts,
            query_start_loc_cpu=starts,
            seq_lens=metadata.seq_lens[picked],
            num_reqs=len(wanted),
            num_actual_tokens=tokens,
            max_query_len=int(counts.max()),
            block_table_tensor=metadata.block_table[picked],
            slot_mapping=metadata.slot_mapping[:tokens],
        )
        return super().build(0, asked)


class SelectiveImpl(CPUAttentionBackendImpl):
    """vLLM's computation, but for what the plan gives to the method.

    Raises:
        Unsupported: the cache is kept in 8 bits.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.is_fp8_kv_cache:
            raise Unsupported("the methods read a cache of the model's own type: start vLLM without --kv-cache-dtype")
        # Layers of another kind keep their own way.
        self._selects = (
            self.attn_type == AttentionType.DECODER
            and self.sliding_window == -1
            and self.alibi_slopes is None
            and not self.logits_soft_cap
            and self.sinks is None
        )
        self._reader = Reader(self.scale, self.head_size)

    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        kv_cache: Tensor,
        attn_metadata: Any,
        output: Tensor,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """See vLLM: queries [tokens, heads, head_dim]; the chunk's own rows are in the cache already."""
        plan: Plan | None = getattr(attn_metadata, "plan", None)
        if plan is None or not self._selects:
            return super().forward(
                layer, query, key, value, kv_cache, attn_metadata, output, output_scale, output_block_scale
            )
        index = extract_layer_index(layer.layer_name)
        cached = _views(kv_cache)
        chosen = self._reader.choose(plan, index, query, cached)
        reading = {step.index for step, _ in chosen}
        rest = tuple(sorted({*plan.others, *(step.index for step in plan.steps if step.index not in reading)}))
        if rest:
            tokens, metadata = plan.rest(rest)
            theirs = torch.empty(len(tokens), *output.shape[1:], dtype=output.dtype)
            super().forward(layer, query[tokens], key[tokens], value[tokens], kv_cache, metadata, theirs)
            output[tokens] = theirs
        self._reader.read_steps(chosen, query, cached, output)
        self._reader.read_prompts(plan, index, query, cached, output)
        return output


def _views(kv_cache: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of a layer, both [blocks, kv_heads, block_tokens, head_dim].

    vLLM packs a block's keys before its values; keys lie transposed, for its kernel's sake.
    """
    blocks, kv_heads, block_tokens, _ = kv_cache.shape
    packed = kv_cache.view(blocks, kv_heads, 2 * block_tokens, -1)
    keys, values = packed.chunk(2, dim=2)
    return keys.view(blocks, kv_heads, -1, block_tokens).transpose(2, 3), values
