"""How well personal data in pupils' chat lines is masked, and how often a lesson is taken for some.

Chat lines are made from templates (``bench/personal_chat.py``) with invented names, numbers and addresses, typed in
seven ways: as written, in lower case, without accents, both, decomposed, with full-width digits, with hidden
characters. The figures are of the held-out templates, which the rules were not developed on, unless ``templates``
says otherwise.

Figures, together and for each kind (suffix ``_phone``, ``_name``, ...):

* ``recall``: pieces of personal data of which no letter or digit is left unmasked, whatever kind they were taken for.
* ``precision``: findings of which most lies in a piece of that kind, by all findings in the chat lines.
* ``pieces`` and ``findings``: what the two are counted on.
* ``false_per_1000_lesson_sentences``: findings in sentences of encyclopaedia articles and in questions of primary
  school mathematics, which hold nothing personal, per thousand of them. The class list is known there as well.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence

from deepedu.base.errors import ConfigError
from deepedu.base.personal_data import Finding, PersonalKind, find
from deepedu.base.vietnamese import sentence_spans
from deepedu.bench.personal_chat import DEVELOPMENT, HELD_OUT, Line, People, read_people, write_lines
from deepedu.bench.run import BenchContext, BenchResult
from deepedu.bench.viquad import load_paragraphs

OPTIONS = {
    "templates": "held_out (default) or development: which templates the chat lines are made from",
    "lines": "how many chat lines (default 3000)",
    "sentences": "how many lesson sentences, half from articles, half mathematics (default 8000)",
}
_MATHS = ("math_train.json", "math_test_with_hand_label.json", "private_math_test_with_hand_label.json")
SHOWN = 60


def run(context: BenchContext) -> BenchResult:
    """See the module's docstring."""
    draw = random.Random(context.seed)
    people = read_people(context.data_dir, draw)
    part = context.options.get("templates", "held_out")
    templates = {"held_out": HELD_OUT, "development": DEVELOPMENT}.get(part)
    if templates is None:
        raise ConfigError(f"--set templates: expected held_out or development, came {part!r}")
    count = int(context.options.get("lines", "200" if context.quick else "3000"))
    lines = write_lines(templates, people, draw, count)
    found = [find(line.text, class_names=people.class_names) for line in lines]
    figures: dict[str, float] = {**_figures(lines, found, None)}
    for kind in PersonalKind:
        figures |= {f"{name}_{kind.value}": value for name, value in _figures(lines, found, kind).items()}
    false, lessons = _false_findings(context, people, draw)
    figures["lesson_sentences"] = lessons
    figures["false_per_1000_lesson_sentences"] = 1000 * len(false) / lessons
    details = {
        "templates": f"{part} ({len(templates)})",
        "missed": [_told(line, piece) for line, fs in zip(lines, found, strict=True) for piece in _missed(line, fs)][
            :SHOWN
        ],
        "wrong": [
            _told(line, (f.start, f.end, f.kind))
            for line, fs in zip(lines, found, strict=True)
            for f in fs
            if not _is_right(line, f)
        ][:SHOWN],
        "false": false[:SHOWN],
        "missed_by_way": dict(
            Counter(line.way for line, fs in zip(lines, found, strict=True) for _ in _missed(line, fs))
        ),
    }
    return BenchResult(figures, details)


def _figures(lines: Sequence[Line], found: Sequence[Sequence[Finding]], kind: PersonalKind | None) -> dict[str, float]:
    pieces = [(line, fs, p) for line, fs in zip(lines, found, strict=True) for p in line.data if kind in (None, p[2])]
    findings = [(line, f) for line, fs in zip(lines, found, strict=True) for f in fs if kind in (None, f.kind)]
    return {
        "precision": _share([_is_right(line, f) for line, f in findings]),
        "recall": _share([piece not in _missed(line, fs) for line, fs, piece in pieces]),
        "pieces": len(pieces),
        "findings": len(findings),
    }


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else float("nan")


def _missed(line: Line, findings: Sequence[Finding]) -> list[tuple[int, int, PersonalKind]]:
    """Pieces of which a letter or digit shows."""
    covered = {i for f in findings for i in range(f.start, f.end)}
    return [p for p in line.data if any(line.text[i].isalnum() and i not in covered for i in range(p[0], p[1]))]


def _is_right(line: Line, finding: Finding) -> bool:
    held = sum(
        max(0, min(finding.end, end) - max(finding.start, start))
        for start, end, kind in line.data
        if kind is finding.kind
    )
    return 2 * held > finding.end - finding.start


def _told(line: Line, piece: tuple[int, int, PersonalKind]) -> str:
    return f"{piece[2].value} | {line.text[piece[0] : piece[1]]} | {line.text}"


def _false_findings(context: BenchContext, people: People, draw: random.Random) -> tuple[list[str], int]:
    sentences = [
        text[start:end] for _, text in load_paragraphs(context.data_dir) for start, end in sentence_spans(text)
    ]
    questions: list[str] = []
    for file in _MATHS:
        path = context.data_dir / "zalo_math_2023" / file
        questions += [entry["question"] for entry in json.loads(path.read_text(encoding="utf-8"))["data"]]
    count = int(context.options.get("sentences", "400" if context.quick else "8000")) // 2
    lessons = draw.sample(sentences, min(count, len(sentences))) + draw.sample(questions, min(count, len(questions)))
    false: list[str] = []
    with context.progress("lesson sentences", len(lessons)) as advance:
        for lesson in lessons:
            for f in find(lesson, class_names=people.class_names):
                false.append(f"{f.kind.value} | {lesson[f.start : f.end]} | {lesson}")
            advance(1)
    return false, len(lessons)
