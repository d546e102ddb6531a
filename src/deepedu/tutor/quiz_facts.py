"""Facts of a lesson that a quiz can ask for: a number, a date, a name or a term, in a sentence that stands alone."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from deepedu.base.vietnamese import fold, words
from deepedu.search.evidence import Evidence
from deepedu.tutor.names import Lexicon, Name, names
from deepedu.tutor.quantities import Quantity
from deepedu.tutor.restating import restates
from deepedu.tutor.windows import Passage, Sentence

Sort = Literal["number", "year", "date", "person", "place", "term"]

BLANK = "…"
# A sentence shorter or longer than this, in words, makes no good item.
_WORDS = range(6, 41)

# What opens a sentence and leans on the one before it; without it the sentence says the same.
_LEAD_IN = re.compile(r"^(?:thật ra|nói cách khác|cần nhớ rằng|như ta đã biết|tóm lại|trước hết),? ", re.IGNORECASE)
# Examples, instructions, anecdotes: true only where they stand.
_NO_FACT = re.compile(
    r"^\d+[.)] |^(?:ví dụ|chẳng hạn|giả sử|nếu |vài \w+ sau|trước khi|sau khi|sau đó|khi |muốn |hai bạn|nhiều người|"
    r"có thể |tương truyền|một (?:khối|bể|vật|bạn|chiếc|thỏi|sợi|miếng|cốc|bình|xe|ô tô|người) |"
    r"theo (?:kết quả|ước tính))"
    r"|\b(?:em|hãy|chúng ta|chúng|bạn|mình|thời đó|lúc ấy|vừa nêu|nói trên|kể trên|"
    r"cả (?:hai|ba|bốn|năm)|"
    r"của (?:viện|trường|hội|bảo tàng|tổ chức|trận|tác phẩm|truyện|trạm|bộ phim)(?! (?-i:[A-ZĐ])))\b"
    r"|[→×]|=.*=",
    re.IGNORECASE,
)
_NOT_COUNTED = re.compile(
    r"(?:số|bảng|hình|bài|chương|lớp|trang|câu|thứ|mục|phần|lần thứ|điều|khoản|giống [\w ]+)\s$", re.IGNORECASE
)
_DIGITS = re.compile(r"[-−–]?\d+(?:[ \u00a0\u202f]\d{3})*(?:[.,/]\d+(?:[ \u00a0\u202f]\d{3})*)*")

# Countries that science and history books speak of.
NATIONS = (
    "Anh", "Pháp", "Đức", "Mỹ", "Hoa Kì", "Hoa Kỳ", "Nga", "Ý", "Italia", "Áo", "Bỉ", "Hà Lan", "Thụy Điển", "Thụy Sĩ",
    "Scotland", "Ireland", "Ba Lan", "Nhật Bản", "Trung Quốc", "Hy Lạp", "Đan Mạch", "Na Uy", "Phần Lan", "Tây Ban Nha",
    "Bồ Đào Nha", "Ấn Độ", "Việt Nam", "Canada", "Hungary", "Philippines",
)  # fmt: skip
_ANY_NATION = "|".join(NATIONS)
_NATION = re.compile(rf"(?:{_ANY_NATION}) (?=[A-ZĐ])")
_CLASSIFIER = re.compile(r"(thành phố|tỉnh|châu|thủ đô|trạm|chiến khu) $")
_SYLLABLE = re.compile(r"(?:ngh?|[ckpt]h|g[hi]|nh|tr|qu|[bcdghklmnpqrstvx])?[aeiouy]{1,3}(?:ch|ng|nh|[cmnpt])?")
_PERSON_BEFORE = re.compile(
    rf"(?:nhà (?:\w+ ){{1,3}}|bác sĩ |kĩ sư |giáo sư |ông |bà |vua |chúa |tướng |anh hùng |nữ sĩ )"
    rf"(?:người (?:{_ANY_NATION}) )?$",
    re.IGNORECASE,
)
_PERSON_AFTER = re.compile(
    r" (?:kết luận|khẳng định|mở rộng|chế tạo|phát hiện|phát minh|tìm|đề xuất|chứng|mô tả|xuất bản|công bố|kí |"
    r"sinh năm|cùng|gọi|nghĩ|nghiên cứu|quan sát|đặt tên|trồng|nhận thấy|trở thành|dùng|sống|sáng tác|lãnh đạo|chỉ huy|"
    r"lên ngôi|khởi nghĩa|viết|vẽ|xây dựng|là (?:một )?(?:người|nhà|bác sĩ|vua)|được (?:trao|phong|truy))"
)
_PLACE_BEFORE = re.compile(
    r"(?:ở|tại|thành phố|tỉnh|châu|thủ đô|trạm|từ|đến|chiến khu|trụ sở tại) (?:thành phố |châu |trạm |chiến khu )?$"
)
_PARTICLE = re.compile(r" (?:van|von|de|da|di|del|der|la|le)(?: der)? ")

_CALLED = re.compile(r"(?<!còn )(?<!tên )(?:được )?gọi là (?P<term>[^\W\d_]+(?: [^\W\d_]+){0,4})(?=[,.;]| còn | và |$)")
_GENUS = (
    "số đo|quá trình|độ dài|nơi|những sinh vật|sinh vật|một thấu kính|dụng cụ|đơn vị|hiện tượng|khối lượng|bộ phận|"
    "cơ quan|lực|góc|đường|tập hợp|phép|tỉ số|chất|loại|hợp chất|đại lượng|khả năng|sự|phần|nhóm|tổ chức|hình thức"
)
_DEFINED = re.compile(
    rf"(?P<term>[^\W\d_]+(?: [^\W\d_]+){{0,3}}?)(?P<short> \([^()]+\))?(?P<of> của (?:một )?\w+(?: \w+)?)?"
    rf" (?:là (?={_GENUS})|cho biết )"
)
_UNIT_IN_HEAD = re.compile(r"\s*\(([^()]{1,12})\)$")


@dataclass(frozen=True)
class Fact:
    """A statement of the book with the part that is asked for: ``said[start:end]``.

    ``group`` names what it can be taken for: facts of one group are each other's wrong answers. ``quote`` is the book's
    own text in ``passage``; ``said`` may lack what only joined it to the sentence before.
    """

    said: str
    start: int
    end: int
    sort: Sort
    group: str
    passage: Evidence
    quote: str
    unit: str = ""
    # Of a cell in a table: what the book calls the table, or "bảng".
    table: str = ""

    @property
    def is_row(self) -> bool:
        return self.table != ""

    @property
    def key(self) -> str:
        return self.said[self.start : self.end]

    @property
    def blanked(self) -> str:
        return self.said[: self.start] + BLANK + self.said[self.end :]

    def with_key(self, key: str) -> str:
        """The statement with another answer in the place of its own."""
        if self.start == 0:
            key = key[:1].upper() + key[1:]
        return self.said[: self.start] + key + self.said[self.end :]


def lone_sentences(passages: Iterable[Evidence]) -> Iterator[tuple[Passage, Sentence, str]]:
    """Sentences that state something and need no other one: with their passage, and what they say."""
    for evidence in passages:
        if evidence.is_exercise:
            continue
        passage = Passage(evidence)
        for sentence in passage.sentences:
            said = _standing_alone(sentence)
            if said is not None and not _is_known_by_then(sentence, passage):
                yield passage, sentence, said


def _standing_alone(sentence: Sentence) -> str | None:
    text = " ".join(sentence.text.split())
    if sentence.is_row or sentence.is_question or sentence.is_open or sentence.is_heading:
        return None
    said = _LEAD_IN.sub("", text)
    said = said[:1].upper() + said[1:]
    if len(said.split()) not in _WORDS or _NO_FACT.search(said) or not said.endswith(".") or "(" in said[:1]:
        return None
    # "Quá trình ngược lại" is a thing; "ngược lại" alone turns from the sentence before.
    plain = re.sub(r"(?<=quá trình) ngược lại", "", said)
    return said if restates(plain, plain) else None


def _is_known_by_then(sentence: Sentence, passage: Passage) -> bool:
    """Whether its subject is one that was brought in before: "một cây liễu … Cây liễu nặng thêm"."""
    subject = " ".join(sentence.words[:2])
    return f" một {subject} " in " ".join(s.said for s in passage.sentences if s.end <= sentence.start)


def facts(passages: Iterable[Evidence]) -> list[Fact]:
    """Every fact of the passages that can be asked for, in reading order."""
    listed = list(passages)
    found: list[Fact] = []
    for passage, sentence, said in lone_sentences(listed):
        found += _of_sentence(passage, sentence, said)
    tables = [Passage(evidence) for evidence in listed if not evidence.is_exercise]
    prose = Lexicon.of([(s.text, s.tokens) for passage in tables for s in passage.sentences if not s.is_row])
    for passage in tables:
        found += _of_table(passage, prose)
    return found


def loose_terms(passages: Iterable[Evidence]) -> list[Fact]:
    """Terms wherever the passages bring one in: as wrong answers they need no sentence that stands alone."""
    found: list[Fact] = []
    for evidence in passages:
        text = " ".join(evidence.text.split())
        for match in _CALLED.finditer(text):
            start, end = match.span("term")
            group = _kind_of_term(text, start, end)
            found.append(Fact(text, start, end, "term", group, evidence, evidence.text))
    return found


def _of_sentence(passage: Passage, sentence: Sentence, said: str) -> Iterator[Fact]:
    alone = Passage(_with_text(passage.evidence, said))
    if len(alone.sentences) != 1:
        return
    inside = alone.sentences[0]

    def fact(start: int, end: int, sort: Sort, group: str, unit: str = "") -> Fact:
        return Fact(said, start, end, sort, group, passage.evidence, sentence.text, unit)

    for quantity in inside.quantities:
        yield from (fact(*place) for place in _number(said, quantity))
    for start, end, sort in named(said, inside, passage.lexicon):
        yield fact(start, end, sort, _group_of(said, start, end, sort))
    for start, end in _terms(said):
        yield fact(start, end, "term", _kind_of_term(said, start, end))


def _with_text(evidence: Evidence, text: str) -> Evidence:
    return Evidence(
        evidence.passage_id, evidence.book_id, evidence.book, evidence.chapter, evidence.lesson, text,
        evidence.first_page, evidence.last_page, evidence.spans, evidence.heading,
    )  # fmt: skip


# --- Numbers ---------------------------------------------------------------------------------------------------------


def _number(said: str, quantity: Quantity) -> Iterator[tuple[int, int, Sort, str, str]]:
    if quantity.date is not None:
        if None not in quantity.date and (match := re.match(r"ngày ", quantity.surface, re.IGNORECASE)):
            yield quantity.start + match.end(), quantity.end, "date", "date", ""
        return
    match = _DIGITS.match(said, quantity.start)
    if match is None or "/" in match.group() or len(quantity.values) != 1:
        return
    start, end = match.span()
    before, after = said[:start], said[end:]
    if quantity.is_year:
        # In other years it may have been about as much.
        is_figure = re.search(r"\b(?:đạt|chiếm|có) (?:khoảng|hơn|gần|trên) \d", said)
        if (
            quantity.says_year
            and not is_figure
            and not re.search(r"những năm $|\d{3,4} (?:đến|–|-) (?:năm )?$", before)
        ):
            yield start, end, "year", "year", ""
        return
    if _NOT_COUNTED.search(before) or re.match(r"\s*(?:đến|–|-|/)\s*\d", after) or re.search(r"\d (?:đến|–) $", before):
        return
    if re.search(r"= *$|^ *=", said[start - 3 : start]) is None and re.match(r"[^=]{0,8}=", after):
        return
    noun = re.match(r" ([a-zđà-ỹ]+(?: [a-zđà-ỹ]+)?)", after)
    unit = said[end : quantity.end].strip() if quantity.end > end else ""
    if (unit or noun) and unit != "tuổi":
        yield start, end, "number", f"number {unit or (noun[1] if noun else '')}", unit


def value(text: str) -> Fraction | None:
    """The value of a number as books print it: spaces between thousands, a decimal comma."""
    plain = re.sub(r"[ \u00a0\u202f.]", "", text).replace("−", "-").replace("–", "-").replace(",", ".")
    return Fraction(plain) if re.fullmatch(r"-?\d+(?:\.\d+)?(?:/\d+)?", plain) and "/" not in plain else None


# --- Names and terms -------------------------------------------------------------------------------------------------


def named(said: str, inside: Sentence, known: Lexicon) -> Iterator[tuple[int, int, Sort]]:
    """Names of persons and places: those that a word beside them tells to be one."""
    for start, end in _merged(said, names(said, inside.tokens, known)):
        if found := _NATION.match(said, start):
            start = found.end()
        before, after = said[max(0, start - 60) : start], said[end:]
        if _PLACE_BEFORE.search(before[:1].lower() + before[1:]):
            yield start, end, "place"
        elif " " in said[start:end] and (_PERSON_BEFORE.search(before) or _PERSON_AFTER.match(after)):
            yield start, end, "person"


def _group_of(said: str, start: int, end: int, sort: Sort) -> str:
    """Names that can stand for each other: of one kind of place, and all Vietnamese or all foreign."""
    name = said[start:end]
    if sort == "place":
        if classifier := _CLASSIFIER.search(said[:start].lower()):
            return f"place {classifier[1]}"
        if name in NATIONS:
            return "place nation"
    is_native = all(map(_SYLLABLE.fullmatch, fold(name).split()))
    return f"{sort} {'vi' if is_native else 'foreign'}"


def _merged(said: str, found: Sequence[Name]) -> list[tuple[int, int]]:
    """Names with the small words inside them: "Antonie van Leeuwenhoek"."""
    places: list[tuple[int, int]] = []
    for name in found:
        if places and _PARTICLE.fullmatch(said[places[-1][1] : name.start]):
            places[-1] = places[-1][0], name.end
        else:
            places.append((name.start, name.end))
    return places


def _terms(said: str) -> Iterator[tuple[int, int]]:
    for match in _CALLED.finditer(said):
        yield match.span("term")
    match = _DEFINED.match(said)
    if match is not None and match["short"] is None and words(match["term"])[0] not in ("trong", "theo", "ở", "trên"):
        yield match.span("term")


def _kind_of_term(said: str, start: int, end: int) -> str:
    """What goes on and what is: the one is no wrong answer where the other is asked for."""
    goes_on = said[start:end].lower().startswith("sự ") or re.match(r" là (?:quá trình|hiện tượng|sự)\b", said[end:])
    return "term process" if goes_on else "term thing"


# --- Tables ----------------------------------------------------------------------------------------------------------


def _of_table(passage: Passage, prose: Lexicon) -> Iterator[Fact]:
    """Cells with a number: "Nhiệt độ sôi của sắt là 2 861 °C"."""
    rows = [(s, h) for i, s in enumerate(passage.sentences) if (h := passage.header_of(i)) is not None]
    # A column of common words is written small in a sentence; one of names is not.
    is_common = any(set(words(_cells(sentence.text)[0])) <= prose.small for sentence, _ in rows)
    for sentence, header in rows:
        above = passage.text[: header.start].rstrip().rpartition("\n")[2]
        title = match[1] if (match := re.match(r"(Bảng [\d.]*\d)", above)) else "bảng"
        heads, cells = _cells(header.text), _cells(sentence.text)
        if len(heads) != len(cells) or not cells[0] or re.search(r"[\d()]", cells[0]):
            continue
        of = cells[0][:1].lower() + cells[0][1:] if is_common else cells[0]
        for head, cell in zip(heads[1:], cells[1:], strict=True):
            unit = _UNIT_IN_HEAD.search(head)
            if unit is None or value(cell) is None:
                continue
            lead = f"{head[: unit.start()]} của {of} là "
            group = f"table {fold(head)}"
            said, end = f"{lead}{cell} {unit[1]}.", len(lead) + len(cell)
            yield Fact(said, len(lead), end, "number", group, passage.evidence, sentence.text, unit[1], title)


def _cells(row: str) -> list[str]:
    return [" ".join(cell.split()) for cell in row.strip().strip("|").split("|")]
