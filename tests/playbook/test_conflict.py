"""What says the opposite of a verified bullet."""

from typing import Any

import pytest
from made_bullets import bullet

from deepedu.playbook.bullet import BulletScope
from deepedu.playbook.conflict import contradicted

BOILS = "Ở áp suất khí quyển tiêu chuẩn, nước tinh khiết sôi ở 100 °C."


def against(text: str, *others: Any, **more: Any) -> list[str]:
    return [other.id for other in contradicted(bullet(9, text, status="proposed", **more), others)]


@pytest.mark.parametrize(
    "text",
    [
        "Ở áp suất khí quyển tiêu chuẩn, nước tinh khiết sôi ở 90 °C.",
        "Ở áp suất khí quyển tiêu chuẩn, nước tinh khiết không sôi ở 100 °C.",
        "Ở áp suất khí quyển tiêu chuẩn, nước Ethanol tinh khiết sôi ở 100 °C.",
    ],
)
@pytest.mark.parametrize("kind", ["fact", "mistake"])
def test_a_number_a_name_or_a_negation_makes_the_opposite(text: str, kind: Any) -> None:
    assert against(text, bullet(1, BOILS), kind=kind) == ["b-00001"]


@pytest.mark.parametrize(
    "text",
    [
        "Ở áp suất khí quyển tiêu chuẩn thì nước tinh khiết sôi ở 100 °C.",
        "Anders Celsius sinh năm 1701.",
        "Nước đá tan ở 0 °C.",
    ],
)
def test_what_says_the_same_or_something_else_is_none(text: str) -> None:
    assert against(text, bullet(1, BOILS)) == []


def test_two_names_in_one_sentence() -> None:
    said = bullet(1, "Năm 1831, nhà thực vật học Robert Brown đặt tên cho nhân tế bào.")
    assert against("Năm 1831, nhà thực vật học Robert Hooke đặt tên cho nhân tế bào.", said) == ["b-00001"]


@pytest.mark.parametrize("status", ["proposed", "quarantined", "retired"])
def test_only_what_is_verified_can_be_contradicted(status: str) -> None:
    assert against(BOILS.replace("100", "90"), bullet(1, BOILS, status=status)) == []


@pytest.mark.parametrize("kind", ["method", "tool", "explanation"])
def test_examples_with_other_numbers_are_more_examples(kind: Any) -> None:
    assert against(BOILS.replace("100", "90"), bullet(1, BOILS, kind=kind), kind=kind) == []


def test_a_contradiction_is_one_in_whatever_scope() -> None:
    elsewhere = bullet(1, BOILS, scope=BulletScope(grade=7, subject="Vật lí"), language="vi")
    assert against(BOILS.replace("100", "90"), elsewhere, scope=BulletScope(grade=6)) == ["b-00001"]


def test_the_nearest_first_and_never_itself() -> None:
    far = bullet(1, "Ở áp suất khí quyển tiêu chuẩn, nước tinh khiết ở chỗ em sôi ở 80 °C.")
    near = bullet(2, BOILS)
    assert against(BOILS.replace("100", "90"), far, near) == ["b-00002", "b-00001"]
    itself = bullet(1, BOILS)
    assert contradicted(itself, [itself]) == []
