"""Textbooks on the admin's page: sent, read in the background one after the other, described, removed."""

import sys
import time
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from schoolroom import School

from deepedu.base.config import Settings
from deepedu.curriculum.metadata import Metadata
from deepedu.curriculum.sample import SAMPLE_PDF
from deepedu.school import audit
from deepedu.server.access import COOKIE
from deepedu.server.book_intake import UPLOADS_NAME, BookIntake
from deepedu.server.upload import safe_name
from deepedu.store import Database, Lease
from deepedu.store.library import list_books
from deepedu.store.tables import Book, Passage

WAIT_S = 60
TEXT = "CHƯƠNG I. SÔNG NGÒI\n\n" + "".join(
    f"Bài {n}. Tên bài {n}\n\nNước ta có nhiều sông ngòi, số {n}.\n\n" for n in (1, 2)
)


@pytest.fixture
def admin(client: TestClient, school: School) -> TestClient:
    return school.sign_in(client, "admin")


def send(client: TestClient, *files: tuple[str, str | bytes], **given: str):
    return client.post("/admin/books", data=given, files=[("files", file) for file in files])


def until(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)
    return found


def ended(client: TestClient) -> list[dict[str, Any]]:
    """Uploads, once nothing is under way any more."""

    def look() -> list[dict[str, Any]]:
        uploads = client.get("/api/admin/books/progress").json()["uploads"]
        return [] if any(each["status"] in ("waiting", "reading") for each in uploads) else uploads

    return until(look)


@pytest.mark.parametrize("username", ["an", "lan", "me.an", None])
def test_nobody_else_touches_the_books(client: TestClient, school: School, username: str | None) -> None:
    school.sign_in(client, username)
    status = 303 if username is None else 403
    answers = [client.get("/admin/books"), client.get("/admin/books/1"), send(client, ("a.txt", TEXT))]
    answers += [client.post(f"/admin/books/{path}") for path in ("1", "1/delete", "resume")]
    assert {answer.status_code for answer in answers} == {status}
    assert client.get("/api/admin/books/progress").status_code in (401, 403)
    assert len(list_books(school.database)) == 1
    assert not list((school.database.data_dir / UPLOADS_NAME).glob("*"))


def test_a_body_of_somebody_else_is_not_even_read(client: TestClient, school: School) -> None:
    """Whoever may not upload cannot fill the disk by trying."""
    school.sign_in(client, "an")
    headers = {
        "host": "testserver",
        "origin": "http://testserver",
        "cookie": f"{COOKIE}={client.cookies[COOKIE]}",
        "content-type": "multipart/form-data; boundary=x",
    }
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/admin/books", "raw_path": b"/admin/books", "query_string": b"", "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("testclient", 1), "server": ("testserver", 80), "app": client.app,
    }  # fmt: skip
    read: list[int] = []
    answered: list[int] = []

    async def receive() -> dict[str, Any]:
        read.append(1)
        return {"type": "http.request", "body": b"x" * 1000, "more_body": len(read) < 100}

    async def answer(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answered.append(message["status"])

    assert client.portal is not None
    client.portal.call(client.app, scope, receive, answer)
    assert (answered, read) == ([403], [])


def test_a_book_from_upload_to_search(admin: TestClient, school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded: list[Settings] = []
    monkeypatch.setattr("deepedu.server.book_intake.start_after_ingest", embedded.append)
    answer = send(admin, ("địa lí 8.txt", TEXT), title="Địa lí tám", grade="8", subject="Địa lí", series="Cánh Diều")
    assert answer.status_code == 303
    (upload,) = ended(admin)
    assert upload["status"] == "done", upload
    book = next(book for book in list_books(school.database) if book.title == "Địa lí tám")
    assert (book.status, book.grade, book.subject, book.series, book.source_name) == (
        "ready", 8, "Địa lí", "Cánh Diều", "địa lí 8.txt"
    )  # fmt: skip
    assert book.passages > 0
    assert len(embedded) == 1
    page = admin.get("/admin/books").text
    assert "Địa lí tám" in page
    assert "sẵn sàng" in page
    assert not list((school.database.data_dir / UPLOADS_NAME).glob("*")), "nothing is left behind"
    assert "data-progress" not in page, "nothing is followed any more"
    entry = audit.entries(school.database)[0]
    assert (entry.action, entry.subject) == ("book.upload", f"upload:{upload['token']}")


def test_a_page_that_follows_knows_when_it_is_out_of_date(admin: TestClient, school: School) -> None:
    def states() -> str:
        return admin.get("/api/admin/books/progress").json()["states"]

    with school.database.write() as session:
        session.execute(sa.update(Book).values(status="reading", pages_read=1, lease=str(Lease.mine())))
    assert f'data-states="{states()}"' in admin.get("/admin/books").text
    before = states()
    with school.database.write() as session:
        session.execute(sa.update(Book).values(pages_read=2))
    assert states() == before, "counts of pages are followed without loading the page anew"
    with school.database.write() as session:
        session.execute(sa.update(Book).values(status="ready"))
    assert states() != before


def test_several_at_once_are_read_one_after_the_other(admin: TestClient, school: School) -> None:
    files = [(f"sach-{n}.txt", TEXT + f"Thêm {n}.") for n in range(3)]
    send(admin, *files)
    assert [each["status"] for each in ended(admin)] == ["done"] * 3
    assert len(list_books(school.database)) == 4


def test_what_is_there_already_is_left_alone(admin: TestClient, school: School) -> None:
    send(admin, ("ten-khac.pdf", SAMPLE_PDF.read_bytes()))
    (upload,) = ended(admin)
    assert upload["status"] == "done"
    assert "đã có trong thư viện" in upload["message"]
    assert len(list_books(school.database)) == 1


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("anh.pdf", b"\x89PNG\r\n" + b"x" * 99, "tệp ảnh"),
        ("trong.txt", b"", "tệp rỗng"),
        ("sach.docx", b"\x00\x01\x02\x03" * 99, "DOCX"),
        ("bang.xlsx", b"PK\x03\x04hong", "hỏng"),
    ],
)
def test_files_are_judged_by_their_content(
    admin: TestClient, school: School, name: str, content: bytes, told: str
) -> None:
    answer = send(admin, (name, content), ("tot.txt", TEXT))
    assert answer.status_code == 400
    assert 'id="files-error"' in answer.text
    assert told in answer.text
    assert "Đã nhận 1 tệp" in answer.text
    assert [each["name"] for each in ended(admin)] == ["tot.txt"]
    assert not list((school.database.data_dir / UPLOADS_NAME).glob("*"))


def test_a_damaged_document_is_told_in_words(admin: TestClient, school: School) -> None:
    send(admin, ("hong.pdf", b"%PDF-1.7\n" + b"x" * 500))
    (upload,) = ended(admin)
    assert upload["status"] == "failed"
    assert upload["message"]
    page = admin.get("/admin/books").text
    assert "không đọc được" in page
    assert upload["message"][:20] in page
    assert len(list_books(school.database)) == 1


@pytest.mark.parametrize(
    ("field", "files", "given"),
    [
        ("files", 0, {}),
        ("title", 2, {"title": "Toán"}),
        ("title", 1, {"title": "x" * 301}),
        ("grade", 1, {"grade": "13"}),
        ("grade", 1, {"grade": "tám"}),
    ],
)
def test_what_the_form_refuses(admin: TestClient, field: str, files: int, given: dict[str, str]) -> None:
    sent = [(f"{n}.txt", TEXT) for n in range(files)] or [("", b"")]
    answer = send(admin, *sent, **given)
    assert answer.status_code == 400
    assert f'id="{field}-error"' in answer.text
    assert admin.get("/api/admin/books/progress").json()["uploads"] == []


def test_too_large_is_refused_before_it_is_kept(school: School) -> None:
    with TestClient(school.app(ingest={"max_file_mb": 0.001}), follow_redirects=False) as client:
        school.sign_in(client, "admin")
        answer = send(client, ("lon.txt", TEXT * 2000))
        assert answer.status_code == 400
        assert "giới hạn" in answer.text
        just_above = send(client, ("vua.txt", "Bài 1. Nước\n\n" + "Nước sôi. " * 200))
        assert just_above.status_code == 400
    assert not list((school.database.data_dir / UPLOADS_NAME).glob("*"))


def test_a_reading_that_was_killed_shows_and_goes_on(school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.update(Book).values(status="reading", pages_read=1, lease="elsewhere/1/1"))
        gone = replace(Lease.mine(), pid=2**22 - 3, birth="1")
        session.execute(sa.update(Book).values(lease=str(gone)))
        session.execute(sa.delete(Passage))
        session.execute(sa.text("DELETE FROM sections"))
        session.execute(sa.text("DELETE FROM pages WHERE number > 1"))
    with TestClient(school.app(), follow_redirects=False) as client:
        school.sign_in(client, "admin")
        page = client.get("/admin/books").text
        assert "bị ngắt" in page
        assert "trang 1 trên" in page
        assert client.post("/admin/books/resume").status_code == 303
        until(lambda: list_books(school.database)[0].status == "ready")
        assert audit.entries(school.database)[0].action == "book.resume"


def test_files_that_waited_survive_the_server(school: School) -> None:
    settings = Settings.model_validate({"store": {"data_dir": school.database.data_dir}})
    waiting = BookIntake(settings, school.database, command=[sys.executable, "-c", "import time; time.sleep(60)"])
    for n in (1, 2):
        source = school.database.data_dir / "nguon.txt"
        source.write_text(f"{TEXT}{n}", encoding="utf-8")
        with source.open("rb") as file:
            waiting.add(file, f"sach {n}.txt", Metadata(title=f"Sách {n}"))
    until(lambda: waiting.uploads()[0].status == "reading")
    waiting.close()
    with TestClient(school.app(), follow_redirects=False) as client:
        school.sign_in(client, "admin")
        assert client.get("/admin/books").text.count("bị ngắt</span>") == 2
        client.post("/admin/books/resume")
        assert [each["status"] for each in ended(client)] == ["done", "done"]
        assert {book.title for book in list_books(school.database)} >= {"Sách 1", "Sách 2"}


@pytest.mark.parametrize(
    "script", ["import os; os.kill(os.getpid(), 11)", "raise SystemExit('het dung luong')", "print('?')"]
)
def test_a_reader_that_dies_takes_nothing_along(school: School, tmp_path: Path, script: str) -> None:
    settings = Settings.model_validate({"store": {"data_dir": school.database.data_dir}})
    intake = BookIntake(settings, school.database, command=[sys.executable, "-c", script])
    path = tmp_path / "a.txt"
    path.write_text(TEXT, encoding="utf-8")
    for _ in range(2):
        with path.open("rb") as file:
            intake.add(file, "a.txt", Metadata())
    until(lambda: all(each.status == "failed" for each in intake.uploads()))
    assert all("dừng đột ngột" in each.message for each in intake.uploads())
    intake.close()


def test_a_book_is_described_and_its_guesses_settled(admin: TestClient, school: School) -> None:
    book = list_books(school.database)[0]
    page = admin.get(f"/admin/books/{book.id}").text
    assert "Mục lục" in page
    form = {"title": "Tên mới", "grade": "6", "subject": "Khoa học tự nhiên", "series": ""}
    assert admin.post(f"/admin/books/{book.id}", data=form).status_code == 303
    described = list_books(school.database)[0]
    assert (described.title, described.grade, described.series, described.guessed) == ("Tên mới", 6, None, ())
    assert audit.entries(school.database)[0].action == "book.describe"
    refused = admin.post(f"/admin/books/{book.id}", data={**form, "title": " "})
    assert refused.status_code == 400
    assert 'id="title-error"' in refused.text


def test_deleting_a_book_is_audited_with_it(admin: TestClient, school: School) -> None:
    book_id = list_books(school.database)[0].id
    assert "Xóa hẳn" in admin.get(f"/admin/books/{book_id}").text
    assert admin.post(f"/admin/books/{book_id}/delete").status_code == 303
    assert list_books(school.database) == []
    assert not list(school.database.documents_dir.glob("*.pdf"))
    assert audit.entries(school.database)[0].action == "book.delete"
    assert "Thư viện còn trống" in admin.get("/admin/books").text


def test_a_book_that_is_being_read_is_not_deleted(admin: TestClient, school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.update(Book).values(status="reading", lease=str(Lease.mine())))
    book_id = list_books(school.database)[0].id
    assert admin.post(f"/admin/books/{book_id}/delete").status_code == 409
    assert audit.entries(school.database) == []


@pytest.mark.parametrize("path", ["", "/delete"])
def test_unknown_books_are_not_found(admin: TestClient, school: School, path: str) -> None:
    assert admin.get("/admin/books/999").status_code == 404
    assert admin.post(f"/admin/books/999{path}", data={"title": "x"}).status_code == 404
    assert audit.entries(school.database) == []


@pytest.mark.parametrize(
    ("filename", "kept"),
    [
        ("../../etc/passwd.txt", "passwd.txt"),
        ("C:\\Users\\lan\\Toán 6.pdf", "Toán 6.pdf"),
        (".\x00\n.", "tep"),
        ("-rf.txt", "-rf.txt"),
        ("x" * 300 + ".pdf", "x" * 60 + ".pdf"),
    ],
)
def test_names_of_uploads_stay_in_their_folder(filename: str, kept: str) -> None:
    assert safe_name(filename) == kept


def test_a_name_like_an_option_is_a_name(admin: TestClient, school: School) -> None:
    send(admin, ("--help.txt", TEXT))
    assert [each["status"] for each in ended(admin)] == ["done"]
    assert "--help.txt" in {book.source_name for book in list_books(school.database)}


def test_intake_is_closed_with_the_server(school: School, sample_library: Database) -> None:
    app = school.app()
    with TestClient(app):
        pass
    assert app.state.book_intake.uploads() == []
    assert list_books(sample_library)[0].status == "ready"
