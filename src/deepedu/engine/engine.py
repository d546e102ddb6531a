"""The engine: a model on its way into memory, then requests through it, then the end."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from deepedu.base.config import EngineSettings
from deepedu.base.errors import (
    BudgetError,
    ContextLengthExceeded,
    DeepEduError,
    EngineError,
    EngineLoading,
    RequestRefused,
    Unsupported,
)
from deepedu.engine import weights
from deepedu.engine.chat_prompt import ChatMessage, tokenize_chat
from deepedu.engine.events import Sampling
from deepedu.engine.progress import Progress, ProgressSink, Stopped, ignore
from deepedu.engine.prompt import Prompt, Source
from deepedu.engine.scheduler import Job, Scheduler, Work, failed
from deepedu.engine.weights import LoadedModel

if TYPE_CHECKING:
    from deepedu.attention.base import Budget, Method
    from deepedu.engine.cache import Segment
    from deepedu.engine.runner import Runner

logger = logging.getLogger(__name__)

Status = Literal["loading", "ok", "draining", "failed"]


class Engine:
    """One model and its queue.

    ``load`` fills it, ``submit`` uses it; until then requests are refused with ``EngineLoading``. ``start`` makes the
    work of a request from runner, prompt and sampling; ``generate.Generation`` unless another takes its place.
    """

    def __init__(
        self,
        settings: EngineSettings,
        *,
        start: Callable[[Any, Any, Any], Work] | None = None,
        progress: ProgressSink = ignore,
    ) -> None:
        self.settings = settings
        self.names = weights.served_names(settings.model)
        self.last_progress: Progress | None = None
        self.failure: DeepEduError | None = None
        self._start = start
        self._progress = progress
        self._loaded: LoadedModel | None = None
        self._runner: Runner | None = None
        self._scheduler = Scheduler(
            settings.max_queue,
            self._decode,
            max_running=settings.max_running,
            prefill_chunk_tokens=settings.prefill_chunk_tokens,
        )
        self._draining = self._stopped = False
        self._control_tokens: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """What ``/health`` tells."""
        if self._draining:
            return "draining"
        if self.failure is not None:
            return "failed"
        return "loading" if self._loaded is None else "ok"

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return self._scheduler.waiting

    @property
    def running(self) -> int:
        """Requests being computed."""
        return self._scheduler.running

    @property
    def loaded(self) -> LoadedModel:
        """The model.

        Raises:
            EngineLoading: it is not in memory yet.
        """
        if self._loaded is None:
            raise EngineLoading(
                f"the model {self.names[0]!r} is still loading: ask /health and come back when it is ok"
            )
        return self._loaded

    def load(self, cache_dir: Path | None = None) -> None:
        """Fetches, converts and loads the model of the settings; blocks. Ends early when the engine is closed.

        Raises:
            DeepEduError: as ``weights.resolve`` and ``weights.load``; also kept in ``failure``.
        """
        settings = self.settings
        try:
            # Before minutes are spent on the model.
            self._method_and_budget()
            if settings.threads:
                import torch

                torch.set_num_threads(settings.threads)
            folder = weights.resolve(settings.model, cache_dir or settings.cache_dir, self._on_progress)
            loaded = weights.load(
                folder,
                self.names,
                device=settings.device,
                dtype=settings.dtype,
                weights=settings.weights,
                max_window_tokens=settings.max_window_tokens,
                progress=self._on_progress,
            )
        except Stopped:
            logger.info("loading stopped")
            return
        except DeepEduError as error:
            self.failure = error
            raise
        try:
            self.use(loaded, cache_dir)
        except DeepEduError as error:
            self.failure = error
            raise

    def use(self, loaded: LoadedModel, cache_dir: Path | None = None) -> None:
        """Takes a model that is in memory already.

        Raises:
            Unsupported: the method of the settings cannot read this model's cache.
            ConfigError: the method, its fields or its budget.
        """
        from deepedu.engine.runner import Runner, open_cache

        settings = self.settings
        method, budget = self._method_and_budget()
        runner = Runner(loaded, method, budget, rows_dtype=settings.kv_rows)
        runner.cache = open_cache(
            loaded,
            method,
            budget,
            memory_gb=settings.kv_memory_gb,
            folder=(cache_dir or settings.cache_dir) / "prefix",
            disk_gb=settings.prefix_disk_gb,
            rows_dtype=settings.kv_rows,
        )
        added = getattr(loaded.tokenizer, "added_tokens_decoder", {}).values()
        self._control_tokens = tuple(str(token) for token in added if token.special)
        self._runner, self._loaded = runner, loaded
        logger.info(
            "%s is ready: %s, %s, window %d, method %s, %d MB for rows",
            self.names[0],
            loaded.device,
            loaded.dtype,
            loaded.window_tokens,
            method,
            runner.cache.limit_bytes >> 20,
        )

    def _method_and_budget(self) -> "tuple[Method, Budget]":
        from deepedu.attention.base import Budget
        from deepedu.attention.registry import make_method, read_fields

        settings = self.settings
        return make_method(settings.method, read_fields(settings.method_set)), Budget(settings.budget_tokens)

    @property
    def runner(self) -> "Runner":
        """Model, method and cache.

        Raises:
            EngineLoading: they are not in memory yet.
        """
        self.loaded  # noqa: B018 - refuses while loading
        assert self._runner is not None
        return self._runner

    def encode_chat(self, messages: Sequence[ChatMessage], owner: str | None = None) -> Prompt:
        """A conversation as a prompt, through the model's chat template.

        Raises:
            RequestRefused: no template, or the template refuses these messages.
            EngineLoading: the model is not in memory yet.
        """
        tokenizer = self.loaded.tokenizer
        if not getattr(tokenizer, "chat_template", None):
            raise RequestRefused(
                f"the model {self.names[0]!r} has no chat template: use /v1/completions", param="messages"
            )
        chat = tokenize_chat(tokenizer, messages, self._control_tokens)
        return Prompt(chat.ids, chat.shared_tokens, owner, chat.question_from, chat.tag)

    def encode_text(self, text: str) -> list[int]:
        """Token ids of a plain prompt.

        Raises:
            EngineLoading: the model is not in memory yet.
        """
        tokenizer = self.loaded.tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            return tokenizer.encode(text)
        return backend.encode(text).ids

    def room_tokens(self, prompt_tokens: int, max_tokens: int | None) -> int:
        """Tokens the completion may have: ``max_tokens``, or what the window and the memory for rows leave.

        Raises:
            ContextLengthExceeded: the prompt leaves no room, or less than was asked for.
        """
        window = self.loaded.window_tokens
        if prompt_tokens >= window:
            raise ContextLengthExceeded(
                f"the prompt has {prompt_tokens} tokens, the model's window {window}, completion included: "
                "shorten the prompt",
                prompt_tokens=prompt_tokens,
                window_tokens=window,
            )
        if max_tokens is not None and prompt_tokens + max_tokens > window:
            raise ContextLengthExceeded(
                f"the prompt has {prompt_tokens} tokens and {max_tokens} are asked for, together "
                f"{prompt_tokens + max_tokens}, the model's window is {window}: shorten the prompt or ask for at most "
                f"{window - prompt_tokens}",
                prompt_tokens=prompt_tokens,
                window_tokens=window,
            )
        if max_tokens is not None:
            return max_tokens
        runner = self.runner
        return max(1, min(window, runner.cache.limit_bytes // runner.row_bytes) - prompt_tokens)

    def submit(self, prompt: Prompt, sampling: Sampling, sink: Callable[[Any], None]) -> Job:
        """Queues a completion. ``sink`` gets its events in the worker's thread: those of ``generate``, then
        ``scheduler.Ended`` or ``scheduler.Failed``.

        Raises:
            EngineLoading, EngineBusy, EngineDraining: it was not queued.
            BudgetError: its rows would never fit the memory for rows.
        """
        from deepedu.engine.generate import Generation

        runner = self.runner
        self._check_memory(len(prompt.ids) + sampling.max_tokens)
        work: Work = (self._start or Generation)(runner, prompt, sampling)
        return self._scheduler.submit(Job(work, sink, owner=prompt.owner))

    def warm(self, prompt: Prompt, sink: Callable[[Any], None]) -> Job:
        """Queues computing a prompt's shared tokens, after the requests of people. ``sink`` gets
        ``warming.WarmProgress``, ``warming.Warmed``, then ``scheduler.Ended`` or ``scheduler.Failed``.

        Raises:
            EngineLoading, EngineBusy, EngineDraining, BudgetError: as ``submit``.
            Unsupported: nothing that is computed for one prompt can serve another.
        """
        from deepedu.engine.warming import Warming

        runner = self.runner
        if not runner.reuses:
            raise Unsupported(
                f"{self.names[0]} has layers with linear attention, whose state is not kept, so nothing can be warmed: "
                "set tutor.context='passages'"
            )
        self._check_memory(prompt.shared_tokens)
        return self._scheduler.submit(Job(Warming(runner, prompt), sink, low_priority=True))

    def store(self, segment: "Segment") -> "Future[EngineError | None]":
        """Writes a warmed prefix to disk; the future tells what went wrong, or None."""
        done: Future[EngineError | None] = Future()
        # Whoever waits may go away; the writer still tells.
        done.set_running_or_notify_cancel()
        self.runner.cache.store(segment, done.set_result)
        return done

    def look(self, prompt: Prompt) -> tuple[int, Source | None]:
        """Shared tokens of a prompt that are cached, and where."""
        return self.runner.cache.look(prompt)

    def forget(self, tag: str) -> tuple[int, int]:
        """Drops what is cached under a tag. Returns files deleted and their bytes."""
        return self.runner.cache.forget(tag)

    def _check_memory(self, tokens: int) -> None:
        runner = self.runner
        if not runner.fits(tokens):
            needed, limit = tokens * runner.row_bytes >> 20, runner.cache.limit_bytes >> 20
            raise BudgetError(
                f"the rows of {tokens} tokens take {needed} MB, engine.kv_memory_gb allows {limit} MB: shorten the "
                "prompt, ask for fewer tokens, or allow more"
            )

    def _decode(self, works: Sequence[Any]) -> list[Sequence[Any]]:
        logits = self.runner.decode([work.running for work in works], [work.token_id for work in works])
        events: list[Sequence[Any]] = []
        for work, each in zip(works, logits, strict=True):
            try:
                events.append(work.accept(each))
            except Exception as error:  # noqa: BLE001 - the boundary, see failed
                # One sequence's numbers are its own matter.
                events.append([failed(error)])
        return events

    def cancel(self, job: Job) -> None:
        """Frees the place of a job whose client went away."""
        self._scheduler.cancel(job)

    def drain(self, limit_s: float) -> bool:
        """Refuses new requests and lets accepted ones finish; after ``limit_s`` the rest is cancelled.

        Returns:
            Whether all finished by themselves.
        """
        self._draining = self._stopped = True
        return self._scheduler.drain(limit_s)

    def close(self) -> None:
        """Stops everything."""
        self._draining = self._stopped = True
        self._scheduler.close()
        if self._runner is not None:
            self._runner.cache.close()

    def _on_progress(self, event: Progress) -> None:
        if self._stopped:
            raise Stopped
        self.last_progress = event
        self._progress(event)
