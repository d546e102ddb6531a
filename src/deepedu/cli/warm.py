"""``deepedu engine warm``."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from deepedu.base.config import Settings
from deepedu.base.errors import BadRequest
from deepedu.base.prefix_files import measure_prefixes
from deepedu.cli.main import open_database, settings_with
from deepedu.cli.tutor_session import NO_BOOKS, find_book, model_flags, model_options, open_chat
from deepedu.llm.prefix_cache import PrefixCacheClient
from deepedu.store import Database
from deepedu.store.library import BookSummary, list_books
from deepedu.tutor.warming import LessonWarm, WarmingPlan, plan_warming, warm_lessons


@click.command()
@click.argument("book")
@model_options
@click.pass_context
def warm(ctx: click.Context, book: str, llm: str | None, llm_model: str | None, model: str | None) -> None:
    """Compute the lessons of BOOK ahead (its number, or a part of its title), so that questions start fast.

    Lessons that are warm are skipped. Ctrl-C keeps what is done; the same command goes on from there.
    """
    settings = settings_with(ctx, model_flags(llm, llm_model, model))
    database = open_database(ctx)
    ready = [found for found in list_books(database) if found.status == "ready"]
    if not ready:
        raise BadRequest(NO_BOOKS)
    chosen = find_book(ready, book, "BOOK")
    run = _Run(settings, database, chosen, Console())
    try:
        asyncio.run(run.run())
    except KeyboardInterrupt:
        run.console.print(
            f"\nĐã dừng: {run.lessons} bài vừa nạp xong và phần đã tính được giữ lại. "
            f"Chạy lại để nạp tiếp: deepedu engine warm {chosen.id}",
            style="yellow",
            highlight=False,
        )
        ctx.exit(130)


@dataclass
class _Run:
    """One warming, and how far it came."""

    settings: Settings
    database: Database
    book: BookSummary
    console: Console
    lessons: int = 0
    tokens: int = 0
    bytes: int = 0
    in_memory: int = 0

    async def run(self) -> None:
        """From the plan to the figures at the end."""
        async with open_chat(self.settings, self.database, Console(stderr=True)) as chat:
            # Who cannot be reached says so here; later it would only look like a server without a cache.
            await chat.models()
            cache = PrefixCacheClient(chat)
            with self.console.status("Đang xem bài nào đã nạp sẵn…"):
                plan = await plan_warming(self.database, self.book.id, cache, self.settings.tutor)
            self._announce(plan)
            if plan.cold:
                await self._warm(plan, cache)
            self._summarise(plan)

    def _announce(self, plan: WarmingPlan) -> None:
        self._say(f"{self.book.title}: {len(plan.lessons)} bài, {len(plan.lessons) - len(plan.cold)} đã nạp sẵn.")
        for lesson, reason in plan.left_out:
            self._say(f"  Không nạp {lesson.title}: {reason}.", "dim")
        if plan.cold:
            self._say(f"Cần nạp {len(plan.cold)} bài, {_grouped(plan.cold_tokens)} token. Ctrl-C dừng mà không mất gì.")
        if self.settings.tutor.context == "passages":
            self._say("Lưu ý: tutor.context = passages, nên bài nạp sẵn sẽ không được dùng.", "yellow")

    async def _warm(self, plan: WarmingPlan, cache: PrefixCacheClient) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("bài {task.fields[lesson]} · {task.completed:.0f}/{task.total:.0f} token · {task.fields[rate]}"),
        )
        is_live = self.console.is_terminal
        with Progress(*columns, TimeRemainingColumn(), console=self.console, disable=not is_live) as bar:
            task = bar.add_task("Nạp sẵn", total=plan.cold_tokens, lesson=f"1/{len(plan.cold)}", rate="…")
            before = 0
            async with aclosing(warm_lessons(self.database, plan, cache)) as steps:
                async for step in steps:
                    # What an earlier run left half done is no work of this one.
                    reused = plan.cold[step.number - 1].cached_tokens
                    done = step.tokens if isinstance(step, LessonWarm) else step.done_tokens
                    computed = before + max(0, done - reused)
                    spent_s = bar.tasks[0].elapsed or 0.0
                    rate = f"{computed / spent_s:.0f} token/giây" if spent_s > 1 else "…"
                    bar.update(task, completed=computed, lesson=f"{step.number}/{step.count}", rate=rate)
                    if isinstance(step, LessonWarm):
                        before = computed
                        self._take(step, is_live=is_live)

    def _take(self, step: LessonWarm, *, is_live: bool) -> None:
        self.lessons += 1
        self.tokens += step.tokens
        self.bytes += step.stored_bytes
        self.in_memory += step.stored != "disk"
        if not is_live:
            self._say(f"[{step.number}/{step.count}] {step.lesson.title}: {_grouped(step.tokens)} token")

    def _summarise(self, plan: WarmingPlan) -> None:
        if self.lessons:
            self._say(
                f"Đã nạp {self.lessons} bài, {_grouped(self.tokens)} token, lưu {_megabytes(self.bytes)}.", "green"
            )
        elif not plan.cold:
            self._say("Không còn bài nào phải nạp.", "green")
        if self.in_memory:
            self._say(
                f"{self.in_memory} bài chỉ nằm trong bộ nhớ, sẽ mất khi máy chủ dừng: đĩa đầy, hoặc giới hạn của bộ "
                "nhớ đệm quá nhỏ. Hãy dọn đĩa rồi chạy lại.",
                "yellow",
            )
        if plan.lessons:
            whole = measure_prefixes(self.settings.engine.cache_dir, plan.lessons[0].lesson.tag)
            if whole.files:
                self._say(f"Cả sách chiếm {_megabytes(whole.bytes)} trên đĩa của máy này.", "dim")

    def _say(self, text: str, style: str | None = None) -> None:
        self.console.print(escape(text), style=style, highlight=False)


def _grouped(count: int) -> str:
    return f"{count:,}".replace(",", ".")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB".replace(".", ",")
