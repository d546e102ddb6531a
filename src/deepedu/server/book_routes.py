"""The textbooks for the admin: uploaded, followed while they are read, described, removed."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from deepedu.base.errors import BadRequest, DocumentTooLarge, IngestError, LLMError, NotFound, StoreBusy
from deepedu.base.prefix_files import book_tag
from deepedu.curriculum.metadata import SUBJECTS, Metadata
from deepedu.curriculum.removal import remove_book, remove_files
from deepedu.llm.client import ChatClient
from deepedu.llm.prefix_cache import PrefixCacheClient
from deepedu.school import audit
from deepedu.school.accounts import Account
from deepedu.school.people import BadField
from deepedu.server.access import Admin, Allow
from deepedu.server.admin_routes import Text
from deepedu.server.book_intake import BookIntake, Upload
from deepedu.server.engine_process import running_engine
from deepedu.server.pages import go, is_number, render
from deepedu.server.tutor_routes import Services
from deepedu.server.upload import files_of, received, text_of
from deepedu.store import Database, Lease
from deepedu.store.library import BookSummary, book_detail, list_books
from deepedu.store.tables import Book

log = logging.getLogger(__name__)

SERIES = ("Kết nối tri thức với cuộc sống", "Chân trời sáng tạo", "Cánh Diều")
_FIELDS: tuple[str, ...] = ("title", "grade", "subject", "series")
_LONGEST = {"title": 300, "subject": 100, "series": 200}
# Boundaries and headers around the files of a form.
_AROUND_BYTES = 100_000


@asynccontextmanager
async def _intake(app: FastAPI) -> AsyncIterator[None]:
    services = app.state.services
    app.state.book_intake = intake = BookIntake(services.settings, services.database)
    try:
        yield
    finally:
        await asyncio.to_thread(intake.close)


router = APIRouter(lifespan=_intake)


@router.get("/admin/books", response_class=HTMLResponse, include_in_schema=False)
def books_page(request: Request, services: Services, account: Admin) -> Response:
    """The books with their state, what is on its way, and a form to upload more."""
    return _books(request, services, account)


@router.post("/admin/books", response_class=HTMLResponse, include_in_schema=False)
async def upload(request: Request, services: Services, account: Admin) -> Response:
    """Takes documents in; they are read in the background, one after the other."""
    max_bytes = int(services.settings.ingest.max_file_mb * 1e6) + _AROUND_BYTES
    given = dict.fromkeys(_FIELDS, "")
    refused: list[str] = []
    taken = 0
    try:
        async with received(request, max_bytes=max_bytes) as form:
            given = {name: text_of(form, name) for name in given}
            files = files_of(form, "files")
            metadata = _metadata(given, len(files))
            for file in files:
                try:
                    await asyncio.to_thread(_take, request, account, file.file, file.filename or "", metadata)
                    taken += 1
                except IngestError as error:
                    refused.append(f"{file.filename}: {error}")
    except BadField as error:
        return await asyncio.to_thread(_books, request, services, account, given, {error.field: [str(error)]})
    except (BadRequest, DocumentTooLarge) as error:
        return await asyncio.to_thread(_books, request, services, account, given, {"files": [str(error)]})
    if refused:
        return await asyncio.to_thread(_books, request, services, account, given, {"files": refused}, taken)
    return go("/admin/books", f"Đã nhận {taken} tệp. Việc đọc chạy nền, trang này cho biết tiến độ.")


@router.post("/admin/books/resume", include_in_schema=False)
def resume(request: Request, services: Services, account: Admin) -> Response:
    """Goes on with everything that was interrupted."""
    audit.log(services.database, account.public_id, "book.resume", "library")
    request.app.state.book_intake.resume()
    return go("/admin/books", "Đang đọc tiếp các sách bị ngắt.")


@router.get("/api/admin/books/progress", dependencies=[Depends(Allow("admin"))])
def progress(request: Request, services: Services) -> dict[str, Any]:
    """How far books are read, and what became of uploads."""
    books = list_books(services.database)
    uploads = request.app.state.book_intake.uploads()
    told = [
        {"id": b.id, "title": b.title, "status": b.status, "pages_read": b.pages_read, "page_count": b.page_count}
        for b in books
    ]
    return {"books": told, "uploads": [asdict(each) for each in uploads], "states": _states(books, uploads)}


@router.get("/admin/books/{book_id:int}", response_class=HTMLResponse, include_in_schema=False)
def book_page(request: Request, services: Services, account: Admin, book_id: int) -> Response:
    """A book: what is known of it, remarks, chapters and lessons, and its removal."""
    return _book(request, services, account, book_id)


@router.post("/admin/books/{book_id:int}", response_class=HTMLResponse, include_in_schema=False)
def describe_book(
    request: Request,
    services: Services,
    account: Admin,
    book_id: int,
    title: Text = "",
    grade: Text = "",
    subject: Text = "",
    series: Text = "",
) -> Response:
    """Sets right what was guessed of a book."""
    given = {"title": title.strip(), "grade": grade.strip(), "subject": subject.strip(), "series": series.strip()}
    try:
        if not given["title"]:
            raise BadField("title", "Chưa có tên sách: hãy ghi tên sách.")
        _describe(services.database, account.public_id, book_id, _metadata(given, 1))
    except BadField as error:
        return _book(request, services, account, book_id, given, error)
    return go(f"/admin/books/{book_id}", "Đã lưu.")


@router.post("/admin/books/{book_id:int}/delete", include_in_schema=False)
async def delete_book(services: Services, account: Admin, book_id: int) -> Response:
    """Deletes a book everywhere, at once."""
    settings = services.settings
    title, sha256 = await asyncio.to_thread(_delete, services.database, account.public_id, book_id)
    await asyncio.to_thread(remove_files, services.database, sha256, settings.engine.cache_dir)
    url = settings.llm.url or await asyncio.to_thread(running_engine, services.database.data_dir)
    if url is not None:
        async with ChatClient(settings.llm.model_copy(update={"url": url})) as chat:
            try:
                await PrefixCacheClient(chat).forget(book_tag(sha256))
            except LLMError as error:
                # No other book's question can reach it there, and it goes when the server needs the memory.
                log.warning("the model server may hold lessons of a deleted book until it ends: %s", error)
    return go("/admin/books", f"Đã xóa sách “{title}”.")


def _take(request: Request, account: Account, file: Any, filename: str, metadata: Metadata) -> None:
    uploaded = request.app.state.book_intake.add(file, filename, metadata)
    database = request.app.state.services.database
    audit.log(database, account.public_id, "book.upload", f"upload:{uploaded.token}")


def _metadata(given: dict[str, str], files: int) -> Metadata:
    if files == 0:
        raise BadField("files", "Chưa chọn tệp nào: hãy chọn tệp PDF, DOCX, Markdown, văn bản hoặc HTML.")
    if given["title"] and files > 1:
        raise BadField("title", "Tên sách chỉ ghi được khi gửi một tệp: hãy bỏ trống, hoặc gửi từng tệp.")
    for name, most in _LONGEST.items():
        if len(given[name]) > most:
            raise BadField(name, f"Dài nhất {most} ký tự, nhận được {len(given[name])}: hãy rút gọn.")
    grade = given["grade"]
    if grade and not (is_number(grade) and 1 <= int(grade) <= 12):
        raise BadField("grade", f"Khối lớp là số từ 1 đến 12, nhận được {grade[:32]!r}: hãy sửa lại.")
    return Metadata(
        given["title"] or None, int(grade) if grade else None, given["subject"] or None, given["series"] or None
    )


def _describe(database: Database, actor: str, book_id: int, metadata: Metadata) -> None:
    with database.write() as session:
        book = session.get(Book, book_id)
        if book is None:
            raise NotFound(f"Không có sách số {book_id}.")
        values = asdict(metadata)
        changed = [name for name, value in values.items() if getattr(book, name) != value]
        for name in changed:
            setattr(book, name, values[name])
        # What stands in the form was seen by a person, so it is no guess any more.
        book.guessed = []
        audit.record(session, actor, "book.describe", f"book:{book_id}", ", ".join(changed))


def _delete(database: Database, actor: str, book_id: int) -> tuple[str, str]:
    """Title, and digest of the stored document."""
    with database.write() as session:
        book = session.scalar(sa.select(Book).where(Book.id == book_id))
        if book is None:
            raise NotFound(f"Không có sách số {book_id}.")
        if book.status == "reading" and book.lease and Lease.parse(book.lease).is_alive():
            raise StoreBusy("Sách này đang được đọc: hãy chờ đọc xong rồi xóa.")
        audit.record(session, actor, "book.delete", f"book:{book_id}")
        return book.title, remove_book(session, book_id)


def _books(
    request: Request,
    services: Any,
    account: Account,
    given: dict[str, str] | None = None,
    errors: dict[str, list[str]] | None = None,
    taken: int = 0,
) -> Response:
    books = list_books(services.database)
    uploads = request.app.state.book_intake.uploads()
    at_work = {book.source_name for book in books if book.status == "reading"}
    return render(
        request,
        "admin_books.html",
        account,
        status=400 if errors else 200,
        books=books,
        # One whose pages are being counted stands among the books.
        uploads=[each for each in reversed(uploads) if not (each.status == "reading" and each.name in at_work)],
        states=_states(books, uploads),
        is_busy=any(each.status in ("waiting", "reading") for each in (*books, *uploads)),
        can_resume=any(each.status == "interrupted" for each in (*books, *uploads)),
        given=given or dict.fromkeys(_FIELDS, ""),
        errors=errors or {},
        taken=taken,
        max_mb=services.settings.ingest.max_file_mb,
        subjects=SUBJECTS,
        series=SERIES,
    )


def _states(books: Sequence[BookSummary], uploads: Sequence[Upload]) -> str:
    """Another text whenever the page would show more than other counts of pages."""
    shown = repr(([(b.id, b.status, b.page_count) for b in books], [(each.token, each.status) for each in uploads]))
    return hashlib.sha256(shown.encode()).hexdigest()[:16]


def _book(
    request: Request,
    services: Any,
    account: Account,
    book_id: int,
    given: dict[str, str] | None = None,
    error: BadField | None = None,
) -> Response:
    try:
        detail = book_detail(services.database, book_id)
    except NotFound as missing:
        raise NotFound(f"Không có sách số {book_id}.") from missing
    return render(
        request,
        "admin_book.html",
        account,
        status=error.http_status if error else 200,
        book=detail.book,
        sections=detail.sections,
        given=given or _given(detail.book),
        errors={error.field: [str(error)]} if error else {},
        subjects=SUBJECTS,
        series=SERIES,
    )


def _given(book: BookSummary) -> dict[str, str]:
    return {name: str(getattr(book, name) or "") for name in _FIELDS}
