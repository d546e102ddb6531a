# pyright: reportMissingImports=false
"""vLLM's attention backend for CPUs with long prompts read by one of our methods.

vLLM computes a batch of chunks: prompts' parts and decode steps of several requests. Those parts of prompts that are
longer than the budget go to the method, each with the selection of its own request; all others stay with vLLM's kernel.
vLLM does not tell a backend where a prompt ends, which decides what the question is; its model runner knows, and leaves
a note before it has the metadata built.
"""

import functools
import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from vllm.config import VllmConfig, get_current_vllm_config
from vllm.distributed import get_tp_group
from vllm.model_executor.layers.rotary_embedding import get_rope
from vllm.model_executor.models.utils import extract_layer_index
from vllm.v1.attention.backend import AttentionType
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackend,
    CPUAttentionBackendImpl,
    CPUAttentionMetadata,
    CPUAttentionMetadataBuilder,
)
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from deepedu.attention import run
from deepedu.attention.base import Budget, Call, Method
from deepedu.base.errors import ConfigError, Unsupported
from deepedu.engine.paged_rows import PagedRows
from deepedu.engine.unrope import Unrope
from deepedu.engine.vllm_plugin import SCHEDULER, VARIABLE, attention_of
from deepedu.engine.vllm_scheduler import PartScheduler

logger = logging.getLogger(__name__)

# Requests whose state is kept between the parts of their prompts: more than ever are read at once.
_REMEMBERED = 256
# Models whose rotation ``Unrope`` undoes.
_ROTATE_HALF = ("llama", "mistral", "qwen2", "qwen3")

_note = threading.local()


@functools.cache
def configured() -> tuple[Method, Budget]:
    """The method and budget of this process."""
    attention = attention_of()
    if attention is None:
        raise ConfigError(f"{VARIABLE} is not set in this process; deepedu engine serve --host vllm sets it for all")
    return attention.make()


@dataclass
class Sequence:
    """One request of one group of layers, between the parts of its prompt."""

    rows: dict[int, PagedRows] = field(default_factory=dict[int, PagedRows])
    states: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    positions: int = 0


@dataclass(frozen=True)
class Part:
    """A part of a long prompt: queries ``begin..end`` of the batch, the first of them at row ``start``.

    ``blocks``: where the request's rows lie (int64). ``exact_from``: row from which the prompt's end is read densely.
    """

    sequence: Sequence
    begin: int
    end: int
    start: int
    blocks: Tensor
    exact_from: int
    last: bool


@dataclass(frozen=True)
class Plan:
    """Who reads what in a batch. ``others``: queries that stay with vLLM (int64), with their own metadata; None: none
    do."""

    parts: tuple[Part, ...]
    others: Tensor | None
    metadata: CPUAttentionMetadata | None


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
        _have_prompts_told()
        self._sequences: OrderedDict[str, Sequence] = OrderedDict()

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
        """See vLLM; the metadata carries a ``plan``."""
        metadata = super().build(common_prefix_len, common_attn_metadata, fast_build)
        prompts: list[tuple[str, int]] = getattr(_note, "prompts", [])
        metadata.plan = self._plan(common_attn_metadata, metadata, prompts)
        return metadata

    def _plan(self, common: Any, metadata: CPUAttentionMetadata, prompts: list[tuple[str, int]]) -> Plan | None:
        method, budget = configured()
        bounds: list[int] = common.query_start_loc_cpu.tolist()
        lengths: list[int] = metadata.seq_lens.tolist()
        parts: list[Part] = []
        others: list[int] = []
        for index, length in enumerate(lengths):
            begin, end = bounds[index], bounds[index + 1]
            request, prompt = prompts[index] if index < len(prompts) else ("", 0)
            if length <= budget.tokens or length > prompt:
                others.append(index)
                continue
            start = length - (end - begin)
            parts.append(
                Part(
                    self._sequence(request, start, length),
                    begin,
                    end,
                    start,
                    metadata.block_table[index].to(torch.int64),
                    prompt - method.exact_tokens if method.exact_tokens else length,
                    last=length == prompt,
                )
            )
            if length == prompt:
                del self._sequences[request]
        if not parts:
            return None
        if not others:
            return Plan(tuple(parts), None, None)
        tokens = torch.cat([torch.arange(bounds[index], bounds[index + 1]) for index in others])
        return Plan(tuple(parts), tokens, self._metadata_of(others, bounds, metadata, common))

    def _sequence(self, request: str, start: int, stop: int) -> Sequence:
        known = self._sequences.get(request)
        # Elsewhere than where it was left: it was preempted and begins anew, or another one has its name.
        if known is None or known.positions != start:
            known = Sequence()
        known.positions = stop
        self._sequences[request] = known
        self._sequences.move_to_end(request)
        while len(self._sequences) > _REMEMBERED:
            self._sequences.popitem(last=False)
        return known

    def _metadata_of(
        self, wanted: list[int], bounds: list[int], metadata: CPUAttentionMetadata, common: Any
    ) -> CPUAttentionMetadata:
        """The metadata of some of the batch's requests, their queries one after the other."""
        picked = torch.tensor(wanted)
        counts = torch.tensor([0, *(bounds[index + 1] - bounds[index] for index in wanted)])
        starts = torch.cumsum(counts, 0).to(metadata.query_start_loc.dtype)
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
    """vLLM's computation, but for the parts of long prompts.

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
        group = get_tp_group()
        self._add_up = group.all_reduce if group.world_size > 1 else None
        self._rotation = _rotation(get_current_vllm_config(), self.head_size)
        self._layers = get_current_vllm_config().model_config.hf_text_config.num_hidden_layers

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
        if plan.others is not None:
            theirs = torch.empty(len(plan.others), *output.shape[1:], dtype=output.dtype)
            picked = query[plan.others], key[plan.others], value[plan.others]
            super().forward(layer, *picked, kv_cache, plan.metadata, theirs)
            output[plan.others] = theirs
        index = extract_layer_index(layer.layer_name)
        cache = _views(kv_cache)
        for part in plan.parts:
            computed = self._attend(part, index, query, cache)
            output[part.begin : part.end] = computed.reshape(part.end - part.begin, *output.shape[1:])
        return output

    def _attend(self, part: Part, layer: int, query: Tensor, cache: tuple[Tensor, Tensor]) -> Tensor:
        method, budget = configured()
        rows = part.sequence.rows.setdefault(layer, PagedRows(*cache))
        rows.point(part.blocks, part.start + part.end - part.begin)
        call = Call(
            rows=rows,
            queries=query[part.begin : part.end].transpose(0, 1),
            start=part.start,
            budget=budget,
            scale=self.scale,
            layer=layer,
            layers=self._layers,
            last=part.last,
            state=part.sequence.states.setdefault(layer, {}),
            unrope=None if self._rotation is None else self._rotation[1],
            rope_angles=None if self._rotation is None else self._rotation[0],
            add_up=self._add_up,
        )
        out = run.attend(method, call, part.exact_from)
        rows.release()
        return out


def _views(kv_cache: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of a layer, both [blocks, kv_heads, block_tokens, head_dim].

    vLLM packs a block's keys before its values; keys lie transposed, for its kernel's sake.
    """
    blocks, kv_heads, block_tokens, _ = kv_cache.shape
    packed = kv_cache.view(blocks, kv_heads, 2 * block_tokens, -1)
    keys, values = packed.chunk(2, dim=2)
    return keys.view(blocks, kv_heads, -1, block_tokens).transpose(2, 3), values


def _rotation(config: VllmConfig, head_dim: int) -> tuple[Any, Unrope] | None:
    """RoPE's angles by position, and how to undo it; None where it is not known: methods compare after RoPE then."""
    text = config.model_config.hf_text_config
    parameters = getattr(text, "rope_parameters", None)
    if text.model_type not in _ROTATE_HALF or not isinstance(parameters, dict) or "rope_theta" not in parameters:
        logger.warning("the rotation of %s is not known: methods compare queries after RoPE", text.model_type)
        return None
    # The model's own: vLLM makes one for equal arguments.
    return _undoing(get_rope(head_dim, text.max_position_embeddings, rope_parameters=parameters))


@functools.cache
def _undoing(rope: Any) -> tuple[Any, Unrope]:
    def angles(positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = rope.cos_sin_cache[positions].float().chunk(2, dim=-1)
        return torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)

    return angles, Unrope(angles)


def _have_prompts_told() -> None:
    """Lets vLLM's model runner leave each request's name and the length of its prompt for the builder."""
    build = GPUModelRunner._build_attention_metadata
    if hasattr(build, "tells_deepedu"):
        return

    @functools.wraps(build)
    def telling(self: Any, *args: Any, **kwargs: Any) -> Any:
        batch = self.input_batch
        _note.prompts = list(zip(batch.req_ids, batch.num_prompt_tokens.tolist(), strict=False))
        try:
            return build(self, *args, **kwargs)
        finally:
            _note.prompts = []

    telling.tells_deepedu = True  # type: ignore[attr-defined]
    GPUModelRunner._build_attention_metadata = telling
