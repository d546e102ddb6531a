"""Prose to hide facts in: made from templates, or real Vietnamese paragraphs where the shared data has them.

A piece is one sentence with the white space before it. Numbers in made prose have at most four digits, so no piece ever
looks like a needle.
"""

import random
import re
import unicodedata
from collections.abc import Iterator

from deepedu.base.vietnamese import sentence_spans
from deepedu.bench.longcontext.case import Language, Order

_LISTS: dict[Language, dict[str, str]] = {
    "en": {
        "person": "Mara Lindt, Owen Hale, Ines Okafor, Tomas Reyes, Lucy Barden, Hugo Marsh, Nadia Petrov, Carl "
        "Ostrom, "
        "Priya Nair, Felix Ward, Greta Sund, Omar Haddad, Joan Pike, Ravi Menon, Elsa Brandt, Simon Clarke",
        "place": "Ashford, Millbrook, Larkspur, Denholm, Westerby, Carrow, Fenwick, Highmoor, Stonebridge, Eastlea, "
        "Harrow Point, Netherby, Oakhurst, Riverton, Saltmarsh, Thornbury",
        "thing": "wheat, apples, timber, wool, honey, salt, paper, glass, barley, clay, bricks, linen, tea, lamp oil",
        "animal": "herons, foxes, swallows, otters, owls, hares, geese, badgers, deer, squirrels, finches, bats",
        "building": "town hall, mill, railway station, chapel, market, school, theatre, hospital, lighthouse, bakery",
        "science": "the tides, soil acidity, migrating birds, river ice, old maps, wind speeds, local dialects, "
        "beetles",
        "season": "spring, summer, autumn, winter",
    },
    "vi": {
        "person": "bà Hạnh, ông Tâm, cô Liên, thầy Khôi, anh Dũng, chị Thảo, bác Sơn, em Ngọc, chú Bình, cô Mai, ông "
        "Phúc, "
        "bà Lan, anh Quân, chị Vân, thầy Hưng, em Châu",
        "place": "An Phú, Bình Lục, Đông Hà, Gia Lộc, Hòa Vang, Kim Sơn, Long Thọ, Mỹ Đức, Ninh Giang, Phú Lộc, Quế "
        "Sơn, "
        "Sông Cầu, Tân Kỳ, Vĩnh Bảo, Yên Mô, Thạch Hà",
        "thing": "lúa, ngô, chè, muối, mật ong, gỗ, vải, gạch, cà phê, tiêu, dừa, mía, đỗ xanh, giấy",
        "animal": "cò trắng, vịt trời, sóc, rái cá, cú mèo, nai, chim sẻ, dơi, ếch, rùa nước",
        "building": "nhà văn hóa, trạm y tế, ngôi chợ, trường học, bến xe, thư viện, xưởng mộc, nhà hát, lò gốm, "
        "ngôi đình",
        "science": "thủy triều, độ chua của đất, chim di cư, bản đồ cổ, tốc độ gió, tiếng địa phương, bọ cánh cứng",
        "season": "mùa xuân, mùa hạ, mùa thu, mùa đông",
    },
}
_SENTENCES: dict[Language, tuple[str, ...]] = {
    "en": (
        "In the {season} of {year}, {person} moved from {place} to {place2} and opened a small shop that sold {thing}.",
        "The {building} of {place} was rebuilt in {year} after a flood had damaged its roof.",
        "{person} spent {small} years studying {science} and wrote a long report about it.",
        "Every {season}, {animal} gather on the fields north of {place}.",
        "Farmers near {place} harvested {number} sacks of {thing} that year, more than anyone remembered.",
        "The road between {place} and {place2} is {small} kilometres long and crosses {small2} bridges.",
        "According to {person}, the {building} had once been painted white.",
        "A letter from {year} tells that {person} traded {thing} for {small} crates of {thing2}.",
        "The children of {place} counted {number} {animal} during a single {season}.",
        "When the {building} closed, {person} kept its bell in a shed behind the house.",
        "Few visitors know that {place} has {number} inhabitants and only one {building}.",
        "{person} and {person2} argued about {science} until the last train to {place} had left.",
        "The museum keeps {small} drawings of {animal} that {person} made in {year}.",
        "It rained for {small} days, and the price of {thing} rose in {place} and {place2}.",
        "The old {building} stands on a hill; from its tower one can see {place}.",
        "Most people in {place} had heard of {person}, though hardly anyone had met {person2}.",
        "Rain fell softly.",
        "Nobody in {place} was surprised.",
        "The {season} was short and cold.",
    ),
    "vi": (
        "Vào {season} năm {year}, {person} chuyển từ {place} đến {place2} và mở một cửa hàng nhỏ bán {thing}.",
        "Năm {year}, {building} ở {place} được xây lại sau khi mái bị lũ cuốn hỏng.",
        "Trong {small} năm liền, {person} nghiên cứu {science} và viết một bản báo cáo dài.",
        "Cứ đến {season}, {animal} lại kéo về cánh đồng phía bắc {place}.",
        "Nông dân quanh {place} năm ấy thu được {number} bao {thing}, nhiều hơn mọi năm trước.",
        "Con đường từ {place} đến {place2} dài {small} cây số và đi qua {small2} chiếc cầu.",
        "Theo lời kể của {person}, {building} ngày xưa được quét vôi trắng.",
        "Một lá thư viết năm {year} cho biết {person} đã đổi {thing} lấy {small} sọt {thing2}.",
        "Trẻ em ở {place} đếm được {number} con {animal} chỉ trong một {season}.",
        "Khi {building} đóng cửa, {person} giữ lại quả chuông trong căn nhà kho phía sau.",
        "Ít ai biết rằng {place} có {number} người dân mà chỉ có một {building}.",
        "Cuộc tranh luận giữa {person} và {person2} về {science} kéo dài đến khi chuyến xe cuối về {place} đã chạy.",
        "Bảo tàng còn giữ {small} bức vẽ {animal} do {person} thực hiện năm {year}.",
        "Mưa suốt {small} ngày, giá {thing} ở {place} và {place2} đều tăng.",
        "Từ tháp của {building} trên đồi, người ta nhìn thấy {place}.",
        "Phần lớn người dân {place} đều nghe tiếng {person}, nhưng ít ai từng gặp {person2}.",
        "Trời lại mưa.",
        "Không ai ở {place} ngạc nhiên.",
        "Năm ấy {season} ngắn và lạnh.",
    ),
}
# Real paragraphs: no headings, lists, tables or leftovers of formulas.
_PARAGRAPH_CHARACTERS = (200, 1500)
_SENTENCE_CHARACTERS = (30, 400)
SCHOOL_TEXTS = "viwiki_school"


def haystack(order: Order, draw: random.Random) -> Iterator[str]:
    """Sentences without end, or until the real paragraphs are used up; see the module's docstring."""
    if order.language == "vi" and order.data_dir is not None and (order.data_dir / SCHOOL_TEXTS).is_dir():
        return school_sentences(order, draw)
    return made_sentences(order.language, draw)


def made_sentences(language: Language, draw: random.Random) -> Iterator[str]:
    """Sentences made from templates, without end; four to seven make a paragraph."""
    lists = {name: listed.split(", ") for name, listed in _LISTS[language].items()}
    left = 0
    while True:
        slots: dict[str, object] = {"year": draw.randint(1720, 1980), "number": draw.randint(101, 990)}
        slots["small"], slots["small2"] = draw.sample(range(3, 60), 2)
        for name, values in lists.items():
            slots[name], slots[f"{name}2"] = draw.sample(values, 2)
        sentence = draw.choice(_SENTENCES[language]).format_map(slots)
        yield (" " if left else "\n") + sentence[0].upper() + sentence[1:]
        left = left - 1 if left else draw.randint(3, 6)


def school_sentences(order: Order, draw: random.Random) -> Iterator[str]:
    """The sentences of real paragraphs about school subjects, the paragraphs shuffled."""
    assert order.data_dir is not None
    files = sorted((order.data_dir / SCHOOL_TEXTS).glob("*/*"))
    draw.shuffle(files)
    for start in range(0, len(files), 20):
        texts = [file.read_text(encoding="utf-8") for file in files[start : start + 20]]
        paragraphs = [paragraph for text in texts for paragraph in _paragraphs(text)]
        draw.shuffle(paragraphs)
        for paragraph in paragraphs:
            separator = "\n"
            for begin, end in sentence_spans(paragraph):
                if _SENTENCE_CHARACTERS[0] <= end - begin <= _SENTENCE_CHARACTERS[1]:
                    yield separator + paragraph[begin:end]
                    separator = " "


def _paragraphs(text: str) -> Iterator[str]:
    low, high = _PARAGRAPH_CHARACTERS
    for line in unicodedata.normalize("NFC", text).splitlines():
        paragraph = " ".join(line.split())
        # Needles are numbers of five digits and more; a paragraph that holds such a number could be taken for one.
        if re.search(r"\d{5}", re.sub(r"(?<=\d)[., ](?=\d{3})", "", paragraph)):
            continue
        if low <= len(paragraph) <= high and "=" not in paragraph and paragraph.endswith("."):
            yield paragraph
