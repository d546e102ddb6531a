"""Worked examples as bullets: a question that failed, with its solution that code has checked.

What a model of a fixed size lacks most often is not a rule but a pattern. Source: Zelikman et al. 2022, STaR
(arXiv 2203.14465), for solutions that are asked for with the answer known and kept only where they reach it.
"""

from datetime import UTC, datetime

from pydantic import ValidationError

from deepedu.playbook.bullet import Author, Bullet, InteractionEvidence
from deepedu.playbook.delta import Add
from deepedu.playbook.problem import Problem

ARROW = "→"


def trial(example: Add) -> Bullet:
    """An example as the verified bullet that it may become, to see where it would be shown."""
    at = datetime.now(UTC)
    return Bullet(
        id="trial",
        order=0,
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
    """The bullet, or None where no bullet may hold it, being too long: half an example is none.

    A fact is its own example: what the book says, without the question.
    """
    text = (
        solution
        if problem.example_kind == "fact"
        else f"{' '.join(problem.topic.split())}\n{ARROW} {' '.join(solution.split())}"
    )
    kind, language, scope = problem.example_kind, problem.language, problem.scope
    try:
        return Add(text=text, kind=kind, language=language, scope=scope, evidence=(evidence,))
    except ValidationError:
        return None
