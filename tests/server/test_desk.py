"""The teacher's desk: own classes and nobody else's, what is shown, what is written down, files that run nothing."""

import csv
import io
import re
from typing import Any

import pytest
import sqlalchemy as sa
from class_life import LESSON, QUESTION, SKILLS, STRUCK, asked, citation, flagged, hinted, sat, told
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import load_workbook
from schoolroom import School
from sqlalchemy import event

from deepedu.school import audit
from deepedu.school.accounts import check_password
from deepedu.school.classes import class_for
from deepedu.server.access import rules_of
from deepedu.server.plots import Bar, bars
from deepedu.server.safety_watch import unseen_safety
from deepedu.server.sheets import safe_cell, to_csv, to_xlsx
from deepedu.store.conversations import start_turn
from deepedu.store.flags import count_unseen, raise_flag
from deepedu.store.signals import failed_turns, keep_signal
from deepedu.store.tables import Flag, Person
from deepedu.tutor.classwork import mastery_of


def student(school: School, username: str) -> str:
    return f"/teach/students/{school.people[username].public_id}"


def room(school: School, name: str = "6A") -> str:
    return f"/teach/classes/{school.classes[name]}"


def said(client: TestClient, response: object) -> str:
    """The page that a form leads to."""
    assert response.status_code == 303, response.text  # pyright: ignore[reportAttributeAccessIssue]
    return client.get(response.headers["location"]).text  # pyright: ignore[reportAttributeAccessIssue]


def logged(school: School, action: str) -> list[tuple[str, str]]:
    """``(subject, detail)`` of the entries of an action, oldest first."""
    found = [(e.subject, e.detail) for e in audit.entries(school.database) if e.action == action]
    return found[::-1]


# --- Who gets in ------------------------------------------------------------------------------------------------------


def test_the_desk_is_the_teachers(school: School) -> None:
    rules = rules_of(school.app())
    mine = {key: roles for key, roles in rules.items() if key[1].startswith(("/teach/classes", "/teach/students"))}
    assert len(mine) == 10
    assert set(mine.values()) == {frozenset({"teacher"})}
    safety = {roles for key, roles in rules.items() if key[1].startswith("/safety")}
    assert safety == {frozenset({"teacher", "admin"})}


@pytest.mark.parametrize("username", ["an", "me.an", "admin", None])
def test_nobody_else_gets_to_the_desk(client: TestClient, school: School, username: str | None) -> None:
    school.sign_in(client, username)
    for address in ("/teach", room(school), f"{room(school)}/questions", student(school, "an")):
        assert client.get(address).status_code == (303 if username is None else 403)


def test_a_teacher_of_another_class_finds_nothing(client: TestClient, school: School) -> None:
    conversation_id, turn_id = asked(school, "an")
    flagged(school, "an")
    flagged(school, "an", "grounding", STRUCK)
    with school.database.read() as session:
        flags = session.scalars(sa.select(Flag.id)).all()
    school.sign_in(client, "minh")
    an, klass = student(school, "an"), room(school)
    foreign = [an, f"{an}/conversations/{conversation_id}", klass, f"{klass}/questions", f"{klass}/answers"]
    foreign += [f"{klass}/mastery.csv", f"{klass}/mastery.xlsx", *(f"/safety/{flag}" for flag in flags)]
    for address in foreign:
        answer = client.get(address)
        assert answer.status_code == 404, address
        assert "Nguyễn Văn An" not in answer.text
    posts = [f"{klass}/policy", f"{klass}/students/{school.people['an'].public_id}/password"]
    posts += [f"{an}/turns/{turn_id}/correction", *(f"{klass}/answers/{flag}/seen" for flag in flags)]
    posts += [f"/safety/{flag}/seen" for flag in flags]
    for address in posts:
        assert client.post(address, data={"policy": "explain", "answer": "x"}).status_code == 404, address
    assert "Nguyễn Văn An" not in client.get("/safety").text + client.get("/teach").text
    # Nothing was done, and there is no more to be told of one that is not there at all.
    assert audit.entries(school.database) == []
    assert class_for(school.database, school.people["lan"], school.classes["6A"]).policy == "tutor"
    there, not_there = client.get(klass).text, client.get("/teach/classes/999").text
    number = rf"(?<=classes/){school.classes['6A']}\b|(?<=lớp số ){school.classes['6A']}\b"
    assert re.sub(number, "999", there) == not_there


def test_a_conversation_belongs_to_its_pupil(client: TestClient, school: School) -> None:
    conversation_id, turn_id = asked(school, "binh")
    school.sign_in(client, "lan")
    an = student(school, "an")
    assert client.get(f"{an}/conversations/{conversation_id}").status_code == 404
    assert client.post(f"{an}/turns/{turn_id}/correction", data={"answer": "x"}).status_code == 404
    assert client.get(f"{student(school, 'binh')}/conversations/{conversation_id}").status_code == 200


def test_names_stand_in_no_address(client: TestClient, school: School) -> None:
    asked(school, "an")
    flagged(school, "an")
    sat(school, "lan", "6A", {"an": "a", "binh": "b"})
    school.sign_in(client, "lan")
    pages = [client.get(a).text for a in ("/teach", room(school), student(school, "an"), "/safety")]
    addresses = set(re.findall(r'(?:href|action)="([^"]*)"', " ".join(pages)))
    assert len(addresses) > 15
    for account in school.people.values():
        taken = {account.username, account.learner_id or "-none-"} - {"an", "binh", "lan", "minh", "chi", "admin"}
        assert not [a for a in addresses if any(name in a for name in taken)]
    assert not [a for a in addresses if "Nguy" in a or "%E1" in a]


# --- The cards --------------------------------------------------------------------------------------------------------


def test_the_cards_count(client: TestClient, school: School) -> None:
    asked(school, "an")
    flagged(school, "binh")
    flagged(school, "an", "grounding", STRUCK)
    sat(school, "lan", "6A", {})
    school.sign_in(client, "lan")
    page = client.get("/teach").text
    for told_there in (
        "Học sinh <strong>2", "trong tuần này <strong>2", "đang mở <strong>1", "chưa xem</a> <strong>1",
        "1 cảnh báo an toàn chưa xem", "Gia sư</span>",
    ):  # fmt: skip
        assert told_there in page
    assert "6B" not in page


def test_a_teacher_without_a_class_is_told_what_to_do(client: TestClient, school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.text("DELETE FROM class_members"))
    school.sign_in(client, "lan")
    assert "chưa dạy lớp nào" in client.get("/teach").text


# --- A class ----------------------------------------------------------------------------------------------------------


def test_an_empty_class_says_what_is_missing(client: TestClient, school: School) -> None:
    school.sign_in(client, "lan")
    page = client.get(room(school)).text
    assert "Chưa có câu nào được chấm" in page
    assert "Không em nào học" in page
    for path in ("/questions", "/answers"):
        assert client.get(room(school) + path).status_code == 200


def test_the_map_shows_levels_in_words(client: TestClient, school: School) -> None:
    sat(school, "lan", "6A", {"an": "a", "binh": "b"})
    school.sign_in(client, "lan")
    page = client.get(room(school)).text
    head = page[page.index("<thead>") : page.index("<tbody>")]
    # By number, not by letter.
    assert head.index(SKILLS[1]) < head.index(SKILLS[0])
    assert re.search(r'data-level="3">gần vững<br><small>\d+ %', page)
    assert re.search(r'data-level="1">cần giúp', page)
    by_name = [page.index(f"{school.people[who].full_name}</a>") for who in ("an", "binh")]
    assert by_name == sorted(by_name)
    needy = client.get(f"{room(school)}?sort=need").text
    assert needy.index("Trần Thị Bình</a>") < needy.index("Nguyễn Văn An</a>")
    assert client.get(f"{room(school)}?sort=x").status_code == 400


def test_the_map_is_a_file(client: TestClient, school: School) -> None:
    with school.database.write() as session:
        session.get_one(Person, school.people["an"].id).full_name = "=HYPERLINK(1)"
    sat(school, "lan", "6A", {"an": "a"})
    school.sign_in(client, "lan")
    answer = client.get(f"{room(school)}/mastery.csv")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["cache-control"] == "no-store"
    rows = list(csv.reader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert rows[0][:4] == ["Họ và tên", "Tên đăng nhập", SKILLS[1], SKILLS[0]]
    assert ["'=HYPERLINK(1)", "an"] in [row[:2] for row in rows]
    assert ["binh", "", ""] in [row[1:4] for row in rows]
    answer = client.get(f"{room(school)}/mastery.xlsx")
    sheet = load_workbook(io.BytesIO(answer.content)).active
    assert sheet is not None
    found = {str(row[1].value): (row[0].data_type, row[2].value) for row in sheet.iter_rows(min_row=2)}
    assert found["an"][0] == "s"
    assert isinstance(found["an"][1], int)
    assert logged(school, "class.export") == [(f"class:{school.classes['6A']}", kind) for kind in ("csv", "xlsx")]
    assert client.get(f"{room(school)}/mastery.exe").status_code == 400


def test_a_class_is_read_as_its_pupils_are(school: School) -> None:
    sat(school, "lan", "6A", {"an": "a", "binh": "b"})
    learners = [school.people[who].owner for who in ("an", "binh", "chi")]
    alone = {learner: mastery_of(school.database, [learner])[learner] for learner in learners}
    assert mastery_of(school.database, learners) == alone
    assert alone[learners[0]]


def test_pupils_with_their_last_day_and_minutes(client: TestClient, school: School) -> None:
    asked(school, "an")
    school.sign_in(client, "lan")
    page = client.get(room(school)).text
    line = page[page.index("Phút học</th>") :]
    an = line[line.index("Nguyễn Văn An</a>") :]
    assert re.search(r"<td>\d\d:\d\d \d\d/\d\d/\d{4}</td>\s*<td>1</td>", an[:200])
    assert "chưa học" in line[line.index("Trần Thị Bình</a>") :][:200]
    assert '<svg class="plot"' in page


def test_the_policy_is_changed_and_written_down(client: TestClient, school: School) -> None:
    school.sign_in(client, "lan")
    assert "Không trả lời học sinh của lớp" in client.get(room(school)).text
    assert "Đã đổi cách gia sư" in said(client, client.post(f"{room(school)}/policy", data={"policy": "exam_off"}))
    assert class_for(school.database, school.people["lan"], school.classes["6A"]).policy == "exam_off"
    assert logged(school, "class.change") == [(f"class:{school.classes['6A']}", "policy=exam_off")]
    answer = client.post(f"{room(school)}/policy", data={"policy": "vui"})
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text
    assert class_for(school.database, school.people["lan"], school.classes["6A"]).policy == "exam_off"


def test_a_new_password_is_shown_once(client: TestClient, school: School) -> None:
    school.sign_in(client, "lan")
    address = f"{room(school)}/students/{school.people['an'].public_id}/password"
    page = client.post(address).text
    found = re.search(r'class="secret">([^<]+)<', page)
    assert found is not None
    assert check_password(school.database, "an", found[1]).must_change_password
    assert found[1] not in client.get(room(school)).text
    assert logged(school, "person.password") == [(school.people["an"].public_id, "")]
    assert found[1] not in str(audit.entries(school.database))
    # Of pupils of the class only: neither a colleague's nor another class's.
    for who in ("lan", "chi", "admin"):
        other = f"{room(school)}/students/{school.people[who].public_id}/password"
        assert client.post(other).status_code == 404


# --- Questions and items ----------------------------------------------------------------------------------------------


def test_what_two_pupils_ask_is_shown_without_names(client: TestClient, school: School) -> None:
    asked(school, "an", "Bạn Trần Thị Bình hỏi nước tinh khiết sôi ở bao nhiêu độ?")
    asked(school, "binh", "ban tran thi binh hoi nuoc tinh khiet soi o bao nhieu do")
    asked(school, "an", "Tế bào thực vật có thành xenlulôzơ không?")
    school.sign_in(client, "lan")
    page = client.get(f"{room(school)}/questions").text
    assert "nước tinh khiết" in page
    assert "Trần Thị Bình" not in page
    assert "xenlul" not in page
    assert "<td>2</td><td>2</td>" in page


def test_danger_is_no_question_of_a_lesson(client: TestClient, school: School) -> None:
    for who in ("an", "binh"):
        flagged(school, who)
    school.sign_in(client, "lan")
    assert "muon chet" not in client.get(f"{room(school)}/questions").text


def test_what_was_missed_is_shown_with_its_words(client: TestClient, school: School) -> None:
    sat(school, "lan", "6A", {"an": "b", "binh": "c"})
    sat(school, "lan", "6A", {"an": "b"})
    school.sign_in(client, "lan")
    page = client.get(f"{room(school)}/questions?days=7").text
    assert f"Câu 1 về {SKILLS[0]}?" in page
    assert "<td>0 %</td><td>6</td><td>2</td>" in page
    assert client.get(f"{room(school)}/questions?days=8").status_code == 400


# --- Struck answers ---------------------------------------------------------------------------------------------------


def test_a_struck_sentence_stands_beside_the_book(client: TestClient, school: School) -> None:
    turn_id = flagged(school, "an", "grounding", STRUCK)
    school.sign_in(client, "lan")
    page = client.get(f"{room(school)}/answers").text
    assert f'<del class="said">{STRUCK}</del>' in page
    assert "Sách không có năm 1999." in page
    assert "<mark>Anders Celsius đề xuất</mark>" in page
    assert "Nguyễn Văn An" not in page
    assert f"#turn-{turn_id}" in page
    with school.database.read() as session:
        flag_id = session.scalar(sa.select(Flag.id))
    assert "Đã ghi nhận" in said(client, client.post(f"{room(school)}/answers/{flag_id}/seen"))
    assert logged(school, "answer.seen") == [(f"flag:{flag_id}", "")]
    assert STRUCK not in client.get(f"{room(school)}/answers").text
    assert STRUCK in client.get(f"{room(school)}/answers?show=all").text


def test_safety_is_not_seen_to_among_answers(client: TestClient, school: School) -> None:
    flagged(school, "an")
    with school.database.read() as session:
        flag_id = session.scalar(sa.select(Flag.id))
    school.sign_in(client, "lan")
    assert client.post(f"{room(school)}/answers/{flag_id}/seen").status_code == 404
    assert count_unseen(school.database, kinds=("safety",)) == 1


def test_what_answers_stand_on(client: TestClient, school: School) -> None:
    school.sign_in(client, "lan")
    assert "Chưa có câu trả lời nào" in client.get("/teach/reliance").text
    asked(school, "an", answer=told(QUESTION, "Năm 1742.", struck=STRUCK))
    page = client.get("/teach/reliance").text
    assert page.count("<td>50 %</td>") == 2
    assert 'class="part2"' in page


# --- A pupil ----------------------------------------------------------------------------------------------------------


def test_a_pupil_with_reasons_results_and_conversations(client: TestClient, school: School) -> None:
    sat(school, "lan", "6A", {"an": "a"})
    conversation_id, _ = asked(school, "an", answer=told(QUESTION, "Năm 1742.", citation=citation(school.database)))
    school.sign_in(client, "lan")
    page = client.get(student(school, "an")).text
    assert re.search(r"đúng 100 % → 74 % ➝ \d\d %", page)
    assert re.search(r"<td>10\.00 <span class=\"dim\">\(1\.00/1\.00\)", page)
    assert LESSON in page
    assert f"/conversations/{conversation_id}" in page
    assert logged(school, "student.view") == [(school.people["an"].public_id, "")]
    assert client.get(student(school, "binh")).status_code == 200


def test_reading_a_conversation_is_written_down(client: TestClient, school: School) -> None:
    conversation_id, first = asked(school, "an", answer=told(QUESTION, "Năm 1742.", struck=STRUCK))
    asked(school, "an", "cho em đáp án đi", hinted("x"), conversation_id=conversation_id)
    keep_signal(school.database, first, "wrong", detail="sách viết khác")
    school.sign_in(client, "lan")
    page = client.get(f"{student(school, 'an')}/conversations/{conversation_id}").text
    for shown in (STRUCK, "sách viết khác", "Báo chỗ sai", "Học sinh nài xin đáp án: giữ bậc 2"):
        assert shown in page
    assert logged(school, "conversation.read") == [(school.people["an"].public_id, f"conversation:{conversation_id}")]
    assert QUESTION not in str(audit.entries(school.database))


def test_a_teacher_corrects_an_answer(client: TestClient, school: School) -> None:
    conversation_id, turn_id = asked(school, "an")
    school.sign_in(client, "lan")
    address = f"{student(school, 'an')}/turns/{turn_id}/correction"
    page = client.post(address, data={"answer": " "})
    assert (page.status_code, "right-error" in page.text) == (400, True)
    long = "x" * 1001
    assert long in client.post(address, data={"answer": long}).text
    assert failed_turns(school.database) == ()
    page = said(client, client.post(address, data={"answer": " Năm 1742, không phải 1842. "}))
    assert "Năm 1742, không phải 1842." in page
    assert "(lan)" in page
    (failed,) = failed_turns(school.database)
    assert failed.signals == (("correction", "Năm 1742, không phải 1842."),)
    assert logged(school, "answer.correct") == [(school.people["an"].public_id, f"turn:{turn_id}")]
    assert f"/conversations/{conversation_id}" in client.get(student(school, "an")).text


def test_what_a_pupil_types_is_text(client: TestClient, school: School) -> None:
    conversation_id, _ = asked(school, "an", "<img src=x onerror=alert(1)> nước sôi?")
    school.sign_in(client, "lan")
    for address in (student(school, "an"), f"{student(school, 'an')}/conversations/{conversation_id}"):
        assert "<img" not in client.get(address).text


def test_an_erased_pupil_leaves_nothing_to_see(client: TestClient, school: School) -> None:
    sat(school, "lan", "6A", {"an": "a", "binh": "a"})
    asked(school, "an")
    flagged(school, "an")
    flagged(school, "an", "grounding", STRUCK)
    school.database.vault.destroy(school.people["an"].owner)
    school.sign_in(client, "lan")
    addresses = ["/teach", room(school), f"{room(school)}/questions", f"{room(school)}/answers?show=all"]
    for address in (*addresses, student(school, "an"), "/safety", "/teach/reliance"):
        answer = client.get(address)
        assert answer.status_code == 200, address
        assert STRUCK not in answer.text


# --- Safety -----------------------------------------------------------------------------------------------------------


def banner(school: School, username: str, **settings: str) -> int:
    app = school.app(school=settings)
    with TestClient(app):
        return unseen_safety(app.state.services, school.people[username])


def test_who_is_told(school: School) -> None:
    flagged(school, "an")
    flagged(school, "an", "grounding", STRUCK)
    assert [banner(school, who) for who in ("admin", "lan", "an", "me.an")] == [1, 0, 0, 0]
    named = [banner(school, who, named_adult=" Minh ") for who in ("minh", "admin", "lan")]
    assert named == [1, 0, 0]
    # A flag does not wait for somebody who never comes.
    for absent in ("khong-co", "an"):
        assert banner(school, "admin", named_adult=absent) == 1
        assert banner(school, "an", named_adult=absent) == 0


def test_the_named_adult_reads_around_the_turn(school: School) -> None:
    conversation_id, _ = asked(school, "an", "Câu hỏi thứ nhất về bài học?")
    for number in range(5):
        asked(school, "an", f"Câu hỏi giữa {number}?", conversation_id=conversation_id)
    turn_id = flagged(school, "an")
    with school.database.write() as session:
        flag = session.scalars(sa.select(Flag)).one()
        session.execute(
            sa.text("UPDATE turns SET conversation_id = :c, ordinal = 6 WHERE id = :t"),
            {"c": conversation_id, "t": turn_id},
        )
        flag.conversation_id, flag_id = conversation_id, flag.id
    with TestClient(school.app(school={"named_adult": "minh"}), follow_redirects=False) as client:
        school.sign_in(client, "minh")
        page = client.get("/safety").text
        for shown in ("Nguyễn Văn An", "6A", "Có thể tự làm hại mình", "em muốn chết", "Khẩn cấp", "111"):
            assert shown in page
        page = client.get(f"/safety/{flag_id}").text
        assert "em muon chet qua" in page
        assert "Câu hỏi giữa 4?" in page
        assert "Câu hỏi giữa 3?" in page
        assert "Câu hỏi thứ nhất" not in page
        # Not a teacher of the class: no more than that.
        assert client.get(f"{student(school, 'an')}/conversations/{conversation_id}").status_code == 404
        assert "Đã ghi nhận" in said(client, client.post(f"/safety/{flag_id}/seen"))
        assert "Không có cảnh báo nào chưa xem" in client.get("/safety?show=unseen").text
    an = school.people["an"].public_id
    assert logged(school, "safety.read") == logged(school, "safety.seen") == [(an, f"flag:{flag_id}")]
    assert count_unseen(school.database, kinds=("safety",)) == 0


@pytest.mark.parametrize(("username", "sees"), [("lan", True), ("minh", False), ("admin", True)])
def test_teachers_see_flags_of_their_own_pupils(client: TestClient, school: School, username: str, sees: bool) -> None:
    flagged(school, "an")
    school.sign_in(client, username)
    assert ("Nguyễn Văn An" in client.get("/safety").text) is sees


def test_pupils_and_guardians_see_no_flags(client: TestClient, school: School) -> None:
    flagged(school, "an")
    for username in ("an", "me.an"):
        assert school.sign_in(client, username).get("/safety").status_code == 403


# --- Files and pictures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", "|calc", "%0A"])
def test_formulas_are_text(text: str) -> None:
    assert str(safe_cell(text)).startswith("'")


@given(st.lists(st.lists(st.one_of(st.text(), st.integers(), st.none()), min_size=1, max_size=4), max_size=4))
def test_no_cell_begins_a_formula(rows: list[list[str | int | None]]) -> None:
    text = to_csv(rows).decode("utf-8-sig")
    for row in csv.reader(io.StringIO(text, newline="")):
        assert not [cell for cell in row if cell.lstrip()[:1] in set("=+@") or cell[:1] in set("\t\r\n")]
    sheet = load_workbook(io.BytesIO(to_xlsx("Lớp [6A]: thử/nghiệm", rows))).active
    assert sheet is not None
    assert not [cell for row in sheet.iter_rows() for cell in row if cell.data_type == "f"]


def test_plain_words_and_numbers_stay(client: TestClient) -> None:  # noqa: ARG001
    assert [safe_cell(value) for value in ("Lê Mai Chi", -3, 0.5, None, "")] == ["Lê Mai Chi", -3, 0.5, None, ""]


def test_a_plot_is_told_in_words_and_styles_nothing_inline() -> None:
    drawn = bars([Bar("<1>", (2, 1)), Bar("b", ())], 'Số "câu" mỗi ngày')
    assert 'aria-label="Số &#34;câu&#34; mỗi ngày"' in drawn
    assert "&lt;1&gt;" in drawn
    assert drawn.count("<rect") == 2
    assert "style=" not in drawn
    assert bars([], "Trống").count("<rect") == 0
    assert bars([Bar("a", (0,))], "Không").count("<rect") == 1


# --- Size -------------------------------------------------------------------------------------------------------------


def test_pages_ask_the_database_no_more_for_more_pupils(client: TestClient, school: School) -> None:
    counted: list[str] = []
    school.sign_in(client, "lan")
    app: Any = client.app
    event.listen(app.state.services.database.engine, "before_cursor_execute", lambda *args: counted.append(args[2]))

    def questions_for(address: str) -> int:
        client.get(address)
        counted.clear()
        assert client.get(address).status_code == 200
        return len(counted)

    addresses = ["/teach", room(school), f"{room(school)}/questions", f"{room(school)}/answers", "/safety"]
    sat(school, "lan", "6A", {"an": "a"})
    flagged(school, "an", "grounding", STRUCK)
    flagged(school, "an")
    before = [questions_for(address) for address in addresses]
    sat(school, "lan", "6A", {"an": "b", "binh": "a"})
    for who in ("an", "binh"):
        asked(school, who)
        flagged(school, who, "grounding", STRUCK)
        flagged(school, who)
    assert [questions_for(address) for address in addresses] == before


def test_abuse_is_told_to_the_named_adult_and_to_no_teacher_of_the_class(client: TestClient, school: School) -> None:
    owner = school.people["an"].owner
    conversation, turn = start_turn(school.database, "thầy …", {}, None, owner=owner)
    raise_flag(school.database, owner, conversation, turn, "protection", severity="urgent", detail="abuse: thầy")
    school.sign_in(client, "lan")
    assert "/safety/" not in client.get("/safety").text.replace("/safety/seen", "")
    assert client.get("/safety/1").status_code == 404
    school.sign_in(client, "admin")
    assert "/safety/1" in client.get("/safety").text
    assert 'role="alert"' in client.get("/admin").text
    assert client.get("/safety/1").status_code == 200
