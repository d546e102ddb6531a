"""Fixtures of the search tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_library import HashEmbedder, Library


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    library = Library(tmp_path / "data")
    yield library
    library.db.close()


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder()
