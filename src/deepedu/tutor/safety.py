"""Whether a pupil's message calls for an adult of the school rather than for a lesson, and what is answered then.

Rules in data (``safety_rules``), so that a counsellor can read and extend them, and no model has to be asked. They
tell the pupil's own voice from the third person of lessons: "em muốn chết" is a concern, "vì sao Lão Hạc muốn chết" is
literature. Where they cannot tell, they rather ask once too often: a missed cry for help is worse than a kind question.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deepedu.base.typed_text import TypedText
from deepedu.base.vietnamese import canonical_tone, fold
from deepedu.tutor.safety_rules import ConcernRule, Kind, Phrase, PhraseList, Piece, SafetyRules, Severity, Word

MAX_GAP_WORDS = 3
# A message that was pasted whole is a text of somebody else; its end is where a pupil adds words of their own.
MAX_CHARACTERS = 4000

# Single letters parted by signs are one word in disguise: "c.h.ế.t", "t-ự t-ử".
_TOKEN = re.compile(r"(?<![^\W_])[^\W\d_](?:[.*_\-]+[^\W\d_])+(?![^\W_])|[^\W_]+(?:['’][^\W_]+)*")
_STRETCHED = re.compile(r"(.)\1{2,}")
_STOP = re.compile(r"[.!?;\n…]")
_QUOTED = re.compile(r"[\"“«][^\"”»]*[\"”»]")


def _listed(spelled: str) -> frozenset[str]:
    return frozenset(spelled.split())


# Words that may stand between who speaks and what they say of themselves: "em thật sự chỉ muốn chết".
_FILLERS = _listed(
    "chỉ cũng rất thật sự thực đang đã sẽ sắp định hay luôn lại bây giờ giờ muốn nghĩ ước có từng cảm thấy chẳng cứ "
    "vẫn lúc nào hôm nay qua tối quá nhiều lần nói rằng là bảo nhắn toàn mới vừa tự nhiên tự dưng bỗng bị được phải "
    "dạy cô ạ thầy ơi mỗi ngày đêm khi không còn thì mà nên đôi thỉnh thoảng"
)
# "trẻ em", "các em", "nhân vật tôi" and "em trai" are not the pupil.
_NOT_BEFORE = _listed("trẻ tre các chị anh đàn vật vat những nhiều hai mấy cậu")
_NOT_AFTER = _listed("trai gái gai bé út họ nít dâu rể hãy")


@dataclass(frozen=True)
class Token:
    """A word of a message. ``begins``: a sentence or a clause begins with it; ``stop_before``: a sentence does."""

    word: str
    folded: str
    start: int
    end: int
    begins: bool
    stop_before: bool
    is_capitalised: bool


@dataclass(frozen=True)
class Match:
    rule: ConcernRule
    phrase: Phrase
    first: int
    last: int
    is_english: bool


@dataclass(frozen=True)
class Concern:
    """What a named adult of the school has to know.

    ``matched`` are the pupil's own words that told it, in their order; ``language`` is ``vi`` or ``en``.
    """

    kind: Kind
    severity: Severity
    matched: tuple[str, ...]
    language: str = "vi"

    @property
    def tells_adult(self) -> bool:
        """Whether an adult is told now. A check-in is only kept for the adult to read."""
        return self.severity > Severity.CHECK_IN


@dataclass(frozen=True)
class HelpLine:
    """A number to call. ``english`` is its name in English; ``for_emergencies``: named only when it is urgent."""

    name: str
    number: str
    english: str = ""
    for_emergencies: bool = False


# Source: Decree 56/2017/NĐ-CP: 111 is free and answers around the clock.
DEFAULT_HELP_LINES = (
    HelpLine(
        "Tổng đài quốc gia bảo vệ trẻ em (miễn phí, 24/24)", "111", "National child helpline (free, day and night)"
    ),
    HelpLine("Cấp cứu y tế", "115", "Ambulance", for_emergencies=True),
    HelpLine("Công an", "113", "Police", for_emergencies=True),
)


def assess(text: str, rules: SafetyRules) -> Concern | None:
    """Reads a message for signs that its writer, or somebody they know, is in danger.

    Returns:
        The gravest concern with all words that told of any, or None for a message that is none of this.
    """
    message = _Message.of(text, rules)
    matches = [match for match in _matches(message, rules) if _counts(match, message)]
    if not matches:
        return None
    gravest = max(matches, key=lambda m: (m.rule.severity, m.rule.kind is Kind.SELF_HARM))
    spans = sorted({(message.tokens[m.first].start, message.tokens[m.last].end) for m in matches})
    outer = [s for s in spans if not any(o != s and o[0] <= s[0] and s[1] <= o[1] for o in spans)]
    language = "en" if all(match.is_english for match in matches) else "vi"
    return Concern(gravest.rule.kind, gravest.rule.severity, tuple(message.quote(s) for s in outer), language)


@dataclass(frozen=True)
class _Message:
    typed: TypedText
    tokens: tuple[Token, ...]
    pupil: frozenset[int]
    quoted: tuple[tuple[int, int], ...]
    asks_lesson: bool
    is_lesson: bool

    @classmethod
    def of(cls, text: str, rules: SafetyRules) -> "_Message":
        typed = TypedText.of(text[-MAX_CHARACTERS:])
        tokens = tuple(_tokens(typed.text, rules))
        asking = {i for first, last in _found(rules.asking, tokens) for i in range(first, last + 1)}
        pupil = frozenset(
            i
            for i, token in enumerate(tokens)
            if i not in asking and any(_is_word(token, word) for word in rules.pupil) and _is_self(tokens, i)
        )
        quoted = tuple(match.span() for match in _QUOTED.finditer(typed.text))
        is_lesson = any(True for _ in _found(rules.subjects, tokens))
        asks = any(True for _ in _found(rules.questions, tokens))
        return cls(typed, tokens, pupil, quoted, asks and not pupil, is_lesson)

    def quote(self, span: tuple[int, int]) -> str:
        start, end = self.typed.span(*span)
        return self.typed.source[start:end]


def _tokens(text: str, rules: SafetyRules) -> list[Token]:
    found: list[Token] = []
    done = 0
    for match in _TOKEN.finditer(text):
        between = text[done : match.start()]
        typed = match.group().lower().replace("’", "'")
        if "'" not in typed:
            typed = _STRETCHED.sub(r"\1", re.sub(r"[.*_\-]", "", typed))
        spelled = rules.spelling.get(typed) or (canonical_tone(typed),)
        stops = _STOP.search(between) is not None
        begins = not found or stops or any(sign in between for sign in ',:("“«-')
        # Where everything is in capitals they make no name.
        is_capitalised = match.group()[0].isupper() and not match.group().isupper()
        for index, word in enumerate(spelled):
            is_first = index == 0
            place = (match.start(), match.end(), begins and is_first, stops and is_first, is_capitalised)
            found.append(Token(word, fold(word), *place))
        done = match.end()
    return found


def _is_self(tokens: Sequence[Token], index: int) -> bool:
    """Whether a word such as "em" stands for the pupil here."""
    token = tokens[index]
    before = tokens[index - 1].word if index and not token.begins else ""
    after = tokens[index + 1].word if index + 1 < len(tokens) else ""
    # "quân Minh": a capital inside a sentence makes a name of a word that is typed without its accents.
    is_name = token.is_capitalised and before != "" and token.word == token.folded == "minh"
    return before not in _NOT_BEFORE and after not in _NOT_AFTER and not is_name


def _is_word(token: Token, word: Word) -> bool:
    """The same word, or the same typed without any accent."""
    if token.word == word.spelling:
        return True
    return not word.exact and token.word == token.folded == word.folded


def _found(phrases: PhraseList, tokens: Sequence[Token]) -> Iterable[tuple[int, int]]:
    """First and last token of every place where one of the phrases stands."""
    for _, first, last in _places(phrases, tokens, frozenset(range(len(tokens)))):
        yield first, last


def _places(phrases: PhraseList, tokens: Sequence[Token], pupil: frozenset[int]) -> Iterable[tuple[Phrase, int, int]]:
    for first, token in enumerate(tokens):
        for phrase in phrases.by_opening.get(token.folded, ()):
            end = _end(phrase.pieces, tokens, first, first, pupil)
            if end is not None:
                yield phrase, first, end - 1


def _end(pieces: tuple[Piece, ...], tokens: Sequence[Token], at: int, first: int, pupil: frozenset[int]) -> int | None:
    """Where a phrase that begins at ``first`` ends, read from ``at`` on; None: it does not stand there."""
    if not pieces:
        return at
    piece, rest = pieces[0], pieces[1:]
    if not piece.choices:
        for skipped in range(MAX_GAP_WORDS + 1):
            if at + skipped > len(tokens) or any(t.stop_before for t in tokens[at : at + skipped]):
                return None
            end = _end(rest, tokens, at + skipped, first, pupil)
            if end is not None:
                return end
        return None
    for choice in piece.choices:
        stop = at + len(choice)
        if stop > len(tokens) or not all(map(_is_word, tokens[at:stop], choice)):
            continue
        if any(t.stop_before for i, t in enumerate(tokens[at:stop], at) if i > first):
            continue
        if piece.is_pupil and len(choice) == 1 and at not in pupil:
            continue
        end = _end(rest, tokens, stop, first, pupil)
        if end is not None:
            return end
    return _end(rest, tokens, at, first, pupil) if piece.is_optional else None


def _matches(message: _Message, rules: SafetyRules) -> Iterable[Match]:
    for rule in rules.concerns:
        for phrases, is_english in ((rule.phrases, False), (rule.english, True)):
            for phrase, first, last in _places(phrases, message.tokens, message.pupil):
                yield Match(rule, phrase, first, last, is_english)


def _counts(match: Match, message: _Message) -> bool:
    """Whether a phrase that was found is about the pupil or somebody they know, and means what it says."""
    for first, last in _found(match.rule.unless, message.tokens):
        if first <= match.last and match.first <= last:
            return False
    if message.is_lesson and _is_quoted(match, message):
        return False
    if not match.rule.needs_pupil or match.phrase.names_pupil:
        return True
    return _speaks_of_self(match, message) or not (
        message.is_lesson or message.asks_lesson or _follows_full_name(match, message)
    )


def _is_quoted(match: Match, message: _Message) -> bool:
    start = message.tokens[match.first].start
    return any(begin <= start < end for begin, end in message.quoted)


def _speaks_of_self(match: Match, message: _Message) -> bool:
    """Whether the pupil is the one the words are said of: "em thật sự chỉ …", "bạn thân em đang …"."""
    at = match.first
    while at > 0 and not message.tokens[at].begins:
        at -= 1
        if at in message.pupil:
            return True
        if message.tokens[at].word not in _FILLERS:
            return False
    return False


def _follows_full_name(match: Match, message: _Message) -> bool:
    """ "Hoàng Diệu tự vẫn": two capitals in a row are somebody of the lesson; a class mate is "bạn Lan"."""
    before = message.tokens[max(0, match.first - 2) : match.first]
    return len(before) == 2 and all(token.is_capitalised for token in before)


_CARE = {
    "vi": {
        Kind.SELF_HARM: "Cảm ơn em đã nói ra. Điều em vừa viết quan trọng hơn bài học, nên mình dừng bài ở đây. Em "
        "không "
        "phải chịu đựng một mình.",
        Kind.ABUSE: "Cảm ơn em đã nói ra, như thế là rất can đảm. Đây không phải lỗi của em, và không ai được phép làm "
        "em "
        "đau hay sợ. Mình dừng bài ở đây.",
        Kind.VIOLENCE: "Cảm ơn em đã nói ra. Chuyện này có thể làm em hoặc người khác bị thương, nên mình dừng bài ở "
        "đây. "
        "Em đừng tự giải quyết một mình.",
        Kind.BULLYING: "Cảm ơn em đã nói ra. Không ai đáng bị đối xử như vậy, và đây không phải lỗi của em. Mình dừng "
        "bài ở đây.",
    },
    "en": {
        Kind.SELF_HARM: "Thank you for saying this. What you just wrote matters more than the lesson, so let us stop "
        "here. "
        "You do not have to carry this alone.",
        Kind.ABUSE: "Thank you for saying this; it takes courage. It is not your fault, and nobody is allowed to hurt "
        "or "
        "frighten you. Let us stop the lesson here.",
        Kind.VIOLENCE: "Thank you for saying this. Somebody could get hurt, so let us stop the lesson here. Please do "
        "not "
        "try to settle this alone.",
        Kind.BULLYING: "Thank you for saying this. Nobody deserves to be treated like that, and it is not your fault. "
        "Let "
        "us stop the lesson here.",
    },
}
_CHECK_IN = {
    "vi": "Nghe như em đang rất mệt. Nếu chỉ là một câu than thì mình cùng nghỉ một chút rồi học tiếp. Còn nếu em thật "
    "sự "
    "thấy buồn hay không ổn, em hãy nói với một thầy cô hoặc người lớn mà em tin.",
    "en": "It sounds as if things are heavy right now. If it was only a sigh, let us take a short break and go on. If "
    "you "
    "really feel low, please talk to a teacher or another adult you trust.",
}
_TOLD = {
    "vi": "Một thầy cô phụ trách của trường sẽ được báo để giúp em.",
    "en": "An adult of the school who looks after this will be told, so that they can help you.",
}
_AT_ONCE = {
    "vi": "Nếu đang nguy hiểm, em hãy đến ngay bên một người lớn mà em tin.",
    "en": "If there is danger right now, please go to an adult you trust at once.",
}
_LINES = {"vi": "Em có thể gọi bất cứ lúc nào:", "en": "You can call at any time:"}


def care_answer(concern: Concern, help_lines: Sequence[HelpLine] = DEFAULT_HELP_LINES) -> str:
    """What the pupil reads instead of a lesson: warm, short, no question about details, nothing that instructs.

    Args:
        concern: what ``assess`` found.
        help_lines: the numbers that the school set, in the order in which they are shown.
    """
    language = concern.language
    is_urgent = concern.severity is Severity.URGENT
    parts = [_CARE[language][concern.kind], _TOLD[language]] if concern.tells_adult else [_CHECK_IN[language]]
    if is_urgent:
        parts.append(_AT_ONCE[language])
    lines = [line for line in help_lines if is_urgent or not line.for_emergencies]
    if lines:
        named = [f"- {(line.english if language == 'en' else '') or line.name}: {line.number}" for line in lines]
        parts.append("\n".join([_LINES[language], *named]))
    return "\n\n".join(parts)
