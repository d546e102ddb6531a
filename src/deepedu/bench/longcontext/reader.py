"""Who reads a context once and answers many questions over it: transformers itself here, our methods beside it."""

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from deepedu.base.config import EngineSettings
from deepedu.base.errors import EngineError

if TYPE_CHECKING:
    import torch

    from deepedu.engine.weights import LoadedModel

PREFILL_CHUNK_TOKENS = 4096


class ContextReader(Protocol):
    """Reads a context, then answers questions over it, each as if it were the first.

    ``spec`` names the method with every field that changes its replies: results are kept under it.
    """

    spec: str

    def read(self, context_ids: Sequence[int]) -> None:
        """Prefills the context; an earlier one is forgotten.

        Args:
            context_ids: at least one token.

        Raises:
            EngineError: out of memory.
        """
        ...

    def answer(self, question_ids: Sequence[int], max_tokens: int) -> list[int]:
        """Tokens of a greedy reply to a question that follows the context; the context stays as it was.

        Args:
            question_ids: at least one token.
            max_tokens: of the reply; it may end earlier. Ending tokens are not part of it.
        """
        ...


def greedy_reply(
    forward: "Callable[[Sequence[int]], torch.Tensor]",
    question_ids: Sequence[int],
    max_tokens: int,
    end_ids: frozenset[int],
) -> list[int]:
    """The likeliest token each time, up to an ending one. ``forward`` gives the logits after the last token."""
    reply: list[int] = []
    logits = forward(question_ids)
    while len(reply) < max_tokens:
        token_id = int(logits.argmax())
        if token_id in end_ids:
            break
        reply.append(token_id)
        if len(reply) < max_tokens:
            logits = forward([token_id])
    return reply


class DenseReader:
    """Transformers' own attention with nothing left out."""

    spec = "transformers"

    def __init__(self, loaded: "LoadedModel") -> None:
        self._loaded = loaded
        self._cache: Any = None

    def read(self, context_ids: Sequence[int]) -> None:
        """See ``ContextReader``."""
        import torch
        from transformers import DynamicCache

        self._cache = None  # Frees the last one before the next grows.
        cache = DynamicCache(config=self._loaded.model.config)
        try:
            for start in range(0, len(context_ids), PREFILL_CHUNK_TOKENS):
                self._forward(context_ids[start : start + PREFILL_CHUNK_TOKENS], cache)
        except torch.OutOfMemoryError as error:
            raise EngineError(f"not enough memory to read a context of {len(context_ids)} tokens") from error
        self._cache = cache

    def answer(self, question_ids: Sequence[int], max_tokens: int) -> list[int]:
        """See ``ContextReader``."""
        assert self._cache is not None, "read a context first"
        cache = _branch(self._cache)
        return greedy_reply(lambda ids: self._forward(ids, cache), question_ids, max_tokens, self._loaded.end_ids)

    def _forward(self, token_ids: Sequence[int], cache: Any) -> "torch.Tensor":
        """Logits after the last token [vocabulary]."""
        import torch

        loaded = self._loaded
        # Readers share the model; each sets it to its own attention.
        if loaded.model.config._attn_implementation != "sdpa":
            loaded.model.set_attn_implementation("sdpa")
        with torch.inference_mode():
            ids = torch.tensor([list(token_ids)], dtype=torch.long, device=loaded.device)
            output = loaded.model(input_ids=ids, use_cache=True, logits_to_keep=1, **{loaded.cache_argument: cache})
            return output.logits[0, -1].float()


def _branch(cache: Any) -> Any:
    """A cache that begins as this one and leaves it as it is."""
    from transformers.cache_utils import DynamicLayer

    if not all(isinstance(layer, DynamicLayer) for layer in cache.layers):
        return copy.deepcopy(cache)  # Recurrent states are written in place.
    # These layers concatenate into new tensors, so the old ones can be shared.
    branch = copy.copy(cache)
    branch.layers = [copy.copy(layer) for layer in cache.layers]
    return branch


def make_reader(method: str, loaded: "LoadedModel", settings: EngineSettings) -> ContextReader:
    """The reader of a method.

    Args:
        method: ``transformers`` for its own dense attention, else a method of ours as ``--set methods`` names it:
            ``name:field=value:...``, ``k`` being the number of selected tokens.
        loaded: what it runs on; readers of one run share it.
        settings: the budget where the method names none.

    Raises:
        UnknownMethod, ConfigError: there is no such method, field or value.
        Unsupported: this model does not go with it.
    """
    from deepedu.bench.longcontext.method_reader import MethodReader
    from deepedu.bench.method_specs import MethodSpec

    if method == DenseReader.spec:
        return DenseReader(loaded)
    made, budget = MethodSpec(method).make(settings)
    return MethodReader(loaded, made, budget)
