"""The mastery bench: its data, its models on answers whose makers are known, its arithmetic, and a small run."""

import math
import random
import sys
from dataclasses import astuple, replace
from pathlib import Path

import pytest

pytest.importorskip("hmmlearn", reason="needs the extra 'bench'")
pytest.importorskip("sklearn", reason="needs the extra 'bench'")

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from deepedu.base.config import Settings
from deepedu.base.errors import ConfigError, MissingExtra
from deepedu.bench.knowledge_tracing import (
    FILES,
    Answer,
    Bkt,
    Student,
    fit_bkt,
    fit_skill,
    predict_bkt,
    predict_pfa,
    predict_skill_mean,
    predict_student_mean,
    read_students,
    right_of,
)
from deepedu.bench.run import run_bench
from deepedu.bench.tasks.mastery import auc, weighted_auc
from deepedu.tutor.mastery import DEFAULT, Parameters

START = Parameters(prior=0.5, learn=0.15, guess=0.25, slip=0.15)


def simulated(parameters: Parameters, students: int, answers: int, seed: int) -> list[list[int]]:
    """Answers of students who are exactly what knowledge tracing takes them for."""
    chance = random.Random(seed)
    sequences: list[list[int]] = []
    for _ in range(students):
        is_known = chance.random() < parameters.prior
        sequence: list[int] = []
        for _ in range(answers):
            sequence.append(int(chance.random() < (1 - parameters.slip if is_known else parameters.guess)))
            is_known = chance.random() >= parameters.forget if is_known else chance.random() < parameters.learn
        sequences.append(sequence)
    return sequences


def student(number: int, *answers: tuple[str, int]) -> Student:
    return Student(number, tuple(Answer(0, tuple(skills), bool(right)) for skills, right in answers))


def log_likelihood(sequences: list[list[int]], parameters: Parameters) -> float:
    students = [student(n, *(("a", right) for right in sequence)) for n, sequence in enumerate(sequences)]
    foretold, right = predict_bkt(students, Bkt(parameters)), right_of(students)
    return float(np.log(np.where(right > 0, foretold, 1 - foretold)).sum())


# --- Data ------------------------------------------------------------------------------------------------------------


def test_rows_of_one_answer_are_merged(tmp_path: Path) -> None:
    path = tmp_path / "students.csv"
    path.write_text("0,70\n5,5,5,6,6,7,7\n1,2,3,1,1,2,3\n1,1,1,0,0,1,0\n\n1,71\n9\n4\n0\n", encoding="utf-8")
    first, second = read_students(path)
    assert first.id == 70
    assert first.answers == (
        Answer(5, ("1", "2", "3"), True),
        # The same skill twice is two answers, and so is the same problem answered differently.
        Answer(6, ("1",), False),
        Answer(6, ("1",), False),
        Answer(7, ("2",), True),
        Answer(7, ("3",), False),
    )
    assert second == Student(71, (Answer(9, ("4",), False),))
    assert [len(each.answers) for each in read_students(path, merge=False)] == [7, 1]
    assert right_of([first, second]).tolist() == [1, 0, 0, 1, 0, 0]


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="set DEEPEDU_DATA"):
        read_students(tmp_path / "none.csv")
    for text in ("0,70\n5,5\n1\n1,1\n", "0,70\n5\n1\n", "0,70\nfive\n1\n1\n"):
        (tmp_path / "bad.csv").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match="four lines a student"):
            read_students(tmp_path / "bad.csv")


@pytest.mark.shared_data
def test_no_student_is_on_both_sides(shared_data: Path) -> None:
    train, test = (read_students(shared_data / "knowledge_tracing" / name) for name in FILES.values())
    assert (len(train), len(test)) == (2491, 830)
    assert not {each.id for each in train} & {each.id for each in test}
    assert (sum(len(each.answers) for each in train), sum(len(each.answers) for each in test)) == (170_851, 52_003)


# --- Fitting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "truth",
    [Parameters(0.4, 0.15, 0.2, 0.1), Parameters(0.7, 0.08, 0.3, 0.05), Parameters(0.3, 0.2, 0.1, 0.15, forget=0.1)],
)
def test_known_parameters_are_found_again(truth: Parameters) -> None:
    sequences = simulated(truth, students=800, answers=12, seed=3)
    found = fit_skill(sequences, START if truth.forget == 0 else replace(START, forget=0.05))
    assert astuple(found) == pytest.approx(astuple(truth), abs=0.05)
    assert (found.forget == 0) == (truth.forget == 0)
    assert log_likelihood(sequences, found) > log_likelihood(sequences, truth)


def test_the_fit_is_as_good_as_pybkts() -> None:
    sequences = simulated(Parameters(0.4, 0.15, 0.2, 0.1), students=400, answers=6, seed=1995)
    # pyBKT 1.4.3 on the same answers (numpy 2.3.5, scikit-learn 1.7.2, Model(seed=7, num_fits=1)).
    theirs = Parameters(0.3879048073044785, 0.15917902329524994, 0.19751169652858597, 0.08903950619548723)
    found = fit_skill(sequences, START)
    assert astuple(found) == pytest.approx(astuple(theirs), abs=0.005)
    assert log_likelihood(sequences, found) == pytest.approx(log_likelihood(sequences, theirs), abs=0.05)


def test_no_answers_make_a_fit_degenerate() -> None:
    # Who is wrong once stays right, who is right once stays wrong; all right; all wrong.
    for sequences in ([[0, 1, 1], [1, 0, 0]] * 20, [[1, 1, 1]] * 20, [[0, 0, 0]] * 20, [[0], [1]] * 20):
        for forget in (0.0, 0.05):
            found = fit_skill(sequences, replace(START, forget=forget), pseudo_answers=10)
            assert 0 < found.guess < 0.5
            assert 0 < found.slip < 0.5
            assert found.learn + found.forget <= 1


def test_pseudo_answers_keep_a_rare_skill_near_its_start() -> None:
    sequences = [[0, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 1]]
    free, held, fixed = (fit_skill(sequences, START, pseudo) for pseudo in (0, 10, 1e6))

    def distance(found: Parameters) -> float:
        return math.dist(astuple(found), astuple(START))

    assert distance(free) > distance(held) > distance(fixed)
    assert distance(fixed) < 1e-3


def test_skills_are_fitted_each_for_itself() -> None:
    easy, hard = Parameters(0.8, 0.2, 0.3, 0.05), Parameters(0.1, 0.05, 0.1, 0.3)
    pairs = zip(simulated(easy, 300, 8, seed=1), simulated(hard, 300, 8, seed=2), strict=True)
    students = [
        student(n, *(("e", right) for right in of_easy), *(("h", right) for right in of_hard))
        for n, (of_easy, of_hard) in enumerate(pairs)
    ]
    students.append(student(999, ("r", 1), ("r", 0)))
    counted: list[int] = []
    found = fit_bkt(students, forget=False, advance=counted.append)
    assert found.of("e").prior > found.pooled.prior > found.of("h").prior
    # Two answers are not enough to fit anything.
    assert found.of("r") == found.of("never seen") == found.pooled
    assert sum(counted) == 3


# --- Foretelling -----------------------------------------------------------------------------------------------------


def test_foretold_by_hand() -> None:
    train = [student(1, ("a", 1), ("a", 0), ("b", 1)), student(2, ("ab", 1))]
    test = [student(3, ("a", 0), ("b", 1), ("ab", 1), ("c", 1))]
    # The usual share counts for one answer.
    a, b = 2.75 / 4, 2.75 / 3
    assert predict_skill_mean(train, test).tolist() == pytest.approx([a, b, (a + b) / 2, 0.75])
    assert predict_student_mean(train, test).tolist() == pytest.approx([0.75, 0.75 / 2, 1.75 / 3, 2.75 / 4])
    classic = Parameters(0.5, 0.2, 0.25, 0.1)
    foretold = predict_bkt(test, Bkt(DEFAULT, {"a": classic, "b": classic}))
    after_a, after_b = 5 / 17, 19 / 23
    both = (classic.p_right(after_a) + classic.p_right(after_b)) / 2
    assert foretold.tolist() == pytest.approx(
        [classic.p_right(0.5), classic.p_right(0.5), both, DEFAULT.p_right(DEFAULT.prior)]
    )


def test_who_did_well_starts_higher() -> None:
    good, poor = (student(n, *((skill, right) for skill in "abcdefgh")) for n, right in enumerate((1, 0)))
    plain = predict_bkt([good, poor], Bkt(DEFAULT))
    assert plain.tolist() == pytest.approx([DEFAULT.p_right(DEFAULT.prior)] * 16)
    carried = predict_bkt([good, poor], Bkt(DEFAULT), carry=1.0, usual=0.6)
    assert carried[0] == pytest.approx(plain[0])
    assert (np.diff(carried[:8]) > 0).all()
    assert (np.diff(carried[8:]) < 0).all()


def test_performance_factors_find_what_made_the_answers() -> None:
    chance = random.Random(5)
    students: list[Student] = []
    for n in range(600):
        answers: list[tuple[str, int]] = []
        counts = [0, 0]
        for _ in range(10):
            logit = -0.5 + 0.4 * counts[1] - 0.1 * counts[0]
            right = int(chance.random() < 1 / (1 + math.exp(-logit)))
            counts[right] += 1
            answers.append(("a", right))
        students.append(student(n, *answers))
    foretold = predict_pfa(students, [student(0, ("a", 1), ("a", 1), ("a", 0), ("a", 0))])
    logits = np.log(foretold / (1 - foretold))
    assert logits.tolist() == pytest.approx([-0.5, -0.1, 0.3, 0.2], abs=0.15)


def test_nothing_is_foretold_from_what_comes_later() -> None:
    train = [student(n, *(("ab"[n % 2], right) for right in each)) for n, each in enumerate(simulated(START, 60, 6, 1))]
    before = student(1, ("a", 1), ("ab", 0), ("b", 1), ("a", 1))
    changed = student(1, ("a", 1), ("ab", 0), ("b", 0), ("ab", 0))
    for predict in (
        lambda test: predict_pfa(train, test),
        lambda test: predict_student_mean(train, test),
        lambda test: predict_bkt(test, fit_bkt(train, forget=True), carry=1.0, usual=0.6),
    ):
        assert predict([before])[:3].tolist() == predict([changed])[:3].tolist()


# --- Arithmetic ------------------------------------------------------------------------------------------------------


def test_auc_of_known_pairs() -> None:
    # Pairs (right, wrong): 0.8 over 0.5 and 0.4, 0.5 ties with 0.5 and is over 0.4.
    assert auc(np.array([1.0, 0, 1, 0]), np.array([0.8, 0.5, 0.5, 0.4])) == pytest.approx(3.5 / 4)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 3)), min_size=2, max_size=60))
def test_auc_is_scikit_learns(rows: list[tuple[bool, int, int]]) -> None:
    right, predicted, weights = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    if (weights * right).sum() == 0 or (weights * (1 - right)).sum() == 0:
        return
    expected = roc_auc_score(right, predicted, sample_weight=weights)
    assert weighted_auc(right, predicted)(weights) == pytest.approx(expected)


# --- The bench -------------------------------------------------------------------------------------------------------


@pytest.mark.shared_data
def test_a_small_run(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPEDU_DATA", str(shared_data))
    record = run_bench("mastery", Settings(), quick=True, options={"resamples": "50"})
    figures, details = record["figures"], record["details"]
    models = ("bkt", "bkt_forget", "bkt_default", "bkt_carry", "pfa", "skill_mean", "student_mean")
    for model in models:
        assert figures[f"auc_{model}_low"] <= figures[f"auc_{model}"] <= figures[f"auc_{model}_high"]
        assert 0 < figures[f"rmse_{model}"] < 0.55
    assert figures["auc_bkt"] > figures["auc_skill_mean"] > 0.5
    assert figures["auc_gain_bkt_forget"] == pytest.approx(figures["auc_bkt_forget"] - figures["auc_bkt"], abs=2e-4)
    assert (details["students_train"], details["students_test"]) == (80, 60)
    assert record["undefined"] == []


def test_options_and_missing_parts_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPEDU_DATA", str(tmp_path))
    with pytest.raises(ConfigError, match="resamples expected a number"):
        run_bench("mastery", Settings(), options={"resamples": "0"})
    with pytest.raises(ConfigError, match="unit expected answers or rows"):
        run_bench("mastery", Settings(), options={"unit": "pupils"})
    with pytest.raises(ConfigError, match="assist2009_pid_train1"):
        run_bench("mastery", Settings())
    monkeypatch.delitem(sys.modules, "deepedu.bench.knowledge_tracing")
    monkeypatch.setitem(sys.modules, "hmmlearn.hmm", None)
    with pytest.raises(MissingExtra, match="bench"):
        run_bench("mastery", Settings())
