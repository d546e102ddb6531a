"""Who runs next: one worker, one request at a time, a bounded queue in order of arrival."""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from deepedu.base.errors import DeepEduError, EngineBusy, EngineDraining, EngineError

logger = logging.getLogger(__name__)

# Seconds to wait that a full queue answers before anything was measured.
UNKNOWN_DURATION_S = 5
REMEMBERED_DURATIONS = 16


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

    run: Callable[[threading.Event], Iterator[Any]]
    sink: Callable[[Any], None]
    cancelled: threading.Event = field(default_factory=threading.Event)
    submitted_at: float = field(default_factory=time.perf_counter)
    started_at: float | None = None

    @property
    def queue_ms(self) -> float:
        """Milliseconds waited, up to now if it still waits."""
        return ((self.started_at or time.perf_counter()) - self.submitted_at) * 1000


class Scheduler:
    """Runs jobs one after another in its own thread."""

    def __init__(self, max_queue: int) -> None:
        """``max_queue``: jobs that may wait beside the one that runs."""
        self._max_queue = max_queue
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._changed = threading.Condition()
        self._draining = self._closed = False
        self._durations_s: deque[float] = deque(maxlen=REMEMBERED_DURATIONS)
        self._thread = threading.Thread(target=self._work, name="deepedu-engine", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Jobs in the queue, without the running one."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """1 while a job runs, else 0."""
        return 0 if self._running is None else 1

    def submit(self, job: Job) -> Job:
        """Puts a job at the end of the queue.

        Raises:
            EngineBusy: the queue is full; tells when to come back.
            EngineDraining: the server is shutting down.
        """
        with self._changed:
            if self._draining:
                raise EngineDraining("the server is shutting down and takes no new requests: ask another or come back")
            if len(self._waiting) >= self._max_queue + (0 if self._running else 1):
                raise EngineBusy(
                    f"{len(self._waiting)} requests wait already, the most allowed is {self._max_queue}: "
                    f"come back in {self._retry_after_s()} s",
                    retry_after_s=self._retry_after_s(),
                )
            self._waiting.append(job)
            self._changed.notify_all()
        return job

    def cancel(self, job: Job) -> None:
        """Frees the job's place: at once when it waits, before its next token when it runs. Harmless if it is over."""
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
            finished = self._changed.wait_for(lambda: not self._waiting and self._running is None, timeout=limit_s)
            left = [*self._waiting, *([self._running] if self._running else [])]
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
        # A place is free as soon as the running job ends.
        spent_s = time.perf_counter() - self._running.started_at if self._running and self._running.started_at else 0.0
        return max(1, math.ceil(mean_s - spent_s))

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                job = self._waiting.popleft()
                self._running = job
                job.started_at = started = time.perf_counter()
            last = self._run(job)
            # The place is free before the client hears the end, so that its next request finds it free.
            with self._changed:
                self._running = None
                if not job.cancelled.is_set():
                    self._durations_s.append(time.perf_counter() - started)
                self._changed.notify_all()
            _tell(job, last)

    @staticmethod
    def _run(job: Job) -> Ended | Failed:
        try:
            for event in job.run(job.cancelled):
                _tell(job, event)
        except DeepEduError as error:
            logger.warning("a request failed: %s", error)
            return Failed(error)
        except Exception as error:
            # The boundary that keeps one failing request from taking the worker down.
            logger.exception("a request failed unexpectedly")
            return Failed(EngineError(f"the request failed inside the engine ({type(error).__name__}); see its log"))
        return Ended(cancelled=job.cancelled.is_set())


def _tell(job: Job, event: Any) -> None:
    try:
        job.sink(event)
    except RuntimeError:
        # The event loop of the one who asked is gone, and he with it.
        job.cancelled.set()
