"""``deepedu bench NAME``, ``deepedu bench compare`` and ``deepedu bench report``."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from deepedu.base.errors import ConfigError
from deepedu.bench import report, run
from deepedu.cli.main import settings_with


class _Benches(click.Group):
    """One command for every module of ``bench/tasks``, imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*run.task_names(), *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        return found or _bench_command(cmd_name)


def _bench_command(name: str) -> click.Command:
    task = run.load_task(name)
    options = "".join(f"\n\n--set {key}=...: {meaning}" for key, meaning in getattr(task, "OPTIONS", {}).items())

    @click.command(name, help=(task.__doc__ or "").strip().partition("\n")[0] + options)
    @click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the JSON result.")
    @click.option("--quick", is_flag=True, help="A small part of the questions: shows that it works, measures little.")
    @click.option("--seed", type=int, default=0, show_default=True, help="Of everything drawn by chance.")
    @click.option(
        "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting, or an option of the bench."
    )
    @click.pass_context
    def command(ctx: click.Context, out: Path | None, quick: bool, seed: int, assignments: tuple[str, ...]) -> None:
        settings, chosen = _split(assignments)
        record = run.run_bench(name, settings_with(ctx, settings), seed=seed, quick=quick, options=chosen)
        path = out or run.default_out(name)
        run.write_record(record, path)
        console = Console()
        report.print_record(record, console)
        console.print(f"  written to {path}", highlight=False, markup=False, soft_wrap=True)

    return command


def _split(assignments: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """``layer.key=value`` changes a setting; a name without a dot is an option of the bench."""
    settings: dict[str, Any] = {}
    options: dict[str, str] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set expected KEY=VALUE, came {assignment!r}")
        (settings if "." in key else options)[key] = value
    return settings, options


@click.group(cls=_Benches)
def bench() -> None:
    """Measure retrieval, grounding, the engine and more; compare two runs; make a report."""


@bench.command()
@click.argument("first", metavar="A", type=click.Path(path_type=Path))
@click.argument("second", metavar="B", type=click.Path(path_type=Path))
def compare(first: Path, second: Path) -> None:
    """Print the figures of two results, their difference and ratio."""
    report.compare(report.read_record(first), report.read_record(second), Console())


@bench.command("report")
@click.argument("records", metavar="RECORD...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("bench-report"),
    show_default=True,
    help="The folder for report.html and the plots.",
)
def write_html(records: tuple[Path, ...], out: Path) -> None:
    """Make a page of results that needs nothing else, with targets and plots."""
    from deepedu.bench.html_report import write_report

    files = write_report([report.read_record(path) for path in records], out, [path.name for path in records])
    for file in files:
        click.echo(file)
