"""A pupil's progress: where it comes from, why, what is due, and practice that gives no open quiz away."""

import asyncio
import re
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from schoolroom import School

from deepedu.server import progress_routes
from deepedu.server.progress_routes import Practices, skill_views, today_of
from deepedu.store import Database
from deepedu.store.tables import QuizAssignment, SchoolClass, StoredAttempt, now
from deepedu.tutor.assignments import assign
from deepedu.tutor.classwork import begin, hand_in, keep_attempt
from deepedu.tutor.mastery import Attempt, Level
from deepedu.tutor.practice import Pool, choose_items, lessons_of, pool_of, practice_items
from deepedu.tutor.quiz import Choice, Item, Placed, Short
from deepedu.tutor.quiz_shelf import QuizHead, put_quiz

LESSON = "Bài 2. Đo nhiệt độ"
ITEMS: tuple[Item, ...] = tuple(
    Short(stem=f"{n} + 1 = ?", key=str(n + 1), skill=LESSON, explanation=f"Vì {n} và 1 là {n + 1}.") for n in range(3)
)


def give(school: School, items: Sequence[Item] = ITEMS, **more: bool) -> int:
    with school.database.write() as session:
        author_id = school.people["lan"].id
        quiz_id = put_quiz(session, author_id, QuizHead(title="Đề mẫu"), items)
        return assign(
            session,
            quiz_id,
            school.classes["6A"],
            author_id=author_id,
            opens_at=now() - timedelta(days=2),
            closes_at=now() + timedelta(hours=1),
            **more,
        )


def close(database: Database, assignment_id: int) -> None:
    with database.write() as session:
        over = sa.update(QuizAssignment).where(QuizAssignment.id == assignment_id)
        session.execute(over.values(closes_at=now() - timedelta(hours=1)))


def attempted(school: School, *, skill: str = LESSON, days_ago: int = 40, right: bool = False) -> None:
    """One answer to a skill, long enough ago to be due again."""
    database, owner = school.database, school.people["an"].owner
    item = Short(stem=f"Câu hỏi về {skill}?", key="1", skill=skill)
    keep_attempt(database, owner, Placed(item, ()), "1" if right else "2", None)
    with database.write() as session:
        newest = session.scalars(sa.select(StoredAttempt).order_by(StoredAttempt.id.desc()).limit(1)).one()
        newest.at = now() - timedelta(days=days_ago)


def pool(school: School, username: str = "an") -> Pool:
    return pool_of(school.database, [school.classes["6A"]], school.people[username].owner, now())


# --- The page --------------------------------------------------------------------------------------------------------


def test_without_attempts_there_is_nothing_to_tell(client: TestClient, school: School) -> None:
    school.sign_in(client, "an")
    assert "Chưa có gì để tính" in client.get("/progress").text
    assert "Chưa có câu hỏi nào để ôn" in client.get(client.post("/progress/practice").headers["location"]).text


def test_progress_is_told_in_words_and_with_its_reasons(client: TestClient, school: School) -> None:
    for number, right in enumerate((True, False, False)):
        attempted(school, right=right, days_ago=40 - number)
    attempted(school, skill="Bài 10. Khác", right=True, days_ago=0)
    attempted(school, skill="Bài 9. Nữa", right=True, days_ago=0)
    school.sign_in(client, "an")
    page = client.get("/progress").text
    assert re.search(rf"Hôm nay nên ôn.*<li>{LESSON}</li>", page, re.DOTALL)
    assert "Đang học" in page
    assert re.search(rf'<meter [^>]*aria-label="Mức vững của {LESSON}">\d+ %</meter>', page)
    assert re.search(r"trả lời đúng, từ 74 % thành 9\d %", page)
    assert "trả lời chưa đúng" in page
    assert page.index("Bài 9. Nữa</h3>") < page.index("Bài 10. Khác</h3>")
    school.sign_in(client, "binh")
    assert LESSON not in client.get("/progress").text


def test_views_of_skills_begin_with_what_is_due() -> None:
    start = datetime(2026, 9, 7, tzinfo=UTC)
    attempts = [
        Attempt("Bài 2", 1.0, start, "1"),
        Attempt("Bài 10", 1.0, start, "2"),
        Attempt("Bài 1", 0.0, start, "3"),
    ]
    views = skill_views(attempts, start + timedelta(days=1, hours=1))
    assert [(view.skill, view.is_due) for view in views] == [("Bài 1", True), ("Bài 2", False), ("Bài 10", False)]
    assert views[0].level is Level.LEARNING
    assert len(views[0].why.steps) == 1


def test_the_day_holds_open_quizzes_and_what_is_due(client: TestClient, school: School) -> None:
    given = give(school)
    attempted(school)
    services = client.app.state.services  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess]
    today = today_of(services, school.people["an"])
    assert today["due"] == [LESSON]
    assert [each.id for each in today["open"]] == [given]
    assert today_of(services, school.people["lan"]) == {"due": [], "open": []}
    assert today_of(services, school.people["chi"]) == {"due": [], "open": []}


# --- What comes up for practice --------------------------------------------------------------------------------------


def test_only_quizzes_with_keys_to_be_seen_come_up(school: School) -> None:
    database, owner, classes = school.database, school.people["an"].owner, [school.classes["6A"]]
    given = give(school)
    assert pool(school) == Pool({}, frozenset(item.id for item in ITEMS))
    begin(database, classes, given, owner)
    assert not pool(school).by_skill
    hand_in(database, classes, given, owner, {})
    assert len(pool(school).by_skill[LESSON]) == 3
    # What one pupil has seen stays closed to another.
    assert not pool(school, "binh").by_skill
    close(database, given)
    assert len(pool(school, "binh").by_skill[LESSON]) == 3


@pytest.mark.parametrize("more", [{"is_exam": True}, {"shows_keys": False}, {}])
def test_an_item_that_is_open_elsewhere_never_comes_up(school: School, more: dict[str, bool]) -> None:
    close(school.database, give(school))
    assert len(pool(school).by_skill[LESSON]) == 3
    give(school, ITEMS[:2], **more)
    assert [item for item, _ in pool(school).by_skill[LESSON]] == [ITEMS[2]]


def test_what_was_answered_worst_comes_first(school: School) -> None:
    close(school.database, give(school))
    scores = {ITEMS[0].id: 1.0, ITEMS[1].id: 0.0}
    chosen = asyncio.run(choose_items(pool(school), {}, scores, [LESSON], digests={}, seed=1, count=2))
    assert [item for item, _ in chosen] == [ITEMS[2], ITEMS[1]]


def test_skills_take_turns(school: School) -> None:
    other = tuple(Short(stem=f"{n} × 2 = ?", key=str(n * 2), skill="Bài khác") for n in range(3))
    close(school.database, give(school, (*ITEMS, *other)))
    chosen = asyncio.run(
        choose_items(pool(school), {}, {}, [LESSON, "Bài khác", "Bài lạ"], digests={}, seed=1, count=4)
    )
    assert [item.skill for item, _ in chosen] == [LESSON, "Bài khác"] * 2


def test_the_lesson_gives_more_where_the_quizzes_have_too_few(school: School) -> None:
    close(school.database, give(school, ITEMS[:1]))
    owner = school.people["an"].owner
    chosen = asyncio.run(practice_items(school.database, [school.classes["6A"]], owner, [LESSON], now()))
    assert len(chosen) == 5
    assert chosen[0][0] == ITEMS[0]
    assert all(item.evidence and item.skill == LESSON for item, _ in chosen[1:])
    made = [item for item, _ in chosen[1:]]
    # What the teacher has just put into an exam is not asked, though code would make it.
    give(school, made, is_exam=True)
    again = asyncio.run(practice_items(school.database, [school.classes["6A"]], owner, [LESSON], now()))
    assert not {item.id for item, _ in again} & {item.id for item in made}


def test_skills_that_are_no_lessons_have_none(school: School) -> None:
    assert set(lessons_of(school.database, [LESSON, "Bài lạ"])) == {LESSON}


# --- Practising ------------------------------------------------------------------------------------------------------


def test_a_pupil_practises(client: TestClient, school: School) -> None:
    close(school.database, give(school))
    attempted(school)
    school.sign_in(client, "an")
    address = client.post("/progress/practice").headers["location"]
    right = 0
    for number in range(1, 6):
        page = client.get(address).text
        assert f"Câu {number}." in page
        assert "Đã làm" in page
        form = page[page.index('id="next"') :]
        item_id = re.findall(r'name="item" value="(\w+)"', form)[0]
        assert "explanation" not in form
        blank = client.post(address, data={"item": item_id})
        assert blank.status_code == 400
        assert "Em chưa trả lời" in blank.text
        fields = {"item": item_id, f"q-{item_id}": "A" if 'type="radio"' in form else "1"}
        if "-a" in form and 'data-letter="a"' in form:
            fields = {"item": item_id, **{f"q-{item_id}-{letter}": "Đ" for letter in "abcd"}}
        done = client.post(address, data=fields)
        assert done.headers["location"] == f"{address}#item-{number}"
        assert client.post(address, data=fields).status_code == 303
        marked = client.get(address).text
        card = re.search(rf'id="item-{number}".*?</article>', marked, re.DOTALL)
        assert card is not None
        assert "Đáp án:" in card[0]
        right += "✓ đúng<" in card[0]
    assert f"đúng {right}." in client.get(address).text
    assert "Xong lượt ôn này" in client.get(address).text
    with school.database.read() as session:
        kept = session.scalars(sa.select(StoredAttempt.submission_id)).all()
    # The one before, and each of the five once.
    assert list(kept) == [None] * 6


def test_clicking_twice_at_once_marks_once(client: TestClient, school: School) -> None:
    close(school.database, give(school))
    school.sign_in(client, "an")
    address = client.post("/progress/practice", data={"skill": LESSON}).headers["location"]
    item_id = re.findall(r'name="item" value="(\w+)"', client.get(address).text)[0]
    fields = {"item": item_id, f"q-{item_id}": "A", f"q-{item_id}-a": "Đ"}
    threads = [threading.Thread(target=client.post, args=(address,), kwargs={"data": fields}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with school.database.read() as session:
        assert len(session.scalars(sa.select(StoredAttempt.id)).all()) == 1


def test_a_practice_is_the_pupils_own(client: TestClient, school: School) -> None:
    close(school.database, give(school))
    school.sign_in(client, "an")
    first = client.post("/progress/practice", data={"skill": LESSON}).headers["location"]
    assert client.post(first, data={"item": "0" * 16}).status_code == 404
    school.sign_in(client, "binh")
    assert client.get(first).status_code == 404
    assert client.post(first, data={"item": ITEMS[0].id, f"q-{ITEMS[0].id}": "1"}).status_code == 404
    school.sign_in(client, "an")
    second = client.post("/progress/practice", data={"skill": LESSON}).headers["location"]
    assert client.get(first).status_code == 404
    assert client.get(second).status_code == 200
    school.sign_in(client, "lan")
    assert client.get(second).status_code == 403


def test_in_an_exam_there_is_no_practice(client: TestClient, school: School) -> None:
    close(school.database, give(school))
    school.sign_in(client, "an")
    address = client.post("/progress/practice", data={"skill": LESSON}).headers["location"]
    item_id = re.findall(r'name="item" value="(\w+)"', client.get(address).text)[0]
    with school.database.write() as session:
        session.execute(sa.update(SchoolClass).values(policy="exam_off"))
    for answer in (
        client.get(address),
        client.post(address, data={"item": item_id, f"q-{item_id}": "A"}),
        client.post("/progress/practice", data={"skill": LESSON}),
    ):
        assert answer.status_code == 403
        assert "phần ôn tập tạm đóng" in answer.text


def test_practice_is_not_begun_too_often(client: TestClient, school: School) -> None:
    school.sign_in(client, "an")
    statuses = [client.post("/progress/practice", data={"skill": "Bài lạ"}).status_code for _ in range(7)]
    assert statuses == [303] * 6 + [429]


def test_old_practices_are_forgotten(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    practices = Practices()
    placed = (Placed(Choice(stem="?", options=("a", "b", "c", "d"), key=0), (0, 1, 2, 3)),)
    old = practices.put(progress_routes.Practice(school.people["an"].owner, placed, {}))
    monkeypatch.setattr(progress_routes, "KEPT_S", -1.0)
    practices.put(progress_routes.Practice(school.people["binh"].owner, placed, {}))
    with pytest.raises(progress_routes.NotFound):
        practices.get(school.people["an"], old)
