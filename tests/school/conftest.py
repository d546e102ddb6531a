"""A library with people who have left traces everywhere."""

import pytest
from kept_people import KeptPeople, keep_people

from deepedu.store import Database


@pytest.fixture
def kept(sample_library: Database) -> KeptPeople:
    return keep_people(sample_library)
