"""Units of measurement as Vietnamese textbooks spell them, each with one canonical form."""

import re
from collections.abc import Sequence

MULTIPLIERS = {"nghìn": 10**3, "ngàn": 10**3, "vạn": 10**4, "triệu": 10**6, "tỉ": 10**9, "tỷ": 10**9}

# Canonical unit: its spellings, lower case. Symbols whose case matters stand in _SYMBOLS.
_SPELLINGS = {
    "km2": "ki-lô-mét vuông|kilômét vuông|kilomet vuông|ki lô mét vuông|cây số vuông|km vuông|km2|km²",
    "m2": "mét vuông|m vuông|m2|m²",
    "cm2": "xăng-ti-mét vuông|cm2|cm²",
    "km3": "ki-lô-mét khối|km khối|km3|km³",
    "m3": "mét khối|m khối|m3|m³",
    "cm3": "xăng-ti-mét khối|cm3|cm³|cc",
    "km/h": "ki-lô-mét trên giờ|ki-lô-mét/giờ|ki-lô-mét một giờ|km trên giờ|km/giờ|km/h",
    "km/s": "ki-lô-mét trên giây|km/giây|km/s",
    "m/s2": "m/s2|m/s²|mét trên giây bình phương",
    "m/s": "mét trên giây|mét/giây|m/giây|m/s",
    "kg/m3": "ki-lô-gam trên mét khối|kg/m3|kg/m³",
    "g/cm3": "gam trên xăng-ti-mét khối|g/cm3|g/cm³",
    "người/km2": "người trên ki-lô-mét vuông|người trên km2|người/ki-lô-mét vuông|người/km2|người/km²",
    "km": "ki-lô-mét|kilômét|kilomet|ki lô mét|cây số|km",
    "cm": "xăng-ti-mét|xentimét|xăng ti mét|cm",
    "mm": "mi-li-mét|milimét|mm",
    "dm": "đề-xi-mét|dm",
    "nm": "na-nô-mét|nanomét|nm",
    "µm": "micrômét|µm|μm",
    "m": "mét|m",
    "ha": "héc-ta|hecta|héc ta|ha",
    "l": "lít",
    "ml": "mi-li-lít|mililít|ml",
    "kg": "ki-lô-gam|kilôgam|kilogam|ki lô gam|kg",
    "mg": "mi-li-gam|miligam|mg",
    "g": "gam|g",
    "tấn": "tấn",
    "tạ": "tạ",
    "yến": "yến",
    "giây": "giây|s",
    "phút": "phút",
    "giờ": "giờ|tiếng đồng hồ|h",
    "tuổi": "tuổi",
    "°C": "độ c|°c|° c|º c|ºc|℃|độ xen-xi-ớt|độ celsius|oc",
    "°F": "độ f|°f|° f|ºf|℉",
    "°": "độ|°|º",
    "%": "phần trăm|%",
    "‰": "phần nghìn|phần ngàn|‰",
    "đồng": "đồng|vnđ|vnd",
    "USD": "đô la mỹ|đô la|đô-la|usd",
    "TCN": "trước công nguyên|tcn|tr\\.cn|trước cn",
}
_SYMBOLS = {"K": "K", "N": "N", "J": "J", "kJ": "kJ", "W": "W", "kW": "kW", "MW": "MW", "V": "V", "kV": "kV", "A": "A",
            "mA": "mA", "Hz": "Hz", "Pa": "Pa", "atm": "atm", "Ω": "Ω", "mol": "mol", "L": "l"}  # fmt: skip
TIME_UNITS = {"ngày": "ngày", "tuần": "tuần", "tháng": "tháng", "năm": "năm", "thế kỉ": "thế kỉ", "thế kỷ": "thế kỉ",
               "thập niên": "thập niên", "thập kỉ": "thập niên", "thập kỷ": "thập niên"}  # fmt: skip
_UNIT_OF = {
    spelling.replace("\\", ""): unit for unit, spellings in _SPELLINGS.items() for spelling in spellings.split("|")
} | TIME_UNITS


def _alternatives(spellings: Sequence[str]) -> str:
    return "|".join(re.escape(s) for s in sorted(spellings, key=len, reverse=True))


_UNIT = re.compile(rf"\s?(?:{_alternatives(list(_UNIT_OF))})(?!\w)", re.IGNORECASE)
_SYMBOL = re.compile(rf"\s?(?:{_alternatives(list(_SYMBOLS))})(?!\w)")
# A capital after a digit belongs to a name (4G, 5S); as units these letters are small.
_CAPITAL_LETTERS = frozenset("MGHS")
_MULTIPLIER = re.compile(rf"\s?(?:{_alternatives(list(MULTIPLIERS))})(?!\w)", re.IGNORECASE)


def units_in(text: str) -> frozenset[str]:
    """Canonical units that stand anywhere in ``text``, such as in the head of a table."""
    lowered = text.lower()
    found = {unit for spelling, unit in _UNIT_OF.items() if spelling in lowered and _stands(spelling, lowered)}
    return frozenset(found | {unit for symbol, unit in _SYMBOLS.items() if _stands(symbol, text)})


def unit_after(text: str, end: int) -> tuple[str | None, int]:
    """The canonical unit that stands at ``end``, after a number, and where it ends; ``(None, end)`` for none."""
    match = _UNIT.match(text, end)
    if match is not None and match.group().strip() not in _CAPITAL_LETTERS:
        unit = _UNIT_OF[match.group().strip().lower()]
        # "100 năm" is a span of time, "4 tháng 9" and "5 năm 1945" are the start of a date.
        if not (unit in TIME_UNITS.values() and re.match(r"\s\d", text[match.end() : match.end() + 2])):
            return unit, match.end()
        return None, end
    symbol = _SYMBOL.match(text, end)
    return (_SYMBOLS[symbol.group().strip()], symbol.end()) if symbol else (None, end)


def multiplier_after(text: str, end: int) -> tuple[int, int]:
    """The factor of a word such as "triệu" at ``end``, and where it ends; ``(1, end)`` for none."""
    match = _MULTIPLIER.match(text, end)
    return (MULTIPLIERS[match.group().strip().lower()], match.end()) if match else (1, end)


def _stands(spelling: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(spelling)}(?!\w)", text) is not None
