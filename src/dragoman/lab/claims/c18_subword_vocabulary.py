"""C18: byte-pair encoding removes unknown words, and what it costs.

Between words (short sequences, many unknown) and characters (none unknown, long sequences)
                                                    (Sennrich et al., 2016)   [APPLY-DL]
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from matplotlib.figure import Figure

from dragoman.lab.baselines import TRANSFORMER, Budget
from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size
from dragoman.lab.style import BLUE, GREEN, ORANGE, label_axes
from dragoman.lab.translation_runs import (
    ParallelText,
    compare_bleu,
    demo_text,
    multi30k,
    prepare_text,
    train_translator,
)
from dragoman.tokenizer.interface import UNKNOWN, Tokenizer

_WORDS, _BPE, _CHARACTERS = _KINDS = ("words", "sentencepiece", "characters")
_LABELS = {_WORDS: "words", _BPE: "BPE", _CHARACTERS: "characters"}
_COLORS = {_WORDS: ORANGE, _BPE: BLUE, _CHARACTERS: GREEN}
_QUICK = Budget(updates=60, tokens=512, vocabulary=800, dropout=0.0, beam_size=1, validations=1)
_FULL = Budget(updates=900, tokens=4_096, vocabulary=4_000, dropout=0.2)
_MAX_UNKNOWN = 0.01
"""The share of the word tokenizer's unknown words that BPE may leave."""
_MAX_LENGTH = 0.5
_MAX_P_VALUE = 0.05


class SubwordVocabulary(Experiment):
    """One text, tokenized in three ways."""

    title = "BPE removes unknown words"
    lectures = ("APPLY-DL",)
    durations = (20, 748)
    claim = (
        "A word that is not in the vocabulary is unknown and lost. Byte-pair encoding, between "
        "words and characters, has no unknown words, keeps sequences short, and translates better."
    )
    method = (
        "Word, BPE and character tokenizers learn a vocabulary from the same text; words and BPE "
        "have the same vocabulary size. On both sides of the test text, words with an unknown part "
        "and tokens per sentence are counted. Then a Transformer is trained with each tokenizer "
        "for the same number of updates and tokens, so longer sequences see fewer sentences. Full: "
        "Multi30k, English to German; quick: the demo's grammar, so short that BLEU means little. "
        "One seed."
    )
    criterion = (
        f"Unknown words are removed if BPE leaves at most {_MAX_UNKNOWN:.0%} of those that the "
        f"word tokenizer leaves, and its sequences are at most {_MAX_LENGTH:.0%} as long as those "
        "of characters. Supported if they are removed and the BLEU of BPE is above both others "
        f"with p < {_MAX_P_VALUE} (paired bootstrap); partly supported if they are removed."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Count unknown words and tokens, then train."""
        text = demo_text(3_000, 200, seed) if size == "quick" else multi30k()
        budget = _QUICK if size == "quick" else _FULL
        settings = {
            kind: (*budget.settings(TRANSFORMER), f"tokenizer.kind={kind}") for kind in _KINDS
        }
        counts = {
            kind: _count_tokens(text, *prepare_text(text, settings[kind])[1]) for kind in _KINDS
        }
        order = (_BPE, _WORDS, _CHARACTERS)
        results = {kind: train_translator(text, settings[kind], seed) for kind in order}
        compared = compare_bleu(text, results)
        return {
            kind: counts[kind] | results[kind].numbers() | {"p_value": compared[kind].p_value}
            for kind in _KINDS
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare unknown words, lengths and quality."""
        words, bpe, characters = (numbers[kind] for kind in _KINDS)
        is_removed = (
            words["unknown"] > 0
            and bpe["unknown"] <= _MAX_UNKNOWN * words["unknown"]
            and bpe["tokens"] <= _MAX_LENGTH * characters["tokens"]
        )
        is_better = all(
            bpe["bleu"] > other["bleu"] and other["p_value"] < _MAX_P_VALUE
            for other in (words, characters)
        )
        listed = "; ".join(
            f"{_LABELS[kind]}: {row['unknown']:.2%} of words unknown, in "
            f"{row['pairs_with_unknown']:.0%} of the pairs, {row['tokens']:.1f} tokens per "
            f"sentence, {row['bleu']:.1f} BLEU"
            + ("" if kind == _BPE else f" (p = {row['p_value']:.3f})")
            for kind, row in numbers.items()
        )
        explanation = (
            f"“No unknown words, and short sequences” is {'true' if is_removed else 'false'}, "
            f"“translates better” is {'true' if is_better else 'false'}: {listed}."
        )
        if is_removed:
            return Judgment("supported" if is_better else "partly supported", explanation)
        return Judgment("not supported", explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Three measures, three bars each."""
        panels = (
            ("unknown", "Unknown words", "{:.1%}"),
            ("tokens", "Tokens per sentence", "{:.0f}"),
            ("bleu", "BLEU", "{:.1f}"),
        )
        labels = [_LABELS[kind] for kind in numbers]
        colors = [_COLORS[kind] for kind in numbers]
        for axes, (name, title, template) in zip(figure.subplots(1, 3), panels, strict=True):
            values = [row[name] for row in numbers.values()]
            bars = axes.bar(labels, values, color=colors, width=0.6)
            axes.bar_label(bars, [template.format(value) for value in values], padding=2)
            axes.margins(y=0.15)
            axes.set_yticks([])
            label_axes(axes, title)
            axes.grid(visible=False)
            axes.spines["left"].set_visible(False)


def _count_tokens(text: ParallelText, source: Tokenizer, target: Tokenizer) -> dict[str, float]:
    """In the test text: shares of unknown words and of pairs with one, and the mean length."""
    sides = [
        _count_side(tokenizer, lines)
        for tokenizer, lines in zip((source, target), zip(*text.test, strict=True), strict=True)
    ]
    words = sum(len(line.split()) for pair in text.test for line in pair)
    unknown = [sum(counts) for counts in zip(*(side for side, _ in sides), strict=True)]
    return {
        "unknown": sum(unknown) / words,
        "pairs_with_unknown": mean(count > 0 for count in unknown),
        "tokens": mean(length for _, lengths in sides for length in lengths),
        "vocabulary": max(source.size, target.size),
    }


def _count_side(tokenizer: Tokenizer, lines: Sequence[str]) -> tuple[list[int], list[int]]:
    """For each line, the words with an unknown part, and the tokens."""
    unknown = [sum(UNKNOWN in ids for ids in tokenizer.encode(line.split())) for line in lines]
    return unknown, [len(ids) for ids in tokenizer.encode(lines)]
