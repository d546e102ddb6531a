"""Vietnamese text as every layer sees it: composed, with known offsets, comparable however it was typed.

Lives in ``base`` because readers, search and grounding must agree on it to the letter.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class OffsetMap:
    """Maps offsets in normalised text back to the text it was made from.

    ``breaks`` holds ``(normalised_offset, source_offset)`` pairs, ascending, one at every place where the distance
    between the two changes; the first is ``(0, 0)``. An offset inside a stretch moves with its stretch.
    """

    breaks: tuple[tuple[int, int], ...] = ((0, 0),)

    def to_source(self, offset: int) -> int:
        """Source offset of normalised ``offset`` (characters)."""
        index = bisect_right(self.breaks, offset, key=lambda pair: pair[0]) - 1
        normalised, source = self.breaks[index]
        return source + offset - normalised


# A base character with the marks that follow it composes as a unit; text between such clusters is already composed.
_CLUSTER = re.compile(r"[^\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff][\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff]+")


def compose(text: str) -> tuple[str, OffsetMap]:
    """Unicode NFC, with the way back.

    Returns:
        The composed text and the map from its offsets to those of ``text``.
    """
    if unicodedata.is_normalized("NFC", text):
        return text, OffsetMap()
    parts: list[str] = []
    breaks = [(0, 0)]
    done = length = 0

    def emit(piece: str, source_end: int) -> None:
        nonlocal done, length
        parts.append(piece)
        length += len(piece)
        done = source_end
        normalised, source = breaks[-1]
        if done - length != source - normalised:
            breaks.append((length, done))

    for match in _CLUSTER.finditer(text):
        if match.start() > done:
            _emit_plain(text[done : match.start()], done, emit)
        emit(unicodedata.normalize("NFC", match.group()), match.end())
    if done < len(text):
        _emit_plain(text[done:], done, emit)
    return "".join(parts), OffsetMap(tuple(breaks))


def _emit_plain(piece: str, start: int, emit: Callable[[str, int], None]) -> None:
    if unicodedata.is_normalized("NFC", piece):
        emit(piece, start + len(piece))
        return
    # Rare: characters whose composed form differs without any mark after them (an Angstrom sign, Hangul letters).
    for index, character in enumerate(piece):
        emit(unicodedata.normalize("NFC", character), start + index + 1)


_D = str.maketrans({"đ": "d", "Đ": "D"})


def _folded(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text.translate(_D).lower())
    return "".join(c for c in decomposed if not unicodedata.combining(c))


# The letters of Vietnamese and of its neighbours in Unicode, all of one character folded.
_FOLDED = {code: _folded(chr(code)) for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))}


def fold(text: str) -> str:
    """Lower case without accents; đ becomes d. Same length as NFC input for Vietnamese text."""
    # Grounding folds every word it meets; letter by letter through the Unicode tables is ten times as slow.
    plain = text.lower() if text.isascii() else text.translate(_FOLDED).lower()
    return plain if plain.isascii() else _folded(text)


# The tone mark of oa, oe, uy stands on the first vowel in old spelling (hòa) and on the second in new (hoà);
# with a final consonant (hoàn) both agree. Everything is brought to the old place, the one textbooks use.
_TONES = "\u0300\u0301\u0303\u0309\u0323"


def canonical_tone(syllable: str) -> str:
    """One spelling for syllables whose tone mark has an old and a new place: hoà -> hòa, thuý -> thúy.

    Args:
        syllable: one lower-case NFC syllable; anything else is returned unchanged.
    """
    if len(syllable) < 2 or syllable[-2:] not in _NEW_PLACES:
        return syllable
    # In "quý" the u belongs to the consonant qu, so the mark has one place only.
    if syllable[-2] == "u" and syllable[:-2] == "q":
        return syllable
    return syllable[:-2] + _NEW_PLACES[syllable[-2:]]


_NEW_PLACES = {
    unicodedata.normalize("NFC", pair[0] + pair[1] + tone): unicodedata.normalize("NFC", pair[0] + tone + pair[1])
    for pair in ("oa", "oe", "uy")
    for tone in _TONES
}

_WORD = re.compile(r"[^\W_]+", re.UNICODE)


def words(text: str) -> list[str]:
    """Lower-case words (Vietnamese: syllables; numbers whole) in one spelling: NFC, canonical tone place."""
    lowered = unicodedata.normalize("NFC", text).lower()
    return [canonical_tone(word) for word in _WORD.findall(lowered)]


# Qwen-style byte-pair vocabularies spend 0.30 tokens on a character of Vietnamese prose (median of 30 encyclopaedia
# articles, the worst of them 0.345); one token per 2.8 characters errs on the safe side.
CHARACTERS_PER_TOKEN = 2.8


def estimate_tokens(text: str) -> int:
    """Upper estimate of a text's tokens, without any model's tokenizer. The model's server has the last word."""
    return int(len(text) / CHARACTERS_PER_TOKEN) + 1


# --- Sentences -------------------------------------------------------------------------------------------------------


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ABBREVIATIONS = _listed(
    "tp ts ths gs pgs bs ks pts nxb tr vd th ph cty tt qđ nđ ubnd hđnd mr mrs ms dr st prof no vs jr sr ngnd ngưt nsnd "
    "nsưt đc đt sđt fig vol pp eds"
)
# After these a single capital names a thing ("vitamin A.", "đi đến B."), elsewhere it begins a name ("A. Einstein").
_LABELLED = _listed(
    "vitamin điểm đỉnh nhóm lớp câu hình loại khối phòng hợp bảng án chất cạnh đến tới tại về đoạn trục lực pha nguồn "
    "cực vật xe tàu máu gen alen kiểu hệ dãy vùng cột ô ý mục phần đội bên nhà bình ống mạch kì tia mặt"
)
# No family name begins with these, so a capital before them was no initial ("gồm Li, Na, K. Chúng").
_OPENERS = _listed(
    "chúng nó khí hỏi tính vẽ khi sau trước nếu đây đó các những một trong trên dưới từ với vì do tuy nhưng theo "
    "ở ông bà để hãy cho biết gọi chứng giải tìm ngoài nhờ vậy như mỗi tại hình bảng bài nhà người đến đặc đa hầu "
    "phần chất đối cả chỉ có không được đã sẽ cũng còn ngày năm tháng ví xét lấy kẻ ta em tên"
)
_INITIAL = frozenset("ABCDĐEFGHIJKLMNOPQRSTUVWXYZ")
_MARKER_ONLY = re.compile(
    r"[\W_]*(?:(?:bài|bài tập|bài toán|chương|chủ đề|chuyên đề|hình|bảng|câu|câu hỏi|phần|mục|tiết|điều|khoản|ví dụ|"
    r"định lí|định lý|hệ quả|bổ đề|sơ đồ|biểu đồ|lược đồ|bước|hoạt động|tập|quyển|chú thích|nhận xét|bài đọc)\s*)?"
    r"(?:\d{1,3}(?:\.\d+)*|[ivxlc]{1,6}|[a-zđ])[.):]?",
    re.IGNORECASE,
)
_END = re.compile(
    r"(?:[.!?…]+|[。！？])(?:[\"'”’»›)\]}]|\[\d{1,3}\]|[¹²³⁰⁴-⁹]){0,8}(?=\s|$)|(?<=[^\W\d_]{2})[.?!](?=[^\W\d_]{2})"
)
_LAST_TOKEN = re.compile(r"[^\s(\[{\"'“‘«–—/-]+$")
_BULLET = re.compile(r"\s*(?:[•▪◦●○■□◆►✓✔➢·*+]|[-–—](?=\s))\s*\S")
_NUMBERED = re.compile(r"\s*(?:\d{1,2}(?:\.\d{1,2})*[.)]|[IVX]{1,5}[.)])\s+\S")
_LETTERED = re.compile(r"\s*[a-zđA-ZĐ]\)\s+\S")
_TITLED = re.compile(
    r"\s*(?:chương|bài|chủ\s+đề|chuyên\s+đề|phần|tiết|mục)\s+(?:\d{1,3}|[IVXLC]{1,6})(?:\s*$|\s*[.:–-]|\s+(?=[A-ZÀ-ỸĐ]))"
    r"|\s*§\s*\d|\s*(?:CHƯƠNG|BÀI|CHỦ ĐỀ|PHẦN)\s",
    re.IGNORECASE,
)
# Dots that lead to a page number in a table of contents.
_LEADER = re.compile(r"(?:\.{4,}|…{2,}|(?:\s\.){4,})\s*\d{1,4}\s*$")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Where the sentences of a Vietnamese text stand.

    A blank line ends a sentence; a single line break does so only next to a heading, a list item or a table row
    (cells parted by `` | `` or tabs), otherwise it is a space.

    Args:
        text: NFC text.

    Returns:
        ``(start, end)`` of each sentence, in order, without surrounding white space. Together they hold every
        character of ``text`` that is not white space.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for gap in _BLANK_LINE.finditer(text):
        _block_spans(text, start, gap.start(), spans)
        start = gap.end()
    _block_spans(text, start, len(text), spans)
    return spans


def is_table_row(line: str) -> bool:
    """Whether a line shows cells: parted by `` | `` or by tabs."""
    return " | " in line or line.strip().startswith("|") or "\t" in line.strip()


def _block_spans(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> None:
    lines: list[tuple[int, int]] = []
    position = start
    while position < end:
        stop = text.find("\n", position, end)
        stop = end if stop < 0 else stop
        if text[position:stop].strip():
            lines.append((position, stop))
        position = stop + 1
    widest = max((stop - begin for begin, stop in lines), default=0)
    unit_start: int | None = None
    for index, (begin, stop) in enumerate(lines):
        unit_start = begin if unit_start is None else unit_start
        is_last = index + 1 == len(lines)
        if is_last or _line_ends(text[begin:stop], text[lines[index + 1][0] : lines[index + 1][1]], widest):
            _unit_spans(text, unit_start, stop, spans)
            unit_start = None


def _line_ends(line: str, following: str, widest: int) -> bool:
    """Whether a line break is more than a wrapped line."""
    if is_table_row(line) or is_table_row(following) or _LEADER.search(line):
        return True
    if _BULLET.match(following) or _LETTERED.match(following):
        return True
    stripped, ahead = line.strip(), following.strip()
    is_closed = stripped[-1] in '.!?…:;”"»)'
    if _NUMBERED.match(following) and (is_closed or _NUMBERED.match(line) or len(stripped) < 0.6 * widest):
        return True
    # A wrapped line goes on in lower case; one that stops early before a capital was a heading.
    if ahead[0].islower() or stripped[-1] in ",;-–(":
        return False
    if _TITLED.match(line) and len(stripped) < 100:
        return not (stripped.isupper() and ahead.isupper())
    if _TITLED.match(following) and len(ahead) < 100:
        return is_closed or len(stripped) < 0.8 * widest
    is_shout = stripped.isupper() and len(stripped) > 3
    if is_shout != (ahead.isupper() and len(ahead) > 3):
        return is_shout or is_closed
    return len(stripped) < 0.6 * widest and not is_closed and stripped[0].isupper() and ahead[0].isupper()


def _unit_spans(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> None:
    begin = start
    for match in _END.finditer(text, start, end):
        if _is_sentence_end(text, begin, match.start(), match.end(), end):
            _append_trimmed(text, begin, match.end(), spans)
            begin = match.end()
    _append_trimmed(text, begin, end, spans)


def _append_trimmed(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> None:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if end > start:
        spans.append((start, end))


def _is_sentence_end(text: str, begin: int, mark: int, after: int, limit: int) -> bool:
    ahead = text[after:limit].lstrip()[:24]
    if not ahead:
        return True
    sign, following = text[mark], ahead[0]
    if following in ",;:)]}”»":
        return False
    if following.islower() and ahead[1:2] != ")" and not any(c.isupper() for c in ahead.split()[0][1:3]):
        return False  # "..., v.v. và", "hả?" ông hỏi; but pH and mARN may begin a sentence.
    if sign != ".":
        return not (sign == "…" and following.isdigit())
    if text.startswith("..", mark):
        return not following.isdigit()  # Dots that lead to a page number.
    if _MARKER_ONLY.fullmatch(text[begin : mark + 1].strip()):
        return False
    found = _LAST_TOKEN.search(text, max(begin, mark - 24), mark)
    token = found.group() if found else ""
    glued = after == mark + 1 and not text[after].isspace()
    if glued and not (following.isupper() and token[-1].islower() and ahead[1].islower()):
        return False
    if token.isdigit() and len(token) <= 2 and following.isdigit():
        return False  # 2. 9. 1945
    return not _is_abbreviation(text, begin, mark - len(token), token, ahead)


def _is_abbreviation(text: str, begin: int, token_start: int, token: str, ahead: str) -> bool:
    if token.lower() == "v.v":
        return False
    pieces = token.split(".")
    if pieces[-1].lower() in _ABBREVIATIONS:
        # "Tr", "No", "St" only as printed in references: a word of the same letters ends sentences.
        return len(pieces) > 1 or pieces[-1][0].isupper() or pieces[-1] in ("tr", "vd", "vs", "ths")
    if pieces[-1] not in _INITIAL:
        return False
    if len(pieces) > 1:
        return not any(piece.isdigit() for piece in pieces)  # V.I. Lenin, U.S. Army
    if ahead[0].isdigit():
        return True  # H. 2
    before = text[begin:token_start].split()
    if not before:
        return True
    if not ahead[0].isupper() or ahead.split()[0].strip(",:").lower() in _OPENERS:
        return False
    if before[-1].lower() in ("và", "hoặc", "với", "hay", "là", "=") and len(before) > 1:
        before.pop()
    last = before[-1].strip('(,.;“"')
    is_symbol = len(last) == 1 and last.isupper()
    return last.lower() not in _LABELLED and not is_symbol
