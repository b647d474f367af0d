"""Translates texts and documents for all APIs of the server.

A request is split into segments before it enters the queue of its model, so that a long text delays
others by one batch only. Work on the text that takes more than a moment runs in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from dragoman.documents.fragments import Fragment, markup_fragment, text_fragment
from dragoman.documents.translation import UnitResult, UnitTranslator
from dragoman.formats.base.document import Target, plain_text
from dragoman.serving.document_translation import open_document, set_languages, translate_units
from dragoman.serving.driving import Turn, drive, options_of
from dragoman.serving.engines import ModelChangedError, ModelVersion
from dragoman.serving.explainer import Explainer
from dragoman.serving.interface import (
    Caller,
    Detection,
    DocumentRequest,
    DocumentResult,
    Language,
    Limits,
    Pair,
    ServiceError,
    TextRequest,
    TextResult,
)
from dragoman.serving.logs import note
from dragoman.serving.models import Models
from dragoman.serving.queue import estimate_tokens
from dragoman.text.identification import languages_of
from dragoman.text.languages import language_name, match_code

_INTERACTIVE_CHARACTERS = 500
_THREAD_CHARACTERS = 4000
"""A longer request is prepared in a thread."""
_ANSWER_SECONDS = 0.25
"""Time of a deadline that is left for the answer."""
_DETECTED = 3
_SURE = 0.8
"""Probability of a language that is believed even if the server cannot translate from it."""
_MAX_CHANGES = 5
"""Times that a request begins again because its model is replaced."""
_SAMPLE_CHARACTERS = 2000
_SAMPLE_UNITS = 200
"""Of a document whose language is detected."""
_Result = TypeVar("_Result")
BUSY = "the server is busy; the translation cannot be finished in time. Try again later"


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded model."""

    name: str
    source: str
    target: str
    version: str
    engine: str


class Service:
    """What the APIs call."""

    def __init__(self, models: Models, limits: Limits | None = None) -> None:
        self._models = models
        self._limits = limits or Limits()
        self.is_ready = False
        self.active = 0
        """Requests that are being translated."""
        self._explainers: dict[str, Explainer] = {}
        # A new version is explained by a new process.
        models.on_replaced = lambda version: self._explainer(version).close()

    @property
    def can_explain(self) -> bool:
        """Whether the server can explain translations of at least one model."""
        versions = self._models.versions.values()
        return any(not self._explainer(version).obstacle for version in versions)

    def languages(self) -> list[Language]:
        """Return all source and target languages."""
        targets: dict[str, list[str]] = {}
        for pair in self._models.pairs():
            targets.setdefault(pair.source, []).append(pair.target)
            targets.setdefault(pair.target, [])
        return [
            Language(code, language_name(code), tuple(targets[code])) for code in sorted(targets)
        ]

    def pairs(self) -> list[Pair]:
        """Return all pairs that can be translated, with or without a pivot language."""
        return self._models.pairs()

    def models(self) -> list[ModelInfo]:
        """Return the loaded models."""
        infos = (version.info for version in self._models.versions.values())
        return [
            ModelInfo(info.name, info.source, info.target, info.version, info.engine)
            for info in infos
        ]

    def resolve(self, source: str, target: str) -> Pair:
        """Find the pair for two codes in any form (`EN-GB`)."""
        return self._models.resolve(source, target)

    def version_of(self, pair: Pair) -> str:
        """Return the version of the model that translates a pair now, as results name it."""
        return "+".join(version.info.version for version in self._models.route(pair))

    def check_target(self, target: str) -> str:
        """Return the code of a target language as in `languages`."""
        code = match_code(target, self._models.targets())
        if code is None:
            # Names the language only if it looks like a code.
            self._models.resolve(self._models.sources()[0], target)
        return code or ""

    async def detect(self, text: str) -> list[Detection]:
        """Return the languages that a text may have, best first; never empty.

        Languages that the server translates come first.
        """
        codes = [language.code for language in self.languages()]
        detections = [
            Detection(match_code(code, codes) or code, probability)
            for code, probability in languages_of(text, _DETECTED)
        ]
        known = [one for one in detections if one.language in codes]
        others = [one for one in detections if one.language not in codes]
        if not known and not others:
            sources = self._models.sources()
            return [Detection("en" if "en" in sources else sources[0], 0.0)]
        return known + others

    async def translate(self, request: TextRequest, caller: Caller) -> list[TextResult]:
        """Translate texts; one result per text, in order."""
        self._check_size(request)
        self.check_target(request.target)
        by_source: dict[str, list[int]] = {}
        detections: list[Detection] = []
        for row, text in enumerate(request.texts):
            detected = Detection(request.source, 1.0)
            if not request.source:
                detected = await self.detect_source(text, request.target)
            detections.append(detected)
            by_source.setdefault(detected.language, []).append(row)
        pairs = {source: self.resolve(source, request.target) for source in by_source}
        turn = self._turn(request, caller)
        for source, rows in by_source.items():
            self._admit([request.texts[row] for row in rows], pairs[source], turn, caller)
        self.active += 1
        try:
            groups = await asyncio.gather(
                *(
                    self._translate_group(
                        [request.texts[row] for row in rows], pairs[source], request, turn
                    )
                    for source, rows in by_source.items()
                )
            )
        finally:
            self.active -= 1
        model = groups[0][0].model if groups else ""
        note(texts=len(request.texts), characters=sum(map(len, request.texts)), model=model)
        results: dict[int, TextResult] = {}
        for rows, group in zip(by_source.values(), groups, strict=True):
            for row, result in zip(rows, group, strict=True):
                results[row] = replace(result, confidence=detections[row].confidence)
        return [results[row] for row in range(len(request.texts))]

    def _check_size(self, request: TextRequest) -> None:
        limits = self._limits
        if len(request.texts) > limits.texts:
            message = f"the request has {len(request.texts)} texts, which exceeds text limit"
            raise ServiceError("too_long", f"{message} ({limits.texts})")
        size = sum(map(len, request.texts))
        if size > limits.characters:
            message = f"the request has {size} characters, which exceeds character limit"
            raise ServiceError("too_long", f"{message} ({limits.characters})")

    async def detect_source(self, text: str, target: str) -> Detection:
        """Return the best language from which the server can translate to the target."""
        detections = await self.detect(text)
        codes = [pair.source for pair in self.pairs() if pair.target == self.check_target(target)]
        for detection in detections:
            if detection.language in codes:
                return detection
        if match_code(target, [detections[0].language]) is not None and detections[0].confidence:
            # The text is already in the target language: any model copies it best.
            return Detection(codes[0], 0.0)
        if detections[0].confidence >= _SURE:
            return detections[0]
        # Of a few words, the language is a guess: `Hello.` may be Italian.
        return Detection("en" if "en" in codes else codes[0], 0.0)

    def _turn(self, request: TextRequest, caller: Caller) -> Turn:
        size = sum(map(len, request.texts))
        is_one = len(request.texts) == 1 or request.is_one_text
        return Turn(
            caller.client,
            asyncio.get_running_loop().time() + caller.deadline - _ANSWER_SECONDS,
            is_bulk=not is_one or size > _INTERACTIVE_CHARACTERS,
            in_thread=size > _THREAD_CHARACTERS,
        )

    def _admit(self, texts: Sequence[str], pair: Pair, turn: Turn, caller: Caller) -> None:
        """Refuse at once what cannot be finished before the deadline."""
        tokens = sum(map(estimate_tokens, texts))
        seconds = sum(
            version.queue.estimate(tokens, is_bulk=turn.is_bulk)
            for version in self._models.route(pair)
        )
        if seconds > caller.deadline - _ANSWER_SECONDS:
            raise ServiceError("overloaded", BUSY)

    async def _translate_group(
        self, texts: list[str], pair: Pair, request: TextRequest, turn: Turn
    ) -> list[TextResult]:
        """Translate texts of one language; all with one version of the model."""
        return await self._with_route(
            pair, lambda route: self._translate_by(route, texts, pair, request, turn)
        )

    async def _with_route(
        self, pair: Pair, work: Callable[[list[ModelVersion]], Awaitable[_Result]]
    ) -> _Result:
        """Do work with the models of a pair; do it again if a model is replaced meanwhile."""
        for _ in range(_MAX_CHANGES):
            with contextlib.suppress(ModelChangedError):
                return await work(self._models.route(pair))
        raise ModelChangedError

    async def _translate_by(
        self,
        route: list[ModelVersion],
        texts: list[str],
        pair: Pair,
        request: TextRequest,
        turn: Turn,
    ) -> list[TextResult]:
        """Translate texts of one language; through the pivot language if there is one."""
        sources = [TextResult(text, pair.source) for text in texts]
        async with contextlib.AsyncExitStack() as stack:
            for version in route:
                await stack.enter_async_context(version.use())
            results = sources
            for version in route:
                is_last = version is route[-1]
                options = options_of(
                    version,
                    splits_sentences=request.splits_sentences,
                    num_alternatives=request.num_alternatives if is_last else 0,
                    with_alignment=request.with_alignment and len(route) == 1,
                )
                glossary = request.glossary if len(route) == 1 else None
                results = await self._translate_texts(
                    results, request, version, UnitTranslator(options, glossary), turn
                )
        model = "+".join(version.info.version for version in route)
        ignored = ("glossary_ignored",) if request.glossary is not None and pair.pivot else ()
        return [
            replace(
                result,
                source=pair.source,
                model=model,
                pivot=pair.pivot,
                characters=len(text),
                flags=tuple(dict.fromkeys((*result.flags, *ignored))),
            )
            for text, result in zip(texts, results, strict=True)
        ]

    async def _translate_texts(
        self,
        texts: list[TextResult],
        request: TextRequest,
        version: ModelVersion,
        translator: UnitTranslator,
        turn: Turn,
    ) -> list[TextResult]:
        """Translate the texts of earlier results; their flags stay."""

        def begin() -> list[Fragment]:
            return [_fragment(one.text, request) for one in texts]

        fragments = await asyncio.to_thread(begin) if turn.in_thread else begin()
        units = [unit for fragment in fragments for unit in fragment.units]
        unit_results = iter(await drive(translator.steps(units), version, turn))
        results = []
        for before, fragment in zip(texts, fragments, strict=True):
            own = [next(unit_results) for _ in fragment.units]
            results.append(_joined(before, fragment, own))
        return results

    async def translate_document(
        self,
        request: DocumentRequest,
        caller: Caller,
        on_units: Callable[[int, int], None],
    ) -> DocumentResult:
        """Translate a document; `on_units` gets the units that are done and their total."""
        self.check_target(request.target)
        document, units = await asyncio.to_thread(open_document, request)
        source = request.source
        if not source:
            sample = " ".join(plain_text(unit.source) for unit in units[:_SAMPLE_UNITS])
            detected = await self.detect_source(sample[:_SAMPLE_CHARACTERS], request.target)
            source = detected.language
        pair = self.resolve(source, request.target)
        await asyncio.to_thread(set_languages, document, pair)
        return await self._with_route(
            pair,
            lambda route: translate_units(document, units, route, pair, request, caller, on_units),
        )

    async def explain(self, text: str, source: str, target: str) -> str:
        """Return an HTML page that explains a translation."""
        pair = self.resolve(source, target)
        if pair.pivot:
            message = f"the translation goes through {pair.pivot}; explain each of its two steps"
            raise ServiceError("unsupported", message)
        return await self._explainer(self._models.route(pair)[0]).explain(text)

    def _explainer(self, version: ModelVersion) -> Explainer:
        run = version.settings.run
        return self._explainers.setdefault(run, Explainer(Path(run)))

    def close(self) -> None:
        """End the processes that explain translations."""
        for explainer in self._explainers.values():
            explainer.close()


def _fragment(text: str, request: TextRequest) -> Fragment:
    if request.format == "text":
        return text_fragment(text, keeps_newlines=request.keeps_newlines)
    return markup_fragment(text, kind=request.format, ignored_tags=request.ignored_tags)


def _joined(before: TextResult, fragment: Fragment, results: list[UnitResult]) -> TextResult:
    """Join the units of one text."""
    text = fragment.join([result.target for result in results])
    flags = dict.fromkeys((*before.flags, *(flag for result in results for flag in result.flags)))
    ranks = max((len(result.alternatives) for result in results), default=0)
    alternatives: list[str] = []
    for rank in range(ranks):
        targets = [
            Target(result.alternatives[rank]) if rank < len(result.alternatives) else result.target
            for result in results
        ]
        alternative = fragment.join(targets)
        if alternative != text and alternative not in alternatives:
            alternatives.append(alternative)
    translation = results[0].translation if len(results) == 1 else None
    if translation is None:
        return TextResult(text, before.source, alternatives=tuple(alternatives), flags=tuple(flags))
    return TextResult(
        text,
        before.source,
        alternatives=tuple(alternatives),
        score=translation.score,
        source_tokens=translation.source_tokens,
        tokens=translation.tokens,
        alignment=translation.alignment,
        flags=tuple(flags),
    )
