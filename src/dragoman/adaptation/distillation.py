"""The text and the recipe of a distillation.

    sources.txt                    what the teacher translates: every source of the data, once
    validation.source, .target     without a validation set: held-out sources, and their
                                   translations by the teacher
    recipe.yaml                    an ordinary recipe with `synthetic: forward`

A text file is source text. A parallel corpus gives its source side; its human translations are not
used, because the student learns the output of its teacher (Kim and Rush, 2016). Sources of the test
and validation sets are left out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dragoman.adaptation.data import CorpusGroup, has_both_sides
from dragoman.corpus.files import check_files, read_lines
from dragoman.corpus.opening import CorpusRequest, open_corpus
from dragoman.corpus.row import Reject
from dragoman.corpus.stages.translate import MAX_LINE_BYTES
from dragoman.errors import DataError
from dragoman.recipe.files import load_recipe
from dragoman.recipe.schema import (
    CorpusFiles,
    CorpusRecipe,
    LanguagesRecipe,
    Recipe,
    TrainingCorpus,
)
from dragoman.storage.files import atomic_write
from dragoman.text.identification import UNSURE, accepted_codes, detect
from dragoman.text.languages import LanguagePair

SOURCES, VALIDATION = "sources.txt", ("validation.source", "validation.target")
DROPOUT, LABEL_SMOOTHING = 0.1, 0.0
_MAX_VALIDATION, _VALIDATION_SHARE = 500, 0.05
_SAMPLE_LINES = 500
"""The lines whose language is checked before anything is translated."""
_MIN_SURE = 10
"""With fewer lines in a language that the detector is sure of, nothing is said about a file."""


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """What was written for the teacher."""

    sources: int
    held_out: int


@dataclass(frozen=True, slots=True)
class DistillationCorpora:
    """The text of a distillation, as a recipe names it."""

    teachers: tuple[Path, ...]
    beam_size: int | None
    """None: as in the recipe of the teacher."""
    tests: tuple[CorpusGroup, ...]
    validation: CorpusGroup | None
    """None: held-out sources with the teacher's translations."""


def check_data(paths: Sequence[Path], languages: LanguagesRecipe) -> None:
    """Raise if a file is missing, or if its text is not in the source language."""
    check_files(paths, len(paths))
    expected = accepted_codes(languages.source)
    if not expected:
        return
    for path in paths:
        lines = islice(_sources_of(path, languages), _SAMPLE_LINES)
        codes = [code for code in map(detect, lines) if code != UNSURE]
        wrong = [code for code in codes if code not in expected]
        if len(codes) >= _MIN_SURE and len(wrong) > len(codes) / 2:
            found = max(set(wrong), key=wrong.count)
            raise DataError(
                f"{str(path)!r} is in {found}, expected {languages.source}: the teacher translates "
                f"{languages.source} → {languages.target}. Give source text, or parallel text with "
                "the source first; of two aligned files, only the source"
            )


def write_sources(
    folder: Path,
    data: Sequence[Path],
    languages: LanguagesRecipe,
    held_out: Sequence[CorpusGroup],
    *,
    needs_validation: bool,
) -> SourceCounts:
    """Write what the teacher translates; each source once, in the order of the files.

    Which sources are held out for validation depends on the hashes of their text.
    """
    known = {_hash(_one_line(pair.source)) for group in held_out for pair in group.read()}
    hashes: set[int] = set()
    for path in data:
        hashes.update(_hash(source) for source in _sources_of(path, languages))
    hashes -= known
    if not hashes:
        raise DataError(
            "--data gives no source to translate that is not in the test or validation set; check "
            "the files, for example with: dragoman corpus show FILE"
        )
    count = min(_MAX_VALIDATION, int(_VALIDATION_SHARE * len(hashes))) if needs_validation else 0
    if needs_validation and not count:
        raise DataError(
            f"--data gives {len(hashes)} different sources; that is too few to hold out some of "
            "them for validation. Add text, or give pairs with --validation FILES"
        )
    chosen = set(sorted(hashes)[:count])
    remaining = hashes - chosen
    with ExitStack() as stack:
        names = (SOURCES, VALIDATION[0]) if needs_validation else (SOURCES,)
        files = [
            stack.enter_context(
                stack.enter_context(atomic_write(folder / name)).open("w", encoding="utf-8")
            )
            for name in names
        ]
        for path in data:
            for source in _sources_of(path, languages):
                number = _hash(source)
                for numbers, file in zip((remaining, chosen), files, strict=False):
                    if number in numbers:
                        numbers.remove(number)
                        file.write(f"{source}\n")
    return SourceCounts(len(hashes) - count, count)


def distillation_recipe(
    preset: str,
    languages: LanguagesRecipe,
    corpora: DistillationCorpora,
    folder: Path,
    settings: Sequence[str] = (),
) -> Recipe:
    """Return the recipe that trains the student; relative paths start from `folder`.

    The model and most settings are those of the preset. The teacher's output is regular, so there
    is little dropout and no label smoothing, and the student needs no beam.
    """
    draft = load_recipe(preset)
    models = tuple(os.path.relpath(teacher, folder) for teacher in corpora.teachers)
    train = TrainingCorpus.model_validate(
        {
            "synthetic": "forward",
            "model": models[0] if len(models) == 1 else models,
            "files": (SOURCES,),
            "decoding": teacher_decoding(corpora.beam_size),
        }
    )
    validation = (
        (CorpusFiles(files=VALIDATION),)
        if corpora.validation is None
        else corpora.validation.entries()
    )
    recipe = draft.model_copy(
        update={
            "languages": languages,
            "corpus": CorpusRecipe(
                train=(train,),
                validation=validation,
                test=tuple(entry for test in corpora.tests for entry in test.entries()),
            ),
            "model": draft.model.model_copy(update={"dropout": DROPOUT}),
            "training": draft.training.model_copy(update={"label_smoothing": LABEL_SMOOTHING}),
            "decoding": draft.decoding.model_copy(
                update={"search": "greedy", "length_penalty": 1.0}
            ),
        }
    )
    return load_recipe(recipe, settings)


def teacher_decoding(beam_size: int | None) -> dict[str, str | int]:
    """Return the changes of the teacher's decoding settings for a beam size."""
    if beam_size is None:
        return {}
    return {"search": "greedy"} if beam_size == 1 else {"search": "beam", "beam_size": beam_size}


def _sources_of(path: Path, languages: LanguagesRecipe) -> Iterator[str]:
    """Yield the sources of a text file or of a parallel corpus, each as one line."""
    if has_both_sides(path):
        request = CorpusRequest((path,), LanguagePair(languages.source, languages.target))
        rows = open_corpus(request).read()
        texts = (row.source for row in rows if not isinstance(row, Reject))
    else:
        lines = read_lines(path, MAX_LINE_BYTES)
        texts = (line for _, line in lines if not isinstance(line, Reject))
    for text in texts:
        source = _one_line(text)
        if source and len(source.encode()) <= MAX_LINE_BYTES:
            yield source


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")
