"""Bullets and deltas for tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

from deepedu.playbook.bullet import Author, Bullet, PassageEvidence
from deepedu.playbook.delta import Delta, Operation

AT = datetime(2026, 9, 5, 7, 30, tzinfo=UTC)
MODEL, VERIFIER, SYSTEM = Author(role="model", name="qwen"), Author(role="verifier"), Author(role="system")
TEACHER = Author(role="teacher", name="cô Lan")
QUOTE = PassageEvidence(book="0" * 64, page=12, quote="Robert Hooke gọi mỗi ô nhỏ là cell.")


def delta(*operations: Operation, author: Author = MODEL, minutes: int = 0, **more: Any) -> Delta:
    values: dict[str, Any] = {"id": f"d-{minutes}", "reason": "thử", "at": AT + timedelta(minutes=minutes), **more}
    return Delta(author=author, operations=operations, **values)


def bullet(number: int, text: str, **more: Any) -> Bullet:
    values: dict[str, Any] = {
        "section": "Kiến thức trong sách",
        "kind": "fact",
        "author": MODEL,
        "status": "verified",
        "created_at": AT,
        "changed_at": AT,
        **more,
    }
    return Bullet(id=f"b-{number:05d}", order=number, text=text, **values)
