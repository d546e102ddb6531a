"""One line: is it a heading, of what kind, with which number? Where it stands is for ``structure`` to judge."""

import re
from dataclasses import dataclass

from deepedu.base.vietnamese import fold

# Outermost first. Kinds with a smaller rank hold those with a larger one.
RANKS = {
    "part": 0,
    "chapter": 1,
    "topic": 2,
    "lesson": 3,
    "period": 4,
    "roman": 5,
    "number": 6,
    "decimal": 7,
    "letter": 8,
}
CHAPTER_KINDS = ("part", "chapter", "topic")

_WORDS = {
    "phần": "part",
    "chương": "chapter",
    "chủ đề": "topic",
    "chuyên đề": "topic",
    "mạch nội dung": "topic",
    "bài": "lesson",
    "bài học": "lesson",
    "unit": "lesson",
    "tiết": "period",
}
_SPELLED = {
    word: value
    for value, names in enumerate(
        ("mở đầu", "một|nhất", "hai|nhì", "ba", "bốn|tư", "năm", "sáu", "bảy|bẩy", "tám", "chín", "mười")
    )
    for word in names.split("|")
}
_SPELLED_PATTERN = "|".join(sorted(_SPELLED, key=len, reverse=True))
_NUMBERED = re.compile(
    rf"(?P<word>{'|'.join(sorted(_WORDS, key=len, reverse=True))}|§)"
    rf"(?:\s*(?P<digits>\d{{1,3}}(?:\s*[-–]\s*\d{{1,3}}(?=\s*[.:]))?)|\s+(?P<roman>[IVXLC]{{1,7}}|[A-E])|\s+(?:thứ\s+)?(?P<spelled>{_SPELLED_PATTERN}))"
    r"(?P<rest>(?:\W.*)?)",
    re.IGNORECASE | re.DOTALL,
)
_SEPARATOR = re.compile(r"\s*(?:[.:–—/|-]|\.\s*[–—-])\s*")
_ROMAN = re.compile(r"(?P<n>[IVX]{1,5})\s*[.):–—/-]\s*(?P<title>\S.*)", re.DOTALL)
_DECIMAL = re.compile(r"(?P<n>\d{1,2}(?:\.\d{1,2}){1,3})[.)]?\s+(?P<title>[^\W\d_].*)", re.DOTALL)
_NUMBER = re.compile(r"(?P<n>\d{1,2})[.)/]\s*(?P<title>[^\W\d_].*)", re.DOTALL)
_LETTER = re.compile(r"(?P<n>[a-hA-HđĐ])[.)]\s+(?P<title>\S.*)", re.DOTALL)
_SPACED_LETTERS = re.compile(r"(?<!\S)(?:[^\W\d_] ){2,}[^\W\d_](?!\S)")
# Parts of a book that carry no number. "review" belongs to its chapter, "matter" stands beside the chapters.
_REVIEW = re.compile(
    r"(?:ôn tập|bài tập|luyện tập|tổng kết|bài ôn tập|kiểm tra)\s+(?:cuối\s+)?(?:chương|chủ đề|phần|học kì|giữa)\b.*"
    r"|(?:bài tập|câu hỏi ôn tập)\s+cuối\s+.*|bài đọc thêm\b.*|hoạt động thực hành trải nghiệm.*|bài mở đầu\b.*",
    re.IGNORECASE,
)
_MATTER = re.compile(
    r"lời (?:nói đầu|giới thiệu|mở đầu|cảm ơn)|phụ lục.{0,60}|bảng (?:tra cứu|giải thích) (?:thuật ngữ|từ ngữ).{0,40}"
    r"|một số thuật ngữ.{0,60}|tài liệu tham khảo|hướng dẫn sử dụng sách|đáp án.{0,40}|lời kết|chú thích|xem thêm",
    re.IGNORECASE,
)
EXERCISE_ZONE = re.compile(
    r"(?:[IVX\d]+\s*[.)]\s*|[A-E]\s*[.)]\s*)?(?:bài tập|luyện tập|vận dụng|câu hỏi|thực hành|củng cố|bài tập tự luyện)"
    r"(?:\s+(?:và|ôn tập|vận dụng|bài tập|luyện tập|tự luận|trắc nghiệm|về nhà|thực hành|củng cố|mở rộng|rèn luyện))*"
    r"\s*[.:]?",
    re.IGNORECASE,
)
_EXERCISE_VERBS = re.compile(
    r"(?:hãy|em hãy|tính|giải|tìm|cho|chứng minh|viết|rút gọn|so sánh|trong các|một|điền|vẽ|xác định|nêu|vì sao|"
    r"tại sao|đặt|kể|trả lời|quan sát|dựa vào|đọc|chọn|nối|khoanh|biết|có bao nhiêu|thực hiện|phân tích|hai|lập|thay|"
    r"khai triển|sắp xếp|đổi|trình bày|giải thích|lấy|hoàn thành|nhận xét|bạn|người ta|tam giác|với|gọi|trên|từ)\s",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Heading:
    """What a heading line says. ``label`` is word and number as printed ("Bài 3"), ``title`` may be empty."""

    kind: str
    label: str
    number: str | None
    ordinal: int | None
    title: str

    @property
    def rank(self) -> int:
        return RANKS.get(self.kind, RANKS["lesson"])

    @property
    def key(self) -> tuple[str, int | None, str]:
        """Equal for two printings of one heading, whatever their case and spacing."""
        return self.kind, self.ordinal, fold(" ".join(self.title.split()))


def parse_heading(line: str) -> Heading | None:
    """A heading of a chapter, lesson or similar: "CHƯƠNG I", "Bài 3: Tên bài", "Chủ đề 2. Tên", "§1. Tên".

    None for prose that merely begins so: "Bài 3 nói rằng ...", "Bài 2 trang 10".
    """
    text = " ".join(line.split())
    if len(text) > 200:
        return None
    text = _join_spaced_letters(text)
    match = _NUMBERED.fullmatch(text)
    if match is None:
        return None
    word = " ".join(match["word"].lower().split())
    kind = "lesson" if word == "§" else _WORDS[word]
    number, ordinal = _number(match)
    if ordinal is None and kind != "part":
        return None
    rest = match["rest"]
    separator = _SEPARATOR.match(rest)
    title = rest[separator.end() :] if separator else rest.lstrip()
    if not separator and title and not (title[0].isupper() or title[0] in "(“\"'«"):
        return None
    if match["spelled"] and not match["word"].isupper() and title and not separator and not title[0].isupper():
        return None
    label = re.sub(r"(?<=[^\W\d_])(?=\d)", " ", text[: match.start("rest")])
    return Heading(kind, label, number, ordinal, title.strip())


def parse_unnumbered(line: str) -> Heading | None:
    """A part of a book without a number: a preface, a review, an appendix."""
    text = " ".join(line.split())
    if len(text) > 80 or text.endswith((".", ";", ",")):
        return None
    if _MATTER.fullmatch(text):
        return Heading("matter", "", None, None, text)
    if _REVIEW.fullmatch(text):
        return Heading("review", "", None, None, text)
    return None


def parse_subsection(line: str) -> Heading | None:
    """A numbered heading inside a lesson: "I. Tên", "1. Tên", "1.2 Tên", "a) Tên"."""
    text = " ".join(line.split())
    if len(text) > 120:
        return None
    for kind, pattern in (("roman", _ROMAN), ("decimal", _DECIMAL), ("number", _NUMBER), ("letter", _LETTER)):
        match = pattern.fullmatch(text)
        if match:
            number = match["n"]
            if kind == "roman":
                ordinal = roman_value(number)
            elif kind == "letter":
                ordinal = "abcdđefgh".index(number.lower()) + 1
            else:
                ordinal = int(number.rpartition(".")[2])
            return Heading(kind, text[: match.start("title")].strip(), number, ordinal, match["title"])
    return None


def is_exercise(title: str) -> bool:
    """Whether a title reads like a task set to pupils."""
    return bool(_EXERCISE_VERBS.match(re.sub(r"^\([^)]*\)[.:]?\s*", "", title) + " "))


def roman_value(text: str) -> int | None:
    """Value of an upper-case Roman number up to 60; None if it is none."""
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
    if not re.fullmatch(r"L?X{0,4}(?:IX|IV|V?I{0,3})|XL(?:IX|IV|V?I{0,3})", text) or not text:
        return None
    total = 0
    for sign, following in zip(text, [*text[1:], ""], strict=True):
        value = values[sign]
        total += -value if following and values[following] > value else value
    return total


def _number(match: re.Match[str]) -> tuple[str, int | None]:
    if match["digits"]:
        digits = match["digits"].replace(" ", "")
        return digits, int(re.split(r"[-–]", digits)[0])  # "Bài 10-11" counts as 10.
    if match["roman"]:
        text = match["roman"]
        if not text.isupper():
            return text, None
        value = roman_value(text)
        # "Phần A" counts by letters; a single C or D is a letter, not a hundred.
        return text, value if value is not None else ("ABCDE".index(text) + 1 if len(text) == 1 else None)
    spelled = " ".join(match["spelled"].lower().split())
    return match["spelled"], _SPELLED[spelled]


def _join_spaced_letters(text: str) -> str:
    """B À I 1 -> BÀI 1: letter-spaced words typed with spaces; two spaces would have parted the words."""
    if not _SPACED_LETTERS.match(text):
        return text
    joined = _SPACED_LETTERS.sub(lambda run: run.group().replace(" ", ""), text)
    for word in _WORDS:
        together = word.replace(" ", "")
        if joined.lower().startswith(together):
            tail = joined[len(together) :]
            return joined[: len(together)] + (" " + tail if tail and not tail.startswith(" ") else tail)
    return text
