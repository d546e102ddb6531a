"""``deepedu books``."""

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from deepedu.cli.main import open_database, settings_with
from deepedu.cli.tutor_session import forget_lessons
from deepedu.curriculum.removal import delete_books
from deepedu.store.library import BookDetail, BookSummary, book_detail, document_digests, list_books

_STATUS = {
    "ready": ("sẵn sàng", "green"),
    "reading": ("đang đọc", "yellow"),
    "interrupted": ("bị ngắt", "red"),
}
_GUESSED = " [dim](đoán)[/]"


@click.group(invoke_without_command=True)
@click.pass_context
def books(ctx: click.Context) -> None:
    """List the books; 'show' and 'delete' work on one."""
    if ctx.invoked_subcommand is not None:
        return
    console = Console()
    found = list_books(open_database(ctx))
    if not found:
        console.print("Thư viện còn trống. Nạp tài liệu đầu tiên: deepedu ingest TỆP-HOẶC-THƯ-MỤC", highlight=False)
        return
    table = Table("số", "tên sách", "lớp", "môn", "trang", "đoạn", "trạng thái")
    for book in found:
        says, colour = _STATUS[book.status]
        status = f"[{colour}]{says}[/]"
        if book.status != "ready":
            status += f" ở trang {book.pages_read}/{book.page_count or '?'}"
        table.add_row(
            str(book.id),
            escape(book.title),
            str(book.grade or ""),
            escape(book.subject or ""),
            _page_count(book),
            str(book.passages),
            status,
        )
    console.print(table)
    if any(book.status == "interrupted" for book in found):
        console.print("Đọc tiếp các sách bị ngắt: deepedu ingest --resume", highlight=False)


@books.command()
@click.argument("book_id", type=int)
@click.pass_context
def show(ctx: click.Context, book_id: int) -> None:
    """Show one book: what is known of it, its chapters and lessons with their pages, and remarks."""
    console = Console()
    detail = book_detail(open_database(ctx), book_id)
    console.print(_facts(detail.book))
    if detail.sections:
        console.print(_tree(detail))
    for note in detail.book.notes:
        console.print(f"• {note}", style="yellow", markup=False, highlight=False)
    if detail.book.guessed:
        console.print(
            "Sửa điều đoán sai: deepedu ingest TỆP --title … --grade … --subject … --series …",
            style="dim",
            highlight=False,
        )


@books.command()
@click.argument("book_ids", type=int, nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def delete(ctx: click.Context, book_ids: tuple[int, ...], yes: bool) -> None:
    """Delete books everywhere, at once: text, index, vectors, the stored document and its lessons in the cache."""
    settings = settings_with(ctx)
    database = open_database(ctx)
    console = Console()
    if not yes:
        for book_id in dict.fromkeys(book_ids):
            book = book_detail(database, book_id).book
            console.print(f"{book.id}: {book.title} ({_page_count(book)} trang)", markup=False, highlight=False)
        click.confirm("Xóa hẳn các sách trên?", abort=True)
    digests = document_digests(database, book_ids)
    for title in delete_books(database, book_ids, cache_dir=settings.engine.cache_dir):
        console.print(f"Đã xóa: {title}", markup=False, highlight=False)
    forget_lessons(settings, database, digests.values())


def _facts(book: BookSummary) -> Table:
    table = Table(show_header=False, box=None)
    for key, label in (("title", "Tên sách"), ("grade", "Lớp"), ("subject", "Môn"), ("series", "Bộ sách")):
        value = getattr(book, key)
        shown = "[dim]chưa rõ[/]" if value is None else escape(str(value))
        table.add_row(label, shown + (_GUESSED if key in book.guessed and value is not None else ""))
    says, colour = _STATUS[book.status]
    table.add_row("Trạng thái", f"[{colour}]{says}[/]")
    pages = _page_count(book)
    table.add_row("Trang", pages if book.has_pages else f"{pages} (định dạng không có trang; đếm theo đoạn dài)")
    table.add_row("Đoạn", f"{book.passages}, trong đó {book.vectors} đã có vectơ nghĩa")
    table.add_row("Tệp", escape(f"{book.source_name} ({book.format})"))
    return table


def _tree(detail: BookDetail) -> Tree:
    tree = Tree("Mục lục")
    parents = [tree]
    word = "tr." if detail.book.has_pages else "đ."
    for section in detail.sections:
        pages = f"{section.first_page}"
        if section.last_page != section.first_page:
            pages += f"–{section.last_page}"
        del parents[section.depth + 1 :]
        style = "bold" if section.kind == "chapter" else ""
        label = escape(section.display)
        branch = parents[-1].add(f"[{style}]{label}[/]" if style else label)
        branch.label = f"{branch.label} [dim]{word} {pages}[/]"
        parents.append(branch)
    return tree


def _page_count(book: BookSummary) -> str:
    return str(book.page_count) if book.page_count is not None else "?"
