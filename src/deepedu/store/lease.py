"""Who is at work on a row, and is that process still there?

A row that is being worked on carries its worker's lease. After kill -9 the lease names a process that is gone, so
the work shows as interrupted and can be taken up by anybody, without clocks, heartbeats or clean-up on exit.
"""

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Lease:
    """A process: host, process id, and a birth mark that tells it from a later process of the same id."""

    host: str
    pid: int
    birth: str

    @classmethod
    def mine(cls) -> "Lease":
        """The lease of this process."""
        return cls(socket.gethostname(), os.getpid(), _birth(os.getpid()))

    @classmethod
    def parse(cls, text: str) -> "Lease":
        """Reads what ``str()`` wrote."""
        host, pid, birth = text.rsplit("/", 2)
        return cls(host, int(pid), birth)

    def __str__(self) -> str:
        return f"{self.host}/{self.pid}/{self.birth}"

    def is_alive(self) -> bool:
        """False only when the process is known to be gone; a process of another host counts as alive."""
        if self.host != socket.gethostname():
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # It exists and belongs to another user; the birth mark below decides.
        birth = _birth(self.pid)
        return not birth or not self.birth or birth == self.birth


def _birth(pid: int) -> str:
    """Start time of a process in clock ticks since boot; empty where the system does not tell."""
    try:
        # Field 22 of /proc/PID/stat; the name in field 2 may hold spaces, so count after its closing parenthesis.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    # A zombie has exited; its parent merely has not looked yet.
    return "gone" if fields[0] == "Z" else fields[19]
