"""Quiz items as pages show them: formulae, numbers with a decimal comma, and where the book bears an item."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import sqlalchemy as sa

from deepedu.search.passages import load_quoted
from deepedu.server.maths import to_html
from deepedu.store import Database
from deepedu.store.tables import Book
from deepedu.tutor.classwork import MarkedItem
from deepedu.tutor.quiz import LETTERS, Choice, Item, Placed, QuizEvidence, Short, TrueFalse
from deepedu.tutor.quiz_results import Sign, sign_of

# How much of the passage is shown around a quote, in characters.
_AROUND = 160
_STATEMENT_LETTER = re.compile(
    r"^(?P<before>\s*(?:ý\s+)?)(?P<letter>[A-Da-d])(?P<after>[).])", re.MULTILINE | re.IGNORECASE
)
_OPTION_LETTER = re.compile(
    r"(?P<before>\b(?:[Đđ]áp án|[Pp]hương án|[Cc]họn)(?: đúng)?(?: là)?:?\s+)(?P<letter>[A-D])(?P<after>)\b"
)


@dataclass(frozen=True)
class EvidenceView:
    """A quote with what stands around it in the book; both sides are empty where the book is not in the library."""

    book: str
    page: str
    before: str
    quote: str
    after: str


def views(**more: Any) -> dict[str, Any]:
    """What templates with items need to draw them."""
    return {"maths": to_html, "number": number, "field_time": field_time, **more}


def number(value: Decimal | float | None, places: int = 2) -> str:
    """A number as Vietnamese readers write it: "2,75", "10"; a dash for none."""
    if value is None:
        return "–"
    text = str(Decimal(str(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace(".", ",")


def field_time(at: datetime | None) -> str:
    """A time as a ``datetime-local`` field holds it, on the server's clock."""
    return "" if at is None else at.astimezone().strftime("%Y-%m-%dT%H:%M")


def evidence_of(item: Item) -> list[QuizEvidence]:
    """All places that bear an item, each once."""
    found = [claim.evidence for claim in item.statements] if isinstance(item, TrueFalse) else []
    return list(dict.fromkeys(each for each in (item.evidence, *found) if each is not None))


def evidence_views(database: Database, items: Iterable[Item]) -> Mapping[str, list[EvidenceView]]:
    """Where the books bear items, by item id."""
    with database.read() as session:
        titles = {row.sha256: row.title for row in session.execute(sa.select(Book.sha256, Book.title))}

        def view(evidence: QuizEvidence) -> EvidenceView:
            found = load_quoted(session, evidence.book, evidence.page, evidence.quote)
            title = titles.get(evidence.book, "")
            if found is None:
                return EvidenceView(title, str(evidence.page), "", evidence.quote, "")
            passage, start, end = found
            first = passage.place_of(start)[0]
            page = passage.page_labels.get(first, str(first)) if passage.has_pages else ""
            before, after = passage.text[max(0, start - _AROUND) : start], passage.text[end : end + _AROUND]
            return EvidenceView(
                title,
                page,
                f"…{before}" if start > _AROUND else before,
                passage.text[start:end],
                f"{after}…" if end + _AROUND < len(passage.text) else after,
            )

        return {item.id: [view(evidence) for evidence in evidence_of(item)] for item in items}


# --- Results ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResultRow:
    """What was asked, answered and right: for a statement each, else for the item. ``asked`` is a statement's text.

    ``key`` is None where it is not to be seen; ``is_right`` then too.
    """

    asked: str
    given: str | None
    key: str | None
    is_right: bool | None


@dataclass(frozen=True)
class ResultLine:
    """An item of a finished work as its pupil sees it. ``sign`` is None where marks are not told yet."""

    number: int
    item_id: str
    kind: str
    stem: str
    sign: Sign | None
    points: Decimal | None
    max_points: Decimal | None
    rows: tuple[ResultRow, ...]
    explanation: str


def result_line(number_: int, placed: Placed, mark: MarkedItem | None, *, shows_key: bool) -> ResultLine:
    """An item with its mark; statements stand in the order that the pupil saw them in."""
    item, given = placed.item, mark.given if mark else None
    match item:
        case Choice(options=options, key=key):
            labelled = [f"{LETTERS[placed.order.index(own)]}. {option}" for own, option in enumerate(options)]
            said = None if given is None else labelled[LETTERS.index(given)]
            rows = [_row("", said, labelled[key], shows_key, mark.right[0] if mark else False)]
        case TrueFalse(statements=claims):
            rows = [
                _row(
                    claims[place].text,
                    None if given is None or given[place] == "-" else _truth(given[place] == "Đ"),
                    _truth(claims[place].truth),
                    shows_key,
                    mark.right[place] if mark else False,
                )
                for place in placed.order
            ]
        case Short(key=key, unit=unit):
            rows = [_row("", given, f"{key} {unit or ''}".strip(), shows_key, mark.right[0] if mark else False)]
    return ResultLine(
        number_,
        item.id,
        item.kind,
        item.stem,
        sign_of(mark) if mark else None,
        mark.points if mark else None,
        mark.max_points if mark else None,
        tuple(rows) if mark or shows_key else (),
        _as_placed(item.explanation, placed) if shows_key else "",
    )


def _as_placed(explanation: str, placed: Placed) -> str:
    """An explanation whose letters are those that the pupil saw: "đáp án B", or "b)" at the beginning of a line."""
    if not placed.order:
        return explanation

    def letter(found: re.Match[str]) -> str:
        own = LETTERS.index(found["letter"].upper())
        shown_as = LETTERS[placed.order.index(own)]
        return found["before"] + (shown_as if found["letter"].isupper() else shown_as.lower()) + found["after"]

    pattern = _STATEMENT_LETTER if isinstance(placed.item, TrueFalse) else _OPTION_LETTER
    return pattern.sub(letter, explanation)


def _row(asked: str, given: str | None, key: str, shows_key: bool, is_right: bool) -> ResultRow:
    return ResultRow(asked, given, key if shows_key else None, is_right if shows_key else None)


def _truth(is_true: bool) -> str:
    return "Đúng" if is_true else "Sai"
