"""``deepedu ingest``."""

import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from deepedu.base.config import Settings
from deepedu.cli.embed import embed
from deepedu.cli.main import open_database, settings_with
from deepedu.cli.tutor_session import forget_lessons
from deepedu.curriculum.events import Event, FileFinished, FileStarted, Indexing, Outcome, PageRead
from deepedu.curriculum.ingest import ingest as ingest_files
from deepedu.curriculum.ingest import resume as resume_books
from deepedu.curriculum.metadata import Metadata
from deepedu.search.embed import start_after_ingest
from deepedu.server.engine_process import running_engine
from deepedu.store import Database
from deepedu.store.library import document_digests

# A longer batch lists only what needs attention.
_LISTED_FILES = 30
_NAME_CHARACTERS = 48
_SAYS = {
    "added": ("đã thêm", "green"),
    "resumed": ("đã đọc tiếp", "green"),
    "already_there": ("đã có", "cyan"),
    "busy": ("đang được đọc", "yellow"),
    "failed": ("lỗi", "red"),
}


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--title", help="The book's title; otherwise it is guessed and shown.")
@click.option("--grade", type=click.IntRange(1, 12), help="The grade (lớp).")
@click.option("--subject", help="The subject, such as 'Khoa học tự nhiên'.")
@click.option("--series", help="The series, such as 'Kết nối tri thức với cuộc sống'.")
@click.option("--replace", type=int, metavar="BOOK", help="Delete this book once the one file given is ready.")
@click.option("--resume", is_flag=True, help="Take up all interrupted readings.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcomes as JSON.")
@click.pass_context
def ingest(
    ctx: click.Context,
    paths: tuple[Path, ...],
    title: str | None,
    grade: int | None,
    subject: str | None,
    series: str | None,
    replace: int | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Read documents into the library: PATHS are files or whole folders.

    PDF, DOCX, Markdown, text and HTML. A file that is there already, under whatever name, is left alone; an
    interrupted one goes on where it stopped. Exit status 1: not all files could be read.
    """
    if not paths and not resume:
        raise click.UsageError("Hãy cho biết tệp hoặc thư mục cần nạp, hoặc --resume để đọc tiếp các sách bị ngắt.")
    settings = settings_with(ctx)
    database = open_database(ctx)
    view = _View(Console(stderr=True, quiet=as_json))
    outcomes: list[Outcome] = []
    with view:
        if resume:
            outcomes += resume_books(database, settings.ingest, view.on_event)
        if paths:
            metadata = Metadata(title, grade, subject, series)
            replaced = document_digests(database, [replace]) if replace is not None else {}
            cache_dir = settings.engine.cache_dir
            outcomes += ingest_files(
                database, paths, settings.ingest, metadata, view.on_event, replace=replace, cache_dir=cache_dir
            )
            gone = replaced.keys() - document_digests(database, replaced).keys()
            forget_lessons(settings, database, [replaced[book_id] for book_id in gone])
    if as_json:
        click.echo(json.dumps([_as_json(outcome) for outcome in outcomes], ensure_ascii=False, indent=2))
    else:
        _summarise(Console(), outcomes, view, wants_files=bool(paths))
    if any(outcome.status in ("added", "resumed") for outcome in outcomes):
        _embed(ctx, settings, Console(stderr=True, quiet=as_json))
        _tell_warming(settings, database, Console(stderr=True, quiet=as_json))
    if not all(outcome.is_good for outcome in outcomes) or (paths and not outcomes):
        sys.exit(1)


def _embed(ctx: click.Context, settings: Settings, console: Console) -> None:
    """Books can be found by words already; by meaning soon."""
    if settings.search.embed_after_ingest == "now":
        ctx.invoke(embed)
    elif start_after_ingest(settings):
        console.print("Đang lập vectơ để tìm theo ý nghĩa (chạy nền); xem tiến độ: deepedu embed", style="dim")


def _tell_warming(settings: Settings, database: Database, console: Console) -> None:
    """``deepedu serve`` looks for new books by itself."""
    if settings.tutor.warm_after_ingest == "background" and running_engine(database.data_dir):
        console.print("deepedu serve sẽ nạp sẵn các bài học của sách mới (chạy nền).", style="dim")


@dataclass
class _View:
    """Progress bars on a terminal, one line a file elsewhere."""

    console: Console
    pages_read: int = 0
    elapsed_s: float = 0.0
    _bars: Progress | None = None
    _batch: TaskID | None = None
    _file: TaskID | None = None
    _since: float = field(default_factory=time.monotonic)

    def __enter__(self) -> "_View":
        if self.console.is_terminal and not self.console.quiet:
            self._bars = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[unit]} · {task.fields[rate]}"),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.elapsed_s = time.monotonic() - self._since
        if self._bars is not None:
            self._bars.stop()

    def on_event(self, event: Event) -> None:
        """Shows one event."""
        match event:
            case FileStarted():
                self._start(event)
            case PageRead():
                self.pages_read += 1
                if self._bars is not None and self._file is not None:
                    self._bars.update(self._file, completed=event.number, rate=self._rate())
            case Indexing():
                if self._bars is not None and self._file is not None:
                    self._bars.update(self._file, description=f"{_short(event.path)}: lập chỉ mục")
            case FileFinished():
                self._finish(event)

    def _start(self, event: FileStarted) -> None:
        if event.pages_read:
            self.console.print(
                f"[yellow]{escape(_short(event.path))}: bị ngắt ở trang {event.pages_read}/{event.page_count}, "
                "đang đọc tiếp[/]",
                highlight=False,
            )
        if self._bars is None:
            return
        if self._batch is None and event.file_count > 1:
            self._batch = self._bars.add_task("Cả đợt", total=event.file_count, unit="tệp", rate=self._rate())
        self._file = self._bars.add_task(
            escape(_short(event.path)),
            total=event.page_count,
            completed=event.pages_read,
            unit="trang",
            rate=self._rate(),
        )

    def _finish(self, event: FileFinished) -> None:
        outcome = event.outcome
        if self._bars is not None:
            if self._file is not None:
                self._bars.remove_task(self._file)
                self._file = None
            if self._batch is not None:
                self._bars.update(self._batch, completed=event.index, rate=self._rate())
            # The table at the end tells of each file.
            return
        says, colour = _SAYS[outcome.status]
        left = f" (còn {event.file_count - event.index} tệp)" if event.index < event.file_count else ""
        self.console.print(
            f"[{event.index}/{event.file_count}] {_short(outcome.path)}: {says}: {outcome.message}{left}",
            style=colour,
            markup=False,
            highlight=False,
        )

    def _rate(self) -> str:
        passed = time.monotonic() - self._since
        return f"{self.pages_read / passed:.0f} trang/s" if passed > 0.5 else "…"


def _summarise(console: Console, outcomes: list[Outcome], view: _View, *, wants_files: bool) -> None:
    if not outcomes:
        console.print(
            "Không có tài liệu nào để đọc (PDF, DOCX, Markdown, văn bản, HTML)."
            if wants_files
            else "Không có sách nào bị ngắt."
        )
        return
    shown = outcomes
    if len(outcomes) > _LISTED_FILES:
        shown = [outcome for outcome in outcomes if not outcome.is_good]
    if shown:
        table = Table("tệp", "kết quả", "sách", "trang", "đoạn", "chi tiết")
        for outcome in shown[: 4 * _LISTED_FILES]:
            says, colour = _SAYS[outcome.status]
            detail = "\n".join((outcome.message if not outcome.is_good else outcome.title or "", *outcome.notes))
            table.add_row(
                escape(_short(outcome.path)),
                f"[{colour}]{says}[/]",
                str(outcome.book_id or ""),
                str(outcome.pages or ""),
                str(outcome.passages or ""),
                escape(detail),
            )
        console.print(table)
        if len(shown) > 4 * _LISTED_FILES:
            console.print(f"… và {len(shown) - 4 * _LISTED_FILES} tệp nữa.")
    counts = Counter(outcome.status for outcome in outcomes)
    parts = [f"{counts[status]} {says}" for status, (says, _) in _SAYS.items() if counts[status]]
    passages = sum(outcome.passages for outcome in outcomes)
    pages_read, elapsed_s = view.pages_read, view.elapsed_s
    rate = f", {pages_read / elapsed_s:.0f} trang/giây" if elapsed_s > 0 and pages_read else ""
    console.print(
        f"{len(outcomes)} tệp: {', '.join(parts)}. {pages_read} trang, {passages} đoạn mới, {elapsed_s:.1f} giây{rate}."
    )
    noted = sum(bool(outcome.notes) for outcome in outcomes if outcome not in shown)
    if noted:
        console.print(f"{noted} tệp có ghi chú: xem bằng deepedu books show SỐ.", highlight=False)
    if counts["added"] or counts["resumed"]:
        console.print('Xem thư viện: deepedu books. Hỏi thử: deepedu ask "câu hỏi của em"', highlight=False)


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "path": str(outcome.path),
        "status": outcome.status,
        "message": outcome.message,
        "code": outcome.error.code if outcome.error else None,
        "book_id": outcome.book_id,
        "title": outcome.title,
        "pages": outcome.pages,
        "passages": outcome.passages,
        "notes": list(outcome.notes),
    }


def _short(path: Path) -> str:
    name = path.name
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 12]}…{name[-11:]}"
