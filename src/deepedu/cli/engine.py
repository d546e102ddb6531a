"""``deepedu engine``: our own model server."""

import importlib.util
import json
import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

import click

from deepedu.base.egress import guard

if TYPE_CHECKING:
    from deepedu.base.config import EngineSettings
    from deepedu.engine.progress import Progress, ProgressSink


VLLM = "vllm"


class _EngineGroup(click.Group):
    """Imports the command that needs the library only when it is called: a model server has no use for it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "warm"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "warm":
            from deepedu.cli.warm import warm

            return warm
        return super().get_command(ctx, cmd_name)


@click.group(cls=_EngineGroup)
def engine() -> None:
    """The model server: an OpenAI-compatible endpoint on this machine."""


@engine.command()
@click.option("--model", metavar="SOURCE", help="Local folder, .gguf file, hub id, demo or demo-1.5b.")
@click.option("--host", help="Address to listen on; vllm: the method inside vLLM, which must be installed.")
@click.option("--port", type=int, help="Port; 0 takes any free one.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]))
@click.option("--dtype", type=click.Choice(["auto", "float32", "bfloat16", "float16"]))
@click.option("--weights", type=click.Choice(["auto", "full", "int8"]), help="What the CPU's linear layers hold.")
@click.option("--threads", type=int, help="CPU threads; 0 leaves the choice to torch.")
@click.option("--method", metavar="NAME", help="Attention method; docs/methods.md lists them.")
@click.option("--budget-tokens", type=int, help="Cached tokens a query may read.")
@click.option("--set", "method_set", metavar="KEY=VALUE", multiple=True, help="A field of the method; repeatable.")
@click.option("--max-queue", type=int, help="Requests that may wait; more are answered 429.")
@click.option("--prefill-chunk-tokens", type=int, help="Prompt tokens computed at once.")
@click.option("--window-tokens", type=int, help="Lowers the model's own window.")
@click.option(
    "--announce", is_flag=True, help='Write {"event": "listening", "port": N} to stdout, for a parent process.'
)
@click.argument("vllm_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- VLLM OPTIONS]")
@click.option("--tied", is_flag=True, help="End when standard input closes, as it does when the parent is gone.")
@click.pass_context
def serve(
    ctx: click.Context,
    model: str | None,
    host: str | None,
    port: int | None,
    device: str | None,
    dtype: str | None,
    weights: str | None,
    threads: int | None,
    method: str | None,
    budget_tokens: int | None,
    method_set: tuple[str, ...],
    max_queue: int | None,
    prefill_chunk_tokens: int | None,
    window_tokens: int | None,
    announce: bool,
    tied: bool,
    vllm_options: tuple[str, ...],
) -> None:
    """Serve a model until SIGTERM.

    With --host vllm, what stands after -- is given to vLLM as it is, such as: -- --tensor-parallel-size 2
    """
    from deepedu.cli.main import settings_with

    if vllm_options and host != VLLM:
        raise click.UsageError(f"options for vLLM need --host vllm, came {' '.join(vllm_options)!r}")

    _need_extra("serving a model")
    whole = settings_with(
        ctx,
        {
            "engine.model": model,
            "engine.host": None if host == VLLM else host,
            "engine.port": port,
            "engine.device": device,
            "engine.dtype": dtype,
            "engine.weights": weights,
            "engine.threads": threads,
            "engine.method": method,
            "engine.budget_tokens": budget_tokens,
            "engine.method_set": ",".join(method_set) or None,
            "engine.max_queue": max_queue,
            "engine.prefill_chunk_tokens": prefill_chunk_tokens,
            "engine.max_window_tokens": window_tokens,
        },
    )
    settings = whole.engine
    if host == VLLM:
        _become_vllm(settings, vllm_options)
    if tied and whole.server.offline:
        # Beside a school's server: its model is on disk already, and pupils' words pass through here.
        guard(())
    from deepedu.engine import process

    logging.getLogger("deepedu").setLevel(logging.INFO)

    def on_listening(address: str, real_port: int) -> None:
        if announce:
            print(json.dumps({"event": "listening", "host": address, "port": real_port}), flush=True)
        click.echo(f"listening on http://{address}:{real_port}/v1, loading {settings.model}", err=True)

    if tied:
        threading.Thread(target=_end_with_parent, name="deepedu-tied", daemon=True).start()
    with _shown_progress() as sink:
        process.serve(settings, on_listening=on_listening, progress=sink)


def _become_vllm(settings: "EngineSettings", more: tuple[str, ...]) -> NoReturn:
    from deepedu.engine import vllm_command, weights

    vllm_command.check_installed()
    with _shown_progress() as sink:
        folder = weights.resolve(settings.model, settings.cache_dir, sink)
    command, environment = vllm_command.build(settings, folder, weights.served_names(settings.model), more)
    click.echo(" ".join(command), err=True)
    # Its signals, its exit code and its output are ours.
    os.execvpe(command[0], command, {**os.environ, **environment})


def _end_with_parent() -> None:
    # A killed parent can tell nobody; the system closes its end of the pipe for it. Read past Python's buffer, whose
    # lock, held by a waiting thread, would make the interpreter abort when it ends for another reason.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


@engine.command()
@click.argument("source")
@click.option("--quiet", is_flag=True, help="Say nothing when the model is there already; do not look for a newer one.")
@click.pass_context
def fetch(ctx: click.Context, source: str, quiet: bool) -> None:
    """Fetch and convert a model, so that it later starts without the network."""
    from deepedu.cli.main import settings_with

    _need_extra("fetching a model")
    from deepedu.engine import weights

    settings = settings_with(ctx, {}).engine
    with _shown_progress() as sink:
        folder = weights.resolve(source, settings.cache_dir, sink, refresh=not quiet)
    if not quiet:
        click.echo(f"{source} is ready in {folder}")


def _need_extra(purpose: str) -> None:
    from deepedu.base.errors import MissingExtra

    if any(importlib.util.find_spec(name) is None for name in ("torch", "transformers", "fastapi", "uvicorn")):
        raise MissingExtra("engine", purpose)


# What the school's staff sees, so in Vietnamese.
_STAGES = {
    "wait": "Đang chờ",
    "download": "Đang tải",
    "assemble": "Đang ghép",
    "convert": "Đang chuyển đổi (một lần)",
    "load": "Đang nạp",
}


class _shown_progress:  # noqa: N801 - used as a function
    """A sink that draws one bar per stage on stderr; on something that is no terminal, one line per stage."""

    def __enter__(self) -> "ProgressSink":
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._stage: str | None = None
        self._live = sys.stderr.isatty()
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[amount]}"))
        self._bars = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=not self._live)
        self._task: object = None
        self._bars.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def _show(self, event: "Progress") -> None:
        label = _STAGES[event.stage]
        if event.stage != self._stage:
            self._finish()
            self._stage = event.stage
            if self._live:
                self._task = self._bars.add_task(label, total=event.total, amount="")
            else:
                click.echo(f"{label}: {event.detail}", err=True)
        if self._live:
            self._bars.update(
                self._task,  # type: ignore[arg-type]
                completed=event.done,
                total=event.total,
                description=f"{label}: {event.detail}",
                amount=_amount(event),
            )
            if event.stage == "load" and event.total == event.done:
                self._finish()

    def _finish(self) -> None:
        if self._task is not None:
            self._bars.stop_task(self._task)  # type: ignore[arg-type]
            self._task = None


def _amount(event: "Progress") -> str:
    if event.unit == "bytes":
        total = f" of {event.total / 1e6:.0f}" if event.total else ""
        return f"{event.done / 1e6:.0f}{total} MB"
    return f"{event.done} of {event.total}" if event.total else ""
