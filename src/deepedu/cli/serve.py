"""``deepedu serve``."""

import click
from rich.console import Console

from deepedu.base.errors import MissingExtra
from deepedu.cli.main import settings_with
from deepedu.cli.tutor_session import fetch_model, model_flags, model_options


@click.command()
@click.option("--host", help="Address to listen on; 0.0.0.0 lets the school's network in.")
@click.option("--port", type=int, help="Port to listen on.")
@model_options
@click.pass_context
def serve(
    ctx: click.Context,
    host: str | None,
    port: int | None,
    llm: str | None,
    llm_model: str | None,
    model: str | None,
) -> None:
    """Start the tutor for browsers, with our engine beside it unless --llm names another."""
    try:
        import uvicorn

        from deepedu.server.app import create_app
    except ModuleNotFoundError as error:
        raise MissingExtra("server", "deepedu serve") from error
    flags = {"server.host": host, "server.port": port, **model_flags(llm, llm_model, model)}
    settings = settings_with(ctx, flags)
    if settings.llm.url is None:
        fetch_model(settings)
    address = f"http://{settings.server.host}:{settings.server.port}"
    Console().print(f"Trang hỏi bài: [bold]{address}[/]   (dừng bằng Ctrl-C)")
    uvicorn.run(create_app(settings), host=settings.server.host, port=settings.server.port, log_level="warning")
