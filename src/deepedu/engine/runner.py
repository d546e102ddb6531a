"""Sequences through the model: what is cached is reused, what is new is computed and kept."""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from deepedu.attention.base import Budget, Method
from deepedu.attention.registry import make_method
from deepedu.attention.tally import Tally
from deepedu.base.errors import ConfigError
from deepedu.engine.adapter import Adapter, KVCache, KVState
from deepedu.engine.cache import Match, PrefixCache, Segment
from deepedu.engine.prefix_files import HASH_BLOCK, PrefixFiles
from deepedu.engine.prompt import Prompt, Source
from deepedu.engine.rows import RowsDtype
from deepedu.engine.weights import LoadedModel

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Running:
    """A prompt on its way through the model.

    ``done_tokens`` of it are in the cache (reused or computed); ``cached_tokens`` of them were there before.
    """

    prompt: Prompt
    capacity: int
    match: Match
    state: KVState
    reserved_bytes: int
    cached_tokens: int = 0
    cached_from: Source | None = None
    shared: Segment | None = None
    tally: Tally = field(default_factory=Tally)
    ids: list[int] = field(default_factory=list[int])

    @property
    def done_tokens(self) -> int:
        """Tokens whose rows are there."""
        return self.state.positions

    @property
    def sealed(self) -> bool:
        """Whether the shared part is complete and the state reads it as a prefix."""
        return self.shared is not None or self.prompt.shared_tokens == 0

    def total(self) -> Tally:
        """What the method has done for this request so far."""
        total = Tally()
        total.add(self.tally)
        total.add(self.state.tally)
        return total


class Runner:
    """One model, one method, one cache."""

    def __init__(
        self,
        loaded: LoadedModel,
        method: Method | None = None,
        budget: Budget | None = None,
        *,
        cache: PrefixCache | None = None,
        rows_dtype: RowsDtype = "model",
    ) -> None:
        """``cache`` None: nothing is reused and memory is not counted.

        Raises:
            Unsupported: the method cannot read this model's cache.
        """
        self.loaded = loaded
        self.adapter = Adapter(loaded.model, method or make_method("dense"), budget or Budget(), rows_dtype=rows_dtype)
        self.cache = cache or PrefixCache(1 << 62, loaded.dtype)

    @property
    def method(self) -> Method:
        """The method that reads the cache."""
        return self.adapter.method

    @property
    def row_bytes(self) -> int:
        """Memory of one cached token."""
        return self.adapter.shape.row_bytes(self.adapter.rows_dtype)

    @property
    def reuses(self) -> bool:
        """Whether rows of one prompt can serve another; not where layers carry a state that rows do not hold."""
        return not self.adapter.shape.carries_state

    def fits(self, tokens: int) -> bool:
        """Whether so many tokens could be held if nothing else ran."""
        return tokens * self.row_bytes <= self.cache.limit_bytes

    def begin(self, prompt: Prompt, max_tokens: int) -> Running | None:
        """Takes a prompt in, reusing what is there; None while there is no memory for it."""
        if not self.reuses:
            prompt = replace(prompt, shared_tokens=0, owner=None)
        match = self.cache.match(prompt)
        size = self._reserve(prompt, max_tokens, match)
        if size is None:
            self.cache.done_with(match)
            # What was found is only in the way where it leaves no room and nothing runs that could make some.
            if not match.rows or self.cache.reserved_bytes:
                return None
            match = Match()
            if (size := self._reserve(prompt, max_tokens, match)) is None:
                return None
        try:
            return self._started(prompt, match, size)
        except BaseException:
            self.cache.release(size)
            self.cache.done_with(match)
            raise

    def _reserve(self, prompt: Prompt, max_tokens: int, match: Match) -> int | None:
        """Bytes promised for what a prompt adds to a match; None where there are not as many."""
        there = match.shared_rows if match.shared_rows == prompt.shared_tokens else 0
        size = (len(prompt.ids) + max_tokens - there) * self.row_bytes
        return size if self.cache.reserve(size) else None

    def _started(self, prompt: Prompt, match: Match, size: int) -> Running:
        whole, capacity = match.shared_rows == prompt.shared_tokens, size // self.row_bytes
        if whole:
            blocks = None if match.shared is None else match.shared.blocks
            state = self.adapter.new_sequence(capacity, blocks, match.shared_rows)
            if match.private is not None:
                _copy(match.private, state, match.private_rows)
        else:
            # Part of the shared text is there: copied, so that the whole lies in one piece again.
            state = self.adapter.new_sequence(prompt.shared_tokens)
            if match.shared is not None:
                _copy(match.shared, state, match.shared_rows)
        running = Running(prompt, capacity, match, state, size, match.rows, match.source)
        running.shared = match.shared if whole else None
        return running

    def prefill(self, running: Running, limit_tokens: int) -> "Tensor | None":
        """Computes at most ``limit_tokens`` more of the prompt.

        Returns:
            Logits after the last prompt token, float32 [vocabulary], once it is computed; else None.
        """
        prompt = running.prompt
        stop = len(prompt.ids) if running.sealed else prompt.shared_tokens
        start = running.done_tokens
        end = min(stop, start + limit_tokens)
        state = running.state
        # Shared rows serve other prompts too: none of them is the last of its prompt.
        state.phase = "prefill"
        state.last = prompt.shared_tokens < end == len(prompt.ids)
        state.exact_from = self._exact_from(prompt)
        logits = None
        if end > start:
            logits = self._forward([state], [list(prompt.ids[start:end])])[0]
        if not running.sealed and end == prompt.shared_tokens:
            self._seal(running)
        return logits if end == len(prompt.ids) else None

    def decode(self, running: Sequence[Running], tokens: Sequence[int]) -> "Tensor":
        """One token further in each sequence. Returns logits, float32 [sequences, vocabulary]."""
        for each, token in zip(running, tokens, strict=True):
            each.ids.append(token)
            each.state.phase = "decode"
        batches = [list(running)] if self.reuses else [[each] for each in running]
        return torch.cat(
            [self._forward([each.state for each in batch], [[each.ids[-1]] for each in batch]) for batch in batches]
        )

    def end(self, running: Running, *, keep: bool = True) -> None:
        """Gives the memory back; rows of the prompt may serve its owner's next one where ``keep``."""
        prompt, state = running.prompt, running.state
        # First, so that the rows that are kept do not count twice and drive each other out.
        self.cache.release(running.reserved_bytes)
        blocks = [layer.own_blocks[0] for layer in state.layers]
        # A step that failed has filled the first layers further than the last.
        rows = blocks[-1].used
        if running.sealed:
            if keep and not self.method.evicts:
                self.cache.add_private(prompt, [*prompt.ids, *running.ids], blocks, rows)
        elif keep and rows // HASH_BLOCK > running.match.shared_rows // HASH_BLOCK:
            # A warm-up that was interrupted goes on from here the next time.
            segment = self.cache.add_shared(prompt, blocks, rows)
            self.cache.store(segment)
            self.cache.done_with(Match(segment))
        sealed_here = running.shared is not None and running.shared is not running.match.shared
        self.cache.done_with(running.match)
        if sealed_here:
            self.cache.done_with(Match(running.shared))

    def _seal(self, running: Running) -> None:
        prompt = running.prompt
        blocks = [layer.own_blocks[0] for layer in running.state.layers]
        running.shared = self.cache.add_shared(prompt, blocks, prompt.shared_tokens)
        size = prompt.shared_tokens * self.row_bytes
        self.cache.release(size)
        running.reserved_bytes -= size
        running.tally.add(running.state.tally)
        # What follows starts as it would on rows found in the cache: the same prompt gives the same rows.
        running.state = self.adapter.new_sequence(running.capacity - prompt.shared_tokens, blocks, prompt.shared_tokens)
        if len(prompt.ids) > prompt.shared_tokens:
            self.cache.store(running.shared)

    def _exact_from(self, prompt: Prompt) -> int:
        newest = len(prompt.ids) - self.method.exact_tokens
        question = prompt.shared_tokens if prompt.question_from is None else prompt.question_from
        return max(newest, question, prompt.shared_tokens)

    def _forward(self, states: Sequence[KVState], ids: Sequence[list[int]]) -> "Tensor":
        device = self.loaded.device
        with torch.inference_mode():
            positions = [
                list(range(state.positions, state.positions + len(tokens)))
                for state, tokens in zip(states, ids, strict=True)
            ]
            output = self.loaded.model(
                input_ids=torch.tensor(list(ids), dtype=torch.long, device=device),
                position_ids=torch.tensor(positions, dtype=torch.long, device=device),
                use_cache=True,
                logits_to_keep=1,
                **{self.loaded.cache_argument: KVCache(states)},
            )
            return output.logits[:, -1].float()


def _copy(segment: Segment, state: KVState, rows: int) -> None:
    for block, layer in zip(segment.blocks, state.layers, strict=True):
        layer.own_blocks[0].copy_from(block, 0, rows)


def open_cache(
    loaded: LoadedModel,
    method: Method,
    budget: Budget,
    *,
    memory_gb: float | None,
    folder: Path,
    disk_gb: float,
    rows_dtype: RowsDtype,
) -> PrefixCache:
    """The cache of a model under a method, with the shared prefixes that an earlier process left on disk.

    ``memory_gb`` None takes half of the memory that is free now.
    """
    memory = int(memory_gb * 2**30) if memory_gb is not None else _free_bytes(loaded) // 2
    fingerprint = _fingerprint(loaded, method, budget, rows_dtype)
    files = None if disk_gb == 0 else PrefixFiles(folder, fingerprint, int(disk_gb * 2**30))
    return PrefixCache(memory, loaded.dtype, files, loaded.device)


def _free_bytes(loaded: LoadedModel) -> int:
    if loaded.device.type == "cuda":
        return int(torch.cuda.mem_get_info(loaded.device)[0])
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    raise ConfigError("the free memory of this machine is not known: set engine.kv_memory_gb")


def _fingerprint(loaded: LoadedModel, method: Method, budget: Budget, rows_dtype: RowsDtype) -> str:
    """Everything that cached rows depend on besides their tokens."""
    parts = [
        _model_digest(loaded),
        repr(method),
        repr(budget),
        str(loaded.dtype),
        getattr(loaded, "weights", "full"),
        rows_dtype,
        json.dumps(_without_folder(loaded.model.config.to_dict()), sort_keys=True, default=str),
    ]
    backend = getattr(loaded.tokenizer, "backend_tokenizer", None)
    parts.append(backend.to_str() if backend is not None else repr(loaded.tokenizer))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _without_folder(config: dict[str, Any]) -> dict[str, Any]:
    # The same model in another place computes the same rows.
    return {
        key: _without_folder(value) if isinstance(value, dict) else value
        for key, value in config.items()
        if key != "_name_or_path"
    }


def _model_digest(loaded: LoadedModel) -> str:
    """A digest over samples of the weights as they are in memory; reading all of them would cost seconds."""
    digest = hashlib.sha256()
    model = loaded.model
    # Buffers too: quantised layers keep their weights there.
    for name, tensor in sorted([*model.named_parameters(), *model.named_buffers()], key=lambda each: each[0]):
        flat = tensor.detach().reshape(-1)
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        step = max(1, flat.numel() // 1024)
        digest.update(flat[::step][:1024].double().cpu().numpy().tobytes())
    return digest.hexdigest()
