"""HTML: what a reader of the page would read, without scripts, menus and forms."""

import re
from pathlib import Path

import lxml.etree
import lxml.html

from deepedu.base.errors import DamagedDocument, EmptyDocument
from deepedu.curriculum.readers.base import Block, BlockDocument, block, lay_out, superscript
from deepedu.curriculum.readers.text import decode

_SKIPPED = frozenset(
    ("script", "style", "nav", "noscript", "template", "svg", "form", "button", "iframe", "object", "head", "select")
)
_BLOCK_NAMES = """
p div section article main body html ul ol li dl dt dd table thead tbody tfoot tr caption blockquote pre figure
figcaption header footer aside address hr h1 h2 h3 h4 h5 h6 details summary center fieldset
"""
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w-]+)|<\?xml[^>]+encoding\s*=\s*[\"']([\w-]+)", re.I)


def open_html(path: Path) -> BlockDocument:
    """Reads an HTML page; the charset is UTF-8 where the bytes agree, else what the page says.

    Raises:
        DamagedDocument: no HTML tree can be made of it.
    """
    content = path.read_bytes()
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", _decode(content))
    if not text.strip():
        raise EmptyDocument("trang HTML không có nội dung")
    try:
        tree = lxml.html.document_fromstring(text, parser=lxml.html.HTMLParser(huge_tree=True))
    except (lxml.etree.ParserError, lxml.etree.XMLSyntaxError, ValueError) as error:
        raise DamagedDocument(f"không đọc được trang HTML: {error}") from error
    title = tree.findtext(".//title")
    walker = _Walker()
    body = tree.find("body")
    walker.walk(body if body is not None else tree)
    walker.flush()
    hints = {"title": " ".join(title.split())} if title and title.strip() else {}
    return lay_out("html", walker.blocks, has_pages=False, hints=hints)


def _decode(content: bytes) -> str:
    if not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            named = _CHARSET.search(content[:4096])
            if named:
                try:
                    return content.decode((named.group(1) or named.group(2)).decode("ascii"))
                except (LookupError, UnicodeDecodeError):
                    pass  # The page lies about itself; what its bytes look like decides.
    return decode(content)


class _Walker:
    """Collects blocks in reading order."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._parts: list[str] = []
        self._level: int | None = None
        self._is_tight = False
        self._is_preformatted = False

    def flush(self) -> None:
        """Closes the paragraph under way."""
        text = "".join(self._parts)
        self._parts.clear()
        if not self._is_preformatted:
            # White space of the source is no more than a space; "\v" stands for <br>.
            text = re.sub(r"[ \t\r\n\f]+", " ", text)
        text = re.sub(r" ?\v ?", "\n", text).strip()
        if text:
            self.blocks.append(block(text, self._level, is_tight=self._is_tight and self._level is None))
        self._is_tight = False

    def walk(self, element: lxml.html.HtmlElement) -> None:
        """Takes in an element and all below it, but not its tail."""
        tag = element.tag if isinstance(element.tag, str) else None
        if tag is None or tag in _SKIPPED or element.get("hidden") is not None:
            return
        if tag == "br":
            self._parts.append("\v")
            return
        if tag in ("sup", "sub"):
            text = element.text_content()
            self._parts.append(superscript(text) if tag == "sup" else text)
            return
        if tag == "tr":
            self._row(element)
            return
        if tag not in _BLOCKS:
            self._inside(element)
            return
        self.flush()
        before = self._level, self._is_preformatted
        if re.fullmatch(r"h[1-6]", tag):
            self._level = int(tag[1])
        self._is_preformatted = self._is_preformatted or tag == "pre"
        if tag in ("li", "dd"):
            self._is_tight = _previous_is(element, tag)
            self._parts.append("- " if tag == "li" else "")
        self._inside(element)
        self.flush()
        self._level, self._is_preformatted = before

    def _inside(self, element: lxml.html.HtmlElement) -> None:
        self._parts.append(element.text or "")
        for child in element:
            self.walk(child)
            self._parts.append(child.tail or "")

    def _row(self, row: lxml.html.HtmlElement) -> None:
        self.flush()
        cells = list(row.iterchildren("td", "th"))
        if len(cells) == 1 or row.find(".//table") is not None:
            # A table that only lays out the page: what it holds is ordinary text.
            for cell in cells:
                self._inside(cell)
                self.flush()
            return
        texts = [_cell_text(cell) for cell in cells]
        if any(texts):
            parent = row.getparent()
            above = row.getprevious() if row.getprevious() is not None else parent.getprevious()
            self.blocks.append(block(" | ".join(texts), is_tight=above is not None and above.tag in _ROWS))


_ROWS = ("tr", "thead", "tbody")


def _cell_text(cell: lxml.html.HtmlElement) -> str:
    inner = _Walker()
    inner._inside(cell)
    inner.flush()
    return " ".join(" ".join(item.text.text for item in inner.blocks).split())


def _previous_is(element: lxml.html.HtmlElement, tag: str) -> bool:
    before = element.getprevious()
    return before is not None and before.tag == tag
