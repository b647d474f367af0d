"""C18: does byte-pair encoding end unknown words, and what does it cost?

Between words (short, many unknown) and characters (none unknown, long)   (Sennrich et al., 2016;
seed 003)
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.rivals import TRANSFORMER, Budget
from dragoman.lab.style import BLUE, GREEN, ORANGE, tidy
from dragoman.lab.translating import Text, compare_all, demo_text, make, multi30k, prepare_text
from dragoman.tokenizer.interface import UNKNOWN, Tokenizer

_WORDS, _PAIRS, _CHARACTERS = _KINDS = ("words", "sentencepiece", "characters")
_LABELS = {_WORDS: "words", _PAIRS: "BPE", _CHARACTERS: "characters"}
_COLOURS = {_WORDS: ORANGE, _PAIRS: BLUE, _CHARACTERS: GREEN}
_QUICK = Budget(updates=60, tokens=512, vocabulary=800, dropout=0.0, beam=1, validations=1)
_FULL = Budget(updates=900, tokens=4_096, vocabulary=4_000, dropout=0.2)
_KNOWN = 0.01
"""Of the words' unknowns, the share that may be left."""
_LONG = 0.5
_LUCK = 0.05


class Vocabulary(Experiment):
    """One text, cut in three ways."""

    title = "BPE ends unknown words"
    claim = (
        "Words that were never seen are unknown and lost; byte-pair encoding, between words and "
        "characters, has none, keeps sequences short, and translates better."
    )
    lectures = ("003",)
    method = (
        "Words, BPE and characters learn a vocabulary from the same text, words and BPE of the "
        "same size. Of the test text are counted the words of which something is unknown, on both "
        "sides, and the tokens of a sentence. Then a Transformer learns from each for as many "
        "updates of as many tokens, so that long sequences pay for their length. Full: Multi30k, "
        "English to German; quick: the demo's grammar, so short that BLEU says little. One seed."
    )
    criterion = (
        f"Unknowns end if BPE leaves at most {_KNOWN:.0%} of those that words leave, and its "
        f"sequences are at most {_LONG:.0%} as long as those of characters. Holds if they end and "
        f"its BLEU is above that of both others with p < {_LUCK} (paired bootstrap); in part if "
        "they end."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Count, then train."""
        text = demo_text(3_000, 200, seed) if size == "quick" else multi30k()
        budget = _QUICK if size == "quick" else _FULL
        settings = {
            kind: (*budget.settings(TRANSFORMER), f"tokenizer.kind={kind}") for kind in _KINDS
        }
        found = {kind: _counted(text, *prepare_text(text, settings[kind])[1]) for kind in _KINDS}
        order = (_PAIRS, _WORDS, _CHARACTERS)
        trained = {kind: make(text, settings[kind], seed) for kind in order}
        compared = compare_all(text, trained)
        return {
            kind: found[kind] | trained[kind].figures() | {"luck": compared[kind].luck}
            for kind in _KINDS
        }

    def judge(self, numbers: Numbers) -> Judgement:
        """Unknowns, lengths, quality."""
        words, own, characters = (numbers[kind] for kind in _KINDS)
        ends = (
            words["unknown"] > 0
            and own["unknown"] <= _KNOWN * words["unknown"]
            and own["tokens"] <= _LONG * characters["tokens"]
        )
        is_better = all(
            own["bleu"] > other["bleu"] and other["luck"] < _LUCK for other in (words, characters)
        )
        told = "; ".join(
            f"{_LABELS[kind]}: {each['unknown']:.2%} of words unknown, in "
            f"{each['touched']:.0%} of the pairs, {each['tokens']:.1f} tokens a sentence, "
            f"{each['bleu']:.1f} BLEU" + ("" if kind == _PAIRS else f" (p = {each['luck']:.3f})")
            for kind, each in numbers.items()
        )
        because = (
            f"“Ends unknown words, and keeps sequences short” is {'so' if ends else 'not so'}, "
            f"“translates better” is {'so' if is_better else 'not so'}: {told}."
        )
        if ends:
            return Judgement("holds" if is_better else "holds in part", because)
        return Judgement("does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Three measures, three bars each."""
        panels = (
            ("unknown", "Words that are unknown", "{:.1%}"),
            ("tokens", "Tokens of a sentence", "{:.0f}"),
            ("bleu", "BLEU", "{:.1f}"),
        )
        names = [_LABELS[kind] for kind in numbers]
        colours = [_COLOURS[kind] for kind in numbers]
        for axes, (name, title, form) in zip(figure.subplots(1, 3), panels, strict=True):
            values = [each[name] for each in numbers.values()]
            bars = axes.bar(names, values, color=colours, width=0.6)
            axes.bar_label(bars, [form.format(value) for value in values], padding=2)
            axes.margins(y=0.15)
            axes.set_yticks([])
            tidy(axes, title)
            axes.grid(visible=False)
            axes.spines["left"].set_visible(False)


def _counted(text: Text, source: Tokenizer, target: Tokenizer) -> dict[str, float]:
    """Of the test text: the share of words that are unknown, of pairs they touch, and lengths."""
    sides = [
        _side(tokenizer, lines)
        for tokenizer, lines in zip((source, target), zip(*text.test, strict=True), strict=True)
    ]
    words = sum(len(line.split()) for pair in text.test for line in pair)
    unknown = [sum(each) for each in zip(*(lost for lost, _ in sides), strict=True)]
    return {
        "unknown": sum(unknown) / words,
        "touched": mean(each > 0 for each in unknown),
        "tokens": mean(length for _, lengths in sides for length in lengths),
        "vocabulary": max(source.size, target.size),
    }


def _side(tokenizer: Tokenizer, lines: Sequence[str]) -> tuple[list[int], list[int]]:
    """Of each line, the words of which something is unknown, and all tokens."""
    lost = [sum(UNKNOWN in ids for ids in tokenizer.encode(line.split())) for line in lines]
    return lost, [len(ids) for ids in tokenizer.encode(lines)]
