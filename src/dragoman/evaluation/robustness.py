"""Robustness checks: translate perturbed sentences and measure what is lost.

The sentences of the test text are perturbed and translated. Each row of the result is one check:

    noise           the same sentence in another spelling: how much chrF is lost?
    preservation    a span must stay unchanged (number, address, placeholder): does it?
    single word     is the output non-empty, of plausible length and without repetition?
    long line       many sentences on one line: is the output long enough, and is no sentence lost?

All random choices come from one seed, with a separate generator for each row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from random import Random
from typing import NamedTuple

from sacrebleu.metrics.chrf import CHRF

from dragoman.errors import DataError
from dragoman.evaluation import perturbation
from dragoman.evaluation.metrics import check_lengths
from dragoman.evaluation.perturbation import (
    TYPO_RATE,
    ProtectedText,
    drop_final_punctuation,
    split_words,
)

Translate = Callable[[Sequence[str]], Sequence[str]]
OnCheck = Callable[[int, int], None]
"""Called with the number of finished checks and the number of all checks."""

MAX_SENTENCES = 200
"""Sentences that are perturbed. More sentences hardly change the result."""

_WORD_FACTOR, _WORD_EXTRA = 3, 40
"""The output for a single word is too long above factor × its letters + extra letters."""
_SENTENCES_PER_LINE = 20
_MIN_LENGTH_RATIO, _MAX_LENGTH_RATIO = 2 / 3, 3 / 2
"""Length of a long line, relative to its sentences translated one by one."""
_MIN_MATCHED_SHARE = 1 / 4
"""A sentence counts as present if a long line contains this share of its words, in order. In a test
in which two of five words were different, this rule was wrong for two sentences in a hundred."""


@dataclass(frozen=True, slots=True)
class RobustnessResult:
    """The result of one check."""

    name: str
    metric: str
    """What the score measures: chrF, or a share in percent."""
    count: int
    """Number of sentences, words or lines that the check could use."""
    score: float | None
    """From 0 to 100; None if the check could use no sentence."""
    unperturbed: float | None = None
    """The same metric for the original sentences."""

    @property
    def loss(self) -> float | None:
        """How much the perturbation costs."""
        if self.unperturbed is None or self.score is None:
            return None
        return self.unperturbed - self.score


class Sentence(NamedTuple):
    """An original sentence with its translation and its reference (empty if unknown)."""

    source: str
    translation: str
    reference: str


class Noise(NamedTuple):
    """A change of the spelling that should not change the meaning."""

    name: str
    perturb: Callable[[str, Random], str]
    normalize: Callable[[str], str]
    """Applied to output and reference: removes differences that the noise may cause."""


class Preservation(NamedTuple):
    """A span that a translation must keep unchanged."""

    name: str
    seed_key: str
    """Part of the seed. It stays the same if the name changes, so results stay comparable."""
    protect: Callable[[str, Random], ProtectedText | None]


NOISES = (
    Noise("ALL CAPS", lambda text, _: perturbation.uppercase(text), str.casefold),
    Noise(
        "no final punctuation", lambda text, _: drop_final_punctuation(text), drop_final_punctuation
    ),
    Noise(f"typos in {TYPO_RATE:.0%} of words", perturbation.add_typos, str),
)
PRESERVATIONS = (
    Preservation("number changed", "number changed", perturbation.change_number),
    Preservation("number inserted", "number put in", perturbation.insert_number),
    Preservation("URL", "web address", perturbation.insert_url),
    Preservation("email address", "mail address", perturbation.insert_email),
    Preservation("%s", "%s", perturbation.insert_printf_placeholder),
    Preservation("{name}", "{name}", perturbation.insert_named_placeholder),
    Preservation("<b>…</b>", "<b>…</b>", perturbation.insert_tags),
)


def measure_robustness(
    translate: Translate,
    sources: Sequence[str],
    references: Sequence[str] = (),
    *,
    max_sentences: int = MAX_SENTENCES,
    seed: int = 1,
    on_check: OnCheck | None = None,
) -> list[RobustnessResult]:
    """Run all checks; the noise checks only if there are references."""
    if references:
        check_lengths({"the source": sources}, [references])
    sample_size = min(max_sentences, len(sources))
    chosen = sorted(_rng(seed, "sentences").sample(range(len(sources)), sample_size))
    chosen = [row for row in chosen if sources[row].strip()]
    if not chosen:
        raise DataError("there is no sentence to perturb; expected at least one that is not empty")

    def translate_all(texts: Sequence[str]) -> Sequence[str]:
        return translate(texts) if texts else []

    translations = translate_all([sources[row] for row in chosen])
    sentences = [
        Sentence(sources[row], translation, references[row] if references else "")
        for row, translation in zip(chosen, translations, strict=True)
    ]
    noises = NOISES if references else ()
    checks = [
        *(partial(_check_noise, noise, translate_all, sentences, seed) for noise in noises),
        *(
            partial(_check_preservation, check, translate_all, sentences, seed)
            for check in PRESERVATIONS
        ),
        partial(_check_single_words, translate_all, sentences, seed),
        partial(_check_long_lines, translate_all, sentences),
    ]
    results: list[RobustnessResult] = []
    for number, check in enumerate(checks, start=1):
        results += check()
        if on_check is not None:
            on_check(number, len(checks))
    return results


def _check_noise(
    noise: Noise, translate: Translate, sentences: Sequence[Sentence], seed: int
) -> list[RobustnessResult]:
    rng = _rng(seed, noise.name)
    perturbed = [(noise.perturb(sentence.source, rng), sentence) for sentence in sentences]
    changed = [(text, sentence) for text, sentence in perturbed if text != sentence.source]
    if not changed:
        return [RobustnessResult(noise.name, "chrF", 0, None)]
    references = [noise.normalize(sentence.reference) for _, sentence in changed]

    def chrf(outputs: Sequence[str]) -> float:
        normalized = [noise.normalize(text) for text in outputs]
        return float(CHRF().corpus_score(normalized, [references]).score)

    outputs = translate([text for text, _ in changed])
    unperturbed = [sentence.translation for _, sentence in changed]
    score, unperturbed_score = chrf(outputs), chrf(unperturbed)
    return [RobustnessResult(noise.name, "chrF", len(changed), score, unperturbed_score)]


def _check_preservation(
    check: Preservation, translate: Translate, sentences: Sequence[Sentence], seed: int
) -> list[RobustnessResult]:
    rng = _rng(seed, check.seed_key)
    candidates = [check.protect(sentence.source, rng) for sentence in sentences]
    # If the span occurs twice in the source, nobody can tell which one was kept.
    protected = [
        candidate
        for candidate in candidates
        if candidate and _count(candidate, candidate.text) == 1
    ]
    outputs = translate([candidate.text for candidate in protected])
    is_kept = [
        _count(candidate, output) == 1 for candidate, output in zip(protected, outputs, strict=True)
    ]
    return [_share(check.name, "% kept", is_kept)]


def _count(protected: ProtectedText, text: str) -> int:
    return len(protected.pattern.findall(text))


def _check_single_words(
    translate: Translate, sentences: Sequence[Sentence], seed: int
) -> list[RobustnessResult]:
    words = sorted(
        {
            run
            for sentence in sentences
            for is_word, run in split_words(sentence.source)
            if is_word and len(run) > 1
        }
    )
    chosen = _rng(seed, "words").sample(words, min(len(sentences), len(words)))
    outputs = translate(chosen)
    plausible = [is_plausible(word, output) for word, output in zip(chosen, outputs, strict=True)]
    return [_share("single word", "% plausible", plausible)]


def is_plausible(word: str, output: str) -> bool:
    """Whether the output for one word has letters, is not too long and does not repeat itself."""
    has_letters = any(map(str.isalnum, output))
    is_short = len(output) <= _WORD_FACTOR * len(word) + _WORD_EXTRA
    return has_letters and is_short and (not has_repetition(output) or has_repetition(word))


def has_repetition(text: str) -> bool:
    """Whether two letters or more occur three times in a row, with any separator."""
    return re.search(r"([^\W\d_]\w.{0,40}?)(?:\W{0,3}\1){2}", text, re.DOTALL) is not None


def _check_long_lines(
    translate: Translate, sentences: Sequence[Sentence]
) -> list[RobustnessResult]:
    count = min(_SENTENCES_PER_LINE, len(sentences))
    lines = [
        sentences[first : first + count] for first in range(0, len(sentences) - count + 1, count)
    ]
    outputs = translate([" ".join(sentence.source for sentence in line) for line in lines])
    pairs = [
        (output, [sentence.translation for sentence in line])
        for output, line in zip(outputs, lines, strict=True)
    ]
    has_length = [_has_plausible_length(output, parts) for output, parts in pairs]
    is_present = [
        is_part_present for output, parts in pairs for is_part_present in find_parts(output, parts)
    ]
    name = f"{count} joined sentence{'' if count == 1 else 's'}"
    return [
        _share(name, "% plausible length", has_length),
        _share(name, "% sentences present", is_present),
    ]


def _has_plausible_length(output: str, parts: Sequence[str]) -> bool:
    length = len(" ".join(parts).strip())
    return length > 0 and _MIN_LENGTH_RATIO * length <= len(output) <= _MAX_LENGTH_RATIO * length


def find_parts(output: str, parts: Sequence[str]) -> list[bool]:
    """Align an output with the parts that it should contain; say which parts are present."""
    # Sentences of one or two "words" belong to a script without spaces: compare characters.
    has_spaces = sum(len(part.split()) for part in parts) > 2 * len(parts)
    split: Callable[[str], list[str]] = str.split if has_spaces else list
    units = [(number, unit) for number, part in enumerate(parts) for unit in split(part)]
    matcher = SequenceMatcher(None, [unit for _, unit in units], split(output), autojunk=False)
    matched = Counter(
        number
        for begin, _, size in matcher.get_matching_blocks()
        for number, _ in units[begin : begin + size]
    )
    sizes = Counter(number for number, _ in units)
    return [
        0 < _MIN_MATCHED_SHARE * sizes[number] <= matched[number] for number in range(len(parts))
    ]


def _share(name: str, metric: str, outcomes: Sequence[bool]) -> RobustnessResult:
    score = 100 * sum(outcomes) / len(outcomes) if outcomes else None
    return RobustnessResult(name, metric, len(outcomes), score)


def _rng(seed: int, key: str) -> Random:
    return Random(f"{seed} {key}")  # noqa: S311  (not used for security)
