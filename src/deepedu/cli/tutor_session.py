"""A tutor for the terminal: the library, and a model from wherever there is one."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import click
from rich.console import Console

from deepedu.base.config import Settings
from deepedu.base.errors import BadRequest, LLMError, ModelNotAvailable
from deepedu.base.prefix_files import book_tag
from deepedu.llm.client import ChatClient
from deepedu.llm.prefix_cache import PrefixCacheClient
from deepedu.playbook.book import Playbook
from deepedu.search.evidence import Scope
from deepedu.search.search import Search
from deepedu.server.engine_process import EngineProcess, running_engine
from deepedu.store import Database
from deepedu.store.library import BookSummary, list_books
from deepedu.tutor.learnt import BulletSource
from deepedu.tutor.turn import Tutor

log = logging.getLogger(__name__)

NO_BOOKS = "Thư viện chưa có sách nào. Thêm sách bằng: deepedu ingest TỆP_SÁCH  (hoặc xem thử: deepedu demo)"


def scope_options(command: Any) -> Any:
    """The options that choose books, on every command that asks about them."""
    for option in (
        click.option("--subject", help="Only books of this subject."),
        click.option("--grade", type=int, help="Only books of this grade."),
        click.option("--book", help="Only this book: its number, or a part of its title."),
    ):
        command = option(command)
    return command


def model_options(command: Any) -> Any:
    """The options that choose a model, on every command that asks one."""
    for option in (
        click.option("--llm", help="Any OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1."),
        click.option("--llm-model", help="The model's name there. Default: the first one it lists."),
        click.option("--model", help="For our own engine: folder, .gguf file, hub id, demo or demo-1.5b."),
    ):
        command = option(command)
    return command


def model_flags(llm: str | None, llm_model: str | None, model: str | None) -> dict[str, Any]:
    """Those options as settings."""
    return {"llm.url": llm, "llm.model": llm_model, "engine.model": model}


def fetch_model(settings: Settings) -> None:
    """Fetches our engine's model, with progress on the terminal, where it is not there yet.

    Raises:
        ModelNotAvailable: it could not be had; the reason was printed.
    """
    command = [sys.executable, "-m", "deepedu", "engine", "fetch", "--quiet", settings.engine.model]
    # A process of its own, so that this one never loads torch; standard output stays free for the answer.
    environment = {**os.environ, "DEEPEDU_ENGINE_CACHE_DIR": str(settings.engine.cache_dir)}
    if subprocess.run(command, stdout=sys.stderr, env=environment, check=False).returncode != 0:
        raise ModelNotAvailable(f"the model {settings.engine.model!r} could not be made ready (see above)")


@asynccontextmanager
async def open_chat(settings: Settings, database: Database, console: Console) -> AsyncIterator[ChatClient]:
    """A client of the endpoint named in the settings, else of the engine that ``deepedu serve`` runs here, else of
    an engine of its own that ends with it."""
    async with AsyncExitStack() as stack:
        url = settings.llm.url or running_engine(database.data_dir)
        if url is None:
            fetch_model(settings)
            # Any free port: another user's engine may hold the usual one.
            engine = EngineProcess(settings.engine.model_copy(update={"port": 0}))
            stack.push_async_callback(engine.stop)
            with console.status("Đang khởi động mô hình…"):
                await engine.start()
                await engine.wait_ready()
            url = engine.url
        yield await stack.enter_async_context(ChatClient(settings.llm.model_copy(update={"url": url})))


@asynccontextmanager
async def open_tutor(settings: Settings, database: Database, console: Console) -> AsyncIterator[Tutor]:
    """A tutor on what ``open_chat`` finds."""
    async with open_chat(settings, database, console) as chat:
        search = Search(database, settings.search)
        bullets = BulletSource(Playbook(database), database, settings.playbook)
        yield Tutor(database, search, chat, settings.tutor, PrefixCacheClient(chat), bullets)


def forget_lessons(settings: Settings, database: Database, digests: Iterable[str]) -> None:
    """Tells a model server that runs to forget the lessons of deleted books; what lies on disk is deleted already.

    Args:
        digests: of the books' documents.
    """
    tags = [book_tag(digest) for digest in digests]
    url = (settings.llm.url or running_engine(database.data_dir)) if tags else None
    if url is not None:
        asyncio.run(_forget(ChatClient(settings.llm.model_copy(update={"url": url})), tags))


async def _forget(chat: ChatClient, tags: list[str]) -> None:
    async with chat:
        for tag in tags:
            try:
                await PrefixCacheClient(chat).forget(tag)
            except LLMError as error:
                # No other book's question can reach it there, and it goes when the server needs the memory.
                log.warning("the model server may hold lessons of a deleted book in memory until it ends: %s", error)


def choose_scope(database: Database, book: str | None, grade: int | None, subject: str | None) -> Scope:
    """The scope that the options ask for; ``book`` is an id or a part of a title.

    Raises:
        BadRequest: no such book, or several.
    """
    ready = [b for b in list_books(database) if b.status == "ready"]
    if not ready:
        raise BadRequest(NO_BOOKS)
    book_ids = None if book is None else (find_book(ready, book, "--book").id,)
    return Scope(book_ids, grade, subject)


def find_book(books: list[BookSummary], wanted: str, option: str) -> BookSummary:
    """The one book whose id, or a part of whose title, is ``wanted``; ``option`` is what the user calls it.

    Raises:
        BadRequest: no such book, or several.
    """
    if wanted.isdecimal():
        matching = [b for b in books if b.id == int(wanted)]
    else:
        matching = [b for b in books if wanted.casefold() in b.title.casefold()]
    if len(matching) == 1:
        return matching[0]
    names = ", ".join(f"{b.id} ({b.title})" for b in (matching or books)[:8])
    problem = "không có sách nào như vậy" if not matching else "có nhiều sách như vậy"
    raise BadRequest(f"{option} {wanted!r}: {problem}; chọn theo số: {names}")
