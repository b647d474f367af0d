"""Does a translator keep its head when text is not what it was taught?

The caller's own sentences are disturbed and translated, and each row asks one question:

    noise        the same sentence, written otherwise: how much chrF is lost?
    keeping      something is in it that must come out as it is: does it?
    a word       alone: is there an answer, of a plausible length, that does not stutter?
    a long line  of many sentences: is the answer as long as it should be, and are they all in it?

Nothing here is random but the draws from a seed, one stream for each row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from random import Random
from typing import NamedTuple

from sacrebleu.metrics.chrf import CHRF

from dragoman.errors import DataError
from dragoman.evaluation import perturbation
from dragoman.evaluation.metrics import check_lengths
from dragoman.evaluation.perturbation import TYPO_RATE, Charge, drop_stop, words_and_gaps

Translate = Callable[[Sequence[str]], Sequence[str]]

MOST = 200
"""Sentences that are disturbed; more would tell little more."""

_TIMES, _BEYOND = 3, 40
"""An answer to one word is absurd above so many times its letters, and so many more."""
_JOINED = 20
"""Sentences on a long line."""
_SHORTEST, _LONGEST = 2 / 3, 3 / 2
"""Of the length that the sentences have when they are translated one by one."""
_TRACE = 1 / 4
"""Of a sentence's words, in their order: with fewer of them in a long line, it is not there. Where
two words in five say something else, it errs on two sentences in a hundred."""


@dataclass(frozen=True, slots=True)
class Row:
    """The answer to one question."""

    name: str
    measured: str
    """What the score says: chrF, or which share in per cent."""
    count: int
    """Sentences, words or lines that could be asked about."""
    score: float | None
    """From 0 to 100; None where nothing could be asked."""
    plain: float | None = None
    """The same for the sentences as they were."""

    @property
    def loss(self) -> float | None:
        """What the trouble costs."""
        return None if self.plain is None or self.score is None else self.plain - self.score


class Sentence(NamedTuple):
    """A sentence as it was, its translation, and how it should be translated, if that is known."""

    source: str
    plain: str
    reference: str


class Noise(NamedTuple):
    """A way to write the same sentence otherwise."""

    name: str
    disturb: Callable[[str, Random], str]
    level: Callable[[str], str]
    """Takes out of answer and reference what the noise may rightly change."""


class Keeping(NamedTuple):
    """Something in a sentence that must come out as it is."""

    name: str
    charge: Callable[[str, Random], Charge | None]


NOISES = (
    Noise("ALL CAPS", lambda text, _: perturbation.shout(text), str.casefold),
    Noise("no final stop", lambda text, _: drop_stop(text), drop_stop),
    Noise(f"typos in {TYPO_RATE:.0%} of words", perturbation.mistype, str),
)
KEEPINGS = (
    Keeping("number changed", perturbation.change_number),
    Keeping("number put in", perturbation.put_number),
    Keeping("web address", perturbation.put_web_address),
    Keeping("mail address", perturbation.put_mail_address),
    Keeping("%s", perturbation.put_format),
    Keeping("{name}", perturbation.put_name),
    Keeping("<b>…</b>", perturbation.put_tags),
)


def stress(
    translate: Translate,
    sources: Sequence[str],
    references: Sequence[str] = (),
    *,
    most: int = MOST,
    seed: int = 1,
) -> list[Row]:
    """Ask every question; about noise only where references are known."""
    if references:
        check_lengths({"the source": sources}, [references])
    chosen = sorted(_chance(seed, "sentences").sample(range(len(sources)), min(most, len(sources))))
    chosen = [place for place in chosen if sources[place].strip()]
    if not chosen:
        raise DataError("there is no sentence to disturb; expected at least one that is not empty")

    def ask(texts: Sequence[str]) -> Sequence[str]:
        return translate(texts) if texts else []

    plain = ask([sources[place] for place in chosen])
    sentences = [
        Sentence(sources[place], answer, references[place] if references else "")
        for place, answer in zip(chosen, plain, strict=True)
    ]
    return [
        *(_noise(each, ask, sentences, seed) for each in NOISES if references),
        *(_keeping(each, ask, sentences, seed) for each in KEEPINGS),
        _single_words(ask, sentences, seed),
        *_long_lines(ask, sentences),
    ]


def _noise(noise: Noise, ask: Translate, sentences: Sequence[Sentence], seed: int) -> Row:
    chance = _chance(seed, noise.name)
    pairs = [(noise.disturb(each.source, chance), each) for each in sentences]
    hit = [(text, each) for text, each in pairs if text != each.source]
    if not hit:
        return Row(noise.name, "chrF", 0, None)
    expected = [noise.level(each.reference) for _, each in hit]

    def chrf(answers: Sequence[str]) -> float:
        level = [noise.level(text) for text in answers]
        return float(CHRF().corpus_score(level, [expected]).score)

    disturbed, plain = ask([text for text, _ in hit]), [each.plain for _, each in hit]
    return Row(noise.name, "chrF", len(hit), chrf(disturbed), chrf(plain))


def _keeping(keeping: Keeping, ask: Translate, sentences: Sequence[Sentence], seed: int) -> Row:
    chance = _chance(seed, keeping.name)
    found = [keeping.charge(each.source, chance) for each in sentences]
    # Where it stands in the sentence already, nobody could tell which one was kept.
    charges = [each for each in found if each and _count(each, each.text) == 1]
    answers = ask([each.text for each in charges])
    kept = [_count(each, answer) == 1 for each, answer in zip(charges, answers, strict=True)]
    return _share(keeping.name, "% kept", kept)


def _count(charge: Charge, text: str) -> int:
    return len(charge.pattern.findall(text))


def _single_words(ask: Translate, sentences: Sequence[Sentence], seed: int) -> Row:
    runs = (run for each in sentences for is_word, run in words_and_gaps(each.source) if is_word)
    words = sorted({run for run in runs if len(run) > 1})
    chosen = _chance(seed, "words").sample(words, min(len(sentences), len(words)))
    answers = ask(chosen)
    fine = [is_plausible(word, answer) for word, answer in zip(chosen, answers, strict=True)]
    return _share("single word", "% plausible", fine)


def is_plausible(word: str, answer: str) -> bool:
    """Say whether an answer to one word has letters, is not absurdly long and does not stutter."""
    has_letters = any(map(str.isalnum, answer))
    is_short = len(answer) <= _TIMES * len(word) + _BEYOND
    return has_letters and is_short and (not stutters(answer) or stutters(word))


def stutters(text: str) -> bool:
    """Say whether two letters or more come three times in a row, whatever parts them."""
    return re.search(r"([^\W\d_]\w.{0,40}?)(?:\W{0,3}\1){2}", text, re.DOTALL) is not None


def _long_lines(ask: Translate, sentences: Sequence[Sentence]) -> list[Row]:
    count = min(_JOINED, len(sentences))
    lines = [
        sentences[first : first + count] for first in range(0, len(sentences) - count + 1, count)
    ]
    answers = ask([" ".join(each.source for each in line) for line in lines])
    pairs = [
        (answer, [each.plain for each in line]) for answer, line in zip(answers, lines, strict=True)
    ]
    fits = [_fits(answer, parts) for answer, parts in pairs]
    there = [each for answer, parts in pairs for each in which_are_there(answer, parts)]
    name = f"{count} sentences in a line"
    return [
        _share(name, "% of plausible length", fits),
        _share(name, "% of sentences there", there),
    ]


def _fits(answer: str, parts: Sequence[str]) -> bool:
    length = len(" ".join(parts).strip())
    return length > 0 and _SHORTEST * length <= len(answer) <= _LONGEST * length


def which_are_there(answer: str, parts: Sequence[str]) -> list[bool]:
    """Lay an answer beside what should be in it, and say which parts have left a trace."""
    # Sentences of one word or two are those of a script without spaces: compare their letters.
    has_spaces = sum(len(part.split()) for part in parts) > 2 * len(parts)
    cut: Callable[[str], list[str]] = str.split if has_spaces else list
    owners = [(number, unit) for number, part in enumerate(parts) for unit in cut(part)]
    matcher = SequenceMatcher(None, [unit for _, unit in owners], cut(answer), autojunk=False)
    traces = Counter(
        number
        for begin, _, size in matcher.get_matching_blocks()
        for number, _ in owners[begin : begin + size]
    )
    sizes = Counter(number for number, _ in owners)
    return [0 < _TRACE * sizes[number] <= traces[number] for number in range(len(parts))]


def _share(name: str, measured: str, answers: Sequence[bool]) -> Row:
    score = 100 * sum(answers) / len(answers) if answers else None
    return Row(name, measured, len(answers), score)


def _chance(seed: int, name: str) -> Random:
    return Random(f"{seed} {name}")  # noqa: S311  (nothing secret)
