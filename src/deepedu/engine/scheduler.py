"""Who runs next: one worker; decode steps of running requests are batched, prompts are computed between them in slices.

A request that streams is held up by at most one slice of another's prompt. Requests wait while memory for their rows
is promised to others; among those that wait, the owner who has least running goes first, then the one who was served
longest ago; those who do not say who they are count as one owner. Requests of low priority (warming a lesson) get a
slice only when no other prompt waits for one; one of them runs at a time, beside the places for the others.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from deepedu.base.errors import DeepEduError, EngineBusy, EngineDraining, EngineError

logger = logging.getLogger(__name__)

# Seconds to wait that a full queue answers before anything was measured.
UNKNOWN_DURATION_S = 5
REMEMBERED_DURATIONS = 16
REMEMBERED_OWNERS = 4096
# How long a slice of a prompt may hold up those that stream, in seconds; and the slice before a speed is known.
SLICE_S = 0.5
FIRST_SLICE_TOKENS = 64


class Work(Protocol):
    """What a request does, a step at a time; ``generate.Generation`` is one."""

    finished: bool

    @property
    def prefilling(self) -> bool:
        """Whether its prompt is still being computed."""
        ...

    def begin(self) -> bool:
        """Takes memory; false while there is none for it."""
        ...

    def prefill(self, limit_tokens: int) -> Sequence[Any]:
        """Computes a slice of the prompt; returns events."""
        ...

    def cancel(self) -> Sequence[Any]:
        """Ends where it is; returns events."""
        ...

    def end(self) -> None:
        """Gives its memory back."""
        ...


# One decode step of several requests: events of each, in order.
DecodeStep = Callable[[Sequence[Any]], Sequence[Sequence[Any]]]


@dataclass(frozen=True)
class Failed:
    """Last event of a job that raised."""

    error: DeepEduError


@dataclass(frozen=True)
class Ended:
    """Last event of a job that ran through, or that was cancelled."""

    cancelled: bool


@dataclass(eq=False)
class Job:
    """One request. ``sink`` gets every event in the worker's thread, the last of them ``Ended`` or ``Failed``."""

    work: Work
    sink: Callable[[Any], None]
    owner: str | None = None
    low_priority: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    submitted_at: float = field(default_factory=time.perf_counter)
    started_at: float | None = None

    @property
    def queue_ms(self) -> float:
        """Milliseconds waited, up to now if it still waits."""
        return ((self.started_at or time.perf_counter()) - self.submitted_at) * 1000


class Scheduler:
    """Runs jobs in its own thread."""

    def __init__(
        self, max_queue: int, decode: DecodeStep, *, max_running: int = 4, prefill_chunk_tokens: int = 8192
    ) -> None:
        """``max_queue``: jobs that may wait beside the ``max_running`` that run; as many of low priority besides."""
        self._max_queue, self._max_running = max_queue, max_running
        self._decode, self._chunk_tokens = decode, prefill_chunk_tokens
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []
        self._changed = threading.Condition()
        self._draining = self._closed = False
        self._durations_s: deque[float] = deque(maxlen=REMEMBERED_DURATIONS)
        self._served_at: dict[str | None, float] = {}
        self._prefilled_at: dict[Job, float] = {}
        self._tokens_per_s = 0.0
        self._thread = threading.Thread(target=self._work, name="deepedu-engine", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Jobs in the queue, without the running ones."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Jobs being computed."""
        return len(self._running)

    def submit(self, job: Job) -> Job:
        """Puts a job into the queue.

        Raises:
            EngineBusy: the queue is full; tells when to come back.
            EngineDraining: the server is shutting down.
        """
        with self._changed:
            if self._draining:
                raise EngineDraining("the server is shutting down and takes no new requests: ask another or come back")
            waiting = sum(other.low_priority == job.low_priority for other in self._waiting)
            if waiting >= self._max_queue + self._free_places(low_priority=job.low_priority):
                raise EngineBusy(
                    f"{waiting} requests wait already, the most allowed is {self._max_queue}: "
                    f"come back in {self._retry_after_s()} s",
                    retry_after_s=self._retry_after_s(),
                )
            self._waiting.append(job)
            self._changed.notify_all()
        return job

    def cancel(self, job: Job) -> None:
        """Frees the job's place: at once when it waits, before its next step when it runs. Harmless if it is over."""
        job.cancelled.set()
        with self._changed:
            if job not in self._waiting:
                return
            self._waiting.remove(job)
            self._changed.notify_all()
        _tell(job, Ended(cancelled=True))

    def drain(self, limit_s: float) -> bool:
        """Takes no new jobs, lets the accepted ones finish up to ``limit_s``, then cancels what is left.

        Returns:
            Whether all finished by themselves.
        """
        with self._changed:
            self._draining = True
            finished = self._changed.wait_for(lambda: not self._waiting and not self._running, timeout=limit_s)
            left = [*self._waiting, *self._running]
        for job in left:
            self.cancel(job)
        return finished

    def close(self) -> None:
        """Cancels everything and ends the worker."""
        self.drain(0)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout=30)

    def _retry_after_s(self) -> int:
        if not self._durations_s:
            return UNKNOWN_DURATION_S
        mean_s = sum(self._durations_s) / len(self._durations_s)
        # A place is free as soon as one of the running jobs ends.
        spent_s = max((time.perf_counter() - (job.started_at or math.inf) for job in self._running), default=0.0)
        return max(1, math.ceil(mean_s - max(0.0, spent_s)))

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._running or self._closed)
                if self._closed and not self._waiting and not self._running:
                    return
            self._drop_cancelled()
            self._admit()
            self._prefill_slice()
            self._decode_step()

    def _drop_cancelled(self) -> None:
        for job in [job for job in self._running if job.cancelled.is_set()]:
            for event in job.work.cancel():
                _tell(job, event)
            self._finish(job, Ended(cancelled=True))

    def _admit(self) -> None:
        """Starts waiting jobs while there are places and memory."""
        while True:
            with self._changed:
                ready = [job for job in self._waiting if self._free_places(low_priority=job.low_priority)]
                if not ready:
                    return
                job = min(ready, key=self._turn)
            # Outside the lock: it may read a lesson from the disk.
            begun: bool | None = None
            try:
                begun = job.work.begin()
            except Exception as error:  # noqa: BLE001 - the boundary, see failed
                if self._leave_queue(job):
                    self._finish(job, failed(error))
                continue
            if not begun:
                if not self._running:
                    # Nothing will ever give memory back for it.
                    refusal = EngineError("there is not enough memory for this request: raise engine.kv_memory_gb")
                    if self._leave_queue(job):
                        self._finish(job, Failed(refusal))
                    continue
                return
            if not self._leave_queue(job):
                _end(job)

    def _free_places(self, *, low_priority: bool) -> int:
        taken = sum(job.low_priority == low_priority for job in self._running)
        return max(0, (1 if low_priority else self._max_running) - taken)

    def _turn(self, job: Job) -> tuple[bool, int, float, float]:
        """Sorts those who wait: people first, then by what their owner has running, then by when he was served."""
        owned = sum(other.owner == job.owner for other in self._running)
        return job.low_priority, owned, self._served_at.get(job.owner, 0.0), job.submitted_at

    def _leave_queue(self, job: Job) -> bool:
        """Lets a waiting job run; false where it was cancelled meanwhile."""
        with self._changed:
            if job not in self._waiting:
                return False
            self._waiting.remove(job)
            self._running.append(job)
            job.started_at = time.perf_counter()
            self._served_at[job.owner] = job.started_at
            if len(self._served_at) > REMEMBERED_OWNERS:
                self._served_at = {job.owner: job.started_at}
            return True

    def _prefill_slice(self) -> None:
        """A slice of the prompt whose turn it is."""
        jobs = [job for job in self._running if job.work.prefilling and not job.work.finished]
        if not jobs:
            return
        job = min(jobs, key=lambda each: (each.low_priority, self._prefilled_at.get(each, 0.0)))
        # Alone, a prompt goes in whole chunks: longer runs of queries share more.
        alone = len(self._running) == 1 and not self._waiting and not job.low_priority
        slice_tokens = max(FIRST_SLICE_TOKENS, int(SLICE_S * self._tokens_per_s))
        limit = self._chunk_tokens if alone else min(self._chunk_tokens, slice_tokens)
        started = time.perf_counter()
        before = _done_tokens(job.work)
        events = _guarded(lambda: job.work.prefill(limit))
        spent_s = time.perf_counter() - started
        self._prefilled_at[job] = time.perf_counter()
        if (tokens := _done_tokens(job.work) - before) >= FIRST_SLICE_TOKENS:
            self._tokens_per_s = tokens / spent_s
        self._hand_out(job, events)

    def _decode_step(self) -> None:
        """One token further in every request whose prompt is computed."""
        jobs = [job for job in self._running if not job.work.prefilling and not job.work.finished]
        if not jobs:
            return
        try:
            events = self._decode([job.work for job in jobs])
        except Exception as error:  # noqa: BLE001 - the boundary, see failed
            for job in jobs:
                self._finish(job, failed(error))
            return
        for job, each in zip(jobs, events, strict=True):
            self._hand_out(job, each)

    def _hand_out(self, job: Job, events: Sequence[Any]) -> None:
        for event in events:
            if isinstance(event, Failed):
                self._finish(job, event)
                return
            _tell(job, event)
        if job.work.finished:
            self._finish(job, Ended(cancelled=job.cancelled.is_set()))

    def _finish(self, job: Job, last: Ended | Failed) -> None:
        _end(job)
        self._prefilled_at.pop(job, None)
        # The place is free before the client hears the end, so that its next request finds it free.
        with self._changed:
            if job in self._running:
                self._running.remove(job)
            if not job.cancelled.is_set() and not job.low_priority and job.started_at is not None:
                self._durations_s.append(time.perf_counter() - job.started_at)
            self._changed.notify_all()
        _tell(job, last)


def _end(job: Job) -> None:
    try:
        job.work.end()
    except Exception:
        # The boundary, see failed: the worker goes on, whatever a request leaves behind.
        logger.exception("a request could not be ended cleanly")


def _guarded(step: Callable[[], Sequence[Any]]) -> Sequence[Any]:
    try:
        return step()
    except Exception as error:  # noqa: BLE001 - the boundary, see failed
        return [failed(error)]


def _done_tokens(work: Any) -> int:
    running = getattr(work, "running", None)
    return 0 if running is None else running.done_tokens


def failed(error: Exception) -> Failed:
    """What a client is told: the boundary that keeps one failing request from taking others or the worker down."""
    if isinstance(error, DeepEduError):
        logger.warning("a request failed: %s", error)
        return Failed(error)
    logger.error("a request failed unexpectedly", exc_info=error)
    return Failed(EngineError(f"the request failed inside the engine ({type(error).__name__}); see its log"))


def _tell(job: Job, event: Any) -> None:
    try:
        job.sink(event)
    except RuntimeError:
        # The event loop of the one who asked is gone, and he with it.
        job.cancelled.set()
