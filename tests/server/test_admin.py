"""The admin's pages for people and classes: who gets in, what forms refuse, what is shown once."""

import re

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from schoolroom import YEAR, School

from deepedu.school import audit
from deepedu.school.accounts import check_password, create_person, open_session
from deepedu.school.classes import children_of, members, school_year_of
from deepedu.server.access import COOKIE, rules_of
from deepedu.store.tables import Consent, Person, now

MINE = ("/admin", "/api/admin")
UNKNOWN = "0" * 16


def person(school: School, username: str) -> str:
    return f"/admin/people/{school.people[username].public_id}"


def fields(school: School, who: str, /, **changed: str) -> dict[str, str]:
    account = school.people[who]
    return {"full_name": account.full_name, "username": who, "code": f"code-{who}", **changed}


def said(client: TestClient, response: object) -> str:
    """The page that a form leads to."""
    assert response.status_code == 303, response.text  # pyright: ignore[reportAttributeAccessIssue]
    return client.get(response.headers["location"]).text  # pyright: ignore[reportAttributeAccessIssue]


# --- Who gets in ------------------------------------------------------------------------------------------------------


def test_every_address_of_the_admin_is_the_admins_alone(school: School) -> None:
    rules = {key: roles for key, roles in rules_of(school.app()).items() if key[1].startswith(MINE)}
    assert len(rules) > 30
    assert set(rules.values()) == {frozenset({"admin"})}


@pytest.mark.parametrize("username", ["an", "lan", "me.an", None])
def test_nobody_else_gets_anything(client: TestClient, school: School, username: str | None) -> None:
    school.sign_in(client, username)
    an, class_id = person(school, "an"), school.classes["6A"]
    for address in ("/admin", "/admin/people", an, "/admin/classes", f"/admin/classes/{class_id}", "/admin/books"):
        answer = client.get(address)
        assert answer.status_code == (303 if username is None else 403)
        assert "Nguyễn Văn An" not in answer.text or username == "an"
    for address in (f"{an}/password", f"{an}/lock", f"/admin/classes/{class_id}/passwords", "/admin/books/resume"):
        assert client.post(address).status_code == (303 if username is None else 403)
    with school.database.read() as session:
        assert session.get_one(Person, school.people["an"].id).is_active
    assert audit.entries(school.database) == []


@pytest.mark.parametrize(
    "path", ["", "/password", "/lock", "/unlock", "/sign-out", "/unlink", "/classes", "/guardians"]
)
def test_unknown_people_are_not_found(client: TestClient, school: School, path: str) -> None:
    school.sign_in(client, "admin")
    data = {"full_name": "An", "username": "x1", "who": "an", "class_id": "1"}
    assert client.post(f"/admin/people/{UNKNOWN}{path}", data=data).status_code == 404
    assert audit.entries(school.database) == []


@pytest.mark.parametrize("path", ["", "/members", "/move-up", "/passwords", f"/members/{UNKNOWN}/leave"])
def test_unknown_classes_are_not_found(client: TestClient, school: School, path: str) -> None:
    school.sign_in(client, "admin")
    data = {"name": "6C", "school_year": "2030-2031", "policy": "tutor", "who": "an"}
    assert client.post(f"/admin/classes/999{path}", data=data).status_code == 404
    assert client.get("/admin/classes/999").status_code == 404
    assert client.get("/admin/classes/sau").status_code == 404
    assert audit.entries(school.database) == []


def test_pages_of_other_sites_change_nothing(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    answer = client.post(f"{person(school, 'an')}/lock", headers={"Origin": "http://xau.example"})
    assert answer.status_code == 403


# --- At a glance ------------------------------------------------------------------------------------------------------


def test_the_first_page_counts_and_leads(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    page = client.get("/admin").text
    for count in ("Học sinh</a> <strong>3", "Giáo viên</a> <strong>2", "Phụ huynh</a> <strong>2"):
        assert count in page
    assert "không rõ" in page


def test_a_new_admin_is_led_through_four_steps(client: TestClient, school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.delete(Person).where(Person.role != "admin"))
    school.sign_in(client, "admin")
    page = client.get("/admin").text
    steps = ["Nạp sách giáo khoa", "Nhập lớp và người dùng", "Ghi nhận đồng ý", "Phát mật khẩu"]
    assert [page.index(step) for step in steps] == sorted(page.index(step) for step in steps)


def test_consents_that_were_withdrawn_count_as_none(client: TestClient, school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.update(Consent).values(withdrawn_at=now()))
    school.sign_in(client, "admin")
    assert "Học sinh chưa có đồng ý</a> <strong>3" in client.get("/admin").text
    found = client.get("/admin/people?state=no_consent").text
    assert "3 người" in found
    assert "Phạm Thị Lan" not in found


# --- People -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["nguyen an", "Nguyễn", "code-an", "van an"])
def test_people_are_found(client: TestClient, school: School, words: str) -> None:
    school.sign_in(client, "admin")
    page = client.get("/admin/people", params={"words": words}).text
    assert "1 người" in page
    assert "Nguyễn Văn An" in page


@pytest.mark.parametrize(
    "query", ["page=x", "page=-1", "page=99999999999", "class_id=x", "role=x&state=x", "words=%00"]
)
def test_odd_queries_are_taken_calmly(client: TestClient, school: School, query: str) -> None:
    school.sign_in(client, "admin")
    assert client.get(f"/admin/people?{query}").status_code == 200


def test_pages_keep_what_was_searched(client: TestClient, school: School) -> None:
    with school.database.write() as session:
        for number in range(60):
            create_person(session, "student", f"hs{number}", f"Trần & Văn {number}")
    school.sign_in(client, "admin")
    page = client.get("/admin/people", params={"words": "tran &"}).text
    following = re.search(r'href="(/admin/people\?[^"]*page=2)"', page)
    assert following
    second = client.get(following[1].replace("&amp;", "&")).text
    assert "60 người, trang 2 trên 2" in second


def test_a_person_made_by_hand_signs_in_with_what_is_shown_once(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    form = {"role": "student", "full_name": "Đinh Văn Mới", "username": "moi", "class_id": str(school.classes["6A"])}
    answer = client.post("/admin/people/new", data=form)
    password = re.search(r'class="secret">([^<]+)<', answer.text)
    assert password
    assert answer.headers["cache-control"] == "no-store"
    assert password[1] not in str(answer.headers)
    assert check_password(school.database, "moi", password[1]).must_change_password
    assert "moi" in {each.username for each in members(school.database, school.classes["6A"], "student")}


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("full_name", {"full_name": " "}),
        ("username", {"username": "có dấu"}),
        ("username", {"username": "binh"}),
        ("code", {"code": "code-binh"}),
        ("email", {"email": "khong"}),
        ("phone", {"phone": "goi me"}),
        ("role", {"role": "king"}),
    ],
)
def test_what_a_form_refuses_stands_beside_its_field(
    client: TestClient, school: School, field: str, changed: dict[str, str]
) -> None:
    school.sign_in(client, "admin")
    form = {"role": "student", "full_name": "Mới", "username": "moi", "code": "moi-1", **changed}
    made = client.post("/admin/people/new", data=form)
    username = "lan" if field == "role" else "an"
    data = fields(school, username, **changed)
    kept = client.post(person(school, username), data=data)
    for answer in (made, kept):
        assert answer.status_code == 400
        assert f'id="{field}-error"' in answer.text
        assert 'aria-invalid="true"' in answer.text
    if field not in ("full_name", "role"):
        # What was typed is not lost.
        assert f'value="{changed[field]}"' in kept.text
    assert audit.entries(school.database) == []


def test_guardians_and_admins_are_in_no_class(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    form = {"role": "guardian", "full_name": "Mới", "username": "moi", "class_id": str(school.classes["6A"])}
    assert 'id="class_id-error"' in client.post("/admin/people/new", data=form).text
    with school.database.read() as session:
        assert session.scalar(sa.select(Person.id).where(Person.username == "moi")) is None


def test_a_change_is_kept_and_audited(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    answer = client.post(person(school, "an"), data=fields(school, "an", full_name="Nguyễn Văn Ân", email="a@b.vn"))
    page = said(client, answer)
    assert "Đã lưu." in page
    assert "Nguyễn Văn Ân" in page
    entry = audit.entries(school.database)[0]
    assert (entry.actor, entry.detail) == (school.people["admin"].public_id, "full_name, email")


def test_a_new_password_is_shown_once_and_ends_what_was(client: TestClient, school: School) -> None:
    token = open_session(school.database, school.people["an"].id, hours=1)
    school.sign_in(client, "admin")
    answer = client.post(f"{person(school, 'an')}/password")
    password = re.search(r'class="secret">([^<]+)<', answer.text)
    assert password
    assert password[1] not in str(answer.headers)
    assert password[1] not in client.get(person(school, "an")).text
    assert check_password(school.database, "an", password[1])
    assert password[1] not in repr(audit.entries(school.database))
    client.cookies.set(COOKIE, token)
    assert client.get("/password").status_code == 303


def test_locking_unlocking_and_signing_out(client: TestClient, school: School) -> None:
    open_session(school.database, school.people["an"].id, hours=1)
    school.sign_in(client, "admin")
    address = person(school, "an")
    assert "khỏi 1 thiết bị" in said(client, client.post(f"{address}/sign-out"))
    assert "Đã khóa" in said(client, client.post(f"{address}/lock"))
    assert "Mở khóa tài khoản" in client.get(address).text
    assert "Đã mở khóa" in said(client, client.post(f"{address}/unlock"))
    assert [entry.action for entry in audit.entries(school.database)] == [
        "person.unlock", "person.lock", "person.sign_out"
    ]  # fmt: skip


def test_an_account_elsewhere_is_unlinked(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    address = person(school, "an")
    assert f"{address}/unlink" not in client.get(address).text
    with school.database.write() as session:
        session.get_one(Person, school.people["an"].id).oidc_subject = "https://accounts.example 17"
    assert f"{address}/unlink" in client.get(address).text
    assert "Đã bỏ liên kết" in said(client, client.post(f"{address}/unlink"))
    with school.database.read() as session:
        assert session.get_one(Person, school.people["an"].id).oidc_subject is None
    assert [entry.action for entry in audit.entries(school.database)] == ["person.unlink"]


def test_the_last_admin_cannot_be_locked_or_demoted(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    locked = client.post(f"{person(school, 'admin')}/lock")
    demoted = client.post(person(school, "admin"), data=fields(school, "admin", role="teacher"))
    assert (locked.status_code, demoted.status_code) == (400, 400)
    assert "cuối cùng" in locked.text
    assert "cuối cùng" in demoted.text
    assert client.get("/admin").status_code == 200


def test_guardians_are_granted_and_revoked_at_once(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    address = person(school, "chi")
    said(client, client.post(f"{address}/guardians", data={"who": "code-me.an"}))
    assert {each.username for each in children_of(school.database, school.people["me.an"])} == {"an", "chi"}
    revoked = client.post(f"{address}/guardians/{school.people['me.an'].public_id}/revoke")
    assert "Đã thu hồi" in said(client, revoked)
    assert {each.username for each in children_of(school.database, school.people["me.an"])} == {"an"}
    again = client.post(f"{address}/guardians/{school.people['me.an'].public_id}/revoke")
    assert again.status_code == 404
    refused = client.post(f"{address}/guardians", data={"who": "lan"})
    assert refused.status_code == 400
    assert 'id="who-error"' in refused.text


def test_classes_of_a_person_change(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    address, class_id = person(school, "an"), school.classes["6B"]
    said(client, client.post(f"{address}/classes", data={"class_id": str(class_id)}))
    assert "an" in {each.username for each in members(school.database, class_id, "student")}
    said(client, client.post(f"{address}/classes/{class_id}/leave"))
    assert "an" not in {each.username for each in members(school.database, class_id, "student")}
    assert client.post(f"{address}/classes/{class_id}/leave").status_code == 404
    assert "Chưa chọn lớp" in said(client, client.post(f"{address}/classes"))


def test_names_are_text_and_never_markup(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    name = "<script>alert(1)</script>"
    client.post(person(school, "an"), data=fields(school, "an", full_name=name))
    for address in (person(school, "an"), "/admin/people", f"/admin/classes/{school.classes['6A']}"):
        page = client.get(address).text
        assert name not in page
        assert "&lt;script&gt;" in page


# --- Classes ----------------------------------------------------------------------------------------------------------


def test_a_class_is_made_filled_and_changed(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    form = {"name": "7C", "school_year": YEAR, "grade": "7", "policy": "explain"}
    made = client.post("/admin/classes", data=form)
    address = made.headers["location"]
    page = said(client, client.post(f"{address}/members", data={"who": "an\ncode-lan"}))
    assert "Đã thêm 2 người" in page
    partly = client.post(f"{address}/members", data={"who": "binh, khong-co"})
    assert partly.status_code == 400
    assert "Đã thêm 1 người" in partly.text
    assert ">khong-co</textarea>" in partly.text
    said(client, client.post(address, data={**form, "policy": "exam_off"}))
    assert "policy=exam_off" in audit.entries(school.database)[0].detail
    left = client.post(f"{address}/members/{school.people['an'].public_id}/leave")
    assert "Đã đưa ra" in said(client, left)


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("name", {"name": ""}),
        ("name", {"name": "6B"}),
        ("school_year", {"school_year": "2026"}),
        ("grade", {"grade": "0"}),
        ("policy", {"policy": "x"}),
    ],
)
def test_what_a_class_form_refuses(client: TestClient, school: School, field: str, changed: dict[str, str]) -> None:
    school.sign_in(client, "admin")
    form = {"name": "6C", "school_year": YEAR, "grade": "6", "policy": "tutor", **changed}
    for address in ("/admin/classes", f"/admin/classes/{school.classes['6A']}"):
        answer = client.post(address, data=form)
        assert answer.status_code == 400
        assert f'id="{field}-error"' in answer.text
    assert audit.entries(school.database) == []


def test_a_class_moves_up(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    address = f"/admin/classes/{school.classes['6A']}"
    page = client.get(f"{address}/move-up").text
    assert 'value="7A"' in page
    assert 'value="2027-2028"' in page
    stay = [school.people[name].public_id for name in ("an", "lan")]
    form = {"name": "7A", "school_year": "2027-2028", "grade": "7", "staying": stay}
    assert "2 người đi cùng, 1 người rời lớp" in said(client, client.post(f"{address}/move-up", data=form))
    refused = client.post(f"{address}/move-up", data=form)
    assert refused.status_code == 400
    assert 'id="school_year-error"' in refused.text


def test_slips_are_asked_for_and_shown_once(client: TestClient, school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.update(Person).where(Person.username == "an").values(must_change_password=True))
    school.sign_in(client, "admin")
    address = f"/admin/classes/{school.classes['6A']}/passwords"
    assert "1 người" in client.get(address).text
    slips = client.post(address).text
    passwords = re.findall(r'class="secret">([^<]+)<', slips)
    assert len(passwords) == 1
    assert "Trần Thị Bình" not in slips
    assert check_password(school.database, "an", passwords[0])
    assert passwords[0] not in client.get(address).text
    assert "không có phiếu" in client.get(f"/admin/classes/{school.classes['6B']}/passwords").text


def test_the_school_year_of_the_settings_is_offered(school: School) -> None:
    for settings, year in (({"school_year": "2031-2032"}, "2031-2032"), ({}, school_year_of(now().date()))):
        with TestClient(school.app(school=settings)) as client:
            school.sign_in(client, "admin")
            assert f'value="{year}"' in client.get("/admin/classes").text


def test_pages_speak_english_too(client: TestClient, school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.update(Person).values(language="en"))
    school.sign_in(client, "admin")
    for address in ("/admin", "/admin/people", person(school, "an"), "/admin/classes", "/admin/import", "/admin/books"):
        assert client.get(address).status_code == 200
