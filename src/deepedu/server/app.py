"""The tutor's web server: its parts are built at start and closed at the end, routes only use them."""

import asyncio
import contextlib
import logging
import math
import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from deepedu import __version__
from deepedu.base.config import Settings
from deepedu.base.errors import (
    AccountLocked,
    BulletChanged,
    ConfigError,
    DeepEduError,
    EngineError,
    NotFound,
    NotSignedIn,
    WrongKey,
)
from deepedu.llm.chat import ChatModel
from deepedu.llm.client import ChatClient
from deepedu.llm.prefix_cache import PrefixCacheClient
from deepedu.playbook.book import Playbook
from deepedu.school.retention import keep_retention
from deepedu.search.embed import start_after_ingest
from deepedu.search.search import Search
from deepedu.server import (
    admin_class_routes,
    admin_routes,
    audit_routes,
    book_routes,
    consent_routes,
    conversation_routes,
    desk_routes,
    family_routes,
    feedback_routes,
    import_routes,
    key_routes,
    oidc_routes,
    openai_routes,
    playbook_pages,
    playbook_routes,
    privacy_routes,
    progress_routes,
    pupil_routes,
    quiz_api_routes,
    quiz_assignment_routes,
    quiz_drafting_routes,
    quiz_routes,
    quiz_taking_routes,
    safety_routes,
    session_routes,
    student_routes,
    tutor_routes,
)
from deepedu.server.access import CHANGE_PASSWORD, MustChangePassword, rules_of
from deepedu.server.asking import help_lines
from deepedu.server.engine_process import EngineProcess
from deepedu.server.pages import language_of, render, translator, wants_page
from deepedu.server.quiz_taking_routes import keep_closing
from deepedu.server.rates import Rate
from deepedu.server.warming import warm_in_background
from deepedu.store import Database
from deepedu.tutor.guided import GuidedTutor
from deepedu.tutor.learnt import BulletSource
from deepedu.tutor.safety_rules import SafetyRules, load_rules
from deepedu.tutor.turn import Tutor

log = logging.getLogger(__name__)


@dataclass
class ModelState:
    """Where the model is: ``starting``, ``ready`` or ``failed`` with the reason."""

    status: str = "starting"
    error: str | None = None


@dataclass
class Services:
    """What the routes use."""

    settings: Settings
    database: Database
    search: Search
    playbook: Playbook
    # Opens the teachers' part; None: nobody may use it. Kept out of every text that shows this object.
    teacher_key: str | None = field(default=None, repr=False)
    # Makes the keys by which askers speak of their answers.
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)
    # Tries to sign in, for each address and username.
    login_rate: Rate = field(default_factory=lambda: Rate(10, 60))
    password_checks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    model_state: ModelState = field(default_factory=ModelState)
    tutor: Tutor | None = None
    safety_rules: SafetyRules = field(default_factory=load_rules, repr=False)
    # The tutor as pupils meet it; there when ``tutor`` is.
    guided: GuidedTutor | None = None


def create_app(settings: Settings, *, model: ChatModel | None = None) -> FastAPI:
    """The application.

    Args:
        model: asked instead of an endpoint; neither ``llm.url`` nor an engine of ours is used then.

    Raises:
        ConfigError: the teachers' key in the environment is not fit to be one, the school's safety words or help lines
            cannot be read, or a server without accounts would be open to the network.
    """
    _check_open(settings)
    teacher_key = playbook_routes.key_from(os.environ)
    school_words = settings.school.safety_file
    safety_rules = load_rules(*([school_words] if school_words else []))
    help_lines(settings.school)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            database = Database(settings.store)
            stack.callback(database.close)
            search = Search(database, settings.search)
            playbook = Playbook(database, limit_tokens=settings.playbook.limit_tokens)
            services = Services(settings, database, search, playbook, teacher_key, safety_rules=safety_rules)
            app.state.services = services
            await _connect_model(services, model, stack)
            start_after_ingest(settings)
            if settings.server.access == "accounts":
                for chore in (keep_retention(database, settings.school), keep_closing(database)):
                    stack.push_async_callback(_cancel, asyncio.create_task(chore))
            yield

    app = FastAPI(title="DeepEdu", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.include_router(tutor_routes.router)
    app.include_router(playbook_routes.router)
    app.include_router(feedback_routes.router)
    if settings.server.access == "open":
        app.include_router(tutor_routes.open_page)
    else:
        for router in SCHOOL_ROUTERS:
            app.include_router(router)
        static = Path(str(resources.files("deepedu.server").joinpath("web/static")))
        app.mount("/static", StaticFiles(directory=static))
    _answer_errors(app, settings)
    # Raises where a route does not say who may use it.
    rules_of(app)
    return app


# What a server with accounts has besides.
SCHOOL_ROUTERS = (
    session_routes.router,
    oidc_routes.router,
    openai_routes.router,
    key_routes.router,
    pupil_routes.router,
    conversation_routes.router,
    admin_routes.router,
    admin_class_routes.router,
    import_routes.router,
    book_routes.router,
    quiz_routes.router,
    quiz_drafting_routes.router,
    quiz_drafting_routes.api,
    quiz_assignment_routes.router,
    quiz_taking_routes.router,
    quiz_api_routes.router,
    progress_routes.router,
    student_routes.router,
    safety_routes.router,
    playbook_pages.router,
    family_routes.router,
    desk_routes.router,
    consent_routes.router,
    privacy_routes.router,
    audit_routes.router,
)


def _check_open(settings: Settings) -> None:
    host = settings.server.host
    if settings.server.access == "open" and host not in ("127.0.0.1", "::1", "localhost"):
        raise ConfigError(
            f"server.access = open lets everybody ask without an account, so it listens on this machine only; came "
            f"server.host = {host!r}: use accounts ('deepedu school init' makes the first), or 127.0.0.1"
        )


async def _connect_model(services: Services, model: ChatModel | None, stack: contextlib.AsyncExitStack) -> None:
    settings = services.settings

    def connected(chat: ChatModel) -> None:
        cache = PrefixCacheClient(chat) if isinstance(chat, ChatClient) else None
        bullets = BulletSource(services.playbook, services.database, settings.playbook)
        tutor = Tutor(services.database, services.search, chat, settings.tutor, cache, bullets)
        services.guided = GuidedTutor(tutor, services.safety_rules, help_lines(settings.school))
        services.tutor = tutor
        services.model_state = ModelState("ready")
        if cache is not None and settings.tutor.warm_after_ingest == "background":
            task = asyncio.create_task(warm_in_background(services.database, cache, settings.tutor))
            stack.push_async_callback(_cancel, task)

    if model is not None:
        connected(model)
    elif settings.llm.url:
        connected(await stack.enter_async_context(ChatClient(settings.llm)))
    else:
        engine = EngineProcess(settings.engine, publish_in=services.database.data_dir)
        stack.push_async_callback(engine.stop)
        task = asyncio.create_task(_run_engine(engine, services, connected, stack))
        stack.push_async_callback(_cancel, task)


async def _run_engine(
    engine: EngineProcess,
    services: Services,
    connected: Callable[[ChatModel], None],
    stack: contextlib.AsyncExitStack,
) -> None:
    """Brings the engine up beside the server, so that the page opens at once and says what it waits for."""
    try:
        await engine.start()
        await engine.wait_ready()
    except EngineError as error:
        log.error("%s", error)
        services.model_state = ModelState("failed", str(error))
        return
    llm = services.settings.llm.model_copy(update={"url": engine.url, "model": None})
    connected(await stack.enter_async_context(ChatClient(llm)))
    await engine.supervise()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _error_page(request: Request, error: DeepEduError) -> Response:
    account = getattr(request.state, "account", None)
    if isinstance(error, NotSignedIn):
        then = request.url.path if request.method == "GET" else ""
        return RedirectResponse(f"/login?then={quote(then)}", 303)
    if isinstance(error, MustChangePassword):
        return RedirectResponse(CHANGE_PASSWORD, 303)
    headings = {404: "Không tìm thấy", 403: "Không được phép"}
    heading = translator(language_of(request, account))(headings.get(error.http_status, "Có lỗi"))
    return render(request, "error.html", account, status=error.http_status, heading=heading, message=str(error))


def _answer_errors(app: FastAPI, settings: Settings) -> None:
    def error_body(code: str, message: str) -> dict[str, dict[str, Any]]:
        return {"error": {"code": code, "message": message}}

    @app.exception_handler(DeepEduError)
    async def _known(request: Request, error: DeepEduError) -> Response:
        if wants_page(request) and settings.server.access == "accounts":
            return _error_page(request, error)
        body = error_body(error.code, str(error))
        if isinstance(error, BulletChanged):
            body["error"]["details"] = error.details
        headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, WrongKey) else None
        if isinstance(error, AccountLocked):
            headers = {"Retry-After": str(math.ceil(error.retry_after_s))}
        return JSONResponse(body, error.http_status, headers)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        told = "; ".join(f"{'.'.join(map(str, e['loc'][1:])) or 'body'}: {e['msg']}" for e in error.errors())
        return JSONResponse(error_body("bad_request", told), 400)

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        if wants_page(request) and settings.server.access == "accounts" and error.status_code == 404:
            return _error_page(request, NotFound("Không có trang này."))
        return JSONResponse(
            error_body("not_found" if error.status_code == 404 else "bad_request", error.detail), error.status_code
        )

    @app.exception_handler(Exception)
    async def _bug(_: Request, error: Exception) -> JSONResponse:
        log.error("unexpected error", exc_info=error)
        return JSONResponse(error_body("internal", "Lỗi bên trong máy chủ; người quản trị xem nhật ký."), 500)
