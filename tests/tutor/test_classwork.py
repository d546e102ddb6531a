"""Quizzes at work: what is acknowledged is kept, work is closed once, and attempts come from nowhere else."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from deepedu.base.config import StoreSettings
from deepedu.base.errors import BadRequest, NotFound
from deepedu.school.accounts import create_person
from deepedu.school.classes import create_class
from deepedu.store import Database
from deepedu.store.tables import StoredAttempt, StoredQuiz, Submission
from deepedu.tutor import assignments, classwork, quiz_shelf
from deepedu.tutor.assignments import (
    GRACE,
    TimeOver,
    assign,
    assignment_for,
    assignments_of,
    change_assignment,
    handed_in,
    own_assignment,
    withdraw,
)
from deepedu.tutor.classwork import (
    HandedIn,
    Unreadable,
    attempts_of,
    begin,
    close_overdue,
    hand_in,
    keep_attempt,
    keep_given,
    mastery_of,
    results_of,
    work_of,
    works_of,
)
from deepedu.tutor.quiz import LETTERS, Choice, Claim, Item, Placed, Quiz, Short, TrueFalse
from deepedu.tutor.quiz_shelf import QuizHead, put_quiz

START = datetime(2026, 9, 7, 1, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
CITY = Choice(stem="Thủ đô của nước ta?", options=("Huế", "Hà Nội", "Đà Nẵng", "Vinh"), key=1, skill="Bài 1")
CLAIMS = TrueFalse(
    stem="Xét các phát biểu:",
    statements=tuple(Claim(text=f"phát biểu {n}", truth=n in (1, 4)) for n in (1, 2, 3, 4)),
    skill="Bài 2",
)
LENGTH = Short(stem="Sợi dây dài bao nhiêu?", key="2,5", unit="m")
ITEMS: tuple[Item, ...] = (CITY, CLAIMS, LENGTH)
AN, BINH = "l-an", "l-binh"


@dataclass
class Room:
    """A teacher with a class, and a clock that tests set."""

    database: Database
    teacher: int
    class_id: int
    at: datetime = START
    quizzes: list[int] = field(default_factory=list)

    def give(self, *, closes_at: datetime | None = None, **more: Any) -> int:
        """Gives the class a quiz; returns the assignment."""
        with self.database.write() as session:
            quiz_id = put_quiz(session, self.teacher, QuizHead(title="Đề 1", subject="Toán"), ITEMS)
            self.quizzes.append(quiz_id)
            return assign(
                session,
                quiz_id,
                self.class_id,
                author_id=self.teacher,
                opens_at=more.pop("opens_at", self.at),
                closes_at=closes_at,
                **more,
            )

    def attempts(self, learner_id: str = AN) -> list[str]:
        """Ids of the items that attempts are kept of."""
        with self.database.read() as session:
            wanted = sa.select(StoredAttempt.item_id).where(StoredAttempt.learner_id == learner_id)
            return sorted(session.scalars(wanted))


def furnished(folder: Path) -> Room:
    database = Database(StoreSettings(data_dir=folder))
    with database.write() as session:
        teacher = create_person(session, "teacher", "lan", "Phạm Thị Lan").id
        class_id = create_class(session, "6A", "2026-2027").id
    return Room(database, teacher, class_id)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    room = furnished(tmp_path / "data")
    for module in (classwork, assignments, quiz_shelf):
        monkeypatch.setattr(module, "now", lambda: room.at)
    yield room
    room.database.close()


def right(placed: Placed) -> Any:
    """The right answer as the pupil would tick it."""
    match placed.turned:
        case Choice(key=key):
            return LETTERS[key]
        case TrueFalse(statements=claims):
            return {letter: "Đ" if claim.truth else "S" for letter, claim in zip("abcd", claims, strict=True)}
        case Short(key=key):
            return key


def all_right(work: classwork.Work) -> dict[str, Any]:
    return {placed.item.id: right(placed) for placed in work.placed}


IDS = sorted(item.id for item in ITEMS)


# --- Working ---------------------------------------------------------------------------------------------------------


def test_what_is_right_in_the_pupils_order_is_right(room: Room) -> None:
    given = room.give()
    work = begin(room.database, [room.class_id], given, AN)
    assert begin(room.database, [room.class_id], given, AN) == work
    result = hand_in(room.database, [room.class_id], given, AN, all_right(work))
    assert (result.points, result.max_points) == (Decimal("1.75"), Decimal("1.75"))
    by_id = {mark.item_id: mark for mark in result.marks}
    assert by_id[CITY.id].given == "B"
    assert by_id[CLAIMS.id].given == "ĐSSĐ"
    assert results_of(room.database, given, [AN, BINH]) == [result]
    assert room.attempts() == IDS
    assert works_of(room.database, AN) == {given: START}


def test_partial_answers_get_partial_points(room: Room) -> None:
    given = room.give()
    work = begin(room.database, [room.class_id], given, AN)
    answers = all_right(work)
    del answers[CITY.id]
    del answers[CLAIMS.id]["a"]
    answers[LENGTH.id] = "3"
    assert work.unanswered() == [1, 2, 3]
    keep_given(room.database, [room.class_id], given, AN, answers)
    work = begin(room.database, [room.class_id], given, AN)
    assert work.unanswered() == [1, 2]
    result = hand_in(room.database, [room.class_id], given, AN, {})
    assert result.points == Decimal("0.5")
    assert [mark.given is None for mark in result.marks] == [True, False, False]


def test_what_is_kept_is_sealed_and_added_to(room: Room) -> None:
    given = room.give()
    begin(room.database, [room.class_id], given, AN)
    keep_given(room.database, [room.class_id], given, AN, {LENGTH.id: "hai mét rưỡi", "unknown": "x"})
    keep_given(room.database, [room.class_id], given, AN, {CITY.id: "A"})
    work = work_of(room.database, [room.class_id], given, AN)
    assert work is not None
    assert work.given == {LENGTH.id: "hai mét rưỡi", CITY.id: "A"}
    with room.database.read() as session:
        assert "rưỡi" not in session.scalars(sa.select(Submission.given)).one()
    assert work_of(room.database, [room.class_id], given, BINH) is None


def test_words_where_a_number_is_wanted_are_told_and_nothing_is_closed(room: Room) -> None:
    given = room.give(closes_at=START + HOUR)
    work = begin(room.database, [room.class_id], given, AN)
    answers = all_right(work) | {LENGTH.id: "không biết"}
    with pytest.raises(Unreadable, match="Câu 3: cần một số") as caught:
        hand_in(room.database, [room.class_id], given, AN, answers)
    assert set(caught.value.problems) == {LENGTH.id}
    assert room.attempts() == []
    work = begin(room.database, [room.class_id], given, AN)
    assert work.given == answers
    assert set(work.problems()) == {LENGTH.id}
    # There is no time left to mend it once the time is over.
    room.at = START + HOUR + GRACE / 2
    assert hand_in(room.database, [room.class_id], given, AN, {}).points == Decimal("1.25")


@pytest.mark.parametrize("value", ["x" * 3000, ["x"] * 3000, {"a": "x" * 3000}])
def test_what_is_far_too_long_is_refused(room: Room, value: Any) -> None:
    given = room.give()
    begin(room.database, [room.class_id], given, AN)
    with pytest.raises(BadRequest, match="dài quá"):
        keep_given(room.database, [room.class_id], given, AN, {LENGTH.id: value})


def test_only_the_first_hand_in_counts(room: Room) -> None:
    given = room.give()
    first = hand_in(room.database, [room.class_id], given, AN, all_right(begin_(room, given)))
    for again in ({}, {CITY.id: "A"}):
        with pytest.raises(HandedIn):
            hand_in(room.database, [room.class_id], given, AN, again)
    with pytest.raises(HandedIn):
        keep_given(room.database, [room.class_id], given, AN, {CITY.id: "A"})
    assert results_of(room.database, given, [AN]) == [first]
    assert room.attempts() == IDS


def begin_(room: Room, given: int, learner_id: str = AN) -> classwork.Work:
    return begin(room.database, [room.class_id], given, learner_id)


def test_hand_ins_at_the_same_moment_give_one_result(room: Room) -> None:
    given = room.give()
    answers = all_right(begin_(room, given))
    barrier, told = threading.Barrier(6), list[str]()

    def click() -> None:
        barrier.wait()
        try:
            hand_in(room.database, [room.class_id], given, AN, answers)
            told.append("done")
        except HandedIn:
            told.append("handed in")

    threads = [threading.Thread(target=click) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == ["done"] + ["handed in"] * 5
    assert room.attempts() == IDS


def test_beginning_in_two_tabs_is_one_work(room: Room) -> None:
    given = room.give()
    barrier, orders = threading.Barrier(4), list[tuple[Placed, ...]]()

    def click() -> None:
        barrier.wait()
        orders.append(begin_(room, given).placed)

    threads = [threading.Thread(target=click) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(orders)) == 1


def test_other_pupils_and_classes_are_like_none(room: Room) -> None:
    given = room.give()
    begin_(room, given)
    for class_ids, number in (([], given), ([room.class_id + 1], given), ([room.class_id], given + 1)):
        for attempt in (
            lambda ids, n: begin(room.database, ids, n, AN),
            lambda ids, n: work_of(room.database, ids, n, AN),
            lambda ids, n: keep_given(room.database, ids, n, AN, {}),
            lambda ids, n: hand_in(room.database, ids, n, AN, {}),
            lambda ids, n: assignment_for(room.database, ids, n),
            lambda ids, n: own_assignment(room.database, room.teacher, ids, n),
        ):
            with pytest.raises(NotFound):
                attempt(class_ids, number)
    with pytest.raises(NotFound, match="chưa bắt đầu"):
        hand_in(room.database, [room.class_id], given, BINH, {})
    with pytest.raises(NotFound):
        own_assignment(room.database, room.teacher + 1, [room.class_id], given)


# --- Time ------------------------------------------------------------------------------------------------------------


def test_work_begins_only_while_it_is_open(room: Room) -> None:
    given = room.give(opens_at=START + HOUR, closes_at=START + 2 * HOUR)
    for at in (START, START + 2 * HOUR):
        room.at = at
        with pytest.raises(TimeOver):
            begin_(room, given)
    room.at = START + HOUR
    begin_(room, given)
    room.at = START + 3 * HOUR
    assert begin_(room, given).finished_at is None


def test_overdue_work_is_closed_with_what_was_kept(room: Room) -> None:
    given = room.give(closes_at=START + HOUR)
    endless = room.give()
    answers = all_right(begin_(room, given)) | {LENGTH.id: "chịu"}
    begin_(room, endless)
    begin_(room, given, BINH)
    keep_given(room.database, [room.class_id], given, AN, answers)
    room.at = START + HOUR + GRACE / 2
    assert close_overdue(room.database) == 0
    keep_given(room.database, [room.class_id], given, AN, {CITY.id: answers[CITY.id]})
    room.at = START + HOUR + GRACE
    with pytest.raises(TimeOver):
        keep_given(room.database, [room.class_id], given, AN, {CITY.id: "A"})
    with pytest.raises(TimeOver):
        hand_in(room.database, [room.class_id], given, AN, {})
    assert close_overdue(room.database, [room.class_id + 1]) == 0
    assert close_overdue(room.database, [room.class_id]) == 2
    assert close_overdue(room.database) == 0
    by_learner = {result.learner_id: result for result in results_of(room.database, given, [AN, BINH])}
    assert by_learner[AN].points == Decimal("1.25")
    assert by_learner[AN].finished_at == START + HOUR
    assert by_learner[BINH].points == 0
    assert handed_in(room.database, [given, endless]) == {given: (2, 2), endless: (1, 0)}


def test_one_damaged_work_holds_no_other_up(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    given = room.give(closes_at=START + HOUR)
    for learner in ("l-erased", "l-damaged", AN):
        begin_(room, given, learner)
        keep_given(room.database, [room.class_id], given, learner, {CITY.id: "A"})
    room.database.vault.destroy("l-erased")
    with room.database.write() as session:
        damaged = sa.update(Submission).where(Submission.learner_id == "l-damaged")
        session.execute(damaged.values(given="sealed1:l-damaged:AAAA"))
    room.at = START + 2 * HOUR
    assert close_overdue(room.database) == 1
    assert room.attempts(AN) == IDS
    assert "cannot be closed" in caplog.text


def test_more_time_and_an_early_end(room: Room) -> None:
    given = room.give(closes_at=START + HOUR, is_exam=True)
    assignment, _ = own_assignment(room.database, room.teacher, [room.class_id], given)
    begin_(room, given)
    with room.database.write() as session, pytest.raises(BadRequest, match="thu hồi"):
        withdraw(session, assignment)
    with room.database.write() as session:
        assignment = change_assignment(session, assignment, closes_at=START + 2 * HOUR, shows_keys=False)
    assert (assignment.closes_at, assignment.shows_keys) == (START + 2 * HOUR, False)
    room.at = START + HOUR
    for closes_at, told in ((None, "cần giờ kết thúc"), (START - HOUR, "phải sau giờ mở")):
        with room.database.write() as session, pytest.raises(BadRequest, match=told):
            change_assignment(session, assignment, closes_at=closes_at, shows_keys=True)
    with room.database.write() as session:
        assignment = change_assignment(session, assignment, closes_at=room.at, shows_keys=True)
    room.at += GRACE
    assert assignment.is_over(room.at)
    assert close_overdue(room.database) == 1
    with room.database.write() as session, pytest.raises(BadRequest, match="đã đóng"):
        change_assignment(session, assignment, closes_at=START + 5 * HOUR, shows_keys=True)
    with room.database.write() as session:
        assert not change_assignment(session, assignment, closes_at=assignment.closes_at, shows_keys=False).shows_keys


def test_what_nobody_began_can_be_taken_back(room: Room) -> None:
    given = room.give(opens_at=START + HOUR)
    (assignment,) = assignments_of(room.database, [room.class_id])
    assert assignments_of(room.database, [room.class_id], author_id=room.teacher + 1) == []
    with room.database.write() as session:
        withdraw(session, assignment)
    with pytest.raises(NotFound):
        assignment_for(room.database, [room.class_id], given)


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ({"closes_at": START}, "phải sau giờ mở"),
        ({"closes_at": None, "is_exam": True}, "cần giờ kết thúc"),
    ],
)
def test_times_that_cannot_be(room: Room, times: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        room.give(**times)


def test_a_class_has_a_quiz_once_at_a_time(room: Room) -> None:
    room.give(closes_at=START + HOUR)

    def again() -> None:
        with room.database.write() as session:
            assign(session, room.quizzes[0], room.class_id, author_id=room.teacher, opens_at=room.at, closes_at=None)

    with pytest.raises(BadRequest, match="đang có bài này"):
        again()
    room.at = START + HOUR
    again()
    with room.database.write() as session, pytest.raises(NotFound):
        assign(session, room.quizzes[0], room.class_id, author_id=99, opens_at=room.at, closes_at=None)


def test_keys_of_an_exam_wait_until_it_is_closed_for_all(room: Room) -> None:
    homework, exam = room.give(), room.give(closes_at=START + HOUR, is_exam=True)
    kept_back = room.give(shows_keys=False)
    by_id = {each.id: each for each in assignments_of(room.database, [room.class_id])}
    for at, expected in ((START, False), (START + HOUR, False), (START + HOUR + GRACE, True)):
        assert by_id[exam].may_show_keys(at) is expected
    assert by_id[homework].may_show_keys(START)
    assert not by_id[kept_back].may_show_keys(START + 9 * HOUR)


# --- Mastery ---------------------------------------------------------------------------------------------------------


def test_attempts_alone_move_mastery(room: Room) -> None:
    given = room.give()
    work = begin_(room, given)
    keep_given(room.database, [room.class_id], given, AN, all_right(work))
    assert mastery_of(room.database, [AN]) == {AN: {}}
    hand_in(room.database, [room.class_id], given, AN, {})
    # An item without a skill moves none.
    assert set(mastery_of(room.database, [AN, BINH])[AN]) == {"Bài 1", "Bài 2"}
    room.database.vault.destroy(AN)
    assert attempts_of(room.database, [AN]) == {AN: []}
    assert results_of(room.database, given, [AN])[0].marks == ()


def test_marks_of_an_exam_that_others_sit_are_not_told(room: Room) -> None:
    exam = room.give(closes_at=START + HOUR, is_exam=True)
    hand_in(room.database, [room.class_id], exam, AN, all_right(begin_(room, exam)))
    assert len(attempts_of(room.database, [AN])[AN]) == 2
    assert attempts_of(room.database, [AN], told_at=START + HOUR) == {AN: []}
    assert len(attempts_of(room.database, [AN], told_at=START + HOUR + GRACE)[AN]) == 2


def test_practice_is_kept_without_an_assignment(room: Room) -> None:
    placed = Placed(CITY, (2, 1, 0, 3))
    marked = keep_attempt(room.database, AN, placed, "B", None)
    assert (marked.score, marked.given) == (1.0, "B")
    assert room.attempts() == [CITY.id]
    assert len(attempts_of(room.database, [AN], told_at=START)[AN]) == 1
    for blank in (None, "", "  "):
        with pytest.raises(BadRequest, match="chưa trả lời"):
            keep_attempt(room.database, AN, placed, blank, None)
    with pytest.raises(BadRequest, match="cần một số"):
        keep_attempt(room.database, AN, Placed(LENGTH, ()), "không biết", None)
    assert room.attempts() == [CITY.id]


# --- The shelf -------------------------------------------------------------------------------------------------------


def test_a_quiz_is_made_item_by_item(room: Room) -> None:
    with room.database.write() as session:
        quiz_id = put_quiz(session, room.teacher, QuizHead(title="Đề trống"))
        with pytest.raises(BadRequest, match="ít nhất một câu"):
            assign(session, quiz_id, room.class_id, author_id=room.teacher, opens_at=START, closes_at=None)
        assert quiz_shelf.add_items(session, room.teacher, quiz_id, [CITY, LENGTH]) == 2
        assert quiz_shelf.add_items(session, room.teacher, quiz_id, [CITY, CLAIMS, CLAIMS]) == 1
        for where in ("down", "down", "down", "up"):
            quiz_shelf.move_item(session, room.teacher, quiz_id, CITY.id, where)
        mended = CITY.model_copy(update={"stem": "Thủ đô?"})
        quiz_shelf.replace_item(session, room.teacher, quiz_id, LENGTH.id, mended)
        with pytest.raises(BadRequest, match="hai lần"):
            quiz_shelf.replace_item(session, room.teacher, quiz_id, CLAIMS.id, mended)
        assert quiz_shelf.remove_item(session, room.teacher, quiz_id, CLAIMS.id) == CLAIMS
        quiz_shelf.change_head(session, room.teacher, quiz_id, QuizHead(title="Đề 2", grade=6))
        with pytest.raises(NotFound, match="câu hỏi này"):
            quiz_shelf.remove_item(session, room.teacher, quiz_id, CLAIMS.id)
    shelved = quiz_shelf.shelved_quiz(room.database, room.teacher, quiz_id)
    assert shelved.quiz() == Quiz(title="Đề 2", grade=6, items=(mended, CITY))
    (line,) = quiz_shelf.shelf_of(room.database, room.teacher)
    assert (line.title, line.items, line.is_assigned) == ("Đề 2", 2, False)


def test_a_quiz_that_was_given_out_stays_as_it_is(room: Room) -> None:
    room.give()
    (quiz_id,) = room.quizzes
    with room.database.write() as session:
        for change in (
            lambda: quiz_shelf.change_head(session, room.teacher, quiz_id, QuizHead(title="x")),
            lambda: quiz_shelf.add_items(session, room.teacher, quiz_id, [CITY]),
            lambda: quiz_shelf.replace_item(session, room.teacher, quiz_id, CITY.id, CITY),
            lambda: quiz_shelf.remove_item(session, room.teacher, quiz_id, CITY.id),
            lambda: quiz_shelf.move_item(session, room.teacher, quiz_id, CITY.id, "up"),
        ):
            with pytest.raises(BadRequest, match="bản sao"):
                change()
        copy = quiz_shelf.copy_quiz(session, room.teacher, quiz_id)
        quiz_shelf.remove_item(session, room.teacher, copy, CITY.id)
    assert quiz_shelf.shelved_quiz(room.database, room.teacher, copy).head.title == "Đề 1 (bản sao)"
    assert len(quiz_shelf.shelved_quiz(room.database, room.teacher, quiz_id).items) == 3


def test_results_go_with_their_quiz(room: Room) -> None:
    given = room.give(closes_at=START + HOUR)
    hand_in(room.database, [room.class_id], given, AN, all_right(begin_(room, given)))
    begin_(room, given, BINH)
    (quiz_id,) = room.quizzes
    gone = quiz_shelf.Standing(assignments=1, begun=2, handed_in=1)
    assert quiz_shelf.standing(room.database, room.teacher, quiz_id) == gone
    with room.database.write() as session, pytest.raises(BadRequest, match="đóng bài trước"):
        quiz_shelf.delete_quiz(session, room.teacher, quiz_id)
    room.at = START + HOUR
    with room.database.write() as session:
        assert quiz_shelf.delete_quiz(session, room.teacher, quiz_id) == gone
    assert room.attempts() == []
    assert works_of(room.database, AN) == {}
    with room.database.read() as session:
        assert session.scalars(sa.select(StoredQuiz)).all() == []


def test_quizzes_of_others_are_like_none(room: Room) -> None:
    room.give()
    (quiz_id,) = room.quizzes
    with room.database.write() as session:
        for attempt in (quiz_shelf.copy_quiz, quiz_shelf.delete_quiz):
            with pytest.raises(NotFound):
                attempt(session, room.teacher + 1, quiz_id)
    with pytest.raises(NotFound):
        quiz_shelf.shelved_quiz(room.database, room.teacher + 1, quiz_id)
    assert quiz_shelf.shelf_of(room.database, room.teacher + 1) == []


def test_a_quiz_holds_only_so_many_items(room: Room) -> None:
    items = [Short(stem=f"{n} + 1?", key=str(n + 1)) for n in range(quiz_shelf.MOST_ITEMS + 1)]
    with room.database.write() as session:
        quiz_id = put_quiz(session, room.teacher, QuizHead(title="Dài"), items[:-1])
        with pytest.raises(BadRequest, match="nhiều nhất"):
            quiz_shelf.add_items(session, room.teacher, quiz_id, items[-1:])


def test_content_of_another_make_is_told(room: Room) -> None:
    with room.database.write() as session:
        session.add(StoredQuiz(author_id=room.teacher, title="x", content={"items": [{"kind": "essay"}]}))
        session.flush()
        quiz_id = session.scalars(sa.select(StoredQuiz.id)).one()
    with pytest.raises(BadRequest, match="không đúng dạng"):
        quiz_shelf.shelved_quiz(room.database, room.teacher, quiz_id)


# --- Whatever happens ------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from("ABCDabcdĐS"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd1x"), inner, max_size=4),
    max_leaves=6,
)
steps = st.lists(
    st.one_of(
        st.just(("begin",)),
        st.tuples(st.just("keep"), st.dictionaries(st.sampled_from([*IDS, "other"]), json_values, max_size=3)),
        st.tuples(st.just("hand in"), st.dictionaries(st.sampled_from(IDS), json_values, max_size=3)),
        st.tuples(st.just("wait"), st.integers(1, 45)),
        st.just(("sweep",)),
    ),
    max_size=12,
)


@given(script=steps)
@settings(max_examples=60, deadline=None)
def test_attempts_come_once_with_the_hand_in_and_never_before(shared_room: Room, script: list[tuple[Any, ...]]) -> None:
    room = shared_room
    room.at = START
    with room.database.write() as session:
        session.execute(sa.delete(StoredQuiz))
    given = room.give(closes_at=START + HOUR)
    classes, acknowledged, is_finished = [room.class_id], dict[str, Any](), False
    for step in script:
        try:
            match step:
                case ("begin",):
                    begin(room.database, classes, given, AN)
                case ("keep", answers):
                    keep_given(room.database, classes, given, AN, answers)
                    acknowledged |= {key: value for key, value in answers.items() if key in IDS}
                case ("hand in", answers):
                    hand_in(room.database, classes, given, AN, answers)
                    acknowledged |= answers
                    assert not is_finished
                case ("wait", minutes):
                    room.at += timedelta(minutes=minutes)
                case _:
                    close_overdue(room.database)
        except Unreadable:
            acknowledged |= step[-1]
            assert not is_finished
        except (NotFound, TimeOver):
            assert works_of(room.database, AN) == {} or room.at >= START + HOUR
        except HandedIn:
            assert is_finished
        is_finished = works_of(room.database, AN).get(given) is not None
        assert room.attempts() == (IDS if is_finished else [])
        work = work_of(room.database, classes, given, AN)
        # By its JSON: what is not a number is not equal to itself.
        assert repr(sorted((work.given if work else {}).items())) == repr(sorted(acknowledged.items()))


@pytest.fixture(scope="module")
def shared_room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    room = furnished(tmp_path_factory.mktemp("classwork") / "data")
    with pytest.MonkeyPatch.context() as patch:
        for module in (classwork, assignments, quiz_shelf):
            patch.setattr(module, "now", lambda: room.at)
        yield room
    room.database.close()
