"""Models that translate segments in simple or bad ways, for tests of documents."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from dragoman.inference.joining import Translation
from dragoman.tokenizer.interface import RESERVED_TOKENS, SPAN_TOKENS

GARBAGE = (
    "%s", "%1$d", "{0}", "{name}", "<b>", "</b>", "</p>", "&amp;", "<script>", "\x00", "\n", "\r",
    "\u2028", "\ufffe", "]]>", "-->", '"', "'", "\\", "`", "https://evil.example/", "$1", "[X1X]",
    "", " ", "ß", "\ud800", *RESERVED_TOKENS,
)  # fmt: skip


def translation(source: str, target: str, alternatives: Sequence[str] = ()) -> Translation:
    """Return a translation whose n-th word is aligned with the n-th source word."""
    source_words, target_words = source.split(), target.split()
    count = min(len(source_words), len(target_words))
    return Translation(
        target,
        0.0,
        tuple("▁" + word for word in source_words),
        tuple("▁" + word for word in target_words),
        tuple((number, number) for number in range(count)),
        alternatives=tuple(alternatives),
    )


class FunctionModel:
    """Translates every text with a function."""

    def __init__(self, function: Callable[[str], str]) -> None:
        self.function = function
        self.texts: list[str] = []

    def translate_segments(
        self, texts: Sequence[str], *, with_alignment: bool, num_hypotheses: int
    ) -> list[Translation]:
        """Translate texts, and remember them."""
        self.texts += texts
        return [translation(text, self.function(text)) for text in texts]


def echo(text: str) -> str:
    """Return the text."""
    return text


def drop(text: str) -> str:
    """Lose the last span token, or every second word."""
    for token in reversed(SPAN_TOKENS):
        if token in text:
            return text.replace(token, "", 1)
    return " ".join(text.split()[::2])


def hostile(seed: int) -> Callable[[str], str]:
    """Return a function that writes spans, tags, tokens and forbidden characters anywhere."""
    rng = random.Random(seed)

    def write(text: str) -> str:
        words = text.split(" ")
        for _ in range(rng.randint(0, 4)):
            words.insert(rng.randint(0, len(words)), rng.choice(GARBAGE))
        if rng.random() < 0.3:
            rng.shuffle(words)
        return rng.choice(("", " ")).join(words) if rng.random() < 0.2 else " ".join(words)

    return write
