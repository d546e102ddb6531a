"""``deepedu embed``."""

import os

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from deepedu.base.errors import SearchError
from deepedu.cli.main import open_database, settings_with
from deepedu.search.embed import EmbedProgress, embed_missing, progress
from deepedu.search.embedder import open_embedder


@click.command()
@click.option("--background", is_flag=True, help="At low priority and without a progress bar.")
@click.pass_context
def embed(ctx: click.Context, background: bool) -> None:
    """Embed the passages that have no vector yet, so that they are found by meaning too."""
    console = Console()
    embedder, reason = open_embedder(settings_with(ctx).search)
    if embedder is None:
        raise SearchError(f"tìm theo ý nghĩa đang tắt: {reason}")
    db = open_database(ctx)
    if background:
        if hasattr(os, "nice"):
            os.nice(10)
        outcome = embed_missing(db, embedder)
    else:
        done, total = progress(db, embedder.name)
        columns = (TextColumn("Lập vectơ"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
        with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
            task = bar.add_task("embed", total=total, completed=done, rate="")

            def show(event: EmbedProgress) -> None:
                spent = bar.tasks[0].elapsed or 0.0
                rate = f"{event.new / spent:.1f} đoạn/giây" if spent else ""
                bar.update(task, completed=event.done, total=event.total, rate=rate)

            outcome = embed_missing(db, embedder, show)
    if outcome.status == "busy":
        console.print("Một tiến trình khác đang lập vectơ cho thư viện này; không cần chạy thêm.")
    else:
        console.print(f"Đã lập vectơ cho {outcome.new} đoạn mới; không còn đoạn nào thiếu.")
