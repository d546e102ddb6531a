"""The grounding bench: its own judgement, and a run from questions to figures."""

import pytest
from rich.console import Console

from deepedu.base.config import Settings
from deepedu.base.errors import ConfigError
from deepedu.bench.run import run_bench
from deepedu.bench.tasks.grounding import false_support, holds_answer
from deepedu.search.evidence import Evidence
from deepedu.tutor.answer import CheckedSentence, Citation, Status
from loopback_model import Endpoint

TEXT = "Năm 1742, nhà thiên văn Anders Celsius đề xuất thang nhiệt độ. Khối lượng riêng là 1 000 kg/m³ từ thế kỉ XV."
PASSAGE = Evidence(7, 1, "Sách", "Chương I", "Bài 2. Đo nhiệt độ", TEXT, 1, 1, ((0, len(TEXT), 1, 0),))


def sentence(text: str, passage_id: int = 7) -> CheckedSentence:
    place = Citation(1, passage_id, 1, "Sách", None, None, 1, "1", True, TEXT, 0, len(TEXT), 0)
    return CheckedSentence(text, Status.SUPPORTED, place, 1.0)


@pytest.mark.parametrize(
    "text",
    [
        "Anders Celsius đề xuất thang nhiệt độ năm 1742.",
        "Khối lượng riêng là 1000 kg/m³.",
        "Khối lượng riêng là 1.000 kg/m³.",
        "Từ thế kỉ 15, người ta đã biết.",
        "Trong Đo nhiệt độ, Celsius được nhắc tới.",
    ],
)
def test_what_the_passage_holds_is_not_called_false(text: str) -> None:
    assert false_support(sentence(text), [PASSAGE]) == []


@pytest.mark.parametrize(
    ("text", "strange"),
    [
        ("Anders Celsius đề xuất thang nhiệt độ năm 1752.", "1752"),
        ("Khối lượng riêng là 10 000 kg/m³.", "10 000"),
        ("Năm 1742, Isaac Newton đề xuất thang nhiệt độ.", "Isaac Newton"),
        ("Năm 1742, ông sống ở Uppsala.", "Uppsala"),
    ],
)
def test_a_number_or_name_of_its_own_is_found(text: str, strange: str) -> None:
    assert false_support(sentence(text), [PASSAGE]) == [strange]


def test_a_citation_of_nothing_is_false() -> None:
    assert false_support(sentence("Đúng.", passage_id=8), [PASSAGE]) != []


@pytest.mark.parametrize(
    ("text", "answers", "expected"),
    [
        ("Đó là Anders Celsius.", ["anders celsius"], True),
        ("Nặng 1 000 kg.", ["1000 kg"], True),
        ("Nặng 21 000 kg.", ["1 000 kg"], False),
        ("Vào năm 1742.", ["1742", "1743"], True),
        ("Chất chuyển từ thể rắn sang lỏng.", ["chuyển từ thể rắn sang thể lỏng"], True),
        ("Chất chuyển từ thể lỏng.", ["chuyển từ thể rắn sang thể khí"], False),
        ("", ["1742"], False),
    ],
)
def test_accepted_answers(text: str, answers: list[str], expected: bool) -> None:
    assert holds_answer(text, answers) is expected


def run(endpoint: Endpoint, cache: str, **options: str) -> dict[str, float]:
    settings = Settings.model_validate(
        {"llm": {"url": endpoint.url}, "search": {"dense": "off"}, "engine": {"cache_dir": cache}}
    )
    options = {"sets": "sample", **options}
    record = run_bench("grounding", settings, quick=True, options=options, console=Console(quiet=True))
    assert record["details"]["replies_asked"] + record["details"]["replies_kept"] > 0
    return {**record["figures"], "asked": record["details"]["replies_asked"]}


def test_a_quick_run_gives_every_figure_and_asks_nothing_twice(endpoint: Endpoint, tmp_path) -> None:
    first = run(endpoint, str(tmp_path))
    # Of two questions the other shares may be of nothing, and are then named as undefined instead.
    assert {"not_in_book_recall", "answer_accuracy", "answer_accuracy_model_alone"} <= first.keys()
    assert first["questions"] == 2
    second = run(endpoint, str(tmp_path))
    assert second["asked"] == 0
    assert {**second, "asked": 0} == {**first, "asked": 0}


def test_both_policies_give_comparable_figures(endpoint: Endpoint, tmp_path) -> None:
    endpoint.is_ours = True
    passages = run(endpoint, str(tmp_path))
    lesson = run(endpoint, str(tmp_path), context="lesson")
    assert passages.keys() == lesson.keys()
    assert (passages["lesson_share"], lesson["lesson_share"]) == (0, 1)
    assert lesson["cached_tokens_mean"] > passages["cached_tokens_mean"]
    assert {"first_token_ms_median", "prompt_tokens_mean"} <= lesson.keys()
    # Other messages, so other replies.
    assert lesson["asked"] > 0
    assert len(endpoint.cached) >= 2


def test_a_cold_lesson_is_another_measurement(endpoint: Endpoint, tmp_path) -> None:
    endpoint.is_ours = True
    cold = run(endpoint, str(tmp_path), context="lesson", warm="no")
    assert cold["cached_tokens_mean"] == 0
    assert endpoint.cached == {}
    assert run(endpoint, str(tmp_path), context="lesson")["asked"] > 0


@pytest.mark.parametrize("option", ["context", "warm"])
def test_an_unknown_choice_is_refused(endpoint: Endpoint, tmp_path, option: str) -> None:
    with pytest.raises(ConfigError, match="came 'all'"):
        run(endpoint, str(tmp_path), **{option: "all"})
