"""The loop on a real book, with a pupil whose answers depend on what it is shown."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from made_bullets import AT, MODEL, TEACHER

from deepedu.base.config import StoreSettings
from deepedu.base.errors import LLMUnreachable
from deepedu.llm.chat import ChatModel, Delta, Finished, Message
from deepedu.llm.scripted import ScriptedModel
from deepedu.playbook.book import Playbook
from deepedu.playbook.bullet import Bullet
from deepedu.playbook.delta import Add, Judge
from deepedu.playbook.exchange import to_json
from deepedu.playbook.interaction import Signal
from deepedu.playbook.journal import Journal, Step
from deepedu.playbook.loop import Learner, Teaching, by_relevance
from deepedu.playbook.problem import Attempt, Problem
from deepedu.playbook.reflector import Reflector
from deepedu.playbook.verifier import Verifier
from deepedu.store import Database

ONE_BY_ONE = Teaching(wave=1)


@dataclass
class Pupil:
    """Is right where it ``knows``, or where a bullet that it is shown holds the answer; unless a bullet misleads it.

    ``breaks_at``: the call that fails, of all calls from 1.
    """

    knows: frozenset[str] = frozenset()
    misled: dict[str, str] = field(default_factory=dict[str, str])
    worked_out: dict[str, str] = field(default_factory=dict[str, str])
    breaks_at: int = 0
    calls: int = 0
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list[tuple[str, tuple[str, ...]]])

    async def attempt(self, problem: Problem, bullets: Sequence[Bullet] = ()) -> Attempt:
        self._called()
        self.asked.append((problem.id, tuple(each.id for each in bullets)))
        # Others have their turn in between, as with a real model.
        await asyncio.sleep(0)
        expected, wrong = problem.expected or "", self.misled.get(problem.id)
        misleading = [each.id for each in bullets if wrong and wrong in each.text]
        helping = [each.id for each in bullets if expected and expected in each.text]
        right = not misleading and (problem.id in self.knows or bool(helping))
        return Attempt(
            text=f"Đáp số {expected if right else 'khác'}.",
            answer=expected if right else "khác",
            signals=(Signal(kind="quiz", good=right),),
            used=tuple(helping if right else misleading),
            prompt_tokens=10,
        )

    async def work_out(self, problem: Problem) -> str | None:
        self._called()
        return self.worked_out.get(problem.id)

    def _called(self) -> None:
        self.calls += 1
        if self.calls == self.breaks_at:
            raise LLMUnreachable("gone")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(StoreSettings(data_dir=tmp_path / "data"))
    yield database
    database.close()


@pytest.fixture
def book(database: Database) -> Playbook:
    return Playbook(database, clock=lambda: AT)


def problem(name: str, about: str = "Lãi suất tiết kiệm", expected: str = "6000", **more: Any) -> Problem:
    return Problem(id=name, question=f"{about} của bạn {name} là bao nhiêu?", expected=expected, **more)


def learner(book: Playbook, pupil: Pupil, model: ChatModel | None = None, **more: Any) -> Learner:
    values: dict[str, Any] = {"verifier": Verifier(solver=pupil, live_kinds={"method"}), "teaching": ONE_BY_ONE, **more}
    return Learner(book, pupil, by_relevance(600, 6), reflector=Reflector(model) if model else None, **values)


def learn(one: Learner, *problems: Problem, journal: Journal | None = None) -> list[Step]:
    return asyncio.run(one.learn(problems, journal or Journal("r")))


def right(steps: Sequence[Step]) -> list[bool | None]:
    return [step.attempt.is_right for step in steps]


def taught(book: Playbook, text: str) -> None:
    done = book.change([Add(text=text, kind="method")], TEACHER, "có sẵn")
    book.change([Judge(bullet_id=each, status="verified") for each in done.bullet_ids], TEACHER, "đúng")


def insight(text: str, kind: str = "method") -> str:
    return json.dumps({"wrong": "x", "cause": "y", "insight": {"kind": kind, "text": text}})


# --- Learning --------------------------------------------------------------------------------------------------------


def test_a_solution_goes_live_and_helps_the_next_question(book: Playbook) -> None:
    pupil = Pupil()
    steps = learn(learner(book, pupil), problem("a", solution="100000 x 6 : 100 = 6000"), problem("b"))
    assert right(steps) == [False, True]
    # Asked, asked again with the example in front of it, then the next one with the example.
    assert pupil.asked == [("a", ()), ("a", ("b-00001",)), ("b", ("b-00001",))]
    assert [step.shown for step in steps] == [(), ("b-00001",)]
    (bullet,) = book.state().ordered()
    assert (bullet.status, bullet.kind, bullet.author.role) == ("verified", "method", "model")
    assert bullet.text.endswith("→ 100000 x 6 : 100 = 6000")
    assert [each.type for each in bullet.evidence] == ["interaction"]
    assert (bullet.helpful, bullet.harmful) == (1, 0)
    assert [(each.delta.author.role, each.delta.id) for each in reversed(book.history())] == [
        ("model", "r:a"),
        ("verifier", "r:a:v"),
        ("model", "r:b"),
    ]


def test_what_does_not_help_is_never_shown(book: Playbook) -> None:
    pupil = Pupil()
    learn(learner(book, pupil), problem("a", solution="Không rõ."), problem("b"))
    (bullet,) = book.state().ordered()
    assert bullet.status == "quarantined"
    assert bullet.reasons == ("hỏi lại: không giúp được câu đã trả lời sai",)
    assert pupil.asked[-1] == ("b", ())


def test_what_breaks_a_question_that_was_right_is_never_shown(book: Playbook) -> None:
    pupil = Pupil(knows=frozenset({"trước"}), misled={"trước": "6000"})
    before = problem("trước", expected="72")
    steps = learn(learner(book, pupil), before, problem("a", solution="= 6000"), problem("b"))
    assert right(steps) == [True, False, False]
    (bullet,) = book.state().ordered()
    assert bullet.reasons == ("hỏi lại: làm sai 1 câu vốn đúng",)
    # Without neighbours nobody would have noticed.
    other = learner(book, pupil, teaching=Teaching(wave=1, neighbours=0))
    learn(other, before, problem("c", "Diện tích", "9", solution="3 x 3 = 9"), journal=Journal("s"))
    assert book.state().bullets["b-00002"].status == "verified"


def test_what_a_wave_teaches_is_known_to_the_next(book: Playbook) -> None:
    problems = [problem(name, solution="= 6000") for name in "abcd"]
    steps = learn(learner(book, Pupil(), teaching=Teaching(wave=2)), *problems)
    assert right(steps) == [False, False, True, True]
    assert [len(step.shown) for step in steps[:2]] == [0, 0]
    assert all(step.shown for step in steps[2:])


def test_without_a_verifier_it_stays_proposed(book: Playbook) -> None:
    pupil = Pupil()
    learn(learner(book, pupil, verifier=None), problem("a", solution="= 6000"), problem("b"))
    (bullet,) = book.state().ordered()
    assert (bullet.status, pupil.asked) == ("proposed", [("a", ()), ("b", ())])


def test_a_solution_that_was_worked_out_is_one_too(book: Playbook) -> None:
    pupil = Pupil(worked_out={"a": "60 x 100 = 6000", "c": "x"})
    known = Pupil(knows=frozenset({"b"}), worked_out={"b": "= 6000"})
    learn(learner(book, pupil), problem("a"))
    learn(learner(book, known), problem("b"), journal=Journal("s"))
    # Without a known answer there is nothing to work out; what was right needs no example.
    learn(learner(book, pupil), problem("c", "Chu vi").model_copy(update={"expected": None}), journal=Journal("t"))
    assert [bullet.text.rpartition("→ ")[2] for bullet in book.state().ordered()] == ["60 x 100 = 6000"]


def test_examples_can_be_left_out(book: Playbook) -> None:
    pupil = Pupil(worked_out={"a": "= 6000"})
    learn(learner(book, pupil, teaching=Teaching(wave=1, examples=False)), problem("a", solution="= 6000"))
    assert book.version == 0


def test_what_keeps_harming_is_retired_and_shown_no_more(book: Playbook) -> None:
    taught(book, "Lãi suất tiết kiệm là bao nhiêu? → luôn nhân đôi")
    names = "abcd"
    pupil = Pupil(knows=frozenset(names), misled=dict.fromkeys(names, "nhân đôi"))
    steps = learn(learner(book, pupil), *(problem(name) for name in names))
    assert right(steps) == [False, False, False, True]
    bullet = book.state().bullets["b-00001"]
    assert (bullet.status, bullet.harmful) == ("retired", 3)
    assert bullet.reasons == ("hại 3 lần, giúp 0 lần",)
    assert steps[-1].shown == ()


def test_twins_are_merged_at_the_end(book: Playbook) -> None:
    about = "Muốn tính lãi suất tiết kiệm cần lấy số tiền gửi nhân với phần trăm rồi chia cho một trăm đồng"
    problems = [problem(name, about, solution="= 6000") for name in ("a", "b")]
    learn(learner(book, Pupil(), teaching=Teaching(wave=2)), *problems)
    statuses = [bullet.status for bullet in book.state().ordered()]
    assert sorted(statuses) == ["retired", "verified"]
    assert book.history(limit=1)[0].delta.reason == "dọn sổ tay"


# --- Reflection ------------------------------------------------------------------------------------------------------


def test_an_insight_is_verified_like_everything_else(book: Playbook) -> None:
    replies = [insight("Lãi suất tiết kiệm là 6000."), insight("Chu vi thì đoán.")]
    model = ScriptedModel([*replies])
    pupil = Pupil()
    learn(learner(book, pupil, model), problem("a"), problem("x", "Chu vi", "24"))
    assert [bullet.status for bullet in book.state().ordered()] == ["verified", "quarantined"]
    # The second reflection is shown the failure that is like it.
    assert "bạn a" in model.requests[1][1].text


def test_nonsense_is_dropped_and_counted(book: Playbook) -> None:
    model = ScriptedModel(answer=lambda _: "Xin chào!")
    one = learner(book, Pupil(), model)
    steps = learn(one, problem("a"), problem("b"))
    assert right(steps) == [False, False]
    assert one.reflector is not None
    assert (one.reflector.spent.given_up, one.reflector.spent.asked) == (2, 4)
    assert book.version == 0


@pytest.mark.parametrize(("reply", "dropped"), [(insight("Thì đoán."), 0), ("Xin chào!", 2)])
def test_so_many_reflections_and_no_more(book: Playbook, reply: str, dropped: int) -> None:
    one = learner(book, Pupil(), ScriptedModel(answer=lambda _: reply), teaching=Teaching(wave=1, reflections=2))
    learn(one, *(problem(name) for name in "abcd"))
    assert one.reflector is not None
    assert one.reflector.spent.reflections + one.reflector.spent.given_up == 2
    assert one.reflector.spent.given_up == dropped


def test_what_was_right_is_not_reflected_on(book: Playbook) -> None:
    learn(learner(book, Pupil(knows=frozenset("a")), ScriptedModel([])), problem("a"))
    assert book.version == 0


# --- Stopping, going on, doing it twice ------------------------------------------------------------------------------

MANY = (
    problem("a", solution="= 6000"),
    problem("b", "Chu vi hình vuông", "24", solution="6 x 4 = 24"),
    problem("c"),
    problem("d", "Chu vi hình vuông", "24"),
    problem("e", "Thể tích khối hộp", "125", solution="Đoán."),
    problem("f", "Thể tích khối hộp", "125"),
)
BY_TWO = Teaching(wave=2)


def pupil(breaks_at: int = 0) -> Pupil:
    return Pupil(knows=frozenset({"f"}), worked_out={"f": "x"}, breaks_at=breaks_at)


def run(folder: Path, stops: int) -> tuple[str, list[dict[str, Any]], list[Pupil], list[str]]:
    """A run that is stopped at a call (0: at none), and then goes on in another process's objects."""
    pupils: list[Pupil] = []
    before: list[str] = []
    database = Database(StoreSettings(data_dir=folder / "data"))
    try:
        if stops:
            pupils.append(pupil(stops))
            journal = Journal("r", folder / "run.jsonl")
            with pytest.raises(LLMUnreachable):
                learn(learner(Playbook(database, clock=lambda: AT), pupils[0], teaching=BY_TWO), *MANY, journal=journal)
            before = [step.problem for step in journal.steps()]
        pupils.append(pupil())
        book = Playbook(database, clock=lambda: AT)
        steps = learn(learner(book, pupils[-1], teaching=BY_TWO), *MANY, journal=Journal("r", folder / "run.jsonl"))
        return to_json(book.state()), [step.model_dump(exclude={"seconds"}) for step in steps], pupils, before
    finally:
        database.close()


def test_a_run_that_was_stopped_anywhere_ends_like_one_that_was_not(tmp_path: Path) -> None:
    book, steps, (whole,), _ = run(tmp_path / "whole", 0)
    assert [step["attempt"]["signals"][0]["good"] for step in steps] == [False, False, True, True, False, True]
    kept: set[int] = set()
    for stops in range(1, whole.calls + 1):
        found, again, (_, second), before = run(tmp_path / str(stops), stops)
        assert (found, again) == (book, steps), stops
        # What was kept is asked again only as a neighbour, with a new bullet in front.
        first = [(step["problem"], tuple(step["shown"])) for step in steps if step["problem"] in before]
        assert not set(first) & set(second.asked), stops
        kept.add(len(before))
    assert kept == {0, 2, 4}


def test_a_finished_run_asks_and_changes_nothing(book: Playbook, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    first = learn(learner(book, pupil(), teaching=BY_TWO), *MANY, journal=Journal("r", file))
    version, silent = book.version, pupil(breaks_at=1)
    assert learn(learner(book, silent, teaching=BY_TWO), *MANY, journal=Journal("r", file)) == first
    assert (book.version, silent.calls) == (version, 0)


def test_what_was_asked_before_the_stop_still_must_not_break(book: Playbook) -> None:
    pupil, journal = Pupil(knows=frozenset({"trước"}), misled={"trước": "6000"}), Journal("r")
    before = problem("trước", expected="72")
    learn(learner(book, pupil), before, journal=journal)
    learn(learner(book, pupil), before, problem("a", solution="= 6000"), journal=journal)
    assert book.state().bullets["b-00001"].reasons == ("hỏi lại: làm sai 1 câu vốn đúng",)


def test_the_same_run_without_its_journal_counts_nothing_twice(book: Playbook) -> None:
    learn(learner(book, Pupil()), MANY[0], MANY[2])
    before, version = to_json(book.state()), book.version
    steps = learn(learner(book, Pupil()), MANY[0], MANY[2])
    assert right(steps) == [True, True]
    assert (to_json(book.state()), book.version) == (before, version)
    # Another run is other evidence.
    learn(learner(book, Pupil()), MANY[0], journal=Journal("s"))
    assert book.version == version + 1


def test_the_longest_ids_fit(book: Playbook) -> None:
    names = ["q" * 39 + end for end in "ab"]
    problems = [problem(names[0], "Hạt", "7", solution="= 7"), problem(names[1], "Quả", "8", solution="= 8")]
    learn(learner(book, Pupil()), *problems, journal=Journal("r" * 12))
    ids = [change.delta.id for change in book.history()]
    assert len(ids) == len(set(ids)) == 4
    assert max(len(each) for each in ids) <= 64
    assert [bullet.status for bullet in book.state().ordered()] == ["verified", "verified"]


def test_steps_are_told_as_they_are_kept(book: Playbook) -> None:
    told: list[str] = []
    journal = Journal("r")
    asyncio.run(learner(book, Pupil()).learn(MANY[:2], journal, lambda step: told.append(step.problem)))
    assert told == [step.problem for step in journal.steps()] == ["a", "b"]
    assert all(step.seconds >= 0 for step in journal.steps())


def test_asking_changes_nothing(book: Playbook) -> None:
    taught(book, "Lãi suất tiết kiệm là 6000.")
    version, told = book.version, list[Step]()
    asker = learner(book, Pupil(), ScriptedModel([]), teaching=BY_TWO)
    steps = asyncio.run(asker.ask(MANY, told.append))
    assert right(steps)[:3] == [True, False, True]
    assert steps == told
    assert [step.problem for step in steps] == list("abcdef")
    assert steps[0].shown == ("b-00001",)
    assert steps[0].attempt.used == ("b-00001",)
    assert (book.version, book.state().bullets["b-00001"].helpful) == (version, 0)
    assert MODEL.role not in {each.delta.author.role for each in book.history()}


# --- Several at once, and stops in odd places ------------------------------------------------------------------------


@dataclass
class Slow:
    """Replies after the others had their turn; ``reply`` may depend on what is asked."""

    reply: Callable[[str], str]

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        del max_tokens, owner
        await asyncio.sleep(0.01)
        yield Delta(self.reply(messages[1].text))
        yield Finished("stop", "slow", 1, 1, 0.0, None)


def test_the_cap_on_reflections_holds_within_a_wave(book: Playbook) -> None:
    one = learner(book, Pupil(), Slow(lambda _: insight("Đoán.")), teaching=Teaching(wave=4, reflections=1))
    learn(one, *(problem(name) for name in "abcd"))
    assert one.reflector is not None
    assert one.reflector.spent.reflections == 1


def test_of_two_contradictory_lessons_of_one_wave_one_goes_live(book: Playbook) -> None:
    pupil = Pupil()

    def reply(asked: str) -> str:
        degrees = "6000" if "bạn a " in asked else "72"
        return insight(f"Ở áp suất khí quyển tiêu chuẩn thì nước tinh khiết sôi ở {degrees} độ.", "mistake")

    verifier = Verifier(solver=pupil, live_kinds={"mistake"})
    one = learner(book, pupil, Slow(reply), verifier=verifier, teaching=Teaching(wave=2))
    learn(one, problem("a", "Nước tinh khiết"), problem("b", "Nước tinh khiết", "72"))
    assert sorted(bullet.status for bullet in book.state().ordered()) == ["quarantined", "verified"]


def test_a_run_goes_on_after_a_teacher_took_its_lessons_back(book: Playbook, tmp_path: Path) -> None:
    file = tmp_path / "j"
    with pytest.raises(LLMUnreachable):
        learn(learner(book, Pupil(breaks_at=2)), problem("a", solution="= 6000"), journal=Journal("r", file))
    book.rollback(0, TEACHER, "không cần")
    (step,) = learn(learner(book, Pupil()), problem("a", solution="= 6000"), journal=Journal("r", file))
    assert step.problem == "a"
    # What a teacher took away does not come back by itself.
    assert book.state().ordered() == []


def test_where_only_people_say_that_it_was_wrong_a_teacher_decides(book: Playbook) -> None:
    pupil = Pupil(knows=frozenset({"a"}))
    said = (Signal(kind="wrong", good=False, detail="năm khác"),)
    learn(learner(book, pupil, ScriptedModel([insight("Đọc kĩ đề.")])), problem("a", signals=said))
    (bullet,) = book.state().ordered()
    assert (bullet.status, bullet.reasons) == ("proposed", ("chưa hỏi lại được",))
    assert bullet.evidence[0].type == "interaction"
