"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets, beside the checkout or named by ``DEEPEDU_DATA``."""
    named = os.environ.get("DEEPEDU_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real data sets are not at {folder}; set DEEPEDU_DATA to where they are")
    return folder


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads the developer's settings or writes into the developer's data folder."""
    for variable in list(os.environ):
        if variable.startswith("DEEPEDU_") and variable != "DEEPEDU_DATA":
            monkeypatch.delenv(variable)
    monkeypatch.setenv("DEEPEDU_STORE_DATA_DIR", str(tmp_path / "data"))
