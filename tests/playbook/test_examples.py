"""Worked examples as bullets."""

from deepedu.playbook.bullet import BULLET_TOKENS, BulletScope, InteractionEvidence
from deepedu.playbook.delta import Add
from deepedu.playbook.examples import ARROW, worked_example
from deepedu.playbook.problem import Problem

EVIDENCE = InteractionEvidence(reference="r:q", signal="quiz")


def test_a_question_and_its_solution_on_two_lines() -> None:
    scope = BulletScope(grade=6, lesson="Bài 4")
    problem = Problem(id="q", question="Dài dòng", about="Tính  khối lượng\nriêng", language="en", scope=scope)
    assert worked_example(problem, "m / V\n= 5,4 / 0,002", EVIDENCE) == Add(
        text=f"Tính khối lượng riêng\n{ARROW} m / V = 5,4 / 0,002",
        kind="method",
        language="en",
        scope=scope,
        evidence=(EVIDENCE,),
    )


def test_without_anything_shorter_the_whole_question_stands_there() -> None:
    found = worked_example(Problem(id="q", question="2 + 3 = ?", example_kind="mistake"), "5", EVIDENCE)
    assert found is not None
    assert (found.text, found.kind) == (f"2 + 3 = ?\n{ARROW} 5", "mistake")


def test_a_fact_is_its_own_example() -> None:
    said = "Năm 1742, Anders Celsius đề xuất thang nhiệt độ."
    found = worked_example(Problem(id="q", question="Năm nào?", example_kind="fact"), said, EVIDENCE)
    assert found is not None
    assert (found.text, found.kind) == (said, "fact")


def test_half_an_example_is_none() -> None:
    problem = Problem(id="q", question="Tính.")
    longest = int(BULLET_TOKENS * 2.8) - len(f"Tính.\n{ARROW} ") - 1
    assert worked_example(problem, "1" * longest, EVIDENCE) is not None
    assert worked_example(problem, "1" * (longest + 10), EVIDENCE) is None
    fact = Problem(id="q", question="Tính.", example_kind="fact")
    assert worked_example(fact, "1" * 1000, EVIDENCE) is None


def test_what_no_bullet_may_hold_is_none() -> None:
    assert worked_example(Problem(id="q", question="Tính.", example_kind="fact"), "3 + 4\x07 = 7", EVIDENCE) is None
