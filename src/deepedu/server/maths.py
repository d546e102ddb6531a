r"""Formulae in text as MathML, which browsers draw themselves: no script, no fonts, and screen readers read it.

``$…$`` and ``\(…\)`` stand in a line, ``$$…$$`` and ``\[…\]`` on their own. All else is escaped. Prices and lone
dollars stay what they are; a formula that cannot be drawn is shown as code.
"""

import functools
import html
import re
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

from latex2mathml.converter import Converter
from markupsafe import Markup, escape

LONGEST_FORMULA = 1000

_FORMULA = re.compile(
    r"""
    (?<![\\$]) \$\$ (?P<display> (?: [^$\\] | \\. )+? ) \$\$ (?!\$)
    | (?<!\\) \\\[ (?P<bracket> .+? ) (?<!\\) \\\]
    | (?<!\\) \\\( (?P<paren> .+? ) (?<!\\) \\\)
    # As in Pandoc: no space inside the dollars. A number before or after one makes it a price.
    | (?<![\\$\w]) \$ (?P<inline> (?![\s$]) (?: [^$\\\n] | \\. )*? (?: [^$\\\s] | \\. ) ) \$ (?![\w$])
    """,
    re.VERBOSE | re.DOTALL,
)
_WORDS = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mbox|hbox|operatorname)\s*\{[^{}]*\}")
# Letters with Vietnamese marks outside of \text: prose between two dollars.
_PROSE = re.compile(r"[À-ÖØ-öø-ỹĐđĂăƠơƯư]")
# A comma within a number is decimal here, but LaTeX takes it for the end of a term: it is carried through as a letter.
_DECIMAL_COMMA = re.compile(r"(?<=\d)(?:,|\{,\})(?=\d)")
_COMMA = "\ue000"
# A few macros that call each other would grow to gigabytes.
_MACRO = re.compile(r"\\(?:(?:re)?newcommand|providecommand|[egx]?def|let|DeclareMathOperator)")
_UNKNOWN_COMMAND = re.compile(r"\\[A-Za-z]")
_TOKENS = frozenset({"mi", "mn", "mo", "ms", "mtext"})
# How many parts an element must have; None: any number.
_ELEMENTS: dict[str, int | None] = {
    **dict.fromkeys(_TOKENS, 0),
    "mspace": 0,
    **dict.fromkeys(("math", "mrow", "mstyle", "mpadded", "mphantom", "menclose", "msqrt"), None),
    **dict.fromkeys(("mtable", "mtr", "mtd", "mmultiscripts", "mprescripts", "none"), None),
    **dict.fromkeys(("mfrac", "mroot", "msub", "msup", "munder", "mover"), 2),
    **dict.fromkeys(("msubsup", "munderover"), 3),
}
_ATTRIBUTES = frozenset(
    {
        *("accent", "accentunder", "columnalign", "columnlines", "columnspacing", "depth", "display", "displaystyle"),
        *("fence", "form", "height", "largeop", "linethickness", "lspace", "mathsize", "mathvariant", "maxsize"),
        *("minsize", "movablelimits", "notation", "rowalign", "rowlines", "rowspacing", "rspace", "scriptlevel"),
        *("separator", "stretchy", "symmetric", "voffset", "width"),
    }
)
_VALUE = re.compile(r"[A-Za-z0-9.+% -]*")


class _NotDrawable(Exception):
    """The formula has something in it that a browser could not or must not draw."""


def to_html(text: str) -> Markup:
    """Text with its formulae as MathML and everything else escaped; any text whatever is taken."""
    parts: list[str] = []
    done = 0
    for found in _FORMULA.finditer(text):
        formula = next(group for group in found.groups() if group is not None)
        if found["inline"] is not None and _PROSE.search(_WORDS.sub("", formula)):
            continue
        is_display = found["inline"] is None and found["paren"] is None
        parts += [str(escape(text[done : found.start()])), _drawn(formula.strip(), is_display)]
        done = found.end()
    return Markup("".join(parts) + str(escape(text[done:])))


@functools.lru_cache(maxsize=2048)
def _drawn(formula: str, is_display: bool) -> str:
    try:
        if len(formula) > LONGEST_FORMULA or _MACRO.search(formula):
            raise _NotDrawable
        prepared = _DECIMAL_COMMA.sub(_COMMA, formula)
        root = Converter(display="block" if is_display else "inline").convert_to_element(prepared)
        return "".join(_markup(root))
    # The converter raises whatever its tables and iterators raise, not only exceptions of its own.
    except Exception:  # noqa: BLE001 - the formula is shown as code instead
        return f"<code>{escape(formula)}</code>"


def _markup(element: Element) -> Iterable[str]:
    """The element as HTML, with nothing in it but MathML."""
    name, parts = element.tag, _numbers_joined(list(element))
    wanted = _ELEMENTS.get(name, -1)
    if wanted is not None and wanted != len(parts):
        raise _NotDrawable
    text = html.unescape(element.text or "").replace(_COMMA, ",")
    if _UNKNOWN_COMMAND.search(text) and name != "mtext":
        raise _NotDrawable
    attributes = (
        f' {key}="{value}"' for key, value in element.items() if key in _ATTRIBUTES and _VALUE.fullmatch(value)
    )
    yield f"<{name}{''.join(attributes)}>"
    if name in _TOKENS:
        yield str(escape(text))
    for part in parts:
        yield from _markup(part)
    yield f"</{name}>"


def _numbers_joined(parts: Sequence[Element]) -> list[Element]:
    """Two numbers around a decimal comma as one; the second may bear a power or an index."""
    joined: list[Element] = []
    for part in parts:
        last = part[0] if part.tag in ("msup", "msub", "msubsup") and len(part) else part
        before = joined[-2:]
        if last.tag == "mn" and [each.tag for each in before] == ["mn", "mi"] and before[1].text == _COMMA:
            last.text = f"{before[0].text}{_COMMA}{last.text}"
            del joined[-2:]
        joined.append(part)
    return joined
