"""The translation models that several claims compare, at equal size and budget.

    recurrent without attention   LSTMs; the decoder gets the final state  (Sutskever et al., 2014)
    recurrent                     the same with additive attention         (Bahdanau et al., 2015)
    convolutional                 gated windows; attention in every layer  (Gehring et al., 2017)
    transformer                   attention only                           (Vaswani et al., 2017)

Width and depth are chosen so that parameters and FLOPs agree within a few percent. All get the same
text, vocabulary, updates, tokens per update, label smoothing, dropout, weight averaging, optimizer
(Adam) and beam size. Learning rate and length penalty of each are chosen on the validation text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.lab.experiment import Size
from dragoman.lab.translation_runs import (
    ParallelText,
    TranslatorResult,
    demo_text,
    multi30k,
    train_translator,
)
from dragoman.lab.uncertainty import derive_seeds

NO_ATTENTION, RECURRENT, CONVOLUTIONAL, TRANSFORMER, LARGE = (
    "recurrent without attention",
    "recurrent",
    "convolutional",
    "transformer",
    "large transformer",
)

LABELS: Mapping[str, str] = {
    NO_ATTENTION: "RNN without attention",
    RECURRENT: "RNN with attention",
    CONVOLUTIONAL: "CNN with attention",
    TRANSFORMER: "Transformer",
    LARGE: "larger Transformer",
}
"""Their names in figures and sentences."""

LEARNING_RATES: Mapping[str, float] = {
    NO_ATTENTION: 16e-3,
    RECURRENT: 16e-3,
    CONVOLUTIONAL: 16e-3,
    TRANSFORMER: 16e-3,
    LARGE: 8e-3,
}
"""For Adam and a network of width 64; a wider network gets a lower rate, proportional to 1 / width.

Each is the best of a search by doubling on the validation text of Multi30k after 1,000 updates
(docs/journal.md). Longer trainings try half of it too (`Comparison.rate_factors`). The model
without attention takes the rate of the recurrent one.
"""


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
    LARGE: Network("transformer", 128, 2, "model.feed_forward_width=256"),
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
        rate = rate_factor * 64 * LEARNING_RATES[model] / network.width
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
    rate_factors: tuple[float, ...] = (1.0,)
    """The multiples of its learning rate of which each model takes the best."""


def comparison(size: Size) -> Comparison:
    """The comparison that several claims share: the first claim trains, the others reuse."""
    if size == "quick":
        budget = Budget(
            updates=120, tokens=512, vocabulary=800, dropout=0.0, beam_size=1, validations=2
        )
        return Comparison(lambda seed: demo_text(4_000, 200, seed), budget)
    budget = Budget(updates=3_000, tokens=2_048, vocabulary=4_000, dropout=0.1)
    return Comparison(lambda _: multi30k(), budget, seeds=3, rate_factors=(0.5, 1.0))


@dataclass(frozen=True, slots=True)
class Study:
    """One model, trained with several seeds at its best learning rate."""

    results: list[TranslatorResult]
    """One for each seed."""
    rates: list[tuple[float, float]]
    """The multiples of its learning rate that were tried, with BLEU on the validation text."""

    def values(self, name: str) -> list[float]:
        """One number of each seed, for example `bleu`."""
        return [getattr(result, name) for result in self.results]


def study(shared: Comparison, model: str, seed: int) -> Study:
    """Choose the learning rate with the first seed, then train with the others."""
    text, seeds = shared.text(seed), derive_seeds(seed, shared.seeds)
    trials = {
        factor: train_translator(text, shared.budget.settings(model, factor), seeds[0])
        for factor in shared.rate_factors
    }
    rates = [(factor, result.validation_bleu) for factor, result in trials.items()]
    best, _ = max(rates, key=lambda tried: tried[1])
    settings = shared.budget.settings(model, best)
    others = [train_translator(text, settings, other) for other in seeds[1:]]
    return Study([trials[best], *others], rates)
