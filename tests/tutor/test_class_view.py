"""What the desk shows: order, levels, minutes of study, what was missed, questions that are alike."""

import unicodedata
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepedu.school.accounts import Account
from deepedu.tutor.alike_questions import AskedQuestion, group_alike
from deepedu.tutor.assignments import Assignment
from deepedu.tutor.class_view import (
    PAUSE,
    MarkedAnswer,
    Stretch,
    activity,
    heat_cell,
    heat_map,
    is_released,
    local_day,
    most_missed,
    natural_order,
    study_minutes,
    week_start,
)
from deepedu.tutor.mastery import Attempt, trace

NOON = datetime(2026, 10, 6, 12, tzinfo=UTC)


def pupil(name: str) -> Account:
    return Account(1, f"p-{name}", "student", name, name, f"l-{name}", False, "vi")


def attempts(skill: str, *scores: float) -> list[Attempt]:
    return [Attempt(skill, score, NOON + timedelta(minutes=n), f"{skill}{n}") for n, score in enumerate(scores)]


# --- Mastery ----------------------------------------------------------------------------------------------------------


def test_lessons_are_counted_up() -> None:
    named = ["Bài 10. Đo", "bài 2. Nhiệt", "Bài 2. Lực", "Ôn tập"]
    assert sorted(named, key=natural_order) == ["Bài 2. Lực", "bài 2. Nhiệt", "Bài 10. Đo", "Ôn tập"]


@given(st.lists(st.text(max_size=12), max_size=8))
def test_any_names_can_be_ordered(names: list[str]) -> None:
    ordered = sorted(names, key=natural_order)
    assert sorted(ordered, key=natural_order) == ordered


def test_levels_go_from_nothing_to_mastered() -> None:
    found = [
        heat_cell(trace(attempts("x", *scores)).get("x")).level for scores in ((), (0, 0, 0), (1, 0), (1,), (1,) * 6)
    ]
    assert found == [0, 1, 2, 3, 4]


@given(st.lists(st.floats(0, 1), max_size=12))
def test_a_cell_tells_what_mastery_tells(scores: list[float]) -> None:
    mastery = trace(attempts("x", *scores), skills=["x"])["x"]
    cell = heat_cell(mastery)
    assert (cell.level == 0) == (cell.p_known is None) == (not scores)
    assert cell.attempts == len(scores)
    assert (cell.level == 4) == (mastery.level == "mastered")


def test_the_map_has_every_pupil_and_every_skill() -> None:
    an, binh = pupil("an"), pupil("binh")
    known = {"l-an": trace(attempts("Bài 10", 1, 1, 1)), "l-binh": trace([*attempts("Bài 2", 0, 0, 0)])}
    found = heat_map([an, binh], known, ["Bài 3"])
    assert found.skills == ("Bài 2", "Bài 3", "Bài 10")
    assert [[cell.level for cell in row.cells] for row in found.rows] == [[0, 0, 4], [1, 0, 0]]
    assert found.weak == (1, 0, 0)
    assert [row.mastered for row in found.rows] == [1, 0]
    needy = heat_map([an, binh], known, ["Bài 3"], "need")
    assert [row.student for row in needy.rows] == [binh, an]
    # Weakest first; what nobody tried comes last.
    assert needy.skills == ("Bài 2", "Bài 10", "Bài 3")


def test_an_empty_class_is_an_empty_map() -> None:
    found = heat_map([], {}, ["Bài 1"])
    assert (found.rows, found.weak) == ((), (0,))


# --- Study ------------------------------------------------------------------------------------------------------------


def turn(minutes: float, lasts_s: float | None = 30) -> Stretch:
    start = NOON + timedelta(minutes=minutes)
    return Stretch("l", start, None if lasts_s is None else start + timedelta(seconds=lasts_s))


def test_pauses_count_and_long_ones_do_not() -> None:
    # 12:00 to 12:05 and a minute and a half, then again from 13:00.
    assert study_minutes([turn(5), turn(0), turn(60)]) == {local_day(NOON): pytest.approx(6.5 + 1.5)}
    assert study_minutes([]) == {}
    # A turn that never ended is a minute; one that hung does not count for hours.
    assert sum(study_minutes([turn(0, None)]).values()) == 1
    assert sum(study_minutes([turn(0, 9000)]).values()) == 10


def test_a_quiz_counts_from_beginning_to_handing_in() -> None:
    quiz = Stretch("l", NOON, NOON + timedelta(minutes=15), is_quiz=True)
    forgotten = Stretch("l", NOON + timedelta(days=1), NOON + timedelta(days=9), is_quiz=True)
    assert list(study_minutes([quiz, forgotten]).values()) == [15, 120]


@given(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 600)), max_size=20))
def test_minutes_do_not_depend_on_order_and_never_exceed_the_clock(found: list[tuple[int, int]]) -> None:
    stretches = [turn(begin, lasts) for begin, lasts in found]
    minutes = study_minutes(stretches)
    assert minutes == study_minutes(reversed(stretches))
    if stretches:
        first, last = min(s.span[0] for s in stretches), max(s.span[1] for s in stretches)
        assert 0 < sum(minutes.values()) <= (last - first).total_seconds() / 60 + 1e-9
    assert sum(minutes.values()) <= len(stretches) * (10 + PAUSE.total_seconds() / 60)


def test_activity_has_quiet_days_too() -> None:
    quiz = Stretch("m", NOON, None, is_quiz=True)
    days = activity([turn(0), turn(1), quiz, turn(-3 * 1440)], local_day(NOON), 3)
    assert [(day.pupils, day.questions, day.quizzes) for day in days] == [(0, 0, 0), (0, 0, 0), (2, 2, 1)]
    assert days[-1].day - days[0].day == timedelta(days=2)


@given(st.datetimes(datetime(2024, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC)))
def test_a_week_begins_on_monday(at: datetime) -> None:
    start = week_start(at).astimezone()
    assert start.weekday() == start.hour == start.minute == 0
    assert timedelta(0) <= at - start < timedelta(days=7, hours=1)


# --- Quizzes ----------------------------------------------------------------------------------------------------------


def test_what_was_missed_most_comes_first() -> None:
    def of(item: str, *scores: float) -> list[MarkedAnswer]:
        return [MarkedAnswer(f"l{n}", item, item[:1], score) for n, score in enumerate(scores)]

    answers = [*of("a1", 0, 0.5, 1), *of("b1", 0, 0, 0), *of("c1", 1, 1, 1), *of("d1", 0, 0)]
    found = most_missed(answers, "item")
    assert [(each.key, each.mean, each.pupils) for each in found] == [("b1", 0, 3), ("a1", 0.5, 3)]
    assert [each.key for each in most_missed([*answers, *of("d2", 0)], "skill")] == ["b", "d", "a"]
    assert most_missed([MarkedAnswer("l", "i", "", 0)] * 3, "skill") == []


@pytest.mark.parametrize(("closes", "shown"), [(None, True), (-1, True), (0, False), (1, False)])
def test_results_are_released_when_the_time_is_over(closes: int | None, shown: bool) -> None:
    end = None if closes is None else NOON + timedelta(minutes=closes)
    assignment = Assignment(1, 1, 1, "Bài", NOON - timedelta(hours=1), end, is_exam=False, shows_keys=True)
    assert is_released(assignment, NOON) is shown


# --- Questions --------------------------------------------------------------------------------------------------------


def groups(*asked: tuple[str, str]) -> list[tuple[int, int]]:
    return [(each.times, each.pupils) for each in group_alike(AskedQuestion(*each) for each in asked)]


def test_a_question_is_the_same_however_it_is_typed() -> None:
    decomposed = unicodedata.normalize("NFD", "Nước tinh khiết sôi ở bao nhiêu độ?")
    asked = [
        ("a", "Nước tinh khiết sôi ở bao nhiêu độ C?"),
        ("b", "nuoc tinh khiet soi o bao nhieu do"),
        ("c", "NƯỚC TINH KHIẾT SÔI Ở MẤY ĐỘ VẬY Ạ"),
        ("e", decomposed),
        ("d", "Lá cây có màu xanh vì sao?"),
    ]
    (found,) = group_alike(AskedQuestion(*each) for each in asked)
    assert (found.times, found.pupils) == (4, 4)
    # The example is one with accents.
    assert not found.example.isascii()


def test_what_one_pupil_asks_stays_that_pupils() -> None:
    assert groups(("a", "Vì sao lá cây màu xanh?"), ("a", "Vì sao lá cây màu xanh?")) == []


def test_other_numbers_are_another_exercise() -> None:
    asked = [("a", "Đổi 25 độ C ra độ F"), ("b", "Đổi 25 độ C ra độ F"), ("c", "Đổi 40 độ C ra độ F")]
    assert groups(*asked) == [(2, 2)]


def test_pleas_ask_nothing_of_a_lesson() -> None:
    assert groups(("a", "em chưa hiểu"), ("b", "em chưa hiểu"), ("a", "?"), ("b", "?")) == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=30)), max_size=12))
def test_groups_are_of_two_pupils_at_least(asked: list[tuple[str, str]]) -> None:
    for times, pupils in groups(*asked):
        assert 2 <= pupils <= times


def test_days_are_those_of_the_clock() -> None:
    assert isinstance(local_day(NOON), date)
    assert local_day(NOON) == NOON.astimezone().date()
