"""What is said on each rung of the ladder, made by code from the question and the book.

Texts are tried from the one that helps most to the one that tells least; the first that hides the secret is taken.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import NamedTuple

from deepedu.base.vietnamese import fold
from deepedu.store.tables import TITLE_SEPARATOR
from deepedu.tutor.answer import Lesson
from deepedu.tutor.hint_matter import Matter, names_in
from deepedu.tutor.hint_texts import hint_texts
from deepedu.tutor.hints import Rung
from deepedu.tutor.names import Name
from deepedu.tutor.number_words import shown_number
from deepedu.tutor.pupil_intent import Kind, content_words
from deepedu.tutor.question import Asked
from deepedu.tutor.terms import is_content, weight
from deepedu.tutor.windows import Passage, Sentence, Window, lesson_of


class _Text(NamedTuple):
    """A text of ``hint_texts.toml`` with what is filled in; only that can tell anything."""

    name: str
    fields: dict[str, str]

    @property
    def told(self) -> str:
        return " ; ".join(self.fields.values())


def body(matter: Matter, rung: Rung, variant: int = 0) -> str:
    """The text of a rung, made by code; ``variant`` counts tellings of it. Never gives the secret away."""
    makers: dict[Rung, Callable[[Matter, int], Iterator[_Text]]] = {
        Rung.ASKED: _asked_texts,
        Rung.LESSON: _lesson_texts,
        Rung.IDEA: _idea_texts,
        Rung.FIRST_STEP: _step_texts,
        Rung.EXAMPLE: _example_texts,
    }
    # A place in the book is no answer, whatever number its page has; its titles are checked one by one.
    found = (t for t in makers[rung](matter, variant) if rung is Rung.LESSON or not matter.hides(t.told))
    name, fields = next(found, _Text("example_none" if rung is Rung.EXAMPLE else "step_none", {}))
    texts: list[str] = hint_texts()["rungs"][name]
    return texts[variant % len(texts)].format(**fields)


def _asked_texts(matter: Matter, variant: int) -> Iterator[_Text]:  # noqa: ARG001
    is_exercise = matter.kind is Kind.EXERCISE
    sought = hint_texts()["asked_for"]["exercise" if is_exercise else str(matter.asked)]
    given = [q.surface for q in matter.question.quantities] if is_exercise else _keywords(matter)
    shown = ", ".join(dict.fromkeys(piece for piece in given if not matter.hides(piece)))
    name = "asked_given" if is_exercise else "asked_about"
    yield _Text("asked", {"sought": sought, "given": hint_texts()["given"][name].format(given=shown) if shown else ""})
    yield _Text("asked", {"sought": sought, "given": ""})


def _keywords(matter: Matter) -> list[str]:
    """What the question names, as the lesson spells it."""
    if matter.best is None:
        return []
    section = matter.best.window.passage.evidence.section_id
    here = [s for p in matter.passages if p.evidence.section_id == section for s in p.sentences]
    return _shared_runs(matter, here)[:4]


def _shared_runs(matter: Matter, sentences: Sequence[Sentence]) -> list[str]:
    """Runs of words that the question shares with sentences, as the book writes them, the longest first."""
    asked = [t.folded for i, t in enumerate(matter.question.tokens) if i not in matter.question.asked_words]
    found: dict[str, str] = {}
    for sentence in sentences:
        said = [t.folded for t in sentence.tokens]
        for block in SequenceMatcher(None, said, asked, autojunk=False).get_matching_blocks():
            run = list(sentence.tokens[block.a : block.a + block.size])
            while run and not is_content(run[0].word):
                run = run[1:]
            if run and (len(run) > 1 or weight(run[0].word) >= 1.0):
                found.setdefault(fold(text := sentence.text[run[0].start : run[-1].end]), text)
    runs = sorted(found, key=lambda run: -len(run))
    kept = [run for i, run in enumerate(runs) if not any(run in longer for longer in runs[:i])]
    return [" ".join(found[run].split()) for run in kept if not matter.hides(found[run])]


def _lesson_texts(matter: Matter, variant: int) -> Iterator[_Text]:  # noqa: ARG001
    if matter.best is None:
        yield _Text("no_lesson", {})
        return
    evidence = matter.best.window.passage.evidence
    # Where code found no answer, a title may be it: "3. Antonie van Leeuwenhoek".
    shown = (evidence.lesson, _section(matter)) if matter.is_answerable else ()
    titles = [evidence.book, *(title for title in shown if title and not matter.hides(title))]
    page, _ = evidence.place_of(matter.best.window.start)
    place = ", ".join(dict.fromkeys(titles))
    place += f", trang {evidence.page_labels.get(page, str(page))}" if evidence.has_pages else ""
    yield _Text("lesson" if matter.is_answerable else "lesson_near", {"place": place})


def _section(matter: Matter) -> str:
    """The innermost title above the answer."""
    assert matter.best is not None
    return matter.best.window.passage.evidence.heading.split(TITLE_SEPARATOR)[-1]


def _idea_texts(matter: Matter, variant: int) -> Iterator[_Text]:
    shown = matter.solutions[0] if matter.solutions else None
    if shown and shown.formula:
        yield _Text("idea_formula", {"formula": shown.formula})
    elif shown:
        yield _Text("idea_conversion" if shown.unit else "idea_arithmetic", {})
    if matter.best is not None:
        header = matter.best.window.header
        if header is not None and header.is_row:
            yield _Text("idea_table", {"columns": _columns(header.text)})
        # Where code found no answer, any sentence may be it.
        ideas = [idea for idea in _ideas(matter) if not matter.hides(idea)] if matter.is_answerable else []
        if ideas:
            yield _Text("idea_sentence", {"idea": ideas[variant % len(ideas)]})
        if matter.is_answerable:
            yield _Text("idea_title", {"title": _section(matter)})
    yield _Text("idea_none", {})


def _ideas(matter: Matter) -> list[str]:
    """Sentences around the answer that help, best first; what the question asks for is blanked in them."""
    assert matter.best is not None
    answer = matter.best.window
    near = matter.answering()
    words = set(content_words(matter.stem))
    ranked: list[tuple[float, str]] = []
    for passage in matter.passages:
        if passage.evidence.section_id != answer.passage.evidence.section_id:
            continue
        for sentence in passage.sentences:
            if not _is_readable(sentence) or (sentence in near and not matter.is_blanked):
                continue
            shared = len(words & set(content_words(sentence.text)))
            is_near = 1.5 * (passage is answer.passage) - 2.0 * (sentence in near)
            ranked.append((shared + is_near, _blanked(matter, sentence, passage)))
    return [text for score, text in sorted(ranked, key=lambda pair: -pair[0]) if score > 0][:6]


def _blanked(matter: Matter, sentence: Sentence, passage: Passage) -> str:
    """The sentence with gaps for every value of the kind that is asked for."""
    spans: list[tuple[int, int]] = []
    if matter.asked in (Asked.TIME, Asked.NUMBER) or matter.kind is Kind.EXERCISE:
        for quantity in matter.fresh(sentence.quantities):
            number = re.match(r"[-−–]?\d[\d  .,]*\d|\d", quantity.surface)
            end = quantity.start + number.end() if number and quantity.date is None else quantity.end
            spans.append((quantity.start, end))
    elif matter.kind is Kind.SHORT:
        spans = [(n.start, n.end) for n in matter.fresh_names(names_in(sentence, passage))]
    text = sentence.text
    for start, end in sorted(spans, reverse=True):
        text = f"{text[:start]}…{text[end:]}"
    return " ".join(text.split())


def _step_texts(matter: Matter, variant: int) -> Iterator[_Text]:  # noqa: ARG001
    shown = matter.solutions[0] if matter.solutions else None
    if shown and shown.formula:
        yield _Text("step_formula", {"needed": ", ".join(shown.labels), "formula": shown.formula})
    elif shown and shown.unit:
        yield _Text("step_conversion", {"unit": shown.unit})
    elif shown:
        yield _Text("step_arithmetic", {})
    elif matter.best is not None and matter.kind is not Kind.EXERCISE:
        window, guide = matter.best.window, hint_texts()["guides"][str(matter.asked)]
        if window.sentences[0].is_row:
            yield _Text("step_table", {"row": _cells(window.sentences[0].text)[0]})
        anchors = _shared_runs(matter, window.sentences)
        for count in (3, 2, 1):
            if anchors[:count]:
                quoted = ", ".join(f"«{anchor}»" for anchor in anchors[:count])
                yield _Text("step_sentence", {"anchors": quoted, "guide": guide})
    yield _Text("step_none", {})


def _example_texts(matter: Matter, variant: int) -> Iterator[_Text]:
    for shown in matter.solutions[:1]:
        numbers = shown.others(matter.hides, variant)
        if numbers is not None and shown.labels:
            values = "; ".join(f"{name} = {shown_number(n)}" for name, n in zip(shown.labels, numbers, strict=True))
            yield _Text("example_formula", {"values": values, "worked": shown.worked(numbers)})
        elif numbers is not None:
            yield _Text("example_arithmetic", {"worked": shown.worked(numbers)})
    if matter.kind is not Kind.EXERCISE:
        if matter.best is not None and matter.is_answerable:
            found = [text for text in _examples_in_book(matter, matter.best.window) if not matter.hides(text.told)]
            yield from found[variant % len(found) :] if found else ()
        made_up: dict[str, str] | None = hint_texts()["made_up"].get(str(matter.asked))
        if made_up:
            yield _Text("example_sentence", {**made_up, "what": hint_texts()["asked_for"][str(matter.asked)]})
    yield _Text("example_none", {})


def _examples_in_book(matter: Matter, answer: Window) -> Iterator[_Text]:
    """How something alike is found elsewhere in the lesson, then elsewhere at all."""
    left_out = matter.answering()
    is_row, section = answer.sentences[0].is_row, answer.passage.evidence.section_id
    for passage in sorted(matter.passages, key=lambda p: p.evidence.section_id != section):
        for index, sentence in enumerate(passage.sentences):
            if sentence in left_out or is_row != sentence.is_row:
                continue
            text = _example_of(matter, sentence, passage, index)
            if text is not None:
                yield text


def _example_of(matter: Matter, sentence: Sentence, passage: Passage, index: int) -> _Text | None:
    header = passage.header_of(index)
    if header is not None:
        cells = _read_row(header.text, sentence.text)
        return _Text("example_table", {"row": _cells(sentence.text)[0], "cells": cells})
    if not _is_readable(sentence):
        return None
    said, what = " ".join(sentence.text.split()), hint_texts()["asked_for"][str(matter.asked)]
    match matter.asked:
        case Asked.TIME:
            found = [q.surface for q in sentence.quantities if q.is_time]
        case Asked.NUMBER:
            found = [q.surface for q in sentence.quantities if not q.is_time and q.unit]
        case Asked.PERSON:
            found = [_person(n) for n in names_in(sentence, passage) if len(n.words) > 1 and _is_of_person(n, said)]
        case Asked.PLACE:
            found = [n.surface for n in names_in(sentence, passage)]
        case _:
            return _Text("example_open", {"sentence": said})
    return _Text("example_sentence", {"sentence": said, "what": what, "found": found[0]}) if found else None


def sources(matter: Matter, rung: Rung) -> tuple[Lesson, ...]:
    """Where to read on: places only, never a quote, and no title that tells the answer."""
    if rung < Rung.LESSON or matter.best is None:
        return ()
    lesson = lesson_of(matter.best.window.passage.evidence)
    titles = " ".join(filter(None, (lesson.chapter, lesson.lesson)))
    is_safe = matter.is_answerable and not matter.hides(titles)
    return (lesson,) if is_safe or rung is Rung.ANSWER else (replace(lesson, chapter=None, lesson=None),)


def answer_text(matter: Matter) -> str:
    """What code itself can say of the answer: a calculation, or the teacher's key; empty where the book answers."""
    if matter.solutions:
        return hint_texts()["given"]["solution"].format(worked="; ".join(s.worked() for s in matter.solutions))
    return hint_texts()["given"]["key"].format(key=matter.key) if matter.key else ""


_PERSON_BEFORE = re.compile(
    r"(?:nhà [^,.]{3,40}|bác sĩ|ông|bà|giáo sư|kĩ sư|vua|chủ tịch|tước|tướng)\s(?:[^,.]{0,20} )?$"
)
_NATIONS = frozenset({"duc", "anh", "phap", "y", "my"})


def _is_of_person(name: Name, said: str) -> bool:
    place = said.find(name.surface)
    return place > 0 and _PERSON_BEFORE.search(said[:place].lower()) is not None


def _person(name: Name) -> str:
    """A person's name without the nationality that stands before it ("người Đức Robert Koch")."""
    parts = name.surface.split()
    return " ".join(parts[1:]) if len(parts) > 2 and fold(parts[0]) in _NATIONS else name.surface


def _is_readable(sentence: Sentence) -> bool:
    is_odd = sentence.is_question or sentence.is_heading or sentence.is_row or sentence.is_open
    return not is_odd and 6 <= len(sentence.tokens) <= 45


def _cells(row: str) -> list[str]:
    return [" ".join(cell.split()) for cell in row.strip().strip("|").split("|")]


def _columns(row: str) -> str:
    return " | ".join(_cells(row))


def _read_row(header: str, row: str) -> str:
    return "; ".join(f"{head}: {cell}" for head, cell in zip(_cells(header)[1:], _cells(row)[1:], strict=False))
