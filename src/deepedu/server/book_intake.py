"""Uploaded documents on their way into the library: one at a time, each read by a process of its own.

A document that brings its reader down, or takes minutes of computing, then leaves the server alone. How far a book is
read stands in the database; here is only what waits and how it ended. Files that wait survive the server.
"""

import json
import logging
import os
import queue
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

from deepedu.base.config import Settings
from deepedu.base.errors import DeepEduError
from deepedu.curriculum.metadata import Metadata
from deepedu.curriculum.readers import detect_format
from deepedu.curriculum.sources import check_size, digest
from deepedu.search.embed import start_after_ingest
from deepedu.server.upload import safe_name
from deepedu.store import Database
from deepedu.store.library import document_digests

log = logging.getLogger(__name__)

UPLOADS_NAME = "uploads"
# A folder's name tells the ingestion about series and grade; this one tells nothing.
_FOLDER, _GIVEN = "sach", "given.json"
_KEPT = 30
Status = Literal["waiting", "reading", "interrupted", "done", "failed"]


@dataclass(frozen=True)
class Upload:
    """A document that was uploaded. ``message``: what became of it, for people; ``notes``: what to look at."""

    token: str
    name: str
    status: Status
    message: str = ""
    notes: tuple[str, ...] = ()


class BookIntake:
    """The queue. Safe to share between threads."""

    def __init__(self, settings: Settings, database: Database, *, command: Sequence[str] | None = None) -> None:
        """Finds what an earlier server left; reading it begins with ``resume``."""
        self._settings, self._database = settings, database
        self._command = tuple(command or (sys.executable, "-m", "deepedu", "ingest"))
        self._folder = database.data_dir / UPLOADS_NAME
        self._uploads: dict[str, Upload] = {}
        # Tokens; "" goes on with interrupted books, None ends the thread.
        self._jobs: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._find_left()

    def uploads(self) -> list[Upload]:
        """What waits, is read, or ended since the server started; newest last."""
        with self._lock:
            return list(self._uploads.values())

    def add(self, file: IO[bytes], filename: str, metadata: Metadata) -> Upload:
        """Takes a document in.

        Raises:
            IngestError: nothing that can be read, with the reason.
        """
        upload = Upload(secrets.token_hex(8), safe_name(filename), "waiting")
        folder = self._folder / upload.token
        (folder / _FOLDER).mkdir(mode=0o700, parents=True)
        part = folder / "part"
        try:
            with part.open("xb") as copy:
                os.fchmod(copy.fileno(), 0o600)
                shutil.copyfileobj(file, copy, 1 << 20)
            check_size(part, self._settings.ingest.max_file_mb)
            detect_format(part, upload.name)
            (folder / _GIVEN).write_text(json.dumps(asdict(metadata), ensure_ascii=False), encoding="utf-8")
            part.replace(folder / _FOLDER / upload.name)
        except (DeepEduError, OSError):
            self._forget(upload.token)
            raise
        self._note(upload)
        self._submit(upload.token)
        return upload

    def resume(self) -> None:
        """Goes on with every reading that was interrupted, then with the files that an earlier server left."""
        self._submit("")
        for upload in self.uploads():
            if upload.status == "interrupted":
                self._note(replace(upload, status="waiting"))
                self._submit(upload.token)

    def close(self) -> None:
        """Stops the reading; it can go on at the next start."""
        with self._lock:
            self._stopping = True
            process, thread = self._process, self._thread
        if process is not None:
            process.terminate()
        self._jobs.put(None)
        if thread is not None:
            thread.join()

    def _find_left(self) -> None:
        folders = sorted(self._folder.glob("*"))
        known = set(document_digests(self._database).values()) if folders else set[str]()
        for folder in folders:
            path = next((folder / _FOLDER).glob("*"), None)
            # Where its reading had begun, the library has a copy of it.
            if path is None or digest(path) in known:
                self._forget(folder.name)
            else:
                self._uploads[folder.name] = Upload(folder.name, path.name, "interrupted")

    def _submit(self, token: str) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="book-intake", daemon=True)
                self._thread.start()
        self._jobs.put(token)

    def _work(self) -> None:
        while (token := self._jobs.get()) is not None and not self._stopping:
            try:
                self._read(token) if token else self._resume()
            except (DeepEduError, OSError, ValueError) as error:
                log.error("reading an uploaded book: %s", error)
                if token:
                    self._note(replace(self._uploads[token], status="failed", message=str(error)))

    def _read(self, token: str) -> None:
        upload = self._uploads[token]
        path = self._folder / token / _FOLDER / upload.name
        self._note(replace(upload, status="reading"))
        given: dict[str, Any] = json.loads((self._folder / token / _GIVEN).read_text(encoding="utf-8"))
        flags = [text for name, value in given.items() if value for text in (f"--{name}", str(value))]
        outcomes, last_words = self._run([*flags, "--", str(path)])
        if self._stopping:
            return
        self._note(_ended(upload, outcomes, last_words))
        self._forget(token)

    def _resume(self) -> None:
        outcomes, last_words = self._run(["--resume"])
        if self._stopping:
            return
        for outcome in outcomes or ():
            name = Path(outcome["path"]).name
            self._note(_ended(Upload(secrets.token_hex(8), name, "reading"), [outcome], last_words))
        if outcomes is None:
            log.error("interrupted books: %s", last_words)

    def _run(self, arguments: Sequence[str]) -> tuple[list[dict[str, Any]] | None, str]:
        """What ``deepedu ingest --json`` told, or None and its last words."""
        with self._lock:
            if self._stopping:
                return None, ""
            self._process = subprocess.Popen(
                [*self._command, "--json", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **_environment(self._settings)},
            )
        output, errors = self._process.communicate()
        with self._lock:
            status, self._process = self._process.returncode, None
        try:
            outcomes = json.JSONDecoder().raw_decode(output.decode("utf-8", "replace").lstrip())[0]
        except ValueError:
            lines = errors.decode("utf-8", "replace").strip().splitlines()
            log.error("deepedu ingest ended with status %s: %s", status, "\n".join(lines[-6:]))
            return None, f"tiến trình đọc dừng đột ngột (mã {status}); {lines[-1][:300] if lines else 'không rõ lý do'}"
        if any(outcome["status"] in ("added", "resumed") for outcome in outcomes):
            start_after_ingest(self._settings)
        return outcomes, ""

    def _note(self, upload: Upload) -> None:
        with self._lock:
            self._uploads[upload.token] = upload
            ended = [token for token, each in self._uploads.items() if each.status in ("done", "failed")]
            for token in ended[:-_KEPT]:
                del self._uploads[token]

    def _forget(self, token: str) -> None:
        shutil.rmtree(self._folder / token, ignore_errors=True)


def _ended(upload: Upload, outcomes: list[dict[str, Any]] | None, last_words: str) -> Upload:
    if not outcomes:
        return Upload(upload.token, upload.name, "failed", last_words or "không đọc được tệp")
    outcome = outcomes[0]
    is_good = outcome["status"] in ("added", "resumed", "already_there")
    message = (
        f"đã có trong thư viện: {outcome['message']}" if outcome["status"] == "already_there" else outcome["message"]
    )
    return Upload(upload.token, upload.name, "done" if is_good else "failed", message, tuple(outcome["notes"]))


def _environment(settings: Settings) -> dict[str, str]:
    """The server's own settings, flags included, for the process that reads."""
    layers = {"store": settings.store, "ingest": settings.ingest, "search": settings.search}
    values = {
        f"DEEPEDU_{layer}_{key}".upper(): str(value)
        for layer, values in layers.items()
        for key, value in values.model_dump(exclude_none=True).items()
    }
    if settings.search.embed_after_ingest == "background":
        # The server does it once the process has ended.
        values["DEEPEDU_SEARCH_EMBED_AFTER_INGEST"] = "off"
    return values
