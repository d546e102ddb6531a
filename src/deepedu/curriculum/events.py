"""What ingestion tells while it works, and what became of each file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deepedu.base.errors import IngestError

Status = Literal["added", "already_there", "resumed", "failed", "busy"]


@dataclass(frozen=True)
class FileStarted:
    """A file is opened; ``index`` counts from 1. ``pages_read`` is above 0 where an interrupted reading goes on."""

    path: Path
    index: int
    file_count: int
    page_count: int
    pages_read: int = 0


@dataclass(frozen=True)
class PageRead:
    """A page is read and will be stored with the next few."""

    path: Path
    number: int
    page_count: int


@dataclass(frozen=True)
class Indexing:
    """All pages are stored; structure and passages are being made."""

    path: Path


@dataclass(frozen=True)
class Outcome:
    """What became of one file. ``error`` is set when it ``failed``; ``message`` is for the user, in Vietnamese."""

    path: Path
    status: Status
    message: str
    book_id: int | None = None
    title: str | None = None
    pages: int = 0
    passages: int = 0
    notes: tuple[str, ...] = ()
    error: IngestError | None = None

    @property
    def is_good(self) -> bool:
        """Whether the book can now be searched."""
        return self.status in ("added", "already_there", "resumed")


@dataclass(frozen=True)
class FileFinished:
    """The end of a file, good or bad."""

    outcome: Outcome
    index: int
    file_count: int


Event = FileStarted | PageRead | Indexing | FileFinished
