"""Takes suggestions from a file that a person has corrected: PO, XLIFF, TMX, or any corpus format.

With the file as the machine wrote it, only the entries that the person changed are taken. Entries
belong together if they have the same source. A PO file marks machine translations as fuzzy; those
that are still fuzzy in the corrected file have not been reviewed and are not read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.corpus.opening import CorpusRequest, OpenCorpus, open_corpus
from dragoman.corpus.row import Reject, Row
from dragoman.errors import DataError
from dragoman.recipe.parts import Choice
from dragoman.serving.interface import ServiceError
from dragoman.serving.state import State
from dragoman.serving.stores.suggestions import Correction, check_correction
from dragoman.serving.suggestion_checks import IMPORTED
from dragoman.storage.machine import user_name
from dragoman.text.languages import LanguagePair, match_code


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """What became of the entries of a corrected file."""

    languages: LanguagePair
    added: int
    known: int
    """Entries that the state had already."""
    unchanged: int
    """Entries with the translation of the machine."""
    rejected: dict[str, int]
    """Entries that cannot be used, by reason."""


def import_suggestions(
    state: State,
    corrected: Path,
    *,
    machine: Path | None = None,
    languages: str = "",
    model: str = "",
) -> ImportedFile:
    """Store the entries of a corrected file as new suggestions.

    Args:
        state: where they are stored.
        corrected: the file as a person left it.
        machine: the same file as the machine wrote it.
        languages: the language pair, if the file and the state do not say it.
        model: the version of the model that wrote `machine`.
    """
    pair = _choose_languages(state, corrected, languages)
    machine_texts = _machine_texts(machine, pair)
    corrections: list[Correction] = []
    counts: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    for row in open_corpus(CorpusRequest((corrected,), pair)).read():
        if isinstance(row, Reject):
            rejected[row.reason] += 1
            continue
        texts = machine_texts.get(row.source, [])
        if row.target in texts:
            counts["unchanged"] += 1
            continue
        correction = Correction(row.source, texts[0] if texts else "", row.target)
        try:
            corrections.append(check_correction(correction))
        except ServiceError:
            rejected["empty or too long"] += 1
    added = state.add_corrections(
        f"{IMPORTED}{user_name()}",
        corrections,
        source=pair.source,
        target=pair.target,
        model=model,
    )
    return ImportedFile(
        languages=pair,
        added=added,
        known=len(corrections) - added,
        unchanged=counts["unchanged"],
        rejected=dict(rejected.most_common()),
    )


def _machine_texts(machine: Path | None, pair: LanguagePair) -> dict[str, list[str]]:
    """Return the translations of the machine by source; a source may have several."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    if machine is not None:
        for row in _with_fuzzy(open_corpus(CorpusRequest((machine,), pair))).read():
            if isinstance(row, Row):
                texts[row.source].append(row.target)
        if not texts:
            raise DataError(f"{str(machine)!r} has no translation, expected those of the machine")
    return texts


def _with_fuzzy(corpus: OpenCorpus) -> OpenCorpus:
    if corpus.format.name != "po":
        return corpus
    return replace(corpus, format=Choice(name="po", options={"keep_fuzzy": "true"}))


def _choose_languages(state: State, corrected: Path, languages: str) -> LanguagePair:
    """Return the stated pair, or the pair of the state that fits the codes in the file."""
    if languages:
        return LanguagePair.parse(languages)
    stated = open_corpus(CorpusRequest((corrected,))).languages
    known = {(one.source, one.target): None for one in state.suggestions()}
    fitting = [LanguagePair(*pair) for pair in known if _fits(stated, LanguagePair(*pair))]
    if len(fitting) == 1:
        return fitting[0]
    if stated.source and stated.target:
        return stated
    raise DataError(
        f"{str(corrected)!r} does not name both of its languages; name them, for example: "
        "--languages en-de"
    )


def _fits(stated: LanguagePair, known: LanguagePair) -> bool:
    codes = ((stated.source, known.source), (stated.target, known.target))
    return all(not code or match_code(code, [other]) for code, other in codes)
