"""Numbers that reach or name a person: telephones, identity cards, bank accounts, pupils' codes.

A lesson is full of numbers. What counts here has the exact form of a personal number, or stands right after a word that
says so; a number that is calculated with, measured, or one of a series counts for nothing.
"""

import re
from collections.abc import Iterator

from deepedu.base.typed_text import TypedText


def _listed(text: str, sign: str = " ") -> frozenset[str]:
    return frozenset(text.split(sign))


_GAP = r"[ .\-]{0,3}"
# Source: Circular 22/2014/TT-BTTTT with the changes of 2017 and 2018: mobile 0[35789] + 8 digits, landline 02 + 9.
_MOBILE = re.compile(rf"(?<!\d)(?P<head>\(?\+ ?84\)?{_GAP}(?:\(0\)|0)?|0084|84|0){_GAP}[35789](?:{_GAP}\d){{8}}(?!\d)")
_LANDLINE = re.compile(rf"(?<!\d)(?P<head>\(?\+ ?84\)?{_GAP}|\(?0)2\d{{1,2}}\)?(?:{_GAP}\d){{7,8}}(?!\d)")
_SPOKEN_DIGIT = r"(?:khong|mot|hai|ba|bon|tu|nam|lam|sau|bay|tam|chin)"
_SPOKEN = re.compile(
    rf"\bkhong[ ,\-]{{1,2}}(?:ba|nam|bay|tam|chin)(?:[ ,\-]{{1,2}}{_SPOKEN_DIGIT}){{8}}\b(?![ ,\-]+{_SPOKEN_DIGIT}\b)"
)
# Source: Circular 07/2016/TT-BCA, article 7 and appendix I: province, century with sex, year, six digits by chance.
_CARD = re.compile(r"(?<!\d)\d(?:[ .\-]?\d){11}(?!\d)")
_PROVINCES = _listed(
    "001 002 004 006 008 010 011 012 014 015 017 019 020 022 024 025 026 027 030 031 033 034 035 036 037 038 040 042 "
    "044 045 046 048 049 051 052 054 056 058 060 062 064 066 067 068 070 072 074 075 077 079 080 082 083 084 086 087 "
    "089 091 092 093 094 095 096"
)
_LINK = r"[^\d.!?;\n]{0,30}?"
_NUMBER = r"(?P<number>\+?\d(?:[ .\-]?\d){%d,%d})(?!\d)"
_CUES = (
    (
        "identity_card",
        r"\b(?:cccd|can cuoc(?: cong dan)?|(?:so|ma) dinh danh|cmnd|cmtnd|cmt|chung minh (?:nhan dan|thu)|gcmnd)\b",
        8,
        11,
    ),
    (
        "phone",
        r"(?:\b(?:so|dien) (?:dien )?thoai\b|\bso dt\b|\bs\.?d\.?t\b|\bsdt|\bdt\b|\b(?:so )?zalo\b|\bhotline\b"
        r"|\bviber\b|\bphone(?: number)?\b|\btel\b|\bcall me\b)",
        7,
        11,
    ),
    (
        "bank_account",
        r"\b(?:so tai khoan|stk|so tk|tai khoan(?: ngan hang)?|bank account|account number|so the(?: atm)?)\b",
        5,
        18,
    ),
    ("student_code", r"\b(?:ma (?:so )?(?:hoc sinh|hs)|so bao danh|sbd|mshs|student id)\b", 3, 13),
    ("document", r"\b(?:bhyt|bao hiem y te|bhxh|bao hiem xa hoi|ho chieu|passport)\b", 6, 14),
)
_CUED = tuple(
    (kind, re.compile(cue + _LINK + r"(?P<letters>\b[a-z]{1,4}(?=\d))?" + _NUMBER % (low, high)))
    for kind, cue, low, high in _CUES
)
_MONEY_WORDS = re.compile(r"\b(?:co|con|du|rut|gui|nap|lai|so du|chuyen|gom)\b")
_UNIT = re.compile(
    r"\s*(?:dong|vnd|usd|%|km|cm|mm|dm|ha|kg|tan|ta|yen|lit|ml|nguoi|con|cai|tuoi|giay|phut|gio|hat|qua|trieu|ti|ty"
    r"|nghin"
    r"|m\d?|g|chu so|don vi|nam anh sang|hoc sinh|be|to|mau)\b"
)
_OPERATOR_AFTER = re.compile(r"\s*(?:[:+×*/^=÷<>]|[x\-] )\s*[\d(]")
_OPERATOR_BEFORE = re.compile(r"[\d)]\s*[+×*/^÷=]\s*$|\d[.,]$|[.,^]$")
# A row of numbers to be sorted or counted, not one number.
_SERIES = re.compile(r"\b(?:day|cac so|chu so|sap xep|mau so lieu|so lieu|isbn|cac ngay|tap hop|ma vach|thu tu)\b")


def find_numbers(typed: TypedText) -> Iterator[tuple[str, int, int]]:
    """Yields ``(kind, start, end)`` in ``typed.text``, numbers with a telling word first; they may overlap."""
    plain = typed.folded
    for kind, pattern in _CUED:
        for match in pattern.finditer(plain):
            if not _is_amount(kind, plain, match):
                yield kind, match.start("letters" if match["letters"] else "number"), match.end()
    for match in _SPOKEN.finditer(plain):
        yield "phone", *match.span()
    for match in _CARD.finditer(plain):
        if _is_card(re.sub(r"\D", "", match.group())) and _is_grouped(match.group()) and _stands_alone(plain, match):
            yield "identity_card", *match.span()
    for pattern in (_MOBILE, _LANDLINE):
        for match in pattern.finditer(plain):
            if _is_phone(plain, match):
                yield "phone", *match.span()


def _is_amount(kind: str, plain: str, match: re.Match[str]) -> bool:
    if _UNIT.match(plain, match.end()) or re.fullmatch(r"\d{1,2}\.\d{4,}", match["number"]):
        return True
    gap = plain[match.start() : match.start("number")]
    if kind == "bank_account" and _MONEY_WORDS.search(gap):
        return True
    # "SBD 12 và 15", "SĐT gồm 10 chữ số": letters belong to codes only.
    return bool(match["letters"]) and kind in ("phone", "bank_account", "identity_card")


def _is_card(digits: str) -> bool:
    """Whether twelve digits can be a card of somebody who lives."""
    century, year = digits[3], int(digits[4:6])
    is_year = year >= 30 if century in "01" else year <= 40
    return digits[:3] in _PROVINCES and century in "0123" and is_year


def _is_grouped(written: str) -> bool:
    """Whether a number is written as people write theirs: whole, in even groups, or digit by digit."""
    groups = [len(group) for group in re.findall(r"\d+", written)]
    signs = set(re.findall(r"[^\d]", written))
    return len(signs) <= 1 and len(set(groups)) <= 2 and (len(groups) <= 5 or set(groups) == {1})


def _stands_alone(plain: str, match: re.Match[str]) -> bool:
    before = re.split(r"[!?;\n]|\. ", plain[max(0, match.start() - 40) : match.start()])[-1]
    if _OPERATOR_BEFORE.search(before) or _OPERATOR_AFTER.match(plain, match.end()) or _UNIT.match(plain, match.end()):
        return False
    groups = re.findall(r"\d+", match.group())
    if len(groups) > 1:
        is_row = len(groups[0]) <= 3 and (
            re.search(r"\d[ \-]$", before) is not None or re.match(r"[ \-]\d{1,3}\b", plain[match.end() :]) is not None
        )
        return not is_row and not _SERIES.search(before)
    return not re.search(r"\bisbn\b", before)


def _is_phone(plain: str, match: re.Match[str]) -> bool:
    written, head = match.group(), match["head"]
    digits = re.sub(r"\D", "", written)
    if match.re is _LANDLINE and len(digits.removeprefix("84").removeprefix("0")) != 10:
        return False
    signs = {sign.strip() for sign in re.findall(r"[ .\-]+", written)}
    if "." in signs and len(signs) > 1:
        return False
    groups = re.findall(r"\d+", written)
    is_spelt = all(len(group) == 1 for group in groups)
    if head == "0" and groups[0] == "0" and not is_spelt and (signs - {""} or len(groups) > 4 or len(groups) == 2):
        return False  # 0.912345678; ISBN 0-306-40615-2
    if not is_spelt and len(groups) > 6:
        return False
    if head == "84" and len(groups) > 1 and all(len(group) == 3 for group in groups[1:]):
        return False  # 84 912 345 678 is an amount as well
    return _stands_alone(plain, match)
