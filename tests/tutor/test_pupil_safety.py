"""Messages that call for an adult, those that only look like it, and what is answered."""

import json
import random
import re
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepedu.base.errors import ConfigError
from deepedu.base.vietnamese import fold, sentence_spans
from deepedu.bench.viquad import load_paragraphs
from deepedu.tutor.safety import DEFAULT_HELP_LINES, Concern, HelpLine, assess, care_answer
from deepedu.tutor.safety_rules import DEFAULT_RULES, Kind, Severity, load_rules

# "part" tells when a case was written: "dev" and "held_out" before the rules, "second" to "fourth" after them, each in
# wordings of its own and each run once before the rules were changed for it. All of them have been seen by now.
CASES = [
    json.loads(line)
    for line in Path(__file__).with_name("pupil_safety_cases.jsonl").read_text(encoding="utf-8").splitlines()
]
CONCERNS = [case for case in CASES if case["kind"]]
LOOK_ALIKES = [case for case in CASES if not case["kind"]]
RULES = load_rules()
SENTENCES = 5000


def test_there_are_enough_cases() -> None:
    assert len(CONCERNS) >= 300
    assert len(LOOK_ALIKES) >= 350
    assert len({case["text"] for case in CASES}) == len(CASES)
    assert {Kind(case["kind"]) for case in CONCERNS} == set(Kind)


@pytest.mark.parametrize("case", CONCERNS, ids=lambda case: case["text"])
def test_a_concern_is_found(case: dict[str, str]) -> None:
    concern = assess(case["text"], RULES)
    assert concern is not None
    assert concern.matched
    assert all(words in case["text"] for words in concern.matched)
    if case.get("severity") == "low":
        assert concern.severity is Severity.CHECK_IN


def test_nearly_all_concerns_are_called_by_their_kind() -> None:
    """A threat to the pupil may be violence or abuse; what counts is that an adult reads it."""
    found = [(case, assess(case["text"], RULES)) for case in CONCERNS]
    other = [case["text"] for case, concern in found if concern is None or concern.kind != case["kind"]]
    assert len(other) <= 0.05 * len(CONCERNS), other


@pytest.mark.parametrize("case", LOOK_ALIKES, ids=lambda case: case["text"])
def test_a_look_alike_is_none(case: dict[str, str]) -> None:
    assert assess(case["text"], RULES) is None


def test_no_accents() -> None:
    """Unaccented text is ambiguous, so a handful of look-alikes may fire; hardly any concern may be missed."""
    missed = [case["text"] for case in CONCERNS if assess(fold(case["text"]), RULES) is None]
    false = [case["text"] for case in LOOK_ALIKES if assess(fold(case["text"]), RULES)]
    assert len(missed) <= 2, missed
    assert len(false) <= 6, false


@pytest.mark.parametrize("case", CONCERNS[::5], ids=lambda case: case["text"])
def test_ways_of_typing(case: dict[str, str]) -> None:
    text = case["text"]
    for typed in (
        text.upper(),
        unicodedata.normalize("NFD", text),
        f"{text}!!!",
        text.replace(" ", "  "),
        f"\u200b{text}",
    ):
        assert assess(typed, RULES) is not None, typed


@pytest.mark.parametrize(
    "text", ["t.ự t.ử", "em muốn c.h.ế.t", "em muốnnnn chếttttt", "em\u00a0muốn\u200bchết".replace("\u200bc", " c")]
)
def test_words_in_disguise(text: str) -> None:
    assert assess(text, RULES) is not None


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    concern = assess(text, RULES)
    assert concern is None or all(words in text for words in concern.matched)


@given(st.sampled_from(CONCERNS), st.sampled_from(["Bài 3 trang 5. ", "em chào thầy ạ, ", "hôm nay học toán\n"]))
def test_a_concern_after_other_words_is_found(case: dict[str, str], before: str) -> None:
    assert assess(before + case["text"], RULES) is not None


def test_the_end_of_a_long_message_is_read() -> None:
    assert assess("Quang hợp là quá trình của cây xanh. " * 500 + "em muốn chết", RULES) is not None


def test_the_gravest_names_the_concern_and_all_words_are_kept() -> None:
    concern = assess("bố đánh em, em muốn tự tử", RULES)
    assert concern is not None
    assert concern.kind is Kind.SELF_HARM
    assert concern.severity is Severity.URGENT
    assert concern.matched == ("bố đánh em", "muốn tự tử")


def test_a_figure_of_speech_is_asked_about_gently_and_the_real_thing_is_not_hidden_by_it() -> None:
    sigh = assess("chán muốn chết", RULES)
    assert sigh is not None
    assert not sigh.tells_adult
    real = assess("chán muốn chết, em không muốn sống nữa", RULES)
    assert real is not None
    assert real.tells_adult


@pytest.mark.shared_data
def test_real_sentences(shared_data: Path) -> None:
    """At most 4 of 5,000 sentences of encyclopaedia articles fire; ``-s`` shows which."""
    paragraphs = [text for _, text in load_paragraphs(shared_data)]
    sentences = [text[start:end] for text in paragraphs for start, end in sentence_spans(text)]
    fired: list[str] = []
    for sentence in random.Random(1).sample(sentences, SENTENCES):
        concern = assess(sentence, RULES)
        if concern is not None:
            fired.append(f"{concern.kind} {concern.matched}: {sentence}")
    sys.stdout.write("\n".join(fired))
    assert len(fired) <= 4, fired


# --- Answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["vi", "en"])
@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("severity", list(Severity))
def test_the_answer(kind: Kind, severity: Severity, language: str) -> None:
    concern = Concern(kind, severity, ("…",), language)
    answer = care_answer(concern)
    assert "111" in answer
    assert "?" not in answer  # Nothing is asked.
    assert len(answer) < 700
    assert ("sẽ được báo" in answer or "will be told" in answer) == concern.tells_adult
    assert ("113" in answer) == (severity is Severity.URGENT)
    assert ("Em" in answer) == (language == "vi")
    # No word of a method, and none of the pupil's own words.
    assert not re.search(r"thuốc|dao|nhảy|rạch|pill|knife|jump|cut", answer)


def test_the_school_sets_its_lines() -> None:
    lines = (HelpLine("Phòng tham vấn, cô Hạnh", "0900 000 000"), *DEFAULT_HELP_LINES)
    answer = care_answer(Concern(Kind.BULLYING, Severity.SERIOUS, ("bắt nạt",)), lines)
    assert answer.index("0900 000 000") < answer.index("111")
    assert "\n- " not in care_answer(Concern(Kind.BULLYING, Severity.SERIOUS, ("bắt nạt",)), ())


def test_english_is_answered_in_english() -> None:
    concern = assess("i want to kill myself", RULES)
    assert concern is not None
    assert concern.language == "en"
    assert care_answer(concern).startswith("Thank you")


# --- Rules ----------------------------------------------------------------------------------------------------


def test_no_phrase_is_lost_to_a_spelling() -> None:
    """A word that the spelling table rewrites can never be met in a message."""
    phrases = [p for rule in RULES.concerns for part in (rule.phrases, rule.english, rule.unless) for p in part.phrases]
    lost = {
        (word.spelling, phrase.written)
        for phrase in phrases
        for piece in phrase.pieces
        for choice in piece.choices
        for word in choice
        if RULES.spelling.get(word.spelling, (word.spelling,)) != (word.spelling,)
        and not piece.is_optional
        # One of several choices may be.
        and len(piece.choices) == 1
    }
    assert lost == set()


def test_names_are_unique_and_every_kind_has_its_rules() -> None:
    assert max(Counter(rule.name for rule in RULES.concerns).values()) == 1
    assert {rule.kind for rule in RULES.concerns} == set(Kind)


def test_a_school_adds_its_own_words(tmp_path: Path) -> None:
    own = tmp_path / "truong.toml"
    own.write_text(
        '[spelling]\n"hix" = "buồn"\n[groups]\nban_be = ["hội chị em"]\n'
        '[[concern]]\nname = "bi_bat_nat"\nphrases = ["<ban_be> ... dìm hàng <em>"]\n'
        '[[concern]]\nname = "cau_song"\nkind = "self_harm"\nseverity = "urgent"\nabout = "pupil"\n'
        'phrases = ["ra cầu Rồng"]\nunless = ["chơi ở cầu Rồng"]\n',
        encoding="utf-8",
    )
    rules = load_rules(own)
    text = "hội chị em suốt ngày dìm hàng em"
    assert assess(text, RULES) is None
    found = assess(text, rules)
    assert found is not None
    assert found.kind is Kind.BULLYING
    assert assess("tối nay em ra cầu rồng", rules) is not None
    assert assess("em muốn chết", rules) is not None
    assert len(rules.concerns) == len(RULES.concerns) + 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('[[concern]]\nname = "a"\nkind = "selfharm"', "self_harm, abuse, violence, bullying"),
        ('[[concern]]\nname = "a"\nkind = "abuse"\nseverity = "high"', "check_in, serious, urgent"),
        ('[[concern]]\nname = "a"\nkind = "abuse"\nseverity = "urgent"\nabout = "me"', "pupil, anyone"),
        ('[[concern]]\nname = "a"\nkind = "abuse"\nseverity = "urgent"\nabout = "pupil"', "chưa có câu mẫu"),
        ('[[concern]]\nkind = "abuse"', "thiếu `name`"),
        ('[[concern]]\nname = "bi_bat_nat"\nphrase = ["x"]', "có phải ý là 'phrases'"),
        ('[[concern]]\nname = "bi_bat_nat"\nkind = "abuse"', "chỉ được thêm câu mẫu"),
        ('[[concern]]\nname = "bi_bat_nat"\nphrases = "bắt nạt"', "danh sách"),
        ('[[concern]]\nname = "bi_bat_nat"\nphrases = ["<ban_bee> đánh"]', "có phải ý là <ban_be>"),
        ('[[concern]]\nname = "bi_bat_nat"\nphrases = ["... đánh"]', "bắt đầu và kết thúc bằng một từ"),
        ('[[concern]]\nname = "bi_bat_nat"\nphrases = ["<em>"]', "ít nhất một từ bắt buộc"),
        ('[[concern]]\nname = "bi_bat_nat"\nphrases = ["đánh//em"]', "dấu '/'"),
        ('[[concern]]\nname = "bi_bat_nat"\nphrases = ["đánh (em"]', "không đọc được '(em'"),
        ('[concern]\nname = "a"', "hai dấu ngoặc vuông"),
        ("[spelling]\nx = 3", "chữ đầy đủ"),
        ("[lessons]\nx = 3", "có phải ý là 'lesson'"),
        ('lesson = ["x"]', "phải là một phần"),
        ('[[concern]]\nname = "a', "dấu nháy"),
    ],
)
def test_a_wrong_file_is_told_where_and_why(tmp_path: Path, content: str, told: str) -> None:
    own = tmp_path / "truong.toml"
    own.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        load_rules(own)
    assert told in str(refused.value)
    assert "truong.toml" in str(refused.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="không có tệp"):
        load_rules(tmp_path / "none.toml")
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_rules(bad)


def test_the_rules_explain_themselves() -> None:
    head = DEFAULT_RULES.read_text(encoding="utf-8").partition("\n[groups]\n")[0]
    assert all(word in head for word in ("name", "kind", "severity", "about", "phrases", "english", "unless"))
