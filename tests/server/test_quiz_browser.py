"""Taking a quiz in a real browser, as narrow as a small phone: nothing that was typed is lost."""

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from schoolroom import School
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from deepedu.school.accounts import open_session
from deepedu.server.access import COOKIE
from deepedu.store.tables import QuizAssignment, now
from deepedu.tutor.assignments import assign
from deepedu.tutor.classwork import Work, work_of
from deepedu.tutor.quiz import Choice, Claim, Short, TrueFalse
from deepedu.tutor.quiz_shelf import QuizHead, put_quiz

CITY = Choice(stem="Thủ đô của nước ta là thành phố nào?", options=("Huế", "Hà Nội", "Đà Nẵng", "Vinh"), key=1)
CLAIMS = TrueFalse(
    stem="Xét các phát biểu:",
    statements=tuple(Claim(text=f"{n} là số lẻ", truth=n % 2 == 1) for n in (1, 2, 3, 4)),
    skill="Bài 1",
)
LENGTH = Short(stem="Sợi dây dài bao nhiêu?", key="2,5", unit="m", skill="Bài 1")
WAIT_S = 30


class Browser:
    """A browser of somebody of the school."""

    def __init__(self, chrome: webdriver.Chrome, url: str, school: School) -> None:
        self.chrome, self.url, self.school = chrome, url, school

    def sign_in(self, username: str) -> None:
        self.chrome.get(f"{self.url}/static/app.css")
        self.chrome.delete_all_cookies()
        token = open_session(self.school.database, self.school.people[username].id, hours=1)
        self.chrome.add_cookie({"name": COOKIE, "value": token})

    def open(self, path: str) -> None:
        self.chrome.get(f"{self.url}{path}")

    def wait(self, condition: Callable[[], object]) -> None:
        # While a page gives way to the next, what was found on it is gone.
        waiting = WebDriverWait(self.chrome, WAIT_S, ignored_exceptions=[StaleElementReferenceException])
        waiting.until(lambda _: condition())

    def find(self, selector: str) -> WebElement:
        return self.chrome.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "main") -> str:
        return self.find(selector).text

    def click(self, selector: str) -> None:
        """Clicks it, where the bar at the top does not cover it."""
        element = self.find(selector)
        self.chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def go_offline(self, is_offline: bool = True) -> None:
        unlimited = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        conditions = {**unlimited, "offline": is_offline}
        self.chrome.execute_cdp_cmd("Network.enable", {})
        self.chrome.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)

    def fits(self) -> bool:
        """Whether nothing sticks out of the page sideways."""
        return bool(self.chrome.execute_script("return document.documentElement.scrollWidth <= window.innerWidth"))


@pytest.fixture
def browser(tmp_path: Path, school: School, start: Callable[[FastAPI], str]) -> Iterator[Browser]:
    """At the end the console must hold no error."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs a browser: chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path / 'browser'}",
    ):
        options.add_argument(argument)
    chrome = webdriver.Chrome(options, webdriver.ChromeService(driver))
    screen = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": False}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser = Browser(chrome, start(school.app()), school)
    yield browser
    # What a test brings about on purpose (no network, a refused request) is logged by the browser itself.
    errors = [e for e in chrome.get_log("browser") if e["level"] == "SEVERE" and e["source"] != "network"]
    chrome.quit()
    assert errors == []


def give(school: School, **left: float) -> int:
    with school.database.write() as session:
        author_id = school.people["lan"].id
        quiz_id = put_quiz(session, author_id, QuizHead(title="Đề mẫu"), (CITY, CLAIMS, LENGTH))
        closes_at = now() + timedelta(**(left or {"hours": 1}))
        opens_at = now() - timedelta(hours=1)
        return assign(
            session, quiz_id, school.classes["6A"], author_id=author_id, opens_at=opens_at, closes_at=closes_at
        )


def begin(browser: Browser, given: int) -> None:
    browser.sign_in("an")
    browser.open(f"/quizzes/{given}")
    assert browser.fits()
    browser.click("form[action$=begin] button")
    browser.wait(lambda: browser.chrome.find_elements(By.ID, "work"))


def work(school: School, given: int) -> Work:
    found = work_of(school.database, [school.classes["6A"]], given, school.people["an"].owner)
    assert found is not None
    return found


def short_field() -> str:
    return f"#q-{LENGTH.id}"


def answer_all(browser: Browser) -> None:
    browser.click(f"input[name='q-{CITY.id}'][value='A']")
    for letter in "abcd":
        browser.click(f"input[name='q-{CLAIMS.id}-{letter}'][value='Đ']")
    browser.find(short_field()).send_keys("2,5")


def test_answers_are_saved_and_survive_a_reload(browser: Browser, school: School) -> None:
    given = give(school)
    begin(browser, given)
    assert browser.fits()
    answer_all(browser)
    browser.wait(lambda: browser.text("[data-state]").startswith("Đã lưu"))
    expected = {CITY.id: "A", CLAIMS.id: dict.fromkeys("abcd", "Đ"), LENGTH.id: "2,5"}
    browser.wait(lambda: work(school, given).given == expected)
    assert "3 câu, 3 đã trả lời" in browser.text(".workbar")
    browser.chrome.refresh()
    assert browser.find(short_field()).get_attribute("value") == "2,5"
    assert browser.find(f"input[name='q-{CITY.id}'][value='A']").is_selected()
    assert "3 đã trả lời" in browser.text(".workbar")
    assert browser.chrome.execute_script("return sessionStorage.length") == 0


def test_what_was_typed_without_a_connection_is_not_lost(browser: Browser, school: School) -> None:
    given = give(school)
    begin(browser, given)
    browser.go_offline()
    browser.find(short_field()).send_keys("2,5")
    browser.wait(lambda: "Mất kết nối" in browser.text("[data-state]"))
    browser.click("[name=hand_in]")
    browser.wait(lambda: "Chưa nộp được" in browser.text("[data-state]"))
    assert work(school, given).given == {}
    browser.go_offline(False)
    # As after a crash of the page: what the server does not have comes out of the tab's storage.
    browser.chrome.refresh()
    assert browser.find(short_field()).get_attribute("value") == "2,5"
    browser.wait(lambda: work(school, given).given == {LENGTH.id: "2,5"})
    browser.wait(lambda: browser.text("[data-state]").startswith("Đã lưu"))
    browser.find(short_field()).send_keys("1")
    browser.go_offline()
    browser.wait(
        lambda: "Mất kết nối" in browser.text("[data-state]") or work(school, given).given[LENGTH.id] == "2,51"
    )
    browser.go_offline(False)
    browser.wait(lambda: work(school, given).given == {LENGTH.id: "2,51"})


def test_handing_in_names_what_is_not_answered(browser: Browser, school: School) -> None:
    given = give(school)
    begin(browser, given)
    browser.click(f"input[name='q-{CLAIMS.id}-a'][value='S']")
    browser.find(short_field()).send_keys("dài lắm")
    browser.click("[name=hand_in]")
    browser.wait(lambda: "Nộp bài “Đề mẫu”?" in browser.text())
    assert "Chưa trả lời hết: câu 1, câu 2." in browser.text()
    assert "cần một số" in browser.text()
    browser.click(f"a[href='/quizzes/{given}#item-3']")
    browser.wait(lambda: browser.chrome.find_elements(By.ID, "work"))
    problem = browser.find(f"#q-{LENGTH.id}-error")
    assert "cần một số" in problem.text
    browser.find(short_field()).clear()
    browser.find(short_field()).send_keys("5/2")
    browser.wait(lambda: not problem.is_displayed())
    browser.click("[name=hand_in]")
    browser.wait(lambda: browser.chrome.find_elements(By.CSS_SELECTOR, "form[action$=hand-in] button"))
    assert browser.fits()
    browser.click("form[action$=hand-in] button")
    browser.wait(lambda: "Em đã nộp bài lúc" in browser.text())
    assert browser.fits()
    assert work(school, given).finished_at is not None


def test_the_time_left_is_told_and_at_its_end_the_work_is_handed_in(browser: Browser, school: School) -> None:
    given = give(school, seconds=200)
    begin(browser, given)
    assert "Còn 3:" in browser.text("[data-timer]")
    browser.wait(lambda: "Còn 4 phút" in browser.text("[data-warning]"))
    with school.database.write() as session:
        ends = sa.update(QuizAssignment).where(QuizAssignment.id == given)
        session.execute(ends.values(closes_at=now() + timedelta(seconds=4)))
    # Saving tells the page that less is left.
    browser.find(short_field()).send_keys("2,5")
    browser.wait(lambda: "Còn 1 phút" in browser.text("[data-warning]"))
    browser.wait(lambda: "Em đã nộp bài lúc" in browser.text())
    assert "0,25 trên 1,5 điểm" in browser.text()


def test_more_time_is_noticed_at_the_end(browser: Browser, school: School) -> None:
    given = give(school, seconds=3)
    begin(browser, given)
    with school.database.write() as session:
        ends = sa.update(QuizAssignment).where(QuizAssignment.id == given)
        session.execute(ends.values(closes_at=now() + timedelta(hours=2)))
    browser.wait(lambda: "Còn 1:59" in browser.text("[data-timer]"))
    assert work(school, given).finished_at is None


def test_a_second_tab_finds_the_work_handed_in(browser: Browser, school: School) -> None:
    given = give(school)
    begin(browser, given)
    first = browser.chrome.current_window_handle
    browser.chrome.switch_to.new_window("tab")
    browser.open(f"/quizzes/{given}/hand-in")
    browser.click("form[action$=hand-in] button")
    browser.wait(lambda: "Em đã nộp bài lúc" in browser.text())
    browser.chrome.switch_to.window(first)
    browser.find(short_field()).send_keys("9")
    browser.wait(lambda: "Em đã nộp bài lúc" in browser.text())


def test_a_teacher_makes_a_quiz_from_a_lesson(browser: Browser) -> None:
    browser.sign_in("lan")
    for path in ("/teach/quizzes", "/teach/quizzes/new", "/teach/quizzes/import", "/teach/quizzes/make"):
        browser.open(path)
        assert browser.fits(), path
    browser.click("a[href*='make?book=']")
    browser.wait(lambda: browser.chrome.find_elements(By.ID, "lesson"))
    assert browser.fits()
    for option in browser.chrome.find_elements(By.CSS_SELECTOR, "#lesson option"):
        if "Đo nhiệt độ" in option.text:
            option.click()
    browser.click("[name=uses_model]")
    browser.click("main form button.primary")
    # The page finds out by itself that they are made.
    browser.wait(lambda: browser.chrome.find_elements(By.CSS_SELECTOR, "[name=keep]"))
    assert browser.fits()
    browser.click("main form button.primary")
    browser.wait(lambda: "Đã thêm 5 câu vào đề" in browser.text())
    assert browser.fits()
    browser.click("a[href$=assign]")
    browser.wait(lambda: browser.chrome.find_elements(By.NAME, "closes_at"))
    assert browser.fits()
    browser.click("main form button.primary")
    browser.wait(lambda: "Đã giao bài cho lớp 6A" in browser.text())
    browser.click("a[href*='/assignments/']")
    browser.wait(lambda: "Từng em, từng câu" in browser.text())
    assert browser.fits()
