"""Results of our own API: the translation of a text, and of each of its sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from dragoman.serving.apis.native_schema import SentenceResult, TranslationResult
from dragoman.serving.interface import Caller, TextRequest, TextResult
from dragoman.serving.service import Service
from dragoman.text.sentences import Piece, split
from dragoman.text.sentences import gap as sentence_gap


def split_text(text: str, language: str) -> list[Piece]:
    """Split a text with line breaks into sentences; pieces and gaps join to exactly the text."""
    pieces = [Piece("", "")]
    for number, line in enumerate(text.split("\n")):
        body = line.strip()
        leading, trailing = line[: line.find(body)], line[line.find(body) + len(body) :]
        if number:
            leading = f"\n{leading}"
        pieces[-1] = Piece(pieces[-1].text, pieces[-1].gap + leading)
        if body:
            pieces += split(body, language)
            pieces[-1] = Piece(pieces[-1].text, pieces[-1].gap + trailing)
        else:
            pieces[-1] = Piece(pieces[-1].text, pieces[-1].gap + trailing)
    is_empty = pieces[0] == Piece("", "") and len(pieces) > 1
    return pieces[1:] if is_empty else pieces


async def translate_sentences(
    service: Service, request: TextRequest, caller: Caller
) -> list[TranslationResult]:
    """Translate texts; each result has its sentences."""
    return await asyncio.gather(
        *(_translate_text(service, request, text, caller) for text in request.texts)
    )


async def _translate_text(
    service: Service, request: TextRequest, text: str, caller: Caller
) -> TranslationResult:
    source, confidence = request.source, 1.0
    if not source:
        # The whole text says more about its language than each sentence.
        best = await service.detect_source(text, request.target)
        source, confidence = best.language, best.confidence
    pair = service.resolve(source, request.target)
    if request.format == "text":
        pieces = await asyncio.to_thread(split_text, text, pair.source)
    else:
        pieces = [Piece(text, "")]
    gap = sentence_gap(pair.source, pair.target)
    gaps = [*(piece.gap or gap for piece in pieces[:-1]), pieces[-1].gap]
    texts = tuple(piece.text for piece in pieces)
    # One text is interactive however many sentences it has; several texts are not.
    sentence_request = replace(
        request, texts=texts, source=source, is_one_text=len(request.texts) == 1
    )
    results = await service.translate(sentence_request, caller)
    joined = replace(
        _joined(pieces, results, gaps),
        source=pair.source,
        confidence=confidence,
        characters=len(text),
    )
    sentences = tuple(map(to_sentence, pieces, results, gaps))
    return to_translation(joined).model_copy(update={"sentences": sentences})


def _joined(
    pieces: Sequence[Piece], results: Sequence[TextResult], gaps: Sequence[str]
) -> TextResult:
    """Make the result of a text from those of its sentences."""
    text = "".join(result.text + gap for result, gap in zip(results, gaps, strict=True))
    # Space before the first sentence is a piece without text.
    translated = [result for piece, result in zip(pieces, results, strict=True) if piece.text]
    translated = translated or list(results)
    if len(translated) == 1:
        return replace(translated[0], text=text)
    flags = tuple(dict.fromkeys(flag for result in translated for flag in result.flags))
    first = translated[0]
    return TextResult(text, first.source, flags=flags, model=first.model, pivot=first.pivot)


def to_sentence(piece: Piece, result: TextResult, gap: str) -> SentenceResult:
    """Write the result of a sentence for the client."""
    return SentenceResult(
        source=piece.text,
        source_gap=piece.gap,
        gap=gap,
        text=result.text,
        alternatives=result.alternatives,
        score=result.score,
        source_tokens=result.source_tokens,
        tokens=result.tokens,
        alignment=result.alignment,
        flags=result.flags,
    )


def to_translation(result: TextResult) -> TranslationResult:
    """Write the result of a text for the client."""
    return TranslationResult(
        text=result.text,
        source=result.source,
        confidence=result.confidence,
        alternatives=result.alternatives,
        score=result.score,
        source_tokens=result.source_tokens,
        tokens=result.tokens,
        alignment=result.alignment,
        flags=result.flags,
        model=result.model,
        pivot=result.pivot or None,
    )
