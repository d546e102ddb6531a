"""Asking again with a bullet: what it mends, what it breaks."""

import asyncio
from collections.abc import Sequence

from made_bullets import bullet

from deepedu.playbook.bullet import Bullet
from deepedu.playbook.interaction import Signal
from deepedu.playbook.problem import Attempt, Problem
from deepedu.playbook.replay import Case, Replayed, replay

NEW = bullet(9, "mới", status="proposed")


def attempt(right: bool | None, tokens: int = 0) -> Attempt:
    signals = () if right is None else (Signal(kind="quiz", good=right),)
    return Attempt(text="", answer="", signals=signals, prompt_tokens=tokens, completion_tokens=1)


def case(name: str, right: bool | None, *shown: Bullet) -> Case:
    return Case(Problem(id=name, question=f"Câu {name}?"), shown, attempt(right))


class Asked:
    """Answers by the question's id; keeps which bullets stood with each."""

    def __init__(self, **right: bool | None) -> None:
        self.right, self.shown = right, dict[str, list[str]]()

    async def attempt(self, problem: Problem, bullets: Sequence[Bullet] = ()) -> Attempt:
        self.shown[problem.id] = [each.id for each in bullets]
        return attempt(self.right[problem.id], 10)

    async def work_out(self, problem: Problem) -> str | None:
        raise AssertionError(f"{problem.id} is asked again, not worked out")


def replayed(solver: Asked, failed: Case, *neighbours: Case) -> Replayed:
    return asyncio.run(replay(NEW, failed, neighbours, solver))


def test_a_bullet_that_mends_and_breaks_nothing_has_no_reasons_against_it() -> None:
    solver = Asked(sai=True, a=True, b=False)
    found = replayed(solver, case("sai", False), case("a", True), case("b", False))
    assert found == Replayed(helped=("sai",), broke=(), asked=3, prompt_tokens=30, completion_tokens=3)
    assert found.reasons == ()


def test_one_that_does_not_mend() -> None:
    found = replayed(Asked(sai=False, a=True), case("sai", False), case("a", True))
    assert (found.helped, found.broke) == ((), ())
    assert found.reasons == ("hỏi lại: không giúp được câu đã trả lời sai",)


def test_one_that_breaks_neighbours() -> None:
    found = replayed(Asked(sai=True, a=False, b=None), case("sai", False), case("a", True), case("b", True))
    # No signal any more is no right answer any more.
    assert (found.helped, found.broke) == (("sai",), ("a", "b"))
    assert found.reasons == ("hỏi lại: làm sai 2 câu vốn đúng",)


def test_everything_against_it_is_told() -> None:
    assert len(replayed(Asked(sai=False, a=False), case("sai", False), case("a", True)).reasons) == 2


def test_a_neighbour_that_comes_right_makes_up_for_nothing() -> None:
    found = replayed(Asked(sai=False, a=True), case("sai", False), case("a", False))
    assert found.helped == ()
    both = replayed(Asked(sai=True, a=True), case("sai", False), case("a", False))
    assert both.helped == ("sai", "a")


def test_the_bullet_stands_in_front_of_those_that_were_shown_and_once_only() -> None:
    first, second = bullet(1, "một"), bullet(2, "hai")
    solver = Asked(sai=True, a=True)
    replayed(solver, case("sai", False, first, second), case("a", True, second, NEW, first))
    assert solver.shown == {"sai": ["b-00009", "b-00001", "b-00002"], "a": ["b-00009", "b-00002", "b-00001"]}


def test_a_neighbour_of_whom_nothing_is_known_is_not_asked() -> None:
    solver = Asked(sai=True)
    found = replayed(solver, case("sai", False), case("a", None), case("b", None))
    assert (found.asked, list(solver.shown)) == (1, ["sai"])
    assert found.reasons == ()


def test_a_question_without_a_signal_is_not_mended_by_staying_so() -> None:
    assert replayed(Asked(sai=None), case("sai", False)).reasons != ()
    assert replayed(Asked(sai=True), case("sai", True)).helped == ()
