"""A data folder as a school has it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from data_folders import write_pair

from deepedu.base.config import StoreSettings
from deepedu.store import Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A data folder with a document, a note, and what must never be in a backup."""
    database = Database(StoreSettings(data_dir=tmp_path / "data"))
    (database.documents_dir / "ab.pdf").write_bytes(b"%PDF-1.7 " + bytes(range(256)) * 40)
    (database.documents_dir / ".ab.1.part").write_bytes(b"half")
    (database.data_dir / "learn").mkdir()
    (database.data_dir / "learn" / "Bài 1.jsonl").write_text("{}\n", encoding="utf-8")
    for name in ("keys.sqlite3", "keys.sqlite3-journal", "school.key", "school.key.0011aabb"):
        with (database.data_dir / name).open("ab") as file:
            file.write(b"" if name in ("keys.sqlite3", "school.key") else b"secret")
    with database.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE pairs (number INTEGER, side TEXT)")
    write_pair(database, 0)
    yield database
    database.close()
