"""How does an explanation look on a slide, or on paper?

Pictures as PNG and SVG: the alignment with its words, and for each kind of attention all its heads.
Every glyph is taken from the first font that has it; what no font on this machine can draw becomes
a question mark in a diamond, without a word of warning.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager, get_font
from matplotlib.image import AxesImage

from dragoman.durable import new_file
from dragoman.explanation.explanation import Explanation
from dragoman.explanation.heads import Numbers
from dragoman.model.record import Kind

FORMATS = ("png", "svg")
_FIRST = "DejaVu Sans"
_NONE = "\N{REPLACEMENT CHARACTER}"
_WIDEST = 12
"""Inches of a picture, at most, whatever its words."""
_TITLES: dict[Kind, str] = {
    "encoder": "The source reads itself",
    "decoder": "The target reads itself",
    "cross": "The target reads the source",
}


def draw(explanation: Explanation, folder: str | Path) -> list[Path]:
    """Draw all that there is into a folder."""
    folder = Path(folder)
    texts = (*explanation.source, *explanation.read, *(each.token for each in explanation.words))
    families = _families("".join(texts))
    paths: list[Path] = []
    with mpl.rc_context({"font.family": families, "svg.hashsalt": "dragoman"}):
        for name, figure in _figures(explanation):
            for kind in FORMATS:
                paths.append(folder / f"{name}.{kind}")
                with new_file(paths[-1]) as temporary:
                    # The same explanation makes the same file.
                    told = {"Date": None} if kind == "svg" else None
                    figure.savefig(temporary, format=kind, metadata=told)
    return paths


def _figures(explanation: Explanation) -> Iterator[tuple[str, Figure]]:
    if explanation.alignment is not None:
        yield "alignment", _alignment(explanation, explanation.alignment)
    for kind in get_args(Kind):
        if explanation.of_kind(kind):
            yield kind, _heads(explanation, kind)


def _alignment(explanation: Explanation, weights: Numbers) -> Figure:
    """One map with its words."""
    height, width = weights.shape
    cell = min(0.42, _WIDEST / max(height, width))
    figure = Figure(
        figsize=(cell * width + 2.6, cell * height + 1.9), dpi=150, layout="constrained"
    )
    axes = figure.subplots()
    image = _show(axes, weights)
    words = [each.token for each in explanation.words]
    size = max(4.0, min(10.0, 26 * cell))
    axes.set_xticks(range(width), _shown(explanation.source), fontsize=size, parse_math=False)
    axes.tick_params(axis="x", rotation=90, length=0, top=True, labeltop=True, labelbottom=False)
    axes.set_yticks(range(height), _shown(words), fontsize=size, parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("read", fontsize=9)
    axes.set_ylabel("written", fontsize=9)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, ticks=(0, 0.05, 0.25, 0.5, 1))
    bar.ax.set_yticklabels(["0 %", "5 %", "25 %", "50 %", "100 %"], fontsize=8)
    bar.outline.set_visible(False)
    return figure


def _heads(explanation: Explanation, kind: Kind) -> Figure:
    """Small maps: a row for each layer, the bottom layer first, a column for each head."""
    looks = explanation.of_kind(kind)
    count = max(len(each.heads) for each in looks)
    side = min(1.75, _WIDEST / count)
    size = (side * count + 0.5, (side + 0.28) * len(looks) + 0.6)
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    every = figure.subplots(len(looks), count, squeeze=False)
    for row, look in zip(every, looks, strict=True):
        for number, axes in enumerate(row):
            if number >= len(look.heads):
                axes.set_axis_off()
                continue
            _show(axes, look.weights[number])
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_title(look.heads[number].job, fontsize=min(6.5, 3.9 * side), pad=2)
        row[0].set_ylabel(f"layer {look.layer + 1}", fontsize=8)
    figure.suptitle(_TITLES[kind], fontsize=10, x=0.01, ha="left")
    return figure


def _show(axes: Axes, weights: Numbers) -> AxesImage:
    """One hue; small weights are lifted, as on the page."""
    axes.spines[:].set_color("#c9d1d8")
    return axes.imshow(weights, cmap="Blues", norm=PowerNorm(0.5, 0, 1), aspect="auto")


def _shown(tokens: Iterable[str]) -> list[str]:
    return ["".join(map(_drawable, token.replace("▁", "␣"))) for token in tokens]


def _drawable(letter: str) -> str:
    """The letter if a font has it; nothing for what is invisible anyway."""
    kind = unicodedata.category(letter)
    if kind == "Cc":  # Some fonts draw controls, but an SVG must not hold them.
        return _NONE
    if _family(letter) is not None:
        return letter
    is_unseen = kind == "Cf" or 0xFE00 <= ord(letter) <= 0xFE0F
    return "" if is_unseen else _NONE


def _families(text: str) -> list[str]:
    """The fonts that have the letters of a text, in the order in which they are tried."""
    needed = (_family(letter) for letter in dict.fromkeys(text + "␣" + _NONE))
    return list(dict.fromkeys([_FIRST, *(each for each in needed if each is not None)]))


@cache
def _family(letter: str) -> str | None:
    """The first font that has a letter."""
    return next((name for name, letters in _fonts() if ord(letter) in letters), None)


def _fonts() -> Iterator[tuple[str, frozenset[int]]]:
    plain = [
        each
        for each in fontManager.ttflist
        if each.style == "normal" and each.weight in (400, "normal", "regular")
    ]
    for each in sorted(plain, key=lambda each: (each.name != _FIRST, "Sans" not in each.name)):
        yield each.name, _letters(each.fname)


@cache
def _letters(path: str) -> frozenset[int]:
    try:
        return frozenset(get_font(path).get_charmap())
    except (OSError, RuntimeError):  # Some fonts hold pictures, which cannot be drawn.
        return frozenset()
