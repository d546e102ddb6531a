"""Knowledge tracing: values worked out by hand and by pyBKT, and what must hold for whatever a pupil answers."""

import random
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepedu.base.errors import BadRequest, ConfigError
from deepedu.tutor.mastery import (
    DEFAULT,
    MASTERED_AT,
    Attempt,
    Level,
    Parameters,
    SkillMastery,
    due,
    explain,
    trace,
)

START = datetime(2026, 9, 7, 1, 0, tzinfo=UTC)  # Eight in the morning in Vietnam.
CLASSIC = Parameters(prior=0.5, learn=0.2, guess=0.25, slip=0.1)

scores = st.one_of(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), st.floats(0, 1))
below_half = st.floats(0.001, 0.499)


@st.composite
def some_parameters(draw: st.DrawFn) -> Parameters:
    learn = draw(st.floats(0, 1))
    forget = draw(st.floats(0, 1)) * (1 - learn)
    return Parameters(draw(st.floats(0, 0.999)), learn, draw(below_half), draw(below_half), forget)


def attempts_of(
    given_scores: Sequence[float], *, skill: str = "Bài 1", apart: timedelta = timedelta(0)
) -> list[Attempt]:
    return [
        Attempt(skill, score, START + number * apart, f"{skill}/{number:06}")
        for number, score in enumerate(given_scores)
    ]


def known(given_scores: Sequence[float], parameters: Parameters) -> float:
    return trace(attempts_of(given_scores), {"Bài 1": parameters}, skills=["Bài 1"])["Bài 1"].p_known


def test_values_by_hand() -> None:
    # Right: 0.5*0.9 / (0.5*0.9 + 0.5*0.25) = 18/23; then 18/23 + 5/23*0.2 = 19/23.
    assert known([1], CLASSIC) == pytest.approx(19 / 23, abs=1e-12)
    # Wrong: 0.5*0.1 / (0.5*0.1 + 0.5*0.75) = 2/17; then 2/17 + 15/17*0.2 = 5/17.
    assert known([0], CLASSIC) == pytest.approx(5 / 17, abs=1e-12)
    # Half: (18/23 + 2/17) / 2 = 176/391; then 176/391 + 215/391*0.2 = 219/391.
    assert known([0.5], CLASSIC) == pytest.approx(219 / 391, abs=1e-12)
    # Right, then wrong: 19/23*0.1 / (19/23*0.1 + 4/23*0.75) = 19/49; then 19/49 + 30/49*0.2 = 25/49.
    assert known([1, 0], CLASSIC) == pytest.approx(25 / 49, abs=1e-12)
    # Forgetting takes a tenth of 18/23: 16.2/23 + 5/23*0.2 = 17.2/23.
    forgetful = Parameters(0.5, 0.2, 0.25, 0.1, forget=0.1)
    found = trace(attempts_of([1]), {"Bài 1": forgetful})["Bài 1"]
    assert found.p_known == pytest.approx(17.2 / 23, abs=1e-12)
    assert found.p_next_correct == pytest.approx((17.2 * 0.9 + 5.8 * 0.25) / 23, abs=1e-12)


# pyBKT 1.4.3 (numpy 2.3.5, scikit-learn 1.7.2; later ones break it): its parameters, answers, and what it foretold.
PYBKT = [
    (
        Parameters(0.3379108550514494, 0.14810170102372694, 0.23266822096850728, 0.10040450328882543),
        [1, 1, 0, 1, 1, 1],
        [0.4580301869718458, 0.7085109063552592, 0.8461385750676894,
         0.6724808558637387, 0.8326548310700593, 0.8836605784310925],
        [0.3379108550514494, 0.713485117034492, 0.9198459508438048,
         0.6594611599974993, 0.8996282382264656, 0.9761069626934399],
    ),
    (
        Parameters(0.3379108550514494, 0.14810170102372694, 0.23266822096850728, 0.10040450328882543),
        [0, 0, 0, 0, 1, 1],
        [0.4580301869718458, 0.36700822216732043, 0.34959427720743164,
         0.3468181531307357, 0.3463892644935689, 0.5830417481956279],
        [0.3379108550514494, 0.20143125957656588, 0.17532054916890227,
         0.17115799025480696, 0.17051490868839597, 0.525354922449313],
    ),
    (
        Parameters(0.3358334985410077, 0.1486680506379494, 0.23345752943174655, 0.09843718705820599,
                   0.001415108540139689),
        [1, 1, 0, 1, 1, 1],
        [0.4578296641866576, 0.7083071955663088, 0.8464802957804795,
         0.6668616173164508, 0.8307838567256389, 0.8837129455991604],
        [0.3358334985410077, 0.7107407737292968, 0.917554136270371,
         0.6487062721727247, 0.8940601758987726, 0.9732828525934488],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "answers", "foretold", "states"), PYBKT)
def test_the_same_as_pybkt(
    parameters: Parameters, answers: list[float], foretold: list[float], states: list[float]
) -> None:
    for number, (p_right, p_known) in enumerate(zip(foretold, states, strict=True)):
        found = trace(attempts_of(answers[:number]), {"Bài 1": parameters}, skills=["Bài 1"])["Bài 1"]
        assert found.p_next_correct == pytest.approx(p_right, abs=1e-6)
        assert found.p_known == pytest.approx(p_known, abs=1e-6)


@given(st.lists(scores, max_size=60), some_parameters())
def test_probabilities_stay_probabilities(given_scores: Sequence[float], parameters: Parameters) -> None:
    found = trace(attempts_of(given_scores), {"Bài 1": parameters}, skills=["Bài 1"])["Bài 1"]
    assert 0 <= found.p_known <= 1
    least, most = sorted((parameters.guess, 1 - parameters.slip))
    assert least - 1e-12 <= found.p_next_correct <= most + 1e-12


@given(st.lists(scores, min_size=1, max_size=20), some_parameters(), st.data())
def test_a_better_answer_never_leaves_less(
    given_scores: Sequence[float], parameters: Parameters, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(given_scores) - 1))
    better = [*given_scores]
    better[place] = data.draw(st.floats(given_scores[place], 1))
    # The slack is that of rounding.
    assert known(better, parameters) >= known(given_scores, parameters) - 1e-12


@given(scores, st.floats(0, 0.999), some_parameters())
def test_partial_scores_lie_between(score: float, p_known: float, parameters: Parameters) -> None:
    wrong, right = parameters.seen(p_known, 0), parameters.seen(p_known, 1)
    assert wrong <= p_known + 1e-12
    assert right >= p_known - 1e-12
    assert wrong - 1e-12 <= parameters.seen(p_known, score) <= right + 1e-12


@given(st.lists(st.tuples(st.sampled_from("ab"), scores, st.integers(0, 400)), max_size=25), st.randoms())
def test_order_and_repetition_do_not_matter(answers: list[tuple[str, float, int]], chance: random.Random) -> None:
    attempts = [
        Attempt(skill, score, START + timedelta(hours=hours), f"{number}")
        for number, (skill, score, hours) in enumerate(answers)
    ]
    mixed = [*attempts, *chance.choices(attempts, k=5)] if attempts else []
    chance.shuffle(mixed)
    assert trace(mixed) == trace(attempts)
    assert explain(mixed, "a") == explain(attempts, "a")


def test_one_skill_does_not_move_another() -> None:
    first = attempts_of([1, 0, 1], skill="Bài 1")
    second = attempts_of([0, 0, 0, 0], skill="Bài 2")
    assert trace([*second, *first])["Bài 1"] == trace(first)["Bài 1"]


def test_time_zones_are_one_time() -> None:
    there = [
        Attempt(each.skill, each.score, each.at.astimezone(timezone(timedelta(hours=-5))), each.id)
        for each in attempts_of([1, 0, 1], apart=timedelta(hours=20))
    ]
    assert trace(there) == trace(attempts_of([1, 0, 1], apart=timedelta(hours=20)))


def test_levels() -> None:
    levels = [trace(attempts_of(each), skills=["Bài 1"])["Bài 1"].level for each in ([], [0], [1], [1, 1], [1, 1, 1])]
    assert levels == [Level.NOT_STARTED, Level.LEARNING, Level.NEARLY, Level.NEARLY, Level.MASTERED]
    # Two answers reach the threshold, and are still too few.
    assert known([1, 1], DEFAULT) >= MASTERED_AT
    assert trace(attempts_of([1, 1, 1, 0]))["Bài 1"].level is Level.NEARLY


def test_mastery_can_be_lost_however_long_it_was_held() -> None:
    for parameters in (DEFAULT, CLASSIC):
        assert known([1] * 1000, parameters) > MASTERED_AT
        assert known([1] * 1000 + [0] * 30, parameters) < 0.5


def test_a_skill_without_attempts() -> None:
    assert trace([], skills=["Bài 3"]) == {
        "Bài 3": SkillMastery(DEFAULT.prior, DEFAULT.p_right(DEFAULT.prior), 0, None, None, Level.NOT_STARTED)
    }
    assert trace([]) == {}


def test_review_comes_later_the_better_it_goes() -> None:
    def days(given_scores: Sequence[float]) -> int:
        attempts = attempts_of(given_scores, apart=timedelta(days=3))
        due_at = trace(attempts)["Bài 1"].due_at
        assert due_at is not None
        return (due_at - attempts[-1].at).days

    # FSRS 6 of fsrs 6.3.2 with its own parameters: a first wrong, half right and right answer.
    assert [days([score]) for score in (0, 0.25, 0.5, 0.75, 0.8, 1)] == [1, 1, 1, 1, 2, 2]
    assert days([1, 1, 1, 1]) > days([1, 1]) > days([1])
    assert days([1, 1, 0]) < days([1, 1, 1])


def test_the_answers_of_a_day_are_one_review() -> None:
    one = trace(attempts_of([1]))["Bài 1"]
    ten = trace(attempts_of([1] * 10))["Bài 1"]
    assert ten.due_at == one.due_at
    # Half past six in the morning and eleven at night in Vietnam: two days in UTC, one at school.
    early = Attempt("Bài 1", 1, datetime(2026, 9, 6, 23, 30, tzinfo=UTC), "a")
    late = Attempt("Bài 1", 0, datetime(2026, 9, 7, 16, 0, tzinfo=UTC), "b")
    half = Attempt("Bài 1", 0.5, late.at, "c")
    assert trace([early, late])["Bài 1"].due_at == trace([half])["Bài 1"].due_at


def test_due_skills_in_order() -> None:
    attempts = [
        *attempts_of([1], skill="right"),
        *attempts_of([0], skill="wrong"),
        *attempts_of([0, 0], skill="worse"),
        *attempts_of([1, 1, 1], skill="far", apart=timedelta(days=5)),
    ]
    mastery = trace(attempts, skills=["new"])
    assert due(mastery, START) == []
    assert due(mastery, START + timedelta(days=1)) == ["worse", "wrong"]
    assert due(mastery, START + timedelta(days=4)) == ["worse", "wrong", "right"]
    assert "new" not in due(mastery, START + timedelta(days=1000))


def test_an_explanation_tells_each_step() -> None:
    attempts = attempts_of([1, 0, 0.5])
    told = explain(attempts, "Bài 1", {"Bài 1": CLASSIC})
    assert told.mastery == trace(attempts, {"Bài 1": CLASSIC})["Bài 1"]
    assert (told.earlier, told.parameters) == (0, CLASSIC)
    assert [step.attempt for step in told.steps] == attempts
    assert told.steps[0].before == CLASSIC.prior
    assert told.steps[0].showed == pytest.approx(18 / 23)
    assert told.steps[1].showed < told.steps[1].before == told.steps[0].after
    assert told.steps[-1].after == told.mastery.p_known
    short = explain(attempts, "Bài 1", {"Bài 1": CLASSIC}, last=2)
    assert (short.earlier, short.steps) == (1, told.steps[1:])
    assert explain(attempts, "Bài 2").steps == ()


def test_what_cannot_be_is_refused() -> None:
    for score in (-0.1, 1.1, float("nan")):
        with pytest.raises(BadRequest, match="từ 0 đến 1"):
            Attempt("Bài 1", score, START, "a")
    with pytest.raises(BadRequest, match="múi giờ"):
        Attempt("Bài 1", 1, datetime(2026, 9, 7), "a")
    with pytest.raises(BadRequest, match="cùng mã 'a'"):
        trace([Attempt("Bài 1", 1, START, "a"), Attempt("Bài 1", 0, START, "a")])


@pytest.mark.parametrize(
    "wrong",
    [
        {"guess": 0.5},
        {"guess": 0.0},
        {"slip": 0.5},
        {"slip": 0.0},
        {"prior": 1.0},
        {"prior": -0.1},
        {"learn": -0.1},
        {"forget": -0.1},
        {"learn": 0.6, "forget": 0.5},
        {"prior": float("nan")},
    ],
)
def test_degenerate_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="mastery parameters"):
        Parameters(**{"prior": 0.5, "learn": 0.1, "guess": 0.2, "slip": 0.1, **wrong})


def test_a_tutor_needs_no_numbers_library() -> None:
    code = (
        "import sys, deepedu.tutor.mastery\n"
        "print([name for name in ('numpy', 'pandas', 'sklearn', 'scipy', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
