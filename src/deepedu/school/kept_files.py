"""Files beside the database that hold what people wrote, or their names: what must go from them."""

import json
import os
import re
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from deepedu.base.errors import StoreError
from deepedu.store import Database
from deepedu.store.backup import MIGRATION_COPIES
from deepedu.store.tables import Conversation, Turn

# Where runs of ``deepedu learn`` keep what a model answered to turns.
JOURNALS = "learn"
# A turn, as learning names it.
TURN = re.compile(r"\bturn(\d+)-[0-9a-f]{8}\b")


def prune_journals(database: Database, *, without_owners: Collection[str] = ()) -> int:
    """Takes what runs of learning kept of turns that are gone, and of all turns of some owners, out of their journals.

    Returns:
        How many lines went.

    Raises:
        StoreError: a journal cannot be read or replaced.
    """
    count = 0
    try:
        for file in sorted((database.data_dir / JOURNALS).glob("*.jsonl")):
            lines = file.read_bytes().splitlines(keepends=True)
            turns = {turn for line in lines for turn in _turns_in(line)}
            living = _living_turns(database, turns, without_owners)
            kept = [line for line in lines if set(_turns_in(line)) <= living]
            if len(kept) < len(lines):
                _replace(file, b"".join(kept))
                count += len(lines) - len(kept)
    except OSError as error:
        raise StoreError(
            f"không sửa được nhật ký học trong {database.data_dir / JOURNALS}: {error.strerror or error}; "
            "hãy xem quyền ghi và chỗ trống, rồi làm lại"
        ) from error
    return count


def delete_copies(database: Database, *, before: datetime | None = None) -> int:
    """Deletes copies of the database that were made before migrations: names stand in them as they were.

    Args:
        before: only older ones; None: all.

    Raises:
        StoreError: one cannot be deleted.
    """
    count = 0
    try:
        for copy in sorted((database.data_dir / MIGRATION_COPIES).glob("*.sqlite3*")):
            if before is None or copy.stat().st_mtime < before.timestamp():
                copy.unlink(missing_ok=True)
                count += 1
    except OSError as error:
        raise StoreError(
            f"không xóa được bản chép cũ trong {database.data_dir / MIGRATION_COPIES}: {error.strerror or error}; "
            "hãy xem quyền ghi, rồi làm lại"
        ) from error
    return count


def _living_turns(database: Database, turns: Collection[int], without_owners: Collection[str]) -> set[int]:
    wanted = sa.select(Turn.id).join(Conversation, Conversation.id == Turn.conversation_id).where(Turn.id.in_(turns))
    if without_owners:
        wanted = wanted.where(sa.or_(Conversation.owner.is_(None), Conversation.owner.not_in(without_owners)))
    with database.read() as session:
        return set(session.scalars(wanted))


def _turns_in(line: bytes) -> Iterator[int]:
    """The turn that a line of a journal is about; a line that cannot be read is nobody's."""
    try:
        problem = json.loads(line)["problem"]
    except (ValueError, KeyError, TypeError):
        return
    if match := TURN.fullmatch(str(problem)):
        yield int(match[1])


def _replace(file: Path, content: bytes) -> None:
    part = file.with_name(f"{file.name}.part")
    with part.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)
