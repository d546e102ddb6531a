"""Learning by conversation in a real browser, as narrow as a small phone."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from schoolroom import School
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from deepedu.llm.chat import Delta, Finished, Message
from deepedu.school.accounts import open_session
from deepedu.server.access import COOKIE
from deepedu.store.conversations import past_turns
from deepedu.store.signals import failed_turns
from deepedu.store.tables import SchoolClass

QUESTION = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"
REPLY = "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1]."
WAIT_S = 30


@dataclass
class Talker:
    """Streams ``reply`` a word at a time; over and over, while ``is_endless``."""

    reply: str = REPLY
    is_endless: bool = False

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        del messages, max_tokens, owner
        while True:
            for word in self.reply.split():
                yield Delta(f"{word} ")
                await asyncio.sleep(0.02)
            if not self.is_endless:
                break
        yield Finished("stop", "talker", None, 10, 0.0, None)


class Pupil:
    """A pupil's browser on the school's server."""

    def __init__(self, browser: webdriver.Chrome, url: str) -> None:
        self.browser, self.url = browser, url

    def wait(self, condition: Callable[[webdriver.Chrome], object]) -> None:
        WebDriverWait(self.browser, WAIT_S).until(condition)

    def find(self, selector: str) -> list[webdriver.remote.webelement.WebElement]:  # pyright: ignore[reportAttributeAccessIssue]
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def click(self, selector: str) -> None:
        """Clicks the first, where the form at the bottom does not cover it."""
        element = self.find(selector)[0]
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def texts(self, selector: str) -> list[str]:
        return [element.text for element in self.find(selector)]

    def send(self, question: str) -> None:
        self.find("#question")[0].send_keys(question, Keys.ENTER)

    def ask(self, question: str = QUESTION) -> None:
        count = len(self.find(".turn[id]"))
        self.send(question)
        self.wait(lambda _: len(self.find(".turn[id]")) > count)

    def script(self, text: str, *values: object) -> object:
        return self.browser.execute_script(text, *values)

    def seen(self) -> object:
        """The conversation as text, with what stands open."""
        return self.script(
            "const turns = document.getElementById('turns');"
            "return [turns.innerText, turns.querySelectorAll('details[open]').length]"
        )


@pytest.fixture
def talker() -> Talker:
    return Talker()


@pytest.fixture
def pupil(tmp_path: Path, school: School, talker: Talker, start: Callable[[FastAPI], str]) -> Iterator[Pupil]:
    """An, in a class that gets explanations; at the end the console must hold no error."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs a browser: chromium and chromedriver are not installed")
    with school.database.write() as session:
        session.execute(sa.update(SchoolClass).values(policy="explain"))
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
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    screen = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    url = start(school.app(model=talker))  # pyright: ignore[reportArgumentType]
    browser.get(f"{url}/static/app.css")
    browser.add_cookie({"name": COOKIE, "value": open_session(school.database, school.people["an"].id, hours=1)})
    browser.get(f"{url}/chat")
    yield Pupil(browser, url)
    # What a test brings about on purpose (no network, a refused request) is logged by the browser itself.
    errors = [e for e in browser.get_log("browser") if e["level"] == "SEVERE" and e["source"] != "network"]
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    browser.quit()
    assert errors == []
    assert [name for name in loaded if not name.startswith((url, "data:"))] == []


def test_a_pupil_asks_reads_the_source_and_finds_it_again(pupil: Pupil) -> None:
    pupil.ask()
    assert "1742" in pupil.texts("li.supported .said")[0]
    assert "Sách xác nhận" in pupil.texts("li.supported .verdict")[0]
    assert "trang 6" in pupil.texts(".sources summary")[0]
    assert "1742" in pupil.texts(".sources details[open] mark")[0]
    assert pupil.texts("#status") == ["Đã có câu trả lời."]
    assert "một hệ thống AI" in pupil.texts("#keys")[0]
    assert pupil.browser.current_url.startswith(f"{pupil.url}/chat/")
    assert pupil.script("return document.documentElement.scrollWidth <= window.innerWidth")
    before = pupil.seen()
    pupil.browser.refresh()
    assert pupil.seen() == before
    pupil.ask("Nước tinh khiết sôi ở bao nhiêu độ?")
    assert len(pupil.find(".turn")) == 2
    before = pupil.seen()
    pupil.browser.refresh()
    assert pupil.seen() == before


def test_a_question_is_stopped_and_asked_again(pupil: Pupil, talker: Talker, school: School) -> None:
    talker.is_endless = True
    pupil.send(QUESTION)
    pupil.wait(lambda _: "1742" in pupil.texts(".draft")[0])
    assert not pupil.find("#send")[0].is_enabled()
    pupil.click("#stop")
    pupil.wait(lambda _: pupil.texts("#status") == ["Đã dừng theo ý em."])
    assert not pupil.find("#stop")[0].is_displayed()
    talker.is_endless = False
    pupil.click(".pending .again button")
    pupil.wait(lambda _: pupil.find("li.supported"))
    pupil.browser.refresh()
    statuses = [turn.status for turn in past_turns(school.database, 1, owner=school.people["an"].owner)]
    assert statuses == ["stopped", "done"]
    assert "dừng giữa chừng" in pupil.texts(".turn")[0]
    # Kept turns can be asked again as well.
    pupil.click("[data-status=stopped] .again button")
    pupil.wait(lambda _: len(pupil.find("li.supported")) == 2)


def test_a_pupil_says_what_is_wrong(pupil: Pupil, school: School) -> None:
    pupil.ask()
    pupil.click("[value=thumbs_down]")
    pupil.wait(lambda _: pupil.texts(".told") == ["Cảm ơn em! Ý kiến đã được ghi lại."])
    pupil.click(".tools .confirm summary")
    pupil.find(".tools textarea")[0].send_keys("năm khác")
    pupil.click("[value=wrong]")
    pupil.wait(lambda _: len(failed_turns(school.database)[0].signals) == 2)
    assert failed_turns(school.database)[0].signals == (("thumbs_down", ""), ("wrong", "năm khác"))
    pupil.browser.refresh()
    assert pupil.find("[value=thumbs_down]")[0].get_attribute("aria-pressed") == "true"
    assert "đã báo" in pupil.texts(".tools .confirm")[0]


def test_an_answer_is_copied_with_its_place(pupil: Pupil) -> None:
    pupil.ask()
    pupil.script("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    pupil.click(".copy")
    pupil.wait(lambda _: pupil.texts(".told") == ["Đã chép."])
    copied = str(pupil.script("return window.copied"))
    assert copied.startswith(QUESTION)
    assert "trang 6" in copied


def test_composing_vietnamese_does_not_send(pupil: Pupil) -> None:
    question = pupil.find("#question")[0]
    question.send_keys("Nuoc")
    pupil.script(
        "const q = arguments[0], key = {key: 'Enter', bubbles: true, cancelable: true};"
        "q.dispatchEvent(new KeyboardEvent('keydown', {...key, isComposing: true}));"
        "q.dispatchEvent(new KeyboardEvent('keydown', {...key, keyCode: 229}));",
        question,
    )
    question.send_keys(Keys.SHIFT, Keys.ENTER, Keys.NULL, "sôi")
    assert pupil.find(".turn") == []
    assert question.get_attribute("value") == "Nuoc\nsôi"
    question.send_keys(Keys.ENTER)
    pupil.wait(lambda _: pupil.find(".turn[id]"))


def test_what_was_typed_outlives_a_reload_until_it_is_sent(pupil: Pupil) -> None:
    pupil.find("#question")[0].send_keys("Câu đang gõ dở")
    pupil.browser.refresh()
    assert pupil.find("#question")[0].get_attribute("value") == "Câu đang gõ dở"
    pupil.send("")
    pupil.wait(lambda _: pupil.find(".turn[id]"))
    assert pupil.script("return sessionStorage.length") == 0


def test_without_network_the_question_stays(pupil: Pupil) -> None:
    pupil.browser.set_network_conditions(offline=True, latency=0, throughput=0)
    pupil.send(QUESTION)
    pupil.wait(lambda _: pupil.find("#error")[0].is_displayed())
    assert "vẫn còn trong ô" in pupil.texts("#error")[0]
    assert pupil.find(".turn") == []
    assert pupil.find("#question")[0].get_attribute("value") == QUESTION
    pupil.browser.delete_network_conditions()
    pupil.send("")
    pupil.wait(lambda _: pupil.find("li.supported"))
    assert not pupil.find("#error")[0].is_displayed()


CUT = """
const whole = window.fetch;
window.fetch = async (address, options) => {
  if (address !== "/api/ask") return whole(address, options);
  window.fetch = whole;
  const told = 'event: started\\ndata: {"conversation_id": 1, "turn_id": 1}\\n\\nevent: strange\\ndata: {"x": 1}\\n\\n'
    + ': a remark\\n\\nevent: draft\\ndata: {"text": "Nửa câu"}\\n\\n';
  return new Response(new ReadableStream({ start(stream) {
    stream.enqueue(new TextEncoder().encode(told));
    setTimeout(() => stream.error(new TypeError("network error")), 200);
  } }), { status: 200 });
};
"""


def test_a_connection_that_breaks_is_told_and_the_question_offered_again(pupil: Pupil) -> None:
    pupil.ask()
    pupil.script(CUT)
    pupil.send("Câu hỏi thứ hai về Celsius?")
    pupil.wait(lambda _: pupil.find(".pending .notice.bad"))
    assert pupil.texts(".pending .draft") == ["Nửa câu"]
    assert "Mất kết nối" in pupil.texts("#error")[0]
    pupil.click(".pending .again button")
    pupil.wait(lambda _: len(pupil.find(".turn[id]")) == 2)
    assert "Câu hỏi thứ hai" in pupil.texts(".turn[id] .question")[1]


def test_a_class_with_hints_gets_hints(pupil: Pupil, school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.update(SchoolClass).values(policy="tutor"))
    pupil.ask()
    assert "Gợi ý 1 trên 6" in pupil.texts(".hint .badge")
    assert pupil.texts("#status") == ["Đã có gợi ý."]
    assert "1742" not in pupil.texts(".turn")[0]
    before = pupil.seen()
    pupil.browser.refresh()
    assert pupil.seen() == before


def test_personal_data_are_struck_out_and_danger_meets_care(pupil: Pupil) -> None:
    pupil.ask(f"Số của em là 0912345678. {QUESTION}")
    assert "Em không cần gửi số điện thoại: phần đó đã được che." in pupil.texts(".turn .notice")
    assert "0912345678" not in pupil.texts("#turns")[0]
    pupil.ask("Em không muốn sống nữa, em muốn tự tử.")
    care = pupil.find(".care")[0]
    assert care.is_displayed()
    # Read out to those who do not see it.
    assert care.text.split()[0] in str(pupil.script("return document.getElementById('status').textContent"))
    assert pupil.find(".turn:last-child button") == []
    pupil.browser.refresh()
    assert pupil.find(".care")[0].is_displayed()
    assert "Em không cần gửi số điện thoại: phần đó đã được che." in pupil.texts(".turn .notice")


def test_formulae_are_drawn_by_the_browser(pupil: Pupil) -> None:
    pupil.ask(r"Năm $1742$ và $\frac{1}{2}$ <img src=x>: " + QUESTION)
    heights = "return [...document.querySelectorAll(arguments[0])].map((e) => e.getBoundingClientRect().height)"
    (fraction,) = pupil.script(heights, ".question mfrac")  # pyright: ignore[reportGeneralTypeIssues]
    assert fraction > pupil.script(heights, ".question mn")[0]  # pyright: ignore[reportOptionalSubscript, reportIndexIssue]
    assert pupil.find("#turns img") == []


def test_a_conversation_is_deleted_after_it_was_confirmed(pupil: Pupil) -> None:
    pupil.ask()
    button = pupil.find("#delete .danger")[0]
    assert not button.is_displayed()
    pupil.click("#delete summary")
    pupil.click("#delete .danger")
    pupil.wait(lambda b: b.current_url == f"{pupil.url}/learn")
    assert "Đã xoá cuộc trò chuyện." in pupil.texts("[role=status]")
    assert pupil.find(".conversations") == []


def test_without_scripts_the_form_does_it_all(pupil: Pupil) -> None:
    pupil.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    pupil.browser.refresh()
    pupil.find("#question")[0].send_keys(QUESTION)
    pupil.click("#send")
    pupil.wait(lambda _: pupil.find("li.supported"))
    pupil.click("[value=thumbs_up]")
    pupil.wait(lambda _: pupil.find("[value=thumbs_up][aria-pressed=true]"))
    pupil.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_page_tells_when_the_tutor_is_ready(pupil: Pupil) -> None:
    pupil.browser.get(f"{pupil.url}/learn")
    assert not pupil.find("#health")[0].is_displayed()
    pupil.script(
        "const line = document.getElementById('health').cloneNode(true); line.dataset.status = 'starting';"
        "document.getElementById('health').replaceWith(line);"
        "document.head.append(Object.assign(document.createElement('script'), {src: '/static/health.js'}));"
    )
    pupil.wait(lambda _: pupil.texts("#health") == ["Gia sư đã sẵn sàng."])
