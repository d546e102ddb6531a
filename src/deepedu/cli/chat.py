"""``deepedu chat``."""

import asyncio

import click
from rich.console import Console
from rich.text import Text

from deepedu.base.errors import DeepEduError
from deepedu.cli.answer_view import show_turn
from deepedu.cli.main import open_database, settings_with
from deepedu.cli.tutor_session import choose_scope, model_flags, model_options, open_tutor, scope_options
from deepedu.store import Database
from deepedu.store.conversations import last_conversation, past_turns

HELP = "Gõ câu hỏi rồi Enter. /moi: cuộc trò chuyện mới; /thoat: kết thúc; Ctrl-C: dừng câu trả lời đang viết."
STATES = {
    "interrupted": "(bị ngắt giữa chừng; phần đã viết được giữ lại)",
    "stopped": "(đã dừng theo ý người hỏi)",
    "failed": "(không trả lời được)",
    "running": "(đang trả lời ở một cửa sổ khác)",
}


@click.command()
@scope_options
@click.option("--continue", "resume", is_flag=True, help="Go on with the latest conversation.")
@model_options
@click.pass_context
def chat(
    ctx: click.Context,
    book: str | None,
    grade: int | None,
    subject: str | None,
    resume: bool,
    llm: str | None,
    llm_model: str | None,
    model: str | None,
) -> None:
    """Talk with the tutor, turn by turn."""
    settings = settings_with(ctx, model_flags(llm, llm_model, model))
    database = open_database(ctx)
    scope = choose_scope(database, book, grade, subject)
    console = Console()
    conversation = last_conversation(database) if resume else None
    if conversation is not None:
        _show_past(database, conversation, console)
    console.print("Em đang trò chuyện với máy (trí tuệ nhân tạo).", style="dim")
    console.print(HELP, style="dim")
    # Not one asyncio.run around all: Ctrl-C must end a turn and not the conversation, and input() must not hold a loop.
    with asyncio.Runner() as runner:
        session = open_tutor(settings, database, Console(stderr=True))
        tutor = runner.run(session.__aenter__())
        try:
            while (question := _read(console)) is not None:
                if question == "/moi":
                    conversation = None
                    console.print("Bắt đầu cuộc trò chuyện mới.", style="dim")
                elif question:
                    try:
                        turn = show_turn(tutor, question, console, scope=scope, conversation_id=conversation)
                        _, conversation = runner.run(turn)
                    except KeyboardInterrupt:
                        console.print("Đã dừng câu trả lời.", style="yellow")
                    except DeepEduError as error:
                        console.print(Text(str(error), style="red"))
        finally:
            runner.run(session.__aexit__(None, None, None))


def _read(console: Console) -> str | None:
    try:
        question = console.input("\n[bold cyan]Em hỏi ›[/] ").strip()
    except (EOFError, KeyboardInterrupt):
        return None
    return None if question in ("/thoat", "/thoát") else question


def _show_past(database: Database, conversation: int, console: Console) -> None:
    for turn in past_turns(database, conversation):
        console.print(Text.assemble(("Em hỏi › ", "cyan"), turn.question))
        said = str(turn.answer["text"]) if turn.answer else turn.draft
        console.print(Text(f"{said} {STATES.get(turn.status, '')}".strip(), style="dim"))
