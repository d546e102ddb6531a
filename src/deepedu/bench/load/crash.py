"""What is left when the server is killed while many pupils are being answered: all that anybody was told is kept.

Every witness signs in, asks, and keeps answers in a quiz one after the other; then the server's process is killed as a
power cut would do it, and started anew on the same folder. The witnesses know what they were told before: they look for
it, and ask again.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deepedu.base.config import Settings
from deepedu.bench.load.browser import Asked, Broken, Browser
from deepedu.bench.load.markers import marker
from deepedu.bench.load.plan import Learner, Roster
from deepedu.bench.load.school import furnish
from deepedu.bench.load.serve import Pace
from deepedu.bench.load.server_process import ServerProcess, serving
from deepedu.store import Database

# Slow enough that nobody is through when the server dies.
PACE = Pace(first_token_ms=200.0, token_ms=120.0, words=80)
# So long all of them stream before it: drafts are kept once a second.
STREAMED_S = 2.5
_SAVE_EVERY_S = 0.05
_START_S = 60.0


@dataclass
class Witness:
    """A pupil, and what the pupil was told before the server died. ``saved``: how many answers were acknowledged."""

    pupil: Learner
    item_id: str
    browser: Browser
    asked: Asked = field(default_factory=Asked)
    saved: int = 0
    error: str | None = None

    @property
    def question(self) -> str:
        """What this pupil asks."""
        return f"Đơn vị đo chiều dài trong hệ SI là gì? (phiếu {marker(self.pupil.number, 1)})"

    @property
    def quiz(self) -> str:
        """The address of the class's quiz."""
        return f"/api/quizzes/{self.pupil.assignment_id}"

    @property
    def was_streaming(self) -> bool:
        """Whether the answer was under way when the server died."""
        return bool(self.asked.draft) and not self.asked.end


@dataclass(frozen=True)
class CrashReport:
    """What the witnesses found. All but ``witnesses``, ``streaming``, ``saved_answers`` and the times are to be 0."""

    witnesses: int
    # Whose answers were under way.
    streaming: int
    saved_answers: int
    lost_questions: int
    # Kept, and not shown as interrupted.
    wrong_status: int
    # Not the beginning of what was streamed, or nothing of it.
    wrong_drafts: int
    lost_sign_ins: int
    lost_answers: int
    # Not answered when asked again.
    not_asked_again: int
    foreign_data: int
    # Findings of the database's own check.
    integrity_faults: int
    # How much of what was streamed the kept draft lacks, at most, in characters.
    draft_behind_characters: int
    restart_s: float

    def figures(self) -> dict[str, float]:
        """For a bench's result."""
        return {f"killed_{name}": float(value) for name, value in asdict(self).items()}


def crash(settings: Settings, folder: Path, pupils: int) -> CrashReport:
    """Furnishes a school, kills its server in the middle of answering, and looks what is left.

    Args:
        folder: for orders and logs; the school lies where the settings say.
    """
    roster = furnish(settings, pupils, policies=("explain",))
    return look_after(settings, folder, kill_while_asking(settings, folder, roster))


def kill_while_asking(settings: Settings, folder: Path, roster: Roster) -> list[Witness]:
    """Has every pupil of the roster ask at once, and kills the server while all of them are being answered."""
    server = ServerProcess(settings, PACE, folder)
    item_id = next(item for item, kind in reversed(roster.items) if kind == "short")
    witnesses = [Witness(pupil, item_id, Browser(server.url, pupil.number)) for pupil in roster.pupils]
    threads = [threading.Thread(target=work, args=(each,)) for each in witnesses for work in (_ask, _save)]
    try:
        for each in witnesses:
            each.browser.sign_in(each.pupil.username, each.pupil.password)
            each.browser.send_json("POST", f"{each.quiz}/begin")
            # Two threads cannot share a connection.
            each.browser.close()
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + _START_S
        while not all(each.was_streaming or each.error for each in witnesses) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(STREAMED_S)
    finally:
        server.kill()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    return witnesses


def _ask(witness: Witness) -> None:
    try:
        witness.browser.ask(witness.question, asked=witness.asked)
    except Broken as error:
        witness.error = str(error)


def _save(witness: Witness) -> None:
    browser = witness.browser.in_another_window()
    with suppress(Broken):
        while True:
            given = {witness.item_id: marker(witness.pupil.number, witness.saved + 1)}
            browser.send_json("PUT", f"{witness.quiz}/given", {"given": given})
            witness.saved += 1
            time.sleep(_SAVE_EVERY_S)


def look_after(settings: Settings, folder: Path, witnesses: Sequence[Witness]) -> CrashReport:
    """Starts the server anew, and has the witnesses look for what they were told."""
    database = Database(settings.store)
    try:
        with database.read() as session:
            told = [str(row[0]) for row in session.connection().exec_driver_sql("PRAGMA integrity_check")]
    finally:
        database.close()
    began = time.monotonic()
    with serving(settings, Pace(first_token_ms=1.0, token_ms=1.0, words=20), folder) as server:
        restart_s = time.monotonic() - began
        found = [_look(witness, server.url) for witness in witnesses]
    counted = {name: sum(each[name] for each in found) for name in found[0] if name != "behind"}
    return CrashReport(
        witnesses=len(witnesses),
        streaming=sum(witness.was_streaming for witness in witnesses),
        saved_answers=sum(witness.saved for witness in witnesses),
        integrity_faults=0 if told == ["ok"] else len(told),
        draft_behind_characters=max(each["behind"] for each in found),
        restart_s=round(restart_s, 2),
        **counted,
    )


def _look(witness: Witness, url: str) -> dict[str, int]:
    """What one witness misses; each count is 0 where nothing is."""
    browser, asked = witness.browser, witness.asked
    browser.move_to(url)
    found = dict.fromkeys(
        ("lost_questions", "wrong_status", "wrong_drafts", "lost_sign_ins", "lost_answers", "not_asked_again"), 0
    )
    found |= {"foreign_data": 0, "behind": 0}
    try:
        browser.get("/api/conversations")
    except Broken:
        found["lost_sign_ins"] = 1
        browser.sign_in(witness.pupil.username, witness.pupil.password)
    kept = browser.send_json("POST", f"{witness.quiz}/begin").json()["given"].get(witness.item_id, "")
    # The one after the last acknowledged may have been kept as well.
    told = [marker(witness.pupil.number, witness.saved + more) for more in (0, 1)]
    found["lost_answers"] = int(witness.saved > 0 and kept not in told)
    if asked.turn_id:
        found |= _look_at_turn(witness)
    try:
        again = browser.ask(witness.question, asked.conversation_id or None)
        found["not_asked_again"] = int(again.name != "completed")
    except Broken:
        found["not_asked_again"] = 1
    found["foreign_data"] = len(browser.foreign)
    browser.close()
    return found


def _look_at_turn(witness: Witness) -> dict[str, int]:
    asked = witness.asked
    try:
        turns: list[dict[str, Any]] = witness.browser.get(f"/api/conversations/{asked.conversation_id}").json()["turns"]
        page = witness.browser.get(f"/chat/{asked.conversation_id}").body
    except Broken:
        return {"lost_questions": 1}
    turn = next((each for each in turns if each["id"] == asked.turn_id), None)
    if turn is None or marker(witness.pupil.number, 1) not in turn["question"]:
        return {"lost_questions": 1}
    if not witness.was_streaming:
        return {}
    draft, streamed = turn["draft"], asked.draft
    # What is kept may be ahead of what the pupil saw: it is kept before it is handed out.
    is_beginning = bool(draft) and (streamed.startswith(draft) or draft.startswith(streamed))
    is_shown = turn["status"] == "interrupted" and 'data-status="interrupted"' in page
    return {
        "wrong_status": int(not is_shown),
        "wrong_drafts": int(not is_beginning),
        "behind": max(0, len(streamed) - len(draft)),
    }
