"""Importing a roster on the page: seen before it is done, done once, and what is taken away afterwards."""

import csv
import io
import re
import threading
import time

import openpyxl
import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from schoolroom import YEAR, School

from deepedu.school import audit
from deepedu.school.accounts import account_of, check_password, create_person
from deepedu.school.classes import children_of
from deepedu.server.import_routes import KEPT_S
from deepedu.store.tables import Person

ROSTER = (
    "Mã học sinh,Họ và tên,Lớp,Ngày sinh,Họ tên mẹ,SĐT mẹ\n"
    "HS001,Đinh Văn Dũng,6A,01/02/2015,Hoàng Thu Nga,0901234567\n"
    "HS002,Trần Thị Yến,7C,03/04/2014,,\n"
    "HS003,Lê Mai Hoa,6A,31/02/2015,,\n"
)


@pytest.fixture
def admin(client: TestClient, school: School) -> TestClient:
    return school.sign_in(client, "admin")


def send(client: TestClient, content: str | bytes = ROSTER, name: str = "danh-sach.csv", year: str = YEAR):
    return client.post("/admin/import", data={"school_year": year}, files={"file": (name, content)})


def preview(client: TestClient, content: str | bytes = ROSTER) -> tuple[str, str]:
    """Address and page of a preview."""
    address = send(client, content).headers["location"]
    return address, client.get(address).text


def confirm(client: TestClient, address: str, page: str):
    digest = re.search(r'name="digest" value="([0-9a-f]+)"', page)
    assert digest, page
    return client.post(f"{address}/confirm", data={"digest": digest[1]})


def people(school: School) -> int:
    with school.database.read() as session:
        return session.scalar(sa.select(sa.func.count()).select_from(Person)) or 0


def rows(content: bytes) -> list[list[str]]:
    assert content.startswith(b"\xef\xbb\xbf"), "Excel needs the mark"
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))


@pytest.mark.parametrize("username", ["an", "lan", "me.an", None])
def test_nobody_else_imports(client: TestClient, school: School, username: str | None) -> None:
    school.sign_in(client, "admin")
    address, _ = preview(client)
    school.sign_in(client, username)
    status = 303 if username is None else 403
    answers = [client.get("/admin/import"), send(client), client.get(address), client.get(f"{address}/report.csv")]
    answers += [client.post(f"{address}/{action}") for action in ("confirm", "cancel", "passwords.csv")]
    assert {answer.status_code for answer in answers} == {status}
    assert people(school) == 8


def test_nothing_is_written_before_it_is_confirmed(admin: TestClient, school: School) -> None:
    _, page = preview(admin)
    for told in ("Tạo tài khoản</span>", "Chưa ghi gì", "7C", "31/02/2015", "Ngày sinh", "Đinh Văn Dũng"):
        assert told.removesuffix("</span>") in page
    assert people(school) == 8
    assert audit.entries(school.database) == []


def test_from_the_file_to_the_first_sign_in(admin: TestClient, school: School) -> None:
    address, page = preview(admin)
    result = confirm(admin, address, page)
    assert result.headers["location"] == address
    assert "Đã nhập danh sách" in admin.get(address).text
    handed = admin.post(f"{address}/passwords.csv")
    assert "attachment" in handed.headers["content-disposition"]
    assert handed.headers["cache-control"] == "no-store"
    lines = rows(handed.content)
    assert len(lines) - 1 == people(school) - 8
    for _, _, username, password in lines[1:]:
        assert check_password(school.database, username, password).must_change_password
    # Once.
    assert admin.post(f"{address}/passwords.csv").status_code == 404
    assert "không còn ở máy chủ" in admin.get(address).text
    mother = next(line[2] for line in lines if "Nga" in line[1])
    with school.database.read() as session:
        account = account_of(session.scalars(sa.select(Person).where(Person.username == mother)).one())
    assert [child.full_name for child in children_of(school.database, account)] == ["Đinh Văn Dũng"]


def test_the_report_tells_of_every_line(admin: TestClient) -> None:
    address, page = preview(admin)
    before = rows(admin.get(f"{address}/report.csv").content)
    confirm(admin, address, page)
    after = rows(admin.get(f"{address}/report.csv").content)
    assert before == after
    assert {line[1] for line in after[1:]} == {"2", "3", "4"}


def test_a_second_click_and_a_second_import_change_nothing(admin: TestClient, school: School) -> None:
    address, page = preview(admin)
    confirm(admin, address, page)
    count, entries = people(school), len(audit.entries(school.database, limit=999))
    assert confirm(admin, address, page).status_code == 303
    again, page = preview(admin)
    assert "Không có gì để ghi" in page
    assert "/confirm" not in page
    assert admin.post(f"{again}/confirm", data={"digest": ""}).status_code == 409
    assert (people(school), len(audit.entries(school.database, limit=999))) == (count, entries)


def test_what_changed_meanwhile_is_shown_again(admin: TestClient, school: School) -> None:
    address, page = preview(admin)
    with school.database.write() as session:
        create_person(session, "student", "dung", "Đinh Văn Dũng", code="HS001")
    changed = confirm(admin, address, page)
    assert changed.status_code == 409
    assert 'role="alert"' in changed.text
    assert people(school) == 9
    assert confirm(admin, address, changed.text).status_code == 303


def test_two_admins_at_once(school: School) -> None:
    """Each sends the same roster and confirms at the same moment: everybody is made once."""
    with school.database.write() as session:
        school.people["hai"] = account_of(
            create_person(session, "admin", "hai", "Quản Trị Hai", password="x-mat-khau-x", must_change_password=False)
        )
    with TestClient(school.app(), follow_redirects=False) as one:
        two = TestClient(one.app, follow_redirects=False)
        school.sign_in(one, "admin")
        school.sign_in(two, "hai")
        seen = [(client, *preview(client)) for client in (one, two)]
        codes: list[int] = []
        both = threading.Barrier(2)

        def go(client: TestClient, address: str, page: str) -> None:
            both.wait()
            codes.append(confirm(client, address, page).status_code)

        threads = [threading.Thread(target=go, args=each) for each in seen]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(codes) == [303, 409]
        # The other's upload is no business of this admin.
        assert two.get(seen[0][1]).status_code == 404
    with school.database.read() as session:
        assert session.scalar(sa.select(sa.func.count()).where(Person.code == "HS001")) == 1


@pytest.mark.parametrize(
    ("content", "name", "told"),
    [
        (b"", "trong.csv", "rỗng"),
        (b"\x00\x01\x02" * 500, "anh.csv", "trong.csv|không phải tệp"),
        (b"a,b\n1,2\n", "khac.csv", "Họ và tên"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 600, "cu.xls", ".xlsx"),
        (b"PK\x03\x04hong", "hong.xlsx", "hỏng"),
    ],
)
def test_files_that_cannot_be_read_are_told_beside_the_field(
    admin: TestClient, content: bytes, name: str, told: str
) -> None:
    answer = send(admin, content, name)
    assert answer.status_code == 400
    assert 'id="file-error"' in answer.text
    assert re.search(told, answer.text)


def test_no_file_no_form_and_an_odd_year(admin: TestClient) -> None:
    assert "Chưa chọn tệp" in admin.post("/admin/import", files={"other": ("x.csv", "x")}).text
    plain = admin.post("/admin/import", data={"file": "x"})
    assert plain.status_code == 400
    assert "multipart" in plain.text
    cut = admin.post(
        "/admin/import", content=b"--x\r\nnot a part", headers={"Content-Type": "multipart/form-data; boundary=x"}
    )
    assert cut.status_code == 400
    year = send(admin, year="2026")
    assert year.status_code == 400
    assert 'id="school_year-error"' in year.text


def test_a_file_that_is_too_large_is_refused(admin: TestClient) -> None:
    answer = send(admin, b"x" * 20_100_000)
    assert answer.status_code == 400
    assert "giới hạn là 20 MB" in answer.text


def test_an_excel_file_with_a_sheet_for_each_class(admin: TestClient, school: School) -> None:
    book = openpyxl.Workbook()
    for title, name in (("6A", "Đinh Văn Dũng"), ("6B", "Lê Mai Hoa")):
        sheet = book.create_sheet(title)
        sheet.append(["Mã học sinh", "Họ và tên"])
        sheet.append([f"HS-{title}", name])
    book.remove(book.worksheets[0])
    out = io.BytesIO()
    book.save(out)
    address, page = preview(admin, out.getvalue())
    confirm(admin, address, page)
    assert people(school) == 10


def test_formulas_in_names_are_no_formulas_in_what_is_taken_away(admin: TestClient) -> None:
    roster = (
        'Mã học sinh,Họ và tên,Lớp\n=1+1,"=HYPERLINK(""http://xau"")",6A\n"@SUM(A1)","+Trần Văn Xấu",6A\nHS9,Tốt,-6A\n'
    )
    address, page = preview(admin, roster)
    assert "<script" not in page.replace('<script src="/static/', "")
    contents = [admin.get(f"{address}/report.csv").content]
    if 'name="digest"' in page:
        confirm(admin, address, page)
        contents += [admin.post(f"{address}/passwords.csv").content, admin.get(f"{address}/report.csv").content]
    cells = [cell for content in contents for line in rows(content) for cell in line]
    assert any("HYPERLINK" in cell for cell in cells)
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@", "\t", "\r"))]


def test_a_roster_is_forgotten_after_a_while_when_replaced_and_when_dropped(
    admin: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = preview(admin)
    second, _ = preview(admin)
    assert admin.get(first).status_code == 404
    assert admin.get(second).status_code == 200
    assert admin.post(f"{second}/cancel").status_code == 303
    assert admin.get(second).status_code == 404
    third, _ = preview(admin)
    later = time.monotonic() + KEPT_S + 1
    monkeypatch.setattr("deepedu.server.import_routes.time.monotonic", lambda: later)
    assert admin.get(third).status_code == 404


def test_names_of_the_roster_are_text_and_never_markup(admin: TestClient) -> None:
    roster = "Mã học sinh,Họ và tên,Lớp,Email\nHS1,<b>An</b> Nguyễn,6A,<img src=x>\nHS2,Lê <i>Bình</i>,6A,\n"
    _, page = preview(admin, roster)
    assert "<b>An" not in page
    assert "<img src=x" not in page
