"""Addresses of homes in chat: house, lane, street, hamlet, commune and so on, in a chain.

Geography and history name the same places. A chain counts when it has a house number on a street, when somebody says
that they live there, or when it is the whole message; a town alone counts never.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from deepedu.base.typed_text import TypedText
from deepedu.base.vietnamese import fold


def _listed(text: str, sign: str = " ") -> frozenset[str]:
    return frozenset(text.split(sign))


# Where a home is told to the door, and where only to the town. Those after the bar are other words without accents.
_NEAR = (
    "số nhà|nhà số|số|ngõ|ngách|hẻm|kiệt|đường|phố|thôn|xóm|ấp|tổ dân phố|khu phố|kp|tdp|chung cư|tòa nhà|toà nhà"
    "|căn hộ|ký túc xá|kí túc xá|ktx|kđt|khu đô thị|khu tập thể"
)
_NEAR_WITH_ACCENTS = "tổ|bản|buôn|làng|đội|khu|tòa|toà|căn|lô|tầng|phòng"
_FAR = "xã|phường|thị trấn|quận|huyện|thị xã|thành phố|tp|tỉnh|tx|tt|p|q|h|x|t"
_ALL = tuple(unit for listed in (_NEAR, _NEAR_WITH_ACCENTS, _FAR) for unit in listed.split("|"))
_FAR_FOLDED = frozenset(fold(_FAR).split("|"))
_WORDS_FOR_UNITS = frozenset(_NEAR_WITH_ACCENTS.split("|"))
_FOLDED_WORDS = frozenset(map(fold, _WORDS_FOR_UNITS))
_SPELLED = {fold(unit): tuple(u for u in _ALL if fold(u) == fold(unit)) for unit in _ALL}
_UNIT = re.compile(rf"\b(?P<type>{'|'.join(sorted(_SPELLED, key=len, reverse=True))})\b(?:\.|:)? ?")
# Units that may follow a name without a comma; the others are syllables of names: "Lý Thường Kiệt", "Sông Lô".
_AFTER_NAME_PLAIN = frozenset(("phuong", "quan", "huyen", "xa", "tp", "thi xa", "thi tran", "thanh pho"))
_AFTER_NAME = _AFTER_NAME_PLAIN | {"tinh", "duong", "pho", "ngo", "thon"}
_SHORT_UNIT = re.compile(r"(?:p|q|kp|to|f)\d{1,2}\b")
_DAY_OF_STREET = re.compile(r" thang \d{1,2}\b")
_STREET = re.compile(r"(?:ngo|ngach|hem|kiet|duong|pho)\b")
_NUMBER = re.compile(r"(?P<number>\d{1,4}[a-z]?(?:[/\-]\d{1,4}[a-z]?){0,4})\b")
_CUE = re.compile(
    r"\b(?:(?:nha|que|tro|cho o|phong tro)(?: (?:rieng|tro|cua))? (?:em|minh|to|tui|toi|tao|con|chau|me em|bo em"
    r"|ba em|ong ba em|bon em|tui em|ban em|ban ay|no|ban [a-z]+)(?: hien| dang| thi| cung)?(?: (?:o|tai|la|nam o|so"
    r"|:))*|(?:em|minh|to|tui|toi|tao|con|chau|nha|gia dinh em|gia dinh|bo me em|ban em|i)(?: hien| dang| van| cung"
    r"| dang ky)*(?: (?:song|tro|ngu|cu tru|sinh song|thue nha|live))* (?:o|tai|at|in)|(?:dia chi|ho khau|noi o"
    r"|cho o|thuong tru|tam tru|address)(?: (?:nha|cua|em|minh|to|tui|con|chau|la|o|hien nay|thuong tru))*|(?:ship"
    r"|giao(?: hang)?|gui(?: do| hang)?|don em|qua nha em|chuyen|don)(?: (?:ve|den|toi|ra|o|tai|cho em))+|(?:gan"
    r"|canh) (?=(?:so )?\d\S* (?:duong|pho|ngo|hem|ngach)|thon \d|xom \d|ap \d|ngo \d|hem \d))(?: |: ?|, ?|(?<= ))"
)
_TOWNS = (
    "ha noi|hn|ho chi minh|hcm|tphcm|tp hcm|sai gon|sg|da nang|hai phong|can tho|hue|thua thien hue|an giang"
    "|ba ria ?-? ?vung tau|vung tau|bac giang|bac kan|bac lieu|bac ninh|ben tre|binh dinh|binh duong|binh phuoc"
    "|binh thuan|ca mau|cao bang|dak lak|dac lac|dak nong|dien bien|dong nai|dong thap|gia lai|ha giang|ha nam"
    "|ha tinh|hai duong|hau giang|hoa binh|hung yen|khanh hoa|kien giang|kon tum|lai chau|lam dong|lang son|lao cai"
    "|long an|nam dinh|nghe an|ninh binh|ninh thuan|phu tho|phu yen|quang binh|quang nam|quang ngai|quang ninh"
    "|quang tri|soc trang|son la|tay ninh|thai binh|thai nguyen|thanh hoa|tien giang|tra vinh|tuyen quang|vinh long"
    "|vinh phuc|yen bai"
)
_TOWN = re.compile(rf"(?:{_TOWNS})\b")
_JOINT = re.compile(r"(?: ?[,\-–] ?| )")
_WORD = re.compile(r"[^\W_]+")
# What goes on after an address in a sentence. The others may be the second word of a name: "Ba Bể", "Con Cuông".
_PARTICLES = _listed("nha nhe nhaa a ah ak va thi roi nen ma em minh khong ko k thay nay day oi ne")
_STOP = _PARTICLES | _listed(
    "co con cach gan to toi tui di duoc cho voi vi hoc lop la nhung de den tu tai trong ngoai cua ay do luon nghe ban "
    "bi dang se "
    "hay lam gi dau nao bao may cung rat khi sau truoc truong neu giup hom me bo"
)
_LESSON = re.compile(
    r"\b(?:năm 1[0-9]{3}|thế k[ỉỷ]|khởi nghĩa|chủ tịch|bác hồ|di tích|bảo tàng|nhà thơ|nhà văn|vua|triều|chiến tranh"
    r"|quê bác"
    r"|lịch sử|sinh ra ở|di sản|cách mạng|tuyên ngôn|chu tich|khoi nghia|bac ho|di tich|bao tang|nha tho|nha van)\b"
)


@dataclass(frozen=True)
class _Chain:
    start: int
    end: int
    units: int
    near: int
    has_house: bool


def find_addresses(typed: TypedText) -> Iterator[tuple[int, int]]:
    """Yields ``(start, end)`` in ``typed.text``."""
    plain = typed.folded
    cues = {match.end() for match in _CUE.finditer(plain)}
    done = 0
    for word in _WORD.finditer(plain):
        if word.start() < done:
            continue
        is_cued = word.start() in cues
        chain = _chain(typed, word.start(), is_cued)
        if chain is None:
            continue
        done = chain.end
        if _counts(typed, chain, is_cued):
            yield chain.start, chain.end


def _counts(typed: TypedText, chain: _Chain, is_cued: bool) -> bool:
    plain = typed.folded
    if is_cued:
        return chain.near > 0 or chain.units >= 2
    before = re.split(r"[!?;\n]|\. ", typed.text[max(0, chain.start - 80) : chain.start])[-1]
    after = re.split(r"[!?;\n]|\. ", typed.text[chain.end : chain.end + 80])[0]
    if _LESSON.search(f"{before} {after}".lower()):
        return False
    if chain.has_house and chain.units >= 2:
        return True
    rest = plain[: chain.start] + plain[chain.end :]
    return chain.units >= 2 and chain.near > 0 and len(_WORD.findall(rest)) <= 4 and "?" not in plain


def _chain(typed: TypedText, start: int, is_cued: bool) -> _Chain | None:
    """The longest chain of units that begins at ``start``."""
    plain = typed.folded
    at, end, units, near, has_house = start, start, 0, 0, False
    while at < len(plain):
        step = _unit_end(typed, at) or _house_end(typed, at, is_cued and units == 0)
        if step is None:
            stop = _place_end(typed, end, at) if units else None
            if stop is None:
                break
            end, units = stop, units + 1
        else:
            stop, is_near, is_house = step
            end, units, near = stop, units + 1, near + is_near
            has_house = has_house or is_house
        joint = _JOINT.match(plain, end)
        if joint is None:
            break
        at = joint.end()
    return _Chain(start, end, units, near, has_house) if units else None


def _place_end(typed: TypedText, before: int, at: int) -> int | None:
    """A place named without its kind: a town of the country, or words with capitals after a comma."""
    town = _TOWN.match(typed.folded, at)
    if town is not None:
        return town.end()
    is_named = "," in typed.text[before:at] and typed.text[at].isupper() and not typed.text.isupper()
    end = _name_end(typed, at) if is_named else None
    return end if end and " " in typed.text[at:end] else None


def _unit_end(typed: TypedText, at: int) -> tuple[int, bool, bool] | None:
    """A unit with its name or number at ``at``: end, whether it is near, whether it is a house."""
    plain = typed.folded
    unit = _unit_at(typed, at)
    if unit is None:
        # "P12", "Q3", "kp5"
        short = _SHORT_UNIT.match(plain, at)
        return (short.end(), False, False) if short else None
    kind = unit["type"]
    is_near = kind not in _FAR_FOLDED
    number = _NUMBER.match(plain, unit.end())
    if kind in ("so", "so nha", "nha so"):
        return (number.end(), False, True) if number else None
    if number:
        end = number.end()
        more = _DAY_OF_STREET.match(plain, end)
        return (more.end() if more and kind in ("duong", "pho") else end), is_near, False
    # One letter is a unit of an address only with a point: "P. Tân Phú".
    if kind in ("can", "tang", "phong", "lo") or (len(kind) == 1 and plain[at + 1 : at + 2] != "."):
        return None
    # "bản địa", "khu vực": words of their own.
    if kind in _FOLDED_WORDS and not typed.text[unit.end() : unit.end() + 1].isupper():
        return None
    end = _name_end(typed, unit.end())
    return (end, is_near, False) if end else None


def _unit_at(typed: TypedText, at: int) -> re.Match[str] | None:
    """The kind of a unit at ``at``, typed with its accents, or without any in a message that has none."""
    unit = _UNIT.match(typed.folded, at)
    if unit is None:
        return None
    surface = typed.text[at : at + len(unit["type"])].lower()
    spelled = _SPELLED[unit["type"]]
    if surface in spelled:
        return unit
    return unit if typed.is_plain and not _WORDS_FOR_UNITS.intersection(spelled) else None


def _house_end(typed: TypedText, at: int, is_cued: bool) -> tuple[int, bool, bool] | None:
    """A bare house number before its street: "25 Nguyễn Trãi", "12 ngõ 34 Láng", "12/5 đường Lê Lợi"."""
    plain = typed.folded
    number = _NUMBER.match(plain, at)
    if number is None or not plain.startswith(" ", number.end()):
        return None
    following = number.end() + 1
    if _STREET.match(plain, following) and _unit_at(typed, following):
        return number.end(), False, True
    if not is_cued or not typed.text[following : following + 1].isupper():
        return None
    end = _name_end(typed, following)
    return (end, True, True) if end and " " in plain[following:end] else None


def _name_end(typed: TypedText, start: int) -> int | None:
    """Where the name of a place ends: words with capitals, or up to three without."""
    plain, text = typed.folded, typed.text
    end: int | None = None
    count = 0
    is_proper = text[start : start + 1].isupper()
    for word in _WORD.finditer(plain, start):
        if word.start() != start if end is None else plain[end : word.start()] not in (" ", "'", "’"):
            break
        surface = word.group()
        if is_proper and not (text[word.start()].isupper() or (surface.isdigit() and len(surface) <= 2)):
            if plain[word.start() - 1] not in "'’":
                break
        elif not is_proper and (count >= 3 or surface.isdigit() or _goes_on(typed, word, count)):
            break
        if count and _begins_another(typed, word.start(), count):
            break
        end, count = word.end(), count + 1
        if count >= 5:
            break
    return end


def _goes_on(typed: TypedText, word: re.Match[str], count: int) -> bool:
    """Whether a word without a capital is no more of the name but of the sentence."""
    is_word = word.group() in (_PARTICLES if count == 1 else _STOP)
    # With its accents "lâm" is not "làm"; a word that has none of its own stays one.
    is_accented = typed.text[word.start() : word.end()].lower() != word.group()
    return count > 0 and is_word and not (is_accented and count == 1)


def _begins_another(typed: TypedText, at: int, count: int) -> bool:
    unit = _unit_at(typed, at)
    if unit is not None and unit["type"] in (_AFTER_NAME_PLAIN if typed.is_plain else _AFTER_NAME):
        return count >= 2 or not typed.text[at].isupper()
    return count >= 2 and _TOWN.match(typed.folded, at) is not None
