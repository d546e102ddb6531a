"""Bullets for a question: of its scope, to the point, trusted, new, within the budget, in a stable order."""

from typing import Any

import pytest
from made_bullets import bullet

from deepedu.playbook.bullet import Bullet, BulletScope
from deepedu.playbook.select import BulletIndex, holds_in, render
from deepedu.playbook.trust import UNUSED, harmful, keeps_harming, trust, wilson_bounds

FACTS = (
    "Nước sôi ở 100 °C dưới áp suất khí quyển.",
    "Tế bào là đơn vị cơ bản của sự sống.",
    "Robert Hooke quan sát tế bào đầu tiên vào năm 1665.",
    "Diện tích hình chữ nhật bằng chiều dài nhân chiều rộng.",
    "Thủ đô của Việt Nam là Hà Nội.",
)


def index_of(*texts: str, **more: Any) -> BulletIndex:
    return BulletIndex(bullet(number, text, **more) for number, text in enumerate(texts, start=1))


def ids(index: BulletIndex, question: str, **more: Any) -> list[str]:
    values: dict[str, Any] = {"budget_tokens": 1000, **more}
    return [each.bullet.id for each in index.select(question, **values)]


def test_bullets_that_the_question_is_about() -> None:
    index = index_of(*FACTS)
    assert ids(index, "Nước sôi ở bao nhiêu độ?") == ["b-00001"]
    assert ids(index, "Ai quan sát tế bào đầu tiên?") == ["b-00002", "b-00003"]
    assert ids(index, "Cách tính chu vi hình tròn?", limit=1) in (["b-00004"], [])
    assert ids(index, "xin chào") == []
    assert ids(index, "") == []
    assert ids(BulletIndex([]), "Nước sôi?") == []


def test_a_question_typed_without_accents() -> None:
    assert ids(index_of(*FACTS), "nuoc soi o bao nhieu do") == ["b-00001"]
    assert ids(index_of(*FACTS), "dien tich hinh chu nhat") == ["b-00004"]


def test_only_verified_bullets_are_shown() -> None:
    bullets: list[Bullet] = [
        bullet(number, FACTS[0], status=status, scope=BulletScope(grade=number))
        for number, status in enumerate(("proposed", "quarantined", "retired", "verified"), start=1)
    ]
    assert ids(BulletIndex(bullets), "Nước sôi ở bao nhiêu độ?") == ["b-00004"]
    assert len(BulletIndex(bullets)) == 1


@pytest.mark.parametrize(
    ("mine", "asked", "holds"),
    [
        ({}, {}, True),
        ({}, {"grade": 6, "lesson": "Bài 5"}, True),
        ({"grade": 6}, {"grade": 6}, True),
        ({"grade": 6}, {"grade": 7}, False),
        ({"grade": 6}, {}, True),
        ({"subject": "Toán"}, {"subject": "Vật lí"}, False),
        ({"book": "a"}, {"book": "b"}, False),
        ({"lesson": "Bài 5"}, {}, False),
        ({"lesson": "Bài 5"}, {"lesson": "Bài 5"}, True),
        ({"book": "a", "lesson": "Bài 5"}, {"book": "a", "lesson": "Bài 5"}, True),
        ({"book": "a", "lesson": "Bài 5"}, {"lesson": "Bài 5"}, False),
    ],
)
def test_scopes(mine: dict[str, Any], asked: dict[str, Any], holds: bool) -> None:
    assert holds_in(BulletScope(**mine), BulletScope(**asked)) is holds
    found = ids(index_of(FACTS[0], scope=BulletScope(**mine)), "Nước sôi?", scope=BulletScope(**asked))
    assert found == (["b-00001"] if holds else [])


def test_the_budget_holds_and_what_fits_still_comes() -> None:
    long = "Nước sôi " + "rất lâu " * 20
    index = index_of(long, "Nước sôi ở 100 °C.")
    found = index.select("nước sôi", budget_tokens=12)
    assert [each.bullet.id for each in found] == ["b-00002"]
    assert sum(each.bullet.tokens for each in found) <= 12
    assert ids(index, "nước sôi", budget_tokens=0) == []


def test_of_two_that_say_the_same_the_trusted_one_comes() -> None:
    good = bullet(1, "Nước sôi ở 100 °C.", helpful=1, harmful=2)
    better = bullet(2, "Ở 100 °C nước sôi.", helpful=9)
    assert ids(BulletIndex([good, better]), "Nước sôi ở bao nhiêu độ?", limit=1) == ["b-00002"]
    assert "b-00001" not in ids(BulletIndex([good, better, bullet(3, FACTS[1])]), "Nước sôi ở 100 °C?", limit=1)


def test_what_is_said_already_makes_room_for_something_new() -> None:
    same = [bullet(number, "Nước sôi ở 100 °C.", scope=BulletScope(grade=number)) for number in (1, 2, 3)]
    other = bullet(4, "Nước đóng băng ở 0 °C.")
    found = ids(BulletIndex([*same, other]), "Nước sôi và đóng băng ở bao nhiêu độ?", limit=2)
    assert found == ["b-00001", "b-00004"]
    # And never a second time, however much room there is.
    assert len(ids(BulletIndex([*same, other]), "Nước sôi và đóng băng ở bao nhiêu độ?")) == 2


def test_where_all_questions_are_of_one_kind_the_nearest_come_however_far() -> None:
    index = index_of(
        "giá trị hợp lý của khoản nợ dài hạn vào cuối năm\n→ LongTermDebtFairValue",
        "tỉ lệ sở hữu trong công ty liên kết\n→ EquityMethodInvestmentOwnershipPercentage",
        kind="method",
    )
    question = "khoản vay của công ty mẹ được ghi theo mệnh giá ban đầu trên báo cáo tài chính hợp nhất quý hai"
    assert ids(index, question) == []
    assert len(ids(index, question, one_kind=True)) == 2
    assert len(ids(index, question, one_kind=True, limit=1)) == 1


def test_the_order_is_the_books_whatever_is_asked() -> None:
    index = index_of(*FACTS)
    both = {tuple(ids(index, question)) for question in ("tế bào Robert Hooke", "Hooke nhìn thấy tế bào của sự sống")}
    assert both == {("b-00002", "b-00003")}
    assert render(index.select("tế bào", budget_tokens=100)).startswith("- [b-00002] Tế bào là")


def test_wilson_bounds() -> None:
    assert wilson_bounds(0, 0) == (0.0, 1.0)
    low, high = wilson_bounds(8, 10, z=1.96)
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)
    assert wilson_bounds(0, 5)[0] == pytest.approx(0.0)
    assert wilson_bounds(5, 5)[1] == pytest.approx(1.0)
    assert trust(bullet(1, "x")) == UNUSED
    assert trust(bullet(1, "x", helpful=100)) > trust(bullet(1, "x", helpful=3)) > trust(bullet(1, "x", helpful=1))


def test_a_bullet_that_keeps_harming() -> None:
    counts = [(0, 2, False), (0, 3, True), (3, 3, False), (10, 3, False), (1, 6, True)]
    for helps, harms, told in counts:
        assert keeps_harming(bullet(1, "x", helpful=helps, harmful=harms)) is told
    bad = bullet(1, "x", harmful=5)
    assert harmful([bad, bullet(2, "y", harmful=5, status="retired"), bullet(3, "z")]) == [bad]
