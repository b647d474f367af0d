"""Translate documents in their own format: files, folders and patterns of names.

Every document is read, translated and written as a whole; its output appears atomically. A card
(JSON, a hidden file beside the output) records a hash of the document, the model and all settings.
A second run of the same command skips documents whose card and output are still right. A document
that cannot be read is reported and does not stop the others.
"""

from __future__ import annotations

import glob
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman import __version__
from dragoman.documents.glossary import load_glossary
from dragoman.documents.memory import TranslationMemory
from dragoman.documents.translation import (
    DocumentTranslator,
    Options,
    SegmentModel,
    UnitResult,
)
from dragoman.errors import DataError
from dragoman.formats.base.document import Document
from dragoman.formats.base.folder import extensions, open_document
from dragoman.inference.translator import Translation, Translator
from dragoman.storage.files import atomic_write, sha256, write_text
from dragoman.text.spans import compile_patterns

_MAX_LISTED = 1000
"""Flagged units that are listed in a summary."""
_MAX_HYPOTHESES = 4


class FlaggedUnit(BaseModel):
    """A unit that a person should look at."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    line: int
    flags: tuple[str, ...]
    score: float = 1.0
    """Similarity of the match, if the translation comes from the memory."""
    memory: str = ""
    """File and line of the match."""


class DocumentSummary(BaseModel):
    """What was done with one document."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = 1
    dragoman: str = __version__
    source: str
    output: str
    kind: str = ""
    """The format of the document."""
    key: str = ""
    """Hash of the document, the model and the settings."""
    sha256: str = ""
    """SHA-256 of the output."""
    units: int = 0
    characters: int = 0
    """Of all texts that are translated."""
    machine: int = 0
    memory: int = 0
    fuzzy: int = 0
    existing: int = 0
    """Units that already had a translation."""
    nothing: int = 0
    """Units without words."""
    flagged: int = 0
    terms: int = 0
    terms_used: int = 0
    term_method: Literal["", "annotated", "inserted"] = ""
    """`annotated`: the model reads the term beside the source and inflects it; `inserted`: the term
    is written as it is in the glossary."""
    flags: dict[str, int] = {}
    flagged_units: tuple[FlaggedUnit, ...] = ()
    was_complete: bool = False
    """True if the output of an earlier run was still right."""
    error: str = ""
    """Why the document was not translated."""


class DocumentsReport(BaseModel):
    """The result of `translate_files`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = 1
    documents: tuple[DocumentSummary, ...]

    def total(self, name: str) -> int:
        """Sum a count over all documents: `report.total("flagged")`."""
        return sum(int(getattr(document, name)) for document in self.documents)

    @property
    def errors(self) -> tuple[DocumentSummary, ...]:
        """The documents that were not translated."""
        return tuple(document for document in self.documents if document.error)


@dataclass(frozen=True, slots=True)
class DocumentsProgress:
    """How far the work is."""

    document: Path
    number: int
    """Of the document, from 1."""
    total: int
    units: int
    """Units of this document that are done."""


OnProgress = Callable[[DocumentsProgress], None]


@dataclass(frozen=True, slots=True)
class _Model:
    """Translates segments with a `Translator`."""

    translator: Translator
    language: str

    def translate_segments(
        self, texts: Sequence[str], *, with_alignment: bool, num_hypotheses: int
    ) -> list[Translation]:
        decoding = {"num_hypotheses": num_hypotheses} if num_hypotheses > 1 else {}
        return list(
            self.translator.stream(
                texts,
                prefixes=(),
                language=self.language,
                with_alignment=with_alignment,
                **decoding,
            )
        )


def translate_files(  # noqa: PLR0913  (the options of a command)
    translator: Translator,
    paths: Sequence[str | Path],
    output: str | Path,
    *,
    glossary: str | Path | None = None,
    memory: Sequence[str | Path] = (),
    memory_threshold: float = 0.9,
    protect: Sequence[str] = (),
    language: str = "",
    overwrite: bool = False,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
) -> DocumentsReport:
    """Translate documents and write them below the folder `output`, with the same names.

    `paths` are files, folders (all documents below them) or patterns (`docs/*.md`). `glossary` is a
    TSV, CSV or TBX file. `memory` are TMX, PO or XLIFF files with earlier translations;
    `memory_threshold` is the smallest similarity of a fuzzy match (1 = only equal texts).
    `protect` are regular expressions (RE2) for texts that must not change. `language` is the target
    language (multilingual models). `overwrite` translates texts again that already have a
    translation. `dry_run` only counts.
    """
    languages = translator.recipe.languages
    target_language = language or languages.target
    terms = (
        None
        if glossary is None
        else load_glossary(Path(glossary), languages.source, target_language)
    )
    memories = None
    if memory:
        files = [Path(path) for path in memory]
        memories = TranslationMemory.load(
            files, languages.source, target_language, memory_threshold
        )
    options = options_for(translator, target_language, protect, overwrite=overwrite)
    engine = DocumentTranslator(segment_model(translator, language), options, terms, memories)
    inputs = [Path(path) for path in (glossary, *memory) if path is not None]
    facts = (
        (translator.model_hash, translator.quantization, translator.engine.name),
        translator.settings.model_dump_json(),
        (language, overwrite, memory_threshold, tuple(protect)),
        [sha256(path) for path in inputs],
    )
    job = _Job(engine, options, repr(facts), is_dry=dry_run)
    documents = find_documents(paths, Path(output))
    summaries = []
    for number, (source, target) in enumerate(documents, start=1):

        def report(units: int, source: Path = source, number: int = number) -> None:
            if on_progress is not None:
                on_progress(DocumentsProgress(source, number, len(documents), units))

        try:
            summaries.append(job.run(source, target, report))
        except (DataError, OSError) as error:
            reason = str(error)
            if isinstance(error, OSError):
                reason = f"{error.filename or target}: {error.strerror or reason}"
            summaries.append(DocumentSummary(source=str(source), output=str(target), error=reason))
    return DocumentsReport(documents=tuple(summaries))


def segment_model(translator: Translator, language: str = "") -> SegmentModel:
    """Return a model that translates segments with a translator."""
    return _Model(translator, language)


def options_for(
    translator: Translator,
    target_language: str = "",
    protect: Sequence[str] = (),
    *,
    overwrite: bool = False,
) -> Options:
    """Return how documents are translated with this model: what it has learned decides."""
    recipe = translator.recipe
    tokenizers = (translator.source, translator.target)
    has_tokens = all(tokenizer.has_span_tokens for tokenizer in tokenizers)
    decoding = translator.settings
    return Options(
        source_language=recipe.languages.source,
        target_language=target_language or recipe.languages.target,
        # Without synthetic spans, a corpus without spans trains no span token.
        has_span_tokens=has_tokens
        and recipe.corpus.span_augmentation > 0
        and recipe.corpus.synthetic_spans > 0,
        has_term_tokens=has_tokens
        and bool(recipe.corpus.glossary)
        and recipe.corpus.glossary_augmentation > 0,
        max_hypotheses=(
            min(_MAX_HYPOTHESES, decoding.beam_size) if decoding.search == "beam" else 1
        ),
        overwrite=overwrite,
        patterns=compile_patterns(protect),
    )


def find_documents(paths: Sequence[str | Path], output: Path) -> list[tuple[Path, Path]]:
    """Return each document with its output; a folder keeps its structure below `output`."""
    is_name = not output.exists() and output.suffix.lower() in extensions()
    if is_name or (output.exists() and not output.is_dir()):
        raise DataError(
            f"{str(output)!r} is the name of a file, expected a folder, in which each document "
            "keeps its name; type, for example: -o translated"
        )
    documents: dict[Path, Path] = {}
    for name in paths:
        path = Path(name)
        if path.is_dir():
            members = sorted(_documents_below(path, output))
            pairs = [(member, output / member.relative_to(path)) for member in members]
        elif path.exists():
            pairs = [(path, output / path.name)]
        else:
            matches = sorted(Path(match) for match in glob.glob(str(name), recursive=True))
            pairs = [(match, output / match.name) for match in matches if match.is_file()]
        if not pairs:
            what = "has no document" if path.is_dir() else "does not exist"
            raise DataError(f"{str(name)!r} {what}; expected documents ({_known()})")
        for source, target in pairs:
            other = documents.get(target)
            if other is not None and other.resolve() != source.resolve():
                raise DataError(
                    f"{str(other)!r} and {str(source)!r} have the same output {str(target)!r}; "
                    "translate them with two commands, or give the folder that contains both"
                )
            if target.resolve() == source.resolve():
                raise DataError(
                    f"the output of {str(source)!r} is the file itself; choose another folder: -o"
                )
            documents[target] = source
    return [(source, target) for target, source in documents.items()]


def _documents_below(folder: Path, output: Path) -> Iterator[Path]:
    """Yield the documents of a folder, without hidden ones and without earlier outputs."""
    root, outputs = folder.resolve(), output.resolve()
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        is_output = root != outputs and (root / name).is_relative_to(outputs)
        is_hidden = any(part.startswith(".") for part in name.parts)
        is_known = path.suffix.lower() in extensions()
        if is_known and not is_hidden and not is_output and path.is_file():
            yield path


def _known() -> str:
    return ", ".join(sorted(extensions()))


@dataclass(frozen=True, slots=True)
class _Job:
    engine: DocumentTranslator
    options: Options
    facts: str
    is_dry: bool

    def run(self, source: Path, target: Path, on_units: Callable[[int], None]) -> DocumentSummary:
        """Translate one document, or find that it is complete."""
        key = hashlib.sha256(f"{sha256(source)}{self.facts}".encode()).hexdigest()
        card = target.with_name(f".{target.name}.card.json")
        if not self.is_dry and (earlier := _finished(card, target, key)) is not None:
            paths = {"source": str(source), "output": str(target)}  # They may have moved.
            return earlier.model_copy(update={**paths, "was_complete": True})
        languages = (self.options.source_language, self.options.target_language)
        document = open_document(source, *languages)
        summary = DocumentSummary(
            source=str(source),
            output=str(target),
            kind=type(document).__name__,
            key=key,
            term_method=self._term_method(),
        )
        if self.is_dry:
            return _with_counts(summary, self.engine.units.plan(document.units()))
        return self._translate(document, target, card, summary, on_units)

    def _term_method(self) -> Literal["", "annotated", "inserted"]:
        if self.engine.units.glossary is None:
            return ""
        return "annotated" if self.options.has_term_tokens else "inserted"

    def _translate(
        self,
        document: Document,
        target: Path,
        card: Path,
        summary: DocumentSummary,
        on_units: Callable[[int], None],
    ) -> DocumentSummary:
        results: list[UnitResult] = []
        for result in self.engine.translate(document.units()):
            results.append(result)
            if len(results) % 100 == 0:
                on_units(len(results))
        on_units(len(results))
        with atomic_write(target) as temporary, temporary.open("wb") as file:
            file.writelines(document.write(result.target for result in results))
        summary = _with_counts(summary, results).model_copy(update={"sha256": sha256(target)})
        write_text(card, summary.model_dump_json(indent=1) + "\n")
        return summary


def _with_counts(summary: DocumentSummary, results: Iterable[UnitResult]) -> DocumentSummary:
    counts: Counter[str] = Counter()
    flags: Counter[str] = Counter()
    flagged: list[FlaggedUnit] = []
    for result in results:
        counts.update(["units", result.origin])
        counts.update(terms=result.terms, terms_used=result.terms_used)
        counts["characters"] += result.characters
        if result.flags:
            counts["flagged"] += 1
            flags.update(result.flags)
            if len(flagged) < _MAX_LISTED:
                flagged.append(
                    FlaggedUnit(
                        key=result.key,
                        line=result.line,
                        flags=result.flags,
                        score=result.score,
                        memory=result.memory,
                    )
                )
    update = {**counts, "flags": dict(flags), "flagged_units": tuple(flagged)}
    return DocumentSummary.model_validate(summary.model_dump() | update)


def _finished(card: Path, output: Path, key: str) -> DocumentSummary | None:
    try:
        summary = DocumentSummary.model_validate_json(card.read_bytes())
        is_right = summary.key == key and summary.sha256 == sha256(output)
    except (OSError, ValidationError):
        return None
    return summary if is_right else None
