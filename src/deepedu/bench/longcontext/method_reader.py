"""Reads a context by one of our attention methods, then answers questions over it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deepedu.bench.longcontext.reader import greedy_reply
from deepedu.engine.adapter import NAME, Adapter, KVCache, KVState
from deepedu.engine.rows import LayerRows

if TYPE_CHECKING:
    import torch

    from deepedu.attention.base import Budget, Method
    from deepedu.engine.weights import LoadedModel

PREFILL_CHUNK_TOKENS = 8192


class MethodReader:
    """A ``ContextReader``: the context's rows are a prefix that every question only reads."""

    def __init__(self, loaded: "LoadedModel", method: "Method", budget: "Budget") -> None:
        """Raises: Unsupported: the method cannot read this model's cache."""
        self._loaded = loaded
        self._adapter = Adapter(loaded.model, method, budget)
        self._context: KVState | None = None
        self.spec = f"{method} {budget} {loaded.weights}"

    def read(self, context_ids: Sequence[int]) -> None:
        """See ``ContextReader``."""
        self._context = None  # Frees the last one before the next grows.
        state = self._adapter.new_sequence(len(context_ids))
        # Nothing in a context is the question.
        state.exact_from = len(context_ids)
        for start in range(0, len(context_ids), PREFILL_CHUNK_TOKENS):
            piece = context_ids[start : start + PREFILL_CHUNK_TOKENS]
            state.last = start + len(piece) == len(context_ids)
            self._forward(piece, state)
        self._context = state

    def answer(self, question_ids: Sequence[int], max_tokens: int) -> list[int]:
        """See ``ContextReader``."""
        assert self._context is not None, "read a context first"
        state = self._branch(self._context, len(question_ids) + max_tokens)
        exact = self._adapter.method.exact_tokens
        state.exact_from = state.positions + max(0, len(question_ids) - exact)
        return greedy_reply(lambda ids: self._forward(ids, state), question_ids, max_tokens, self._loaded.end_ids)

    def _branch(self, context: KVState, capacity: int) -> KVState:
        layers: list[LayerRows] = []
        for rows, block in zip(context.layers, self._adapter.new_blocks(capacity), strict=True):
            branch = LayerRows(block, rows.own_blocks[0], rows.own_blocks[0].used)
            branch.evicted_rows = rows.evicted_rows
            layers.append(branch)
        # The question is not the prompt's end that an evicting method waits for: it has dropped its rows already.
        return KVState(self._adapter, layers, last=False)

    def _forward(self, token_ids: Sequence[int], state: KVState) -> "torch.Tensor":
        """Logits after the last token [vocabulary]."""
        import torch

        loaded = self._loaded
        # Readers share the model; each sets it to its own attention.
        if loaded.model.config._attn_implementation != NAME:
            loaded.model.set_attn_implementation(NAME)
        start = state.positions
        with torch.inference_mode():
            output = loaded.model(
                input_ids=torch.tensor([list(token_ids)], dtype=torch.long, device=loaded.device),
                position_ids=torch.arange(start, start + len(token_ids), device=loaded.device)[None],
                use_cache=True,
                logits_to_keep=1,
                **{loaded.cache_argument: KVCache([state])},
            )
            return output.logits[0, -1].float()
