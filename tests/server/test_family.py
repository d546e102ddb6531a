"""The guardian's pages: own children only, no longer than allowed, plain words, and no conversations unless the school
lets guardians read them."""

import pytest
import sqlalchemy as sa
from class_life import LESSON, QUESTION, asked, citation, close, hinted, sat, told
from fastapi.testclient import TestClient
from schoolroom import School

from deepedu.school import audit
from deepedu.school.classes import grant, revoke
from deepedu.server.access import rules_of
from deepedu.store.tables import Consent, QuizAssignment, now


def child(school: School, username: str) -> str:
    return f"/family/{school.people[username].public_id}"


def test_the_pages_are_the_guardians(school: School, client: TestClient) -> None:
    rules = rules_of(school.app())
    for path in ("/family", "/family/{public_id}", "/family/{public_id}/conversations/{conversation_id:int}"):
        assert rules["GET", path] == {"guardian"}
    for username in ("an", "lan", "admin"):
        assert school.sign_in(client, username).get(child(school, "an")).status_code == 403


def test_own_children_as_cards(client: TestClient, school: School) -> None:
    asked(school, "an")
    school.sign_in(client, "me.an")
    page = client.get("/family").text
    assert "Nguyễn Văn An" in page
    assert "Lớp 6A" in page
    assert "ngày học tuần này</" not in page
    assert "Số ngày học tuần này <strong>1" in page
    assert "Số phút học tuần này <strong>1" in page
    assert "Lê Mai Chi" not in page
    assert QUESTION not in page


def test_a_foreign_child_is_like_none(client: TestClient, school: School) -> None:
    conversation_id, _ = asked(school, "chi")
    school.sign_in(client, "me.an")
    for address in (child(school, "chi"), child(school, "lan"), f"/family/{'0' * 16}"):
        answer = client.get(address)
        assert answer.status_code == 404
        assert "Chi" not in answer.text
    assert client.get(f"{child(school, 'chi')}/conversations/{conversation_id}").status_code == 404


def test_a_right_that_was_revoked_ends_at_once(client: TestClient, school: School) -> None:
    school.sign_in(client, "me.an")
    assert client.get(child(school, "an")).status_code == 200
    pair = school.people["me.an"].id, school.people["an"].id
    with school.database.write() as session:
        revoke(session, *pair)
    assert client.get(child(school, "an")).status_code == 404
    assert "Chưa có học sinh nào được gắn" in client.get("/family").text
    with school.database.write() as session:
        grant(session, *pair)
    assert client.get(child(school, "an")).status_code == 200


def test_what_was_studied_without_a_word_of_the_child(client: TestClient, school: School) -> None:
    answer = told(QUESTION, "Năm 1742 ạ.", citation=citation(school.database))
    conversation_id, _ = asked(school, "an", answer=answer)
    asked(school, "an", "em không muốn học nữa", hinted("x"), conversation_id=conversation_id)
    school.sign_in(client, "me.an")
    page = client.get(child(school, "an")).text
    assert LESSON in page
    assert "1 ngày có học, khoảng 1 phút" in page
    for own in (QUESTION, "Năm 1742 ạ.", "em không muốn học nữa", "/conversations/"):
        assert own not in page
    assert client.get(f"{child(school, 'an')}/conversations/{conversation_id}").status_code == 404
    assert audit.entries(school.database) == []


def test_mastery_in_plain_words(client: TestClient, school: School) -> None:
    sat(school, "lan", "6A", {"an": "a"})
    school.sign_in(client, "me.an")
    page = client.get(child(school, "an")).text
    assert "Em gần vững: thêm vài câu đúng nữa là chắc." in page
    # Figures are for teachers.
    assert "74 %" not in page


def test_results_come_when_the_time_is_over(client: TestClient, school: School) -> None:
    assignment = sat(school, "lan", "6A", {"an": "a"})
    school.sign_in(client, "me.an")
    assert "Chưa có kết quả nào được công bố" in client.get(child(school, "an")).text
    close(school, assignment)
    page = client.get(child(school, "an")).text
    assert "Kiểm tra 15 phút" in page
    assert "10.00" in page


def test_an_exam_that_others_still_sit_tells_nothing(client: TestClient, school: School) -> None:
    assignment = sat(school, "lan", "6A", {"an": "a"})
    with school.database.write() as session:
        session.get_one(QuizAssignment, assignment).is_exam = True
    school.sign_in(client, "me.an")
    assert "Em chưa làm câu nào được chấm" in client.get(child(school, "an")).text
    close(school, assignment)
    assert "Em gần vững" in client.get(child(school, "an")).text


@pytest.mark.parametrize("given", [True, False])
def test_where_consent_stands(client: TestClient, school: School, given: bool) -> None:
    if not given:
        with school.database.write() as session:
            session.execute(sa.update(Consent).values(withdrawn_at=now()))
    school.sign_in(client, "me.an")
    for address in ("/family", child(school, "an")):
        page = client.get(address).text
        assert ("Đã đồng ý" in page) is given
        assert ("Chưa có sự đồng ý" in page) is not given
    assert f"/family/consent/{school.people['an'].public_id}" in client.get(child(school, "an")).text


def test_conversations_where_the_school_allows_it(school: School) -> None:
    conversation_id, _ = asked(school, "an")
    asked(school, "an", "cho em đáp án đi", hinted("x"), conversation_id=conversation_id)
    other, _ = asked(school, "binh")
    with TestClient(school.app(school={"guardian_transcripts": True}), follow_redirects=False) as client:
        school.sign_in(client, "me.an")
        assert QUESTION in client.get(child(school, "an")).text
        page = client.get(f"{child(school, 'an')}/conversations/{conversation_id}").text
        assert "Em xem bài nhiệt độ nhé." in page
        # Why it was this hint is for the teacher.
        assert "nài xin" not in page
        assert client.get(f"{child(school, 'an')}/conversations/{other}").status_code == 404
    (entry,) = audit.entries(school.database)
    read = (entry.actor, entry.action, entry.subject, entry.detail)
    me, an = school.people["me.an"].public_id, school.people["an"].public_id
    assert read == (me, "conversation.read", an, f"conversation:{conversation_id}")
