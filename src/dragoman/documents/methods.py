"""The methods that translate a segment so that its spans and codes survive.

Each segment is translated by the first method whose result passes the verification:

1. `tokens`: the model reads and writes a token for each item (models with span tokens);
2. `raw`: the model reads spans as text and copies them; codes are placed by alignment (models
   without span tokens);
3. `aligned`: items are taken out and placed by the alignment of words;
4. `pieces`: the texts between the items are translated one by one;
5. `copied`: the source is written.

The results of 4 and 5 are flagged, and those of 2 and 3 if alignment places anything but pairs of
tags.

The methods do not call a model. They are generators that yield what the model must translate and
get its translations, so that the same code serves a program that waits and a server that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from dragoman.documents.guarding import (
    Guarded,
    Item,
    check,
    clean_text,
    cleaned,
    free_text,
    guard,
    has_words,
    items_of,
    to_content,
)
from dragoman.documents.placement import (
    encloses_all,
    from_tokens,
    place_items,
    with_tokens,
    without_items,
)
from dragoman.documents.segments import Segment
from dragoman.formats.base.document import Content, plain_text
from dragoman.inference.joining import Translation
from dragoman.text.glossary import has_term
from dragoman.text.spans import Pattern
from dragoman.tokenizer.interface import RESERVED_TOKENS

_RESERVED = frozenset(RESERVED_TOKENS)
Method = Literal["plain", "tokens", "raw", "aligned", "pieces", "copied"]

ALIGNED, PIECES, COPIED = "spans_aligned", "spans_in_pieces", "source_copied"


@dataclass(frozen=True, slots=True)
class Options:
    """How documents are translated."""

    source_language: str = ""
    target_language: str = ""
    has_span_tokens: bool = False
    """Whether the model was trained with span tokens."""
    has_term_tokens: bool = False
    """Whether the model was trained with glossary annotations."""
    max_hypotheses: int = 1
    overwrite: bool = False
    """Translate units again that already have a translation."""
    patterns: tuple[Pattern, ...] = ()
    """The user's own protected spans."""
    splits_sentences: bool = True
    max_segment_characters: int = 0
    """A longer sentence is split at commas or spaces; 0 = no limit."""
    num_alternatives: int = 0
    """Further translations of each segment."""
    with_alignment: bool = False
    """Also align the words of segments without spans."""


@dataclass(frozen=True, slots=True)
class SegmentRequest:
    """Texts without newlines that the model must translate."""

    texts: tuple[str, ...]
    with_alignment: bool = False
    num_hypotheses: int = 1


Result = TypeVar("Result")
Steps = Generator[SegmentRequest, Sequence[Translation], Result]
"""Yields requests, gets one translation per text, and returns a result."""


@dataclass(slots=True)
class Job:
    """A segment while it is translated."""

    segment: Segment
    body: Guarded
    """What the model reads: terms are items or annotated, capitals are lowered."""
    is_alone: bool
    source: Content = ()
    result: Guarded | None = None
    method: Method = "plain"
    flags: tuple[str, ...] = ()
    translation: Translation | None = None
    """What the model answered, if it translated the segment as a whole."""
    alternatives: list[Guarded] = field(default_factory=list)


class Methods:
    """Translates segments with the methods above."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def run(self, jobs: Sequence[Job]) -> Steps[None]:
        """Translate all segments; each method gets those that the methods before could not do."""
        waiting = [job for job in jobs if job.body]
        methods: list[tuple[Method, Callable[[list[Job]], Steps[list[Guarded | None]]]]] = [
            ("plain", self._plain),
            ("tokens", self._with_tokens),
            ("raw", self._raw),
            ("aligned", self._aligned),
            ("pieces", self._in_pieces),
        ]
        for method, translate in methods:
            if not waiting:
                return
            for job in waiting:
                job.flags = ()  # Those of a method that failed do not count.
            results = yield from translate(waiting)
            for job, result in zip(waiting, results, strict=True):
                if result is not None and self.is_right(job, result):
                    job.result, job.method = result, method
            waiting = [job for job in waiting if job.result is None]
        for job in waiting:
            job.result, job.method, job.flags = guard(job.source), "copied", (COPIED,)

    def is_right(self, job: Job, result: Guarded) -> bool:
        """Verify a translation; without words, without a term, or with tokens it is wrong."""
        content = to_content(result)
        text = plain_text(content)
        has_tokens = not text.isascii() and not _RESERVED.isdisjoint(text)
        if has_tokens and _RESERVED.isdisjoint(plain_text(job.source)):
            return False
        terms = [str(item.content) for item in items_of(job.body) if item.is_term]
        if not all(has_term(text, term) for term in terms):
            return False
        # Digits count as words: "One" may become "1".
        has_text = any(map(str.isalnum, free_text(guard(content, self.options.patterns))))
        return has_text and not check(job.source, content, self.options.patterns)

    def _plain(self, jobs: list[Job]) -> Steps[list[Guarded | None]]:
        """Translate segments without items."""
        chosen = [job for job in jobs if not items_of(job.body)]
        answers = yield from self._translate(
            chosen,
            [free_text(job.body) for job in chosen],
            1 + self.options.num_alternatives,
            with_alignment=self.options.with_alignment,
        )
        for job, translation in zip(chosen, answers, strict=True):
            job.translation = translation
            job.alternatives = [(clean_text(text),) for text in translation.alternatives]
        return _spread(jobs, chosen, [(clean_text(translation.text),) for translation in answers])

    def _with_tokens(self, jobs: list[Job]) -> Steps[list[Guarded | None]]:
        texts = [
            with_tokens(job.body) if self.options.has_span_tokens and items_of(job.body) else None
            for job in jobs
        ]
        chosen = [job for job, text in zip(jobs, texts, strict=True) if text is not None]
        answers = yield from self._translate(
            chosen,
            [text for text in texts if text is not None],
            max(self.options.max_hypotheses, 1 + self.options.num_alternatives),
        )
        results: list[Guarded | None] = []
        for job, translation in zip(chosen, answers, strict=True):
            candidates = (
                from_tokens(clean_text(text), items_of(job.body))
                for text in (translation.text, *translation.alternatives)
            )
            right = (one for one in candidates if one is not None and self.is_right(job, one))
            results.append(next(right, None))
            job.translation = translation
            if self.options.num_alternatives:
                job.alternatives = list(right)
        return _spread(jobs, chosen, results)

    def _raw(self, jobs: list[Job]) -> Steps[list[Guarded | None]]:
        """Let the model copy spans that it reads as text."""
        if self.options.has_span_tokens:
            return [None] * len(jobs)
        chosen = [
            job for job in jobs if any(isinstance(item.content, str) for item in items_of(job.body))
        ]
        placed = yield from self._placed(chosen, keeps_spans=True)
        return _spread(jobs, chosen, placed)

    def _aligned(self, jobs: list[Job]) -> Steps[list[Guarded | None]]:
        chosen = [job for job in jobs if items_of(job.body)]
        placed = yield from self._placed(chosen, keeps_spans=False)
        return _spread(jobs, chosen, placed)

    def _placed(self, jobs: list[Job], *, keeps_spans: bool) -> Steps[list[Guarded | None]]:
        stripped = [without_items(job.body, keeps_spans=keeps_spans) for job in jobs]
        answers = yield from self._translate(
            jobs, [text for text, _ in stripped], with_alignment=True
        )
        results: list[Guarded | None] = []
        for job, (text, removed), translation in zip(jobs, stripped, answers, strict=True):
            placed = place_items(text, removed, translation) or ()
            job.translation = translation
            results.append(cleaned(placed) or None)
            # In a target without spaces the alignment of words only finds the whole sentence.
            is_vague = encloses_all(placed) and not encloses_all(job.body)
            if is_vague or any(entry.item.kind == "single" for entry in removed):
                job.flags = (*job.flags, ALIGNED)
        return results

    def _in_pieces(self, jobs: list[Job]) -> Steps[list[Guarded | None]]:
        """Translate the texts between the items; the order of the items stays."""
        pieces = (part.strip() for job in jobs for part in job.body if isinstance(part, str))
        texts = list(dict.fromkeys(piece for piece in pieces if has_words((piece,))))
        answers = (yield SegmentRequest(tuple(texts))) if texts else ()
        translated = {
            text: clean_text(answer.text) for text, answer in zip(texts, answers, strict=True)
        }

        def replaced(part: str | Item) -> str | Item:
            if isinstance(part, Item) or part.strip() not in translated:
                return part
            start = len(part) - len(part.lstrip())
            return part[:start] + translated[part.strip()] + part[len(part.rstrip()) :]

        for job in jobs:
            job.flags = (PIECES,)
            job.translation = None
        return [tuple(map(replaced, job.body)) for job in jobs]

    def _translate(
        self,
        jobs: Sequence[Job],
        texts: Sequence[str],
        num_hypotheses: int = 1,
        *,
        with_alignment: bool = False,
    ) -> Steps[list[Translation]]:
        """Translate each different text once, and note the flags of the model."""
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return []
        answers = yield SegmentRequest(tuple(distinct), with_alignment, num_hypotheses)
        by_text = dict(zip(distinct, answers, strict=True))
        results = [by_text[text] for text in texts]
        for job, translation in zip(jobs, results, strict=True):
            flags = [flag for flag in translation.flags if flag in ("repetition", "length")]
            job.flags = tuple(dict.fromkeys((*job.flags, *flags)))
        return results


def _spread(
    jobs: Sequence[Job], chosen: Sequence[Job], results: Sequence[Guarded | None]
) -> list[Guarded | None]:
    """Give every job the result of its method; None for jobs that it did not choose."""
    by_job = {id(job): result for job, result in zip(chosen, results, strict=True)}
    return [by_job.get(id(job)) for job in jobs]
