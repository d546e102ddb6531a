"""``deepedu demo``: what a newcomer sees first."""

import asyncio
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from deepedu.base.config import Settings
from deepedu.base.errors import IngestError
from deepedu.cli import demo_server
from deepedu.cli.answer_view import show_turn
from deepedu.cli.demo_school import PASSWORD, furnish
from deepedu.cli.main import open_database, settings_with
from deepedu.cli.tutor_session import fetch_model, model_flags, model_options, open_tutor
from deepedu.curriculum.ingest import ingest
from deepedu.curriculum.sample import DEMO_QUESTIONS, SAMPLE_PDF
from deepedu.search.embed import start_after_ingest
from deepedu.search.evidence import Scope
from deepedu.store import Database

NEXT = (
    ("đặt câu hỏi khác", 'deepedu ask "nuoc tinh khiet soi o bao nhieu do"'),
    ("trò chuyện", "deepedu chat"),
    ("mở trường của mình", "deepedu school init && deepedu serve"),
    ("thêm sách của trường", "deepedu ingest TỆP_SÁCH.pdf"),
    ("xem các lệnh", "deepedu --help"),
)


@click.command()
@click.option("--question", help="Ask this instead of the demo's question.")
@click.option("--school/--no-school", default=True, help="Open the sample school's pages at the end.  [default: on]")
@click.option("--stop", is_flag=True, help="Stop the sample school's server, and do nothing else.")
@model_options
@click.pass_context
def demo(
    ctx: click.Context,
    question: str | None,
    school: bool,
    stop: bool,
    llm: str | None,
    llm_model: str | None,
    model: str | None,
) -> None:
    """From nothing to a running school in one command: model, sample textbook, question, pages."""
    if stop:
        stopped = demo_server.stop(_school_folder(settings_with(ctx)))
        click.echo("Đã dừng trường mẫu." if stopped else "Trường mẫu không chạy.")
        return
    settings = settings_with(ctx, model_flags(llm, llm_model, model))
    console = Console()
    console.rule("[bold]1. Mô hình[/]", align="left")
    if settings.llm.url is None:
        fetch_model(settings)
        console.print(f"Mô hình {settings.engine.model} chạy ngay trên máy này; không câu chữ nào rời khỏi máy.")
    else:
        console.print(f"Mô hình ở {settings.llm.url}.")
    console.rule("[bold]2. Sách mẫu[/]", align="left")
    database = open_database(ctx)
    with console.status("Đang đọc sách mẫu…"):
        outcome = ingest(database, [SAMPLE_PDF], settings.ingest)[0]
    if outcome.book_id is None:
        raise outcome.error or IngestError(outcome.message)
    told = "đã có trong thư viện" if outcome.status == "already_there" else f"đã đọc {outcome.pages} trang"
    console.print(f"{outcome.title}: {told} (sách số {outcome.book_id}).")
    console.rule("[bold]3. Hỏi và đáp[/]", align="left")
    asked = question or DEMO_QUESTIONS[0].question
    console.print(Text.assemble(("Em hỏi: ", "cyan"), (asked, "bold")))
    asyncio.run(_ask(settings, database, asked, outcome.book_id, console))
    # Only now: while the model answered, it needed all cores.
    start_after_ingest(settings)
    if school:
        console.rule("[bold]4. Trường mẫu[/]", align="left")
        _open_school(settings, model_flags(llm, llm_model, model), console)
    console.rule("[bold]Tiếp theo[/]", align="left")
    for purpose, command in NEXT:
        console.print(Text.assemble("  ", (f"{command:<52}", "bold"), (purpose, "dim")))


def _school_folder(settings: Settings) -> Path:
    # Apart from the library of whoever tries this: nobody in the sample school exists.
    return settings.store.data_dir.with_name(f"{settings.store.data_dir.name}-truong-mau")


def _open_school(settings: Settings, flags: dict[str, str | None], console: Console) -> None:
    folder = _school_folder(settings)
    database = Database(settings.store.model_copy(update={"data_dir": folder, "url": None, "key_file": None}))
    try:
        outcome = ingest(database, [SAMPLE_PDF], settings.ingest)[0]
        if outcome.book_id is None:
            raise outcome.error or IngestError(outcome.message)
        with console.status("Đang dựng trường mẫu: lớp, học sinh, bài kiểm tra, lịch sử học…"):
            visitors = furnish(database, outcome.book_id)
    finally:
        database.close()
    names = {"llm.url": "--llm", "llm.model": "--llm-model", "engine.model": "--model"}
    options = [word for name, value in flags.items() if value for word in (names[name], value)]
    with console.status("Đang mở các trang…"):
        address = demo_server.start(folder, options)
    console.print(f"Trường mẫu đang chạy ở [bold]{address}[/]. Mọi tài khoản có mật khẩu [bold]{PASSWORD}[/]:")
    for visitor in visitors:
        console.print(Text.assemble("  ", (f"{visitor.username:<12}", "bold"), visitor.what))
    console.print("Mô hình cần thêm chút thời gian để khởi động. Dừng bằng: deepedu demo --stop", style="dim")


async def _ask(settings: Settings, database: Database, question: str, book_id: int, console: Console) -> None:
    async with open_tutor(settings, database, Console(stderr=True)) as tutor:
        await show_turn(tutor, question, console, scope=Scope(book_ids=(book_id,)))
