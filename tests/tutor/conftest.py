"""The sample textbook as a tutor looks things up in it."""

from functools import cache

import pytest
from ladder_talk import Look

from deepedu.base.config import SearchSettings
from deepedu.search.search import Search
from deepedu.store import Database


@pytest.fixture
def look(sample_library: Database) -> Look:
    search = Search(sample_library, SearchSettings(dense="off"))
    return cache(lambda question: tuple(search.search(question, limit=12)[:8]))
