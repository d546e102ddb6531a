"""The retrieval bench: its arithmetic, its data, and a small run on the real questions."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepedu.base.config import SearchSettings, Settings
from deepedu.base.errors import ConfigError
from deepedu.bench.run import run_bench
from deepedu.bench.tasks.retrieval import percentile, recall_figures
from deepedu.bench.viquad import join_words, load_paragraphs, load_viquad


def test_figures_of_known_ranks() -> None:
    assert recall_figures([0, 0, 4, 5, None]) == {
        "recall_at_1": 0.4,
        "recall_at_5": 0.6,
        "recall_at_20": 0.8,
        "mrr": round((1 + 1 + 1 / 5 + 1 / 6) / 5, 4),
    }
    assert recall_figures([]) == {}


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_the_percentile_is_one_of_the_values(values: list[float]) -> None:
    found = percentile(values, 0.95)
    assert found in values
    assert sum(value <= found for value in values) >= 0.95 * len(values)
    assert percentile(values, 1.0) == max(values)


@pytest.mark.parametrize(
    ("segmented", "joined"),
    [
        ("Vị_trí địa_lý của Paris có gì đặc_biệt ?", "Vị trí địa lý của Paris có gì đặc biệt?"),
        ("Hà_Nội ( thủ_đô ) , năm 1954 .", "Hà Nội (thủ đô), năm 1954."),
        ('Quy_định " trung_lập " của nó', 'Quy định "trung lập" của nó'),
        ("dự_án 1,5 tỷ đô_la", "dự án 1,5 tỷ đô la"),
    ],
)
def test_word_segmentation_is_undone(segmented: str, joined: str) -> None:
    assert join_words(segmented) == joined


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="dev_ViQuAD"):
        load_viquad(tmp_path)
    with pytest.raises(ConfigError, match="school articles"):
        load_paragraphs(tmp_path)


@pytest.mark.shared_data
def test_the_data_is_all_there(shared_data: Path) -> None:
    data = load_viquad(shared_data)
    assert (len(data.questions), len(data.contexts)) == (4495, 1008)
    paragraphs = load_paragraphs(shared_data)
    assert len(paragraphs) > 12_000
    held = sum(answer in data.contexts[q.context] for q in data.questions for answer in q.answers[:1])
    assert held / len(data.questions) > 0.9  # Rejoined contexts still hold the unsegmented answers.


@pytest.mark.shared_data
def test_a_small_run_finds_most(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPEDU_DATA", str(shared_data))
    settings = Settings(search=SearchSettings(dense="off"))
    record = run_bench("retrieval", settings, quick=True, options={"distractors": "50"})
    figures = record["figures"]
    assert {f"{name}{suffix}" for name in ("recall_at_1", "recall_at_5", "recall_at_20", "mrr", "p95_ms")
            for suffix in ("", "_lexical", "_folded")} == set(figures)  # fmt: skip
    assert figures["recall_at_1"] == figures["recall_at_1_lexical"] > 0.65
    assert figures["recall_at_20_folded"] > 0.85
    assert record["details"]["questions"] == 200
    with pytest.raises(ConfigError, match="distractors expected a number"):
        run_bench("retrieval", settings, options={"distractors": "many"})
