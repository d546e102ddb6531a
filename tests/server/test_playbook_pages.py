"""The playbook's pages: what waits beside its books, decisions by name, conflicts, the past and the way back."""

import re
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from schoolroom import School

from deepedu.playbook.book import Playbook
from deepedu.playbook.bullet import Author, BulletScope, InteractionEvidence, PassageEvidence
from deepedu.playbook.delta import Add, Retire
from deepedu.server.access import rules_of
from deepedu.server.playbook_pages import PER_PAGE, word_diff
from deepedu.store.tables import Book

HOME = "/teach/playbook"
QUOTE = "Anders Celsius đề xuất một thang nhiệt độ"
FIRST, SECOND = "b-00001", "b-00002"


@pytest.fixture
def book(school: School) -> Playbook:
    """Two proposed bullets, version 1: a fact with quotes, a method bound to a book."""
    with school.database.read() as session:
        sha256 = session.scalars(sa.select(Book.sha256)).one()
    evidence = (
        PassageEvidence(book=sha256, page=6, quote=QUOTE),
        PassageEvidence(book=sha256, page=6, quote="Sách không hề nói câu này."),
        InteractionEvidence(reference="lượt-7", signal="grounding"),
    )
    book = Playbook(school.database)
    scope = BulletScope(grade=6, book=sha256)
    add = (
        Add(text="Anders Celsius đề xuất thang nhiệt độ năm 1742.", kind="fact", evidence=evidence),
        Add(text="Muốn đổi độ F sang độ C, trừ 32 rồi nhân 5/9.", kind="method", scope=scope),
    )
    book.change(add, Author(role="model", name="qwen"), "học từ lượt hỏi")
    return book


@pytest.fixture
def lan(client: TestClient, school: School, book: Playbook) -> TestClient:  # noqa: ARG001
    return school.sign_in(client, "lan")


def revision(client: TestClient, bullet_id: str) -> str:
    found = re.search(r'name="expected" value="(\w+)"', client.get(f"{HOME}/bullets/{bullet_id}").text)
    assert found is not None
    return found[1]


def post(client: TestClient, bullet_id: str, verb: str, **form: str) -> Any:
    form.setdefault("expected", revision(client, bullet_id))
    return client.post(f"{HOME}/bullets/{bullet_id}/{verb}", data=form)


def edited(**changed: str) -> dict[str, str]:
    form = {"text": "Muốn đổi độ F sang độ C, trừ 32 rồi nhân 5/9.", "kind": "method", "grade": "6"}
    return {**form, "section": "Phương pháp và công thức", **changed}


def test_the_pages_are_the_staffs(school: School, client: TestClient) -> None:
    rules = {key: roles for key, roles in rules_of(school.app()).items() if key[1].startswith(HOME)}
    assert len(rules) == 9
    assert set(rules.values()) == {frozenset({"teacher", "admin"})}
    for username in ("an", "me.an"):
        assert school.sign_in(client, username).get(HOME).status_code == 403


def test_an_empty_book(client: TestClient, school: School) -> None:
    school.sign_in(client, "lan")
    assert "Không có điều nào chờ duyệt" in client.get(HOME).text
    assert "chưa có thay đổi nào" in client.get(f"{HOME}/history").text


def test_what_waits_stands_beside_its_passage(lan: TestClient) -> None:
    page = lan.get(HOME).text
    assert "Chờ duyệt (2)" in page
    assert f"<mark>{QUOTE}</mark>" in page
    assert "trang 6" in page
    assert "Không tìm thấy câu trích này trong sách" in page
    assert "(grounding)" in page
    assert FIRST not in lan.get(f"{HOME}?kind=method").text
    assert "Không có điều nào như vậy" in lan.get(f"{HOME}?status=retired").text
    assert lan.get(f"{HOME}?status=x").status_code == 400


def test_many_are_shown_page_by_page(lan: TestClient, book: Playbook) -> None:
    more = [Add(text=f"Điều số {n}.", kind="tool") for n in range(PER_PAGE)]
    book.change(more, Author(role="model"), "nhiều")
    assert "Trang 1 / 2" in lan.get(HOME).text
    assert f"Điều số {PER_PAGE - 1}." in lan.get(f"{HOME}?page=2").text


def test_approving_in_the_own_name(lan: TestClient, book: Playbook) -> None:
    then = f"{HOME}?status=proposed&kind=&page=1"
    answer = post(lan, FIRST, "approve", then=then)
    assert (answer.status_code, answer.headers["location"]) == (303, then)
    assert "Đã duyệt" in lan.get(HOME).text
    assert book.state().bullets[FIRST].status == "verified"
    assert book.history(limit=1)[0].delta.author == Author(role="teacher", name="lan")
    # An address that is not ours is none to go on to.
    assert post(lan, SECOND, "approve", then="//xau.example").headers["location"] == HOME


def test_the_api_signs_with_who_is_signed_in(lan: TestClient, book: Playbook) -> None:
    expected = revision(lan, FIRST)
    body = {"expected": expected, "by": "thầy Hiệu trưởng"}
    assert lan.post(f"/api/playbook/bullets/{FIRST}/approve", json=body).status_code == 200
    assert lan.post("/api/playbook/rollback", json={"version": 1, "reason": "thử"}).status_code == 200
    assert [change.delta.author.name for change in book.history(limit=2)] == ["lan", "lan"]


def test_rejecting_needs_a_reason(lan: TestClient, book: Playbook) -> None:
    answer = post(lan, FIRST, "reject", reason="  ")
    assert answer.status_code == 400
    assert 'id="reason-error"' in answer.text
    assert book.version == 1
    assert post(lan, FIRST, "reject", reason="sai năm").status_code == 303
    bullet = book.state().bullets[FIRST]
    assert (bullet.status, bullet.reasons) == ("quarantined", ("sai năm",))
    assert "Lý do: sai năm" in lan.get(f"{HOME}?status=quarantined").text


def test_an_edit_keeps_what_the_form_does_not_show(lan: TestClient, book: Playbook) -> None:
    before = book.state().bullets[SECOND]
    form = edited(text="Trừ 32 rồi chia 1,8.", lesson="Bài 2", approved="1", reason="gọn hơn")
    assert post(lan, SECOND, "edit", **form).status_code == 303
    after = book.state().bullets[SECOND]
    assert (after.text, after.status) == ("Trừ 32 rồi chia 1,8.", "verified")
    assert after.scope == BulletScope(grade=6, lesson="Bài 2", book=before.scope.book)
    form = edited(text="Trừ 32, rồi chia 1,8.", lesson="Bài 2")
    assert post(lan, SECOND, "edit", **form).status_code == 303
    assert book.state().bullets[SECOND].status == "proposed"


@pytest.mark.parametrize(
    ("changed", "field"), [({"text": " "}, "text"), ({"text": "từ " * 500}, "text"), ({"kind": "x"}, "kind"),
                           ({"grade": "13"}, "grade"), ({"grade": "sáu"}, "grade")]
)  # fmt: skip
def test_what_cannot_be_taken_is_told_at_its_field(
    lan: TestClient, book: Playbook, changed: dict[str, str], field: str
) -> None:
    answer = post(lan, SECOND, "edit", **edited(**{"lesson": "Bài 7", **changed}))
    assert answer.status_code == 400
    assert f'id="{field}-error"' in answer.text
    # What was filled in is not lost.
    assert 'value="Bài 7"' in answer.text
    assert book.version == 1


def test_an_edit_of_nothing_and_of_what_is_retired(lan: TestClient, book: Playbook) -> None:
    answer = post(lan, SECOND, "edit", **edited())
    assert answer.status_code == 400
    assert "Chưa có gì để sửa" in answer.text
    expected = revision(lan, SECOND)
    book.change([Retire(bullet_id=SECOND, reason="cũ")], Author(role="teacher"), "cũ")
    assert "Điều đã bỏ không sửa được" in lan.get(f"{HOME}/bullets/{SECOND}").text
    assert post(lan, SECOND, "edit", **edited(text="Khác."), expected=expected).status_code == 409


def test_of_two_teachers_the_second_sees_both_texts(lan: TestClient, school: School, book: Playbook) -> None:
    read = revision(lan, SECOND)
    school.sign_in(lan, "minh")
    assert post(lan, SECOND, "edit", **edited(text="Bản của thầy Minh.")).status_code == 303
    school.sign_in(lan, "lan")
    answer = post(lan, SECOND, "edit", **edited(text="Bản của cô Lan."), expected=read)
    assert answer.status_code == 409
    assert "đã được người khác sửa" in answer.text
    assert '<p class="rule">Bản của thầy Minh.</p>' in answer.text
    assert re.search(r"<textarea[^>]*>Bản của cô Lan\.</textarea>", answer.text)
    assert "<del>thầy Minh.</del> <ins>cô Lan.</ins>" in answer.text
    assert book.version == 2
    # From that page she can go on.
    fresh = re.search(r'name="expected" value="(\w+)"', answer.text)
    assert fresh is not None
    assert post(lan, SECOND, "edit", **edited(text="Bản của cô Lan."), expected=fresh[1]).status_code == 303
    for verb in ("approve", "reject"):
        assert post(lan, SECOND, verb, reason="x", expected=read).status_code == 409


def test_an_unknown_bullet(lan: TestClient) -> None:
    assert lan.get(f"{HOME}/bullets/b-00099").status_code == 404
    for verb in ("approve", "reject", "edit"):
        form = edited(reason="x", expected="x")
        assert lan.post(f"{HOME}/bullets/b-00099/{verb}", data=form).status_code == 404


def test_the_past_is_shown_and_compared(lan: TestClient, book: Playbook) -> None:
    post(lan, SECOND, "edit", **edited(text="Trừ 32 rồi chia 1,8."))
    book.change([Add(text="Mới.", kind="tool")], Author(role="model"), "học thêm")
    page = lan.get(f"{HOME}/history").text
    assert page.index("Phiên bản 3") < page.index("Phiên bản 2") < page.index("Phiên bản 1")
    assert "giáo viên lan" in page
    page = lan.get(f"{HOME}/diff?before=1&after=3").text
    assert "Thêm vào (1)" in page
    assert "<ins>Mới.</ins>" in page
    assert "<ins>" in page[page.index("Thay đổi (1)") :]
    assert "Không có gì khác nhau" in lan.get(f"{HOME}/diff?before=2&after=2").text
    assert lan.get(f"{HOME}/diff?before=99").status_code == 404
    page = lan.get(f"{HOME}/bullets/{SECOND}").text
    assert "Phiên bản 2" in page[page.index("Lịch sử của điều này") :]
    assert "Phiên bản 3" not in page


def test_going_back_asks_first_and_can_be_taken_back(lan: TestClient, book: Playbook) -> None:
    post(lan, FIRST, "approve")
    page = lan.get(f"{HOME}/rollback?version=1").text
    assert "Quay về phiên bản 1?" in page
    assert "Đang dùng → Chờ duyệt" in page
    assert book.version == 2
    refused = lan.post(f"{HOME}/rollback", data={"version": "1", "reason": " "})
    assert (refused.status_code, book.version) == (400, 2)
    assert 'id="reason-error"' in refused.text
    assert lan.post(f"{HOME}/rollback", data={"version": "1", "reason": "duyệt nhầm"}).status_code == 303
    assert book.state().bullets[FIRST].status == "proposed"
    assert book.history(limit=1)[0].delta.author.name == "lan"
    assert "đã trở về" in lan.get(f"{HOME}/history").text
    lan.post(f"{HOME}/rollback", data={"version": "2", "reason": "đổi lại"})
    assert book.state().bullets[FIRST].status == "verified"
    for version in ("99", "x"):
        assert lan.post(f"{HOME}/rollback", data={"version": version, "reason": "x"}).status_code in (400, 404)


def test_what_a_model_wrote_is_text(lan: TestClient, book: Playbook) -> None:
    book.change([Add(text="<script>alert(1)</script> là sai.", kind="fact")], Author(role="model"), "<b>x</b>")
    for address in (HOME, f"{HOME}/bullets/b-00003", f"{HOME}/history", f"{HOME}/diff?before=1"):
        page = lan.get(address).text
        assert "<script>alert" not in page
        assert "<b>x" not in page


words = st.lists(st.sampled_from(["a", "b", "c", "1742"]), max_size=8).map(" ".join)


@given(words, words)
def test_both_texts_are_in_the_difference(old: str, new: str) -> None:
    pieces = word_diff(old, new)
    assert " ".join(text for tag, text in pieces if tag != "new") == old
    assert " ".join(text for tag, text in pieces if tag != "gone") == new
