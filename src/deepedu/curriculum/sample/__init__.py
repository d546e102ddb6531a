"""The sample textbook that ships with the package: the demo's book and the tests' fixture.

``book.md`` is the source; ``scripts/build_sample_book.py`` builds the PDF and the DOCX from it, page for page alike.
"""

from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).resolve().parent

SAMPLE_SOURCE = _HERE / "book.md"
SAMPLE_PDF = _HERE / "khtn6-mau.pdf"
SAMPLE_DOCX = _HERE / "khtn6-mau.docx"
# One JSON object a line: question, answerable; when answerable also answers, lesson, page, kind.
SAMPLE_QUESTIONS = _HERE / "questions.jsonl"


@dataclass(frozen=True)
class DemoQuestion:
    """A question the demo asks; ``answer`` is a string that a right answer holds, found on ``page`` in ``lesson``."""

    question: str
    answer: str
    page: int
    lesson: int


DEMO_QUESTIONS = (
    DemoQuestion("Ai là người gọi mỗi ô nhỏ trong lát bần là cell?", "Robert Hooke", page=12, lesson=5),
    DemoQuestion("Tốc độ ánh sáng trong chân không bằng bao nhiêu?", "299 792 458 m/s", page=4, lesson=1),
    DemoQuestion("Nước biển có khối lượng riêng khoảng bao nhiêu?", "1 025 kg/m³", page=10, lesson=4),
)
