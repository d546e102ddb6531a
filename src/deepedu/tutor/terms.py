"""Words of a sentence with their place, and how much each one tells."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from deepedu.base.vietnamese import canonical_tone, fold


def _listed(text: str) -> list[str]:
    return text.split()


def word_set(text: str) -> frozenset[str]:
    """The words of ``text``, parted by spaces: a set of words that reads like one."""
    return frozenset(_listed(text))


# The commonest syllables of school texts, commonest first: the further down, the more one of them tells.
_COMMON = _listed(
    "và của các là có trong một được năm với nam người thành cho đã quốc những việt không từ sự chính này quân ra "
    "thể nước về vào dân như số công nhà đến khi đại để học trung pháp đó tại định trên thời theo sau thế quan bị "
    "nhiều đầu ngày gia ông tháng lại hội cũng chiến nhất đồng động làm chủ hóa hiện nhân liên việc bộ độ do sử "
    "lý lí nguyên chỉ văn khác minh lượng quyền cách lập kỳ kì phát tế hai lớn hơn còn đất bằng thực mặt vật tự "
    "tây cơ đông thống lực hình bắc trường bản phải hành tính sinh cao nhưng tỉnh hợp giới hòa địa dụng thuộc "
    "cộng cuộc kinh bình hệ phần cả trị sản phân đối thì mà cùng chất loại vùng tổng kết nó nghĩa gọi thái thường "
    "họ xuất xã thông tranh đánh con phủ điều trước tạo hay tới đường qua gồm hoa giáo khu khoảng nhiên phương tử "
    "rằng phố đảo phía chức vị nhận trình lên toàn tổ an vì thứ nội tiến điện vua tiên hàng tiếp ngoài chúng đổi "
    "lịch đi cử điểm khí mới trở sẽ thị nên giải tên miền rất năng biển giữa nhau chế đạo tác tiếng bắt đề đây "
    "trọng sông sách đình nay tích hoặc tăng tương triển cấp đặc ứng tuy viên thanh giá bởi biệt biến nghiệp tiêu "
    "lần vẫn tham kỷ kỉ sống truyền đều dùng vụ bên thay cần yếu gần quyết biểu thấy dưới quá thiên dạng nơi đời "
    "cuối ta thêm nói đang nào nếu vậy mỗi mất cái nhằm rồi em rõ ngay gì sao ai đâu bao nhiêu mấy hãy bạn tôi "
    "mình thế à ạ nhé vâng"
)
# Question words and particles say nothing about the subject, however rare they are in books.
_EMPTY = word_set(
    "gì sao ai đâu bao nhiêu mấy hãy bạn tôi mình à ạ nhé vâng nào thế và của các là có trong được với cho đã "
    "những từ này vào như đến khi để đó tại trên theo bị lại cũng thì mà rằng sẽ đang vậy rồi ra về do bởi vì nên "
    "một cái kể xin hỏi biết hay cả ở y ư"
)
_EMPTY_WEIGHT = 0.05


def _weights() -> dict[str, float]:
    scale = math.log1p(len(_COMMON) / 10)
    ranked = {word: max(0.15, math.log1p(rank / 10) / scale) for rank, word in enumerate(_COMMON)}
    return {**ranked, **dict.fromkeys(_EMPTY, _EMPTY_WEIGHT)}


_WEIGHTS = _weights()
_FOLDED_WEIGHTS: dict[str, float] = {}
for _word, _weight in _WEIGHTS.items():
    _key = fold(_word)
    _FOLDED_WEIGHTS[_key] = min(_weight, _FOLDED_WEIGHTS.get(_key, 1.0))

# What an exercise opens with: it tells the pupil to do something and says nothing of the world.
_TASK = re.compile(
    r"(?:\d{1,2}[.)]\s*|[a-e][.)]\s*)?(?:(?:các )?em |bạn )?"
    r"(?:hãy|nêu|kể tên|giải thích|so sánh|trình bày|thảo luận|tính (?!chất|từ|toán|cách|năng)|cho biết)\b"
    r"|.{3,60}[,.] (?:em )?hãy ",
    re.IGNORECASE,
)

_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


@dataclass(frozen=True)
class Token:
    """One word (Vietnamese: syllable) of a text.

    ``word`` is lower case in one spelling, ``folded`` has no accents, ``surface`` is as written; the token is
    ``text[start:end]``.
    """

    word: str
    folded: str
    surface: str
    start: int
    end: int

    @property
    def is_capitalised(self) -> bool:
        return self.surface[0].isupper()

    @cached_property
    def may_be_name(self) -> bool:
        """Whether its spelling is one of names: a capital first, or mixed as in H2O, pH, 4G."""
        if self.is_capitalised:
            return True
        surface = self.surface
        return not surface.isdecimal() and any(c.isdecimal() for c in surface) and any(c.isupper() for c in surface[1:])

    @property
    def is_number(self) -> bool:
        return self.surface.isdecimal()


def tokens(text: str) -> list[Token]:
    """Words of NFC ``text`` in order."""
    found: list[Token] = []
    for match in _TOKEN.finditer(text.translate(_SUBSCRIPTS)):
        word = canonical_tone(match.group().lower())
        found.append(Token(word, fold(word), match.group(), match.start(), match.end()))
    return found


def weight(word: str, *, is_folded: bool = False) -> float:
    """How much a word tells, 0 to 1. ``is_folded``: it was typed without accents, so it may be any of several."""
    if is_folded:
        return _FOLDED_WEIGHTS.get(word, 1.0)
    return _WEIGHTS.get(word, 1.0)


def is_content(word: str) -> bool:
    """Whether a word carries meaning of its own."""
    return weight(word) > _EMPTY_WEIGHT


def is_typed_plain(words: Iterable[Token]) -> bool:
    """Whether a text was typed without accents: three words or more and not one accent among them."""
    listed = [token for token in words if not token.is_number]
    return len(listed) >= 3 and all(token.word == token.folded for token in listed)


def is_task(text: str) -> bool:
    """Whether a sentence sets a task ("Hãy đổi nhiệt độ đó ra kelvin.") instead of stating anything."""
    return _TASK.match(text) is not None


def pairs(words: list[str]) -> list[tuple[str, str]]:
    """Neighbouring words: most Vietnamese words are written as two syllables."""
    return list(pairwise(words))
