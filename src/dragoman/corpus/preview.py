"""Previews corpus files for `dragoman init`: counts, languages, examples, problems and warnings.

The files are read exactly as a preparation reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.corpus.filter import Pair
from dragoman.corpus.opening import CorpusRequest, OpenCorpus, open_corpus
from dragoman.corpus.problems import CorpusSample, Problems
from dragoman.corpus.row import NO_TRANSLATION, Reject
from dragoman.errors import DataError
from dragoman.recipe.corpus import DEFAULT_FILTERS
from dragoman.recipe.parts import Choice
from dragoman.text.languages import LanguagePair

_DETECTED = 500
"""Pairs whose languages are detected."""
_SHOWN = 5
_MAX_DISTINCT_WORDS = 50_000
"""Larger numbers make no difference for the size of the vocabulary."""
_UNTRANSLATED = frozenset({NO_TRANSLATION, "fuzzy", "obsolete"})


@dataclass(frozen=True, slots=True)
class CorpusPreview:
    """What corpus files contain."""

    files: tuple[Path, ...]
    format: Choice
    languages: LanguagePair
    pairs: int
    characters: int
    """The number of characters of the target side."""
    distinct_words: int
    """The number of different words on both sides, counted up to a limit."""
    untranslated: int
    """The entries without a finished translation, as in PO and XLIFF."""
    unreadable: int
    examples: tuple[Pair, ...]
    problems: Problems
    warnings: tuple[str, ...]


def preview_corpus(request: CorpusRequest) -> CorpusPreview:
    """Read the files once; detect the languages that are not stated."""
    corpus = open_corpus(request)
    pairs = characters = 0
    rejects: Counter[str] = Counter()
    words: set[str] = set()
    first: list[Pair] = []
    sample = CorpusSample(is_aligned_by_line=len(corpus.files) > 1)
    for row in corpus.read():
        sample.add(row)
        if isinstance(row, Reject):
            rejects[row.reason] += 1
            continue
        pairs += 1
        characters += len(row.target)
        if len(words) < _MAX_DISTINCT_WORDS:
            words.update(row.source.split(), row.target.split())
        if len(first) < _DETECTED:
            first.append(Pair(row.source, row.target))
    if not pairs:
        raise DataError(_no_pair(corpus, rejects))
    detected = LanguagePair(*(_detect(side) for side in zip(*first, strict=True)))
    languages = LanguagePair(
        corpus.languages.source or detected.source, corpus.languages.target or detected.target
    )
    _check_languages(corpus, languages)
    untranslated = sum(rejects[reason] for reason in _UNTRANSLATED)
    return CorpusPreview(
        files=corpus.files,
        format=corpus.format,
        languages=languages,
        pairs=pairs,
        characters=characters,
        distinct_words=len(words),
        untranslated=untranslated,
        unreadable=sum(rejects.values()) - untranslated,
        examples=tuple([pair for pair in first if all(pair)][:_SHOWN]),
        problems=sample.problems(languages, DEFAULT_FILTERS),
        warnings=tuple(_warnings(corpus.files, languages, detected)),
    )


def _no_pair(corpus: OpenCorpus, rejects: Counter[str]) -> str:
    names = " and ".join(map(str, corpus.files))
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in rejects.most_common(3))
    if not reasons:
        return f"found no pair in {names} (format: {corpus.format.name}): no rows, or empty files"
    return (
        f"found no pair in {names} (format: {corpus.format.name}); rejected rows: {reasons}. Check "
        "the format (--format) and the languages (--languages, for example en-de)"
    )


def _check_languages(corpus: OpenCorpus, languages: LanguagePair) -> None:
    """Raise if a language is not known: a recipe without it would not be valid."""
    missing = [side for side in ("source", "target") if not getattr(languages, side)]
    if missing:
        names = " and ".join(map(str, corpus.files))
        raise DataError(
            f"the {' and the '.join(missing)} language of {names} cannot be detected; add the "
            "languages to the command, source first, for example: --languages en-de"
        )


def _detect(texts: Sequence[str]) -> str:
    """Return the most frequent language of some texts; nothing if the detector is never sure."""
    from dragoman.text.identification import UNSURE, detect  # noqa: PLC0415  (loads a model)

    counts = Counter(detect(text) for text in texts)
    del counts[UNSURE]
    return counts.most_common(1)[0][0] if counts else ""


def _warnings(
    files: Sequence[Path], languages: LanguagePair, detected: LanguagePair
) -> Iterator[str]:
    from dragoman.text.identification import accepted_codes  # noqa: PLC0415  (loads a model)

    if len(files) == 2 and files[0].samefile(files[1]):
        yield f"source and target are the same file, {files[0]}; expected two files"
        return
    sources, targets = accepted_codes(languages.source), accepted_codes(languages.target)
    looks_swapped = detected.source in targets and detected.target in sources
    if looks_swapped and not sources & targets:
        yield (
            f"the source looks like {detected.source} and the target like {detected.target}; the "
            "two sides seem to be swapped. Swap the files, or the codes in --languages"
        )
    elif sources & targets:
        yield (
            f"both sides seem to be in the same language ({languages.source} and "
            f"{languages.target})"
        )
