"""``deepedu demo``: what a newcomer sees first."""

import asyncio

import click
from rich.console import Console
from rich.text import Text

from deepedu.base.config import Settings
from deepedu.base.errors import IngestError
from deepedu.cli.answer_view import show_turn
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
    ("mở trang hỏi bài", "deepedu serve"),
    ("thêm sách của trường", "deepedu ingest TỆP_SÁCH.pdf"),
    ("xem các lệnh", "deepedu --help"),
)


@click.command()
@click.option("--question", help="Ask this instead of the demo's question.")
@model_options
@click.pass_context
def demo(ctx: click.Context, question: str | None, llm: str | None, llm_model: str | None, model: str | None) -> None:
    """From nothing to a checked answer in one command: model, sample textbook, question."""
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
    console.rule("[bold]Tiếp theo[/]", align="left")
    for purpose, command in NEXT:
        console.print(Text.assemble("  ", (f"{command:<52}", "bold"), (purpose, "dim")))


async def _ask(settings: Settings, database: Database, question: str, book_id: int, console: Console) -> None:
    async with open_tutor(settings, database, Console(stderr=True)) as tutor:
        await show_turn(tutor, question, console, scope=Scope(book_ids=(book_id,)))
