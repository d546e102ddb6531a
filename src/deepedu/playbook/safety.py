"""What no bullet may hold, whoever proposes it: pupils' data, orders, answer keys.

Rules in code, so that no model can be talked out of them. They refuse rather too much: what they refuse waits in
quarantine for a teacher.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from deepedu.base.personal_data import PLACEHOLDERS, find
from deepedu.base.vietnamese import fold, words

# Beyond what is masked in a chat: any number as long as an identity card's (9 or 12 digits), an address on the net.
_IDENTITY = re.compile(r"(?<![\d.,/])(?:\d{12}|\d{9})(?![\d.,/])")
_LINK = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_STUDENT_ID = re.compile(
    r"\b(?:mã|ma|số|so)\s+(?:học\s+sinh|hoc\s+sinh|định\s+danh|dinh\s+danh)\b|\bstudent\s+id\b", re.IGNORECASE
)
# A person of this school rather than of the book: "bạn Minh", "học sinh Nguyễn Văn An", "lớp 6A".
_PUPIL = re.compile(
    r"\b(?i:em|bạn|học sinh|hoc sinh|cháu|pupil|student)\s+(?:(?i:tên|ten|named)\s+)?"
    r"(?!(?:Việt|Nam|Trung|Phổ|Tiểu|Mỹ|Pháp|Nhật|Hàn)\b)(?P<name>[^\W\d_]+)"
)
_CLASS = re.compile(r"\b(?i:lớp|lop|class)\s+\d{1,2}\s?[A-Z]\d{0,2}\b")

# Orders to the tutor, folded. Each is a way in which a document or a pupil tries to change its rules.
_ORDERS = (
    r"\b(?:bo qua|phot lo|quen di|quen het|khong can theo|khong tuan theo|lam ngo)\b.{0,40}"
    r"\b(?:(?<!dinh )luat|quy tac|huong dan|chi dan|quy dinh|menh lenh|yeu cau|prompt)\b",
    r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}\b(?:rules?|instructions?|prompts?|guidelines?|polic\w+)\b",
    r"\b(?:luon|hay|phai|always|must|just)\b.{0,20}\b(?:cho|dua|noi|dua ra|give|reveal|show|tell)\b.{0,20}"
    r"\b(?:dap an|loi giai|answers?|solutions?)\b",
    r"\b(?:dung|khong)\s+(?:bao gio\s+)?(?:kiem tra|doi chieu|trich dan)\b",
    r"\bnever\s+(?:check|cite|verify)\b",
    r"\b(?:system prompt|loi nhac he thong|developer mode|che do nha phat trien|jailbreak)\b",
    r"\b(?:you are now|tu gio|tu bay gio|ke tu gio)\b.{0,30}\b(?:la|hay|ban|you|act|dong vai)\b",
    r"\b(?:gia vo|dong vai(?! tro)|role ?play|pretend to be)\b",
    r"<\|?(?:im_start|im_end|system|user|assistant)\|?>|\[/?inst\]|<</?sys>>",
    r"\b(?:giu bi mat|dung noi voi|khong duoc noi voi|do not tell|don't tell|keep (?:it|this) secret)\b",
)
_ORDER = re.compile("|".join(f"(?:{order})" for order in _ORDERS), re.IGNORECASE | re.DOTALL)
# "Câu 3: B", "đáp án là C", "1A 2C 3B".
_KEY = re.compile(
    r"\b(?i:câu|cau|bài|bai|question|q)\s*\d+\s*(?i:[:.=-]|là|la|chọn|chon|đáp án|dap an)"
    r"\s*(?:[A-D]|[a-d](?=[.,;]|$))(?!\w)"
    r"|\b(?i:đáp án|dap an|answer key|answers?)\s*(?i:đúng\s*|dung\s*)?(?i:là|la|is|[:=])?\s*[A-D](?!\w)"
    r"|(?:(?<!\d)\b\d{1,2}\s*[-.:]?\s*[A-D]\b[\s,;]*){3,}"
)


@dataclass(frozen=True)
class Danger:
    """Why a text may not become a rule. ``reason`` is for the teacher."""

    kind: str
    reason: str


def dangers(text: str, pupils: Iterable[str] = ()) -> list[Danger]:
    """Everything that speaks against a text.

    Args:
        text: of a bullet or of its evidence.
        pupils: names of the school's own pupils, as the school writes them; given or whole names.
    """
    text = unicodedata.normalize("NFKC", text)
    plain = " ".join(fold(text).split())
    found = [
        Danger("personal", f"có {PLACEHOLDERS[each.kind].strip('[]')}: “{text[each.start : each.end]}”")
        for each in find(text)
    ]
    for pattern, what in (
        (_IDENTITY, "số định danh"),
        (_STUDENT_ID, "mã học sinh"),
        (_CLASS, "lớp của học sinh"),
    ):
        if match := pattern.search(text):
            found.append(Danger("personal", f"có {what}: “{match.group().strip()}”"))
    for match in _PUPIL.finditer(text):
        if match["name"][0].isupper():
            found.append(Danger("personal", f"có tên học sinh: “{match.group()}”"))
    spoken = f" {' '.join(words(text))} "
    for name in pupils:
        if (said := " ".join(words(name))) and f" {said} " in spoken:
            found.append(Danger("personal", f"có tên học sinh: “{name}”"))
    if match := _ORDER.search(plain):
        found.append(Danger("order", f"ra lệnh cho trợ giảng: “{match.group().strip()}”"))
    if match := _LINK.search(text):
        found.append(Danger("link", f"dẫn ra ngoài sách: “{match.group()}”"))
    if match := _KEY.search(text):
        found.append(Danger("key", f"giống đáp án của một bài: “{match.group().strip()}”"))
    return found
