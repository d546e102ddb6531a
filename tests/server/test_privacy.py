"""Personal data over HTTP: consent, files, erasing, the audit log; and who may do none of it."""

import io
import json
import re
import tomllib
import zipfile
from importlib import resources

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from schoolroom import School

from deepedu.base.config import Settings
from deepedu.school.audit import entries, log
from deepedu.school.classes import has_consent, revoke
from deepedu.school.consent import consent_text, consents_of, withdraw_consent
from deepedu.school.erasure import certificates
from deepedu.server.access import rules_of
from deepedu.store.conversations import start_turn
from deepedu.store.tables import AuditEntry, Consent, Person

QUESTION = "Vì sao nước đá nổi?"


@pytest.fixture
def lively(school: School) -> School:
    """A school in which An has asked something."""
    start_turn(school.database, QUESTION, {}, None, owner=school.people["an"].owner)
    return school


def text_name(school: School) -> str:
    """The name of the text that the pages show."""
    return consent_text(Settings.model_validate({"store": {"data_dir": school.database.data_dir}})).name


def zip_of(content: bytes) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(content))


def last_entry(school: School) -> tuple[str, str, str]:
    newest = entries(school.database, limit=1)[0]
    return newest.actor, newest.action, newest.subject


def agreed(school: School, username: str) -> bool:
    return has_consent(school.database, school.people[username])


# --- Who may ---------------------------------------------------------------------------------------------------------


def test_every_page_is_for_its_roles_only(school: School) -> None:
    rules = {path: roles for (_, path), roles in rules_of(school.app()).items()}
    everybody = {"student", "teacher", "guardian", "admin"}
    assert rules["/me/export"] == rules["/me/privacy"] == everybody
    for path, roles in rules.items():
        if path.startswith(("/admin/privacy", "/admin/audit")):
            assert roles == {"admin"}, path
        elif path.startswith(("/family/consent", "/family/export")):
            assert roles == {"guardian"}, path
        elif path.startswith("/privacy/"):
            assert roles == {"teacher", "admin"}, path


@pytest.mark.parametrize("address", ["consent", "export"])
@pytest.mark.parametrize("guardian", ["bo.chi", "me.an"])
def test_guardians_reach_their_own_children_only(
    client: TestClient, lively: School, guardian: str, address: str
) -> None:
    lively.sign_in(client, guardian)
    own = {"bo.chi": "chi", "me.an": "an"}[guardian]
    for pupil in ("an", "binh", "chi"):
        answer = client.get(f"/family/{address}/{lively.people[pupil].public_id}")
        assert answer.status_code == (200 if pupil == own else 404), pupil
    assert client.get(f"/family/{address}/{'0' * 16}").status_code == 404


def test_a_revoked_guardian_reaches_nobody(client: TestClient, school: School) -> None:
    mother, an = school.people["me.an"], school.people["an"]
    with school.database.write() as session:
        revoke(session, mother.id, an.id)
    school.sign_in(client, "me.an")
    for address in ("consent", "export"):
        assert client.get(f"/family/{address}/{an.public_id}").status_code == 404
    form = {"text": text_name(school), "agreed": "yes", "assented": "yes", "sure": "yes"}
    for address in ("", "/withdraw", "/erasure"):
        assert client.post(f"/family/consent/{an.public_id}{address}", data=form).status_code == 404
    assert agreed(school, "an")


def test_teachers_reach_their_own_classes_only(client: TestClient, school: School) -> None:
    school.sign_in(client, "lan")
    for address in ("", "/forms"):
        assert client.get(f"/privacy/classes/{school.classes['6A']}{address}").status_code == 200
        assert client.get(f"/privacy/classes/{school.classes['6B']}{address}").status_code == 404
    form = {"public_id": school.people["chi"].public_id, "sure": "yes"}
    assert client.post(f"/privacy/classes/{school.classes['6B']}/withdraw", data=form).status_code == 404
    # A pupil of another class by way of one's own.
    assert client.post(f"/privacy/classes/{school.classes['6A']}/withdraw", data=form).status_code == 400
    assert agreed(school, "chi")


# --- Consent ---------------------------------------------------------------------------------------------------------


def test_a_guardian_withdraws_and_consents_again(client: TestClient, school: School) -> None:
    school.sign_in(client, "me.an")
    address = f"/family/consent/{school.people['an'].public_id}"
    assert "Đang đồng ý." in client.get(address).text
    assert client.post(f"{address}/withdraw").status_code == 400
    assert agreed(school, "an")
    assert client.post(f"{address}/withdraw", data={"sure": "yes"}).status_code == 303
    assert not agreed(school, "an")
    page = client.get(address).text
    assert "Đã rút lại." in page
    assert school.sign_in(client, "an").post("/api/ask", json={"question": "x"}).status_code == 403
    school.sign_in(client, "me.an")
    form = {"text": text_name(school), "agreed": "yes", "assented": "yes"}
    assert f'value="{form["text"]}"' in page
    assert client.post(address, data=form).status_code == 303
    newest = consents_of(school.database, school.people["an"])[0]
    assert (newest.guardian_name, newest.text_version) == (school.people["me.an"].full_name, form["text"])
    assert newest.recorded_by == school.people["me.an"].public_id


@pytest.mark.parametrize("missing", ["text", "agreed", "assented"])
def test_a_consent_is_whole_or_none(client: TestClient, school: School, missing: str) -> None:
    withdraw_consent(school.database, school.people["an"], by=school.people["admin"])
    school.sign_in(client, "me.an")
    form = {"text": text_name(school), "agreed": "yes", "assented": "yes"} | {missing: ""}
    answer = client.post(f"/family/consent/{school.people['an'].public_id}", data=form)
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text
    assert not agreed(school, "an")


def test_a_guardian_asks_for_erasure_and_the_admin_sees_it(client: TestClient, school: School) -> None:
    an = school.people["an"]
    school.sign_in(client, "me.an")
    assert client.post(f"/family/consent/{an.public_id}/erasure").status_code == 400
    client.post(f"/family/consent/{an.public_id}/erasure", data={"sure": "yes"})
    assert "Yêu cầu xóa đã được gửi" in client.get(f"/family/consent/{an.public_id}").text
    page = school.sign_in(client, "admin").get("/admin/privacy").text
    assert "Cần làm" in page
    assert f"/admin/privacy/people/{an.public_id}" in page


def papers(school: School, **changes: str) -> dict[str, str | list[str]]:
    """The form for An and Bình, filled in."""
    form: dict[str, str | list[str]] = {"text": text_name(school), "chosen": []}
    for username in ("an", "binh"):
        public_id = school.people[username].public_id
        assert isinstance(form["chosen"], list)
        form["chosen"].append(public_id)
        form |= {f"name.{public_id}": f"Người ký {username}", f"assent.{public_id}": "yes"}
    return form | changes


@pytest.fixture
def without(school: School) -> School:
    with school.database.write() as session:
        session.execute(sa.delete(Consent))
    return school


@pytest.mark.parametrize("who", ["lan", "admin"])
def test_signed_papers_of_a_class_are_recorded_after_a_second_look(
    client: TestClient, without: School, who: str
) -> None:
    address = f"/privacy/classes/{without.classes['6A']}"
    without.sign_in(client, who)
    assert "Chưa có đồng ý" in client.get(address).text
    look = client.post(address, data=papers(without))
    assert look.status_code == 200
    assert "Người ký binh" in look.text
    assert not agreed(without, "an"), "asked first"
    done = client.post(address, data=papers(without, sure="yes"))
    assert done.headers["location"] == address
    assert agreed(without, "an")
    assert agreed(without, "binh")
    assert "Cả lớp đã có đồng ý." in client.get(address).text
    assert last_entry(without)[:2] == (without.people[who].public_id, "consent.give")


def test_papers_that_cannot_be_recorded_are_told_and_the_form_stays_filled(client: TestClient, without: School) -> None:
    address = f"/privacy/classes/{without.classes['6A']}"
    binh = without.people["binh"].public_id
    without.sign_in(client, "lan")
    for changes, told in (
        ({f"name.{binh}": ""}, "Trần Thị Bình"),
        ({"text": "2020-01.vi"}, "vừa thay đổi"),
        ({"chosen": []}, "Chưa chọn học sinh nào"),
        # A pupil of another class is nobody here.
        ({"chosen": [without.people["chi"].public_id]}, "Chưa chọn học sinh nào"),
    ):
        for sure in ({}, {"sure": "yes"}):
            answer = client.post(address, data=papers(without, **changes) | sure)  # pyright: ignore[reportArgumentType]
            assert (answer.status_code, told in answer.text) == (400, True), changes
    form = papers(without)
    del form[f"assent.{binh}"]
    answer = client.post(address, data=form)
    assert answer.status_code == 400
    assert 'value="Người ký an"' in answer.text
    assert not agreed(without, "an")


def test_a_withdrawal_on_paper(client: TestClient, school: School) -> None:
    address = f"/privacy/classes/{school.classes['6A']}"
    school.sign_in(client, "lan")
    form = {"public_id": school.people["binh"].public_id}
    assert client.post(f"{address}/withdraw", data=form).status_code == 400
    assert agreed(school, "binh")
    client.post(f"{address}/withdraw", data=form | {"sure": "yes"})
    assert not agreed(school, "binh")
    assert "Đã rút lại" in client.get(address).text


def test_papers_to_print(client: TestClient, school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.delete(Consent).where(Consent.student_id == school.people["an"].id))
    address = f"/privacy/classes/{school.classes['6A']}/forms"
    school.sign_in(client, "lan")
    lacking, both = client.get(address).text, client.get(f"{address}?who=all&language=en").text
    assert lacking.count('class="sheet') == 1
    assert "Nguyễn Văn An" in lacking
    assert text_name(school) in lacking
    assert both.count('class="sheet') == 2
    assert "Signature of the pupil" in both
    one = client.get(f"{address}?who={school.people['binh'].public_id}").text
    assert one.count('class="sheet') == 1
    assert "Nguyễn Văn An" not in one


def test_an_admin_records_and_withdraws_for_one(client: TestClient, without: School) -> None:
    address = f"/admin/privacy/people/{without.people['an'].public_id}"
    without.sign_in(client, "admin")
    form = {"text": text_name(without), "name": "Hoàng Thu Hà", "assented": "yes"}
    assert client.post(f"{address}/consent", data=form | {"assented": ""}).status_code == 400
    assert client.post(f"{address}/consent", data=form).status_code == 303
    assert agreed(without, "an")
    assert client.post(f"{address}/withdraw").status_code == 400
    client.post(f"{address}/withdraw", data={"sure": "yes"})
    assert not agreed(without, "an")
    assert "Hoàng Thu Hà" in client.get(address).text


# --- Files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("username", ["an", "lan", "me.an", "admin"])
def test_everybody_gets_their_own_file_and_it_is_logged(client: TestClient, lively: School, username: str) -> None:
    answer = lively.sign_in(client, username).get("/me/export")
    person = lively.people[username]
    assert answer.headers["content-type"] == "application/zip"
    assert person.public_id in answer.headers["content-disposition"]
    assert answer.headers["cache-control"] == "no-store"
    assert json.loads(zip_of(answer.content).read("account.json"))["full_name"] == person.full_name
    told = "".join(zip_of(answer.content).read(name).decode() for name in zip_of(answer.content).namelist())
    assert (QUESTION in told) == (username == "an")
    assert last_entry(lively) == (person.public_id, "person.export", person.public_id)
    assert "/me/export" in client.get("/me/privacy").text


@pytest.mark.parametrize("is_open", [False, True])
def test_a_guardians_file_follows_the_schools_setting(lively: School, is_open: bool) -> None:
    with TestClient(lively.app(school={"guardian_transcripts": is_open}), follow_redirects=False) as client:
        lively.sign_in(client, "me.an")
        an = lively.people["an"]
        answer = client.get(f"/family/export/{an.public_id}")
        told = "".join(zip_of(answer.content).read(name).decode() for name in zip_of(answer.content).namelist())
        assert (QUESTION in told) is is_open
        assert an.full_name in told
        assert last_entry(lively) == (lively.people["me.an"].public_id, "person.export", an.public_id)


def test_the_admin_takes_anybodys_file(client: TestClient, lively: School) -> None:
    lively.sign_in(client, "admin")
    an = lively.people["an"]
    answer = client.get(f"/admin/privacy/people/{an.public_id}/export")
    assert QUESTION in zip_of(answer.content).read("conversations/00001.json").decode()
    assert last_entry(lively) == (lively.people["admin"].public_id, "person.export", an.public_id)
    assert client.get(f"/admin/privacy/people/{'0' * 16}/export").status_code == 404
    assert not list(lively.database.data_dir.rglob("*.zip"))


# --- Erasing ---------------------------------------------------------------------------------------------------------


def test_erasing_needs_the_username_and_a_reason(client: TestClient, lively: School) -> None:
    an = lively.people["an"]
    address = f"/admin/privacy/people/{an.public_id}"
    lively.sign_in(client, "admin")
    for form in (
        {"username": "binh", "reason": "left"},
        {"username": "an", "reason": ""},
        {"username": "an", "reason": "restored"},
        {},
    ):
        answer = client.post(f"{address}/erase", data=form)
        assert (answer.status_code, 'aria-invalid="true"' in answer.text) == (400, True), form
    assert certificates(lively.database) == {}
    done = client.post(f"{address}/erase", data={"username": " AN ", "reason": "left"})
    page = client.get(done.headers["location"])
    assert page.status_code == 200
    (number,) = certificates(lively.database)
    certificate = certificates(lively.database)[number]
    assert certificate.digest in page.text
    assert certificate.key in page.text
    assert an.full_name not in page.text
    assert client.get(f"/admin/privacy/certificates/{number}/json").json()["digest"] == certificate.digest
    assert f"/admin/privacy/certificates/{number}" in client.get("/admin/privacy").text
    assert client.get(f"/admin/privacy/certificates/{number + 1}").status_code == 404
    assert client.get(address).status_code == 404
    assert client.get(f"/admin/audit?person={an.public_id}").text.count("Giấy chứng nhận") >= 1


def test_who_was_erased_is_signed_out(client: TestClient, lively: School) -> None:
    lively.sign_in(client, "an")
    assert client.get("/me/privacy").status_code == 200
    cookies = dict(client.cookies)
    lively.sign_in(client, "admin")
    form = {"username": "an", "reason": "request"}
    client.post(f"/admin/privacy/people/{lively.people['an'].public_id}/erase", data=form)
    client.cookies.clear()
    client.cookies.update(cookies)
    assert client.get("/me/privacy").headers["location"].startswith("/login")


def test_the_last_admin_stays(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    form = {"username": "admin", "reason": "left"}
    answer = client.post(f"/admin/privacy/people/{school.people['admin'].public_id}/erase", data=form)
    assert answer.status_code == 400
    assert "cuối cùng" in answer.text


def test_pages_of_other_sites_erase_nobody(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    form = {"username": "an", "reason": "left"}
    foreign = {"Origin": "http://xau.example"}
    address = f"/admin/privacy/people/{school.people['an'].public_id}/erase"
    assert client.post(address, data=form, headers=foreign).status_code == 403
    assert certificates(school.database) == {}


# --- The overview ----------------------------------------------------------------------------------------------------


def test_people_are_found_without_accents(client: TestClient, school: School) -> None:
    school.sign_in(client, "admin")
    page = client.get("/admin/privacy", params={"words": "tran binh"}).text
    assert school.people["binh"].public_id in page
    assert school.people["an"].public_id not in page
    assert "Không tìm thấy ai." in client.get("/admin/privacy", params={"words": "khong co"}).text


def test_the_overview_tells_classes_periods_and_the_last_run(client: TestClient, without: School) -> None:
    without.sign_in(client, "admin")
    page = client.get("/admin/privacy").text
    assert "thiếu 2" in page
    assert "Chưa xóa quá hạn lần nào." in page
    assert client.post("/admin/privacy/retention").status_code == 303
    assert "Lần xóa quá hạn gần nhất" in client.get("/admin/privacy").text
    assert last_entry(without)[:2] == (without.people["admin"].public_id, "retention.run")


# --- The audit log ---------------------------------------------------------------------------------------------------


@pytest.fixture
def told(client: TestClient, school: School) -> School:
    """Sixty entries, and the admin looking at them."""
    for number in range(60):
        log(school.database, school.people["lan"].public_id, "person.create", f"thing:{number}")
    log(school.database, school.people["admin"].public_id, "person.export", school.people["an"].public_id, "=1+1")
    school.sign_in(client, "admin")
    return school


def test_entries_by_pages(client: TestClient, told: School) -> None:
    page = client.get("/admin/audit").text
    assert page.count("<tr>") == 51
    assert told.people["an"].full_name in page
    older = re.search(r'href="(/admin/audit\?[^"]*before=\d+)"', page)
    assert older is not None
    rest = client.get(older[1].replace("&amp;", "&")).text
    assert rest.count("<tr>") == 12
    assert "before=" not in rest


@pytest.mark.usefixtures("told")
def test_entries_by_filters(client: TestClient) -> None:
    assert client.get("/admin/audit?person=an").text.count("<tr>") == 2
    assert client.get("/admin/audit?action=person.export&person=code-an").text.count("<tr>") == 2
    assert "Không có mục nào." in client.get("/admin/audit?last=2000-01-01").text
    for query in ("person=khong-co-ai", "first=hom-qua", "last=31/12/2026"):
        answer = client.get(f"/admin/audit?{query}")
        assert (answer.status_code, 'class="problem"' in answer.text) == (400, True), query
    assert client.get("/admin/audit?before=x").status_code == 200


def test_the_chain_is_verified(client: TestClient, told: School) -> None:
    page = client.post("/admin/audit/verify").text
    assert "Chuỗi nguyên vẹn: 61 mục." in page
    assert last_entry(told)[1] == "audit.verify"
    with told.database.write() as session:
        session.execute(sa.update(AuditEntry).where(AuditEntry.number == 30).values(subject="thing:x"))
    broken = client.post("/admin/audit/verify").text
    assert 'role="alert"' in broken
    assert "entry 30" in broken


def test_entries_as_csv_without_formulas_and_names(client: TestClient, told: School) -> None:
    answer = client.get("/admin/audit.csv?action=person")
    lines = answer.content.decode("utf-8-sig").splitlines()
    assert len(lines) == 62
    assert lines[0] == "number,at,actor,action,subject,detail"
    assert lines[1].endswith(",'=1+1")
    for person in told.people.values():
        assert person.full_name not in answer.text
    assert last_entry(told)[1] == "audit.export"


# --- Words -----------------------------------------------------------------------------------------------------------


def test_every_text_of_these_pages_is_there_in_english() -> None:
    web = resources.files("deepedu.server").joinpath("web")
    known: dict[str, str] = {}
    for file in web.iterdir():
        if re.fullmatch(r"en(_\w+)?\.toml", file.name):
            known |= tomllib.loads(file.read_text(encoding="utf-8"))
    texts: set[str] = set()
    for file in web.joinpath("templates").iterdir():
        if file.name.startswith(("privacy", "audit")):
            found = re.findall(
                r"""_\(\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""", file.read_text(encoding="utf-8")
            )
            texts |= {one or other for one, other in found}
    assert len(texts) > 150
    assert sorted(texts - set(known)) == []
    for text in texts:
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", known[text])), text


@pytest.mark.parametrize("username", ["an", "me.an", "lan", "admin"])
def test_pages_open_in_english_too(client: TestClient, school: School, username: str) -> None:
    with school.database.write() as session:
        session.execute(sa.update(Person).values(language="en"))
    school.sign_in(client, username)
    an, six = school.people["an"].public_id, school.classes["6A"]
    pages = {
        "an": ["/me/privacy"],
        "me.an": ["/me/privacy", f"/family/consent/{an}"],
        "lan": ["/me/privacy", f"/privacy/classes/{six}", f"/privacy/classes/{six}/forms?who=all"],
        "admin": ["/admin/privacy", f"/admin/privacy/people/{an}", "/admin/audit", f"/privacy/classes/{six}"],
    }
    for address in pages[username]:
        assert client.get(address).status_code == 200, address
