"""Queue, cancellation, failures and draining, with jobs made of events only."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deepedu.base.errors import EngineBusy, EngineDraining, EngineError, ModelError
from deepedu.engine.scheduler import Ended, Failed, Job, Scheduler


class Work:
    """A job that runs until it is released or cancelled."""

    def __init__(self, name: str = "", error: Exception | None = None, log: list[Any] | None = None) -> None:
        self.name, self.error, self.log = name, error, log
        self.release, self.started, self.over = threading.Event(), threading.Event(), threading.Event()
        self.events: list[Any] = []
        self.job = Job(self.run, self.sink)

    def run(self, cancelled: threading.Event) -> Iterator[str]:
        self.started.set()
        yield self.name
        if self.error is not None:
            raise self.error
        while not (self.release.wait(0.005) or cancelled.is_set()):
            pass

    def sink(self, event: Any) -> None:
        self.events.append(event)
        if self.log is not None:
            self.log.append(event)
        if isinstance(event, Ended | Failed):
            self.over.set()


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    scheduler = Scheduler(max_queue=2)
    yield scheduler
    scheduler.close()


def start(scheduler: Scheduler, work: Work) -> Work:
    scheduler.submit(work.job)
    assert work.started.wait(5)
    return work


def test_jobs_run_one_by_one_in_order(scheduler: Scheduler) -> None:
    order: list[Any] = []
    works = [Work(name, log=order) for name in "abc"]
    for work in works:
        scheduler.submit(work.job)
    for work in works:
        assert work.started.wait(5)
        work.release.set()
    assert works[-1].over.wait(5)
    assert [event for event in order if isinstance(event, str)] == ["a", "b", "c"]


def test_a_full_queue_says_when_to_come_back(scheduler: Scheduler) -> None:
    first = start(scheduler, Work())
    for _ in range(2):
        scheduler.submit(Work().job)
    with pytest.raises(EngineBusy, match="2 requests wait") as caught:
        scheduler.submit(Work().job)
    assert caught.value.retry_after_s >= 1
    first.release.set()


def test_without_a_queue_only_an_idle_worker_takes_a_job(eventually: Callable[..., None]) -> None:
    scheduler = Scheduler(max_queue=0)
    first = start(scheduler, Work())
    with pytest.raises(EngineBusy):
        scheduler.submit(Work().job)
    first.release.set()
    assert first.over.wait(5)
    eventually(lambda: scheduler.running == 0)
    start(scheduler, Work()).release.set()
    scheduler.close()


def test_cancelling_a_waiting_job_frees_its_place(scheduler: Scheduler) -> None:
    first = start(scheduler, Work())
    waiting = [Work(), Work()]
    for work in waiting:
        scheduler.submit(work.job)
    scheduler.cancel(waiting[0].job)
    assert waiting[0].events == [Ended(cancelled=True)]
    scheduler.submit(Work().job)
    first.release.set()


def test_cancelling_the_running_job_lets_the_next_one_run(scheduler: Scheduler) -> None:
    first, second = start(scheduler, Work()), Work()
    scheduler.submit(second.job)
    scheduler.cancel(first.job)
    assert second.started.wait(5)
    assert first.events[-1] == Ended(cancelled=True)
    second.release.set()


@pytest.mark.parametrize(
    ("error", "shown"), [(ModelError("no luck"), ModelError), (ZeroDivisionError("secret"), EngineError)]
)
def test_a_failing_job_leaves_the_worker_alive(scheduler: Scheduler, error: Exception, shown: type) -> None:
    failing, following = Work(error=error), Work()
    scheduler.submit(failing.job)
    scheduler.submit(following.job)
    assert following.started.wait(5)
    last = failing.events[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, shown)
    assert "secret" not in str(last.error)
    following.release.set()


def test_a_sink_whose_loop_is_gone_stops_its_job_only(scheduler: Scheduler) -> None:
    def gone(_: Any) -> None:
        raise RuntimeError("event loop is closed")

    lost, following = Work(), Work()
    lost.job.sink = gone
    scheduler.submit(lost.job)
    scheduler.submit(following.job)
    assert following.started.wait(5)
    following.release.set()


def test_draining_finishes_accepted_jobs_and_takes_no_new_ones(scheduler: Scheduler) -> None:
    first, second = start(scheduler, Work()), Work()
    scheduler.submit(second.job)
    result: list[bool] = []
    drainer = threading.Thread(target=lambda: result.append(scheduler.drain(10)))
    drainer.start()
    first.release.set()
    assert second.started.wait(5)
    with pytest.raises(EngineDraining):
        scheduler.submit(Work().job)
    second.release.set()
    drainer.join(5)
    assert result == [True]
    assert second.events[-1] == Ended(cancelled=False)


def test_draining_cancels_what_takes_too_long(scheduler: Scheduler) -> None:
    first, second = start(scheduler, Work()), Work()
    scheduler.submit(second.job)
    assert scheduler.drain(0.05) is False
    assert first.over.wait(5)
    assert first.events[-1] == second.events[-1] == Ended(cancelled=True)
