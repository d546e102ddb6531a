"""Answers of real pupils, and what foretells the next one: knowledge tracing as the tutor does it, and its rivals.

The data is ASSISTments 2009 in the form of A. Ghosh, N. Heffernan and A. S. Lan, 2020, arXiv:2007.12324: American
pupils at mathematics, in order but without times. It lies in the shared data folder and is no part of the package.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from hmmlearn.hmm import CategoricalHMM
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from deepedu.base.errors import ConfigError
from deepedu.tutor.mastery import Parameters

# It warns when the likelihood alone falls, which the pseudo-answers may well make it do.
logging.getLogger("hmmlearn").setLevel(logging.ERROR)

FILES = {"train": "assist2009_pid_train1.csv", "test": "assist2009_pid_test1.csv"}
# A skill's fit begins at the one over all skills and takes it for so many answers: rare skills stay sensible.
PSEUDO_ANSWERS = 10
LEAST_ANSWERS = 20
# (least, most) of each probability: below a half, so that no answer speaks against itself; learn + forget at most 1.
_GUESS = _SLIP = (1e-3, 0.49)
_LEARN, _FORGET = (0.0, 0.8), (0.0, 0.2)
_START = Parameters(prior=0.5, learn=0.15, guess=0.25, slip=0.15, forget=0.05)
_ROUNDS = 200
# A student's standing is as usual until more than a few answers say otherwise.
_CARRY_ANSWERS = 5
# In nats an answer: EM stops when a round gains less.
_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Answer:
    """One answer: ``skills`` are all that its problem is labelled with."""

    problem: int
    skills: tuple[str, ...]
    is_right: bool


@dataclass(frozen=True)
class Student:
    """A student's answers in their order."""

    id: int
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Bkt:
    """Fitted knowledge tracing: ``pooled`` over all skills, which stands in for the skills it has not seen."""

    pooled: Parameters
    skills: Mapping[str, Parameters] = field(default_factory=dict[str, Parameters])

    def of(self, skill: str) -> Parameters:
        """A skill's parameters."""
        return self.skills.get(skill, self.pooled)


def read_students(path: Path, *, merge: bool = True) -> list[Student]:
    """Reads a file of the data set: four lines a student (index and number, problems, skills, 1 for right).

    An answer to a problem of several skills has a row for each of them. ``merge`` makes one answer of them again; left
    apart, the second row is known from the first. Rows of the same problem and skill are answers of their own.

    Raises:
        ConfigError: the file is not there, or not of this form.
    """
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        students = [_student(lines[start : start + 4], merge) for start in range(0, len(lines), 4)]
    except OSError as error:
        raise ConfigError(
            f"cannot read {str(path)!r}: {error.strerror}; set DEEPEDU_DATA to the folder of the shared data sets"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{str(path)!r} is no file of four lines a student: {error}") from error
    return students


def _student(lines: Sequence[str], merge: bool) -> Student:
    header, problems, skills, right = ([int(value) for value in line.split(",") if value.strip()] for line in lines)
    answers: list[Answer] = []
    for problem, skill, is_right in zip(problems, skills, right, strict=True):
        last = answers[-1] if answers and merge else None
        name = str(skill)
        if last and (last.problem, last.is_right) == (problem, bool(is_right)) and name not in last.skills:
            answers[-1] = replace(last, skills=(*last.skills, name))
        else:
            answers.append(Answer(problem, (name,), bool(is_right)))
    return Student(header[1], tuple(answers))


def right_of(students: Sequence[Student]) -> np.ndarray:
    """1 for every right answer, [answers]: the order of every prediction here."""
    return np.array([answer.is_right for answer in _answers(students)], dtype=float)


def _answers(students: Sequence[Student]) -> Iterator[Answer]:
    return (answer for student in students for answer in student.answers)


# --- Bayesian knowledge tracing --------------------------------------------------------------------------------------


class _TwoStates(CategoricalHMM):
    """Not known and known, wrong and right, within bounds.

    Differs: the bounds. The likelihood has one peak in each of these probabilities, so the best value within bounds is
    the nearest, and every round of EM still gains.
    """

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        super()._do_mstep(stats)
        learn, forget = np.clip(self.transmat_[0, 1], *_LEARN), np.clip(self.transmat_[1, 0], *_FORGET)
        guess, slip = np.clip(self.emissionprob_[0, 1], *_GUESS), np.clip(self.emissionprob_[1, 0], *_SLIP)
        self.transmat_ = np.array([[1 - learn, learn], [forget, 1 - forget]])
        self.emissionprob_ = np.array([[1 - guess, guess], [slip, 1 - slip]])


def fit_bkt(students: Sequence[Student], *, forget: bool, advance: Callable[[int], None] = lambda _: None) -> Bkt:
    """Fits knowledge tracing by EM, over all skills together and then each for itself; ``advance`` counts skills."""
    by_skill: dict[str, list[list[int]]] = {}
    for student in students:
        own: dict[str, list[int]] = defaultdict(list)
        for answer in student.answers:
            for skill in answer.skills:
                own[skill].append(int(answer.is_right))
        for skill, sequence in own.items():
            by_skill.setdefault(skill, []).append(sequence)
    pooled = fit_skill(
        [sequence for sequences in by_skill.values() for sequence in sequences],
        _START if forget else replace(_START, forget=0.0),
    )
    skills: dict[str, Parameters] = {}
    for skill, sequences in by_skill.items():
        if sum(map(len, sequences)) >= LEAST_ANSWERS:
            skills[skill] = fit_skill(sequences, pooled, PSEUDO_ANSWERS)
        advance(1)
    return Bkt(pooled, skills)


def fit_skill(sequences: Sequence[Sequence[int]], start: Parameters, pseudo_answers: float = 0.0) -> Parameters:
    """Fits one skill by EM from ``start``: of every student the answers, 1 for right.

    ``start.forget`` of 0 stays 0. ``pseudo_answers``: for how many answers ``start`` itself counts.
    """
    first = np.array([1 - start.prior, start.prior])
    moves = np.array([[1 - start.learn, start.learn], [start.forget, 1 - start.forget]])
    says = np.array([[1 - start.guess, start.guess], [start.slip, 1 - start.slip]])
    answers = np.concatenate([np.asarray(sequence) for sequence in sequences])
    # The library's annotations know only symmetric priors; it takes one of each probability as well.
    priors: dict[str, Any] = {
        "startprob_prior": 1 + pseudo_answers * first,
        "transmat_prior": 1 + pseudo_answers * moves,
        "emissionprob_prior": 1 + pseudo_answers * says,
    }
    model = _TwoStates(2, n_iter=_ROUNDS, tol=_TOLERANCE * len(answers), init_params="", params="ste", **priors)
    model.n_features = 2
    model.startprob_, model.transmat_, model.emissionprob_ = first, moves, says
    model.fit(answers[:, None], [len(sequence) for sequence in sequences])
    return Parameters(
        prior=float(model.startprob_[1]),
        learn=float(model.transmat_[0, 1]),
        guess=float(model.emissionprob_[0, 1]),
        slip=float(model.emissionprob_[1, 0]),
        forget=float(model.transmat_[1, 0]),
    )


def predict_bkt(students: Sequence[Student], bkt: Bkt, *, carry: float = 0.0, usual: float = 0.5) -> np.ndarray:
    """The probability that each answer is right, [answers], by the tutor's own arithmetic.

    For a problem of several skills it is the mean of theirs, and its answer counts for each.

    Args:
        carry: how much a student's share of right answers so far, in whatever skill, moves the start of a new skill:
            the odds of ``prior`` are multiplied by ``(odds of the share / odds of usual) ** carry``.
        usual: the share of right answers of all students.
    """
    found: list[float] = []
    for student in students:
        p_known: dict[str, float] = {}
        for answer, share in zip(student.answers, _shares(student, usual, _CARRY_ANSWERS), strict=True):
            chosen = [(skill, bkt.of(skill)) for skill in answer.skills]
            for skill, parameters in chosen:
                if skill not in p_known:
                    p_known[skill] = _moved(parameters.prior, (_odds(share) / _odds(usual)) ** carry)
            found.append(sum(parameters.p_right(p_known[skill]) for skill, parameters in chosen) / len(chosen))
            for skill, parameters in chosen:
                p_known[skill] = parameters.practised(parameters.seen(p_known[skill], float(answer.is_right)))
    return np.array(found)


def _shares(student: Student, usual: float, weight: float) -> Iterator[float]:
    """Before each answer the share of right ones so far, with ``weight`` answers of the usual share in front."""
    right, count = usual * weight, weight
    for answer in student.answers:
        yield right / count
        right, count = right + answer.is_right, count + 1


def _odds(probability: float) -> float:
    return probability / (1 - probability)


def _moved(prior: float, factor: float) -> float:
    return prior * factor / (prior * factor + 1 - prior)


# --- What else foretells an answer -----------------------------------------------------------------------------------


def predict_pfa(train: Sequence[Student], test: Sequence[Student]) -> np.ndarray:
    """Performance factors analysis: logistic in each skill's ease and its numbers of right and wrong answers so far.

    Source: P. I. Pavlik, H. Cen and K. R. Koedinger, "Performance factors analysis", 2009, equation 3.
    Differs: scikit-learn's usual ridge of 1, without which skills of a few answers have no finite optimum.
    """
    index: dict[str, int] = {}
    for answer in _answers(train):
        for skill in answer.skills:
            index.setdefault(skill, len(index))
    model = LogisticRegression(solver="newton-cg", max_iter=200)
    model.fit(_performance(train, index), right_of(train))
    return model.predict_proba(_performance(test, index))[:, 1]


def _performance(students: Sequence[Student], index: Mapping[str, int]) -> csr_matrix:
    """[answers, 3 * skills]: whether the answer is on the skill, right answers to it so far, wrong ones."""
    values: list[float] = []
    columns: list[int] = []
    ends = [0]
    for student in students:
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for answer in student.answers:
            for skill in answer.skills:
                if skill in index:
                    place = 3 * index[skill]
                    columns += [place, place + 1, place + 2]
                    values += [1, *counts[skill]]
            ends.append(len(values))
            for skill in answer.skills:
                counts[skill][0 if answer.is_right else 1] += 1
    return csr_matrix((values, columns, ends), shape=(len(ends) - 1, 3 * len(index)))


def predict_skill_mean(train: Sequence[Student], test: Sequence[Student]) -> np.ndarray:
    """Each skill's share of right answers in ``train``, one more of the usual share added, [answers of test]."""
    right, count = Counter[str](), Counter[str]()
    for answer in _answers(train):
        right.update(dict.fromkeys(answer.skills, int(answer.is_right)))
        count.update(answer.skills)
    usual = float(right_of(train).mean())
    means = {skill: (right[skill] + usual) / (count[skill] + 1) for skill in count}
    return np.array([np.mean([means.get(skill, usual) for skill in answer.skills]) for answer in _answers(test)])


def predict_student_mean(train: Sequence[Student], test: Sequence[Student]) -> np.ndarray:
    """The share of right answers that each student had before, [answers of test]; at first the share in ``train``."""
    usual = float(right_of(train).mean())
    return np.array([share for student in test for share in _shares(student, usual, 1)])
