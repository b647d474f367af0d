"""The compatibility table: which settings other programs support, and why not the others.

    python -m dragoman.interop.compatibility.table > docs/compatibility.md

Every setting is handled in the same way: change it alone in the default recipe, and ask each
program. Parts are found by listing their folders and choices by reading the recipe's fields, so a
new one gets its row automatically.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args, get_origin

from dragoman.errors import Mistake
from dragoman.interop.compatibility import ctranslate2, huggingface
from dragoman.recipe import parts
from dragoman.recipe.parts import Choice
from dragoman.recipe.schema import Recipe

_PROGRAMS = {
    "ctranslate2": ("CTranslate2", ctranslate2.obstacles),
    "huggingface": ("Hugging Face", huggingface.obstacles),
}

_SECTIONS = ("tokenizer", "model", "decoding")
"""The sections that matter for using a model; the others are for training it."""

_DEFAULT = {"model": {"tied_embeddings": "output"}}
"""The default recipe, but with tied embeddings that also allow two vocabularies."""

_OPENING = """\
# Compatibility with other programs

Dragoman runs every model that it trains. An exported model also runs in other programs, if they
support its parts: CTranslate2 is small and fast, Hugging Face's `transformers` is widely used. Each
row changes one setting of the default recipe. `dragoman show RECIPE` prints the answer for a whole
recipe. A part outside Dragoman (your own Python module) runs only in Dragoman.

The tests in `tests/interop/` compare every yes with Dragoman's own model. This page is written by
`python -m dragoman.interop.compatibility.table > docs/compatibility.md`.
"""


def compatibility(recipe: Recipe) -> dict[str, list[Mistake]]:
    """List for each program what prevents it; an empty list means compatible."""
    return {key: obstacles(recipe) for key, (_, obstacles) in _PROGRAMS.items()}


def summary(recipe: Recipe) -> list[str]:
    """Give one line for each program."""
    return [
        f"compatible with {_PROGRAMS[key][0]}: "
        + _answer([f"{mistake.path}: {mistake.what}" for mistake in mistakes])
        for key, mistakes in compatibility(recipe).items()
    ]


def choices() -> Iterator[tuple[str, str]]:
    """List every setting that has a fixed set of values, with each value."""
    for section in _SECTIONS:
        fields = Recipe.model_fields[section].annotation.model_fields  # type: ignore[union-attr]
        for name, field in fields.items():
            path = f"{section}.{name}"
            if field.annotation is Choice:
                values = parts.names(path)
            elif field.annotation is bool:
                values = ["true", "false"]
            elif get_origin(field.annotation) is Literal:
                values = list(get_args(field.annotation))
            else:
                continue
            yield from ((path, value) for value in values)


def changed(path: str, value: str) -> Recipe:
    """Give the default recipe with one setting changed."""
    section, setting = path.split(".")
    return Recipe.model_validate(
        {**_DEFAULT, section: {**_DEFAULT.get(section, {}), setting: value}}
    )


def markdown() -> str:
    """Write the table as a page."""
    titles = [title for title, _ in _PROGRAMS.values()]
    lines = [_OPENING, f"| setting | value | {' | '.join(titles)} |", "|---|---|---|---|"]
    for path, value in choices():
        answers = [
            _answer([mistake.what for mistake in mistakes if mistake.path == path])
            for mistakes in compatibility(changed(path, value)).values()
        ]
        lines.append(f"| `{path}` | `{value}` | {' | '.join(answers)} |")
    return "\n".join(lines) + "\n"


def _answer(reasons: list[str]) -> str:
    return f"no, because {'; '.join(reasons)}" if reasons else "yes"


if __name__ == "__main__":
    print(markdown(), end="")  # noqa: T201
