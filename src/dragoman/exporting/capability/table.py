"""Which settings can be served elsewhere, and what stands in the way of the others?

    python -m dragoman.exporting.capability.table > docs/serving.md

One way for every setting: take a recipe, change this setting alone, and ask each server. Parts are
found by listing their folders, choices by reading the recipe's fields, so a new one has its row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args, get_origin

from dragoman import part
from dragoman.errors import Mistake
from dragoman.exporting.capability import ctranslate2, huggingface
from dragoman.part import Choice
from dragoman.recipe import Recipe

_SERVERS = {
    "ctranslate2": ("CTranslate2", ctranslate2.obstacles),
    "huggingface": ("Hugging Face", huggingface.obstacles),
}

_SECTIONS = ("tokenizer", "model", "decoding")
"""What is served; the other sections say how it came to be."""

_GROUND = {"model": {"tied_embeddings": "output"}}
"""The usual recipe, but for what would forbid two vocabularies."""

_OPENING = """\
# Serving elsewhere

A model trained with Dragoman is served by Dragoman itself, whatever its recipe. An exported model
is served by other programs too, if they know its parts: CTranslate2 is small and fast, Hugging
Face's `transformers` is everywhere. Each row changes one setting of the usual recipe; `dragoman
show RECIPE` says it of a whole one. A part of your own is served by Dragoman only.

Every yes is compared with our own model in `tests/exporting/`. This page is written by
`python -m dragoman.exporting.capability.table > docs/serving.md`.
"""


def served(recipe: Recipe) -> dict[str, list[Mistake]]:
    """For each server what stands in the way; nothing where the recipe can be served."""
    return {key: obstacles(recipe) for key, (_, obstacles) in _SERVERS.items()}


def summary(recipe: Recipe) -> list[str]:
    """Say it in a line for each server."""
    return [
        f"served by {_SERVERS[key][0]}: "
        + _answer([f"{each.path}: {each.what}" for each in mistakes])
        for key, mistakes in served(recipe).items()
    ]


def choices() -> Iterator[tuple[str, str]]:
    """Every setting that has a known set of values, with each of its values."""
    for section in _SECTIONS:
        fields = Recipe.model_fields[section].annotation.model_fields  # type: ignore[union-attr]
        for name, field in fields.items():
            path = f"{section}.{name}"
            if field.annotation is Choice:
                values = part.names(path)
            elif field.annotation is bool:
                values = ["true", "false"]
            elif get_origin(field.annotation) is Literal:
                values = list(get_args(field.annotation))
            else:
                continue
            yield from ((path, value) for value in values)


def changed(path: str, value: str) -> Recipe:
    """The usual recipe with one setting changed."""
    section, setting = path.split(".")
    return Recipe.model_validate({**_GROUND, section: {**_GROUND.get(section, {}), setting: value}})


def markdown() -> str:
    """The whole table, as a page."""
    titles = [title for title, _ in _SERVERS.values()]
    lines = [_OPENING, f"| setting | value | {' | '.join(titles)} |", "|---|---|---|---|"]
    for path, value in choices():
        answers = [
            _answer([each.what for each in mistakes if each.path == path])
            for mistakes in served(changed(path, value)).values()
        ]
        lines.append(f"| `{path}` | `{value}` | {' | '.join(answers)} |")
    return "\n".join(lines) + "\n"


def _answer(reasons: list[str]) -> str:
    return f"no, because {'; '.join(reasons)}" if reasons else "yes"


if __name__ == "__main__":
    print(markdown(), end="")  # noqa: T201
