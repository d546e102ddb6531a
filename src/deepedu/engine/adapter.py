"""One attention method inside a transformers decoder.

The model stays as it is: attention goes through transformers' ``AttentionInterface``, rows through a ``Cache`` of ours.
The interface is not told which cache a layer belongs to, but a layer asks it right after it has updated its cache, in
the same thread; the cache leaves a note of itself there.
"""

import inspect
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, CacheLayerMixin, LinearAttentionLayer

from deepedu.attention import run
from deepedu.attention.base import Budget, Call, Method, Phase
from deepedu.attention.tally import Tally
from deepedu.base.errors import EngineError, Unsupported
from deepedu.engine.rows import LayerRows, RowBlock, RowsDtype
from deepedu.engine.unrope import Unrope

logger = logging.getLogger(__name__)

NAME = "deepedu"
# Query rows that a layer with a sliding window computes at once; bounds the mask.
WINDOW_TILE = 512

_note = threading.local()


@dataclass(frozen=True)
class ModelShape:
    """What the cache needs to know of a model.

    ``with_rows``: the layers that keep rows, ascending. The others (linear attention) carry a state of fixed size from
    token to token, which the rows of a prefix cannot bring back.
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    with_rows: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def row_bytes(self, rows_dtype: RowsDtype) -> int:
        """Bytes of one token's rows over all layers."""
        size = torch.empty((), dtype=self.dtype).element_size()
        per_head = 2 * self.head_dim * size if rows_dtype == "model" else 2 * (self.head_dim + 4)
        return len(self.with_rows) * self.kv_heads * per_head

    @property
    def carries_state(self) -> bool:
        """Whether some layers carry a state besides the rows."""
        return len(self.with_rows) < self.layers


class Adapter:
    """A model that reads its cache by a method.

    Raises:
        Unsupported: the model needs what no method here computes; the message names it and the way out.
    """

    def __init__(self, model: Any, method: Method, budget: Budget, *, rows_dtype: RowsDtype = "model") -> None:
        self.model, self.method, self.budget = model, method, budget
        self.rows_dtype: RowsDtype = rows_dtype
        self.shape = _shape(model)
        self._angles = _rope_angles(model)
        self._unrope = Unrope(self._angles) if _undoes(model, self._angles) else None
        AttentionInterface.register(NAME, _attention)
        AttentionMaskInterface.register(NAME, _mask)
        model.set_attn_implementation(NAME)

    def new_sequence(self, capacity: int, prefix: Sequence[RowBlock] | None = None, prefix_rows: int = 0) -> "KVState":
        """An empty sequence with room for ``capacity`` tokens, after ``prefix_rows`` of a prefix it only reads.

        Raises:
            Unsupported: a prefix is given and some layers carry a state, which its rows do not hold.
        """
        if prefix_rows and self.shape.carries_state:
            raise Unsupported(
                f"{type(self.model).__name__} has layers with linear attention: a sequence cannot begin with the rows "
                "of another, compute it from its first token"
            )
        layers = [
            LayerRows(block, None if prefix is None else prefix[index], prefix_rows)
            for index, block in enumerate(self.new_blocks(capacity))
        ]
        with_rows = set(self.shape.with_rows)
        carried = {index: LinearAttentionLayer() for index in range(self.shape.layers) if index not in with_rows}
        return KVState(self, layers, carried=carried)

    def new_blocks(self, capacity: int) -> list[RowBlock]:
        """An empty block for each layer; one that stays empty for a layer without rows."""
        shape, with_rows = self.shape, set(self.shape.with_rows)
        return [
            RowBlock.allocate(
                shape.kv_heads,
                max(1, capacity) if layer in with_rows else 1,
                shape.head_dim,
                shape.dtype,
                shape.device,
                self.rows_dtype,
            )
            for layer in range(shape.layers)
        ]

    def new_cache(self, capacity: int = 1024) -> "KVCache":
        """A cache for ``model(...)`` or ``model.generate(...)`` of one sequence."""
        return KVCache([self.new_sequence(capacity)])


@dataclass
class KVState:
    """One sequence: its rows, and what the method remembers of it.

    ``exact_from``: position from which prompt tokens attend densely; None takes the last ``exact_tokens`` of whatever
    comes in one piece. ``last``: whether the next tokens end the prompt. ``phase`` None takes a single token after the
    first for decode, as ``model.generate`` has it; a prompt's rest may be a single token too. ``carried``: the states
    of layers without rows, as transformers keeps them.
    """

    adapter: Adapter
    layers: list[LayerRows]
    exact_from: int | None = None
    last: bool = True
    phase: Phase | None = None
    tally: Tally = field(default_factory=Tally)
    states: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    carried: dict[int, Any] = field(default_factory=dict[int, Any])

    @property
    def positions(self) -> int:
        """Tokens seen."""
        return self.layers[self.adapter.shape.with_rows[0]].positions

    def attend(self, layer: int, queries: Tensor, scale: float, window: int | None) -> Tensor:
        """Attention output [q_len, heads, head_dim] of queries [heads, q_len, head_dim] whose rows are appended."""
        rows, adapter = self.layers[layer], self.adapter
        start = rows.length - queries.shape[1]
        if window is not None:
            return _windowed(rows, queries, start, scale, window)
        method = adapter.method
        call = Call(
            rows=rows,
            queries=queries,
            start=start,
            budget=adapter.budget,
            scale=scale,
            phase=self.phase or ("decode" if queries.shape[1] == 1 and start > 0 else "prefill"),
            layer=layer,
            layers=adapter.shape.layers,
            last=self.last,
            state=self.states.setdefault(layer, {}),
            tally=self.tally,
            unrope=self._unrope(rows),
            rope_angles=adapter._angles,
        )
        out = run.attend(method, call, self._exact_row(rows, call))
        if method.evicts and call.phase == "prefill" and (kept := method.keep(call)) is not None:
            rows.retain(kept)
        return out

    def _exact_row(self, rows: LayerRows, call: Call) -> int | None:
        if self.adapter.method.exact_tokens == 0:
            return None
        if self.exact_from is None:
            return max(call.start, call.stop - self.adapter.method.exact_tokens)
        return self.exact_from - rows.evicted_rows

    def _unrope(self, rows: LayerRows) -> Callable[[Tensor, Tensor], Tensor] | None:
        undo, evicted = self.adapter._unrope, rows.evicted_rows
        if undo is None or not evicted:
            return undo
        return lambda queries, at: undo(queries, at + evicted)


class KVCache(Cache):
    """Rows of one or several sequences, as transformers' models update them. Several take one token each.

    Raises:
        Unsupported: several sequences of a model some of whose layers carry a state.
    """

    def __init__(self, sequences: Sequence[KVState]) -> None:
        self.sequences = list(sequences)
        carried = self.sequences[0].carried
        if carried and len(self.sequences) > 1:
            raise Unsupported("sequences of a model with linear attention are computed one at a time")
        layers = [carried.get(index) or _Layer(self, index) for index in range(len(self.sequences[0].layers))]
        super().__init__(layers=layers)  # type: ignore[arg-type]

    @property
    def tally(self) -> Tally:
        """What the method did for the first sequence."""
        return self.sequences[0].tally


class _Layer(CacheLayerMixin):
    is_sliding = False

    def __init__(self, cache: KVCache, index: int) -> None:
        super().__init__()
        self.cache, self.index = cache, index
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing is left to do."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Appends rows [batch, kv_heads, q_len, head_dim] and leaves the note for the attention that follows."""
        if len(key_states) != len(self.cache.sequences):
            raise EngineError(
                f"this cache holds {len(self.cache.sequences)} sequences, came a batch of {len(key_states)}"
            )
        for sequence, keys, values in zip(self.cache.sequences, key_states, value_states, strict=True):
            sequence.layers[self.index].append(keys, values)
        _note.of = (self.cache, self.index)
        return key_states, value_states

    def get_seq_length(self) -> int:
        """Tokens seen."""
        return self.cache.sequences[0].layers[self.index].positions

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of a mask that is never made."""
        return self.get_seq_length() + query_length, 0

    def get_max_length(self) -> int:
        """No limit of its own."""
        return -1

    def reset(self) -> None:
        """A sequence is used once."""
        raise EngineError("a sequence is not reset: make a new cache")


def _attention(
    module: Any,
    query: Tensor,
    _key: Tensor,
    _value: Tensor,
    _attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    cache, layer = getattr(_note, "of", (None, -1))
    _note.of = (None, -1)
    if cache is None or layer != module.layer_idx:
        raise EngineError("a model under this adapter needs its cache: pass cache=adapter.new_cache()")
    if softcap is not None or kwargs.get("s_aux") is not None:
        raise Unsupported("attention with capped scores or learnt sinks is not computed here")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = torch.stack(
        [
            sequence.attend(layer, queries, scale, sliding_window)
            for sequence, queries in zip(cache.sequences, query, strict=True)
        ]
    )
    return out, None


def _mask(attention_mask: Tensor | None = None, **_: Any) -> None:
    # Causality is in the computation itself. Padding would need a mask; sequences of different length go one by one.
    if attention_mask is not None and not bool(attention_mask.all()):
        raise Unsupported("a padded batch cannot be computed: give sequences of one length, or one at a time")


def _windowed(rows: LayerRows, queries: Tensor, start: int, scale: float, window: int) -> Tensor:
    """Each query reads the ``window`` newest rows, its own among them."""
    heads, q_len, head_dim = queries.shape
    out = torch.empty(q_len, heads, head_dim, dtype=queries.dtype, device=queries.device)
    for begin in range(0, q_len, WINDOW_TILE):
        end = min(begin + WINDOW_TILE, q_len)
        first = max(0, start + begin - window + 1)
        pieces = list(rows.parts(first, start + end))
        keys, values = (torch.cat([piece[i] for piece in pieces], dim=1)[None] for i in (0, 1))
        seen = torch.arange(start + begin, start + end, device=queries.device)[:, None]
        row = torch.arange(first, start + end, device=queries.device)[None]
        mask = (row <= seen) & (row > seen - window)
        tile = torch.nn.functional.scaled_dot_product_attention(
            queries[None, :, begin:end], keys, values, attn_mask=mask, scale=scale, enable_gqa=heads != keys.shape[1]
        )
        out[begin:end] = tile[0].transpose(0, 1)
    return out


def _shape(model: Any) -> ModelShape:
    config = model.config.get_text_config()
    name = type(model).__name__
    way_out = "choose a decoder with rotary positions, such as a Llama, Qwen, Mistral or Gemma 3 model"
    kinds = list(getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers)
    if other := sorted(set(kinds) - {"full_attention", "sliding_attention", "linear_attention"}):
        raise Unsupported(
            f"{name} has layers of kind {', '.join(other)}, which the cache here does not keep: {way_out}"
        )
    with_rows = tuple(index for index, kind in enumerate(kinds) if kind != "linear_attention")
    if not with_rows:
        raise Unsupported(f"{name} has no layer that keeps rows to select from: {way_out}")
    if getattr(model.get_decoder(), "rotary_emb", None) is None:
        raise Unsupported(
            f"{name} has no rotary position embedding (RoPE), which every method here builds on: {way_out}"
        )
    if getattr(config, "attn_logit_softcapping", None):
        raise Unsupported(f"{name} caps its attention scores, which the attention here does not: {way_out}")
    if getattr(config, "num_kv_shared_layers", 0):
        raise Unsupported(f"{name} shares rows between layers, which the cache here does not: {way_out}")
    heads = config.num_attention_heads
    parameter = next(model.parameters())
    return ModelShape(
        layers=config.num_hidden_layers,
        heads=heads,
        kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        with_rows=with_rows,
        dtype=model.dtype,
        device=parameter.device,
    )


def _rope_angles(model: Any) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    rotary = model.get_decoder().rotary_emb
    typed = "layer_type" in inspect.signature(rotary.forward).parameters
    more = {"layer_type": "full_attention"} if typed else {}

    def angles(positions: Tensor) -> tuple[Tensor, Tensor]:
        like = torch.empty(0, dtype=torch.float32, device=positions.device)
        cos, sin = rotary(like, positions[None], **more)
        return cos[0], sin[0]

    return angles


def _undoes(model: Any, angles: Callable[[Tensor], tuple[Tensor, Tensor]]) -> bool:
    """Whether our rotation is the inverse of the model's own; tried out, since models pair channels differently."""
    shape = _shape(model)
    layer = model.get_decoder().layers[shape.with_rows[0]]
    attention = next(each for each in layer.children() if hasattr(each, "layer_idx"))
    rotate = getattr(sys.modules[type(attention).__module__], "apply_rotary_pos_emb", None)
    queries = torch.linspace(-1, 1, 3 * shape.head_dim, device=shape.device).reshape(1, 1, 3, -1)
    if rotate is not None:
        cos, sin = angles(torch.arange(5, 8, device=shape.device))
        # Where only some channels turn, some models part them before they call it.
        for width in (shape.head_dim, cos.shape[-1]):
            given = queries[..., :width]
            try:
                turned, _ = rotate(given, given, cos[None], sin[None])
            except (RuntimeError, TypeError):
                continue
            if torch.allclose(Unrope(angles)(turned, torch.arange(5, 8, device=shape.device)), given, atol=1e-4):
                return True
    logger.warning("the rotation of %s is not known: methods compare queries after RoPE", type(model).__name__)
    return False
