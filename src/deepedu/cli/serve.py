"""``deepedu serve``."""

from pathlib import Path

import click
import sqlalchemy as sa
from rich.console import Console

from deepedu.base.config import Settings
from deepedu.base.egress import Endpoint, guard
from deepedu.base.errors import ConfigError, MissingExtra
from deepedu.cli.main import settings_with
from deepedu.cli.tutor_session import fetch_model, model_flags, model_options


@click.command()
@click.option("--host", help="Address to listen on; 0.0.0.0 lets the school's network in.")
@click.option("--port", type=int, help="Port to listen on.")
@click.option("--open", "is_open", is_flag=True, help="One page to ask on, without accounts, for this machine only.")
@click.option(
    "--offline/--online", default=None, help="Refuse connections out, but to endpoints in the settings.  [default: on]"
)
@click.option("--certificate", type=click.Path(path_type=Path), help="TLS certificate (PEM), to serve https.")
@click.option("--certificate-key", type=click.Path(path_type=Path), help="Its private key (PEM).")
@model_options
@click.pass_context
def serve(
    ctx: click.Context,
    host: str | None,
    port: int | None,
    is_open: bool,
    offline: bool | None,
    certificate: Path | None,
    certificate_key: Path | None,
    llm: str | None,
    llm_model: str | None,
    model: str | None,
) -> None:
    """Start the school's pages, with our engine beside them unless --llm names another."""
    try:
        import uvicorn

        from deepedu.server.app import create_app
    except ModuleNotFoundError as error:
        raise MissingExtra("server", "deepedu serve") from error
    flags = {
        "server.host": host,
        "server.port": port,
        "server.access": "open" if is_open else None,
        "server.offline": offline,
        "server.certificate": certificate,
        "server.certificate_key": certificate_key,
        **model_flags(llm, llm_model, model),
    }
    settings = settings_with(ctx, flags)
    _check_certificate(settings)
    if settings.llm.url is None:
        fetch_model(settings)
    if settings.server.offline:
        guard(named_endpoints(settings))
    server = settings.server
    scheme = "https" if server.certificate else "http"
    console = Console()
    console.print(f"Địa chỉ: [bold]{scheme}://{server.host}:{server.port}[/]   (dừng bằng Ctrl-C)")
    if scheme == "http" and not server.behind_https and server.host not in ("127.0.0.1", "::1", "localhost"):
        console.print(
            "[yellow]Mật khẩu đi qua mạng không mã hóa. Hãy đặt server.certificate và server.certificate_key, hoặc một "
            "máy chủ https phía trước (server.behind_https).[/]"
        )
    uvicorn.run(
        create_app(settings),
        host=server.host,
        port=server.port,
        log_level="warning",
        ws="none",
        ssl_certfile=server.certificate,
        ssl_keyfile=server.certificate_key,
    )


def named_endpoints(settings: Settings) -> list[Endpoint]:
    """The servers that the settings name: the only ones that are reached while offline."""
    urls = (
        settings.llm.url,
        settings.search.embeddings_url,
        settings.playbook.reflector_url,
        settings.playbook.judge_url,
        settings.server.oidc_issuer,
    )
    named = [Endpoint.of(url) for url in urls if url]
    store = sa.make_url(settings.store.url) if settings.store.url else None
    if store is not None and store.get_backend_name() == "postgresql" and store.host:
        named.append(Endpoint(store.host, store.port or 5432))
    return named


def _check_certificate(settings: Settings) -> None:
    for name in ("certificate", "certificate_key"):
        path: Path | None = getattr(settings.server, name)
        if path is not None and not path.is_file():
            raise ConfigError(f"server.{name}: expected a PEM file, came {str(path)!r}, which is not there")
    if (settings.server.certificate is None) != (settings.server.certificate_key is None):
        raise ConfigError("https needs both server.certificate and server.certificate_key; came only one of them")
