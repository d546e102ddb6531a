"""Plots as inline SVG, made here: no script, no style attribute. Colours come from the stylesheet, so the dark theme
holds; a page puts the figures beside them as a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, HEIGHT = 640, 180
_LEFT, _TOP, _BOTTOM = 52, 10, 26
# Labels below the bars need so much room each.
_LABEL_WIDTH = 70


@dataclass(frozen=True)
class Bar:
    """One bar: its name below, and its parts from the bottom up."""

    label: str
    parts: tuple[float, ...]


def bars(series: Sequence[Bar], title: str, *, top: float | None = None, unit: str = "") -> Markup:
    """Bars, each of parts upon another; the parts have the classes ``part0``, ``part1``, …

    Args:
        title: told instead of the picture to who cannot see it.
        top: value at the upper edge; None: the highest bar.
    """
    highest = top or max((sum(bar.parts) for bar in series), default=0) or 1
    width, height = WIDTH - _LEFT, HEIGHT - _TOP - _BOTTOM
    step = width / max(1, len(series))
    every = max(1, round(_LABEL_WIDTH / step + 0.5))
    drawn: list[Markup] = []
    for place, bar in enumerate(series):
        x, y = _LEFT + place * step, float(HEIGHT - _BOTTOM)
        for number, part in enumerate(bar.parts):
            tall = height * part / highest
            y -= tall
            drawn.append(
                Markup('<rect class="part{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                    number, x + step * 0.12, y, step * 0.76, tall
                )
            )
        if place % every == 0:
            drawn.append(
                Markup('<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
                    x + step / 2, HEIGHT - 6, bar.label
                )
            )
    return Markup(
        '<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>'
        '<line class="axis" x1="{}" y1="{}" x2="{}" y2="{}"/>'
        '<text x="{}" y="{}" text-anchor="end">{}</text><text x="{}" y="{}" text-anchor="end">0</text>{}</svg>'
    ).format(
        WIDTH, HEIGHT, title, title, _LEFT, HEIGHT - _BOTTOM, WIDTH, HEIGHT - _BOTTOM,
        _LEFT - 4, _TOP + 8, f"{highest:g}{unit}", _LEFT - 4, HEIGHT - _BOTTOM, Markup("").join(map(escape, drawn)),
    )  # fmt: skip
