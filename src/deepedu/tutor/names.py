"""Proper names in Vietnamese prose: which words are one, and whether a text holds them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from deepedu.tutor.quantities import roman_value
from deepedu.tutor.terms import Token, weight, word_set

# Words that open a sentence, or stand before a name as a title, and are capitalised without being part of it.
_OPENERS = word_set(
    "và của các là có trong một được năm với cho đã những từ sự này ra về vào như số khi để đó tại trên theo sau "
    "trước bị nhiều ngày ông bà tháng cũng làm hiện nhân việc bộ do chỉ cách hai ba bốn sáu bảy tám chín mười hơn "
    "còn bằng tuy nhưng hình phải cả thì mà cùng loại kết nó gọi họ con hay tới qua gồm khoảng rằng phía nhận an "
    "vì thứ vua chúa tiếp ngoài chúng đi mới sẽ nên tên rất giữa nhau đây hoặc bởi đều bên cầu gần dưới nơi cuối "
    "đầu ta thêm nào nếu vậy mỗi cái nhằm rồi em anh chị cô thầy tôi bạn hãy đúng không chưa sông núi biển hồ đảo "
    "tỉnh thành phố nước thủ đô huyện quận xã làng vùng miền người dân quân đội nhà trận chiến thắng cuộc khởi "
    "nghĩa vương triều thời đời hoàng đế tướng bác sĩ tiến giáo sư chủ tịch tổng thống đồng thủy khí đất đá gió "
    "mưa bài chương hồi lần đợt nhờ dù mặc tất cả đến lúc thế kỉ kỷ đại cụ dòng đèo cao nguyên châu lục địa kinh "
    "tế văn hóa lịch sử xã hội công theo dựa câu trả lời đáp án thông tin đoạn sách giáo khoa ví dụ khác vai trò "
    "nguyên nhân kết quả mục tiêu đặc điểm"
)
_SENTENCE_START = re.compile(r"(?:^|[.!?…:;]\s|\n)\s*[\"'“‘«(\[–—•*-]*\s*$")
# Words whose capital only follows a number or an order.
_NUMBER_NAMES = word_set("một hai ba bốn tư năm sáu bảy tám chín mười giêng chạp")


@dataclass(frozen=True)
class Name:
    """A proper name as it stands in ``text[start:end]``; ``words`` are in one spelling, lower case."""

    surface: str
    start: int
    end: int
    words: tuple[str, ...]
    opens_sentence: bool


@dataclass(frozen=True)
class Lexicon:
    """What a text says, as far as names need it: its words in order, and which of them stand capitalised or small."""

    words: str = " "
    folded: str = " "
    capitalised: frozenset[str] = frozenset()
    inner_capitalised: frozenset[str] = frozenset()
    small: frozenset[str] = frozenset()
    surfaces: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(cls, parts: Sequence[tuple[str, Sequence[Token]]]) -> "Lexicon":
        """Reads ``(text, its tokens)`` pairs; names never run from one pair into the next."""
        inner = {
            token.word
            for text, listed in parts
            for token in listed
            if token.is_capitalised and not _starts_sentence(text, token.start)
        }
        listed_all = [token for _, listed in parts for token in listed]
        return cls(
            words=" " + " | ".join(" ".join(t.word for t in listed) for _, listed in parts) + " ",
            folded=" " + " | ".join(" ".join(t.folded for t in listed) for _, listed in parts) + " ",
            capitalised=frozenset(t.word for t in listed_all if t.is_capitalised),
            inner_capitalised=frozenset(inner),
            small=frozenset(t.word for t in listed_all if not t.is_capitalised),
            surfaces=frozenset(t.surface for t in listed_all),
        )

    def holds(self, words: Sequence[str]) -> bool:
        """Whether these words stand in this order, side by side."""
        return f" {' '.join(words)} " in self.words


def names(text: str, listed: Sequence[Token], known: Lexicon) -> list[Name]:
    """Proper names of ``text``.

    A common word that only opens a sentence is none, unless ``known`` (the evidence and the question) writes it with
    a capital inside a sentence.

    Args:
        listed: ``tokens(text)``.
    """
    found: list[Name] = []
    run: list[Token] = []
    for token in listed:
        is_joined = bool(run) and _joins(run[-1], text[run[-1].end : token.start])
        if _may_be_name(token) and (is_joined or not run):
            run.append(token)
            continue
        found.extend(_name_of(text, run, known))
        run = [token] if _may_be_name(token) else []
    found.extend(_name_of(text, run, known))
    return found


def bears_name(evidence: Lexicon, name: Name, *, is_plain: bool = False) -> bool:
    """Whether ``evidence`` holds ``name`` with its accents.

    Args:
        is_plain: the whole sentence was typed without accents, so the name is compared without them too.
    """
    if is_plain:
        return f" {' '.join(name.words)} " in evidence.folded
    if len(name.words) == 1:
        word = name.words[0]
        return word in evidence.capitalised or name.surface in evidence.surfaces
    if evidence.holds(name.words):
        return True
    # "Vua Lý Thái Tổ": a title is written with a capital but is not part of the name.
    title, rest = name.words[0], name.words[1:]
    if title in _OPENERS and (len(rest) > 1 or rest[0] in evidence.capitalised) and evidence.holds(rest):
        return True
    return any(
        evidence.holds(name.words[:cut]) and evidence.holds(name.words[cut:]) for cut in range(2, len(name.words) - 1)
    )


def _may_be_name(token: Token) -> bool:
    if token.is_capitalised:
        return True
    # H2O, pH, 4G: mixed spellings are names of things.
    surface = token.surface
    return not surface.isdecimal() and any(c.isdecimal() for c in surface) and any(c.isupper() for c in surface[1:])


def _joins(before: Token, gap: str) -> bool:
    if gap in (". ", "."):
        return len(before.surface) == 1
    return gap in (" ", "-", "\u00a0", "\n")


def _starts_sentence(text: str, start: int) -> bool:
    return _SENTENCE_START.search(text[max(0, start - 12) : start]) is not None if start else True


def _name_of(text: str, run: Sequence[Token], known: Lexicon) -> list[Name]:
    """The name that a run of capitalised words makes, if any."""
    listed = list(run)
    while listed and _is_numeral(text, listed[-1], len(listed)):
        listed.pop()
    if not listed:
        return []
    first = listed[0]
    opens = _starts_sentence(text, first.start)
    if len(listed) == 1:
        is_common = first.word in _OPENERS and first.word not in known.inner_capitalised
        if opens and (is_common or not _is_known_name(first, known)):
            return []
        if is_common and first.word not in known.capitalised:
            # "Nhà nước", "Vua": a common word that the writer honours with a capital.
            return []
    surface = text[first.start : listed[-1].end]
    return [Name(surface, first.start, listed[-1].end, tuple(t.word for t in listed), opens)]


def _is_known_name(token: Token, known: Lexicon) -> bool:
    if token.word in known.inner_capitalised:
        return token.word not in known.small
    # Foreign names and formulas do not look like Vietnamese syllables; a rare word that the book never writes small
    # may well be a name.
    return _looks_foreign(token.surface) or (weight(token.word) >= 1 and token.word not in known.small)


_VIETNAMESE = re.compile(
    r"(?:ngh?|[ckpt]h|g[hi]|nh|tr|qu|[bcdđghklmnpqrstvx])?"
    r"[aăâeêioôơuưyàáảãạằắẳẵặầấẩẫậèéẻẽẹềếểễệìíỉĩịòóỏõọồốổỗộờớởỡợùúủũụừứửữựỳýỷỹỵ]{1,3}(?:ch|ng|nh|[cmnpt])?"
)


def _looks_foreign(surface: str) -> bool:
    lowered = surface.lower()
    if len(surface) > 1 and surface.isupper():
        return True
    return _VIETNAMESE.fullmatch(lowered) is None


def _is_numeral(text: str, token: Token, run_length: int) -> bool:
    """Whether the last word of a run is a Roman numeral or the name of a month, which are compared as numbers."""
    before = text[max(0, token.start - 12) : token.start].lower()
    if token.word in _NUMBER_NAMES and re.search(r"(?:tháng|thứ) $", before):
        return True
    is_ordinal = re.search(r"(?:thế k[ỉỷ]|thứ|\d[–, -]{1,3}|[ivxl][–, -]{1,3})\s?$", before) is not None
    return run_length == 1 and is_ordinal and token.surface.isupper() and roman_value(token.surface) is not None
