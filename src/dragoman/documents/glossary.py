"""Use a glossary in documents.

A model that was prepared with `corpus.glossary` reads the wanted translation beside each term
(source-side annotation, Dinu et al., 2019) and inflects it. For other models the term is carried
like a protected span and written as it is in the glossary.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dragoman.documents.guarding import Guarded, Item
from dragoman.errors import DataError
from dragoman.formats.base.xml_events import xml_events
from dragoman.text.glossary import Glossary, has_term
from dragoman.text.languages import language_nearness
from dragoman.tokenizer.interface import annotated_term

_LANGUAGE_ELEMENTS = frozenset({"langSet", "langSec"})


def load_glossary(path: Path, source: str, target: str) -> Glossary:
    """Read terms from TSV, CSV or TBX."""
    if path.suffix.lower() in (".tbx", ".xml") and path.is_file():
        return Glossary(_read_tbx(path, source, target))
    return Glossary.load(path)


def as_items(body: Guarded, glossary: Glossary) -> Guarded:
    """Replace each term by an item that is written as the target term."""
    parts: list[str | Item] = []
    for part in body:
        if isinstance(part, Item):
            parts.append(part)
            continue
        position = 0
        for use in glossary.find(part):
            parts += [part[position : use.start], Item(use.target, is_term=True)]
            position = use.end
        parts.append(part[position:])
    return tuple(part for part in parts if part != "")


def terms_as_text(body: Guarded) -> Guarded:
    """Return the terms as free text, which can be capitalized."""
    return tuple(
        str(part.content) if isinstance(part, Item) and part.is_term else part for part in body
    )


def annotate(body: Guarded, glossary: Glossary) -> Guarded:
    """Write the target term beside each term, as in training."""

    def annotated(text: str) -> str:
        parts, position = [], 0
        for use in glossary.find(text):
            term = annotated_term(text[use.start : use.end], use.target)
            parts += [text[position : use.start], term]
            position = use.end
        return "".join(parts) + text[position:]

    return tuple(annotated(part) if isinstance(part, str) else part for part in body)


def count_terms(source: str, target: str, glossary: Glossary) -> tuple[int, int]:
    """Return how many terms a source has, and how many of them its translation uses.

    An inflected form counts: a word may differ in its last characters.
    """
    wanted = glossary.find(source)
    return len(wanted), sum(has_term(target, use.target) for use in wanted)


def _read_tbx(path: Path, source: str, target: str) -> dict[str, str]:
    """Read TBX: per entry (`termEntry`, `conceptEntry`), the first term of each language."""
    terms: dict[str, str] = {}
    entry: dict[str, str] = {}
    language, text, is_term = "", "", False
    for event in xml_events(path.read_bytes(), str(path)):
        if event.kind == "start" and event.local_name in _LANGUAGE_ELEMENTS:
            language = event.attributes.get("xml:lang", "")
        elif event.kind == "start" and event.local_name == "term":
            is_term, text = True, ""
        elif event.kind == "text" and is_term:
            text += event.text
        elif event.kind == "end" and event.local_name == "term":
            is_term = False
            entry.setdefault(language, " ".join(text.split()))
        elif event.kind == "end" and event.local_name in ("termEntry", "conceptEntry"):
            wanted = (_nearest(entry, source), _nearest(entry, target))
            if all(wanted):
                terms.setdefault(*wanted)
            entry = {}
    if not terms:
        raise DataError(f"{path} has no term with translations from {source} to {target}")
    return terms


def _nearest(entry: Mapping[str, str], language: str) -> str:
    codes = sorted(entry, key=lambda code: -language_nearness(language, code))
    return entry[codes[0]] if codes and language_nearness(language, codes[0]) else ""
