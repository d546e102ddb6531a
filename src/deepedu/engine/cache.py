"""Prefix reuse: rows that were computed for an earlier prompt serve a later one that begins alike.

Two kinds of rows, kept strictly apart. *Shared* rows belong to text that its sender marked shared (rules, lessons):
they serve everyone, in memory and on disk. *Private* rows follow them in one owner's conversation: their hashes are
mixed with the owner, so that nobody else's prompt can find them, and they never reach the disk.
"""

import hashlib
import logging
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import torch

from deepedu.base.errors import EngineError
from deepedu.engine.prefix_files import HASH_BLOCK, HASH_BYTES, PrefixFile, PrefixFiles
from deepedu.engine.prompt import Prompt, Source
from deepedu.engine.rows import RowBlock

logger = logging.getLogger(__name__)


def block_hashes(ids: Sequence[int], seed: bytes) -> list[bytes]:
    """A hash for each whole block of tokens and everything before it, and one more for a rest."""
    found: list[bytes] = []
    digest = seed
    for start in range(0, len(ids), HASH_BLOCK):
        block = array("q", ids[start : start + HASH_BLOCK]).tobytes()
        digest = hashlib.sha256(digest + block).digest()[:HASH_BYTES]
        found.append(digest)
    return found


@dataclass(eq=False)
class Segment:
    """Rows of consecutive tokens, never written again: one block per layer. ``start`` counts the tokens before them.

    ``partial``: of a computation that was interrupted.
    """

    blocks: list[RowBlock]
    rows: int
    hashes: list[bytes]
    start: int = 0
    source: Source = "memory"
    tag: str | None = None
    users: int = 0
    partial: bool = False
    used_at: float = field(default_factory=time.monotonic)

    @property
    def held_bytes(self) -> int:
        """Memory held; rows that are mapped from a file are the system's to drop."""
        mapped = self.source == "disk" and self.blocks[0].keys.device.type == "cpu"
        return 0 if mapped else self.rows * sum(block.row_bytes for block in self.blocks)


@dataclass(frozen=True)
class Match:
    """What of a prompt is there already: rows of a shared segment, then rows of a private one."""

    shared: Segment | None = None
    shared_rows: int = 0
    private: Segment | None = None
    private_rows: int = 0

    @property
    def rows(self) -> int:
        """Tokens that need not be computed."""
        return self.shared_rows + self.private_rows

    @property
    def source(self) -> Source | None:
        """Where the shared rows came from; where there are none, the private ones."""
        segment = self.shared if self.shared_rows else self.private if self.private_rows else None
        return None if segment is None else segment.source


class PrefixCache:
    """Segments in memory and on disk, within a limit of bytes that running requests count against too."""

    def __init__(
        self,
        limit_bytes: int,
        dtype: torch.dtype,
        files: PrefixFiles | None = None,
        device: torch.device | None = None,
    ) -> None:
        """``dtype``: that of rows when they are used, whatever they are stored as. ``device`` None: the CPU."""
        self.limit_bytes = limit_bytes
        self._dtype, self._files, self._device = dtype, files, device
        self._lock = threading.RLock()
        self._segments: list[Segment] = []
        self._index: dict[bytes, tuple[Segment, int]] = {}
        self._reserved = 0
        self._writer = ThreadPoolExecutor(1, "deepedu-prefix-writer")

    @property
    def held_bytes(self) -> int:
        """Memory held by segments."""
        return sum(segment.held_bytes for segment in self._segments)

    @property
    def reserved_bytes(self) -> int:
        """Memory promised to running requests."""
        return self._reserved

    def reserve(self, size: int) -> bool:
        """Promises memory to a request; segments that nobody uses make room. Returns whether there is enough."""
        with self._lock:
            in_use = sum(segment.held_bytes for segment in self._segments if segment.users)
            if self._reserved + in_use + size > self.limit_bytes:
                return False
            self._reserved += size
            self._evict()
            return True

    def release(self, size: int) -> None:
        """Takes a promise back."""
        with self._lock:
            self._reserved -= size

    def match(self, prompt: Prompt) -> Match:
        """The longest computed prefix of a prompt. The segments are in use until ``done_with``."""
        shared_hashes = _shared_hashes(prompt)
        with self._lock:
            segment, rows = self._longest(shared_hashes, prompt.shared_tokens, on_disk=True)
            private, private_rows = None, 0
            # Private rows stand on all of the shared ones. One token is left to compute: its logits are wanted.
            if rows == prompt.shared_tokens and prompt.owner is not None:
                hashes = _private_hashes(prompt, shared_hashes)
                private, private_rows = self._longest(hashes, len(prompt.ids) - 1 - prompt.shared_tokens, on_disk=False)
            match = Match(segment, rows, private, private_rows)
            for each in (segment, private):
                if each is not None:
                    each.users += 1
                    each.used_at = time.monotonic()
            return match

    def done_with(self, match: Match) -> None:
        """The request that got this match no longer reads its rows."""
        with self._lock:
            for each in (match.shared, match.private):
                if each is not None:
                    each.users -= 1
            self._evict()

    def look(self, prompt: Prompt) -> tuple[int, Source | None]:
        """Shared tokens of a prompt that are there, and where; loads and uses nothing."""
        hashes = _shared_hashes(prompt)
        with self._lock:
            for index in range(len(hashes) - 1, -1, -1):
                rows = min((index + 1) * HASH_BLOCK, prompt.shared_tokens)
                if (found := self._index.get(hashes[index])) is not None and found[1] == rows:
                    return rows, found[0].source
                if (
                    self._files is not None
                    and (file := self._files.find(hashes[index])) is not None
                    and file[1] == rows
                ):
                    return rows, "disk"
        return 0, None

    def add_shared(self, prompt: Prompt, blocks: list[RowBlock], rows: int) -> Segment:
        """Keeps the first ``rows`` rows of a prompt's shared tokens, in use by the caller until ``done_with``."""
        hashes = block_hashes(prompt.ids[:rows], b"")
        partial = rows < prompt.shared_tokens
        segment = Segment(blocks, rows, hashes, tag=prompt.tag, users=1, partial=partial)
        with self._lock:
            self._add(segment)
        return segment

    def add_private(self, prompt: Prompt, ids: Sequence[int], blocks: list[RowBlock], rows: int) -> None:
        """Keeps rows that follow the shared ones. ``ids``: all tokens of prompt and completion."""
        if prompt.owner is None or rows < HASH_BLOCK:
            return
        stop = prompt.shared_tokens + rows
        whole = Prompt(ids[:stop], prompt.shared_tokens, prompt.owner)
        hashes = _private_hashes(whole, _shared_hashes(whole))
        with self._lock:
            self._add(Segment(blocks, rows, hashes, start=prompt.shared_tokens))
            self._evict()

    def store(self, segment: Segment, then: Callable[[EngineError | None], None] | None = None) -> None:
        """Writes a shared segment to disk in the background; ``then`` hears of the end, in the writer's thread."""
        files = self._files
        if files is None or files.limit_bytes == 0:
            if then is not None:
                then(None)
            return

        def write() -> None:
            failure = None
            try:
                known = files.find(segment.hashes[-1])
                if known is None or known[1] != segment.rows:
                    files.write(segment.blocks, segment.rows, segment.hashes, segment.tag, partial=segment.partial)
            except EngineError as error:
                logger.warning("%s", error)
                failure = error
            except Exception as error:
                # The boundary of a thread: whoever waits for the end must hear of it.
                logger.exception("a prefix could not be written")
                failure = EngineError(f"the prefix could not be written ({type(error).__name__}); see the log")
            if then is not None:
                then(failure)

        self._writer.submit(write)

    @property
    def writes_disk(self) -> bool:
        """Whether shared prefixes survive a restart."""
        return self._files is not None and self._files.limit_bytes > 0

    def forget(self, tag: str) -> tuple[int, int]:
        """Drops everything of a tag; returns files deleted and their bytes."""
        with self._lock:
            for segment in [each for each in self._segments if each.tag == tag]:
                self._remove(segment)
        # Behind the writes that were asked for before.
        return self._writer.submit(self._files.forget, tag).result() if self._files is not None else (0, 0)

    def close(self) -> None:
        """Finishes what is being written."""
        self._writer.shutdown(wait=True, cancel_futures=False)

    def _longest(self, hashes: list[bytes], limit: int, *, on_disk: bool) -> tuple[Segment | None, int]:
        for index in range(len(hashes) - 1, -1, -1):
            rows = (index + 1) * HASH_BLOCK
            if rows > limit:
                # A rest counts only where the limit is its end; tokens beyond the limit are left to compute.
                rows = limit if index == len(hashes) - 1 and on_disk else 0
            if rows <= 0:
                continue
            found = self._index.get(hashes[index])
            if found is not None and found[1] == rows:
                return found
            if on_disk and self._files is not None and (file := self._files.find(hashes[index])) is not None:
                segment = self._from_disk(self._files, file[0]) if file[1] == rows else None
                if segment is not None:
                    return segment, rows
        return None, 0

    def _from_disk(self, files: PrefixFiles, file: PrefixFile) -> Segment | None:
        blocks = files.load(file, self._dtype, self._device)
        if blocks is None:
            return None
        segment = Segment(blocks, file.rows, list(file.hashes), source="disk", tag=file.path.parent.name)
        self._add(segment)
        return segment

    def _add(self, segment: Segment) -> None:
        self._segments.append(segment)
        for index, digest in enumerate(segment.hashes):
            rows = min((index + 1) * HASH_BLOCK, segment.rows)
            self._index.setdefault(digest, (segment, rows))

    def _evict(self) -> None:
        idle = sorted((each for each in self._segments if each.users == 0), key=lambda each: each.used_at)
        for segment in idle:
            if self.held_bytes + self._reserved <= self.limit_bytes:
                return
            self._remove(segment)

    def _remove(self, segment: Segment) -> None:
        self._segments.remove(segment)
        self._index = {digest: found for digest, found in self._index.items() if found[0] is not segment}
        for other in self._segments:
            for index, digest in enumerate(other.hashes):
                self._index.setdefault(digest, (other, min((index + 1) * HASH_BLOCK, other.rows)))


def _shared_hashes(prompt: Prompt) -> list[bytes]:
    return block_hashes(prompt.ids[: prompt.shared_tokens], b"")


def _private_hashes(prompt: Prompt, shared: list[bytes]) -> list[bytes]:
    owner = hashlib.sha256(b"owner:" + (prompt.owner or "").encode()).digest()
    return block_hashes(prompt.ids[prompt.shared_tokens :], owner + (shared[-1] if shared else b""))
