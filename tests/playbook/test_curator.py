"""From insights to operations, and a book that is kept tidy."""

from typing import Any

import pytest
from made_bullets import TEACHER, bullet, delta

from deepedu.playbook.bullet import Bullet, BulletScope, InteractionEvidence
from deepedu.playbook.curator import curate, tidy
from deepedu.playbook.delta import Add, Count, Merge, Put, Retire, Update
from deepedu.playbook.duplicates import DuplicateIndex
from deepedu.playbook.interaction import Interaction, Signal
from deepedu.playbook.reflector import Insight, Reflection, Verdict
from deepedu.playbook.state import State

BAD, GOOD = Signal(kind="quiz", good=False), Signal(kind="thumbs_up", good=True)
FAILURE = Interaction(
    reference="t-1",
    question="?",
    answer="!",
    scope=BulletScope(grade=6, subject="KHTN", lesson="Bài 5"),
    shown=("b-00001",),
    used=("b-00001",),
    signals=(GOOD, BAD),
)
EVIDENCE = InteractionEvidence(reference="t-1", signal="quiz")


def state_of(*bullets: Bullet) -> State:
    state = State()
    if bullets:
        state.apply(delta(*(Put(bullet=each) for each in bullets), author=TEACHER))
    return state


def learnt(text: str, *verdicts: Verdict, kind: Any = "fact") -> Reflection:
    return Reflection(wrong="", cause="", insight=Insight(kind=kind, text=text), verdicts=verdicts)


def test_an_insight_becomes_a_bullet_where_the_question_stood() -> None:
    found = curate(FAILURE, learnt("Nước sôi ở 100 °C."), State())
    scope = BulletScope(grade=6, subject="KHTN")
    assert found == (Add(text="Nước sôi ở 100 °C.", kind="fact", scope=scope, evidence=(EVIDENCE,)),)
    state = State()
    state.apply(delta(*found))
    assert state.bullets["b-00001"].status == "proposed"


def test_what_is_known_already_gets_more_evidence_and_no_twin() -> None:
    scope = BulletScope(grade=6, subject="KHTN")
    known = bullet(1, "Ở áp suất thường nước sôi ở 100 °C nhé.", scope=scope)
    found = curate(FAILURE, learnt("Ở áp suất thường, nước sôi ở 100 °C."), state_of(known))
    assert found == (Update(bullet_id="b-00001", evidence=(EVIDENCE,)),)
    state = state_of(known)
    state.apply(delta(*found))
    # Nothing new is said, so it need not be verified again.
    assert state.bullets["b-00001"].status == "verified"


def test_verdicts_and_successes_are_counted() -> None:
    state = state_of(bullet(1, "Một"), bullet(2, "Hai"))
    verdicts = (
        Verdict(bullet_id="b-00001", verdict="harmful"),
        Verdict(bullet_id="b-00002", verdict="neutral"),
        Verdict(bullet_id="b-00009", verdict="helpful"),
    )
    found = curate(FAILURE, Reflection(wrong="", cause="", verdicts=verdicts), state)
    assert found == (Count(bullet_id="b-00001", harmful=1),)
    success = FAILURE.model_copy(update={"signals": (GOOD,), "used": ("b-00001", "b-00001", "b-00009")})
    assert curate(success, None, state) == (Count(bullet_id="b-00001", helpful=1),)
    # Neither a success nor a failure: nobody said anything.
    assert curate(FAILURE.model_copy(update={"signals": ()}), None, state) == ()
    # Without a reflection a failure speaks against what the answer rests on.
    assert curate(FAILURE, None, state) == (Count(bullet_id="b-00001", harmful=1),)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("Muốn cộng hai phân số cùng mẫu, ta cộng tử.", "Muốn cộng hai phân số cùng mẫu ta cộng các tử.", True),
        ("Nước sôi ở 100 °C dưới áp suất thường.", "Nước sôi ở 90 °C dưới áp suất thường.", False),
        ("Khi chuyển vế thì phải đổi dấu số hạng.", "Khi chuyển vế thì không phải đổi dấu số hạng.", False),
        ("Chiến thắng này do Ngô Quyền chỉ huy.", "Chiến thắng này do Trần Quyền chỉ huy.", False),
        ("Nước sôi ở 100 °C.", "Tế bào là đơn vị của sự sống.", False),
    ],
)
def test_what_says_nearly_the_same(first: str, second: str, same: bool) -> None:
    one, two = bullet(1, first), bullet(2, second)
    assert bool(DuplicateIndex([one]).near(two)) is same
    elsewhere = bullet(2, second, scope=BulletScope(grade=7))
    assert DuplicateIndex([one]).near(elsewhere) == []
    assert DuplicateIndex([one.model_copy(update={"status": "retired"})]).near(two) == []


def test_a_tidy_book_has_one_of_each_and_keeps_the_most_trusted() -> None:
    text = "Muốn cộng hai phân số cùng mẫu, ta cộng tử"
    state = state_of(
        bullet(1, f"{text}.", status="proposed", helpful=2),
        bullet(2, f"{text} nhé.", helpful=9),
        bullet(3, f"{text} thôi.", status="quarantined"),
        bullet(4, "Thứ khác hẳn."),
        bullet(5, "Hại nhiều lần.", harmful=5),
    )
    found = tidy(state)
    assert found == (
        Merge(into="b-00002", sources=("b-00001",)),
        Retire(bullet_id="b-00005", reason="hại 5 lần, giúp 0 lần"),
    )
    state.apply(delta(*found))
    assert state.bullets["b-00002"].helpful == 11
    assert tidy(state) == ()
