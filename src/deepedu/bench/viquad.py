"""Real questions with their passages: UIT-ViQuAD and the school articles, made readable again.

Both lie in the shared data folder and are never part of the package.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deepedu.base.errors import ConfigError
from deepedu.base.vietnamese import compose

SPLITS = ("dev", "test")
# Shorter lines of an article are list items and captions, which answer nothing by themselves.
MIN_PARAGRAPH_CHARACTERS = 200

_SPACE_BEFORE = re.compile(r" +([,.;:!?)\]}%…”’′″]+)")
_SPACE_AFTER = re.compile(r"([(\[{“‘]) +")
_QUOTED = re.compile(r'" +([^"]*?) *"')


@dataclass(frozen=True)
class Question:
    """A question, the index of the context it was asked on, and the answers marked there."""

    text: str
    context: int
    answers: tuple[str, ...]
    split: str


@dataclass(frozen=True)
class Viquad:
    """All questions of some splits and the distinct contexts they were asked on."""

    questions: tuple[Question, ...]
    contexts: tuple[str, ...]


def load_viquad(data: Path, splits: Sequence[str] = SPLITS) -> Viquad:
    """Reads UIT-ViQuAD from the shared data folder ``data``, its word segmentation undone.

    Raises:
        ConfigError: the files are not there.
    """
    contexts: dict[str, int] = {}
    questions: list[Question] = []
    for split in splits:
        for record in json.loads(_read(data / "uit_viquad" / f"{split}_ViQuAD_wordseg.json")):
            context = contexts.setdefault(join_words(record["context"]), len(contexts))
            answers = tuple(dict.fromkeys(label[3] for label in record["label"]))
            questions.append(Question(join_words(record["question"]), context, answers, split))
    return Viquad(tuple(questions), tuple(contexts))


def load_paragraphs(data: Path) -> list[tuple[str, str]]:
    """The school articles' distinct paragraphs.

    Returns:
        ``(article, paragraph)``, in order of file names; paragraphs in NFC.

    Raises:
        ConfigError: the files are not there.
    """
    folder = data / "viwiki_school"
    files = sorted(folder.glob("*/*.txt"))
    if not files:
        raise ConfigError(f"expected the school articles in {str(folder)!r}, found none; set DEEPEDU_DATA")
    paragraphs: dict[str, str] = {}
    for file in files:
        for line in compose(_read(file))[0].splitlines():
            text = line.strip()
            if len(text) >= MIN_PARAGRAPH_CHARACTERS and not text.startswith("=="):
                paragraphs.setdefault(text, file.stem)
    return [(article, text) for text, article in paragraphs.items()]


def join_words(segmented: str) -> str:
    """Undoes word segmentation: ``Hà_Nội , 1954 .`` becomes ``Hà Nội, 1954.``"""
    text = compose(segmented.replace("_", " "))[0]
    text = _SPACE_AFTER.sub(r"\1", _SPACE_BEFORE.sub(r"\1", text))
    return " ".join(_QUOTED.sub(r'"\1"', text).split())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot read {str(path)!r}: {error.strerror}; set DEEPEDU_DATA to the folder of the shared data sets"
        ) from error
