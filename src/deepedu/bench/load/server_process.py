"""The application's process, from the outside: start, look at, end, kill."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deepedu.base.config import Settings
from deepedu.base.errors import ConfigError
from deepedu.bench.load.serve import Pace, write_orders

START_S = 120.0


class ServerProcess:
    """A running server. ``url`` is its address; what it says goes to ``log``."""

    def __init__(self, settings: Settings, pace: Pace, folder: Path) -> None:
        """Starts it, and waits until it answers.

        Args:
            folder: for its orders and its log.

        Raises:
            ConfigError: it ended while it started; the message has its last words.
        """
        self.log = folder / "server.log"
        orders = folder / "orders.json"
        write_orders(orders, settings, pace)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "deepedu.bench.load.serve", str(orders)], stdout=subprocess.PIPE, stderr=log
            )
        self.pid = self._process.pid
        self.url = self._first_line()

    def end(self) -> None:
        """Ends it as an administrator would; killed if that takes too long."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close()

    def kill(self) -> None:
        """Kills it at once, as a power cut would."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.wait(30)
        self._close()

    def _close(self) -> None:
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _first_line(self) -> str:
        assert self._process.stdout is not None, "its output is a pipe"
        # A start that hangs ends here: then the pipe closes and the line is empty.
        limit = threading.Timer(START_S, self._process.kill)
        limit.start()
        try:
            line = self._process.stdout.readline().decode().strip()
        finally:
            limit.cancel()
        if not line:
            self._process.kill()
            self._process.wait(30)
            self._close()
            told = self.log.read_text(encoding="utf-8", errors="replace").strip()[-2000:]
            raise ConfigError(f"the school's server did not start; its last words: {told or 'none'}")
        return line


@contextmanager
def serving(settings: Settings, pace: Pace, folder: Path) -> Iterator[ServerProcess]:
    """A server until the block ends."""
    server = ServerProcess(settings, pace, folder)
    try:
        yield server
    finally:
        server.end()
