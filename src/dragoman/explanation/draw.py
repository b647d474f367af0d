"""Draw an explanation as PNG and SVG figures for slides and papers.

There is one figure for the alignment with its tokens, and one for each role of attention with all
heads. Every character is drawn with the first font that has it. A character that no installed font
has becomes U+FFFD, without a warning.
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
from matplotlib.font_manager import FontEntry, fontManager, get_font
from matplotlib.image import AxesImage

from dragoman.explanation.explanation import Explanation
from dragoman.explanation.heads import Array
from dragoman.model.role import Role
from dragoman.storage.files import atomic_write

FORMATS = ("png", "svg")
_DEFAULT_FONT = "DejaVu Sans"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_MAX_INCHES = 12
"""Largest width or height of the maps in a figure."""
_TITLES: dict[Role, str] = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Cross-attention",
}


def draw(explanation: Explanation, folder: str | Path) -> list[Path]:
    """Write all figures into a folder and return their paths."""
    folder = Path(folder)
    texts = (
        *explanation.source_tokens,
        *explanation.decoder_input,
        *(token.token for token in explanation.tokens),
    )
    families = _font_families("".join(texts))
    paths: list[Path] = []
    with mpl.rc_context({"font.family": families, "svg.hashsalt": "dragoman"}):
        for name, figure in _figures(explanation):
            for suffix in FORMATS:
                paths.append(folder / f"{name}.{suffix}")
                # Without a date, the same explanation gives the same file.
                metadata = {"Date": None} if suffix == "svg" else None
                with atomic_write(paths[-1]) as temporary:
                    figure.savefig(temporary, format=suffix, metadata=metadata)
    return paths


def _figures(explanation: Explanation) -> Iterator[tuple[str, Figure]]:
    if explanation.alignment is not None:
        yield "alignment", _draw_alignment(explanation, explanation.alignment)
    for role in get_args(Role):
        if explanation.with_role(role):
            yield role, _draw_heads(explanation, role)


def _draw_alignment(explanation: Explanation, weights: Array) -> Figure:
    """One map with its tokens."""
    height, width = weights.shape
    cell = min(0.42, _MAX_INCHES / max(height, width))
    figure = Figure(
        figsize=(cell * width + 2.6, cell * height + 1.9), dpi=150, layout="constrained"
    )
    axes = figure.subplots()
    image = _draw_map(axes, weights)
    source = _drawable_tokens(explanation.source_tokens)
    target = _drawable_tokens(token.token for token in explanation.tokens)
    font_size = max(4.0, min(10.0, 26 * cell))
    axes.set_xticks(range(width), source, fontsize=font_size, parse_math=False)
    axes.tick_params(axis="x", rotation=90, length=0, top=True, labeltop=True, labelbottom=False)
    axes.set_yticks(range(height), target, fontsize=font_size, parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("source", fontsize=9)
    axes.set_ylabel("output", fontsize=9)
    color_bar = figure.colorbar(image, ax=axes, shrink=0.8, ticks=(0, 0.05, 0.25, 0.5, 1))
    color_bar.ax.set_yticklabels(["0 %", "5 %", "25 %", "50 %", "100 %"], fontsize=8)
    color_bar.outline.set_visible(False)
    return figure


def _draw_heads(explanation: Explanation, role: Role) -> Figure:
    """Small maps: one row for each layer, the bottom layer first, one column for each head."""
    views = explanation.with_role(role)
    columns = max(len(view.heads) for view in views)
    side = min(1.75, _MAX_INCHES / columns)
    size = (side * columns + 0.5, (side + 0.28) * len(views) + 0.6)
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    grid = figure.subplots(len(views), columns, squeeze=False)
    for row, view in zip(grid, views, strict=True):
        for number, axes in enumerate(row):
            if number >= len(view.heads):
                axes.set_axis_off()
                continue
            _draw_map(axes, view.weights[number])
            axes.set_xticks([])
            axes.set_yticks([])
            title_size = min(6.5, 3.9 * side)
            axes.set_title(view.heads[number].description, fontsize=title_size, pad=2)
        row[0].set_ylabel(f"layer {view.layer + 1}", fontsize=8)
    figure.suptitle(_TITLES[role], fontsize=10, x=0.01, ha="left")
    return figure


def _draw_map(axes: Axes, weights: Array) -> AxesImage:
    """Draw weights in one hue; the square root makes small weights visible, as on the page."""
    axes.spines[:].set_color("#c9d1d8")
    return axes.imshow(weights, cmap="Blues", norm=PowerNorm(0.5, 0, 1), aspect="auto")


def _drawable_tokens(tokens: Iterable[str]) -> list[str]:
    return ["".join(map(_drawable, token.replace("▁", "␣"))) for token in tokens]


def _drawable(character: str) -> str:
    """The character if a font has it; an empty text for an invisible character."""
    category = unicodedata.category(character)
    if category == "Cc":  # Some fonts draw control characters, but SVG does not allow them.
        return _REPLACEMENT
    if _font_family(character) is not None:
        return character
    is_invisible = category == "Cf" or 0xFE00 <= ord(character) <= 0xFE0F
    return "" if is_invisible else _REPLACEMENT


def _font_families(text: str) -> list[str]:
    """The fonts that have the characters of a text, in the order in which matplotlib tries them."""
    families = (_font_family(character) for character in dict.fromkeys(text + "␣" + _REPLACEMENT))
    available = (family for family in families if family is not None)
    return list(dict.fromkeys([_DEFAULT_FONT, *available]))


@cache
def _font_family(character: str) -> str | None:
    """The first font that has a character."""
    return next((name for name, codes in _fonts() if ord(character) in codes), None)


def _fonts() -> Iterator[tuple[str, frozenset[int]]]:
    regular = [
        font
        for font in fontManager.ttflist
        if font.style == "normal" and font.weight in (400, "normal", "regular")
    ]

    def preference(font: FontEntry) -> tuple[bool, bool]:
        return font.name != _DEFAULT_FONT, "Sans" not in font.name

    for font in sorted(regular, key=preference):
        yield font.name, _character_codes(font.fname)


@cache
def _character_codes(path: str) -> frozenset[int]:
    try:
        return frozenset(get_font(path).get_charmap())
    except (OSError, RuntimeError):  # Bitmap fonts, which matplotlib cannot draw.
        return frozenset()
