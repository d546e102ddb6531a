"""A real server on loopback."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient
from schoolroom import School, furnish

from deepedu.store import Database


@contextmanager
def _running(app: FastAPI) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while not server.started:
            assert thread.is_alive(), "the server died while starting"
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.02)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)


@pytest.fixture
def school(sample_library: Database) -> School:
    return furnish(sample_library)


@pytest.fixture
def client(school: School) -> Iterator[TestClient]:
    """A browser of nobody yet, on the school's application: ``school.sign_in(client, "an")`` makes it An's."""
    with TestClient(school.app(), follow_redirects=False) as client:
        yield school.sign_in(client, None)


@pytest.fixture
def start() -> Iterator[Callable[[FastAPI], str]]:
    """Starts applications; all of them end with the test."""
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(_running(app))
