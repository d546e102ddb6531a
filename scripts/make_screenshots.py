"""Pictures of the main pages of each role, from the sample school: ``python scripts/make_screenshots.py``.

Needs chromium and chromedriver. Writes ``docs/screenshots/*.png``; look at them before they are committed.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from selenium import webdriver
from selenium.webdriver.common.by import By

from deepedu.base.config import IngestSettings, Settings, StoreSettings
from deepedu.cli.demo_school import PASSWORD, furnish
from deepedu.curriculum.ingest import ingest
from deepedu.curriculum.sample import SAMPLE_PDF
from deepedu.llm.scripted import ScriptedModel
from deepedu.server.app import create_app
from deepedu.store import Database

OUT = Path(__file__).parents[1] / "docs" / "screenshots"
PHONE, DESK = (390, 844), (1280, 900)
# Name of the picture, who looks, where, how large, light or dark.
PAGES = (
    ("sign-in", None, "/login", PHONE, "light"),
    ("pupil-learn", "6a01", "/learn", PHONE, "light"),
    ("pupil-chat", "6a01", "/chat/*", DESK, "light"),
    ("pupil-chat-phone", "6a01", "/chat/*", PHONE, "dark"),
    ("pupil-quizzes", "6a01", "/quizzes", PHONE, "light"),
    ("pupil-progress", "6a01", "/progress", PHONE, "light"),
    ("teacher-desk", "colan", "/teach", DESK, "light"),
    ("teacher-class", "colan", "/teach/classes/1", DESK, "light"),
    ("teacher-class-dark", "colan", "/teach/classes/1", DESK, "dark"),
    ("teacher-quizzes", "colan", "/teach/quizzes", DESK, "light"),
    ("teacher-playbook", "colan", "/teach/playbook", DESK, "light"),
    ("safety", "quantri", "/safety", DESK, "light"),
    ("guardian", "phuhuynh", "/family", PHONE, "light"),
    ("admin", "quantri", "/admin", DESK, "light"),
    ("admin-people", "quantri", "/admin/people", DESK, "light"),
    ("admin-privacy", "quantri", "/admin/privacy", DESK, "light"),
    ("admin-audit", "quantri", "/admin/audit", DESK, "light"),
)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The sample school on loopback, with a model that says what it was told to say."""
    database = Database(StoreSettings(data_dir=folder))
    book = ingest(database, [SAMPLE_PDF], IngestSettings())[0].book_id
    assert book is not None
    furnish(database, book)
    database.close()
    settings = Settings.model_validate({"store": {"data_dir": folder}, "search": {"dense": "off"}})
    app = create_app(settings, model=ScriptedModel(answer=lambda _: "Nước tinh khiết sôi ở 100 °C [1]."))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


def open_browser(profile: Path) -> webdriver.Chrome:
    """Chromium without a window."""
    options = webdriver.ChromeOptions()
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    return webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))


def sign_in(browser: webdriver.Chrome, address: str, username: str) -> None:
    """Signs in through the form, as a person would."""
    browser.delete_all_cookies()
    browser.get(f"{address}/login")
    browser.find_element(By.ID, "username").send_keys(username)
    browser.find_element(By.ID, "password").send_keys(PASSWORD)
    browser.find_element(By.CSS_SELECTOR, "main form button").click()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, served(Path(name) / "data") as address:
        browser = open_browser(Path(name) / "browser")
        who: str | None = None
        try:
            for picture, username, path, (width, height), theme in PAGES:
                browser.set_window_size(width, height)
                if username != who and username is not None:
                    sign_in(browser, address, username)
                    who = username
                if path.endswith("*"):
                    browser.get(address + "/learn")
                    links = browser.find_elements(By.CSS_SELECTOR, f"a[href^='{path[:-1]}']")
                    found = [link.get_attribute("href") or "" for link in links]
                    target = next(each for each in found if each.rsplit("/", 1)[1].isdigit())
                else:
                    target = address + path
                browser.get(target)
                browser.execute_script(f"localStorage.setItem('theme', '{theme}')")
                browser.get(target)
                time.sleep(0.5)
                full = browser.execute_script("return document.documentElement.scrollHeight")
                browser.set_window_size(width, max(height, min(int(full) + 80, 2400)))
                browser.save_screenshot(str(out / f"{picture}.png"))
                print(picture, browser.title)
        finally:
            browser.quit()


if __name__ == "__main__":
    main()
