"""The server as a process: its port opens at once, the model loads behind it, SIGTERM drains it."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType

import uvicorn

from deepedu.base.config import EngineSettings
from deepedu.base.errors import DeepEduError, EngineError
from deepedu.engine.engine import Engine
from deepedu.engine.progress import ProgressSink, ignore
from deepedu.engine.serve import create_app

logger = logging.getLogger(__name__)

# For responses to leave once their computation has ended.
FLUSH_S = 5


def serve(
    settings: EngineSettings,
    *,
    on_listening: Callable[[str, int], None] = lambda _host, _port: None,
    progress: ProgressSink = ignore,
    engine: Engine | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT; a second signal ends it without waiting.

    Args:
        settings: of the engine.
        on_listening: called with address and real port once connections are accepted.
        progress: told about the loading of the model.
        engine: another than one made from ``settings``.

    Raises:
        EngineError: the address cannot be listened on.
        DeepEduError: the model could not be loaded.
    """
    _share_cores()
    listener = _listen(settings.host, settings.port)
    engine = engine or Engine(settings, progress=progress)
    config = uvicorn.Config(
        create_app(engine),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=FLUSH_S,
    )
    server = _DrainingServer(config, engine, settings.drain_s)
    loading = threading.Thread(target=_load, args=(engine, server), name="deepedu-load", daemon=True)
    try:
        on_listening(settings.host, listener.getsockname()[1])
        loading.start()
        server.run(sockets=[listener])
    finally:
        engine.close()
        listener.close()
        # A download stops at its next event and takes pip with it; reading weights cannot be stopped, nor must it be.
        loading.join(timeout=2)
    if isinstance(engine.failure, DeepEduError):
        raise engine.failure


def _share_cores() -> None:
    """Lets idle compute threads sleep soon, unless the environment says how they wait.

    libgomp's threads spin for milliseconds between two operations. That gains little on an idle machine, but where
    something else runs (an embedder in the background) they take the time from each other: 1 token/s instead of 6,
    measured with the 0.5B demo model on two busy cores. 1000 is what libgomp itself takes when it knows that there are
    more threads than cores. Works only before torch is imported, so the library never imports it at its top.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def _load(engine: Engine, server: "_DrainingServer") -> None:
    if engine.status != "loading":
        return
    try:
        engine.load()
    except DeepEduError as error:
        logger.error("the model could not be loaded: %s", error)
    except Exception as error:
        logger.exception("the model could not be loaded")
        engine.failure = EngineError(f"the model could not be loaded ({type(error).__name__}: {error})")
    if engine.failure is not None:
        server.should_exit = True


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise EngineError(
            f"cannot listen on {host}:{port} ({error.strerror or error}): choose another engine.port (0 takes a free "
            "one) or engine.host"
        ) from error


class _DrainingServer(uvicorn.Server):
    """Answers 503 to new requests while accepted ones finish, and only then closes its socket."""

    def __init__(self, config: uvicorn.Config, engine: Engine, drain_s: float) -> None:
        super().__init__(config)
        self._engine, self._drain_s = engine, drain_s
        self._drainer: threading.Thread | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal. It is not passed on to uvicorn, which would raise it again after a clean end."""
        del frame
        if self._drainer is not None:
            self.should_exit = self.force_exit = True
            return
        # Signal handlers run between two instructions of the main thread, which may hold the scheduler's lock, or the
        # log's.
        self._drainer = threading.Thread(
            target=self._drain, args=(signal.Signals(sig).name,), name="deepedu-drain", daemon=True
        )
        self._drainer.start()

    def _drain(self, why: str) -> None:
        try:
            logger.info("%s: finishing accepted requests, up to %g s", why, self._drain_s)
            if not self._engine.drain(self._drain_s):
                logger.warning("requests were still running after %g s and were cancelled", self._drain_s)
        finally:
            self.should_exit = True
