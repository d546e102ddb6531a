"""What keeps a quiz item out, whoever made it: a key the book does not bear, a second right option, a repetition."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from deepedu.base.vietnamese import fold, sentence_spans, words
from deepedu.playbook.duplicates import shingles
from deepedu.search.evidence import Evidence
from deepedu.tutor.answer import Status
from deepedu.tutor.grounding import Grounder
from deepedu.tutor.marking import mark_number
from deepedu.tutor.quiz import Choice, Claim, Item, QuizEvidence, Short, TrueFalse
from deepedu.tutor.quiz_reading import LETTERS, is_number, number_and_unit
from deepedu.tutor.terms import is_content, tokens, weight

# Share of a statement's content that one sentence has to hold to say the same of a term.
_SAME = 0.85
# Share of the shingles of two statements that makes them one, when their numbers and names are the same.
_NEAR = 0.7
_QUOTED = re.compile(r"“(.*)”", re.DOTALL)
_SOURCE = re.compile(r"^(?:theo|dựa vào|trong) (?:bảng|bài|sách|hình|số liệu|đoạn)[^,]*, ", re.IGNORECASE)
_BLANK = re.compile(r"…+|\.{3,}|_{2,}")
# Question words with what an answer takes the place of; matched in the order given.
_ASKED = (
    (re.compile(r"\b(năm|ngày|tháng|thế kỉ) (?:nào|bao nhiêu)\b", re.IGNORECASE), r"\1 {}"),
    (re.compile(r"\bbao nhiêu\b", re.IGNORECASE), "{}"),
    (re.compile(r"\blà (?:gì|ai|nơi nào)\b", re.IGNORECASE), "là {}"),
    (re.compile(r"\bở (?:đâu|nơi nào)\b", re.IGNORECASE), "ở {}"),
    (re.compile(r"(?<!\w)(?:ai|người nào|nhà khoa học nào|gì|cái gì|chất nào|đâu|nào)\b", re.IGNORECASE), "{}"),
)


def filled(stem: str, answer: str) -> str | None:
    """The statement that a stem makes with an answer in its blank, or in the place of its question word; None when it
    has neither."""
    quoted = _QUOTED.search(stem)
    text = quoted[1] if quoted and _BLANK.search(quoted[1]) else _SOURCE.sub("", stem)
    if _BLANK.search(text):
        said = _BLANK.sub(lambda _: answer, text, count=1)
        return said[:1].upper() + said[1:]
    plain = text.rstrip(" ?")
    for pattern, form in _ASKED:
        if match := pattern.search(plain):
            unit = _own_unit(answer, plain[match.end() :])
            said = plain[: match.start()] + match.expand(form).format(unit) + plain[match.end() :]
            return said[:1].upper() + said[1:] + "."
    return None


def _own_unit(answer: str, rest: str) -> str:
    """The answer without a unit that the question names right behind: "bao nhiêu độ C" and "100 độ C"."""
    for size in (3, 2, 1):
        unit = " ".join(rest.split()[:size])
        if unit and answer.endswith(f" {unit}"):
            return answer.removesuffix(f" {unit}")
    return answer


def statements(item: Item) -> tuple[str, ...]:
    """What an item says when it is answered right, as far as it can be put as a statement."""
    match item:
        case Choice():
            return (filled(item.stem, item.options[item.key]) or f"{item.stem} {item.options[item.key]}",)
        case TrueFalse():
            return tuple(claim.text for claim in item.statements)
        case Short():
            return (filled(item.stem, _with_unit(item)) or f"{item.stem} {item.key}",)


def _with_unit(item: Short) -> str:
    named = item.unit is None or re.search(rf"(?:…|bao nhiêu)\s*{re.escape(item.unit)}(?!\w)", item.stem)
    return item.key if named else f"{item.key} {item.unit}"


class ItemGate:
    """Holds items against the passages they were made from and the items that are there already.

    Args:
        passages: what the items are about; nothing that they bear may be offered as wrong.
        existing: items that must not be asked again.
    """

    def __init__(self, passages: Sequence[Evidence], existing: Sequence[Item] = ()) -> None:
        self._passages = {passage.passage_id: passage for passage in passages}
        self._said = {passage.passage_id: _plain(passage.text) for passage in passages}
        self._grounders: dict[int, Grounder] = {}
        self._known: list[Item] = list(existing)

    def let_in(self, item: Item) -> tuple[str, ...]:
        """Why an item is refused, in Vietnamese; nothing, and it is one of those not to be repeated from now on."""
        reasons = tuple(dict.fromkeys(self._reasons(item)))
        if not reasons:
            self._known.append(item)
        return reasons

    def is_borne(self, statement: str, answer: str = "") -> bool:
        """Whether any of the passages bears a statement.

        Args:
            answer: the part that is in question. Grounding lets a word of a long sentence pass that the book does not
                have; of the answer every word has to stand where the book says so.
        """
        wanted = _plain(answer)
        return any(
            self._bears(passage_id, statement, wanted) for passage_id, said in self._said.items() if wanted in said
        )

    def _bears(self, passage_id: int, statement: str, wanted: str) -> bool:
        if passage_id not in self._grounders:
            self._grounders[passage_id] = Grounder("", [self._passages[passage_id]])
        checked = self._grounders[passage_id].check_sentence(statement)
        if checked is None or checked.status is not Status.SUPPORTED or checked.citation is None:
            return False
        quote = checked.citation.quote
        if _is_term(wanted):
            # Terms are told apart in neighbouring sentences of much the same words.
            spans = (quote[start:end] for start, end in sentence_spans(quote))
            return any(wanted in _plain(one) and _share(statement, one) >= _SAME for one in spans)
        # A row tells something of what its first cell names only.
        is_of_row = " | " not in quote or _plain(quote.strip("| ").split(" | ")[0]) in _plain(statement)
        return is_of_row and wanted in _plain(quote)

    def _reasons(self, item: Item) -> Iterator[str]:
        if isinstance(item, TrueFalse):
            yield from self._claims(item)
        else:
            yield from self._answers(item)
        for other in self._known:
            if repeats(item, other):
                yield f"trùng với câu đã có: “{other.stem[:80]}”"

    def _answers(self, item: Choice | Short) -> Iterator[str]:
        key = item.options[item.key] if isinstance(item, Choice) else _with_unit(item)
        statement = filled(item.stem, key)
        if statement is None:
            yield "không ghép được đáp án vào câu hỏi để đối chiếu; hãy hỏi bằng chỗ trống “…” hoặc một từ để hỏi"
            return
        yield from self._against(statement, item.evidence, "đáp án")
        if gives_away(item.stem, item.options[item.key] if isinstance(item, Choice) else item.key):
            yield "câu hỏi đã chứa đáp án"
        if isinstance(item, Choice):
            yield from self._others(item)

    def _others(self, item: Choice) -> Iterator[str]:
        for index, option in enumerate(item.options):
            if index != item.key:
                said = filled(item.stem, option)
                if said is not None and self.is_borne(said, _number_only(option)):
                    yield f"phương án {LETTERS[index]} cũng đúng theo sách"
            for other in item.options[:index]:
                if means_same(option, other):
                    yield f"hai phương án cùng nghĩa: “{other}” và “{option}”"

    def _claims(self, item: TrueFalse) -> Iterator[str]:
        for letter, claim in zip("abcd", item.statements, strict=True):
            if claim.truth:
                yield from self._against(claim.text, claim.evidence or item.evidence, f"ý {letter}")
            elif self.is_borne(claim.text, _changed(claim)):
                yield f"ý {letter} ghi là sai nhưng sách nói đúng như vậy"

    def _against(self, statement: str, evidence: QuizEvidence | None, what: str) -> Iterator[str]:
        passage = self._passages.get(evidence.passage_id) if evidence and evidence.passage_id is not None else None
        if evidence is None or passage is None:
            yield f"{what}: không dẫn đoạn sách nào đã cho"
        elif _gapless(evidence.quote) not in _gapless(passage.text):
            yield f"{what}: câu trích không có trong đoạn sách được dẫn"
        elif not self._bears(passage.passage_id, statement, ""):
            yield f"{what}: đoạn sách được dẫn không nói như vậy (“{statement[:120]}”)"


def _share(statement: str, sentence: str) -> float:
    held = set(words(sentence))
    told = [(word, weight(word)) for word in words(statement) if is_content(word)]
    return sum(weighs for word, weighs in told if word in held) / max(0.01, sum(weighs for _, weighs in told))


def _is_term(answer: str) -> bool:
    return bool(answer) and not any(character.isdecimal() for character in answer)


def _changed(claim: Claim) -> str:
    """The words of a false statement in which it differs from the sentence that it was made from."""
    if claim.evidence is None or " | " in claim.evidence.quote:
        return ""
    mine, its = _plain(claim.text).split(), _plain(claim.evidence.quote).split()
    changes = SequenceMatcher(None, mine, its, autojunk=False).get_opcodes()
    changed = [mine[start:end] for tag, start, end, _, _ in changes if tag != "equal" and end > start]
    # One stretch tells what was put in; with more it is another sentence, and grounding judges it as a whole.
    return " ".join(changed[0]) if len(changed) == 1 and len(changed[0]) <= 6 else ""


def _number_only(option: str) -> str:
    return number_and_unit(option)[0] if is_number(option) else option


def gives_away(stem: str, key: str) -> bool:
    """Whether a stem holds its key: the number, the whole term, or a word of the name."""
    listed = tokens(_BLANK.sub(" ", stem))
    if is_number(key):
        digits = r"(?<![\d.,/])[-−–]?\d+(?:[ \u00a0]\d{3})*(?:[.,/]\d+)*(?:[ \u00a0]\d{3})*"
        numbers = [number for number in re.findall(digits, _BLANK.sub("|", stem)) if is_number(number)]
        return any(mark_number(number, key) for number in numbers)
    named = [token.word for token in tokens(key)[1:] if token.is_capitalised]
    if named:
        named += [tokens(key)[0].word]
        return any(token.word in named and token.is_capitalised for token in listed)
    return f" {' '.join(words(fold(key)))} " in f" {' '.join(words(fold(stem)))} "


def means_same(one: str, two: str) -> bool:
    """Whether two options cannot both be wrong or right by themselves: one number, or one text within the other."""
    if is_number(one) and is_number(two):
        return mark_number(one, two)
    first, second = (f" {' '.join(words(fold(text)))} " for text in (one, two))
    return bool(first.strip()) and (first in second or second in first)


def repeats(one: Item, two: Item) -> bool:
    """Whether two items ask for the same, or the one tells the other's answer."""
    if one.id == two.id or _sources(one) & _sources(two):
        return True
    return any(_is_near(mine, its) for mine in statements(one) for its in statements(two))


def _sources(item: Item) -> set[str]:
    """The sentences of the book that it stands on; a row of a table can be asked for each of its cells."""
    pieces = [item.evidence, *(claim.evidence for claim in item.statements)] if isinstance(item, TrueFalse) else [
        item.evidence
    ]  # fmt: skip
    return {_gapless(piece.quote) for piece in pieces if piece is not None and " | " not in piece.quote}


def _is_near(one: str, two: str) -> bool:
    if _is_within(one, two) or _is_within(two, one):
        return True
    if _telling(one) != _telling(two):
        return False
    mine, its = shingles(one), shingles(two)
    return len(mine & its) >= _NEAR * len(mine | its)


def _is_within(short: str, long: str) -> bool:
    """Whether a statement says nothing that another one does not: the same number, and no other word that tells."""
    mine, its = set(_plain(short).split()), set(_plain(long).split())
    numbers = {word for word in mine if word.isdecimal()}
    return bool(numbers) and {word for word in mine if is_content(word)} <= its


def _telling(text: str) -> Counter[str]:
    """What makes two statements of one wording different: numbers, names, and rare words at the heart of short ones."""
    listed = tokens(text)
    is_short = len(listed) < 16
    return Counter(
        t.word
        for t in listed[1:]
        if t.is_number or t.is_capitalised or t.word in _NEGATIONS or (is_short and is_content(t.word))
    )


_NEGATIONS = frozenset({"không", "chưa", "chẳng"})


def _plain(text: str) -> str:
    """Words in one spelling, the thousands of a number joined; marks and case do not matter."""
    return " ".join(words(re.sub(r"(?<=\d)[ \u00a0\u202f](?=\d{3}(?!\d))", "", text)))


def _gapless(text: str) -> str:
    return re.sub(r"\s+", "", text)
