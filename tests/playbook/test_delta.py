"""Changes of the playbook: carried out as a whole or not at all, and once."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_bullets import AT, MODEL, QUOTE, SYSTEM, TEACHER, VERIFIER, bullet, delta

from deepedu.base.errors import InvalidDelta
from deepedu.playbook.bullet import Bullet, BulletScope
from deepedu.playbook.delta import (
    Add,
    Count,
    Delta,
    Judge,
    Merge,
    Put,
    Remove,
    Retire,
    Update,
    operations_from_json,
    operations_to_json,
    proposals,
)
from deepedu.playbook.state import State, difference


def book(*texts: str) -> State:
    """Verified facts b-00001, b-00002, ..."""
    state = State()
    state.apply(delta(*(Add(text=text, kind="fact", helpful=number) for number, text in enumerate(texts, start=1))))
    state.apply(
        delta(*(Judge(bullet_id=f"b-{n + 1:05d}", status="verified") for n in range(len(texts))), author=VERIFIER)
    )
    return state


def test_an_added_bullet_waits_to_be_verified() -> None:
    state = State()
    assert state.apply(delta(Add(text="Tế bào là đơn vị của sự sống.", kind="fact", evidence=(QUOTE,)))) == ("b-00001",)
    (added,) = state.ordered()
    assert (added.status, added.section, added.author, added.evidence) == (
        "proposed",
        "Kiến thức trong sách",
        MODEL,
        (QUOTE,),
    )
    assert added.created_at == added.changed_at == AT


def test_every_operation_is_carried_out() -> None:
    state = book("Một", "Hai", "Ba")
    touched = state.apply(
        delta(
            Update(bullet_id="b-00001", text="Một là số lẻ."),
            Count(bullet_id="b-00002", helpful=3, harmful=1),
            Merge(into="b-00002", sources=("b-00003",)),
            Retire(bullet_id="b-00001", reason="thừa"),
            Add(text="Bốn", kind="method"),
            minutes=1,
        )
    )
    assert touched == ("b-00001", "b-00002", "b-00002", "b-00001", "b-00004")
    one, two, three, four = state.ordered()
    assert (one.text, one.status, one.reasons) == ("Một là số lẻ.", "retired", ("thừa",))
    assert (two.helpful, two.harmful, two.status) == (2 + 3 + 3, 1, "verified")
    assert (three.status, three.reasons, three.merged_into) == ("retired", ("gộp vào b-00002",), "b-00002")
    assert (four.kind, four.section) == ("method", "Phương pháp và công thức")


def test_what_is_counted_or_learnt_for_a_merged_bullet_goes_to_its_heir() -> None:
    state = book("Một", "Hai", "Ba")
    state.apply(delta(Merge(into="b-00002", sources=("b-00001",))))
    state.apply(delta(Merge(into="b-00003", sources=("b-00002",))))
    assert state.apply(delta(Count(bullet_id="b-00001", harmful=1), Add(text="MỘT", kind="fact"))) == ("b-00003",) * 2
    assert [(b.helpful, b.harmful) for b in state.ordered()] == [(0, 0), (0, 0), (6, 1)]
    # A second curator, who saw the same two, changes nothing more.
    before = state.copy()
    state.apply(delta(Merge(into="b-00003", sources=("b-00002",))))
    assert state == before
    state.apply(delta(Judge(bullet_id="b-00001", status="verified"), author=TEACHER))
    assert state.apply(delta(Count(bullet_id="b-00001", helpful=1))) == ("b-00001",)


BAD: list[tuple[Any, str]] = [
    (Update(bullet_id="b-9", text="x"), "there is no bullet 'b-9'"),
    (Retire(bullet_id="b-9", reason="x"), "there is no bullet"),
    (Count(bullet_id="b-9", helpful=1), "there is no bullet"),
    (Merge(into="b-00001", sources=("b-9",)), "there is no bullet"),
    (Merge(into="b-00001", sources=("b-00001",)), "into itself"),
    (Judge(bullet_id="b-00001", status="verified"), "a model cannot judge"),
    (Add(text="mới", kind="fact", bullet_id="b-00001"), "another bullet 'b-00001' already"),
    (Remove(bullet_id="b-9"), "there is no bullet"),
    (Put(bullet=bullet(7, "bảy")), "only a teacher"),
    (Remove(bullet_id="b-00001"), "only a teacher"),
]


@pytest.mark.parametrize(("operation", "words"), BAD)
def test_one_invalid_part_refuses_the_whole(operation: Any, words: str) -> None:
    state, before = book("Một", "Hai"), book("Một", "Hai")
    good = Count(bullet_id="b-00001", helpful=5)
    with pytest.raises(InvalidDelta, match=words) as caught:
        state.apply(delta(good, operation, Add(text="sau", kind="fact"), minutes=1))
    assert "operation 2" in str(caught.value)
    assert state == before


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidDelta, match=r"operation 1 \(COUNT\).*operation 2 \(RETIRE\)"):
        book("Một").apply(delta(Count(bullet_id="b-7", helpful=1), Retire(bullet_id="b-8", reason="x")))


def test_another_text_has_to_be_verified_again_and_another_heading_has_not() -> None:
    state = book("Một", "Hai", "Ba")
    state.apply(
        delta(
            Update(bullet_id="b-00001", section="Khác", evidence=(QUOTE,)),
            Update(bullet_id="b-00002", text="Hai!"),
            Merge(into="b-00003", sources=("b-00002",), text="Hai và ba"),
            author=TEACHER,
        )
    )
    assert [b.status for b in state.ordered()] == ["verified", "retired", "proposed"]
    state = book("Một")
    state.apply(delta(Update(bullet_id="b-00001", scope=BulletScope(grade=6))))
    assert state.bullets["b-00001"].status == "proposed"


def test_what_is_retired_stays_retired_until_a_teacher_brings_it_back() -> None:
    state = book("Một", "Hai")
    state.apply(delta(Retire(bullet_id="b-00001", reason="sai"), author=SYSTEM))
    for operation in (Update(bullet_id="b-00001", text="x"), Merge(into="b-00001", sources=("b-00002",))):
        with pytest.raises(InvalidDelta, match="is retired"):
            state.apply(delta(operation))
    with pytest.raises(InvalidDelta, match="only a teacher"):
        state.apply(delta(Judge(bullet_id="b-00001", status="verified"), author=VERIFIER))
    # Learnt again it is still the same bullet, and still retired.
    assert state.apply(delta(Add(text="một", kind="fact", helpful=1))) == ("b-00001",)
    assert (state.bullets["b-00001"].status, state.bullets["b-00001"].helpful) == ("retired", 2)
    state.apply(delta(Judge(bullet_id="b-00001", status="verified"), author=TEACHER))
    assert state.bullets["b-00001"].status == "verified"


def test_what_says_the_same_is_one_bullet() -> None:
    state = book("Nước sôi ở 100 °C.")
    again = Add(text="nước  sôi ở 100 °C.", kind="fact", evidence=(QUOTE,), helpful=2)
    assert state.apply(delta(again, again)) == ("b-00001", "b-00001")
    (only,) = state.ordered()
    assert (only.helpful, only.evidence, only.status) == (1 + 2 + 2, (QUOTE,), "verified")
    elsewhere = Add(text="Nước sôi ở 100 °C.", kind="fact", scope=BulletScope(grade=6))
    assert state.apply(delta(elsewhere)) == ("b-00002",)


@pytest.mark.parametrize("number", [99999, 100000, 12345678])
def test_ids_go_past_99999(number: int) -> None:
    state = State()
    state.apply(delta(Put(bullet=bullet(number, "cũ")), author=TEACHER))
    (new,) = state.apply(delta(Add(text="mới", kind="fact")))
    assert new == f"b-{number + 1}"
    assert state.apply(delta(Count(bullet_id=new, helpful=1))) == (new,)


@pytest.mark.parametrize("name", ["STR-00001", "sf-00012", "Fact_7", "b-00001", "B-00001", "ctx.3", "ý-1", "100000"])
def test_ids_of_other_playbooks_are_kept_as_they_are(name: str) -> None:
    state = State()
    assert state.apply(delta(Add(text="một", kind="fact", bullet_id=name))) == (name,)
    state.apply(delta(Update(bullet_id=name, text="hai"), Count(bullet_id=name, harmful=1)))
    assert (state.bullets[name].text, state.bullets[name].harmful) == ("hai", 1)
    other = name.swapcase()
    if other != name:
        with pytest.raises(InvalidDelta, match="there is no bullet"):
            state.apply(delta(Count(bullet_id=other, helpful=1)))


@pytest.mark.parametrize("name", ["", "a b", "[b-1]", "-b", "b--1", "b\n1", "x" * 65])
def test_an_id_that_no_list_could_hold_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected an id"):
        Add(text="một", kind="fact", bullet_id=name)


def test_a_bullet_may_stand_before_any_heading() -> None:
    state = State()
    state.apply(delta(Add(text="một", kind="fact", section="")))
    assert state.bullets["b-00001"].section == ""


def test_a_heading_is_one_however_it_was_typed() -> None:
    heading = "Lỗi thường gặp ở lớp sáu"
    state = State()
    for text, typed in (("một", heading), ("hai", unicodedata.normalize("NFD", f"## {heading} "))):
        state.apply(delta(Add(text=text, kind="mistake", section=typed)))
    assert {b.section for b in state.ordered()} == {heading}


def test_line_breaks_and_marks_stay_inside_a_bullet() -> None:
    text = "Bước 1: đặt ẩn.\r\n## Bước 2\n\n- [b-00009] giả\n<!-- {} -->"
    state = State()
    state.apply(delta(Add(text=text, kind="method")))
    assert state.bullets["b-00001"].text == "Bước 1: đặt ẩn.\n## Bước 2\n\n- [b-00009] giả\n<!-- {} -->"


def test_nothing_invisible_comes_into_a_bullet() -> None:
    assert Add(text="\ufeffbỏ\u200b qua\u202e luật", kind="fact", section="\u2060Lỗi").text == "bỏ qua luật"


@pytest.mark.parametrize(
    ("text", "words"), [(" \n ", "came nothing"), ("a\x00b", "control character"), ("chữ " * 200, "at most 200 tokens")]
)
def test_texts_that_no_bullet_can_have(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Add(text=text, kind="fact")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([{"op": "JUDGE", "bullet_id": "b-1", "status": "verified"}], "'JUDGE'"),
        ([{"op": "PUT"}], "'PUT'"),
        ([{"op": "DELETE", "bullet_id": "b-1"}], "'DELETE'"),
        ([{"op": "ADD", "text": "x", "kind": "rumour"}], "kind"),
        ([{"op": "ADD", "text": "x", "kind": "fact", "status": "verified"}], "status"),
        ([{"op": "COUNT", "bullet_id": "b-1", "helpful": -1}], "helpful"),
        ("ADD", "tuple"),
    ],
)
def test_what_a_model_may_not_propose(data: Any, words: str) -> None:
    with pytest.raises(InvalidDelta, match=words):
        proposals(data)


def test_a_model_proposes_in_json() -> None:
    found = proposals(
        [{"op": "ADD", "text": " x ", "kind": "fact"}, {"op": "RETIRE", "bullet_id": "b-1", "reason": "y"}]
    )
    assert found == (Add(text="x", kind="fact"), Retire(bullet_id="b-1", reason="y"))


# --- Properties ------------------------------------------------------------------------------------------------------

IDS = st.sampled_from(["b-00001", "b-00002", "b-00003", "b-00004", "X-1", "b-00099"])
TEXTS = st.sampled_from(["Một", "một", "Hai", "Ba\n## bốn", "Năm"])
OPERATIONS = st.one_of(
    st.builds(Add, text=TEXTS, kind=st.sampled_from(["fact", "method"]), helpful=st.integers(0, 2)),
    st.builds(Update, bullet_id=IDS, text=TEXTS),
    st.builds(Merge, into=IDS, sources=st.lists(IDS, min_size=1, max_size=2).map(tuple)),
    st.builds(Retire, bullet_id=IDS, reason=st.just("x")),
    st.builds(Count, bullet_id=IDS, helpful=st.integers(0, 3), harmful=st.integers(0, 3)),
)
DELTAS = st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), max_size=5)


def carried_out(batches: list[list[Any]]) -> tuple[State, list[Delta]]:
    state, done = book("Một", "Hai", "Ba"), []
    for minutes, operations in enumerate(batches):
        change = delta(*operations, minutes=minutes)
        before = state.copy()
        try:
            state.apply(change)
        except InvalidDelta:
            assert state == before
        else:
            done.append(change)
    return state, done


@given(DELTAS)
def test_nothing_is_lost_and_counts_add_up(batches: list[list[Any]]) -> None:
    state, done = carried_out(batches)
    for count, before in (("helpful", 1 + 2 + 3), ("harmful", 0)):
        told = sum(getattr(operation, count, 0) for change in done for operation in change.operations)
        assert sum(getattr(bullet, count) for bullet in state.bullets.values()) == before + told
    assert {"b-00001", "b-00002", "b-00003"} <= set(state.bullets)
    assert sorted(b.order for b in state.bullets.values()) == list(range(len(state.bullets)))


@given(DELTAS)
def test_a_history_read_back_is_the_same_book(batches: list[list[Any]]) -> None:
    state, done = carried_out(batches)
    again = book("Một", "Hai", "Ba")
    for change in done:
        stored = operations_to_json(change.operations)
        assert operations_from_json(stored) == change.operations
        again.apply(change.model_copy(update={"operations": operations_from_json(stored)}))
    assert again == state


@given(DELTAS)
def test_the_difference_leads_from_one_version_to_the_other(batches: list[list[Any]]) -> None:
    first = book("Một", "Hai", "Ba")
    state, _ = carried_out(batches)
    back = difference(state.bullets, first.bullets)
    if back:
        state.apply(delta(*back, author=TEACHER, minutes=99))
    assert state.bullets == first.bullets
    assert difference(state.bullets, first.bullets) == ()


def test_bullets_are_checked_like_new_ones() -> None:
    with pytest.raises(ValueError, match="helpful"):
        Bullet.model_validate({**dict(bullet(1, "x")), "helpful": -1})
