# pyright: reportMissingImports=false
"""What a backend of vLLM needs so that a method reads its share of a batch, on whatever processor.

``SelectiveBuilder`` and ``SelectiveImpl`` stand before vLLM's own builder and computation in a class's bases; each
processor's module names those and says how its cache lies.
"""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor
from vllm.model_executor.models.utils import extract_layer_index
from vllm.v1.attention.backend import AttentionImpl, AttentionMetadataBuilder, AttentionType

from deepedu.base.errors import ConfigError, Unsupported
from deepedu.engine.vllm_batch import Plan, Planner, Reader
from deepedu.engine.vllm_plugin import SCHEDULER
from deepedu.engine.vllm_scheduler import PartScheduler


class SelectiveBuilder(AttentionMetadataBuilder):
    """Builds vLLM's metadata, and the plan of the batch beside it.

    Raises:
        ConfigError: vLLM runs with a scheduler of its own.
        Unsupported: vLLM cuts its batches once more, after the plan is made.
    """

    # The plan belongs to one table of blocks; vLLM would give the metadata another one.
    supports_update_block_table = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        scheduler = self.vllm_config.scheduler_config.scheduler_cls
        if scheduler not in (PartScheduler, SCHEDULER):
            raise ConfigError(
                f"the methods need prompts cut at the same places every time: start vLLM with --scheduler-cls "
                f"{SCHEDULER}, came {scheduler!r}"
            )
        if self.vllm_config.parallel_config.use_ubatching:
            raise Unsupported("the methods read whole batches: start vLLM without --enable-dbo and --ubatch-size")
        self._planner = Planner()

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
        """See vLLM; the metadata carries a ``plan``."""
        common = common_attn_metadata
        metadata = super().build(common_prefix_len, common, fast_build)
        # Asking the device for the lengths would wait for it.
        lengths = common.seq_lens if common.seq_lens_cpu_upper_bound is None else common.seq_lens_cpu_upper_bound
        metadata.plan = self._planner.plan(
            common.query_start_loc_cpu.tolist(),
            lengths.tolist(),
            metadata.block_table,
            lambda wanted: self._metadata_of(wanted, metadata, common),
        )
        return metadata

    def _metadata_of(self, wanted: tuple[int, ...], metadata: Any, common: Any) -> Any:
        """The metadata of some of the batch's requests, their queries one after the other."""
        picked = torch.tensor(wanted)
        bounds = common.query_start_loc_cpu
        counts = bounds[picked + 1] - bounds[picked]
        starts = torch.cat([counts.new_zeros(1), torch.cumsum(counts, 0)]).to(bounds.dtype)
        tokens = int(starts[-1])
        known = common.seq_lens_cpu_upper_bound
        asked = common.replace(
            query_start_loc=starts.to(metadata.query_start_loc.device, metadata.query_start_loc.dtype),
            query_start_loc_cpu=starts,
            seq_lens=metadata.seq_lens[picked],
            seq_lens_cpu_upper_bound=None if known is None else known[picked],
            num_reqs=len(wanted),
            num_actual_tokens=tokens,
            max_query_len=int(counts.max()),
            block_table_tensor=metadata.block_table[picked],
            slot_mapping=metadata.slot_mapping[:tokens],
        )
        # Fast: a slow build may write over what the batch's own metadata keeps in the builder.
        return super().build(0, asked, fast_build=True)


class SelectiveImpl(AttentionImpl):
    """vLLM's computation, but for what the plan gives to the method.

    Raises:
        Unsupported: the cache is kept in another type than the model's.
    """

    # Rows of a sequence that lie on several devices cannot be chosen from.
    supports_dcp = False
    supports_pcp = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.kv_cache_dtype != "auto":
            raise Unsupported(
                "the methods read a cache of the model's own type: start vLLM without --kv-cache-dtype, came "
                f"{self.kv_cache_dtype}"
            )
        # Layers of another kind keep their own way.
        self._selects = (
            self.attn_type == AttentionType.DECODER
            and self.sliding_window in (-1, (-1, -1))
            and self.alibi_slopes is None
            and not self.logits_soft_cap
            and self.sinks is None
        )
        self._reader = Reader(self.scale, self.head_size)

    def fused_output_quant_supported(self, quant_key: Any) -> bool:
        """See vLLM; what a method computes is not quantised on the way out."""
        del quant_key
        return False

    @abstractmethod
    def views(self, kv_cache: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer as they lie in the cache, both [blocks, kv_heads, block_tokens, head_dim].

        Args:
            kv_cache: [blocks, kv_heads, block_tokens, 2 * head_dim].
        """

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
        cached = self.views(kv_cache)
        chosen = self._reader.choose(plan, index, query, cached)
        reading = {step.index for step, _ in chosen}
        rest = tuple(sorted({*plan.others, *(step.index for step in plan.steps if step.index not in reading)}))
        if rest:
            tokens, metadata = plan.rest(rest)
            theirs = output.new_empty(len(tokens), *output.shape[1:])
            super().forward(layer, query[tokens], key[tokens], value[tokens], kv_cache, metadata, theirs)
            output[tokens] = theirs
        self._reader.read_steps(chosen, query, cached, output)
        self._reader.read_prompts(plan, index, query, cached, output)
        return output
