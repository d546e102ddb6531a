"""Words that keys, values and prose are put together from, in both languages."""

import random

from deepedu.bench.longcontext.case import Language


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


_EN_QUALITIES = _listed(
    "quiet, golden, hollow, silver, wooden, broken, gentle, frozen, crimson, bitter, ancient, narrow, sudden, velvet, "
    "rusty, humble, lively, marble, hidden, stormy, sleepy, copper, fragile, distant, curious, purple, modest, dusty, "
    "clever, gloomy, hungry, jolly, lonely, mighty, nimble, orange, polite, rapid, sacred, tender, urban, vivid, "
    "wicked, yellow, amber, brisk, cosmic, double, elegant, famous, grand, honest, inner, jagged, keen, loyal, misty, "
    "noble, olive, plain"
)
_EN_THINGS = _listed(
    "lantern, harbor, meadow, violin, compass, kettle, anchor, basket, candle, dragon, engine, feather, garden, "
    "hammer, "
    "island, jacket, ladder, mirror, needle, orchard, pillow, quarry, ribbon, saddle, temple, umbrella, valley, "
    "window, "
    "barrel, castle, desert, falcon, glacier, helmet, insect, jungle, kitten, locket, magnet, notebook, oyster, "
    "parrot, "
    "rocket, sailor, tunnel, village, walnut, blanket, canyon, dolphin, emerald, fountain, guitar, hunter, ivory, "
    "journal, library, monkey, ocean, pepper"
)
_VI_THINGS = _listed(
    "con mèo, cái bàn, cây cầu, ngọn đèn, chiếc thuyền, quyển sách, bông hoa, cánh cửa, con đường, dòng sông, ngôi "
    "nhà, "
    "quả bóng, chiếc mũ, cái trống, bức tranh, ngọn núi, cánh đồng, con chim, cái ghế, đám mây, chiếc áo, cây bút, "
    "hòn đảo, con ngựa, cái chuông, chiếc xe, khu vườn, con cá, cái giếng, tấm thảm, viên đá, sợi dây, chiếc lá, con "
    "tàu, "
    "bầu trời, cái cân, ngôi sao, con thỏ, chiếc khăn, cái nón, cây đàn, cái bình, con trâu, mái chèo, cái thang, "
    "chiếc nhẫn, con rùa, tấm gương, cái hộp, bến cảng"
)
_VI_QUALITIES = _listed(
    "xanh, đỏ, vàng, tím, trắng, nâu, hồng, nhỏ, cũ, mới, cao, dài, tròn, vuông, nặng, nhẹ, sáng, im lặng, hiền lành, "
    "khổng lồ, mong manh, cô đơn, rực rỡ, bí ẩn, kỳ lạ, xinh đẹp, bằng gỗ, bằng đồng, bằng đá, bằng bạc, bằng tre, "
    "cuối cùng, đầu tiên, xa xôi, lấp lánh, vui vẻ, ngủ quên, dũng cảm, thông minh, phủ bụi"
)


def key_names(language: Language, draw: random.Random, number: int) -> list[str]:
    """Different names such as "quiet-lantern" and "con mèo xanh"; they share words, so that none is told by a part.

    Args:
        number: at most 3600 in English, 2000 in Vietnamese.
    """
    if language == "en":
        names = [f"{quality}-{thing}" for quality in _EN_QUALITIES for thing in _EN_THINGS]
    else:
        names = [f"{thing} {quality}" for thing in _VI_THINGS for quality in _VI_QUALITIES]
    return draw.sample(names, number)


def numbers(draw: random.Random, number: int, digits: int = 7) -> list[str]:
    """Different numbers of so many digits, the first not 0."""
    return [str(value) for value in draw.sample(range(10 ** (digits - 1), 10**digits), number)]
