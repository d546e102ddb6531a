"""The pupils, as Locust runs them in one process: ``python -m deepedu.bench.load.pupils PLAN FINDINGS``.

Every ``pace_s`` each pupil asks one question and reads its answer to the end, then looks around: opens the
conversation, lists all conversations, keeps an answer in the class's quiz, now and then opens the page to choose from,
signs in anew, and tries a conversation of somebody else, which has to be answered like none at all. Pupils pause
between these.
"""

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Locust makes Python's sockets and sleeps cooperative, which holds from its import on.
import gevent
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser

from deepedu.bench.load.browser import Broken, Browser, Reply
from deepedu.bench.load.markers import marker
from deepedu.bench.load.plan import Done, Findings, Plan

# After so many questions a pupil begins another conversation.
TURNS = 5
NUDGES = ("em chưa hiểu, gợi ý thêm cho em", "em vẫn chưa biết làm, gợi ý tiếp đi ạ", "gợi ý thêm")
_NUDGED = 0.3
_OPENS_LEARN, _SIGNS_IN_ANEW, _TRIES_FOREIGN = 0.3, 0.1, 0.2
_CPU_EVERY_S = 1.0


class Run:
    """The state that all pupils of one run share."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.findings = Findings()
        self._waiting = list(reversed(plan.roster.pupils[: plan.users]))
        self._there = 0
        self._began: float | None = None
        # Before all are there nobody knows when that will be.
        self._early: list[tuple[float, dict[str, Any]]] = []

    def next_pupil(self) -> Any:
        """Whose turn it is to come."""
        return self._waiting.pop()

    def is_there(self) -> None:
        """Counts a pupil who has signed in; the run begins with the last."""
        self._there += 1
        if self._there == self.plan.users and self._began is None:
            self._began, self.findings.began_at = time.perf_counter(), time.time()
            early, self._early = self._early, []
            for began, values in early:
                self.keep(began, **values)

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self._began is not None and time.perf_counter() - self._began >= self.plan.seconds

    @property
    def has_begun(self) -> bool:
        """Whether all are there."""
        return self._began is not None

    def keep(self, began: float, **values: Any) -> None:
        """Notes a request that began at that moment of ``time.perf_counter``."""
        if self._began is None:
            self._early.append((began, values))
        else:
            self.findings.done.append(Done(at_s=round(began - self._began, 3), **values))

    def watch_own_time(self) -> None:
        """Notes the processor time that the generator has taken so far."""
        while not self.is_over:
            if self._began is not None:
                self.findings.cpu.append([time.perf_counter() - self._began, time.process_time()])
            gevent.sleep(_CPU_EVERY_S)


class Pupil(User):
    """One pupil. ``run`` is set by ``main``."""

    run_of_all: Run

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._me = self.run_of_all.next_pupil()
        self._plan = self.run_of_all.plan
        self._draw = random.Random(f"{self._plan.seed} {self._me.number}")
        self._browser = Browser(self._plan.url, self._me.number)
        self._asked = 0
        self._turns = 0
        self._next_at = 0.0
        self._conversation: int | None = None

    def on_start(self) -> None:
        """Signs in, opens the first page and the quiz; then pupils spread over the time between two questions."""
        try:
            self._do("sign_in", lambda: self._browser.sign_in(self._me.username, self._me.password))
            self._do("learn", lambda: self._browser.get("/learn"))
            begin = f"/api/quizzes/{self._me.assignment_id}/begin"
            self._do("begin_quiz", lambda: self._browser.send_json("POST", begin))
        finally:
            self._browser.close()
            self.run_of_all.is_there()
        gevent.sleep(self._draw.uniform(0, self._plan.pace_s))
        self._next_at = time.perf_counter()

    def wait_time(self) -> float:
        """Until the next question is due. Locust's own pacing counts the way to the first one as well."""
        self._next_at += self._plan.pace_s
        return max(0.0, self._next_at - time.perf_counter())

    @task
    def cycle(self) -> None:
        """One question and what goes with it."""
        if self.run_of_all.is_over:
            raise StopUser
        try:
            self._ask()
            steps = [("conversation", self._open_conversation), ("conversations", self._list), ("autosave", self._save)]
            if self._draw.random() < _OPENS_LEARN:
                steps.append(("learn", lambda: self._browser.get("/learn")))
            if self._draw.random() < _TRIES_FOREIGN and self._conversation is not None:
                steps.append(("foreign", self._try_foreign))
            for kind, step in steps:
                self._pause()
                if kind != "conversation" or self._conversation is not None:
                    self._do(kind, step)
            if self._draw.random() < _SIGNS_IN_ANEW:
                self._pause()
                self._do("sign_in", lambda: self._browser.sign_in(self._me.username, self._me.password))
        finally:
            # A browser's connection does not outlive the server's patience; so it is opened anew each time.
            self._browser.close()
            self.run_of_all.findings.foreign += self._browser.foreign
            self._browser.foreign = []

    def _pause(self) -> None:
        gevent.sleep(self._draw.uniform(0, 0.1) * self._plan.pace_s)

    def _ask(self) -> None:
        if self._turns >= TURNS:
            self._conversation, self._turns = None, 0
        self._asked += 1
        mark = marker(self._me.number, self._asked)
        if self._me.policy == "tutor" and self._turns and self._draw.random() < _NUDGED:
            question = f"{self._draw.choice(NUDGES)} ({mark})"
        else:
            question = f"{self._draw.choice(self._plan.roster.questions)} (phiếu {mark})"
        kind, began = f"ask_{self._me.policy}", time.perf_counter()
        try:
            asked = self._browser.ask(question, self._conversation)
        except Broken as error:
            self.run_of_all.keep(began, kind=kind, error=str(error))
            return
        self._conversation, self._turns = asked.conversation_id, self._turns + 1
        self.run_of_all.keep(
            began, kind=kind, own_ms=asked.own_ms, first_ms=asked.own_first_ms, model_ms=asked.model_ms
        )

    def _open_conversation(self) -> Reply:
        reply = self._browser.get(f"/chat/{self._conversation}")
        if marker(self._me.number, self._asked) not in reply.body:
            raise Broken(f"the conversation does not hold the question that was asked in it: {reply.body[:300]}")
        return reply

    def _list(self) -> Reply:
        return self._browser.get("/api/conversations")

    def _save(self) -> Reply:
        item, kind = self._draw.choice(self._plan.roster.items)
        given = "A" if kind == "choice" else marker(self._me.number, self._asked)
        values = {"given": {item: given}}
        return self._browser.send_json("PUT", f"/api/quizzes/{self._me.assignment_id}/given", values)

    def _try_foreign(self) -> Reply:
        # Ids are given out one after the other, so the neighbours are most often other pupils'.
        assert self._conversation is not None, "the caller has one"
        mine = {each["id"] for each in self._list().json()["conversations"]}
        other = next((each for each in range(self._conversation, 0, -1) if each not in mine), 0)
        return self._browser.get(f"/api/conversations/{other}", expect=404)

    def _do(self, kind: str, step: Callable[[], Reply]) -> None:
        began = time.perf_counter()
        try:
            reply = step()
        except Broken as error:
            self.run_of_all.keep(began, kind=kind, error=str(error))
        else:
            self.run_of_all.keep(began, kind=kind, own_ms=reply.ms)


def main(plan_path: str, findings_path: str) -> None:
    """Runs a plan."""
    run = Run(Plan.read(Path(plan_path)))
    Pupil.run_of_all = run
    environment = Environment(user_classes=[Pupil], stop_timeout=60)
    runner = environment.create_local_runner()
    watcher = gevent.spawn(run.watch_own_time)
    runner.start(run.plan.users, spawn_rate=run.plan.spawn_rate)
    while not run.is_over:
        gevent.sleep(0.2)
    runner.quit()
    watcher.join()
    run.findings.write(Path(findings_path))


if __name__ == "__main__":
    main(*sys.argv[1:3])
