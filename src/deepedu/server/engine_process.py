"""Our engine as a child process: started, waited for, restarted when it dies, stopped with us."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

import httpx

from deepedu.base.config import EngineSettings
from deepedu.base.errors import EngineError
from deepedu.store.lease import Lease

log = logging.getLogger(__name__)

NOTE_NAME = "engine.json"
# Converting a GGUF file at the first start takes about a minute on a slow machine; loading it later a few seconds.
READY_WITHIN_S = 600.0
RESTART_PAUSES_S = (1.0, 2.0, 5.0, 15.0, 60.0)
# An engine that served this long was healthy; its next death starts the pauses anew.
HEALTHY_AFTER_S = 120.0


class EngineProcess:
    """One engine child. ``start``, ``wait_ready``, optionally ``supervise``, ``stop``."""

    def __init__(
        self, settings: EngineSettings, *, publish_in: Path | None = None, command: list[str] | None = None
    ) -> None:
        """``publish_in``: the data folder whose other commands may use this engine too."""
        self.settings = settings
        self._note = publish_in / NOTE_NAME if publish_in else None
        self.restarts = 0
        # Assigned once at the first start and kept, so that clients need not learn a new address after a restart.
        self.port = settings.port
        self._command = command or [sys.executable, "-m", "deepedu", "engine", "serve", "--announce", "--tied"]
        self._process: Process | None = None
        self._tail: list[str] = []
        self._readers: list[asyncio.Task[None]] = []
        self._stopping = False

    @property
    def url(self) -> str:
        """Base URL of its OpenAI-compatible API."""
        return f"http://{self.settings.host}:{self.port}/v1"

    async def start(self) -> None:
        """Starts the child and learns its port.

        Raises:
            EngineError: it died at once; the message ends with what it said last.
        """
        environment = {**os.environ, **as_environment(self.settings), "DEEPEDU_ENGINE_PORT": str(self.port)}
        self._tail.clear()
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True
        )
        assert process.stdout is not None
        assert process.stderr is not None
        self._readers = [asyncio.create_task(self._read_errors(process.stderr))]
        try:
            async with asyncio.timeout(120):
                while line := await process.stdout.readline():
                    with contextlib.suppress(ValueError):
                        message = json.loads(line)
                        if isinstance(message, dict) and message.get("event") == "listening":
                            self.port = int(message["port"])
                            break
                else:
                    raise EngineError(await self._obituary("died before it listened"))
        except TimeoutError as error:
            await self.stop()
            raise EngineError(await self._obituary("did not open its port within 120 s")) from error
        self._readers.append(asyncio.create_task(_drain(process.stdout)))

    async def wait_ready(self, within_s: float = READY_WITHIN_S) -> None:
        """Returns when the model is loaded.

        Raises:
            EngineError: it died, says that the model cannot be loaded, or took too long.
        """
        begin = time.monotonic()
        async with httpx.AsyncClient(trust_env=False, timeout=5.0) as http:
            while time.monotonic() - begin < within_s:
                if self._process is None or self._process.returncode is not None:
                    raise EngineError(await self._obituary("died while loading the model"))
                with contextlib.suppress(httpx.HTTPError, ValueError):
                    health = (await http.get(self.url.removesuffix("/v1") + "/health")).json()
                    if health.get("status") == "ok":
                        self._write_note()
                        return
                    if health.get("status") == "failed":
                        raise EngineError(f"the engine cannot serve {self.settings.model!r}: {health.get('error')}")
                await asyncio.sleep(0.2)
        raise EngineError(f"the engine did not load {self.settings.model!r} within {within_s:g} s")

    async def supervise(self) -> None:
        """Restarts the engine whenever it dies, with growing pauses. Runs until cancelled or stopped."""
        failures = 0
        while True:
            begin = time.monotonic()
            if self._process is not None:
                await self._process.wait()
            if self._stopping:
                return
            failures = 0 if time.monotonic() - begin > HEALTHY_AFTER_S else failures + 1
            pause_s = RESTART_PAUSES_S[min(failures, len(RESTART_PAUSES_S) - 1)]
            log.warning("%s; starting it again in %g s", await self._obituary("died"), pause_s)
            await asyncio.sleep(pause_s)
            self.restarts += 1
            try:
                await self.start()
                await self.wait_ready()
            except EngineError as error:
                log.warning("%s", error)

    async def stop(self) -> None:
        """Lets running requests end, then takes the process down. Safe to call twice."""
        self._stopping = True
        if self._note is not None:
            self._note.unlink(missing_ok=True)
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(self.settings.drain_s + 10):
                    await process.wait()
            except TimeoutError:
                log.warning("the engine did not stop by itself; killing it")
                process.kill()
                await process.wait()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    def _write_note(self) -> None:
        """Tells other commands on this data folder where the engine is."""
        if self._note is None:
            return
        content = {"url": self.url, "model": self.settings.model, "lease": str(Lease.mine())}
        temporary = self._note.with_suffix(".part")
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(self._note)

    async def _read_errors(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            text = line.decode("utf-8", "replace").rstrip()
            self._tail = [*self._tail[-19:], text]
            log.info("engine: %s", text)

    async def _obituary(self, what: str) -> str:
        if self._readers:
            # What it said last may still be in the pipe.
            await asyncio.wait(self._readers[:1], timeout=2)
        status = self._process.returncode if self._process else None
        last_words = "\n".join(self._tail[-6:]) or "nothing"
        return f"the engine {what} (exit status {status}); it said last:\n{last_words}"


def running_engine(data_dir: Path) -> str | None:
    """URL of an engine that ``deepedu serve`` runs on this data folder and that answers, else None."""
    try:
        note: dict[str, Any] = json.loads((data_dir / NOTE_NAME).read_text(encoding="utf-8"))
        url, lease = str(note["url"]), Lease.parse(str(note["lease"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not lease.is_alive():
        return None
    try:
        health = httpx.get(url.removesuffix("/v1") + "/health", timeout=2.0, trust_env=False).json()
    except (httpx.HTTPError, ValueError):
        return None
    return url if health.get("status") == "ok" else None


def as_environment(settings: EngineSettings) -> dict[str, str]:
    """The settings as ``deepedu engine serve`` reads them from its environment."""
    values = settings.model_dump(exclude_none=True)
    return {f"DEEPEDU_ENGINE_{key.upper()}": str(value) for key, value in values.items()}


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.readline():
        pass
