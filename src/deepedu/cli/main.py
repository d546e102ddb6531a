"""The ``deepedu`` command. Command groups are imported when they are called, so none of them slows the others."""

import importlib
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.logging import RichHandler

from deepedu import __version__
from deepedu.base.config import LoadedSettings, Settings, load_settings
from deepedu.base.errors import DeepEduError
from deepedu.store import Database

# Command -> (module, one line of help). The help stands here so that "deepedu --help" imports nothing.
COMMANDS = {
    "ask": ("ask", "Ask one question of the textbooks."),
    "backup": ("backup", "Back the data folder up into one file, also while in use."),
    "bench": ("bench", "Measure retrieval, grounding and more; compare two runs."),
    "books": ("books", "List, show and delete the books."),
    "chat": ("chat", "Talk with the tutor, turn by turn."),
    "config": ("config", "Show the settings and where each comes from."),
    "demo": ("demo", "From nothing to a checked answer in one command."),
    "embed": ("embed", "Embed the passages that have no vector yet."),
    "engine": ("engine", "Fetch models and serve them."),
    "ingest": ("ingest", "Read documents into the library."),
    "learn": ("learn", "Ask a file of questions and learn from what went wrong."),
    "playbook": ("playbook", "See, approve and take back what the tutor has learnt."),
    "privacy": ("privacy", "Hand out or erase a person's data; delete what is too old."),
    "school": ("school", "Accounts and classes: the first admin, passwords, rosters."),
    "restore": ("backup", "Make a backup the data folder."),
    "serve": ("serve", "Start the school's pages."),
}


class _Errors(Console):
    """Standard error, which may close: rich would raise SystemExit in whatever thread or signal handler writes a log
    line then, and a server would end half-way, or not end at all."""

    def on_broken_pipe(self) -> None:
        """Says nothing more; the program goes on."""
        self.quiet = True


errors = _Errors(stderr=True)


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"deepedu.cli.{COMMANDS[cmd_name][0]}")
        return getattr(module, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="deepedu")
@click.option("--data", type=click.Path(path_type=Path), help="The data folder. Default: one of the user's own.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="A deepedu.toml to read.")
@click.option("-v", "--verbose", count=True, help="Say more; twice for debugging (shows what pupils wrote).")
@click.pass_context
def cli(ctx: click.Context, data: Path | None, config_file: Path | None, verbose: int) -> None:
    """An AI tutor that a school runs on its own machines: answers stand on the textbooks and quote them."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(
        level=level, format="%(message)s", handlers=[RichHandler(console=errors, show_path=verbose > 1)], force=True
    )
    if verbose < 2:
        logging.getLogger("httpx").setLevel(logging.WARNING)
    ctx.obj = {"file": config_file, "flags": {"store.data_dir": data}}


def load_with(ctx: click.Context, flags: Mapping[str, Any] | None = None) -> LoadedSettings:
    """The settings under the root's options and these flags; None values are flags that were not given."""
    root: dict[str, Any] = ctx.find_root().obj or {"file": None, "flags": {}}
    return load_settings(file=root["file"], flags={**root["flags"], **(flags or {})})


def settings_with(ctx: click.Context, flags: Mapping[str, Any] | None = None) -> Settings:
    """As ``load_with``, without the origins."""
    return load_with(ctx, flags).settings


def open_database(ctx: click.Context) -> Database:
    """The data folder's database, closed when the command ends."""
    database = Database(settings_with(ctx).store)
    ctx.call_on_close(database.close)
    return database


def main(arguments: list[str] | None = None) -> None:
    """Entry point. A DeepEduError becomes one clear line and exit status 1; only a bug shows a traceback."""
    try:
        # Not in standalone mode click hands ctx.exit(n) back as the result.
        status = cli.main(args=arguments, prog_name="deepedu", standalone_mode=False)
    except click.Abort:
        errors.print("Đã dừng.", style="yellow")
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except DeepEduError as error:
        errors.print(f"[bold red]{error.code}[/]: ", end="")
        errors.print(str(error), markup=False, highlight=False)
        sys.exit(1)
    except KeyboardInterrupt:
        errors.print("Đã dừng.", style="yellow")
        sys.exit(130)
    sys.exit(status if isinstance(status, int) else 0)
