"""The translation models that several claims compare, at equal size and budget.

    recurrent without attention   LSTMs; the decoder gets the final state  (Sutskever et al., 2014)
    recurrent                     the same with additive scores            (Bahdanau et al., 2015)
    convolutional                 gated windows; attention in every layer  (Gehring et al., 2017)
    transformer                   attention only                           (Vaswani et al., 2017)

There are two sizes, with 0.4 and 2.4 million parameters. Width and depth are chosen so that
parameters and FLOPs of those with attention agree within a few percent in each size; without
attention, the same width has 8 to 19 % fewer parameters. All get the same text, vocabulary,
updates, tokens per update, label smoothing, dropout, weight averaging, optimizer (Adam) and beam
size. Learning rate and length penalty of each are chosen on the validation text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, NamedTuple

from dragoman.errors import DivergedError
from dragoman.lab.experiment import Size
from dragoman.lab.translation_runs import (
    ParallelText,
    TranslatorResult,
    demo_text,
    multi30k,
    train_translator,
)
from dragoman.lab.uncertainty import derive_seeds

NO_ATTENTION, RECURRENT, CONVOLUTIONAL, TRANSFORMER = (
    "recurrent without attention",
    "recurrent",
    "convolutional",
    "transformer",
)
LARGE_RECURRENT, LARGE_CONVOLUTIONAL, LARGE_TRANSFORMER = (
    f"large {name}" for name in (RECURRENT, CONVOLUTIONAL, TRANSFORMER)
)

LABELS: Mapping[str, str] = {
    NO_ATTENTION: "RNN without attention",
    RECURRENT: "RNN with attention",
    CONVOLUTIONAL: "CNN with attention",
    TRANSFORMER: "Transformer",
    LARGE_RECURRENT: "larger RNN with attention",
    LARGE_CONVOLUTIONAL: "larger CNN with attention",
    LARGE_TRANSFORMER: "larger Transformer",
}
"""Their names in figures and sentences."""

LEARNING_RATE = 16e-3
"""For Adam and a network of width 64; a wider network gets a lower rate, proportional to 1 / width.

It was the best rate of all networks of 0.4 M parameters on the validation text of Multi30k after
1,000 updates (docs/journal.md). A search for the rate of a network starts there.
"""


MAX_LATE_GAIN = 1.0
"""If the worse of two networks gains this much more BLEU than the better one in the last quarter of
the updates, a longer training could change their order. Every network gains a little there, because
its learning rate goes down to zero."""


class Network(NamedTuple):
    """The shape of one model."""

    architecture: str
    width: int
    layers: int
    """Of the encoder, and of the decoder."""
    extra_setting: str = ""
    """One setting that the other architectures do not have."""

    def settings(self) -> Iterator[str]:
        """Its recipe settings."""
        yield f"model.architecture={self.architecture}"
        yield f"model.width={self.width}"
        yield f"model.encoder_layers={self.layers}"
        yield f"model.decoder_layers={self.layers}"
        if self.extra_setting:
            yield self.extra_setting


NETWORKS: Mapping[str, Network] = {
    NO_ATTENTION: Network("recurrent", 66, 2, "model.recurrent.attention=false"),
    RECURRENT: Network("recurrent", 66, 2, "model.similarity=additive"),
    CONVOLUTIONAL: Network("convolutional", 64, 3, "model.similarity=dot"),
    TRANSFORMER: Network("transformer", 64, 2, "model.feed_forward_width=128"),
    LARGE_RECURRENT: Network("recurrent", 202, 2, "model.similarity=additive"),
    LARGE_CONVOLUTIONAL: Network("convolutional", 158, 5, "model.similarity=dot"),
    LARGE_TRANSFORMER: Network("transformer", 128, 4, "model.feed_forward_width=512"),
}


@dataclass(frozen=True, slots=True)
class Budget:
    """What every model of one comparison gets."""

    updates: int
    tokens: int
    """Per update and side."""
    vocabulary: int
    dropout: float
    beam_size: int = 5
    validations: int = 4
    validation_pairs: int = 200
    """Pairs of the validation text that select the weights to keep."""

    def settings(self, model: str, rate_factor: float = 1.0) -> tuple[str, ...]:
        """The recipe settings of one model; the factor multiplies its learning rate."""
        network = NETWORKS[model]
        rate = rate_factor * 64 * LEARNING_RATE / network.width
        every = max(1, self.updates // self.validations)
        training = {
            "optimizer": "adam",
            "schedule": "linear",
            "learning_rate": round(rate, 6),
            "warmup_steps": max(1, self.updates // 10),
            "steps": self.updates,
            "tokens_per_update": self.tokens,
            # An average over about the last tenth of the updates: older weights are too different.
            "ema_decay": round(max(0.0, 1 - 10 / self.updates), 4),
            "validate_every": every,
            "save_every": every,
            "validation_pairs": self.validation_pairs,
        }
        return (
            f"tokenizer.vocabulary_size={self.vocabulary}",
            *network.settings(),
            "model.position=sinusoidal",  # As in the lectures; every architecture supports it.
            f"model.dropout={self.dropout}",
            *(f"training.{name}={value}" for name, value in training.items()),
            f"decoding.beam_size={self.beam_size}",
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """A text, the budget that every model gets on it, and how often each is trained."""

    text: Callable[[int], ParallelText]
    """The text for a seed; a generated text depends on it."""
    budget: Budget
    seeds: int = 1
    trial_updates: int = 0
    """The length of the trainings that search the learning rate. 0: no search."""


def comparison(size: Size) -> Comparison:
    """The comparison that several claims share: the first claim trains, the others reuse."""
    if size == "quick":
        budget = Budget(
            updates=40, tokens=512, vocabulary=800, dropout=0.0, beam_size=1, validations=2
        )
        return Comparison(lambda seed: demo_text(4_000, 200, seed), budget)
    budget = Budget(updates=4_000, tokens=2_048, vocabulary=4_000, dropout=0.1)
    return Comparison(lambda _: multi30k(), budget, seeds=3, trial_updates=1_000)


@dataclass(frozen=True, slots=True)
class Study:
    """One model, trained with several seeds at its best learning rate."""

    results: list[TranslatorResult]
    """One for each seed."""
    rates: list[tuple[float, float]]
    """The multiples of its learning rate that were tried, with BLEU on the validation text."""

    def numbers(self) -> dict[str, Any]:
        """What a finding stores of it."""
        return {"rates": self.rates, "seeds": [result.numbers() for result in self.results]}


def study(shared: Comparison, model: str, seed: int, changes: Sequence[str] = ()) -> Study:
    """Search the learning rate with the first seed and short trainings; then train all seeds.

    `changes` are recipe settings that replace those of the model.
    """
    text, seeds = shared.text(seed), derive_seeds(seed, shared.seeds)
    rates = try_rates(shared, model, seed, changes)
    best = max(rates, key=rates.__getitem__, default=1.0)
    settings = (*shared.budget.settings(model, best), *changes)
    return Study([train_translator(text, settings, one) for one in seeds], sorted(rates.items()))


def try_rates(
    shared: Comparison, model: str, seed: int, changes: Sequence[str] = ()
) -> dict[float, float]:
    """Search the learning rate with short trainings; return BLEU on the validation text by factor.

    A training that diverges has 0 BLEU. Without trial updates, nothing is tried.
    """
    text, first_seed = shared.text(seed), derive_seeds(seed, shared.seeds)[0]
    trial = replace(shared.budget, updates=shared.trial_updates)

    def try_rate(factor: float) -> float:
        settings = (*trial.settings(model, factor), *changes)
        try:
            return train_translator(text, settings, first_seed).validation_bleu
        except DivergedError:
            return 0.0

    return search_rate(try_rate) if shared.trial_updates else {}


def search_rate(try_rate: Callable[[float], float]) -> dict[float, float]:
    """Try half and double of the best rate until both are worse; return factors with scores."""
    scores = {1.0: try_rate(1.0)}
    while True:
        best = max(scores, key=scores.__getitem__)
        untried = [factor for factor in (best / 2, best * 2) if factor not in scores]
        if not untried:
            return scores
        scores[untried[0]] = try_rate(untried[0])


def gain_at_the_end(rows: Sequence[Mapping[str, Any]]) -> float:
    """The BLEU that the last quarter of the updates adds in the validations, mean of seeds.

    A row is what `TranslatorResult.numbers` returns.
    """
    gains: list[float] = []
    for row in rows:
        last_step, last_score = row["curve"][-1]
        before = [score for step, score in row["curve"] if step <= 0.75 * last_step]
        gains.append(last_score - (before[-1] if before else 0.0))
    return mean(gains)


def is_catching_up(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the worse of two networks gains so much more at the end that it could be better."""
    worse, better = sorted((one, other), key=lambda rows: mean(row["bleu"] for row in rows))
    return gain_at_the_end(worse) - gain_at_the_end(better) > MAX_LATE_GAIN


def describe_gains(networks: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """What each network gained at the end, for an explanation; a name may have a label."""
    gains = [
        f"{gain_at_the_end(rows):.1f} ({LABELS.get(name, name)})" for name, rows in networks.items()
    ]
    return (
        "In the last quarter of the updates, BLEU of the validations during training (the first "
        f"pairs of the validation text, greedy search) rose by {', '.join(gains)}."
    )
