"""Proper names in Vietnamese prose: which words are one, and whether a text holds them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from deepedu.tutor.quantities import roman_value
from deepedu.tutor.terms import Token, weight, word_set

# Words that open a sentence, or stand before a name as a title, and are capitalised without being part of it.
_OPENERS = word_set(
    "và của các là có trong một được năm với cho đã những từ sự này ra về vào như số khi để đó tại trên theo sau "
    "trước bị nhiều ngày ông bà tháng cũng làm hiện nhân việc bộ do chỉ cách hai ba bốn sáu bảy tám chín mười hơn "
    "còn bằng tuy nhưng phải cả thì mà cùng loại kết nó gọi họ con hay tới qua gồm khoảng rằng phía nhận vì thứ "
    "vua chúa tiếp ngoài chúng đi mới sẽ nên tên rất giữa nhau đây hoặc bởi đều bên cầu gần dưới nơi cuối đầu ta "
    "thêm nào nếu vậy mỗi cái nhằm rồi em chị cô thầy tôi bạn hãy đúng không chưa sông núi biển đảo tỉnh nước thủ "
    "đô huyện quận xã làng vùng miền người đội nhà trận chiến thắng cuộc khởi nghĩa triều thời đời đế tướng bác "
    "sĩ giáo sư chủ tịch tổng thống đồng khí đất đá gió mưa bài hồi lần đợt nhờ dù mặc tất đến lúc kỉ kỷ cụ dòng "
    "đèo địa tế hội dựa câu trả lời đáp án thông tin đoạn sách khoa ví dụ khác vai trò quả mục tiêu đặc điểm"
)
# Written with a capital or without, they say the same.
_DIRECTIONS = word_set("đông tây nam bắc trung")
_SENTENCE_START = re.compile(r"(?:^|[.!?…:;]\s|\n)\s*[\"'“‘«(\[–—•*-]*\s*$")
# Words whose capital only follows a number or an order.
_NUMBER_NAMES = word_set("một hai ba bốn tư năm sáu bảy tám chín mười giêng chạp")


@dataclass(frozen=True)
class Name:
    """A proper name as it stands in ``text[start:end]``; ``words`` are in one spelling, lower case.

    ``following`` is the word after it when nothing but a space lies between.
    """

    surface: str
    start: int
    end: int
    words: tuple[str, ...]
    opens_sentence: bool
    following: str = ""

    @property
    def core(self) -> tuple[str, ...]:
        """Its words without a title or opening word that only happens to be capitalised."""
        return self.words[1:] if len(self.words) > 2 and self.words[0] in _OPENERS else self.words


@dataclass(frozen=True)
class Lexicon:
    """What a text says, as far as names need it.

    ``words`` and ``folded`` are its words in order, parted by spaces. ``names`` are words with a capital that does not
    come from opening a sentence, ``alone`` those of them without another capital beside, ``small`` words without one.
    """

    words: str = " "
    folded: str = " "
    names: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()
    small: frozenset[str] = frozenset()

    @classmethod
    def of(cls, parts: Sequence[tuple[str, Sequence[Token]]]) -> "Lexicon":
        """Reads ``(text, its tokens)`` pairs; names never run from one pair into the next."""
        small = frozenset(t.word for _, listed in parts for t in listed if not t.may_be_name)
        named: set[str] = set()
        alone: set[str] = set()
        for text, listed in parts:
            for run in _runs(text, listed):
                opens = _starts_sentence(text, run[0].start)
                # The first word of a sentence is a name when more of it follows, or when it can be nothing else.
                is_word = opens and len(run) == 1 and not _is_rare(run[0], small)
                if not is_word:
                    named.update(t.word for t in run)
                if len(run) == 1 and not is_word:
                    alone.add(run[0].word)
        return cls(
            words=" " + " | ".join(" ".join(t.word for t in listed) for _, listed in parts) + " ",
            folded=" " + " | ".join(" ".join(t.folded for t in listed) for _, listed in parts) + " ",
            names=frozenset(named),
            alone=frozenset(alone),
            small=small,
        )

    def holds(self, words: Sequence[str]) -> bool:
        """Whether these words stand in this order, side by side."""
        return f" {' '.join(words)} " in self.words

    def holds_name(self, words: Sequence[str]) -> bool:
        """Whether these words stand there as a whole name or the greater part of one."""
        return words[0] in self.alone if len(words) == 1 else self.holds(words)


def names(text: str, listed: Sequence[Token], known: Lexicon) -> list[Name]:
    """Proper names of ``text``.

    A common word that only opens a sentence is none, unless ``known`` (the evidence and the question) writes it with
    a capital inside a sentence.

    Args:
        listed: ``tokens(text)``.
    """
    after = {one.start: two for one, two in pairwise(listed)}
    found: list[Name] = []
    for run in _runs(text, listed):
        name = _name_of(text, run, known)
        if name is not None:
            token = after.get(run[-1].start)
            is_next = token is not None and text[run[-1].end : token.start] == " "
            found.append(replace(name, following=token.word if token is not None and is_next else ""))
    return found


def _runs(text: str, listed: Sequence[Token]) -> list[list[Token]]:
    """Stretches of neighbouring words with capitals."""
    runs: list[list[Token]] = []
    last: Token | None = None
    for token in listed:
        if token.may_be_name:
            if last is not None and _joins(last, text[last.end : token.start]):
                runs[-1].append(token)
            else:
                runs.append([token])
            last = token
        else:
            last = None
    return runs


def bears_name(evidence: Lexicon, name: Name, *, is_plain: bool = False) -> bool:
    """Whether ``evidence`` holds ``name`` with its accents.

    Args:
        is_plain: the whole sentence was typed without accents, so the name is compared without them too.
    """
    if is_plain:
        return f" {' '.join(name.words)} " in evidence.folded
    if len(name.words) == 1:
        word = name.words[0]
        if word in evidence.names or (word in _DIRECTIONS and word in evidence.small):
            return True
        # "Bá tước" for "bá tước": a common word that only the writer honours with a capital.
        return bool(name.following) and evidence.holds((word, name.following))
    if evidence.holds(name.words):
        return True
    # "Vua Lý Thái Tổ": a title is written with a capital but is not part of the name.
    title, rest = name.words[0], name.words[1:]
    is_word = len(rest) == 1 and bool(name.following) and evidence.holds((*rest, name.following))
    if title in _OPENERS and (is_word or evidence.holds_name(rest)):
        return True
    # "châu Âu James Cook": two names side by side.
    return any(
        evidence.holds_name(name.words[:cut]) and evidence.holds_name(name.words[cut:])
        for cut in range(1, len(name.words))
        if len(name.words) > 2
    )


def _joins(before: Token, gap: str) -> bool:
    if gap in (". ", "."):
        return len(before.surface) == 1
    return gap in (" ", "-", "\u00a0", "\n")


def _starts_sentence(text: str, start: int) -> bool:
    return _SENTENCE_START.search(text[max(0, start - 12) : start]) is not None if start else True


def _name_of(text: str, run: Sequence[Token], known: Lexicon) -> Name | None:
    """The name that a run of capitalised words makes, if any."""
    listed = list(run)
    while listed and _is_numeral(text, listed[-1], len(listed)):
        listed.pop()
    if not listed:
        return None
    first = listed[0]
    opens = _starts_sentence(text, first.start)
    if len(listed) == 1:
        # "Nhà nước", "Vua": a common word that opens the sentence, or that the writer honours with a capital.
        is_common = first.word in _OPENERS and first.word not in known.names
        if is_common or (opens and not _is_known_name(first, known)):
            return None
    surface = text[first.start : listed[-1].end]
    return Name(surface, first.start, listed[-1].end, tuple(t.word for t in listed), opens)


def _is_known_name(token: Token, known: Lexicon) -> bool:
    return _looks_foreign(token.surface) or (token.word in known.names and token.word not in known.small)


def _is_rare(token: Token, small: frozenset[str]) -> bool:
    """Whether a word is too rare to be capitalised for opening a sentence only."""
    if _looks_foreign(token.surface):
        return True
    return weight(token.word) >= 1 and token.word not in small and token.word not in _OPENERS


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
