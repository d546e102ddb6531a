"""Worked examples as bullets: a question that failed, with its solution that code has checked.

What a model of a fixed size lacks most often is not a rule but a pattern. Source: Zelikman et al. 2022, STaR
(arXiv 2203.14465), for solutions that are asked for with the answer known and kept only where they reach it.
"""

from datetime import UTC, datetime

from deepedu.base.vietnamese import estimate_tokens
from deepedu.playbook.bullet import BULLET_TOKENS, Author, Bullet, InteractionEvidence
from deepedu.playbook.delta import Add
from deepedu.playbook.problem import Problem
from deepedu.playbook.state import State

ARROW = "→"


def trial(example: Add, state: State) -> Bullet:
    """An example as the verified bullet that it may become, to see where it would be shown."""
    at = datetime.now(UTC)
    return Bullet(
        id="trial",
        order=state.last_order + 1,
        section="",
        text=example.text,
        kind=example.kind,
        language=example.language,
        scope=example.scope,
        status="verified",
        author=Author(role="model"),
        created_at=at,
        changed_at=at,
    )


def worked_example(problem: Problem, solution: str, evidence: InteractionEvidence) -> Add | None:
    """The bullet, or None where it would be longer than a bullet may be: half an example is none.

    A fact is its own example: what the book says, without the question.
    """
    text = (
        solution
        if problem.example_kind == "fact"
        else f"{' '.join(problem.topic.split())}\n{ARROW} {' '.join(solution.split())}"
    )
    if estimate_tokens(text) > BULLET_TOKENS:
        return None
    return Add(
        text=text, kind=problem.example_kind, language=problem.language, scope=problem.scope, evidence=(evidence,)
    )
