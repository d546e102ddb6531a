"""How long choosing bullets takes in a large book."""

import json
import random
import statistics
import time
from datetime import UTC, datetime

from deepedu.curriculum.sample import SAMPLE_QUESTIONS
from deepedu.playbook.bullet import Author, Bullet
from deepedu.playbook.select import BulletIndex

_AT = datetime(2026, 1, 1, tzinfo=UTC)
_QUESTIONS = 200


def select_ms(seed: int, bullets: int) -> tuple[float, dict[str, float]]:
    """Median milliseconds of a selection among so many verified bullets, and more about it.

    The bullets are made of the words of the sample book's questions, drawn at random: every word of a question stands
    in a great many of them, which is the worst a school's book can do.
    """
    draw = random.Random(seed)
    lines = SAMPLE_QUESTIONS.read_text(encoding="utf-8").splitlines()
    questions = [str(json.loads(line)["question"]) for line in lines]
    words = sorted({word for question in questions for word in question.split()})
    author = Author(role="model")
    made = [
        Bullet(
            id=f"b-{number:05d}",
            order=number,
            section="",
            text=f"{' '.join(draw.choices(words, k=draw.randint(12, 40)))} {number}",
            kind="fact",
            status="verified",
            author=author,
            created_at=_AT,
            changed_at=_AT,
        )
        for number in range(bullets)
    ]
    begin = time.perf_counter()
    index = BulletIndex(made)
    building = time.perf_counter() - begin
    times: list[float] = []
    for question in draw.choices(questions, k=_QUESTIONS):
        begin = time.perf_counter()
        index.select(question, budget_tokens=400)
        times.append(1000 * (time.perf_counter() - begin))
    times.sort()
    more = {"bullets": bullets, "p95": times[int(0.95 * len(times))], "most": times[-1], "index_s": building}
    return statistics.median(times), more
