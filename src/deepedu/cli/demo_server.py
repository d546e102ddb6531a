"""The demo school's server: a process of its own that goes on when the command has ended, until it is told to stop."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from deepedu.base.errors import StoreError

_NOTE = "demo-server.json"
_LOG = "demo-server.log"
_STARTS_WITHIN_S = 90.0
_STOPS_WITHIN_S = 20.0
PORT = 8400


def running(folder: Path) -> str | None:
    """The address of the demo school's server, None where it does not run."""
    note = _read(folder)
    if note is None or not _answers(note["address"]):
        return None
    return note["address"]


def start(folder: Path, options: Sequence[str]) -> str:
    """Starts ``deepedu serve`` over a data folder and waits until its pages answer; returns the address.

    Raises:
        StoreError: it did not start; the message names its log.
    """
    address = running(folder)
    if address is not None:
        return address
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "deepedu", "--data", str(folder), "serve", "--port", str(port), *options]
    with (folder / _LOG).open("w") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    (folder / _NOTE).write_text(json.dumps({"pid": process.pid, "address": address}), encoding="utf-8")
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while not _answers(address):
        if process.poll() is not None or time.monotonic() > deadline:
            stop(folder)
            told = (folder / _LOG).read_text(encoding="utf-8", errors="replace").strip()[-1000:]
            raise StoreError(f"trường mẫu không khởi động được; nhật ký {folder / _LOG}:\n{told}")
        time.sleep(0.2)
    # It outlives this object on purpose, which would warn otherwise.
    process.returncode = 0
    return address


def stop(folder: Path) -> bool:
    """Stops the server that ``start`` began; False where none runs."""
    note = _read(folder)
    if note is None:
        return False
    (folder / _NOTE).unlink(missing_ok=True)
    # A process of that number may be another by now: only one that answers as ours is stopped, or one that we began.
    if not _is_ours(note["pid"], folder):
        return False
    with suppress(ProcessLookupError):
        os.kill(note["pid"], signal.SIGTERM)
    deadline = time.monotonic() + _STOPS_WITHIN_S
    while _is_ours(note["pid"], folder) and time.monotonic() < deadline:
        with suppress(ChildProcessError):
            os.waitpid(note["pid"], os.WNOHANG)
        time.sleep(0.1)
    return True


def _read(folder: Path) -> dict[str, Any] | None:
    try:
        note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) and isinstance(note.get("pid"), int) else None


def _is_ours(pid: int, folder: Path) -> bool:
    try:
        told = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return not Path("/proc").exists()
    return str(folder).encode() in told and b"serve" in told


def _answers(address: object) -> bool:
    try:
        answer = httpx.get(f"{address}/api/health", timeout=2)
    except httpx.HTTPError:
        return False
    return answer.status_code == 200 and "status" in answer.json()


def _free_port() -> int:
    for port in (PORT, 0):
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return listener.getsockname()[1]
    raise StoreError("không có cổng nào rảnh trên máy này")
