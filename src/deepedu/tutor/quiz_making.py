"""Quiz items made from a lesson: code picks a fact, blanks it and finds wrong answers; a model may word or propose.

Whatever comes out, of code or of a model, has to pass ``quiz_gate``. Without a model code alone does the work.
"""

import asyncio
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from deepedu.base.errors import BadRequest
from deepedu.llm.chat import ChatModel
from deepedu.search.evidence import Evidence
from deepedu.tutor.quiz import Choice, Claim, Item, QuizEvidence, Short, TrueFalse
from deepedu.tutor.quiz_facts import Fact, Sort, facts, lone_sentences, loose_terms
from deepedu.tutor.quiz_gate import ItemGate, gives_away
from deepedu.tutor.quiz_writer import QuizWriter, wording_fault
from deepedu.tutor.quiz_wrong import altered, in_order, is_alike_term, likeliest, wrong_answers

Kind = Literal["choice", "true_false", "short"]
Maker = Literal["code", "model"]

_ASKED: dict[Sort, str] = {"number": "số", "year": "năm", "date": "ngày, tháng, năm", "term": "từ ngữ",
                           "person": "tên người", "place": "địa danh"}  # fmt: skip
# How many cells of a table's column are asked for at most: reading off a table is one skill.
_CELLS = 3
# Of a true/false item at least one statement is true and one is false.
_TRUE = (1, 2, 3)


@dataclass(frozen=True)
class Refused:
    """An item that was not taken, with everything that speaks against it, in Vietnamese."""

    text: str
    reasons: tuple[str, ...]
    by: Maker


@dataclass(frozen=True)
class MakingResult:
    """``worded``: how many of ``items`` ask with a model's question; ``proposed``: how many are a model's own."""

    items: tuple[Item, ...]
    refused: tuple[Refused, ...]
    worded: int = 0
    proposed: int = 0


async def make_items(
    model: ChatModel | None,
    passages: Sequence[Evidence],
    *,
    kind: Kind,
    count: int,
    existing: Sequence[Item] = (),
    book: Sequence[Evidence] = (),
    digests: Mapping[int, str] | None = None,
    seed: int | str = 0,
) -> MakingResult:
    """Up to ``count`` items of one kind about ``passages``; fewer when they hold no more that can be checked.

    A model that fails is asked no more; what code makes does not depend on it.

    Args:
        model: words questions, and proposes items where code finds no more; None: code alone.
        passages: a lesson.
        existing: items not to be asked again, and whose answers no new one may tell.
        book: the book's other passages, to take wrong answers from and to hold them against.
        digests: SHA-256 of each book's document by book id, for the evidence.
        seed: another one gives other items.

    Raises:
        BadRequest: no passages, or a count below one.
    """
    if not passages or count < 1:
        raise BadRequest(f"cần ít nhất một đoạn sách và một câu, nhận được {len(passages)} đoạn, {count} câu")
    # Reading the book and grounding take their time: not on the thread that serves others.
    maker = await asyncio.to_thread(_Maker, passages, book, existing, digests or {}, seed)
    writer = QuizWriter(model) if model is not None else None
    drafts = maker.drafts(kind)
    while len(maker.items) < count:
        draft = await asyncio.to_thread(next, drafts, None)
        if draft is None:
            break
        item, fact = draft
        if writer is None or fact is None or fact.is_row or not await maker.offer_worded(writer, item, fact):
            await asyncio.to_thread(maker.offer, item, "code")
    if writer is not None:
        await _propose(writer, maker, kind, count)
    by = [each for each in maker.made_by if each == "model"]
    return MakingResult(tuple(maker.items), tuple(maker.refused), maker.worded, len(by) - maker.worded)


async def _propose(writer: QuizWriter, maker: "_Maker", kind: Kind, count: int) -> None:
    for passage in maker.passages:
        if len(maker.items) >= count:
            return
        if passage.is_exercise:
            continue
        for item, reason in await writer.proposals(passage, kind, maker.evidence):
            if item is None:
                maker.refused.append(Refused(reason, ("không đọc được câu hỏi mà mô hình viết",), "model"))
            elif len(maker.items) < count:
                await asyncio.to_thread(maker.offer, item, "model")


@dataclass
class _Maker:
    passages: Sequence[Evidence]
    book: Sequence[Evidence]
    existing: Sequence[Item]
    digests: Mapping[int, str]
    seed: int | str
    items: list[Item] = field(default_factory=list)
    made_by: list[Maker] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    worded: int = 0

    def __post_init__(self) -> None:
        everything = {passage.passage_id: passage for passage in (*self.passages, *self.book)}
        self.gate = ItemGate(tuple(everything.values()), self.existing)
        known = facts(everything.values())
        self.pool = [*known, *loose_terms(everything.values())]
        own = {passage.passage_id for passage in self.passages}
        self.facts = [fact for fact in known if fact.passage.passage_id in own]

    def offer(self, item: Item, by: Maker) -> bool:
        if reasons := self.gate.let_in(item):
            self.refused.append(Refused(_text(item), reasons, by))
            return False
        self.items.append(item)
        self.made_by.append(by)
        return True

    async def offer_worded(self, writer: QuizWriter, item: Item, fact: Fact) -> bool:
        """Offers an item with a model's question in the place of the blank; False where there is none that will do."""
        question = await writer.question(fact)
        if question is None:
            return False
        if (fault := wording_fault(question, fact)) is not None:
            self.refused.append(Refused(question, (fault,), "model"))
            return False
        is_in = self.offer(item.model_copy(update={"stem": question}), "model")
        self.worded += is_in
        return is_in

    # --- Drafts ------------------------------------------------------------------------------------------------------

    def drafts(self, kind: Kind) -> Iterator[tuple[Item, Fact | None]]:
        """Items that code makes; a sentence is asked once."""
        if kind == "true_false":
            yield from ((item, None) for item in self._true_false())
            return
        for fact in self._in_turn():
            if not gives_away(fact.blanked, fact.key):
                item = self._short(fact) if kind == "short" else self._choice(fact)
                if item is not None:
                    yield item, fact

    def _in_turn(self) -> list[Fact]:
        """The facts drawn, every sentence's first before any second; a table's column gives two a turn."""
        turns: dict[str, int] = {}
        ranked: list[tuple[int, bytes, Fact]] = []
        for fact in sorted(self.facts, key=lambda each: self.draw(each.said, each.key)):
            source = fact.group if fact.is_row else fact.quote
            turn = turns[source] = turns.get(source, -1) + 1
            if not fact.is_row or turn < _CELLS:
                ranked.append((turn // 2 if fact.is_row else turn, self.draw(fact.said, fact.key), fact))
        return [fact for _, _, fact in sorted(ranked, key=lambda each: each[:2])]

    def _short(self, fact: Fact) -> Short | None:
        if fact.sort in ("person", "place", "date"):
            return None  # Hooke or Robert Hooke: more than one spelling is right. And a day is no test of knowledge.
        unit = fact.unit if fact.is_row else None
        return Short(stem=_stem(fact), key=fact.key, unit=unit, **self._about(fact))

    def _choice(self, fact: Fact) -> Choice | None:
        wrong = self._wrong(fact)
        if len(wrong) < 3:
            self.refused.append(Refused(fact.blanked, ("sách không có đủ ba phương án sai cùng loại",), "code"))
            return None
        options = in_order(fact, wrong, self.draw)
        texts = tuple(f"{option} {fact.unit}" if fact.is_row else option for option in options)
        return Choice(stem=_stem(fact), options=texts, key=options.index(fact.key), **self._about(fact))

    def _wrong(self, fact: Fact) -> list[str]:
        return wrong_answers(fact, self.pool, lambda said, answer: not self.gate.is_borne(said, answer), self.draw)

    def _true_false(self) -> Iterator[TrueFalse]:
        """Four sentences at a time, drawn; some with one thing changed."""
        lesson = self.passages[0].lesson
        place = f"bài “{re.sub(r'^Bài [^.:]*[.:] *', '', lesson)}”" if lesson else "sách"
        stem = f"Dựa vào {place}, mỗi phát biểu sau đây đúng hay sai?"
        waiting: list[tuple[Claim, Claim]] = []
        for passage, quote, said in self._sentences():
            evidence = self.evidence(passage, quote)
            # A sentence that nothing can be changed in says little that could be doubted.
            if (false := self._false(said)) is None:
                continue
            true = Claim(text=said, truth=True, evidence=evidence)
            waiting.append((true, Claim(text=false, truth=False, evidence=evidence)))
            if len(waiting) == 4:
                pattern = self._pattern([true.text for true, _ in waiting])
                claims = tuple(pair[0] if is_true else pair[1] for pair, is_true in zip(waiting, pattern, strict=True))
                waiting = []
                yield TrueFalse(stem=stem, statements=claims, skill=lesson or "", explanation=_corrections(claims))

    def _sentences(self) -> list[tuple[Evidence, str, str]]:
        """Passage, quote, and what it says: sentences that stand alone and a few cells of tables."""
        found = [(passage.evidence, sentence.text, said) for passage, sentence, said in lone_sentences(self.passages)]
        found += [(fact.passage, fact.quote, fact.said) for fact in self._in_turn() if fact.is_row]
        return sorted(found, key=lambda each: self.draw("claim", each[2]))

    def _false(self, said: str) -> str | None:
        of_it = [fact for fact in self.facts if fact.said == said]
        for fact in sorted(of_it, key=lambda each: self.draw("false", each.said, each.key)):
            for wrong in likeliest(fact, self._wrong(fact)):
                if is_alike_term(fact, wrong):
                    return fact.with_key(wrong)
        return next((one for one in altered(said, self.draw) if not self.gate.is_borne(one)), None)

    def _pattern(self, texts: Sequence[str]) -> list[bool]:
        true = _TRUE[self.draw("pattern", *texts)[0] % len(_TRUE)]
        places = sorted(range(len(texts)), key=lambda index: self.draw("place", texts[index]))[:true]
        return [index in places for index in range(len(texts))]

    def _about(self, fact: Fact) -> dict[str, Any]:
        said = fact.said if fact.is_row else " ".join(fact.quote.split())
        evidence = self.evidence(fact.passage, fact.quote)
        label = fact.passage.page_labels.get(evidence.page, str(evidence.page))
        page = f" (trang {label})" if fact.passage.has_pages else ""
        return {"evidence": evidence, "skill": fact.passage.lesson or "", "explanation": f"Sách viết: “{said}”{page}"}

    def evidence(self, passage: Evidence, quote: str) -> QuizEvidence:
        page = passage.place_of(max(0, passage.text.find(quote)))[0]
        book = self.digests.get(passage.book_id, "")
        return QuizEvidence(book=book, page=page, quote=quote, passage_id=passage.passage_id)

    def draw(self, *parts: object) -> bytes:
        return hashlib.sha256("\x00".join(map(str, (self.seed, *parts))).encode()).digest()


def _stem(fact: Fact) -> str:
    if fact.is_row:
        said = fact.said[: fact.start].removesuffix(" ")
        place = f"{fact.table} của bài" if fact.passage.lesson else f"{fact.table} trong sách"
        return f"Theo {place}, {said[:1].lower()}{said[1:]} bao nhiêu?"
    return f"Điền {_ASKED[fact.sort]} thích hợp vào chỗ trống: “{fact.blanked}”"


def _corrections(claims: Sequence[Claim]) -> str:
    false = [(letter, claim) for letter, claim in zip("abcd", claims, strict=True) if not claim.truth]
    return "\n".join(
        f"{letter}) Sách viết: “{' '.join(c.evidence.quote.split())}”" for letter, c in false if c.evidence
    )


def _text(item: Item) -> str:
    said = [claim.text for claim in item.statements] if isinstance(item, TrueFalse) else []
    return " ".join([item.stem, *said])
