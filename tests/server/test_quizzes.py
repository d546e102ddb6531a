"""Quizzes on the pages: made, given, taken, handed in, looked at; and whom each of them is closed to."""

import asyncio
import csv
import html
import io
import json
import re
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import openpyxl
import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from schoolroom import School

from deepedu.llm.chat import Delta, Finished
from deepedu.llm.scripted import ScriptedModel
from deepedu.school.audit import entries
from deepedu.server import quiz_drafting_routes
from deepedu.server.access import rules_of
from deepedu.server.quiz_export import as_csv, as_xlsx
from deepedu.server.quiz_taking_routes import keep_closing
from deepedu.server.quiz_view import number, result_line
from deepedu.store.tables import Consent, QuizAssignment, StoredAttempt, StoredQuiz, Submission, now
from deepedu.tutor.assignments import assign
from deepedu.tutor.quiz import Choice, Claim, Item, Placed, QuizEvidence, Short, TrueFalse, arranged
from deepedu.tutor.quiz_shelf import QuizHead, put_quiz, shelf_of, shelved_quiz

SECRET = "Bí mật của thầy cô"
PROOF = QuizEvidence(book="ab" * 32, page=12, quote=f"{SECRET} trong sách.")
CITY = Choice(
    stem="Thủ đô của nước ta?",
    options=("Huế", "Hà Nội", "Đà Nẵng", "Vinh"),
    key=1,
    skill="Bài 1",
    explanation=f"{SECRET} giải thích",
    evidence=PROOF,
)
CLAIMS = TrueFalse(
    stem="Xét các phát biểu về $x^2$:",
    statements=tuple(Claim(text=f"phát biểu {n}", truth=n in (1, 4), evidence=PROOF) for n in (1, 2, 3, 4)),
    skill="Bài 2",
)
LENGTH = Short(stem="Sợi dây dài bao nhiêu?", key="97531", unit="cm", explanation=SECRET)
ITEMS: tuple[Item, ...] = (CITY, CLAIMS, LENGTH)


def put(school: School, username: str = "lan", items: tuple[Item, ...] = ITEMS) -> int:
    with school.database.write() as session:
        return put_quiz(session, school.people[username].id, QuizHead(title="Đề mẫu", subject="Toán"), items)


def give(school: School, quiz_id: int | None = None, class_name: str = "6A", username: str = "lan", **more: Any) -> int:
    quiz_id = put(school, username) if quiz_id is None else quiz_id
    given = {"opens_at": now() - timedelta(hours=1), "closes_at": now() + timedelta(hours=1), **more}
    with school.database.write() as session:
        author_id = school.people[username].id
        return assign(session, quiz_id, school.classes[class_name], author_id=author_id, **given)


def end(school: School, assignment_id: int) -> None:
    """Lets the time of an assignment be over."""
    with school.database.write() as session:
        over = sa.update(QuizAssignment).where(QuizAssignment.id == assignment_id)
        session.execute(over.values(opens_at=now() - timedelta(hours=2), closes_at=now() - timedelta(hours=1)))


def right_answers(school: School, assignment_id: int, username: str = "an") -> dict[str, Any]:
    """The right answers as this pupil would tick them; the work is begun."""
    with school.database.read() as session:
        seed = session.scalars(
            sa.select(Submission.seed).where(
                Submission.assignment_id == assignment_id, Submission.learner_id == school.people[username].owner
            )
        ).one()
        quiz_id = session.get_one(QuizAssignment, assignment_id).quiz_id
        author_id = session.get_one(StoredQuiz, quiz_id).author_id
    assert author_id is not None
    quiz = shelved_quiz(school.database, author_id, quiz_id).quiz()
    answers: dict[str, Any] = {}
    for placed in arranged(quiz, seed):
        match placed.turned:
            case Choice(key=key):
                answers[placed.item.id] = "ABCD"[key]
            case TrueFalse(statements=claims):
                told = ("Đ" if claim.truth else "S" for claim in claims)
                answers[placed.item.id] = dict(zip("abcd", told, strict=True))
            case Short(key=key):
                answers[placed.item.id] = key
    return answers


def as_fields(answers: dict[str, Any]) -> dict[str, str]:
    """Answers as the page's form sends them."""
    fields: dict[str, str] = {}
    for item_id, answer in answers.items():
        parts = {"": answer} if isinstance(answer, str) else {f"-{letter}": truth for letter, truth in answer.items()}
        fields |= {f"q-{item_id}{ending}": value for ending, value in parts.items()}
    return fields


def attempts(school: School) -> int:
    with school.database.read() as session:
        return session.scalar(sa.select(sa.func.count()).select_from(StoredAttempt)) or 0


def take(client: TestClient, school: School, assignment_id: int, username: str = "an") -> None:
    """Begins, answers everything rightly and hands in."""
    school.sign_in(client, username)
    assert client.post(f"/quizzes/{assignment_id}/begin").status_code == 303
    fields = as_fields(right_answers(school, assignment_id, username))
    client.post(f"/quizzes/{assignment_id}/save", data=fields)
    assert client.post(f"/quizzes/{assignment_id}/hand-in").status_code == 303


# --- A pupil ---------------------------------------------------------------------------------------------------------


def test_a_pupil_takes_a_quiz_without_scripts(client: TestClient, school: School) -> None:
    given = give(school)
    school.sign_in(client, "an")
    assert "Vào làm" in client.get("/quizzes").text
    assert "Bắt đầu làm" in client.get(f"/quizzes/{given}").text
    assert client.post(f"/quizzes/{given}/begin").headers["location"] == f"/quizzes/{given}"
    page = client.get(f"/quizzes/{given}").text
    assert "Câu 3." in page
    assert "<math" in page
    answers = right_answers(school, given)
    answers[CLAIMS.id].pop("a")
    kept = client.post(f"/quizzes/{given}/save", data={**as_fields(answers), "save": "1"})
    assert kept.headers["location"] == f"/quizzes/{given}"
    page = client.get(f"/quizzes/{given}").text
    assert "Đã lưu bài làm" in page
    assert 'value="97531"' in page
    assert len(re.findall(r"checked", page)) == 4
    asked = client.post(f"/quizzes/{given}/save", data={**as_fields(answers), "hand_in": "1"})
    assert asked.headers["location"] == f"/quizzes/{given}/hand-in"
    confirm = client.get(f"/quizzes/{given}/hand-in").text
    assert re.search(r"Chưa trả lời hết:\s*<a[^>]*>câu 2</a>\.", confirm)
    assert attempts(school) == 0
    assert client.post(f"/quizzes/{given}/hand-in").headers["location"] == f"/quizzes/{given}"
    result = client.get(f"/quizzes/{given}").text
    assert "1,25 trên 1,75 điểm" in result
    assert "Thang 10: 7,14" in result
    assert f"{SECRET} giải thích" in result
    assert f"<mark>{PROOF.quote}</mark>" in result
    assert "Hà Nội" in result
    assert "Đã nộp" in client.get("/quizzes").text
    assert attempts(school) == 3


def test_a_second_hand_in_finds_the_first(client: TestClient, school: School) -> None:
    given = give(school)
    take(client, school, given)
    for path in ("hand-in", "save"):
        client.post(f"/quizzes/{given}/{path}", data={f"q-{CITY.id}": "A"})
        assert "Lần nộp đầu tiên được tính" in client.get(f"/quizzes/{given}").text
    assert client.get(f"/quizzes/{given}/hand-in").status_code == 303
    assert attempts(school) == 3


def test_clicks_at_the_same_moment_give_one_result(client: TestClient, school: School) -> None:
    given = give(school)
    school.sign_in(client, "an")
    client.post(f"/quizzes/{given}/begin")
    statuses: list[int] = []

    def click() -> None:
        statuses.append(client.post(f"/api/quizzes/{given}/hand-in", json={"given": {}}).status_code)

    threads = [threading.Thread(target=click) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 409, 409, 409]
    assert attempts(school) == 3


def test_what_cannot_be_read_is_told_at_the_item(client: TestClient, school: School) -> None:
    given = give(school)
    school.sign_in(client, "an")
    client.post(f"/quizzes/{given}/begin")
    client.post(f"/quizzes/{given}/save", data={f"q-{LENGTH.id}": "dài lắm"})
    page = client.get(f"/quizzes/{given}").text
    assert re.search(rf'id="q-{LENGTH.id}-error" class="problem" role="alert">cần một số', page)
    assert 'value="dài lắm"' in page
    for answer in (client.get(f"/quizzes/{given}/hand-in"), client.post(f"/quizzes/{given}/hand-in")):
        assert re.search(r"Câu 3</a>: cần một số", answer.text)
        assert 'action="/quizzes' not in answer.text
    told = client.post(f"/api/quizzes/{given}/hand-in", json={"given": {CITY.id: "Z"}})
    assert told.status_code == 400
    assert set(told.json()["error"]["details"]) == {CITY.id, LENGTH.id}
    assert attempts(school) == 0


def test_a_script_keeps_and_hands_in(client: TestClient, school: School) -> None:
    given = give(school)
    school.sign_in(client, "an")
    client.headers["Accept"] = "application/json"
    assert client.put(f"/api/quizzes/{given}/given", json={"given": {}}).status_code == 404
    work = client.post(f"/api/quizzes/{given}/begin").json()
    assert work["title"] == "Đề mẫu"
    assert len(work["items"]) == 3
    answers = right_answers(school, given)
    for item_id, answer in answers.items():
        kept = client.put(f"/api/quizzes/{given}/given", json={"given": {item_id: answer}}).json()
        assert kept["kept"] == [item_id]
        assert 3500 < kept["seconds_left"] <= 3600
    # What was acknowledged is there for whoever comes after a crash.
    assert client.post(f"/api/quizzes/{given}/begin").json()["given"] == answers
    assert client.put(f"/api/quizzes/{given}/given", json={"given": {CITY.id: "x" * 3000}}).status_code == 400
    assert client.put(f"/api/quizzes/{given}/given", json={"answers": {}}).status_code == 400
    done = client.post(f"/api/quizzes/{given}/hand-in", json={"given": {}}).json()
    assert (done["points"], done["max_points"]) == ("1,75", "1,75")
    again = client.put(f"/api/quizzes/{given}/given", json={"given": {CITY.id: "A"}})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "handed_in")
    listed = client.get("/api/quizzes").json()["quizzes"]
    assert [(each["id"], each["state"]) for each in listed] == [(given, "done")]


def test_the_list_tells_what_is_open_coming_and_missed(client: TestClient, school: School) -> None:
    give(school, opens_at=now() + timedelta(hours=1), closes_at=None)
    missed = give(school)
    end(school, missed)
    school.sign_in(client, "an")
    page = client.get("/quizzes").text
    assert "Hiện không có bài nào cần làm" in page
    assert re.search(r"Sắp mở.*Đã lỡ", page, re.DOTALL)
    assert "Bài đã đóng và em chưa làm" in client.get(f"/quizzes/{missed}").text
    late = client.post(f"/quizzes/{missed}/begin")
    assert late.status_code == 403
    assert "đã hết giờ" in late.text
    coming = client.get(f"/quizzes/{missed - 1}").text
    assert "Bài chưa mở" in coming


def test_overdue_work_is_closed_when_somebody_looks(client: TestClient, school: School) -> None:
    given = give(school)
    school.sign_in(client, "an")
    client.post(f"/quizzes/{given}/begin")
    client.put(f"/api/quizzes/{given}/given", json={"given": {LENGTH.id: "97531"}})
    end(school, given)
    assert client.put(f"/api/quizzes/{given}/given", json={"given": {}}).json()["error"]["code"] == "time_over"
    for path in ("save", "hand-in"):
        assert client.post(f"/quizzes/{given}/{path}").headers["location"] == f"/quizzes/{given}"
    assert "0,5 trên 1,75 điểm" in client.get(f"/quizzes/{given}").text
    assert attempts(school) == 3


def test_overdue_work_is_closed_by_itself(client: TestClient, school: School) -> None:
    given = give(school)
    school.sign_in(client, "an")
    client.post(f"/quizzes/{given}/begin")
    end(school, given)
    assert client.portal is not None
    future = client.portal.start_task_soon(keep_closing, school.database, 0.05)
    deadline = time.monotonic() + 10
    while attempts(school) == 0:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    future.cancel()
    assert attempts(school) == 3


def test_without_consent_nothing_is_taken(client: TestClient, school: School) -> None:
    given = give(school)
    with school.database.write() as session:
        session.execute(sa.delete(Consent))
    school.sign_in(client, "an")
    for address in ("/quizzes", f"/quizzes/{given}", "/progress"):
        assert "Còn thiếu một bước nữa" in client.get(address).text
    assert client.post(f"/quizzes/{given}/begin").status_code == 403
    assert client.put(f"/api/quizzes/{given}/given", json={"given": {}}).status_code == 403
    assert client.post("/progress/practice").status_code == 403


# --- What pupils must not see ----------------------------------------------------------------------------------------


def bodies(client: TestClient, given: int) -> Iterator[str]:
    """Every answer that a pupil can get about an assignment."""
    for address in (
        *("/quizzes", f"/quizzes/{given}", f"/quizzes/{given}/hand-in", "/progress", "/learn"),
        *("/api/quizzes", f"/teach/quizzes/assignments/{given}", "/teach/quizzes", "/teach/quizzes/1"),
        *("/teach/quizzes/1/export.json", f"/teach/quizzes/assignments/{given}/results.csv"),
    ):
        yield client.get(address).text
    yield client.post(f"/api/quizzes/{given}/begin").text
    yield client.put(f"/api/quizzes/{given}/given", json={"given": {LENGTH.id: "1"}}).text
    yield client.post(f"/api/quizzes/{given}/hand-in", json={"given": {CITY.id: "Z"}}).text
    yield client.post(f"/quizzes/{given}/save", data={f"q-{LENGTH.id}": "2"}).text
    yield client.get(f"/quizzes/{given}").text


def betrays(body: str) -> bool:
    """Whether a body holds a key: the secret words, the short key, or the name of a field of keys."""
    return SECRET in body or "97531" in body or re.search(r'"(key|truth|explanation|evidence|skill)"', body) is not None


@pytest.mark.parametrize("more", [{}, {"is_exam": True}, {"shows_keys": False}])
def test_no_key_reaches_a_pupil_before_handing_in(client: TestClient, school: School, more: dict[str, Any]) -> None:
    given = give(school, **more)
    school.sign_in(client, "an")
    client.post(f"/quizzes/{given}/begin")
    for body in bodies(client, given):
        assert not betrays(body), body


def test_an_exam_tells_nothing_until_it_is_closed_for_all(client: TestClient, school: School) -> None:
    given = give(school, is_exam=True)
    take(client, school, given)
    handed_in = client.post(f"/api/quizzes/{given}/hand-in", json={"given": {}}).text
    page = client.get(f"/quizzes/{given}").text
    assert "Điểm hiện sau khi bài đóng cho cả lớp" in page
    assert "Em đã trả lời 3 trên 3 câu" in page
    assert "Từng câu" not in page
    for body in (page, handed_in, client.get("/progress").text, client.get("/quizzes").text):
        assert not betrays(body)
        assert "1,75" not in body
    assert "Chưa có gì để tính" in client.get("/progress").text
    end(school, given)
    page = client.get(f"/quizzes/{given}").text
    assert SECRET in page
    assert "1,75 trên 1,75" in page
    assert "Bài 1" in client.get("/progress").text


def test_points_without_keys_where_the_teacher_keeps_them(client: TestClient, school: School) -> None:
    given = give(school, shows_keys=False)
    school.sign_in(client, "an")
    client.post(f"/quizzes/{given}/begin")
    client.post(f"/quizzes/{given}/save", data={f"q-{LENGTH.id}": "13"})
    client.post(f"/quizzes/{given}/hand-in")
    end(school, given)
    page = client.get(f"/quizzes/{given}").text
    assert "Thầy cô chưa cho xem đáp án" in page
    assert "0 trên 1,75 điểm" in page
    assert not betrays(page)
    assert "Đáp án:" not in page


def test_others_are_answered_like_nobody(client: TestClient, school: School) -> None:
    quiz_id = put(school)
    given = give(school, quiz_id)
    school.sign_in(client, "chi")
    for assignment_id in (given, 999):
        assert client.get(f"/quizzes/{assignment_id}").status_code == 404
        for path in ("begin", "save", "hand-in"):
            assert client.post(f"/quizzes/{assignment_id}/{path}").status_code == 404
        assert client.get(f"/quizzes/{assignment_id}/hand-in").status_code == 404
        assert client.post(f"/api/quizzes/{assignment_id}/begin").status_code == 404
        for method, path in (("PUT", "given"), ("POST", "hand-in")):
            answer = client.request(method, f"/api/quizzes/{assignment_id}/{path}", json={"given": {}})
            assert answer.status_code == 404
    assert client.get("/api/quizzes").json()["quizzes"] == []
    school.sign_in(client, "minh")
    rules = rules_of(client.app)  # pyright: ignore[reportArgumentType]
    checked = 0
    for method, path in rules:
        if path.startswith("/teach/quizzes/") and ("{quiz_id" in path or "{assignment_id" in path):
            address = re.sub(r"\{quiz_id[^}]*\}", str(quiz_id), path)
            address = re.sub(r"\{assignment_id[^}]*\}", str(given), address)
            address = address.replace("{item_id}", CITY.id).replace("{form}", "csv")
            form = {"title": "x", "where": "up", "classes": str(school.classes["6B"]), "kind": "choice"}
            answer = client.request(method, address, data=form if method == "POST" else None)
            assert answer.status_code == 404, (method, address, answer.status_code)
            checked += 1
    assert checked > 15
    assert len(shelved_quiz(school.database, school.people["lan"].id, quiz_id).items) == 3


def test_a_class_of_another_teacher_gets_nothing(client: TestClient, school: School) -> None:
    quiz_id = put(school)
    school.sign_in(client, "lan")
    form = {"classes": str(school.classes["6B"]), "closes_at": ""}
    assert client.post(f"/teach/quizzes/{quiz_id}/assign", data=form).status_code == 404


# --- A teacher makes a quiz ------------------------------------------------------------------------------------------


def test_a_quiz_is_written_item_by_item(client: TestClient, school: School) -> None:
    school.sign_in(client, "lan")
    assert "Chưa có đề nào" in client.get("/teach/quizzes").text
    assert "Chưa có tên đề" in client.post("/teach/quizzes/new", data={"title": " "}).text
    assert "từ 1 đến 12" in client.post("/teach/quizzes/new", data={"title": "x", "grade": "13"}).text
    made = client.post(
        "/teach/quizzes/new", data={"title": "15 phút", "subject": "Toán", "grade": "6", "kind": "short"}
    )
    address = made.headers["location"]
    assert address.endswith("/items/new?kind=short")
    page = client.get(address).text
    assert re.search(r'<option value="[^"]*Đo nhiệt độ">', page)
    sheet = address.partition("/items")[0]
    assert "Đề chưa có câu nào" in client.get(sheet).text
    short = {"kind": "short", "stem": "1 + 1?", "answer": "2", "skill": "Bài 2. Đo nhiệt độ"}
    assert client.post(f"{sheet}/items/new?and_next=1", data=short).headers["location"].endswith("items/new?kind=short")
    assert "Bài 2. Đo nhiệt độ" in client.get(f"{sheet}/items/new?kind=choice").text
    again = client.post(f"{sheet}/items/new", data=short)
    assert again.status_code == 400
    assert "đã có trong đề" in again.text
    options = {f"option{n}": text for n, text in enumerate(("3", "4", "5", "6"))}
    choice = {"kind": "choice", "stem": "2 + 2?", **options, "key": "1"}
    assert client.post(f"{sheet}/items/new", data=choice).status_code == 303
    claims = {f"statement{n}": f"{n} là số chẵn" for n in range(4)} | {
        f"truth{n}": "true" if n % 2 == 0 else "false" for n in range(4)
    }
    assert client.post(f"{sheet}/items/new", data={"kind": "true_false", "stem": "Xét", **claims}).status_code == 303
    quiz_id = int(sheet.rpartition("/")[2])
    shelved = shelved_quiz(school.database, school.people["lan"].id, quiz_id)
    assert [item.kind for item in shelved.items] == ["short", "choice", "true_false"]
    first = shelved.items[0].id
    client.post(f"{sheet}/items/{first}/move", data={"where": "down"})
    assert 'value="1 + 1?"' not in client.get(f"{sheet}/items/{first}").text
    assert "1 + 1?" in client.get(f"{sheet}/items/{first}").text
    client.post(f"{sheet}/items/{first}", data={**short, "answer": "hai"})
    client.post(f"{sheet}/items/{shelved.items[2].id}/remove")
    client.post(sheet, data={"title": "Tên khác", "grade": ""})
    assert client.post(sheet, data={"title": ""}).status_code == 400
    shelved = shelved_quiz(school.database, school.people["lan"].id, quiz_id)
    assert [item.kind for item in shelved.items] == ["choice", "short"]
    assert shelved.head == QuizHead(title="Tên khác")
    assert shelved.items[1].key == "hai"  # pyright: ignore[reportAttributeAccessIssue]
    assert client.get(f"{sheet}/items/{'0' * 16}").status_code == 404


OPTIONS = [f"option{place}" for place in range(4)]


@pytest.mark.parametrize(
    ("form", "field", "told"),
    [
        ({"kind": "choice", "key": "1"}, "stem", "không được để trống"),
        (
            {"kind": "choice", "stem": "?", "option0": "a", "option2": "c", "option3": "d", "key": "0"},
            "option1",
            "trống",
        ),
        (
            {"kind": "choice", "stem": "?", "option0": "a", "option1": "b", "option2": "c", "option3": "d"},
            "key",
            "chưa",
        ),
        ({"kind": "choice", "stem": "?", **dict.fromkeys(OPTIONS, "a"), "key": "0"}, "parts", "giống nhau"),
        ({"kind": "choice", "stem": "<b>?</b>", "key": "0"}, "stem", "mã HTML"),
        ({"kind": "true_false", "stem": "?", **{f"statement{n}": f"{n}" for n in range(4)}}, "truth2", "chưa chọn"),
        ({"kind": "true_false", "stem": "?", "statement0": "a"}, "statement3", "trống"),
        ({"kind": "short", "stem": "?"}, "answer", "trống"),
        ({"kind": "short", "stem": "?", "answer": "đỏ", "unit": "cm"}, "answer", "đáp số"),
        ({"kind": "short", "stem": "?", "answer": "1", "decimals": "x"}, "decimals", "cần số"),
    ],
)
def test_faults_of_an_item_are_told_beside_the_field(
    client: TestClient, school: School, form: dict[str, str], field: str, told: str
) -> None:
    sheet = f"/teach/quizzes/{put(school)}"
    school.sign_in(client, "lan")
    answer = client.post(f"{sheet}/items/new", data=form)
    assert answer.status_code == 400
    problem = re.search(rf'id="{field}-error" class="problem" role="alert">\s*(.*?)\s*</p>', answer.text, re.DOTALL)
    assert problem is not None, answer.text
    assert told in problem[1]
    assert form.get("stem", "") in html.unescape(answer.text)


def test_an_item_of_no_kind_is_refused(client: TestClient, school: School) -> None:
    school.sign_in(client, "lan")
    address = f"/teach/quizzes/{put(school)}/items/new"
    assert "ba loại câu" in client.post(address, data={"kind": "essay", "stem": "?"}).text


def test_what_was_given_out_is_copied_to_be_changed(client: TestClient, school: School) -> None:
    quiz_id = put(school)
    give(school, quiz_id)
    school.sign_in(client, "lan")
    sheet = f"/teach/quizzes/{quiz_id}"
    page = client.get(sheet).text
    assert "giữ nguyên như học sinh đã làm" in page
    assert "/remove" not in page
    for address in (f"{sheet}/items/new", f"{sheet}/items/{CITY.id}"):
        assert client.get(address).status_code == 400
    copy = client.post(f"{sheet}/copy").headers["location"]
    assert client.post(f"{copy}/items/{CITY.id}/remove").status_code == 303
    assert client.get(f"{copy}/export.json").json()["items"][0]["stem"] == CLAIMS.stem
    exported = client.get(f"{sheet}/export.csv")
    assert exported.content.decode("utf-8-sig").count("\n") >= 4


def test_deleting_says_what_goes_with_it(client: TestClient, school: School) -> None:
    quiz_id = put(school)
    given = give(school, quiz_id)
    take(client, school, given)
    school.sign_in(client, "lan")
    sheet = f"/teach/quizzes/{quiz_id}"
    assert "1 học sinh đã làm, 1 em đã nộp" in client.get(f"{sheet}/delete").text
    assert "ô xác nhận" in client.post(f"{sheet}/delete").text
    assert "đóng bài trước" in client.post(f"{sheet}/delete", data={"confirmed": "on"}).text
    client.post(f"/teach/quizzes/assignments/{given}/close")
    assert client.post(f"{sheet}/delete", data={"confirmed": "on"}).headers["location"] == "/teach/quizzes"
    assert attempts(school) == 0
    assert shelf_of(school.database, school.people["lan"].id) == []
    assert entries(school.database)[0].action == "quiz.delete"
    other = put(school)
    assert client.post(f"/teach/quizzes/{other}/delete").status_code == 303


# --- From files and lessons ------------------------------------------------------------------------------------------

BANK = (
    "loại,câu hỏi,A,B,C,D,đáp án\n"
    "trắc nghiệm,Nước sôi ở?,100 °C,50 °C,10 °C,0 °C,A\n"
    "trắc nghiệm,Câu hỏng,1,2,3,,A\n"
    "trả lời ngắn,2 + 3?,,,,,5\n"
)


def test_a_bank_is_looked_at_before_it_is_taken(client: TestClient, school: School) -> None:
    school.sign_in(client, "lan")
    assert "Chưa chọn tệp" in client.post("/teach/quizzes/import", files={"x": ("a", b"")}).text
    bad = client.post("/teach/quizzes/import", files={"file": ("anh.png", b"\x89PNG\r\n\x1a\n\x00")})
    assert bad.status_code == 400
    sent = client.post("/teach/quizzes/import", files={"file": ("de cuong.csv", BANK.encode())})
    draft = sent.headers["location"]
    page = client.get(draft).text
    assert re.search(r"dòng 3.*thiếu phương án D", page)
    assert 'value="de cuong"' in page
    assert "de cuong.csv" in client.get("/teach/quizzes").text
    ids = re.findall(r'name="keep" value="(\w+)" checked', page)
    assert len(ids) == 2
    assert "Chưa chọn câu nào" in client.post(draft, data={"title": "x"}).text
    assert "Chưa có tên đề" in client.post(draft, data={"keep": ids}).text
    assert "Đề này không còn" in client.post(draft, data={"keep": ids, "quiz": "999"}).text
    made = client.post(draft, data={"keep": ids[1:], "title": "Từ tệp"}).headers["location"]
    assert "2 + 3?" in client.get(made).text
    more = client.post(draft, data={"keep": ids, "quiz": made.rpartition("/")[2]})
    assert more.headers["location"] == made
    page = client.get(made).text
    assert "Đã thêm 1 câu vào đề. 1 câu đã có sẵn" in page
    school.sign_in(client, "minh")
    assert client.get(draft).status_code == 404
    assert client.post(f"{draft}/drop").status_code == 404
    school.sign_in(client, "lan")
    client.post(f"{draft}/drop")
    assert client.get(draft).status_code == 404


def test_a_long_bank_is_shown_page_by_page(client: TestClient, school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiz_drafting_routes, "PAGE_ITEMS", 2)
    rows = "".join(f"trả lời ngắn,{n} + 3?,,,,,{n + 3}\n" for n in range(5))
    school.sign_in(client, "lan")
    draft = client.post(
        "/teach/quizzes/import", files={"file": ("d.csv", (BANK.partition("\n")[0] + "\n" + rows).encode())}
    ).headers["location"]
    page = client.get(f"{draft}?page=3").text
    assert "Lấy câu 5" in page
    assert page.count('name="keep"') == 1
    assert "Lấy câu 1<" in client.get(f"{draft}?page=x").text
    assert "Lấy câu 5" in client.get(f"{draft}?page=99").text


def book_and_lesson(client: TestClient) -> tuple[str, str]:
    book = re.findall(r"/teach/quizzes/make\?book=(\d+)", client.get("/teach/quizzes/make").text)[0]
    page = client.get(f"/teach/quizzes/make?book={book}").text
    return book, re.findall(r'<option value="(\d+)">Bài 2\. Đo nhiệt độ', page)[0]


def settled(client: TestClient, draft: str) -> str:
    """The page of a draft once it is made."""
    deadline = time.monotonic() + 60
    while client.get(f"/api{draft}", headers={"Accept": "application/json"}).json()["status"] == "making":
        assert "Đang tạo câu hỏi" in client.get(draft).text or time.monotonic() < deadline
        assert time.monotonic() < deadline, "making items takes too long"
        time.sleep(0.05)
    return client.get(draft).text


@pytest.mark.parametrize("kind", ["choice", "true_false", "short"])
def test_items_are_made_from_a_lesson_by_code_alone(client: TestClient, school: School, kind: str) -> None:
    services = client.app.state.services  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess]
    services.tutor = None
    school.sign_in(client, "lan")
    book, lesson = book_and_lesson(client)
    assert "Mô hình chưa sẵn sàng" in client.get(f"/teach/quizzes/make?book={book}").text
    form = {"book": book, "lesson": lesson, "kind": kind, "count": "2", "uses_model": "on"}
    draft = client.post("/teach/quizzes/make", data=form).headers["location"]
    page = settled(client, draft)
    ids = re.findall(r'name="keep" value="(\w+)"', page)
    assert 1 <= len(ids) <= 2
    assert re.search(
        r"<blockquote>.*?<mark>[^<]+</mark>.*?</blockquote>\s*<figcaption[^>]*>[^<]+trang \d+", page, re.DOTALL
    )
    made = client.post(draft, data={"keep": ids, "title": "Từ bài"}).headers["location"]
    assert "Dẫn chứng trong sách" in client.get(made).text


def test_what_was_refused_is_listed_with_reasons(school: School) -> None:
    reply = json.dumps({"question": "Sao Hỏa có mấy vệ tinh?"})
    with TestClient(school.app(model=ScriptedModel(answer=lambda _: reply)), follow_redirects=False) as client:
        school.sign_in(client, "lan")
        book, lesson = book_and_lesson(client)
        form = {"book": book, "lesson": lesson, "kind": "choice", "count": "2", "uses_model": "on"}
        page = settled(client, client.post("/teach/quizzes/make", data=form).headers["location"])
        assert re.search(r"<details><summary>Câu bị loại.*Sao Hỏa.*câu do mô hình viết", page, re.DOTALL)


def test_making_can_be_cancelled(school: School) -> None:
    asked = threading.Event()

    class Slow:
        async def stream(self, messages: Any, **_: Any) -> AsyncGenerator[Delta | Finished, None]:
            asked.set()
            await asyncio.sleep(600)
            yield Delta(str(messages))

    with TestClient(school.app(model=Slow()), follow_redirects=False) as client:
        school.sign_in(client, "lan")
        book, lesson = book_and_lesson(client)
        form = {"book": book, "lesson": lesson, "kind": "choice", "count": "2", "uses_model": "on"}
        draft = client.post("/teach/quizzes/make", data=form).headers["location"]
        assert asked.wait(30)
        assert client.get(f"/api{draft}", headers={"Accept": "application/json"}).json()["asked"] == 1
        assert "hỏi mô hình" in client.get(draft).text
        # One at a time.
        assert client.post("/teach/quizzes/make", data=form).headers["location"] == draft
        assert client.post(f"{draft}/drop").status_code == 303
        assert client.get(draft).status_code == 404


@pytest.mark.parametrize(
    ("change", "told"),
    [({"count": "0"}, "từ 1 đến 20"), ({"lesson": ""}, "Chưa chọn bài"), ({"quiz": "99"}, "không còn")],
)
def test_a_wrong_order_is_told(client: TestClient, school: School, change: dict[str, str], told: str) -> None:
    school.sign_in(client, "lan")
    book, lesson = book_and_lesson(client)
    form = {"book": book, "lesson": lesson, "kind": "choice", "count": "2", **change}
    answer = client.post("/teach/quizzes/make", data=form)
    assert answer.status_code == 400
    assert told in answer.text


# --- Giving and results ----------------------------------------------------------------------------------------------


def local(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%dT%H:%M")


def test_a_quiz_is_given_to_classes(client: TestClient, school: School) -> None:
    quiz_id = put(school)
    school.sign_in(client, "lan")
    address = f"/teach/quizzes/{quiz_id}/assign"
    assert "6A" in client.get(address).text
    class_id = str(school.classes["6A"])
    soon = local(now() + timedelta(hours=2))
    for form, field in (
        ({"closes_at": soon}, "classes"),
        ({"classes": class_id, "is_exam": "on"}, "closes_at"),
        ({"classes": class_id, "closes_at": local(now() - timedelta(hours=2))}, "closes_at"),
        ({"classes": class_id, "opens_at": "hôm nay"}, "opens_at"),
    ):
        answer = client.post(address, data=form)
        assert answer.status_code == 400
        assert f'id="{field}-error"' in answer.text
    exam = {"classes": class_id, "closes_at": soon, "is_exam": "on", "shows_keys": "on"}
    assert client.post(address, data=exam).status_code == 303
    assert "đang có bài này" in client.post(address, data=exam).text
    assert entries(school.database)[0].action == "quiz.assign"
    assert re.search(r"Đang mở.*Kiểm tra", client.get("/teach/quizzes").text, re.DOTALL)
    school.sign_in(client, "an")
    assert "Đề mẫu" in client.get("/quizzes").text
    told = client.post("/chat", data={"question": "Nước sôi ở bao nhiêu độ?"})
    assert "gia sư tạm nghỉ" in client.get(told.headers["location"]).text
    assert client.post("/progress/practice", data={"skill": "Bài 1"}).status_code == 403


def test_times_are_changed(client: TestClient, school: School) -> None:
    given = give(school)
    address = f"/teach/quizzes/assignments/{given}"
    school.sign_in(client, "lan")
    later = now() + timedelta(hours=5)
    client.post(address, data={"closes_at": local(later)})
    with school.database.read() as session:
        row = session.get_one(QuizAssignment, given)
        assert row.closes_at == later.replace(second=0, microsecond=0)
        assert not row.shows_keys
    assert "phải sau giờ mở" in client.post(address, data={"closes_at": "2020-01-01T00:00"}).text
    assert "Cần ngày và giờ" in client.post(address, data={"closes_at": "mai"}).text
    assert client.post(f"{address}/withdraw").status_code == 303
    assert client.get(address).status_code == 404
    given = give(school)
    address = f"/teach/quizzes/assignments/{given}"
    take(client, school, given)
    school.sign_in(client, "lan")
    assert "đóng bài sớm" in client.post(f"{address}/withdraw").text
    client.post(f"{address}/close")
    assert "đã đóng" in client.post(address, data={"closes_at": local(later)}).text
    assert "đã đóng" in client.post(f"{address}/close").text
    kept = re.findall(r'name="closes_at" type="datetime-local" value="([^"]*)"', client.get(address).text)[0]
    assert client.post(address, data={"closes_at": kept, "shows_keys": "on"}).status_code == 303


def test_results_of_a_class(client: TestClient, school: School) -> None:
    given = give(school)
    address = f"/teach/quizzes/assignments/{given}"
    school.sign_in(client, "lan")
    assert "0 / 2" in client.get(address).text
    take(client, school, given)
    school.sign_in(client, "binh")
    client.post(f"/quizzes/{given}/begin")
    answers = right_answers(school, given, "binh")
    answers[CLAIMS.id]["a"] = "S" if answers[CLAIMS.id]["a"] == "Đ" else "Đ"
    answers[LENGTH.id] = "12"
    del answers[CITY.id]
    client.post(f"/quizzes/{given}/save", data=as_fields(answers))
    school.sign_in(client, "lan")
    assert "đang làm" in client.get(address).text
    school.sign_in(client, "binh")
    client.post(f"/quizzes/{given}/hand-in")
    school.sign_in(client, "lan")
    page = client.get(address).text
    # Bình: 0,5 for three of four statements.
    row = re.search(r"Trần Thị Bình</th>(.*?)</tr>", page, re.DOTALL)
    assert row is not None
    assert "<td>0,5</td><td>2,86</td>" in row[1]
    assert re.findall(r'class="sign (\w+)"', row[1]) == ["open", "partly", "wrong"]
    assert "1,13 trên 1,75 điểm" in page
    assert re.search(r"<svg[^>]*aria-label=\"Phổ điểm", page)
    assert re.search(r"12\s*</th>\s*<td>1</td>", page)
    assert [entry.action for entry in entries(school.database, limit=2)] == ["quiz.results", "quiz.results"]
    content = client.get(f"{address}/results.csv").content.decode("utf-8-sig")
    rows = list(csv.reader(io.StringIO(content)))
    assert rows[0][:2] == ["Mã số", "Họ và tên"]
    by_name = {cells[1]: cells for cells in rows[1:]}
    assert by_name["Trần Thị Bình"][3:] == ["đã nộp", "0,5", "2,86", "0", "0,5", "0"]
    assert by_name["Nguyễn Văn An"][0] == "code-an"
    book = openpyxl.load_workbook(io.BytesIO(client.get(f"{address}/results.xlsx").content))
    assert book.active is not None
    cells = {line[1]: line for line in book.active.iter_rows(values_only=True)}
    assert cells["Nguyễn Văn An"][4] == 1.75
    assert client.get(f"{address}/results.pdf").status_code == 400


def test_nothing_in_a_spreadsheet_is_a_formula() -> None:
    rows: list[list[Any]] = [["Tên"], ["=1+1"], ["+84"], ["@x"], ["\t=1"], ["An\x07"], ["-5"]]
    assert as_csv(rows).decode("utf-8-sig").splitlines()[1:4] == ["'=1+1", "'+84", "'@x"]
    book = openpyxl.load_workbook(io.BytesIO(as_xlsx(rows, "a/b[c]:*?'")))
    sheet = book.active
    assert sheet is not None
    for line in sheet.iter_rows():
        assert all(cell.data_type in ("s", "n") for cell in line)
    assert sheet["A2"].value == "=1+1"
    assert sheet["A2"].data_type == "s"


def test_an_empty_class_has_no_results(client: TestClient, school: School) -> None:
    given = give(school)
    with school.database.write() as session:
        session.execute(
            sa.text("DELETE FROM class_members WHERE person_id IN (SELECT id FROM people WHERE role='student')")
        )
    school.sign_in(client, "lan")
    assert "Lớp chưa có học sinh nào" in client.get(f"/teach/quizzes/assignments/{given}").text


def test_explanations_name_the_letters_that_the_pupil_saw() -> None:
    told = CITY.model_copy(update={"explanation": "Đáp án B vì Huế (phương án A) là cố đô. Vitamin A."})
    placed = Placed(told, (3, 1, 2, 0))
    line = result_line(1, placed, None, shows_key=True)
    assert line.explanation == "Đáp án B vì Huế (phương án D) là cố đô. Vitamin A."
    assert line.rows[0].key == "B. Hà Nội"
    claims = CLAIMS.model_copy(update={"explanation": "a) Đúng.\nD. Sai, xem a) ở trên."})
    line = result_line(1, Placed(claims, (2, 0, 3, 1)), None, shows_key=True)
    assert line.explanation == "b) Đúng.\nC. Sai, xem a) ở trên."
    assert [row.asked for row in line.rows] == ["phát biểu 3", "phát biểu 1", "phát biểu 4", "phát biểu 2"]
    hidden = result_line(1, placed, None, shows_key=False)
    assert (hidden.explanation, hidden.rows, hidden.sign) == ("", (), None)


@pytest.mark.parametrize(
    ("value", "told"), [(None, "–"), (Decimal("1.125"), "1,13"), (Decimal("10.00"), "10"), (0.5, "0,5"), (0, "0")]
)
def test_numbers_are_written_with_a_comma(value: Any, told: str) -> None:
    assert number(value) == told
