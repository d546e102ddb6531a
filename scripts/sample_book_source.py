"""The sample textbook's source: Markdown with a small front matter, parsed into blocks that both builders lay out."""

import re
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

SAMPLE = Path(__file__).resolve().parents[1] / "src" / "deepedu" / "curriculum" / "sample"
SOURCE, PDF, DOCX = SAMPLE / "book.md", SAMPLE / "khtn6-mau.pdf", SAMPLE / "khtn6-mau.docx"

_HEADINGS = {"# ": "chapter", "## ": "lesson", "### ": "section"}
_MARKS = re.compile(r"\*\*(?P<bold>[^*]+)\*\*|\*(?P<italic>[^*]+)\*")
_ITEM_NUMBER = re.compile(r"^\d+\. ")
_SENTENCE_END = re.compile(r"(?<=[.?!]) (?=(\w))")


@dataclass(frozen=True)
class Block:
    """One piece of the book that is never split over two pages.

    ``kind`` is one of chapter, lesson, section, paragraph, formula, question, box, table. ``text`` may hold
    ``**bold**`` and ``*italic*`` marks; in a box it is the title and in a table the caption. ``rows`` are a table's
    cells (first row: head) or, one cell a row, a box's paragraphs; ``aligns`` are the table columns' "L" or "R".
    """

    kind: str
    text: str
    rows: tuple[tuple[str, ...], ...] = ()
    aligns: tuple[str, ...] = ()

    def plain(self) -> list[str]:
        """The block's texts in reading order, without marks."""
        return [plain(text) for text in (self.text, *(cell for row in self.rows for cell in row))]


@dataclass
class Book:
    """Front matter, blocks in reading order, and the digest of the source they were read from."""

    meta: dict[str, str]
    digest: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.meta['title']} – {self.meta['series']}"

    def sentences(self) -> list[str]:
        """Every sentence of running text (paragraphs, boxes, questions without their numbers), in order."""
        texts = [
            _ITEM_NUMBER.sub("", plain(text))
            for block in self.blocks
            if block.kind in {"paragraph", "question", "box"}
            for text in ([block.text] if not block.rows else [row[0] for row in block.rows])
        ]
        return [sentence for text in texts for sentence in split_sentences(text)]


def split_sentences(text: str) -> list[str]:
    """Split after a full stop, question or exclamation mark, unless a small letter follows ("E. coli")."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text) if not match[1].islower()]
    return [text[start:end].strip() for start, end in pairwise([0, *ends, len(text)])]


def plain(text: str) -> str:
    """``text`` without its bold and italic marks."""
    return "".join(piece for _, piece in spans(text))


def spans(text: str) -> list[tuple[str, str]]:
    """``(style, text)`` pieces; style is "" (regular), "B" or "I"."""
    pieces: list[tuple[str, str]] = []
    end = 0
    for match in _MARKS.finditer(text):
        pieces.append(("", text[end : match.start()]))
        pieces.append(("B", match["bold"]) if match["bold"] else ("I", match["italic"]))
        end = match.end()
    pieces.append(("", text[end:]))
    return [piece for piece in pieces if piece[1]]


def read_book(source: Path = SOURCE) -> Book:
    """Parse ``source``."""
    raw = source.read_text(encoding="utf-8")
    _, front, body = raw.split("---\n", 2)
    meta = dict(line.split(": ", 1) for line in front.splitlines())
    book = Book(meta, sha256(raw.encode()).hexdigest())
    caption = ""
    for chunk in re.split(r"\n{2,}", body.strip()):
        for block in _blocks(chunk):
            if block.kind == "paragraph" and re.match(r"Bảng \d+\. ", block.text):
                caption = block.text
            elif block.kind == "table":
                book.blocks.append(Block("table", caption, block.rows, block.aligns))
            else:
                book.blocks.append(block)
    return book


def _blocks(chunk: str) -> list[Block]:
    lines = chunk.splitlines()
    for mark, kind in _HEADINGS.items():
        if chunk.startswith(mark):
            return [Block(kind, chunk.removeprefix(mark).strip())]
    if chunk.startswith("$$"):
        return [Block("formula", chunk.strip("$ "))]
    if chunk.startswith("|"):
        head, rule, *rows = (tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines)
        return [Block("table", "", (head, *rows), tuple("R" if cell.endswith(":") else "L" for cell in rule))]
    if chunk.startswith("> "):
        title, *rest = (line.removeprefix("> ").strip() for line in lines)
        return [Block("box", title.strip("*"), ((" ".join(rest),),))]
    if re.match(r"\d+\. ", chunk):
        return [Block("question", line) for line in lines]
    return [Block("paragraph", " ".join(lines))]
