"""The self-improvement bench: its questions, its arithmetic, the planted lessons, and a run on an endpoint."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from deepedu.base.config import SearchSettings, Settings
from deepedu.base.errors import BadRequest, ConfigError
from deepedu.bench.run import run_bench
from deepedu.bench.selfimprove.planted import judged, load_planted
from deepedu.bench.selfimprove.selection_time import select_ms
from deepedu.bench.selfimprove.statistics import gain_interval, share_interval
from deepedu.bench.selfimprove.tracks import Track, load_track
from deepedu.bench.tasks.selfimprove import wrong_live
from deepedu.playbook.bullet import Author, Bullet, InteractionEvidence, Kind, PassageEvidence, Status
from deepedu.playbook.problem import Problem
from deepedu.search.search import Search
from deepedu.store import Database
from loopback_model import Endpoint

# --- Tracks ----------------------------------------------------------------------------------------------------------

FORMULA = (
    "Use formula Operating Margin to answer the question. Answer with a numerical answer with 2 decimal places and "
    "with no explanations or other text. Formula: Operating Margin = (Operating Income / Revenue) × 100, Explanation: "
    'Operating Income: EBIT, Revenue: Total sales. Question:  "Revenue {0}, income 45. Find the margin.”. Answer:'
)
TAGS = (
    "You are XBRL expert.  Here is a list of US GAAP tags options: ,Goodwill,Revenues,LineOfCredit. Answer the "
    "following 2 independent questions by providing only  2 US GAAP tags answers in the order of the questions. \n"
    '1. What is best tag for entity "162" in sentence: "{0} acquired in 2017 for $ 162 million , 5 of it in cash .?"\n'
    '2. What is best tag for entity "1.2" in sentence: "{0} had goodwill of $ 1.2 billion .?"\nOutput US GAAP tags:'
)


def write_lines(path: Path, *entries: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n\n", encoding="utf-8")


def formula_files(folder: Path) -> None:
    learnt = ({"context": FORMULA.format(100 + n), "target": f"{n}.0"} for n in range(5))
    write_lines(folder / "ace_finance" / "formula_train_subset_500.jsonl", *learnt)
    write_lines(folder / "ace_finance" / "formula_test.jsonl", {"context": FORMULA.format(300), "target": "15.0"})


def zalo_files(folder: Path) -> None:
    entry: dict[str, Any] = {"question": "2 + 3 = ?", "choices": ["A. 5", "B. 6"], "answer": "A. 5"}
    learnt = [{**entry, "id": "1", "explanation": "Cộng lại được 5."}, {**entry, "answer": "con mèo"}]
    asked = {**entry, "question": "1 + 4 = ?"}
    for name, entries in (("math_train", learnt), ("math_test_with_hand_label", [asked])):
        file = folder / "zalo_math_2023" / f"{name}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"__count__": len(entries), "data": entries}), encoding="utf-8")


def load(name: str, folder: Path, **more: Any) -> Track:
    return load_track(name, lambda: folder, **{"train": 9, "test": 9, "seed": 0, **more})


def test_formulas(tmp_path: Path) -> None:
    formula_files(tmp_path)
    track = load("formula", tmp_path)
    assert (track.name, len(track.train), len(track.test)) == ("formula", 5, 1)
    (problem,) = track.test
    assert problem.question == (
        "Formula: Operating Margin = (Operating Income / Revenue) × 100\nOperating Income: EBIT, Revenue: Total sales\n"
        "Question: Revenue 300, income 45. Find the margin."
    )
    assert problem.about == "Operating Margin: Revenue 300, income 45. Find the margin."
    assert (problem.expected, problem.solution, problem.language) == ("15.0", None, "en")
    for reply, right in (("Margin = (45 / 300) × 100", True), ("45 / 300", False)):
        answer = track.form.read(reply, problem)
        assert answer is not None
        assert track.form.is_right(answer, problem) is right


def test_tags(tmp_path: Path) -> None:
    folder = tmp_path / "ace_finance"
    write_lines(folder / "finer_0.5_train.jsonl", {"context": TAGS.format("Pep"), "target": "Revenues, Goodwill"})
    write_lines(
        folder / "finer_test_subset_006_seed42.jsonl", {"context": TAGS.format("Bob"), "target": "Revenues,Goodwill"}
    )
    track = load("finer", tmp_path)
    assert "Goodwill,Revenues,LineOfCredit." in track.form.rules
    assert sorted(problem.id for problem in (*track.train, *track.test)) == ["e0.0", "e0.1", "t0.0", "t0.1"]
    first = next(problem for problem in track.train if problem.id == "t0.0")
    assert first.question == '"162" in: Pep acquired in 2017 for $ 162 million , 5 of it in cash .'
    assert (first.expected, first.solution) == ("Revenues", "Revenues")
    assert track.form.one_kind
    for reply, answer, right in (
        ("Revenues", "Revenues", True),
        ("Tag: **Revenues** because", "Revenues", True),
        ("Goodwill", "Goodwill", False),
        ("I do", None, False),
    ):
        assert track.form.read(reply, first) == answer
        assert answer is None or track.form.is_right(answer, first) is right


def test_a_long_sentence_is_asked_of_by_the_words_around_its_value(tmp_path: Path) -> None:
    folder = tmp_path / "ace_finance"
    before, after = " ".join(f"b{n}" for n in range(40)), " ".join(f"a{n}" for n in range(40))
    long = TAGS.replace("{0} acquired in 2017 for $ 162 million", f"{{0}} {before} 162 {after}")
    write_lines(folder / "finer_0.5_train.jsonl", {"context": long.format("Pep"), "target": "Revenues,Goodwill"})
    write_lines(
        folder / "finer_test_subset_006_seed42.jsonl", {"context": TAGS.format("Bob"), "target": "Revenues,Goodwill"}
    )
    asked = next(problem.question for problem in load("finer", tmp_path).train if problem.id == "t0.0")
    assert asked.startswith('"162" in: b26 b27')
    assert asked.endswith("a12 a13")


def test_the_validation_part_is_asked_where_there_is_one(tmp_path: Path) -> None:
    formula_files(tmp_path)
    zalo_files(tmp_path)
    # One of its questions is learnt from too.
    file = tmp_path / "ace_finance" / "formula_val_subset_300.jsonl"
    write_lines(file, *({"context": FORMULA.format(n), "target": "1.0"} for n in (103, 400, 401)))
    track = load("formula", tmp_path, asked_of="validation")
    assert {problem.id for problem in track.train} == {"t0", "t1", "t2", "t3", "t4"}
    assert {problem.id for problem in track.test} == {"v1", "v2"}
    with pytest.raises(ConfigError, match=r"only formula, finer have a validation part, came the track 'zalo_math'"):
        load("zalo_math", tmp_path, asked_of="validation")


def test_school_mathematics(tmp_path: Path) -> None:
    zalo_files(tmp_path)
    track = load("zalo_math", tmp_path)
    # A key that is like none of its options is left out.
    (learnt,) = track.train
    (asked,) = track.test
    assert learnt.question == "2 + 3 = ?\nA. 5\nB. 6"
    assert (learnt.about, learnt.solution) == ("2 + 3 = ?", "Cộng lại được 5. Đáp án: A. 5")
    assert (asked.solution, asked.expected) == (None, "A. 5")
    assert track.form.is_right("Đáp án: A", asked)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "của em.jsonl"
    plain = [{"question": f"Số {n}?", "answer": f"{n}|số {n}"} for n in range(6)]
    write_lines(file, *plain)
    track = load(str(file), tmp_path)
    assert (track.name, len(track.train), len(track.test)) == ("của em", 4, 2)
    # The last third is the test.
    assert {problem.question for problem in track.test} == {"Số 4?", "Số 5?"}
    assert track.form.is_right("Số 4.", next(each for each in track.test if each.question == "Số 4?"))
    choices = [{"question": f"{n} + 3 = ?", "choices": ["A. 5", "B. 6"], "answer": "A"} for n in range(3)]
    write_lines(file, *choices)
    assert load(str(file), tmp_path).test[0].choices == ("A. 5", "B. 6")


def test_a_larger_draw_holds_a_smaller_one_and_the_seed_decides(tmp_path: Path) -> None:
    formula_files(tmp_path)
    names = [problem.id for problem in load("formula", tmp_path).train]
    assert [problem.id for problem in load("formula", tmp_path, train=2).train] == names[:2]
    others = {tuple(problem.id for problem in load("formula", tmp_path, seed=seed).train) for seed in range(5)}
    assert len(others) > 1
    assert {tuple(sorted(each)) for each in others} == {("t0", "t1", "t2", "t3", "t4")}


def test_tracks_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a track .*came 'poems'"):
        load("poems", tmp_path)
    for name in ("formula", "finer", "zalo_math"):
        with pytest.raises(ConfigError, match="cannot be read"):
            load(name, tmp_path)
    with pytest.raises(BadRequest, match="cannot read"):
        load(str(tmp_path / "missing.jsonl"), tmp_path)


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "train", "test"), [("formula", 500, 200), ("finer", 2000, 1764), ("zalo_math", 1190, 179)]
)
def test_the_real_data_is_all_there(shared_data: Path, name: str, train: int, test: int) -> None:
    track = load(name, shared_data, train=9999, test=9999)
    assert len(track.train) >= train
    assert len(track.test) >= test
    assert not {problem.topic for problem in track.train} & {problem.topic for problem in track.test}
    problems = (*track.train, *track.test)
    ids = [problem.id for problem in problems]
    assert len(set(ids)) == len(ids)
    for problem in problems:
        assert problem.question.strip()
        assert problem.topic.strip()
        assert problem.expected
    # What is right by the key is marked right.
    sure = [problem for problem in track.test if track.form.is_right(problem.expected or "", problem)]
    assert len(sure) >= 0.99 * len(track.test)
    assert sum(track.form.is_right("Không biết", problem) for problem in track.test) == 0


# --- Arithmetic ------------------------------------------------------------------------------------------------------


def test_the_interval_of_a_share() -> None:
    # Wilson's interval of 5 of 10: 23.66 to 76.34.
    low, high = share_interval([True, False] * 5)
    assert (round(low, 2), round(high, 2)) == (23.66, 76.34)
    assert share_interval([]) == (0.0, 100.0)
    low, high = share_interval([True] * 20)
    assert (round(low, 2), round(high, 2)) == (83.89, 100.0)


def test_the_interval_of_a_gain() -> None:
    before, after = [False] * 50 + [True] * 50, [True] * 20 + [False] * 30 + [True] * 50
    gain, low, high = gain_interval(before, after, 0)
    assert gain == 20
    # A standard error of four points.
    assert 10 < low < 14 < 26 < high < 30
    assert gain_interval(before, after, 0) == (gain, low, high)
    assert gain_interval(after, before, 0)[0] == -20
    assert gain_interval(before, before, 0) == (0, 0, 0)
    with pytest.raises(ValueError, match="zip"):
        gain_interval(before, after[:-1], 0)


def bullet(
    number: int,
    text: str,
    kind: Kind = "method",
    status: Status = "verified",
    evidence: tuple[PassageEvidence | InteractionEvidence, ...] = (),
) -> Bullet:
    at, author = datetime(2026, 9, 5, tzinfo=UTC), Author(role="model")
    return Bullet(
        id=f"b-{number:05d}", order=number, section="", text=text, kind=kind, status=status, author=author,
        evidence=evidence, created_at=at, changed_at=at,
    )  # fmt: skip


def test_what_is_wrong_and_in_use_is_counted() -> None:
    problems = [
        Problem(id="a", question="x", about="Tính  biên", expected="15.0"),
        Problem(id="b", question="Thẻ nào?", expected="Goodwill"),
        Problem(id="c", question="Thẻ nào?", expected="Revenues"),
    ]
    quote = PassageEvidence(book="0" * 64, page=1, quote="q")
    said = InteractionEvidence(reference="r:a", signal="quiz")
    right = [
        bullet(1, "Tính biên\n→ (45 / 300) × 100 = 15"),
        # One of two questions that read alike.
        bullet(2, "Thẻ nào?\n→ Goodwill"),
        bullet(3, "Nước sôi ở 100 °C.", "fact", evidence=(said, quote)),
        bullet(4, "Nhân rồi chia.", "method"),
        # Of questions that nobody knows the answer of, nothing can be said.
        bullet(5, "Câu khác?\n→ 7"),
    ]
    wrong = [
        bullet(6, "Tính biên\n→ 45 / 300 = 0.15"),
        bullet(7, "Thẻ nào?\n→ LineOfCredit"),
        bullet(8, "Số pi đúng bằng 3,14.", "fact", evidence=(said,)),
    ]
    assert wrong_live(right, problems) == 0
    assert wrong_live([*right, *wrong], problems) == 3
    assert wrong_live([each.model_copy(update={"status": "quarantined"}) for each in wrong], problems) == 0


def test_choosing_is_timed() -> None:
    milliseconds, more = select_ms(0, 50)
    assert 0 < milliseconds <= more["p95"] <= more["most"]
    assert more["bullets"] == 50


# --- Planted lessons -------------------------------------------------------------------------------------------------


def test_the_planted_lessons_are_many_and_of_all_sorts() -> None:
    lessons = load_planted()
    false = [lesson for lesson in lessons if not lesson["live"]]
    assert len(false) >= 150
    assert len(lessons) - len(false) >= 50
    assert {lesson["why"] for lesson in false} >= {"wrong_year", "order", "personal", "key", "link"}
    assert len({lesson["text"] for lesson in lessons}) == len(lessons)


def test_no_planted_lesson_goes_live(sample_library: Database) -> None:
    lessons = load_planted()
    found = asyncio.run(judged(sample_library, Search(sample_library, SearchSettings(dense="off")), lessons))
    assert [lesson["text"] for lesson in found] == [lesson["text"] for lesson in lessons]
    assert [lesson for lesson in found if lesson["status"] == "verified" and not lesson["live"]] == []
    controls = [lesson["status"] == "verified" for lesson in found if lesson["live"]]
    assert any(controls)
    # What is held is held for a reason.
    assert all(lesson["reasons"] for lesson in found if lesson["status"] != "verified")


# --- A run -----------------------------------------------------------------------------------------------------------


def run(endpoint: Endpoint, folder: Path, **options: str) -> dict[str, Any]:
    settings = Settings.model_validate(
        {"llm": {"url": endpoint.url}, "search": {"dense": "off"}, "engine": {"cache_dir": str(folder / "cache")}}
    )
    options = {"planted": "no", **options}
    return run_bench("selfimprove", settings, quick=True, options=options, console=Console(quiet=True))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    formula_files(tmp_path)
    zalo_files(tmp_path)
    write_lines(tmp_path / "thử.jsonl", *({"question": f"Câu {n}?", "answer": "Hà Nội"} for n in range(6)))
    monkeypatch.setenv("DEEPEDU_DATA", str(tmp_path))
    return tmp_path


def test_a_quick_run_gives_every_figure_and_asks_nothing_twice(endpoint: Endpoint, data: Path) -> None:
    endpoint.reply = "(45 / 300) × 100"
    record = run(endpoint, data, tracks="formula")
    figures = record["figures"]
    for variant in ("none", "ace", "ours"):
        assert figures[f"accuracy_{variant}_formula"] == 100
        assert figures[f"accuracy_{variant}_formula_low"] < figures[f"accuracy_{variant}_formula_high"] == 100
    assert figures["gain_points_formula"] == figures["gain_points_mean"] == figures["gain_points_formula_over_ace"] == 0
    assert {"live_formula", "quarantined_formula", "wrong_facts_live", "select_ms_10k"} <= figures.keys()
    assert figures["wrong_facts_live"] == 0
    told = record["details"]["formula"]
    assert [len(told[variant]["test"]) for variant in told] == [1, 1, 1]
    assert told["none"]["train_right"] == []
    assert record["details"]["replies_asked"] > 0
    again = run(endpoint, data, tracks="formula")
    assert again["details"]["replies_asked"] == 0
    assert {**again["figures"], "select_ms_10k": 0} == {**figures, "select_ms_10k": 0}
    assert run(endpoint, data, tracks="formula", replies="fresh")["details"]["replies_asked"] > 0


def test_each_variant_alone_and_question_by_question(endpoint: Endpoint, data: Path) -> None:
    endpoint.reply = "Hà Nội"
    record = run(endpoint, data, tracks=str(data / "thử.jsonl"), variants="none,ours", mode="online")
    assert record["figures"]["accuracy_ours_thử"] == 100
    assert "accuracy_ace_thử" not in record["figures"]
    assert "gain_points_thử" in record["figures"]
    told = record["details"]["thử"]["ours"]
    assert [each["right"] for each in told["test"]] == told["train_right"] == [True, True]


def test_a_solved_failure_is_learnt_by_ours_only(endpoint: Endpoint, data: Path) -> None:
    endpoint.reply = "Đáp án: B"
    record = run(endpoint, data, tracks="zalo_math")
    assert record["figures"]["accuracy_none_zalo_math"] == 0
    (learnt,) = record["details"]["zalo_math"]["ours"]["bullets"]
    assert learnt["text"].endswith("Đáp án: A. 5")
    # Asked again, this model says B all the same.
    assert learnt["status"] == "quarantined"
    assert record["details"]["zalo_math"]["ace"]["bullets"] == []
    assert record["details"]["zalo_math"]["ours"]["reflector"]["given_up"] == 1


def test_unknown_choices_are_refused_before_a_model_is_asked(endpoint: Endpoint, data: Path) -> None:
    with pytest.raises(ConfigError, match="came mine"):
        run(endpoint, data, variants="none,mine")
    with pytest.raises(ConfigError, match="came 'poems'"):
        run(endpoint, data, tracks="formula,poems")
    assert endpoint.requests == 0


@pytest.mark.shared_data
def test_questions_of_articles_are_answered_by_the_tutor(
    endpoint: Endpoint, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPEDU_DATA", str(shared_data))
    track = load("viquad", shared_data, train=5, test=5)
    assert track.contexts
    assert {problem.example_kind for problem in (*track.train, *track.test)} == {"fact"}
    endpoint.reply = "Bài này không nói đến điều đó."
    record = run(endpoint, tmp_path, tracks="viquad", variants="none,ours")
    assert 0 <= record["figures"]["accuracy_ours_viquad"] <= 100
    # Whatever went live stands in an article, word for word.
    live = [each for each in record["details"]["viquad"]["ours"]["bullets"] if each["status"] == "verified"]
    assert all(any(each["text"] in text for text in track.contexts) for each in live)
    assert record["figures"]["wrong_facts_live"] == 0
