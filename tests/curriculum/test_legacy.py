"""Text from before Unicode is recognised, and nothing else is taken for it."""

from pathlib import Path

import pytest
from made_documents import PROSE

from deepedu.curriculum.legacy import legacy_encoding
from deepedu.curriculum.readers import open_document


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Céng hoµ x· héi chñ nghÜa ViÖt Nam, §éc lËp - Tù do - H¹nh phóc. Th«ng t− h−íng dÉn mét sè néi dung vÒ "
         "gãp vèn thµnh lËp quü b¶o l·nh tÝn dông cho c¸c doanh nghiÖp", "TCVN3"),
        ("Coäng hoaø xaõ hoäi chuû nghóa Vieät Nam, Ñoäc laäp - Töï do - Haïnh phuùc. Caên cöù thoâng baùo cuûa Boä "
         "veà vieäc tuyeån choïn toå chöùc vaø caù nhaân chuû trì thöïc hieän ñeà taøi", "VNI"),
        (PROSE, None),
        ("L'été dernier, un garçon naïf a goûté une crêpe brûlée où l'on fête Noël à Besançon, très tôt, près "
         "d'août, dès que la forêt fut déjà mûre et là-bas", None),
        ("Für schöne Mädchen müssen Größe und Käse natürlich übrig bleiben, weil früher Vögel über Häuser "
         "flögen und Bäume wüchsen, während Öl fließt", None),
        ("El niño español soñó esta mañana con el señor pequeño que enseñaba a una niña cómo año tras año el otoño "
         "daña la leña de la montaña", None),
        ("The speed of light is 299 792 458 m/s ± 0, the temperature 25 °C, and the price 5 € per kg © 2020 by "
         "the authors of this book about physics", None),
    ],
)  # fmt: skip
def test_encodings(text: str, expected: str | None) -> None:
    assert legacy_encoding(text) == expected


@pytest.mark.shared_data
def test_real_legacy_documents(shared_data: Path) -> None:
    folder = shared_data / "legacy_documents"
    if not folder.is_dir():
        pytest.skip(f"no legacy_documents in {shared_data}")
    for file in [*folder.glob("tcvn3/*.pdf"), *folder.glob("synthetic/*.docx")]:
        document = open_document(file)
        text = "\n".join(page.text for page in document.pages())
        document.close()
        assert legacy_encoding(text) == ("TCVN3" if "tcvn3" in file.parts else "VNI")
    for file in folder.glob("truth/*.txt"):
        assert legacy_encoding(file.read_text(encoding="utf-8")) is None
