"""Writes the suggestions of a state to a file that adaptation reads as a corpus."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dragoman.errors import DataError
from dragoman.serving.state import State
from dragoman.serving.stores.suggestions import Suggestion
from dragoman.storage.files import atomic_write

_SUFFIXES = (".tsv", ".jsonl")
_BREAKS = re.compile(r"[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


def export_suggestions(state: State, output: Path, languages: str, *, removes: bool) -> int:
    """Write the suggestions of one language pair; return their number.

    `languages` is the pair (`en-de`), or empty if there is only one. They are removed only after
    the file is complete.
    """
    if output.suffix not in _SUFFIXES:
        raise DataError(f"found the output {str(output)!r}, expected a file .tsv or .jsonl")
    pair = _choose_pair(state, languages)
    ids: list[int] = []
    write = _tsv_line if output.suffix == ".tsv" else _json_line
    with (
        atomic_write(output) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        for suggestion in _of_pair(state, pair):
            file.write(write(suggestion) + "\n")
            ids.append(suggestion.id)
    # They are texts of users: as private as the state.
    os.chmod(output, 0o600)
    if removes:
        state.remove_suggestions(ids)
    return len(ids)


def _choose_pair(state: State, languages: str) -> str:
    counts = Counter(_pair(suggestion) for suggestion in state.suggestions())
    if not counts:
        raise DataError(f"there are no suggestions in {str(state.folder)!r}")
    listed = ", ".join(f"{pair} ({count:,})" for pair, count in counts.most_common())
    if not languages and len(counts) > 1:
        first = counts.most_common(1)[0][0]
        raise DataError(
            f"there are suggestions of several language pairs: {listed}. Choose one, for example: "
            f"--languages {first}"
        )
    for pair in counts:
        if not languages or pair.casefold() == languages.casefold():
            return pair
    raise DataError(f"there are no suggestions of the pair {languages!r}; found: {listed}")


def _of_pair(state: State, pair: str) -> Iterator[Suggestion]:
    return (suggestion for suggestion in state.suggestions() if _pair(suggestion) == pair)


def _pair(suggestion: Suggestion) -> str:
    """Return `en-de`, or `en:pt-BR` if a code has a hyphen of its own."""
    codes = (suggestion.source, suggestion.target)
    return (":" if any("-" in code for code in codes) else "-").join(codes)


def _tsv_line(suggestion: Suggestion) -> str:
    cells = (
        suggestion.source_text,
        suggestion.suggestion,
        suggestion.machine_text,
        suggestion.model,
        _time(suggestion),
    )
    return "\t".join(_BREAKS.sub(" ", cell).strip(" ") for cell in cells)


def _json_line(suggestion: Suggestion) -> str:
    fields = {
        suggestion.source: suggestion.source_text,
        suggestion.target: suggestion.suggestion,
        "machine_translation": suggestion.machine_text,
        "model": suggestion.model,
        "time": _time(suggestion),
    }
    return json.dumps(fields, ensure_ascii=False)


def _time(suggestion: Suggestion) -> str:
    return suggestion.created.strftime("%Y-%m-%dT%H:%M:%SZ")
