"""C18: byte-pair encoding removes unknown words, and what it costs.

Between words (short sequences, many unknown) and characters (none unknown, long sequences)
                                                    (Sennrich et al., 2016)   [APPLY-DL]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import mean

from matplotlib.figure import Figure

from dragoman.lab.baselines import TRANSFORMER, Budget
from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict, grade
from dragoman.lab.style import BLUE, GREEN, ORANGE, label_axes
from dragoman.lab.translation_runs import (
    ParallelText,
    chrf_p_values,
    compare_bleu,
    demo_text,
    multi30k,
    prepare_text,
    train_translator,
)
from dragoman.tokenizer.interface import UNKNOWN, Tokenizer

_KINDS = ("words", "sentencepiece", "characters")
_WORDS, _BPE, _CHARACTERS = _KINDS
_LABELS = {_WORDS: "words", _BPE: "BPE", _CHARACTERS: "characters"}
_COLORS = {_WORDS: ORANGE, _BPE: BLUE, _CHARACTERS: GREEN}
_QUICK = Budget(updates=60, tokens=512, vocabulary=800, dropout=0.0, beam_size=1, validations=1)
_FULL = Budget(updates=900, tokens=4_096, vocabulary=4_000, dropout=0.2)
_MAX_UNKNOWN = 0.01
"""The share of the word tokenizer's unknown words that BPE may leave."""
_MAX_LENGTH = 0.5
_MAX_P_VALUE = 0.05
_RARE = 5
"""A word that the training text contains so often, or less often, is rare."""
_MIN_RECALL = 0.05
"""Below this, models are too small to compare them by their rare words."""
_METRICS = {"bleu": "BLEU", "chrf": "chrF"}


class SubwordVocabulary(Experiment):
    """One text, tokenized in three ways."""

    title = "BPE removes unknown words"
    sources = (
        (
            "APPLY-DL",
            "recap",
            "Unknown words hurt neural translation; byte-pair encoding, a trade-off between "
            "characters and words, helps to get rid of them.",
        ),
    )
    durations = (20, 1_200)
    claim = (
        "A word that is not in the vocabulary is unknown and lost. Byte-pair encoding, between "
        "words and characters, has no unknown words, keeps sequences short, and translates better."
    )
    method = (
        "Word, BPE and character tokenizers learn a vocabulary from the same text; words and BPE "
        "have the same vocabulary size. On both sides of the test text, words with an unknown part "
        "and tokens per sentence are counted. Then a Transformer is trained with each tokenizer "
        "for the same number of updates and tokens, so longer sequences see fewer sentences, and "
        "with the same width and depth, so the small vocabulary of characters gives a smaller "
        "model (full: 0.17 M parameters instead of 0.42 M). "
        "Quality is measured by BLEU, which counts whole words, and by chrF, which counts "
        "characters and so rewards a rare word that is nearly right. The recall of rare words is "
        f"the share of reference words with at most {_RARE} occurrences in the training text, or "
        "none, that the translation contains. Full: Multi30k, English to German; quick: the "
        "demo's grammar, so short that the scores mean little. The learning rate is the one that "
        "was best with BPE; it was not searched for words and characters. One seed: the p-value "
        "covers the choice of test sentences, not the seed, and seeds of such a model differ by "
        "up to 4 BLEU and 5 chrF (docs/ablations.md), so a difference in quality is weak evidence."
    )
    criterion = (
        f"Unknown words are removed if BPE leaves at most {_MAX_UNKNOWN:.0%} of those that the "
        f"word tokenizer leaves, and its sequences are at most {_MAX_LENGTH:.0%} as long as those "
        "of characters. BPE is better by a metric if it is above both others with "
        f"p < {_MAX_P_VALUE} (paired bootstrap). Supported if unknown words are removed and BPE is "
        "better by BLEU and by chrF; partly supported if they are removed, and by one metric or "
        "both it is not better. If the metrics disagree, its quality is undecided."
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
        compared, chrf_p = compare_bleu(text, results), chrf_p_values(text, results)
        return {
            kind: counts[kind]
            | results[kind].numbers()
            | {"bleu_p_value": compared[kind].p_value, "chrf_p_value": chrf_p[kind]}
            | _recall_rare_words(text, results[kind].translations)
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
        is_better = {
            metric: all(
                bpe[metric] > other[metric] and other[f"{metric}_p_value"] < _MAX_P_VALUE
                for other in (words, characters)
            )
            for metric in _METRICS
        }
        listed = "; ".join(
            f"{_LABELS[kind]}: {row['unknown']:.2%} of words unknown, in "
            f"{row['pairs_with_unknown']:.0%} of the pairs, {row['tokens']:.1f} tokens per "
            f"sentence, {_describe_quality(kind, row)}"
            for kind, row in numbers.items()
        )
        answers = ", ".join(
            f"“better by {label}” is {'true' if is_better[metric] else 'false'}"
            for metric, label in _METRICS.items()
        )
        explanation = (
            f"“No unknown words, and short sequences” is {'true' if is_removed else 'false'}, "
            f"{answers}: {listed}."
        )
        if max(row["rare_recall"] for row in numbers.values()) < _MIN_RECALL:
            explanation += (
                f" A recall of rare words below {_MIN_RECALL:.0%} decides nothing: the models are "
                "too small for them."
            )
        verdict = grade(
            is_supported=is_removed and all(is_better.values()), is_partly_supported=is_removed
        )
        return Judgment(verdict, _summary(verdict, len(set(is_better.values()))), explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Five measures, three bars each."""
        panels = (
            ("unknown", "Unknown\nwords", "{:.1%}"),
            ("tokens", "Tokens per\nsentence", "{:.0f}"),
            ("bleu", "BLEU", "{:.1f}"),
            ("chrf", "chrF", "{:.1f}"),
            ("rare_recall", "Recall of\nrare words", "{:.1%}"),
        )
        labels = [_LABELS[kind] for kind in numbers]
        colors = [_COLORS[kind] for kind in numbers]
        all_axes = figure.subplots(1, len(panels), sharey=True)
        for axes, (name, title, template) in zip(all_axes, panels, strict=True):
            values = [row[name] for row in numbers.values()]
            bars = axes.barh(labels, values, color=colors, height=0.6)
            if name == "bleu":  # The 95 % intervals over sentences.
                for index, row in enumerate(numbers.values()):
                    axes.plot([row["low"], row["high"]], [index] * 2, color="black", linewidth=1)
            axes.bar_label(
                bars,
                [template.format(value) for value in values],
                padding=9 if name == "bleu" else 2,
            )
            # A recall below 1 % must not look large.
            most = 1.0 if name == "rare_recall" else max(*values, 1e-9)
            axes.set_xlim(0, 1.5 * most)
            axes.set_xticks([])
            label_axes(axes, title)
            axes.grid(visible=False)
            axes.spines["bottom"].set_visible(False)
            axes.tick_params(axis="y", length=0)
        all_axes[0].invert_yaxis()


def _describe_quality(kind: str, row: Numbers) -> str:
    scores = ", ".join(
        f"{row[metric]:.1f} {label}"
        + ("" if kind == _BPE else f" (p = {row[f'{metric}_p_value']:.3f})")
        for metric, label in _METRICS.items()
    )
    return f"{scores}, {row['rare_recall']:.1%} of {row['rare_words']} rare words recalled"


def _summary(verdict: Verdict, answers: int) -> str:
    """What was found; `answers` is the number of different answers of the two metrics."""
    removed = "Splitting words into pieces removes unknown words and keeps sentences short"
    match verdict:
        case "supported":
            return f"{removed}, and the translations are better."
        case "partly supported" if answers > 1:
            return (
                f"{removed}, but whether it translates better depends on how quality is measured."
            )
        case "partly supported":
            return (
                f"{removed}, but the translations were not clearly better than with both whole "
                "words and single characters."
            )
        case _:
            return (
                "Splitting words into pieces did not both remove unknown words and keep sentences "
                "short."
            )


def _recall_rare_words(text: ParallelText, translations: Sequence[str]) -> dict[str, float]:
    """The number of rare words in the references, and the share that the translations contain."""
    training = Counter(word for _, target in text.train for word in target.split())
    total = recalled = 0
    for (_, reference), translation in zip(text.test, translations, strict=True):
        rare = Counter(word for word in reference.split() if training[word] <= _RARE)
        total += rare.total()
        recalled += (rare & Counter(translation.split())).total()
    return {"rare_words": total, "rare_recall": recalled / total if total else 0.0}


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
