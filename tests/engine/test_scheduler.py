"""Queue, turns, cancellation, failures and draining, with work made of events only."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from deepedu.base.errors import EngineBusy, EngineDraining, EngineError, ModelError
from deepedu.engine.scheduler import Ended, Failed, Job, Scheduler


class Work:
    """A prompt that is computed until it is released or cancelled."""

    prefilling = True

    def __init__(
        self, name: str = "", error: Exception | None = None, log: list[Any] | None = None, **job: Any
    ) -> None:
        self.name, self.error, self.log = name, error, log
        self.release, self.started, self.over = threading.Event(), threading.Event(), threading.Event()
        self.finished, self.ended = False, 0
        self.events: list[Any] = []
        self.job = Job(self, self.sink, **job)

    def begin(self) -> bool:
        return True

    def prefill(self, limit_tokens: int) -> list[Any]:
        del limit_tokens
        if not self.started.is_set():
            self.started.set()
            return [self.name]
        if self.error is not None:
            raise self.error
        self.finished = self.release.wait(0.005)
        return []

    def cancel(self) -> list[Any]:
        self.finished = True
        return []

    def end(self) -> None:
        self.ended += 1

    def sink(self, event: Any) -> None:
        self.events.append(event)
        if self.log is not None:
            self.log.append(event)
        if isinstance(event, Ended | Failed):
            self.over.set()


class Talk(Work):
    """A prompt of some slices, then tokens: what it does goes into a log as (name, "prompt" or "token")."""

    def __init__(self, name: str, log: list[Any], *, slices: int = 1, tokens: int = 0, **job: Any) -> None:
        super().__init__(name, log=log, **job)
        self.slices, self.tokens = slices, tokens
        self.limits: list[int] = []

    @property
    def prefilling(self) -> bool:  # type: ignore[override]
        return self.slices > 0

    def prefill(self, limit_tokens: int) -> list[Any]:
        self.started.set()
        self.limits.append(limit_tokens)
        self.slices -= 1
        self.finished = self.slices == self.tokens == 0
        time.sleep(0.002)
        return [(self.name, "prompt")]

    def token(self) -> list[Any]:
        self.tokens -= 1
        self.finished = self.tokens == 0
        return [(self.name, "token")]


def step(works: Sequence[Any]) -> list[Sequence[Any]]:
    return [work.token() for work in works]


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    scheduler = Scheduler(2, step, max_running=1)
    yield scheduler
    scheduler.close()


def start(scheduler: Scheduler, work: Work) -> Work:
    scheduler.submit(work.job)
    assert work.started.wait(5)
    return work


def run_all(scheduler: Scheduler, gate: Work, works: Sequence[Work]) -> None:
    """Submits while a gate holds the worker, so that all of them wait when it opens."""
    start(scheduler, gate)
    for work in works:
        scheduler.submit(work.job)
    gate.release.set()
    for work in works:
        assert work.over.wait(10)


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
    scheduler = Scheduler(0, step, max_running=1)
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


def test_a_long_prompt_does_not_hold_up_those_who_stream() -> None:
    log: list[Any] = []
    scheduler = Scheduler(9, step, max_running=4)
    speaking = Talk("speaking", log, tokens=40)
    long = Talk("long", log, slices=20, tokens=1)
    scheduler.submit(speaking.job)
    scheduler.submit(long.job)
    assert long.over.wait(10)
    scheduler.close()
    told = [event for event in log if isinstance(event, tuple)]
    prompts = [index for index, event in enumerate(told) if event == ("long", "prompt")]
    assert len(prompts) == 20
    assert all(("speaking", "token") in told[a:b] for a, b in pairwise(prompts))
    # Beside others a prompt goes in slices, not in whole chunks.
    assert max(long.limits[1:]) < 8192


def test_decode_steps_are_batched() -> None:
    log: list[Any] = []
    sizes: list[int] = []

    def counted(works: Sequence[Any]) -> list[Sequence[Any]]:
        sizes.append(len(works))
        return step(works)

    scheduler = Scheduler(9, counted, max_running=3)
    works = [Talk(name, log, tokens=50) for name in "abc"]
    run_all(scheduler, Work(), works)
    scheduler.close()
    assert max(sizes) == 3
    assert len([event for event in log if event == ("a", "token")]) == 50


def test_a_failing_decode_step_fails_its_requests_and_no_others() -> None:
    def failing(_: Sequence[Any]) -> list[Sequence[Any]]:
        raise ZeroDivisionError("secret")

    scheduler = Scheduler(9, failing, max_running=3)
    speaking, following = Talk("a", [], tokens=2), Work()
    scheduler.submit(speaking.job)
    assert speaking.over.wait(5)
    start(scheduler, following).release.set()
    assert following.over.wait(5)
    scheduler.close()
    assert isinstance(speaking.events[-1], Failed)
    assert "secret" not in str(speaking.events[-1].error)
    assert (speaking.ended, following.ended) == (1, 1)


@pytest.mark.parametrize("crowd", ["a", None])
def test_an_owner_with_many_requests_does_not_starve_another(crowd: str | None) -> None:
    log: list[Any] = []
    scheduler = Scheduler(9, step, max_running=1)
    many = [Talk(f"many{index}", log, owner=crowd) for index in range(5)]
    one = Talk("one", log, owner="b")
    run_all(scheduler, Work(owner=crowd), [*many, one])
    scheduler.close()
    order = [event[0] for event in log if isinstance(event, tuple)]
    assert order == ["one", *(f"many{index}" for index in range(5))]


def test_owners_take_turns() -> None:
    log: list[Any] = []
    scheduler = Scheduler(9, step, max_running=1)
    works = [Talk(f"{owner}{index}", log, owner=owner) for owner in "ab" for index in range(3)]
    run_all(scheduler, Work(owner="c"), works)
    scheduler.close()
    assert [event[0] for event in log if isinstance(event, tuple)] == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_low_priority_waits_for_every_prompt_and_takes_nobodys_place() -> None:
    log: list[Any] = []
    scheduler = Scheduler(9, step, max_running=2)
    low = [Talk(f"low{index}", log, slices=6, low_priority=True) for index in range(3)]
    people = [Talk(f"p{index}", log, slices=4) for index in range(4)]
    for work in low:
        scheduler.submit(work.job)
    assert low[0].started.wait(5)
    for work in people:
        scheduler.submit(work.job)
    for work in [*low, *people]:
        assert work.over.wait(10)
    scheduler.close()
    told = [event[0] for event in log if isinstance(event, tuple)]
    first = next(index for index, name in enumerate(told) if name.startswith("p"))
    assert all(name.startswith("p") for name in told[first : first + 16])
    # One at a time.
    assert [name for name in told if name.startswith("low")] == [f"low{index}" for index in range(3) for _ in range(6)]


def test_a_queue_full_of_low_priority_leaves_room_for_people(scheduler: Scheduler) -> None:
    gate = start(scheduler, Work(low_priority=True))
    for _ in range(2):
        scheduler.submit(Work(low_priority=True).job)
    with pytest.raises(EngineBusy):
        scheduler.submit(Work(low_priority=True).job)
    start(scheduler, Work()).release.set()
    gate.release.set()


class Hungry(Talk):
    """Takes one of the places in a memory that has few."""

    def __init__(self, name: str, log: list[Any], memory: list[int]) -> None:
        super().__init__(name, log, slices=3)
        self.memory = memory

    def begin(self) -> bool:
        if not self.memory[0]:
            return False
        self.memory[0] -= 1
        return True

    def end(self) -> None:
        super().end()
        self.memory[0] += 1


def test_requests_wait_for_memory_and_run_one_after_the_other() -> None:
    log: list[Any] = []
    scheduler = Scheduler(9, step, max_running=4)
    memory = [1]
    works = [Hungry(name, log, memory) for name in "abc"]
    run_all(scheduler, Work(), works)
    scheduler.close()
    assert [event[0] for event in log if isinstance(event, tuple)] == [*"aaabbbccc"]
    assert memory == [1]


def test_what_never_finds_memory_is_refused_and_the_next_one_runs(scheduler: Scheduler) -> None:
    hungry, following = Hungry("a", [], [0]), Work()
    scheduler.submit(hungry.job)
    assert hungry.over.wait(5)
    assert isinstance(hungry.events[-1], Failed)
    assert "kv_memory_gb" in str(hungry.events[-1].error)
    start(scheduler, following).release.set()


def test_a_request_that_cannot_begin_or_end_leaves_the_worker_alive(scheduler: Scheduler) -> None:
    class Broken(Work):
        def begin(self) -> bool:
            raise ModelError("no luck")

        def end(self) -> None:
            raise RuntimeError("no end either")

    broken, following = Broken(), Work()
    scheduler.submit(broken.job)
    assert broken.over.wait(5)
    assert isinstance(broken.events[-1].error, ModelError)
    start(scheduler, following).release.set()
    assert following.over.wait(5)


def test_every_request_is_ended_once(scheduler: Scheduler) -> None:
    works = [Work(), Work(error=ModelError("x")), Work()]
    for work in works:
        scheduler.submit(work.job)
    works[0].release.set()
    assert works[2].started.wait(5)
    scheduler.cancel(works[2].job)
    assert works[2].over.wait(5)
    assert [work.ended for work in works] == [1, 1, 1]
    assert [len([e for e in work.events if isinstance(e, Ended | Failed)]) for work in works] == [1, 1, 1]
