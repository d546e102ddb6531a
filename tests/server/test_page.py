"""The page in a real browser: what a pupil sees and does."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.ui import WebDriverWait

from deepedu.base.config import Settings, StoreSettings
from deepedu.llm.scripted import ScriptedModel
from deepedu.server.app import create_app
from deepedu.store import Database
from deepedu.store.signals import failed_turns

QUESTION = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"
WAIT_S = 30


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs a browser: chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=390,844",
        f"--user-data-dir={tmp_path / 'browser'}",
    ):
        options.add_argument(argument)
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield browser
    browser.quit()


def page(browser: webdriver.Chrome, data_dir: Path, start: Callable[[FastAPI], str], reply: str) -> None:
    settings = Settings.model_validate(
        {"store": {"data_dir": data_dir}, "search": {"dense": "off"}, "server": {"access": "open"}}
    )
    browser.get(start(create_app(settings, model=ScriptedModel(answer=lambda _: reply))))


def ask(browser: webdriver.Chrome, question: str) -> None:
    WebDriverWait(browser, WAIT_S).until(lambda b: b.find_element(By.ID, "send").is_enabled())
    browser.find_element(By.ID, "question").send_keys(question, Keys.ENTER)
    WebDriverWait(browser, WAIT_S).until(lambda b: b.find_elements(By.CSS_SELECTOR, ".meta, .error"))


def texts(browser: webdriver.Chrome, selector: str) -> list[str]:
    return [element.text for element in browser.find_elements(By.CSS_SELECTOR, selector)]


def test_a_pupil_asks_and_reads_the_source(
    browser: webdriver.Chrome, sample_library: Database, start: Callable[[FastAPI], str]
) -> None:
    page(browser, sample_library.data_dir, start, "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1].")
    ask(browser, QUESTION)
    assert "1742" in texts(browser, "li.supported .said")[0]
    assert "Sách xác nhận" in texts(browser, "li.supported .verdict")[0]
    source = browser.find_element(By.CSS_SELECTOR, ".sources details")
    assert "trang 6" in source.text
    source.find_element(By.TAG_NAME, "summary").click()
    assert "1742" in source.find_element(By.TAG_NAME, "mark").text
    assert texts(browser, ".context") == ["Ngữ cảnh: 2 đoạn sách"]
    # A phone must not scroll sideways.
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


def test_what_the_model_writes_is_text_and_never_markup(
    browser: webdriver.Chrome, sample_library: Database, start: Callable[[FastAPI], str]
) -> None:
    page(
        browser, sample_library.data_dir, start, "<img src=x onerror='document.title=\"hacked\"'> Celsius năm 1752 [1]."
    )
    ask(browser, f"{QUESTION} <b id=planted>")
    assert browser.title != "hacked"
    assert browser.find_elements(By.CSS_SELECTOR, "#answers img, #planted") == []


def test_an_empty_library_says_what_to_do(
    browser: webdriver.Chrome, tmp_path: Path, start: Callable[[FastAPI], str]
) -> None:
    Database(StoreSettings(data_dir=tmp_path / "empty")).close()
    page(browser, tmp_path / "empty", start, "")
    WebDriverWait(browser, WAIT_S).until(lambda b: "deepedu ingest" in b.find_element(By.ID, "status").text)
    assert not browser.find_element(By.ID, "send").is_enabled()


def test_a_pupil_says_whether_it_helped(
    browser: webdriver.Chrome, sample_library: Database, start: Callable[[FastAPI], str]
) -> None:
    page(browser, sample_library.data_dir, start, "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1].")
    ask(browser, QUESTION)
    down = browser.find_element(By.CSS_SELECTOR, ".feedback button[value=thumbs_down]")
    down.click()
    WebDriverWait(browser, WAIT_S).until(
        lambda b: "Cảm ơn" in b.find_element(By.CSS_SELECTOR, ".feedback .status").text
    )
    assert down.get_attribute("aria-pressed") == "true"
    (failed,) = failed_turns(sample_library)
    assert failed.signals == (("thumbs_down", ""),)
    browser.find_element(By.CSS_SELECTOR, ".feedback button[value=wrong]").click()
    prompt = WebDriverWait(browser, WAIT_S).until(expected_conditions.alert_is_present())
    prompt.send_keys("năm khác")
    prompt.accept()
    WebDriverWait(browser, WAIT_S).until(lambda _: len(failed_turns(sample_library)[0].signals) == 2)
    assert failed_turns(sample_library)[0].signals[-1] == ("wrong", "năm khác")
