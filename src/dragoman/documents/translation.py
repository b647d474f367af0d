"""Translates the units of documents: guard, split, translate, restore, verify.

A unit is split into segments, which `methods` translates. At last the whole unit is verified once
more, so that no model can break a string.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from dragoman.documents.form import formed, is_capitals, lower_capitals
from dragoman.documents.glossary import annotate, as_items, count_terms, terms_as_text
from dragoman.documents.guarding import (
    Guarded,
    Item,
    check,
    cleaned,
    free_text,
    guard,
    has_message,
    has_words,
    marked_text,
    to_content,
)
from dragoman.documents.memory import TranslationMemory
from dragoman.documents.methods import (
    ALIGNED,
    COPIED,
    PIECES,
    Job,
    Method,
    Methods,
    Options,
    Steps,
)
from dragoman.documents.segments import Segment, split_segments
from dragoman.formats.base.document import Content, Target, Unit, plain_text
from dragoman.inference.joining import Translation
from dragoman.text import sentences
from dragoman.text.glossary import Glossary

__all__ = [
    "ALIGNED",
    "COPIED",
    "FUZZY",
    "MESSAGE",
    "PIECES",
    "TERM",
    "DocumentTranslator",
    "Options",
    "SegmentModel",
    "UnitResult",
    "UnitTranslator",
]

BLOCK_UNITS = 1000
"""Units that are translated together."""

Origin = Literal["machine", "memory", "fuzzy", "existing", "nothing"]
"""`existing`: already translated; `nothing`: no text to translate (only numbers or codes)."""

FUZZY, TERM, MESSAGE = "fuzzy_match", "term_missing", "message_copied"


class SegmentModel(Protocol):
    """What a model must do; `workflow.documents.segment_model` makes one of a translator."""

    def translate_segments(
        self, texts: Sequence[str], *, with_alignment: bool, num_hypotheses: int
    ) -> list[Translation]:
        """Translate texts without newlines."""
        ...


@dataclass(frozen=True, slots=True)
class UnitResult:
    """The translation of one unit."""

    key: str
    line: int
    target: Target | None
    """None: the unit stays as it is."""
    origin: Origin
    flags: tuple[str, ...] = ()
    score: float = 1.0
    """Similarity of the match, if the translation comes from the memory."""
    memory: str = ""
    """File and line of the match."""
    methods: tuple[Method, ...] = ()
    """Of its segments."""
    characters: int = 0
    """Length of a source that is translated, or found in the memory."""
    terms: int = 0
    terms_used: int = 0
    alternatives: tuple[Content, ...] = ()
    """Further translations, best first."""
    translation: Translation | None = None
    """What the model answered, if the unit is one segment that it translated as a whole."""


@dataclass(slots=True)
class _UnitJobs:
    unit: Unit
    guarded: Guarded = ()
    jobs: list[Job] = field(default_factory=list)
    done: UnitResult | None = None
    flags: tuple[str, ...] = ()
    """Those that do not depend on the model."""


class UnitTranslator:
    """Translates units with a glossary and a translation memory; the caller asks the model."""

    def __init__(
        self,
        options: Options,
        glossary: Glossary | None = None,
        memory: TranslationMemory | None = None,
    ) -> None:
        self.options = options
        self.glossary = glossary
        self.memory = memory
        self.methods = Methods(options)

    def steps(self, units: Iterable[Unit]) -> Steps[list[UnitResult]]:
        """Yield what the model must translate; return one result per unit, in order."""
        prepared = list(map(self._prepare, units))
        yield from self.methods.run([job for entry in prepared for job in entry.jobs])
        return list(map(self._finish, prepared))

    def plan(self, units: Iterable[Unit]) -> Iterator[UnitResult]:
        """Yield what would be done with each unit; the model is not used."""
        for unit in units:
            planned = UnitResult(unit.key, unit.line, None, "machine", characters=_size(unit))
            yield self._prepare(unit).done or planned

    def _prepare(self, unit: Unit) -> _UnitJobs:
        entry = _UnitJobs(unit)
        is_translated = unit.target is not None and unit.state != "untranslated"
        if unit.state == "locked" or (is_translated and not self.options.overwrite):
            entry.done = UnitResult(unit.key, unit.line, None, "existing")
            return entry
        entry.guarded = guarded = guard(unit.source, self.options.patterns)
        entry.flags = (MESSAGE,) if has_message(guarded) else ()
        if not has_words(guarded):
            target = Target(unit.source, needs_review=bool(entry.flags)) if unit.source else None
            entry.done = UnitResult(unit.key, unit.line, target, "nothing", entry.flags)
            return entry
        entry.done = self._from_memory(unit)
        if entry.done is None:
            segments = split_segments(
                guarded,
                self.options.source_language,
                collapses_space=unit.collapses_space,
                splits_sentences=self.options.splits_sentences,
                max_characters=self.options.max_segment_characters,
                keeps_words=self.options.has_span_tokens,
            )
            is_alone = sum(bool(segment.body) for segment in segments) == 1
            entry.jobs = [self._job(segment, is_alone=is_alone) for segment in segments]
        return entry

    def _from_memory(self, unit: Unit) -> UnitResult | None:
        match = self.memory.find(unit.source) if self.memory is not None else None
        if match is None or check(unit.source, match.content, self.options.patterns):
            return None
        is_exact = match.score == 1
        return UnitResult(
            unit.key,
            unit.line,
            Target(match.content, needs_review=not is_exact),
            "memory" if is_exact else "fuzzy",
            () if is_exact else (FUZZY,),
            score=match.score,
            memory=match.origin,
            characters=_size(unit),
        )

    def _job(self, segment: Segment, *, is_alone: bool) -> Job:
        body = cleaned(segment.body)
        source = to_content(segment.body)
        if is_capitals(free_text(body)):
            body = lower_capitals(body)
        if self.glossary is not None:
            change = annotate if self.options.has_term_tokens else as_items
            body = change(body, self.glossary)
        return Job(segment, body, is_alone, source)

    def _finish(self, entry: _UnitJobs) -> UnitResult:
        """Join the segments of a unit and verify it as a whole."""
        if entry.done is not None:
            return entry.done
        unit = entry.unit
        content = to_content(tuple(self._joined(entry.jobs)))
        flags = dict.fromkeys(flag for job in entry.jobs for flag in job.flags)
        methods = tuple(job.method for job in entry.jobs if job.body)
        if check(unit.source, content, self.options.patterns):
            content, flags, methods = unit.source, dict.fromkeys((COPIED,)), ("copied",)
        flags |= dict.fromkeys(entry.flags)
        terms, used = (0, 0)
        if self.glossary is not None:
            source = marked_text(entry.guarded)
            terms, used = count_terms(source, plain_text(content), self.glossary)
            if used < terms and COPIED not in flags:
                flags[TERM] = None
        bodies = [job for job in entry.jobs if job.body]
        return UnitResult(
            unit.key,
            unit.line,
            Target(content),
            "machine",
            tuple(flags),
            methods=methods,
            characters=_size(unit),
            terms=terms,
            terms_used=used,
            alternatives=self._alternatives(entry, content),
            translation=bodies[0].translation if len(bodies) == 1 else None,
        )

    def _alternatives(self, entry: _UnitJobs, best: Content) -> tuple[Content, ...]:
        """Join the second best translations of all segments, then the third best, and so on."""
        contents: list[Content] = []
        for rank in range(self.options.num_alternatives):
            jobs = [
                replace(job, result=job.alternatives[rank])
                if rank < len(job.alternatives)
                and self.methods.is_right(job, job.alternatives[rank])
                else job
                for job in entry.jobs
            ]
            content = to_content(tuple(self._joined(jobs)))
            is_new = content != best and content not in contents
            if is_new and not check(entry.unit.source, content, self.options.patterns):
                contents.append(content)
        return tuple(contents)

    def _joined(self, jobs: Sequence[Job]) -> Iterator[str | Item]:
        """Join the segments of a unit; sentences without space between them may need one."""
        gap = sentences.gap(self.options.source_language, self.options.target_language)
        between: Guarded | None = None
        for job in jobs:
            leading, trailing = job.segment.leading, job.segment.trailing
            if job.body and between is not None and not free_text((*between, *leading)):
                yield gap
            yield from (*leading, *self._formed(job), *trailing)
            between = trailing if job.body else None

    def _formed(self, job: Job) -> Guarded:
        """Give a translated segment the form of its source, if that breaks nothing."""
        result = terms_as_text(job.result or ())
        if job.method == "copied" or not job.body:
            return result
        language = self.options.target_language
        changed = formed(job.segment.body, result, language, is_alone=job.is_alone)
        return changed if changed == result or self.methods.is_right(job, changed) else result


def _size(unit: Unit) -> int:
    return len(plain_text(unit.source))


class DocumentTranslator:
    """Translates units with a model; it waits for the model."""

    def __init__(
        self,
        model: SegmentModel,
        options: Options,
        glossary: Glossary | None = None,
        memory: TranslationMemory | None = None,
    ) -> None:
        self.model = model
        self.units = UnitTranslator(options, glossary, memory)

    def translate(self, units: Iterable[Unit]) -> Iterator[UnitResult]:
        """Yield one result per unit, in order."""
        remaining = iter(units)
        while block := list(itertools.islice(remaining, BLOCK_UNITS)):
            yield from self._finished(self.units.steps(block))

    def _finished(self, steps: Steps[list[UnitResult]]) -> list[UnitResult]:
        try:
            request = next(steps)
            while True:
                request = steps.send(
                    self.model.translate_segments(
                        request.texts,
                        with_alignment=request.with_alignment,
                        num_hypotheses=request.num_hypotheses,
                    )
                )
        except StopIteration as finished:
            return list(finished.value)
