"""Gives the suggestions of a state to adaptation: as a corpus file, or as approved pairs."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from dragoman.corpus.filter import Pair
from dragoman.errors import DataError
from dragoman.recipe.schema import LanguagesRecipe
from dragoman.serving.state import State
from dragoman.serving.stores.suggestions import Status, Suggestion
from dragoman.storage.files import atomic_write
from dragoman.text.languages import match_code

_SUFFIXES = (".tsv", ".jsonl")
_BREAKS = re.compile(r"[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


def export_suggestions(
    state: State,
    output: Path,
    languages: str,
    *,
    status: Status | Literal["all"] = "approved",
    removes: bool = False,
) -> int:
    """Write the suggestions of one language pair; return their number.

    `languages` is the pair (`en-de`), or empty if there is only one. They are removed only after
    the file is complete.
    """
    if output.suffix not in _SUFFIXES:
        raise DataError(f"found the output {str(output)!r}, expected a file .tsv or .jsonl")
    chosen = [one for one in state.suggestions() if status in ("all", one.status)]
    if not chosen:
        raise DataError(_nothing(state, status))
    pair = _choose_pair(chosen, languages)
    chosen = [suggestion for suggestion in chosen if _pair(suggestion) == pair]
    write = _tsv_line if output.suffix == ".tsv" else _json_line
    # They are texts of users: as private as the state.
    with (
        atomic_write(output, is_private=True) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        for suggestion in chosen:
            file.write(write(suggestion) + "\n")
    if removes:
        state.remove_suggestions([suggestion.id for suggestion in chosen])
    return len(chosen)


def approved_pairs(state: State, languages: LanguagesRecipe) -> list[Pair]:
    """Return the approved suggestions for a model, oldest first; raise if there are none."""
    of_model = [
        suggestion
        for suggestion in state.suggestions()
        if match_code(suggestion.source, [languages.source])
        and match_code(suggestion.target, [languages.target])
    ]
    approved = [one for one in of_model if one.status == "approved"]
    if not approved:
        where = f"from {languages.source} to {languages.target} in {str(state.folder)!r}"
        waiting = sum(one.status == "new" for one in of_model)
        what = f"there is no approved suggestion {where}; {waiting:,} wait for a decision"
        raise DataError(f"{what}. {_review_command(state)}" if waiting else what)
    return [Pair(suggestion.source_text, suggestion.suggestion) for suggestion in approved]


def _nothing(state: State, status: str) -> str:
    counts = Counter(suggestion.status for suggestion in state.suggestions())
    kind = "" if status == "all" else f"{status} "
    what = f"there are no {kind}suggestions in {str(state.folder)!r}"
    if not counts["new"]:
        return what
    return f"{what}; {counts['new']:,} wait for a decision. {_review_command(state)}"


def _review_command(state: State) -> str:
    folder = shlex.quote(str(state.folder))
    return f"To decide, type: dragoman suggestions review --state {folder}"


def _choose_pair(suggestions: Sequence[Suggestion], languages: str) -> str:
    counts = Counter(map(_pair, suggestions))
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
