"""Personal data typed into a chat: found, and masked before anything is kept, shown to others or sent to a model.

Rules in code, for Vietnamese as pupils type it: with and without accents, in any case, pasted or spelled. They are kept
narrow, because a lesson is made of numbers, dates, names and places.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from deepedu.base.personal_addresses import find_addresses
from deepedu.base.personal_names import find_introduced_names, find_listed_names
from deepedu.base.personal_numbers import find_numbers
from deepedu.base.typed_text import TypedText


def _listed(text: str, sign: str = " ") -> frozenset[str]:
    return frozenset(text.split(sign))


class PersonalKind(StrEnum):
    """What a stretch tells of somebody, the most telling first: where two overlap, the earlier one names the place."""

    EMAIL = "email"
    SOCIAL_ACCOUNT = "social_account"
    IDENTITY_CARD = "identity_card"
    BANK_ACCOUNT = "bank_account"
    STUDENT_CODE = "student_code"
    DOCUMENT = "document"
    PHONE = "phone"
    PASSWORD = "password"
    BIRTH_DATE = "birth_date"
    ADDRESS = "address"
    NAME = "name"


PLACEHOLDERS = {
    PersonalKind.EMAIL: "[e-mail]",
    PersonalKind.SOCIAL_ACCOUNT: "[tài khoản mạng xã hội]",
    PersonalKind.IDENTITY_CARD: "[CCCD]",
    PersonalKind.BANK_ACCOUNT: "[số tài khoản]",
    PersonalKind.STUDENT_CODE: "[mã học sinh]",
    PersonalKind.DOCUMENT: "[số giấy tờ]",
    PersonalKind.PHONE: "[số điện thoại]",
    PersonalKind.PASSWORD: "[mật khẩu]",
    PersonalKind.BIRTH_DATE: "[ngày sinh]",
    PersonalKind.ADDRESS: "[địa chỉ]",
    PersonalKind.NAME: "[họ tên]",
}
_RANK = {kind: rank for rank, kind in enumerate(PersonalKind)}


@dataclass(frozen=True)
class Finding:
    """``text[start:end]`` tells something of somebody."""

    start: int
    end: int
    kind: PersonalKind


@dataclass(frozen=True)
class Masked:
    """``text`` with placeholders; ``findings`` are places in the text before."""

    text: str
    findings: tuple[Finding, ...]


def find(text: str, *, class_names: Sequence[str] = ()) -> list[Finding]:
    """Personal data in a message, in order and without overlap.

    Args:
        text: as it was typed; offsets are offsets of it.
        class_names: whole names of people of the school, as the school writes them.
    """
    typed = TypedText.of(text)
    spans = sorted({(start, end, kind) for kind, start, end in _spans(typed, class_names)})
    chosen: list[tuple[int, int, PersonalKind]] = []
    for start, end, kind in sorted(spans, key=lambda s: (_RANK[s[2]], s[0] - s[1])):
        if not any(start < other[1] and other[0] < end for other in chosen):
            chosen.append((start, end, kind))
    return [Finding(*typed.span(start, end), kind) for start, end, kind in sorted(chosen)]


def mask(text: str, *, class_names: Sequence[str] = ()) -> Masked:
    """Replaces personal data by placeholders, the same for everybody. Arguments as of ``find``."""
    findings = find(text, class_names=class_names)
    parts: list[str] = []
    done = 0
    for finding in findings:
        parts += [text[done : finding.start], PLACEHOLDERS[finding.kind]]
        done = finding.end
    return Masked("".join([*parts, text[done:]]), tuple(findings))


def _spans(typed: TypedText, class_names: Sequence[str]) -> Iterator[tuple[PersonalKind, int, int]]:
    for kind, start, end in find_numbers(typed):
        yield PersonalKind(kind), start, end
    for kind, finder in (
        (PersonalKind.EMAIL, _emails),
        (PersonalKind.SOCIAL_ACCOUNT, _social_accounts),
        (PersonalKind.BIRTH_DATE, _birth_dates),
        (PersonalKind.PASSWORD, _passwords),
        (PersonalKind.ADDRESS, find_addresses),
        (PersonalKind.NAME, find_introduced_names),
    ):
        for start, end in finder(typed):
            yield kind, start, end
    for start, end in find_listed_names(typed, class_names):
        yield PersonalKind.NAME, start, end


_EMAIL = re.compile(
    r"[a-z0-9][\w.+\-]*(?: ?@ ?)[a-z0-9][a-z0-9\-]*(?:\.[a-z0-9\-]+)*\.[a-z]{2,}\b"
    r"|[a-z0-9][\w.+\-]*(?: a cong |\(at\)|\[at\]| at )(?:gmail|yahoo|outlook|hotmail|icloud)"
    r"(?:\.| cham | dot | ?\(dot\) ?)com(?:(?:\.| cham )vn)?\b"
)


def _emails(typed: TypedText) -> Iterator[tuple[int, int]]:
    for match in _EMAIL.finditer(typed.folded):
        yield match.span()


_PROFILE = re.compile(
    r"(?:https?://)?(?:www\.|m\.|web\.)?(?:facebook\.com|fb\.com|fb\.me|m\.me|messenger\.com|zalo\.me|tiktok\.com"
    r"|instagram\.com"
    r"|t\.me|threads\.net|discord\.gg|youtube\.com/@)/?[^\s,;)]*[^\s,;).!?]"
)
_HANDLE = re.compile(r"(?<![\w.])@(?=[\w.]*[\d_])[a-z_][\w.]{3,}\b")
_NETWORK = (
    r"(?:facebook|face ?book|face|fb|zalo|insta(?:gram)?|ig|tik ?tok|top ?top|discord|telegram|roblox|messenger"
    r"|snapchat|threads|locket"
    r"|nick(?: name)?(?: (?:zalo|fb|face|game|lien quan|free fire))?|acc(?: (?:fb|game|tiktok))?)"
)
_ACCOUNT = re.compile(
    rf"\b{_NETWORK}(?:(?: cua)? (?:em|minh|to|tui|toi|tao|t|chau|con|me em|bo em|ban em|ban ay|no))?(?: (?:la|ten"
    rf"|ten la|co ten))?(?:(?<= la)|(?<= ten)|(?<=[a-z]) ?[:=]) ?(?=\S)"
)
_IN_ACCOUNT = re.compile(r"@?[\w][\w.\-]*")
_NO_ACCOUNT = _listed(
    "gi mot mang cong noi do ung phan ai la co ten trang nen kenh cai nhe nha a va roi nhung cho voi ket thi ma de add "
    "em co thay di "
    "khong ko vao oi khi nguoi dau nao duoc cac nhu loai ban cua"
)


def _social_accounts(typed: TypedText) -> Iterator[tuple[int, int]]:
    plain, text = typed.folded, typed.text
    for pattern in (_PROFILE, _HANDLE):
        for match in pattern.finditer(plain):
            yield match.span()
    for match in _ACCOUNT.finditer(plain):
        end: int | None = None
        is_proper = text[match.end() : match.end() + 1].isupper()
        for count, word in enumerate(_IN_ACCOUNT.finditer(plain, match.end())):
            at = match.end() if end is None else end + 1
            is_next = word.start() == at and (end is None or plain[end] == " ")
            goes_on = not is_proper or text[word.start()].isupper()
            if not is_next or count == 4 or word.group() in _NO_ACCOUNT or (count and not goes_on):
                break
            end = word.end()
            if any(sign in word.group() for sign in "@._0123456789"):
                break
        if end is not None:
            while plain[end - 1] in ".-":
                end -= 1
            yield match.end(), end


_DATE = (
    r"(?:\d{1,2} ?[/.\-] ?\d{1,2} ?[/.\-] ?(?P<y1>\d{4}|\d{2})\b|(?:ngay |mung "
    r"|mong )?\d{1,2} thang \d{1,2}(?:,? (?:nam )?(?P<y2>\d{4}))?\b"
    r"|\d{1,2} ?[/\-] ?\d{1,2}\b)"
)
_BORN = re.compile(
    r"(?<!hoc )(?<!giao )(?<!phat )(?<!thi )(?<!ve )(?<!ky )(?<!tai )(?<!hi )(?<!hy )(?<!sinh )\b"
    r"(?:sinh (?:vao )?ngay|ngay(?: thang(?: nam)?)? sinh|sinh nhat|ntns|sinh|sn|dob|born(?: on)?|birthday)"
    rf"(?P<link>(?: (?:cua|em|minh|to|tui|toi|con|chau|la|vao|ngay|me em|bo em|is|on)| ?:)*) ?(?P<date>{_DATE})"
)
_SELF = re.compile(r"\b(?:em|minh|to|tui|toi|tao|con|chau|t|my|i|me em|bo em)\b")
# Older years are those of the lessons' people; pupils are never born before the other one.
_OLDEST_PARENT, _OLDEST_PUPIL = 1945, 2003


def _birth_dates(typed: TypedText) -> Iterator[tuple[int, int]]:
    plain = typed.folded
    for match in _BORN.finditer(plain):
        told = match["y1"] or match["y2"]
        year = int(told) if told and len(told) == 4 else None
        if year is not None and not _OLDEST_PARENT <= year <= 2100:
            continue
        sentence = re.split(r"[.!?;\n]", plain[max(0, match.start() - 50) : match.start()])[-1] + match["link"]
        is_form = ":" in match["link"] or not sentence.strip()
        if (year is not None and year >= _OLDEST_PUPIL) or is_form or _SELF.search(sentence):
            yield match.span("date")


_PASSWORD = re.compile(
    r"\b(?:mat khau|pass(?:word)?|ma pin|ma otp)\b(?: (?:cua|em|minh|to|vnedu|fb|face|zalo|tai khoan|gmail|wifi"
    r"|nha))*(?: la|:| =| is) ?(?P<word>(?=\S*[\d@#$%&*!_])\S{4,})"
)


def _passwords(typed: TypedText) -> Iterator[tuple[int, int]]:
    for match in _PASSWORD.finditer(typed.folded):
        yield match.span("word")
