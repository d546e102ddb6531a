"""Names of people of the school in chat: those of a class list, and those that somebody introduces.

Lessons are full of names too. A name counts when the class list holds it or when the words around it introduce it
("em tên là …", "mẹ em là …"); a great name of the lessons counts only with a sign that a class mate is meant.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from deepedu.base.typed_text import TypedText
from deepedu.base.vietnamese import canonical_tone, fold, words


def _listed(text: str, sign: str = " ") -> frozenset[str]:
    return frozenset(text.split(sign))


_SURNAMES = _listed(
    "nguyễn trần lê phạm huỳnh hoàng phan vũ võ đặng bùi đỗ hồ ngô dương lý lí đinh đoàn lâm trịnh mai đào lương hà "
    "tô tạ chu quách thái cao la lưu tống triệu vương phùng trương đàm nghiêm nông bế giàng thân thạch kiều tôn âu "
    "ninh lò lữ mạc mã vi hứa kim sơn danh điểu diệp cù ca từ văn đồng bạch khổng tăng trang thi ông nguyen"
)
_FOLDED_SURNAMES = frozenset(map(fold, _SURNAMES))
# Everyday words as well: without accents and capitals they begin a name only before "thị" or "văn".
_WEAK_SURNAMES = _listed(
    "do ho to ta ha cao la lam dao mai thai ma vi ca cu be than danh son kim lo lu au ninh giang chu ly le vo bui"
)
# Whom streets, schools and lessons are named after.
_NOTABLE = _listed(
    "nguyen hue|quang trung|tran hung dao|tran quoc tuan|le loi|le thai to|nguyen trai|nguyen du|ho chi minh"
    "|nguyen tat thanh|nguyen ai quoc|nguyen sinh cung|vo nguyen giap|ngo quyen|ly thuong kiet|ly thai to"
    "|ly cong uan|dinh bo linh|le hoan|hai ba trung|ba trieu|trieu thi trinh|ho xuan huong|nguyen dinh chieu"
    "|nguyen khuyen|tran te xuong|to huu|xuan dieu|huy can|han mac tu|nam cao|ngo tat to|vu trong phung|nguyen tuan"
    "|nguyen minh chau|kim lan|to hoai|quang dung|chu van an|le quy don|phan boi chau|phan chau trinh|phan chu trinh"
    "|phan dinh phung|hoang hoa tham|nguyen thai hoc|tran phu|le hong phong|nguyen thi minh khai|ha huy tap"
    "|nguyen van cu|truong chinh|pham van dong|le duan|ton duc thang|vo thi sau|kim dong|ly tu trong|nguyen van troi"
    "|nguyen viet xuan|phan dinh giot|be van dan|to vinh dien|nguyen trung truc|nguyen tri phuong|hoang dieu"
    "|truong dinh|ton that thuyet|mai thuc loan|phung hung|khuc thua du|tran nhan tong|tran thai tong|tran quoc toan"
    "|tran binh trong|tran thu do|le lai|le thanh tong|nguyen binh khiem|mac dang dung|ho quy ly|gia long|nguyen anh"
    "|minh mang|tu duc|ham nghi|duy tan|bao dai|tran khanh du|pham ngu lao|pham hong thai|tran nguyen han|ngo gia tu"
    "|nguyen huu tho|nguyen cong tru|cao ba quat|doan thi diem|ba huyen thanh quan|luong the vinh|tue tinh"
    "|le huu trac|hai thuong lan ong|pham tuan|ngo bao chau|ton that tung|dang thuy tram|dang thai mai"
    "|nguyen nhat anh|bui thi xuan|ngoc han|huyen tran|an duong vuong|hung vuong|ly nam de|ly bi|trieu quang phuc"
    "|le chan",
    "|",
)
# Given names that are everyday words: alone with their middle name they need a sign of a person.
_WORD_PAIRS = _listed(
    "binh minh|hoa binh|thanh binh|hai duong|phuong trinh|truong giang|thai binh|thai duong|quang minh"
    "|van minh|thanh cong|hai dang|thien nhien|tu do|hanh phuc|mua thu|mua xuan|hoang hon|anh duong"
    "|ha noi|viet nam|thai son|ha giang|ha nam|tay ninh|ninh binh|quang ninh|quang nam|nam dinh"
    "|hung yen|yen bai|phu tho|phu yen|vinh phuc|vinh long|bac ninh|bac giang|hai phong|tam giac"
    "|trung hoc|trung binh|minh chung|van hoc|van ban|phuong phap|phuong an|phuong huong|phuong thao"
    "|ngoc trai|dai duong|hoa hong|hoa hoc|hoa hue|bao ve|bao toan|thanh pho|trong tam|kim loai"
    "|kim cuong|khang chien|cong an|thanh tich|thanh phan|ho tro|minh anh|minh hoa|minh em|minh lam"
    "|anh em|anh chi|hong ha|hong hai|phuc loi|quoc gia|quoc khanh|duc tinh|trung tam|kim anh|hai an"
    "|hong anh|van anh|nhat ban|trung quoc|thu nhap|thu tu|trong luong|hai ha|quang duong|bao quoc"
    "|bang tuyet|linh hoat|thang long|minh chau|son ha|tay son|lam son|phong chau|nam tu",
    "|",
)
_PERSON_BEFORE = re.compile(
    r"\b(?:ban|em|minh|to|tui|toi|chau|con|thang|nho|co|thay|anh|chi|hoc sinh|ten|ten la|la|cua|voi|gui|chao|nho|gap"
    r"|hoi|thich|ghet"
    r"|danh|goi|ngoi canh|lop truong|cho|bi|oi|me|bo|i am|my name is)(?: be| ban| la| ten)? $"
)
_PERSON_AFTER = re.compile(
    r" (?:oi|lop|hoc lop|ngoi|noi|danh|bao|cu|hay|bi|dang|nhan|khong|k |ko|va em|voi em|cua lop|trong lop|cung|an|di"
    r"|ghet|thich|choi|nop|vang|day)\b"
)
_HISTORY = re.compile(
    r"\b(?:vua|tuong|chua|hoang de|khoi nghia|quan |trieu|tran danh|chien|the k[iy]|nam [1-9]\d{2,3}|nha tho|nha van"
    r"|tac gia|tac pham|bai tho|truyen|tay son|lich su|duong|pho|truong|thpt|thcs|quang truong|tuong dai|danh tuong"
    r"|anh hung|cach mang|dai pha|danh tan|len ngoi|ai la|la ai|phong trao|chu tich|bac ho|nha tran|nha le|nha ly"
    r"|nha nguyen|nha ho|nghia quan|dao|cong lao|que o|sinh nam)\b"
)
_LESSON = re.compile(
    r"\b(?:vua|tướng|chúa|hoàng đế|hoàng hậu|thái hậu|công chúa|khởi nghĩa|nhà minh|nhà thanh|triều|trận|thế k[ỉỷ]"
    r"|năm 1\d{3}|nhà thơ|nhà văn"
    r"|nhân vật|tác giả|tác phẩm|bài thơ|nhạc sĩ|chủ tịch|thừa tướng|đại thần|hào kiệt|ca khúc|sáng tác)\b"
)
_PLACE_BEFORE = re.compile(
    r"\b(?:tinh|thanh pho|thuy dien|song|nui|huyen|o|tai|ho|nha may|bien|dao|duong|pho|cau|vinh|deo|xa|phuong|quan"
    r"|truong|dong bang|vung) $"
)
_CLASS_MATE = re.compile(r"\b(?:ban|em|hoc sinh|lop \d+\s?[a-z]?\d*|to \d|lop truong|ngoi canh|nhom)\b")


@dataclass(frozen=True)
class _Listed:
    """A form of a name of the class list. ``is_whole``: of three words or more, so it can hardly be anything else."""

    spelled: tuple[str, ...]
    folded: tuple[str, ...]
    is_whole: bool
    is_notable: bool


@lru_cache(maxsize=64)
def _forms(class_names: tuple[str, ...]) -> dict[str, tuple[_Listed, ...]]:
    """By first folded word, the longest form first."""
    found: dict[str, dict[tuple[str, ...], _Listed]] = {}
    for name in class_names:
        spelled = tuple(words(TypedText.of(name).text))
        if len(spelled) < 2:
            continue
        forms = [spelled, spelled[-2:]]
        if len(spelled) > 3:
            forms += [spelled[-3:], (spelled[0], *spelled[-2:])]
        if len(spelled) > 2:
            forms.append((spelled[0], spelled[-1]))
        is_notable = " ".join(map(fold, spelled)) in _NOTABLE
        for form in forms:
            folded = tuple(map(fold, form))
            listed = _Listed(form, folded, len(form) > 2, is_notable or " ".join(folded) in _NOTABLE)
            found.setdefault(folded[0], {}).setdefault(form, listed)
    return {first: tuple(sorted(forms.values(), key=lambda f: -len(f.spelled))) for first, forms in found.items()}


_WORD = re.compile(r"[^\W_]+")


def find_listed_names(typed: TypedText, class_names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yields ``(start, end)`` of names of the class list; a lone given name is none, "Hoa" is a word as well."""
    forms = _forms(tuple(class_names))
    found = list(_WORD.finditer(typed.text))
    at = 0
    while at < len(found):
        length = 0
        for form in forms.get(typed.folded[found[at].start() : found[at].end()], ()):
            stretch = found[at : at + len(form.spelled)]
            if len(stretch) == len(form.spelled) and _is_form(typed, stretch, form) and _is_meant(typed, stretch, form):
                length = len(stretch)
                yield stretch[0].start(), stretch[-1].end()
                break
        at += length or 1


def _is_form(typed: TypedText, stretch: Sequence[re.Match[str]], form: _Listed) -> bool:
    for match, spelled, folded in zip(stretch, form.spelled, form.folded, strict=True):
        written = match.group().lower()
        if canonical_tone(written) != spelled and written != folded:
            return False
    gaps = [typed.text[a.end() : b.start()] for a, b in pairwise(stretch)]
    return all(re.fullmatch(r"[ \u00a0.\-_]{1,2}", gap) for gap in gaps)


def _is_meant(typed: TypedText, stretch: Sequence[re.Match[str]], form: _Listed) -> bool:
    start, end = stretch[0].start(), stretch[-1].end()
    plain = typed.folded
    before, after = plain[max(0, start - 24) : start], plain[end : end + 24]
    is_person = bool(
        _PERSON_BEFORE.search(before) or _PERSON_AFTER.match(after) or typed.folded.strip() == plain[start:end]
    )
    if form.is_notable:
        around = _sentence(plain, start, end)
        return bool(_CLASS_MATE.search(before + after)) or (not _HISTORY.search(around) and is_person)
    if form.is_whole:
        return True
    if _is_part_of_more(typed, start, end):
        return False
    if _LESSON.search(_sentence(typed.text, start, end).lower()) and not _CLASS_MATE.search(before + after):
        return False
    capitals = [typed.text[match.start()].isupper() for match in stretch]
    if len(set(capitals)) > 1:
        return False
    is_proper = capitals[0] and not _is_shouted(typed, start, end)
    if " ".join(form.folded) in _WORD_PAIRS or _PLACE_BEFORE.search(before):
        return is_person and is_proper and not _PLACE_BEFORE.search(before)
    has_accents = typed.text[start:end].lower() != plain[start:end]
    return is_proper or is_person or has_accents


def _sentence(text: str, start: int, end: int) -> str:
    """What stands around a name in its own sentence, at most 80 characters to each side."""
    before = re.split(r"[!?;\n]|\. ", text[max(0, start - 80) : start])[-1]
    return before + text[start:end] + re.split(r"[!?;\n]|\. ", text[end : end + 80])[0]


def _is_part_of_more(typed: TypedText, start: int, end: int) -> bool:
    """Whether two words with capitals stand in a longer name: "Trần Anh" in "Trần Anh Tông" is somebody else."""
    text = typed.text
    if not text[start].isupper() or text.isupper():
        return False
    if re.match(r" [^\W\d_]", text[end : end + 2]) and text[end + 1].isupper():
        return True
    before = re.search(r"([^\W\d_]+) $", text[:start])
    return before is not None and before[1][0].isupper() and fold(before[1]) in _FOLDED_SURNAMES


def _is_shouted(typed: TypedText, start: int, end: int) -> bool:
    """Capitals say nothing where everything is written in them."""
    return typed.text[start:end].isupper() and typed.text.isupper()


_OWNER = (
    r"(?:em|minh|to|tui|toi|tao|con|chau|me em|bo em|ba em|ma em|cha em|ong em|ba noi em|ba ngoai em|ong noi em"
    r"|ong ngoai em|anh em|chi em|anh trai em|chi gai em|em trai em|em gai em|anh trai|chi gai|em trai|em gai"
    r"|bo minh|me minh|bo to|me to|bo me em|me con|bo con|ban em|ban than em|ban than cua em|ban ay|gvcn(?: em)?"
    r"|(?:co|thay)(?: giao)?(?: chu nhiem)? em|(?:co|thay)(?: giao)? chu nhiem|phu huynh(?: em)?|me cua em|bo cua em"
    r"|me chau|bo chau|chu em|di em|cau em|bac em)"
)
# After "tên" nearly everything is a name; after a bare "là" it may be a trade: "mẹ em là giáo viên".
_NAMED = re.compile(
    rf"\b(?:{_OWNER} (?:ho )?(?:va )?ten(?: that)?(?: day du)?(?: la| :|:)?|(?:ho (?:va )?)?ten(?: that| day du"
    rf"| goi)?(?: cua)? {_OWNER}(?: la| :|:)"
    r"|ho (?:va )?ten(?: hoc sinh| phu huynh)?(?: la| ?:)|my (?:full )?name(?: is|'s)|(?:call me|i'm called))[ :]+"
)
_IS = re.compile(
    rf"\b(?:{_OWNER} la(?: (?:co|thay|ban|ba|ong|anh|chi))?|i am|i'm|em la hoc sinh|(?:em|ban|co|thay|co giao"
    rf"|thay giao|hoc sinh)) "
)
_SAYS_IS = re.compile(r" la (?:\w+ )?$|i am $|i'm $")
# "nhà Minh là", "con là": somebody's name, somebody's child.
_NO_OWNER = re.compile(r"(?:nha minh|chung minh|\bcon|\bchau|\bong|\bba) la $")
_NO_NAME = _listed(
    "gi ai la co thay hoc lop sinh o nha va thi nhung voi cua cho khong ko k da dang se cung rat mot hai con chau em "
    "minh day nay a ah ak nhe nha oi ten nguoi giao bac cong nong ban vien hs nam nu tuoi may duoc de vi nen thich "
    "muon bi goi bo me anh chi that roi ne cung y nghia tren trong dau the hay tu den ve ra vao khi luc thang to tui "
    "ban doan do thi"
)


def find_introduced_names(typed: TypedText) -> Iterator[tuple[int, int]]:
    """Yields ``(start, end)`` of names that the words before them introduce."""
    plain = typed.folded
    for match in _NAMED.finditer(plain):
        end = _name_end(typed, match.end(), most=5)
        if end is not None:
            yield match.end(), end
    for match in _IS.finditer(plain):
        start = match.end()
        is_bare = not _SAYS_IS.search(match.group())
        if _NO_OWNER.search(plain[max(0, start - 20) : start]):
            continue
        end = _whole_name_end(typed, start, is_bare=is_bare)
        if end is not None and plain[start:end] not in _NOTABLE:
            if is_bare and _LESSON.search(_sentence(typed.text, start, end).lower()):
                continue
            yield start, end


# After a family name nearly every word may be part of it; these go on with the sentence.
_AFTER_NAME = _listed(
    "hoc lop o va nhung voi cua cho a ak ah nhe oi la tuoi thich muon bi duoc lam day ne co em khong ko"
)


def _name_end(typed: TypedText, start: int, *, most: int) -> int | None:
    """Where the name that begins at ``start`` ends: words with capitals, or words that are no usual ones."""
    plain, text = typed.folded, typed.text
    is_proper = text[start : start + 1].isupper() and not text.isupper()
    first = _WORD.match(plain, start)
    begins_family = first is not None and first.group() in _FOLDED_SURNAMES
    end: int | None = None
    count = 0
    for word in _WORD.finditer(plain, start):
        if word.start() != start if end is None else plain[end : word.start()] not in (" ", "."):
            break
        surface = word.group()
        if any(c.isdigit() for c in surface) or (is_proper and not text[word.start()].isupper()):
            break
        is_family = begins_family and count == 0
        if not is_proper and not is_family and surface in (_AFTER_NAME if begins_family else _NO_NAME):
            break
        end, count = word.end(), count + 1
        if count == most:
            break
    return end


def _whole_name_end(typed: TypedText, start: int, *, is_bare: bool) -> int | None:
    """A family name with what follows it. ``is_bare``: only a title stands before it, so it needs capitals."""
    plain, text = typed.folded, typed.text
    first = _WORD.match(plain, start)
    if first is None or first.group() not in _FOLDED_SURNAMES:
        return None
    written = text[start : first.end()].lower()
    if canonical_tone(written) not in _SURNAMES and written != first.group():
        return None  # "nguyên" is no "nguyễn"
    end = _name_end(typed, start, most=5)
    if end is None:
        return None
    parts = plain[start:end].split()
    is_proper = all(word[:1].isupper() for word in text[start:end].split()) and not text.isupper()
    if is_bare:
        return end if is_proper and len(parts) >= 3 else None
    if is_proper:
        return end if len(parts) >= 2 else None
    is_weak = first.group() in _WEAK_SURNAMES
    has_middle = len(parts) > 2 and parts[1] in ("thi", "van", "ngoc", "minh", "duc", "thanh", "huu", "quoc")
    return end if len(parts) >= 3 and (has_middle or not is_weak) else None
