"""The sample school is whole, made once, and its server starts, answers and stops."""

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from deepedu.base.errors import StoreError
from deepedu.cli import demo_server
from deepedu.cli.demo_school import PASSWORD, furnish
from deepedu.school.accounts import check_password
from deepedu.school.classes import classes_of, members
from deepedu.store import Database
from deepedu.store.conversations import conversations_of
from deepedu.store.flags import flags_of
from deepedu.store.library import list_books
from deepedu.tutor.classwork import mastery_of


def test_a_visitor_finds_a_school_with_a_past(sample_library: Database) -> None:
    book = list_books(sample_library)[0].id
    visitors = furnish(sample_library, book)
    assert furnish(sample_library, book) == visitors
    accounts = {each.username: check_password(sample_library, each.username, PASSWORD) for each in visitors}
    assert {each.role for each in accounts.values()} == {"student", "teacher", "guardian", "admin"}
    (classroom,) = classes_of(sample_library, accounts["colan"])
    pupils = members(sample_library, classroom.id, "student")
    assert len(pupils) == 14
    mastery = mastery_of(sample_library, [each.learner_id or "" for each in pupils])
    assert all(len(skills) >= 2 for skills in mastery.values())
    talks = conversations_of(sample_library, accounts["6a01"].owner)
    assert len(talks) == 2
    assert {flag.kind for flag in flags_of(sample_library, None, kinds=["safety", "grounding"])} >= {"safety"}


@pytest.mark.timeout(120)
def test_the_server_outlives_the_command_and_stops_when_told(sample_library: Database) -> None:
    folder = sample_library.data_dir
    sample_library.close()
    # An endpoint that nobody serves: the pages are there all the same.
    address = demo_server.start(folder, ["--llm", "http://127.0.0.1:9/v1"])
    try:
        assert demo_server.start(folder, []) == address
        assert demo_server.running(folder) == address
        assert "Đăng nhập" in httpx.get(f"{address}/login", headers={"Accept-Language": "vi"}).text
    finally:
        assert demo_server.stop(folder)
    assert demo_server.running(folder) is None
    assert not demo_server.stop(folder)


def test_a_server_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no-such-option"):
        demo_server.start(tmp_path, ["--no-such-option"])


def test_another_process_of_that_number_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        (tmp_path / "demo-server.json").write_text(f'{{"pid": {other.pid}, "address": "http://127.0.0.1:9"}}')
        assert not demo_server.stop(tmp_path)
        time.sleep(0.2)
        assert other.poll() is None
        os.kill(other.pid, 0)
    finally:
        other.kill()
        other.wait()
