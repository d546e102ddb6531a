"""Chat lines of invented pupils, with the place of every piece of personal data in them.

Names and districts come from the shared data sets, everything else is drawn by chance. The templates come in two
parts: the masking was developed on one and is measured on the other.
"""

import json
import random
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deepedu.base.errors import ConfigError
from deepedu.base.personal_data import PersonalKind
from deepedu.base.vietnamese import fold

DEVELOPMENT = (
    "sđt em là {phone}",
    "gọi em số {phone} nha",
    "{phone} là số của mẹ em ạ",
    "số CCCD của em là {card}",
    "cmnd của bố em {old_card}",
    "em gửi {card}",
    "email em là {email} nhé",
    "gửi bài vào {email} giúp em",
    "nhà em ở {address}",
    "địa chỉ nhà em: {address}",
    "em đang trọ ở {address} ạ",
    "fb em là {handle}",
    "zalo của mình tên {handle}",
    "em sinh ngày {birth}",
    "ngày sinh: {birth}",
    "em tên là {full_name} ạ",
    "mẹ em là {other_name}",
    "bạn {short_name} đánh em",
    "{full_name} không làm bài nhóm cô ạ",
    "hôm nay {full_name} nghỉ học",
    "stk của em là {account}",
    "mã học sinh của em là {code}",
    "mật khẩu vnedu của em là {password}",
    "em không hiểu bài 5 trang 36",
    "bạn Hoa có 5 quả táo, bạn Lan có {amount} quả",
    "số {amount} đọc thế nào",
    "Hà Nội ở đâu hả thầy?",
    "em học lớp 7A2",
)
HELD_OUT = (
    "thầy ơi có gì nhắn em qua {phone} với ạ",
    "máy em hư rồi, liên lạc số {phone} của ba em",
    "em hết tiền điện thoại, số mới nè: {phone}",
    "cho mình xin link, đt mình {phone} nhé mọi người",
    "ai nhặt được cặp thì báo lại {phone} giúp mình",
    "thẻ căn cước của em ghi {card} có đúng định dạng không ạ",
    "trong giấy khai sinh có dãy {card}, đó là gì vậy cô",
    "chứng minh nhân dân mẹ em số {old_card} thì điền vào đâu",
    "cô gửi đề cương qua {email} cho em với",
    "em mới lập hộp thư {email}, thầy thử xem được chưa",
    "thư của em: {email}.",
    "em vừa chuyển tới {address} nên chưa có sách",
    "chiều qua đón em tại {address} nhé mẹ",
    "gia đình em hiện sống tại {address}",
    "bạn nào gần {address} thì học chung với mình",
    "chỗ ở hiện nay của em: {address}",
    "kết bạn với mình trên facebook tên {handle} nha",
    "ib insta em: {handle} em gửi ảnh bài làm",
    "nick zalo em là {handle}",
    "bữa sinh nhật em {birth} mời cả lớp",
    "mình sinh {birth} thì thuộc cung gì",
    "con sinh ngày {birth}, con được mấy tuổi",
    "dạ em là {full_name} ngồi bàn ba",
    "chào thầy, em {full_name} xin nộp bài",
    "họ và tên: {full_name}",
    "nhóm em gồm em với {full_name}",
    "hôm bữa {short_name} có chỉ em cách này",
    "em bị {short_name} giấu vở",
    "em ngồi cạnh {short_name} ạ",
    "tên mẹ em là {other_name}, làm ở chợ",
    "ba em tên {other_name}",
    "cô giáo chủ nhiệm em là cô {other_name}",
    "tài khoản ngân hàng mẹ em {account} để đóng tiền",
    "số tài khoản: {account} (ngân hàng quân đội)",
    "mshs em là {code}",
    "số báo danh {code} của em phòng nào",
    "em quên đăng nhập, mật khẩu là {password}",
    "tổng của {amount} và 125 là bao nhiêu",
    "bài 12 câu {amount} em chưa ra",
    "khoảng cách {amount} km đổi ra mét",
    "cửa hàng thu được {amount} đồng, hỏi lãi bao nhiêu",
    "dân số nước ta năm 2019 là 96 208 984 người đúng không",
    "Nguyễn Trãi viết Bình Ngô đại cáo năm nào",
    "tỉnh Hòa Bình có nhà máy thủy điện nào",
    "em thích môn hóa, hoa hồng thuộc họ nào",
    "tìm x biết 0,9123 : x = 3",
    "bạn An và bạn Bình đi từ A đến B lúc 7 giờ 30",
    "trang 112 bài 3 thầy giảng lại với",
)
_KINDS = {
    "phone": PersonalKind.PHONE,
    "card": PersonalKind.IDENTITY_CARD,
    "old_card": PersonalKind.IDENTITY_CARD,
    "email": PersonalKind.EMAIL,
    "address": PersonalKind.ADDRESS,
    "handle": PersonalKind.SOCIAL_ACCOUNT,
    "birth": PersonalKind.BIRTH_DATE,
    "full_name": PersonalKind.NAME,
    "short_name": PersonalKind.NAME,
    "other_name": PersonalKind.NAME,
    "account": PersonalKind.BANK_ACCOUNT,
    "code": PersonalKind.STUDENT_CODE,
    "password": PersonalKind.PASSWORD,
}
_STREETS = ("Nguyễn Trãi", "Lê Lợi", "Láng", "Hai Bà Trưng", "Trần Phú", "3/2", "Lý Thường Kiệt", "Cầu Giấy")
_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Line:
    """A chat line; ``data`` are ``(start, end, kind)`` of what has to be masked. ``way`` is how it was typed."""

    text: str
    data: tuple[tuple[int, int, PersonalKind], ...]
    template: str
    way: str


@dataclass(frozen=True)
class People:
    """A class list, names outside of it, and places as ``(district, province)`` with their kind."""

    class_names: tuple[str, ...]
    others: tuple[str, ...]
    districts: tuple[tuple[str, str], ...]


def read_people(data: Path, draw: random.Random, size: int = 45) -> People:
    """Draws a class and strangers from the shared data sets.

    Raises:
        ConfigError: the data sets are not there.
    """
    try:
        literals = json.loads((data / "vi_names" / "faker_vi_VN_literals.json").read_text(encoding="utf-8"))
        given = [(data / "vi_names" / file).read_text(encoding="utf-8").split("\n") for file in ("boy.txt", "girl.txt")]
        districts = json.loads((data / "vi_admin_units" / "quan_huyen.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"this bench needs vi_names and vi_admin_units in {str(data)!r}: {error.strerror}") from error
    surnames = sorted({name for name in literals["person"]["last_names"] if " " not in name})
    plain = [unicodedata.normalize("NFC", name.replace("Ð", "Đ")).strip() for names in given for name in names]
    plain = [name for name in plain if len(name.split()) == 2]
    drawn = [_whole_name(draw, surnames, plain) for _ in range(2 * size)]
    places = tuple((unit["name_with_type"], unit["path"].split(", ")[-1]) for unit in districts.values())
    return People(tuple(drawn[:size]), tuple(drawn[size:]), places)


def _whole_name(draw: random.Random, surnames: list[str], given: list[str]) -> str:
    family, names = draw.choice(surnames), draw.choice(given).split()
    shape = draw.randrange(4)
    if shape == 0:
        return f"{family} {draw.choice(('Thị', 'Văn'))} {names[1]}"
    return f"{family} {'Thị ' if shape == 1 else ''}{' '.join(names)}"


def write_lines(templates: tuple[str, ...], people: People, draw: random.Random, count: int) -> list[Line]:
    """``count`` lines, templates and ways of typing in turn."""
    ways = tuple(_WAYS)
    return [_line(templates[i % len(templates)], people, draw, ways[i % len(ways)]) for i in range(count)]


def _line(template: str, people: People, draw: random.Random, way: str) -> Line:
    text, data, done = "", [], 0
    typed = _WAYS[way]
    for slot in _SLOT.finditer(template):
        text += typed(template[done : slot.start()], draw)
        filled = typed(_fill(slot[1], people, draw), draw)
        if slot[1] in _KINDS:
            data.append((len(text), len(text) + len(filled), _KINDS[slot[1]]))
        text += filled
        done = slot.end()
    text += typed(template[done:], draw)
    return Line(text, tuple(data), template, way)


def _numbers(draw: random.Random, count: int) -> str:
    return "".join(draw.choice("0123456789") for _ in range(count))


def _fill(slot: str, people: People, draw: random.Random) -> str:
    nick = fold(draw.choice(people.others)).split()
    year = draw.randint(2006, 2018)
    match slot:
        case "phone":
            return _phone(draw)
        case "card":
            code = draw.choice(("001", "031", "048", "079", "038", "040", "092", "056"))
            return f"{code}{draw.choice('23')}{year % 100:02d}{_numbers(draw, 6)}"
        case "old_card":
            return draw.choice("0123") + _numbers(draw, 8)
        case "email":
            host = draw.choice(("gmail.com", "yahoo.com.vn", "c2.edu.vn"))
            return f"{nick[-1]}{draw.choice(('.', '_', ''))}{nick[0]}{year % 100:02d}@{host}"
        case "address":
            return _address(people, draw)
        case "handle":
            return draw.choice(
                (f"{nick[-1]}.{nick[0]}{year % 1000}", f"@{nick[-1]}_{year}", f"{nick[-1].title()} {nick[0].title()}")
            )
        case "birth":
            day, month = draw.randint(1, 28), draw.randint(1, 12)
            return draw.choice(
                (f"{day}/{month}/{year}", f"{day:02d}-{month:02d}-{year}", f"{day} tháng {month} năm {year}")
            )
        case "full_name":
            return draw.choice(people.class_names)
        case "short_name":
            return " ".join(draw.choice(people.class_names).split()[-2:])
        case "other_name":
            return draw.choice(people.others)
        case "account":
            return draw.choice(("19", "00", "10")) + _numbers(draw, draw.choice((8, 11, 12)))
        case "code":
            return draw.choice(("", "HS")) + _numbers(draw, draw.choice((6, 8, 10)))
        case "password":
            return f"{nick[-1]}{draw.choice('@#!')}{_numbers(draw, 4)}"
        case "amount":
            return draw.choice((_numbers(draw, 4).lstrip("0") or "7", "149 600 000", "1 250 000", "84 912 000", "0,35"))
        case _:
            raise ValueError(f"no slot {slot!r}")


def _phone(draw: random.Random) -> str:
    digits = draw.choice("35789") + _numbers(draw, 8)
    if draw.random() < 0.1:
        return f"024 3{_numbers(draw, 3)} {_numbers(draw, 4)}"
    if draw.random() < 0.2:
        return f"{draw.choice(('+84', '+84 ', '84'))}{digits}"
    sign = draw.choice(("", "", " ", ".", "-"))
    cuts = draw.choice(((3, 6), (4, 7), (2, 6)))
    whole = "0" + digits
    if draw.random() < 0.1:
        return " ".join(whole)
    return sign.join((whole[: cuts[0]], whole[cuts[0] : cuts[1]], whole[cuts[1] :]))


def _address(people: People, draw: random.Random) -> str:
    district, province = draw.choice(people.districts)
    commune = re.sub(r"^(?:Thành phố|Thị xã|Quận|Huyện) ", "", draw.choice(people.districts)[0])
    if draw.random() < 0.5:
        return (
            f"số {draw.randint(1, 400)} {draw.choice(('đường', 'phố'))} {draw.choice(_STREETS)}, {district}, {province}"
        )
    if draw.random() < 0.5:
        return f"{draw.choice(('thôn', 'xóm', 'ấp'))} {draw.randint(1, 9)}, xã {commune}, {district}, {province}"
    return f"{draw.randint(1, 99)} ngõ {draw.randint(2, 300)} phường {commune}, {district}"


def _hidden(text: str, draw: random.Random) -> str:
    """Zero-width spaces between some digits."""
    return re.sub(r"(?<=\d)(?=\d)", lambda _: "\u200b" if draw.random() < 0.3 else "", text)


def _wide(text: str, _: random.Random) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if c.isdecimal() else c for c in text)


_WAYS: dict[str, Callable[[str, random.Random], str]] = {
    "as written": lambda text, _: text,
    "lower case": lambda text, _: text.lower(),
    "no accents": lambda text, _: "".join(fold(c).upper() if c.isupper() else fold(c) for c in text),
    "no accents, lower case": lambda text, _: fold(text),
    "decomposed": lambda text, _: unicodedata.normalize("NFD", text),
    "full-width digits": _wide,
    "hidden characters": _hidden,
}
