"""Formulae become MathML and nothing else does; whatever the text holds, no other markup comes out."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markupsafe import escape

from deepedu.server.maths import LONGEST_FORMULA, to_html


class _Tags(HTMLParser):
    """The tags, attributes and visible text of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, str | None] = {}
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    ("text", "tags", "seen"),
    [
        (r"Diện tích là $\frac{1}{2}ah$.", {"mfrac"}, "Diện tích là 12ah."),
        (r"Góc \(\widehat{ABC}=90^\circ\).", {"mover", "msup"}, "Góc ABC^=90∘."),
        (r"$\sqrt{2}$ và $\sqrt[3]{x}$", {"msqrt", "mroot"}, "2 và x3"),
        (r"$x_1 + x_2$; $y$", {"msub"}, "x1+x2; y"),
        (r"$\begin{cases}x=1\\y=2\end{cases}$", {"mtable", "mtr", "mtd"}, "{x=1y=2"),
        (r"$v = 5 \text{ km/h}$", {"mtext"}, "v=5\xa0km/h"),
        (r"$\text{Diện tích} = 4$", {"mtext"}, "Diện\xa0tích=4"),
        (r"$5\%$ và $a\$$", {"math"}, "5% và a$"),
    ],
)
def test_formulae_become_mathml(text: str, tags: set[str], seen: str) -> None:
    shown = _Tags(to_html(text))
    assert tags <= set(shown.tags)
    assert "code" not in shown.tags
    assert shown.text == seen


@pytest.mark.parametrize(
    ("text", "display"), [("$x$", "inline"), (r"\(x\)", "inline"), ("$$x$$", "block"), ("\\[\nx\n\\]", "block")]
)
def test_display_follows_the_marks(text: str, display: str) -> None:
    assert _Tags(to_html(text)).attributes == {"display": display}


@pytest.mark.parametrize(
    "text",
    [
        "5$",
        "5$ và 10$",
        "$5 và $10",
        "Giá $5, tức là khoảng 120 nghìn đồng, hay 5$",
        r"\$5 và 6\$",
        r"\$x\$",
        "một $ lẻ",
        "$ x $",
        "$$",
        "$a$b",
        "x$y$",
        r"\\(x\\)",
        r"\[ không đóng",
        "$dòng\nkhác$",
        "2 < 3 & 4 > 1 \"'",
    ],
)
def test_prices_and_lone_dollars_stay(text: str) -> None:
    assert to_html(text) == escape(text)


@pytest.mark.parametrize(
    ("text", "seen"),
    [("$x=2,5$", "x=2,5"), ("$2{,}5^2$", "2,52"), ("$1.234,5$", "1.234,5"), ("$x_{0,25}$", "x0,25")],
)
def test_a_decimal_comma_is_part_of_its_number(text: str, seen: str) -> None:
    html = to_html(text)
    assert _Tags(html).text == seen
    assert not re.search(r"<m[io]>,", html)


def test_commas_between_terms_stay_between_them() -> None:
    assert "<mn>1</mn><mo>,</mo><mn>2</mn>" in to_html("$(1, 2)$")


@pytest.mark.parametrize(
    "formula",
    [
        r"\left(",
        "x}{",
        r"\frac{1}",
        r"\khongco{x}",
        r"\newcommand{\a}{\b\b}\a",
        r"\def\a{x}\a",
        "x" * (LONGEST_FORMULA + 1),
        r"\sqrt" * 190,
    ],
)
def test_what_cannot_be_drawn_is_shown_as_code(formula: str) -> None:
    assert to_html(f"Xem ${formula}$.") == f"Xem <code>{escape(formula)}</code>."


ATTACKS = [
    "<img src=x onerror=alert(1)>",
    "$<img onerror>$",
    r"$\href{javascript:alert(1)}{x}$",
    r"$\text{<script>alert(1)</script>}$",
    r"$\text{&lt;script&gt;}$",
    r"$\style{background:url(//xau.example)}{x}$",
    r"$\class{card}{x}$",
    r'$\color{"onmouseover=alert(1)}{x}$',
    r"$\verb|<svg onload=alert(1)>|$",
    r"$\tag{<b>}$",
    r"$\khongco{</code><script>}$",
    r"\[\mathrm{<b>}\]",
    r"$$x \text{</mtext></math><script>alert(1)</script>}$$",
]
_SAFE_TAG = re.compile(r"m[a-z]+|none|code")
_SAFE_ATTRIBUTES = {"display", "mathvariant", "stretchy", "fence", "form", "width", "columnalign", "displaystyle"}


@pytest.mark.parametrize("text", ATTACKS)
def test_no_markup_but_mathml_comes_out(text: str) -> None:
    shown = _Tags(to_html(text))
    assert all(_SAFE_TAG.fullmatch(tag) for tag in shown.tags)
    assert set(shown.attributes) <= _SAFE_ATTRIBUTES
    assert "javascript" not in "".join(value or "" for value in shown.attributes.values())


_SPELLED = r"""
$ $$ \ \( \) \[ \] { } ^ _ & <b> " \frac \left( \right) \begin{matrix} \end{matrix} \text{ \href{ \sqrt[ x 2,5 ế
\color{ % \verb| \style{
"""
_PIECES = st.sampled_from(_SPELLED.split())


@given(st.one_of(st.text(), st.lists(_PIECES, max_size=14).map("".join), st.lists(_PIECES, max_size=14).map(" ".join)))
@example("${<b>$")
@example("$\ue000$")
def test_any_text_gives_well_formed_harmless_html(text: str) -> None:
    shown = _Tags(to_html(text))
    assert all(re.fullmatch(r"m(?!eta|ain|ark|enu)[a-z]+|none|code", tag) for tag in shown.tags)
    assert not {"href", "style", "class", "src"} & set(shown.attributes)


@given(st.text(st.characters(exclude_characters="$\\")))
def test_text_without_formulae_is_only_escaped(text: str) -> None:
    assert to_html(text) == escape(text)
