"""axe-core finds no serious fault on any page, for any role, light and dark, on a phone and on a desk.

axe-core is no part of the project: ``make test`` fetches it from npm where npm is installed.
"""

import html
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from selenium import webdriver
from selenium.webdriver.common.by import By

from deepedu.base.config import Settings
from deepedu.cli.demo_school import PASSWORD, furnish
from deepedu.llm.scripted import ScriptedModel
from deepedu.server.access import rules_of
from deepedu.server.app import create_app
from deepedu.store import Database
from deepedu.store.library import list_books

AXE = Path(__file__).parents[2] / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
CHROMEDRIVER = shutil.which("chromedriver")
VISITORS = {"student": "6a01", "teacher": "colan", "guardian": "phuhuynh", "admin": "quantri"}
# Addresses that send a file, or another page, rather than a page of their own.
NO_PAGE = re.compile(r"/(static|oidc|me/export|.*\.(csv|xlsx|json|zip)|.*export.*)")
_LINK = re.compile(r'<a\b[^>]*?\bhref="(/[^"]*)"')

pytestmark = [
    pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: make test fetches it where npm is there"),
    pytest.mark.skipif(CHROMEDRIVER is None, reason="chromedriver is not installed"),
    pytest.mark.timeout(600),
]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--force-prefers-reduced-motion",
        f"--user-data-dir={tmp_path / 'browser'}",
    ):
        options.add_argument(argument)
    browser = webdriver.Chrome(options, webdriver.ChromeService(CHROMEDRIVER or ""))
    browser.set_script_timeout(60)
    yield browser
    browser.quit()


@pytest.fixture
def app(sample_library: Database) -> FastAPI:
    furnish(sample_library, list_books(sample_library)[0].id)
    settings = {"store": {"data_dir": sample_library.data_dir}, "search": {"dense": "off"}}
    return create_app(Settings.model_validate(settings), model=ScriptedModel(answer=lambda _: "Vâng."))


def kind_of(path: str) -> str:
    return re.sub(r"/(\d+|[0-9a-f]{16})(?=/|$)", "/*", path)


def pages(address: str, username: str | None) -> list[str]:
    """Every kind of page that somebody reaches by links, each once."""
    waiting, seen = ["/"], dict[str, str]()
    with httpx.Client(base_url=address, headers={"Origin": address}, follow_redirects=True, timeout=60) as client:
        if username is not None:
            client.post("/login", data={"username": username, "password": PASSWORD})
        while waiting:
            path = waiting.pop(0)
            kind = kind_of(path.split("?")[0])
            if kind in seen or NO_PAGE.match(path):
                continue
            seen[kind] = path
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.status_code)
            waiting += [html.unescape(link).split("#")[0] for link in _LINK.findall(answer.text)]
    return list(seen.values())


def faults(browser: webdriver.Chrome, theme: str) -> list[str]:
    browser.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
    # What is no colour is the same in the dark.
    rules = {"runOnly": ["color-contrast"]} if theme == "dark" else {}
    found: dict[str, Any] = browser.execute_async_script(
        "axe.run(document, {...arguments[0], resultTypes: ['violations']}).then(arguments[1]);", rules
    )
    return [
        f"{each['impact']} {each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def sign_in(browser: webdriver.Chrome, address: str, username: str) -> None:
    browser.get(f"{address}/login")
    browser.find_element(By.ID, "username").send_keys(username)
    browser.find_element(By.ID, "password").send_keys(PASSWORD)
    browser.find_element(By.CSS_SELECTOR, "main form button").click()


@pytest.mark.parametrize("role", ["nobody", *VISITORS])
def test_no_page_has_a_serious_fault(
    browser: webdriver.Chrome, app: FastAPI, start: Callable[[FastAPI], str], role: str
) -> None:
    address = start(app)
    browser.set_window_size(390, 900)
    if role in VISITORS:
        sign_in(browser, address, VISITORS[role])
    wrong: dict[str, list[str]] = {}
    looked_at = pages(address, VISITORS.get(role))
    for path in looked_at:
        browser.get(address + path)
        browser.execute_script(AXE.read_text(encoding="utf-8"))
        for theme in ("light", "dark"):
            if found := faults(browser, theme):
                wrong[f"{path} ({theme})"] = found
    assert wrong == {}
    assert len(looked_at) >= {"nobody": 1, "guardian": 3}.get(role, 5), looked_at


def test_the_walk_by_links_reaches_most_pages(app: FastAPI, start: Callable[[FastAPI], str]) -> None:
    address = start(app)
    reached = {kind_of(path.split("?")[0]) for username in VISITORS.values() for path in pages(address, username)}
    kinds = {re.sub(r"\{[^}]*\}", "*", path) for method, path in rules_of(app) if method == "GET"}
    asked = {kind for kind in kinds if not kind.startswith(("/api/", "/v1/")) and not NO_PAGE.match(kind)}
    missed = sorted(asked - reached)
    assert len(missed) <= len(asked) / 3, missed
