# pyright: reportMissingImports=false
"""Who reads what in one of vLLM's batches, on whatever processor: which parts of prompts and which decode steps go to
the method, what it remembers of each request, and how it reads.

vLLM computes a batch of chunks: prompts' parts and decode steps of several requests. Those parts of prompts that are
longer than the budget go to the method, each with the selection of its own request, and decode steps above the length
that ``DEEPEDU_ATTENTION`` names; all others stay with vLLM's kernel. vLLM does not tell a backend where a prompt ends,
which decides what the question is; its model runner knows, and leaves a note before it has the metadata built.
"""

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from vllm.config import VllmConfig, get_current_vllm_config
from vllm.distributed import get_tp_group
from vllm.model_executor.layers.rotary_embedding import get_rope
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from deepedu.attention import run
from deepedu.attention.base import Budget, Call, Method, Phase, Selection
from deepedu.base.errors import ConfigError
from deepedu.engine.paged_decode import decode_attention, rows_read
from deepedu.engine.paged_rows import PagedRows
from deepedu.engine.unrope import Unrope
from deepedu.engine.vllm_plugin import VARIABLE, Attention, attention_of

logger = logging.getLogger(__name__)

# Models whose rotation ``Unrope`` undoes.
_ROTATE_HALF = ("llama", "mistral", "qwen2", "qwen3")

_note = threading.local()


@functools.cache
def configured() -> tuple[Attention, Method, Budget]:
    """What this process was told, and the method and budget made of it."""
    attention = attention_of()
    if attention is None:
        raise ConfigError(f"{VARIABLE} is not set in this process; deepedu engine serve --host vllm sets it for all")
    return (attention, *attention.make())


@dataclass
class Request:
    """One request of one group of layers, between the steps that compute it."""

    rows: dict[int, PagedRows] = field(default_factory=dict[int, PagedRows])
    states: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    positions: int = 0


@dataclass(frozen=True)
class Part:
    """What the method computes of one request in a batch: a part of a long prompt, or one decode step.

    Queries ``begin..end`` of the batch, the first of them at row ``start``; ``index`` is the request's place in the
    batch. ``blocks``: where the request's rows lie (int64). ``exact_from``: row from which the prompt's end is read
    densely.
    """

    request: Request
    index: int
    begin: int
    end: int
    start: int
    blocks: Tensor
    exact_from: int | None = None
    last: bool = False

    @property
    def stop(self) -> int:
        """Row after the last query."""
        return self.start + self.end - self.begin


class Plan:
    """Who reads what in a batch: ``parts`` of prompts and ``steps`` of decode go to the method, ``others`` (places in
    the batch) to vLLM.

    ``metadata_of``: vLLM's metadata of some of the batch's requests, their queries one after the other.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        steps: Sequence[Part],
        others: Sequence[int],
        bounds: Sequence[int],
        metadata_of: Callable[[tuple[int, ...]], Any],
    ) -> None:
        self.parts, self.steps, self.others, self._bounds = parts, steps, others, bounds
        self._metadata_of = metadata_of
        self._made: dict[tuple[int, ...], tuple[Tensor, Any]] = {}

    def rest(self, indices: tuple[int, ...]) -> tuple[Tensor, Any]:
        """Queries of the batch (int64) that belong to some requests, and the metadata to compute them alone."""
        made = self._made.get(indices)
        if made is None:
            bounds = self._bounds
            tokens = torch.cat([torch.arange(bounds[index], bounds[index + 1]) for index in indices])
            metadata = self._metadata_of(indices)
            made = self._made[indices] = tokens.to(metadata.query_start_loc.device), metadata
        return made


class Planner:
    """Makes the plans of one group of layers, and keeps what the method remembers of each request."""

    def __init__(self) -> None:
        _have_prompts_told()
        self._requests: dict[str, Request] = {}

    def plan(
        self,
        bounds: Sequence[int],
        lengths: Sequence[int],
        block_table: Tensor,
        metadata_of: Callable[[tuple[int, ...]], Any],
    ) -> Plan | None:
        """The plan of a batch; None where all of it stays with vLLM.

        Args:
            bounds: first query of each request, and the end of the last one.
            lengths: rows of each request, those of this batch's queries among them.
            block_table: [requests, blocks].
            metadata_of: see ``Plan``.
        """
        attention, method, budget = configured()
        told: list[tuple[str, int]] = getattr(_note, "prompts", [])
        alive: frozenset[str] = getattr(_note, "alive", frozenset())
        self._requests = {name: each for name, each in self._requests.items() if name in alive}
        parts: list[Part] = []
        steps: list[Part] = []
        others: list[int] = []
        for index, length in enumerate(lengths):
            begin, end = bounds[index], bounds[index + 1]
            name, prompt = told[index] if index < len(told) else ("", 0)
            start = length - (end - begin)
            decodes = start >= prompt and end - begin == 1
            # A part of one token looks like a decode step, and where those are recorded nothing of ours runs.
            reads = (
                attention.selects_in_decode(length)
                if decodes
                else end - begin > 1 and budget.tokens < length <= prompt and "prefill" in method.phases
            )
            if not name or not reads:
                others.append(index)
                continue
            request, blocks = self._request(name, start, length), block_table[index].to(torch.int64)
            if decodes:
                steps.append(Part(request, index, begin, end, start, blocks))
                continue
            exact_from = prompt - method.exact_tokens if method.exact_tokens else None
            parts.append(Part(request, index, begin, end, start, blocks, exact_from, last=length == prompt))
        return Plan(parts, steps, others, bounds, metadata_of) if parts or steps else None

    def _request(self, name: str, start: int, stop: int) -> Request:
        known = self._requests.get(name)
        # Elsewhere than where it was left: it was preempted and begins anew.
        if known is None or known.positions != start:
            known = self._requests[name] = Request()
        known.positions = stop
        return known


class Reader:
    """Computes the method's share of a layer's batch.

    Args:
        scale: factor on q.k before softmax.
        head_dim: of the model.
    """

    def __init__(self, scale: float, head_dim: int) -> None:
        self._scale = scale
        group = get_tp_group()
        self._add_up = group.all_reduce if group.world_size > 1 else None
        config = get_current_vllm_config()
        self._rotation = _rotation(config, head_dim)
        self._layers = config.model_config.hf_text_config.num_hidden_layers

    def read_prompts(
        self, plan: Plan, layer: int, query: Tensor, cached: tuple[Tensor, Tensor], output: Tensor
    ) -> None:
        """Writes the output of the prompts' parts.

        Args:
            plan: of the batch.
            layer: the layer's index.
            query: [tokens, heads, head_dim].
            cached: see ``PagedRows``.
            output: of the whole batch, [tokens, ...].
        """
        _, method, _ = configured()
        for part in plan.parts:
            call = self._call(part, layer, query, cached)
            computed = run.attend(method, call, part.exact_from)
            output[part.begin : part.end] = computed.reshape(part.end - part.begin, *output.shape[1:])
            part.request.rows[layer].release()

    def choose(
        self, plan: Plan, layer: int, query: Tensor, cached: tuple[Tensor, Tensor]
    ) -> list[tuple[Part, Selection]]:
        """What each decode step reads in a layer; those that read everything are left out, for vLLM's kernel."""
        _, method, _ = configured()
        found: list[tuple[Part, Selection]] = []
        for step in plan.steps:
            (selection,) = method.select(self._call(step, layer, query, cached, "decode"))
            if selection.local_start:
                found.append((step, selection))
        return found

    def read_steps(
        self,
        chosen: Sequence[tuple[Part, Selection]],
        query: Tensor,
        cached: tuple[Tensor, Tensor],
        output: Tensor,
    ) -> None:
        """Writes the output of decode steps, all of them in one go; arguments as of ``read_prompts``."""
        if not chosen:
            return
        _, _, budget = configured()
        kv_heads = cached[0].shape[1]
        queries = torch.tensor([step.begin for step, _ in chosen], device=query.device)
        rows = [rows_read(selection, budget.sinks, step.stop, kv_heads, query.device) for step, selection in chosen]
        blocks = [step.blocks for step, _ in chosen]
        computed = decode_attention(cached, query[queries], blocks, rows, self._scale)
        output[queries] = computed.reshape(len(chosen), *output.shape[1:])

    def _call(
        self, part: Part, layer: int, query: Tensor, cached: tuple[Tensor, Tensor], phase: Phase = "prefill"
    ) -> Call:
        _, _, budget = configured()
        rows = part.request.rows.setdefault(layer, PagedRows(*cached))
        # A GPU copies all keys at once sooner than it is told of every block.
        rows.point(part.blocks, part.stop, by_block=phase == "decode" and query.device.type == "cpu")
        return Call(
            rows=rows,
            queries=query[part.begin : part.end].transpose(0, 1),
            start=part.start,
            budget=budget,
            scale=self._scale,
            phase=phase,
            layer=layer,
            layers=self._layers,
            last=part.last,
            state=part.request.states.setdefault(layer, {}),
            unrope=None if self._rotation is None else self._rotation[1],
            rope_angles=None if self._rotation is None else self._rotation[0],
            add_up=self._add_up,
        )


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
        _note.alive = frozenset(self.requests)
        try:
            return build(self, *args, **kwargs)
        finally:
            _note.prompts = []

    telling.tells_deepedu = True  # type: ignore[attr-defined]
    GPUModelRunner._build_attention_metadata = telling
