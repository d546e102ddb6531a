"""Title, grade, subject and series of a book: given by the user, told by the document, or guessed from its looks."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath

from deepedu.base.vietnamese import fold
from deepedu.curriculum.readers.base import PageText

SUBJECTS = (
    "Khoa học tự nhiên", "Lịch sử và Địa lí", "Tự nhiên và Xã hội", "Giáo dục kinh tế và pháp luật",
    "Giáo dục quốc phòng và an ninh", "Giáo dục công dân", "Giáo dục thể chất", "Hoạt động trải nghiệm", "Tiếng Việt",
    "Tiếng Anh", "Ngữ văn", "Toán", "Vật lí", "Hóa học", "Sinh học", "Lịch sử", "Địa lí", "Khoa học", "Tin học",
    "Công nghệ", "Đạo đức", "Âm nhạc", "Mĩ thuật",
)  # fmt: skip
_OTHER_NAMES = {
    "khtn": "Khoa học tự nhiên", "su dia": "Lịch sử và Địa lí", "ls dl": "Lịch sử và Địa lí",
    "tnxh": "Tự nhiên và Xã hội", "gdcd": "Giáo dục công dân", "gdktpl": "Giáo dục kinh tế và pháp luật",
    "hdtn": "Hoạt động trải nghiệm", "hoa": "Hóa học", "ly": "Vật lí", "li": "Vật lí", "van": "Ngữ văn",
}  # fmt: skip
_SERIES = {
    "Kết nối tri thức với cuộc sống": r"ket noi tri thuc|kntt",
    "Chân trời sáng tạo": r"chan troi sang tao|ctst",
    "Cánh Diều": r"canh dieu",
}
# i and y are written for one another at the end of these words: địa lí, địa lý.
_PATTERNS = {
    subject: fold(subject).replace("li", "l[iy]").replace("mi ", "m[iy] ").replace("hoa ", "hoa ")
    for subject in SUBJECTS
}
_GRADE = re.compile(r"\blop\s*(1[0-2]|[1-9])\b")
_VOLUME = re.compile(r"\b(?:tap|quyen)\s*(1|2|mot|hai|i{1,2})\b")
# Longer lines are prose, which may well speak of a subject or a grade.
_COVER_LINE_CHARACTERS = 60
_COVER_PAGES = 2


@dataclass(frozen=True)
class Metadata:
    """What is known of a book; None where it is not."""

    title: str | None = None
    grade: int | None = None
    subject: str | None = None
    series: str | None = None


def guess(
    given: Metadata, hints: Mapping[str, str], pages: Sequence[PageText], name: PurePath
) -> tuple[Metadata, list[str]]:
    """Fills what was not given.

    Args:
        given: by the user; taken as it is.
        hints: what the document says of itself.
        pages: the first pages.
        name: the file's name, with the folder it lay in where that is known.

    Returns:
        The metadata, and which of its fields were guessed. A title is always found.
    """
    stem = " ".join(re.split(r"[\s_]+|(?<!\d)-|-(?!\d)", name.stem)).strip() or name.name
    cover = [
        line.strip()
        for page in pages[:_COVER_PAGES]
        for line in page.text.split("\n")
        if 0 < len(line.strip()) <= _COVER_LINE_CHARACTERS
    ][:40]
    sources = [hints.get("title", ""), stem, *cover]
    grade = given.grade or _hinted_grade(hints) or _find_grade(sources[:2], cover, name)
    subject = given.subject or hints.get("subject") or _find_subject(sources[:2], cover, name, grade)
    series = given.series or hints.get("series") or _find_series([*sources, name.parent.name])
    title = given.title or hints.get("title") or _title(stem, subject, grade, pages)
    found = Metadata(title, grade, subject, series)
    fields = ("title", "grade", "subject", "series")
    guessed = [key for key in fields if getattr(given, key) is None and getattr(found, key) is not None]
    return found, guessed


def _hinted_grade(hints: Mapping[str, str]) -> int | None:
    match = re.fullmatch(r"\D*(1[0-2]|[1-9])\D*", hints.get("grade", ""))
    return int(match.group(1)) if match else None


def _find_grade(names: Sequence[str], cover: Sequence[str], name: PurePath) -> int | None:
    for text in [*names, name.parent.name, *cover]:
        match = _GRADE.search(_plain(text))
        if match:
            return int(match.group(1))
    for text in [*names, *cover]:
        for pattern in [*_PATTERNS.values(), *_OTHER_NAMES]:
            match = re.search(rf"\b(?:{pattern})\s*(1[0-2]|[1-9])\b(?![.,/]\d)", _plain(text))
            if match:
                return int(match.group(1))
    # A cover sets subject and number on lines of their own.
    for line, below in pairwise(cover):
        if _is_subject(line) and re.fullmatch(r"1[0-2]|[1-9]", below):
            return int(below)
    return None


def _find_subject(names: Sequence[str], cover: Sequence[str], name: PurePath, grade: int | None) -> str | None:
    for text in names:
        plain = _plain(text)
        for subject, pattern in _PATTERNS.items():
            number = r"\s*(?:lop\s*)?(?:1[0-2]|[1-9])\b"
            is_named = re.search(rf"\b(?:{pattern}){number}", plain) or re.fullmatch(
                rf"(?:sgk|sach giao khoa|sach|mon|giao trinh|bai giang)*\s*(?:{pattern})\b.*", plain
            )
            if is_named and (grade is not None or len(plain) < len(subject) + 12):
                return subject
        for short, subject in _OTHER_NAMES.items():
            if re.search(rf"\b{short}\s*(?:lop\s*)?(?:1[0-2]|[1-9])\b", plain):
                return subject
    for line in [name.parent.name, *cover]:
        subject = _is_subject(line)
        if subject:
            return subject
    return None


def _is_subject(line: str) -> str | None:
    """The subject that a whole line names, with or without a grade."""
    plain = _plain(line)
    for subject, pattern in _PATTERNS.items():
        if re.fullmatch(rf"(?:mon\s*)?(?:{pattern})\s*(?:lop)?\s*(?:1[0-2]|[1-9])?", plain):
            return subject
    return None


def _find_series(sources: Sequence[str]) -> str | None:
    for text in sources:
        for series, pattern in _SERIES.items():
            if re.search(rf"\b(?:{pattern})\b", _plain(text)):
                return series
    return None


def _title(stem: str, subject: str | None, grade: int | None, pages: Sequence[PageText]) -> str:
    first = pages[0].text if pages else ""
    marked = [first[start:end] for start, end, level in (pages[0].headings or () if pages else ()) if level == 1]
    if len(marked) == 1 and first.lstrip().startswith(marked[0].strip()):
        return " ".join(marked[0].split())
    volume = _VOLUME.search(_plain(stem))
    bare_stem = re.sub(r"(?i)\b(sgk|sách giáo khoa|tập \d|tap \d)\b", "", stem)
    # A name such as "scan0001" or "khtn6" tells less than the subject and grade found inside.
    if subject and grade and (_is_subject(bare_stem) or volume or " " not in stem):
        number = {"mot": "1", "hai": "2", "i": "1", "ii": "2"}.get(volume.group(1), volume.group(1)) if volume else ""
        return f"{subject} {grade}" + (f", tập {number}" if number else "")
    # The text may begin with the very words of a file name, and knows their capitals.
    opening = " ".join(first[: 3 * len(stem) + 20].split())
    bare = re.sub(r"\s*\(.*\)$", "", stem)
    if bare and opening.lower().startswith(bare.lower()):
        return opening[: len(bare)] + stem[len(bare) :]
    return stem[0].upper() + stem[1:]


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s]|_", " ", fold(text)).split())
