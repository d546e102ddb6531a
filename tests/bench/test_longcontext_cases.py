"""The generators: exact length, unambiguous facts, the same from the same seed, in both languages."""

import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from deepedu.base.errors import Unsupported
from deepedu.bench.longcontext import common_words, key_value, longbench_v2, lost_in_the_middle, needles, variables
from deepedu.bench.longcontext.case import LANGUAGES, Case, Language, Order
from deepedu.bench.longcontext.fill import fill
from deepedu.bench.longcontext.groups import GROUPS, TASKS
from deepedu.bench.longcontext.haystack import made_sentences
from deepedu.bench.longcontext.lexicon import key_names
from deepedu.bench.longcontext.scoring import score

MADE = [group for group in GROUPS if group.languages == LANGUAGES]


def count(text: str) -> int:
    """Words, and every digit and sign on its own: near to what a real tokenizer does."""
    return len(re.findall(r"[^\W\d]{1,6}|\d|[^\w\s]", text))


def order(language: Language = "en", length_tokens: int = 3000, **changes: object) -> Order:
    return Order(language, length_tokens, count, **changes)  # type: ignore[arg-type]


def made(language: Language, length_tokens: int = 3000, **changes: object) -> list[Case]:
    return [case for group in MADE for case in group.generate(order(language, length_tokens, **changes))]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("length_tokens", [800, 3777, 16000])
def test_contexts_are_as_long_as_asked_and_never_longer(language: Language, length_tokens: int) -> None:
    cases = made(language, length_tokens)
    assert {case.task for case in cases} == {task for group in MADE for task in group.tasks}
    for case in cases:
        # A pair of identifiers has 80 tokens here and cannot be cut.
        slack = 90 if case.task == "key_value" else 0.02 * length_tokens
        assert length_tokens - slack <= count(case.context) <= length_tokens, case.task


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_answer_stands_in_its_context_at_the_depth_that_is_told(language: Language) -> None:
    for case in made(language):
        assert case.questions
        for question in case.questions:
            for answer, depth in zip(question.answers, question.depths, strict=bool(question.depths)):
                assert answer in case.context
                if case.task not in ("passkey", "number_string", "variable_tracking"):
                    assert case.context.count(answer) == 1
                if case.task != "variable_tracking":
                    near = int(depth * len(case.context))
                    assert answer in case.context[max(0, near - 120) : near + 200], (case.task, answer, depth)
            assert score(f"{question.prefix} {', '.join(question.answers)}.", question) == 1
            assert score(f"{question.prefix}", question) == 0, question


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_needles_are_spread_over_the_whole_context(language: Language) -> None:
    cases = needles.generate(order(language, 8000, questions=50))
    depths = [depth for case in cases for question in case.questions for depth in question.depths]
    for tenth in range(10):
        assert any(tenth / 10 <= depth <= (tenth + 1) / 10 for depth in depths), tenth


def test_no_question_has_two_answers() -> None:
    for language in LANGUAGES:
        cases = {case.task: case for case in needles.generate(order(language, 8000, questions=50))}
        asked = [question.text for case in cases.values() for question in case.questions if len(question.answers) == 1]
        assert len(asked) == len(set(asked))
        one_of_four = cases["needle_multi_value"].questions[0]
        assert len(set(one_of_four.answers)) == needles.VALUES_PER_KEY
        # All cases of the group are over one context, so it has to be read only once.
        assert len({case.context for case in cases.values()}) == 1


def test_no_key_is_part_of_another() -> None:
    for language in LANGUAGES:
        names = key_names(language, random.Random(0), 1900)
        assert len(set(names)) == 1900
        joined = "|".join(f" {name} " for name in names)
        assert all(joined.count(f" {name} ") == 1 for name in names)


def test_the_same_seed_gives_the_same_cases_and_another_gives_others() -> None:
    assert made("vi", seed="1") == made("vi", seed="1")
    for first, other in zip(made("vi", seed="1"), made("vi", seed="2"), strict=True):
        assert first.context != other.context


@pytest.mark.parametrize("language", LANGUAGES)
def test_made_prose_varies_and_holds_no_number_that_looks_like_a_needle(language: Language) -> None:
    sentences = made_sentences(language, random.Random(3))
    drawn = [next(sentences) for _ in range(2000)]
    assert len(set(drawn)) > 1500
    assert not re.search(r"\d{5}", "".join(drawn))
    assert not re.search(r"[{}]", "".join(drawn))


def test_variables_are_assigned_before_they_are_used() -> None:
    (case,) = variables.generate(order(length_tokens=3000))
    assigned: dict[str, str] = {}
    for name, source in re.findall(r"VAR ([A-Z]{5}) = (?:VAR )?(\w+)\.", case.context):
        assert name not in assigned
        assigned[name] = source if source.isdigit() else assigned[source]
    for question in case.questions:
        value = next(value for value in assigned.values() if f" {value} " in question.text)
        assert {name for name, held in assigned.items() if held == value} == set(question.answers)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("length_tokens", [800, 9000])
def test_common_words_are_the_most_common_ones_of_their_list_and_in_no_other(
    language: Language, length_tokens: int
) -> None:
    (case,) = common_words.generate(order(language, length_tokens))
    _, *lists = re.split(r"\n\n.*:\n", case.context)
    assert len(lists) == len(case.questions) == max(1, length_tokens // 2000)
    for listed, question in zip(lists, case.questions, strict=True):
        times = Counter(listed.removesuffix(", ").split(", "))
        ranked = times.most_common()
        assert {name for name, _ in ranked[:10]} == set(question.answers)
        assert ranked[9][1] > ranked[10][1]
        others = " ".join(other for other in lists if other is not listed)
        assert not any(f"{name}," in others for name in question.answers)


def test_a_key_value_context_is_json_that_holds_the_answers() -> None:
    (case,) = key_value.generate(order(length_tokens=2000))
    pairs = json.loads(case.context[case.context.index("{") :])
    for question in case.questions:
        key = re.findall(r'"([-0-9a-f]{36})"', question.text)[0]
        assert question.answers == (pairs[key],)


def test_filling_does_not_count_the_whole_again_for_every_piece() -> None:
    counted = 0

    def counting(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return count(text)

    filled = fill("Head.", made_sentences("en", random.Random(0)), counting, 20_000, needles=[" Needle 7."])
    assert counted < 8 * len(filled.text)


def test_pieces_that_tokenise_shorter_together_are_made_up_for() -> None:
    def merging(text: str) -> int:
        return len(re.sub(r"(ab)+", "x", text))

    assert merging(fill("h", iter(["ab", "c"] * 500), merging, 100).text) == 100
    with pytest.raises(Unsupported, match="too short"):
        fill("a long head", [], len, 5)


def test_sample_sets_that_are_absent_say_so(tmp_path: Path) -> None:
    for generate in (
        lost_in_the_middle.generate_key_value,
        lost_in_the_middle.generate_open,
        longbench_v2.generate,
    ):
        for data_dir in (None, tmp_path):
            with pytest.raises(Unsupported, match="not among the shared data"):
                generate(order(data_dir=data_dir))


@pytest.mark.shared_data
def test_the_real_sample_sets_give_questions_that_can_be_answered(shared_data: Path) -> None:
    long = order(length_tokens=16000, data_dir=shared_data)
    for group in GROUPS:
        if "en" in group.languages and group.languages != LANGUAGES:
            for case in group.generate(long):
                assert case.task in TASKS
                assert count(case.context) <= 16000
                for question in case.questions:
                    if question.match == "any":
                        assert score(case.context, question) == 1
                    elif question.match == "all":
                        assert all(answer in case.context for answer in question.answers)
    with pytest.raises(Unsupported, match="fits into 400"):
        longbench_v2.generate(order(length_tokens=400, data_dir=shared_data))


@pytest.mark.shared_data
def test_vietnamese_needles_lie_in_real_paragraphs_where_there_are_some(shared_data: Path) -> None:
    real, made_up = (needles.generate(order("vi", data_dir=folder)) for folder in (shared_data, None))
    assert real[0].context != made_up[0].context
    for case in real:
        for question in case.questions:
            for answer in question.answers:
                assert case.context.count(answer) == 1
