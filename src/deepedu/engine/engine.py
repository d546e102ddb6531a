"""The engine: a model on its way into memory, then requests through it, then the end."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from deepedu.base.config import EngineSettings
from deepedu.base.errors import ContextLengthExceeded, DeepEduError, EngineLoading, RequestRefused
from deepedu.engine import weights
from deepedu.engine.generate import GenerationEvent, Sampling, generate
from deepedu.engine.progress import Progress, ProgressSink, Stopped, ignore
from deepedu.engine.scheduler import Job, Scheduler
from deepedu.engine.weights import LoadedModel

logger = logging.getLogger(__name__)

Status = Literal["loading", "ok", "draining", "failed"]


class Engine:
    """One model and its queue.

    ``load`` fills it, ``submit`` uses it; until then requests are refused with ``EngineLoading``. ``complete`` is the
    function that completes a prompt; another with the same signature can take its place.
    """

    def __init__(
        self,
        settings: EngineSettings,
        *,
        complete: Callable[..., Iterator[GenerationEvent]] = generate,
        progress: ProgressSink = ignore,
    ) -> None:
        self.settings = settings
        self.names = weights.served_names(settings.model)
        self.last_progress: Progress | None = None
        self.failure: DeepEduError | None = None
        self._complete = complete
        self._progress = progress
        self._loaded: LoadedModel | None = None
        self._scheduler = Scheduler(settings.max_queue)
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
            if settings.threads:
                import torch

                torch.set_num_threads(settings.threads)
            folder = weights.resolve(settings.model, cache_dir or settings.cache_dir, self._on_progress)
            loaded = weights.load(
                folder,
                self.names,
                device=settings.device,
                dtype=settings.dtype,
                max_window_tokens=settings.max_window_tokens,
                progress=self._on_progress,
            )
        except Stopped:
            logger.info("loading stopped")
            return
        except DeepEduError as error:
            self.failure = error
            raise
        self.use(loaded)

    def use(self, loaded: LoadedModel) -> None:
        """Takes a model that is in memory already."""
        added = getattr(loaded.tokenizer, "added_tokens_decoder", {}).values()
        self._control_tokens = tuple(str(token) for token in added if token.special)
        self._loaded = loaded
        logger.info("%s is ready: %s, %s, window %d", self.names[0], loaded.device, loaded.dtype, loaded.window_tokens)

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Token ids of a conversation, through the model's chat template, ready for the assistant's turn.

        Text that spells one of the model's control tokens (``<|im_end|>``) stays text: nobody ends his own turn and
        writes a system message by typing it.

        Raises:
            RequestRefused: no template, or the template refuses these messages.
            EngineLoading: the model is not in memory yet.
        """
        from jinja2 import TemplateError

        tokenizer = self.loaded.tokenizer
        if not getattr(tokenizer, "chat_template", None):
            raise RequestRefused(
                f"the model {self.names[0]!r} has no chat template: use /v1/completions", param="messages"
            )
        try:
            text = tokenizer.apply_chat_template(
                [{**message, "content": _defused(message["content"], self._control_tokens)} for message in messages],
                tokenize=False,
                add_generation_prompt=True,
            )
        except TemplateError as error:
            raise RequestRefused(
                f"the model's chat template refuses these messages: {error}", param="messages"
            ) from error
        return _encode(tokenizer, text, add_special_tokens=False)

    def encode_text(self, text: str) -> list[int]:
        """Token ids of a plain prompt.

        Raises:
            EngineLoading: the model is not in memory yet.
        """
        return _encode(self.loaded.tokenizer, text, add_special_tokens=True)

    def room_tokens(self, prompt_tokens: int, max_tokens: int | None) -> int:
        """Tokens the completion may have: ``max_tokens``, or what the window leaves.

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
        return window - prompt_tokens if max_tokens is None else max_tokens

    def submit(self, prompt_ids: Sequence[int], sampling: Sampling, sink: Callable[[Any], None]) -> Job:
        """Queues a completion. ``sink`` gets its events in the worker's thread: those of ``generate``, then
        ``scheduler.Ended`` or ``scheduler.Failed``.

        Raises:
            EngineLoading, EngineBusy, EngineDraining: it was not queued.
        """
        loaded = self.loaded

        def run(cancelled: threading.Event) -> Iterator[GenerationEvent]:
            return self._complete(
                loaded,
                prompt_ids,
                sampling,
                cancelled=cancelled,
                prefill_chunk_tokens=self.settings.prefill_chunk_tokens,
            )

        return self._scheduler.submit(Job(run, sink))

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

    def _on_progress(self, event: Progress) -> None:
        if self._stopped:
            raise Stopped
        self.last_progress = event
        self._progress(event)


def _defused(text: str, control_tokens: Sequence[str]) -> str:
    # A zero-width space after the first character: reads the same, and is no control token any more.
    for token in control_tokens:
        if token in text:
            text = text.replace(token, f"{token[0]}\u200b{token[1:]}")
    return text


def _encode(tokenizer: Any, text: str, *, add_special_tokens: bool) -> list[int]:
    # The outer encode() sets truncation and padding anew each time, which fails while the worker decodes with the same
    # tokenizer; the backend's own call changes nothing and lets other threads run.
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return tokenizer.encode(text, add_special_tokens=add_special_tokens)
    return backend.encode(text, add_special_tokens=add_special_tokens).ids
