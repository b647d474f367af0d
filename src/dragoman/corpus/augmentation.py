"""Put span tokens and terms into training pairs, so that a model learns to follow them.

A document is translated with a token in place of each protected span (`text/spans.py`), and the
spans are put back afterwards. A model can do that only if it has seen such tokens:

    Save <b>%s</b> now.    →   Save ⓪①② now.       (⓪ stands for U+E000, and so on)
    <b>%s</b> speichern.   →   ⓪①② speichern.

A part of the pairs that have spans is changed like this; the others stay as they are, so that the
model also learns raw spans. Corpora without spans teach nothing about tokens, so a small part of
the pairs without spans gets synthetic ones.

Terms of a glossary are annotated with their translations in the source (Dinu et al., 2019), if the
target contains the translation, inflected or not. The model learns to copy and inflect what it
reads between the term tokens:

    Open the folder.    →   Open the ⟨folder|Ordner⟩.

Everything here is a function of the pair and the seed: the same bytes with any number of workers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from dragoman.corpus.filter import Pair
from dragoman.text.glossary import Glossary, has_term
from dragoman.text.spans import Span, find_spans
from dragoman.tokenizer.interface import SPAN_TOKENS, annotated_term

OFFSET_SHARE = 0.1
"""The share of the changed pairs whose numbering does not start with the first token. Texts with
many spans are rare, and the last tokens would hardly be trained."""

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class AugmentationSettings:
    """How many pairs are changed, as shares from 0 to 1."""

    span_share: float
    """Of the pairs with spans."""
    synthetic_share: float
    """Of the pairs without spans."""
    term_share: float
    """Of the pairs with terms of the glossary."""
    seed: int


@dataclass(frozen=True, slots=True)
class ProtectedPair:
    """A pair with tokens, and what the tokens stand for."""

    pair: Pair
    spans: dict[str, str]
    """The text of each token; empty for a synthetic span."""

    def restore(self) -> Pair:
        """Put the spans back."""
        table = str.maketrans(self.spans)
        return Pair(self.pair.source.translate(table), self.pair.target.translate(table))


def augment(pair: Pair, settings: AugmentationSettings) -> Pair:
    """Return the pair with tokens, or unchanged, as the settings and the hash of the pair say."""
    source, target = find_spans(pair.source), find_spans(pair.target)
    share = settings.span_share if source or target else settings.synthetic_share
    number = _hash(pair, settings.seed)
    if number >= share * 2**64:
        return pair
    rng = Random(number)  # noqa: S311  (not for secrets)
    if source or target:
        protected = protect_pair(pair, rng, source, target)
    else:
        protected = insert_spans(pair, rng)
    return protected.pair if protected else pair


def annotate(pair: Pair, glossary: Glossary, settings: AugmentationSettings) -> Pair:
    """Return the pair with annotated terms, or unchanged, as `augment` does."""
    if _hash(pair, settings.seed, b"terms") >= settings.term_share * 2**64:
        return pair
    spans = find_spans(pair.source)
    parts, position = [], 0
    for use in glossary.find(pair.source):
        is_inside = any(use.start < span.end and span.start < use.end for span in spans)
        if not is_inside and has_term(pair.target, use.target):
            term = annotated_term(pair.source[use.start : use.end], use.target)
            parts += [pair.source[position : use.start], term]
            position = use.end
    return Pair("".join([*parts, pair.source[position:]]), pair.target)


def protect_pair(
    pair: Pair, rng: Random, source: Sequence[Span], target: Sequence[Span]
) -> ProtectedPair | None:
    """Replace the spans of both sides by tokens, numbered in the order of the source.

    Return None if the sides do not have the same spans, or more than there are tokens.
    """
    texts = [span.text for span in source]
    if Counter(texts) != Counter(span.text for span in target) or len(texts) > len(SPAN_TOKENS):
        return None
    offset = 0
    if rng.random() < OFFSET_SHARE:
        offset = rng.randrange(len(SPAN_TOKENS) - len(texts) + 1)
    tokens = SPAN_TOKENS[offset : offset + len(texts)]
    # Equal spans are matched in their order.
    unused: dict[str, list[str]] = {}
    for token, text in zip(reversed(tokens), reversed(texts), strict=True):
        unused.setdefault(text, []).append(token)
    target_tokens = [unused[span.text].pop() for span in target]
    changed = Pair(
        _replace(pair.source, source, tokens), _replace(pair.target, target, target_tokens)
    )
    return ProtectedPair(changed, dict(zip(tokens, texts, strict=True)))


def insert_spans(pair: Pair, rng: Random) -> ProtectedPair | None:
    """Add synthetic spans to a pair without spans: around or beside the text, or at a word.

    Return None if no position is certain to be the same on both sides.
    """
    first = rng.randrange(len(SPAN_TOKENS) - 1)
    token, closing = SPAN_TOKENS[first : first + 2]
    words = _common_words(pair)
    if words and rng.random() < 0.75:
        word = rng.choice(words)
        if rng.random() < 0.5:
            return ProtectedPair(_replace_word(pair, word, token), {token: word})
        changed = _replace_word(pair, word, f"{token}{word}{closing}")
        return ProtectedPair(changed, {token: "", closing: ""})
    if not pair.source.strip() or not pair.target.strip():
        return None
    before, after = rng.choice(
        [(token, closing), (token, closing), (f"{token} ", ""), ("", f" {token}"), ("", token)]
    )
    changed = Pair(*(f"{before}{text}{after}" for text in pair))
    return ProtectedPair(changed, dict.fromkeys((before + after).replace(" ", ""), ""))


def _common_words(pair: Pair) -> list[str]:
    """Return the names and numbers that occur exactly once on both sides, in source order."""
    source, target = (Counter(_WORD.findall(text)) for text in pair)
    return [
        word
        for word, count in source.items()
        if count == target[word] == 1 and (word[0].isdigit() or word[0].isupper())
    ]


def _replace_word(pair: Pair, word: str, replacement: str) -> Pair:
    pattern = re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])")
    return Pair(*(pattern.sub(replacement, text, count=1) for text in pair))


def _replace(text: str, spans: Sequence[Span], tokens: Sequence[str]) -> str:
    parts, position = [], 0
    for span, token in zip(spans, tokens, strict=True):
        parts += [text[position : span.start], token]
        position = span.end
    return "".join([*parts, text[position:]])


def _hash(pair: Pair, seed: int, purpose: bytes = b"") -> int:
    """Hash a pair to a number of 64 bits, another one for each purpose."""
    text = f"{pair.source}\0{pair.target}".encode(errors="surrogatepass")
    key = seed.to_bytes(8, "little")
    digest = blake2b(text, digest_size=8, key=key, person=purpose).digest()
    return int.from_bytes(digest, "little")
