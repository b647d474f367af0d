"""Which translators are rivals, and what do they have in common?

    forgetful        LSTMs; the decoder knows how the source ended    (Sutskever et al., 2014)
    recurrent        the same, looking back by additive attention     (Bahdanau et al., 2015)
    convolutional    gated windows; every layer looks at the source   (Gehring et al., 2017)
    transformer      attention alone                                  (Vaswani et al., 2017)

Like sizes: so wide and deep that parameters and FLOPs are alike, a few per cent apart; forgetful
is recurrent without its attention. The same text, vocabulary, updates of as many tokens,
smoothing, dropout, average of weights and search. Adam for all of them; its rate is each one's
own (`RATES`), found on the development text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.lab.experiment import Size
from dragoman.lab.translating import Text, demo_text, multi30k

FORGETFUL, RECURRENT, CONVOLUTIONAL, TRANSFORMER, LARGE = (
    "forgetful",
    "recurrent",
    "convolutional",
    "transformer",
    "large transformer",
)

LABELS: Mapping[str, str] = {
    FORGETFUL: "RNN without attention",
    RECURRENT: "RNN with attention",
    CONVOLUTIONAL: "CNN with attention",
    TRANSFORMER: "Transformer",
    LARGE: "larger Transformer",
}
"""What figures and sentences call them."""

RATES: Mapping[str, float] = {
    FORGETFUL: 16e-3,
    RECURRENT: 16e-3,
    CONVOLUTIONAL: 16e-3,
    TRANSFORMER: 16e-3,
    LARGE: 8e-3,
}
"""Of Adam, for a network 64 wide; a wider one learns at a lower one, as 1 / width.

Each is the best of trials by doubling, on the development text of Multi30k in the full bout, and
both its half and its double were tried (docs/journal.md). Forgetful learns as recurrent does.
"""


class Network(NamedTuple):
    """The shape of one rival."""

    architecture: str
    width: int
    layers: int
    """Of the encoder, and as many of the decoder."""
    more: str = ""
    """One setting that the others have not."""

    def settings(self) -> Iterator[str]:
        """What a recipe says of it."""
        yield f"model.architecture={self.architecture}"
        yield f"model.width={self.width}"
        yield f"model.encoder_layers={self.layers}"
        yield f"model.decoder_layers={self.layers}"
        if self.more:
            yield self.more


_LOOKS, _BLIND = "model.similarity=additive", "model.recurrent.attends=false"
_DOT = "model.similarity=dot"

NETWORKS: Mapping[str, Network] = {
    FORGETFUL: Network("recurrent", 66, 2, _BLIND),
    RECURRENT: Network("recurrent", 66, 2, _LOOKS),
    CONVOLUTIONAL: Network("convolutional", 64, 3, _DOT),
    TRANSFORMER: Network("transformer", 64, 2, "model.feed_forward_width=128"),
    LARGE: Network("transformer", 128, 2, "model.feed_forward_width=256"),
}
"""Their shapes."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What every rival of one comparison gets."""

    updates: int
    tokens: int
    """Of a side, in an update."""
    vocabulary: int
    dropout: float
    beam: int = 5
    validations: int = 4
    watched: int = 200
    """Pairs of the development text that say which of the validated weights are taken."""

    def settings(self, rival: str) -> tuple[str, ...]:
        """What a recipe says of this rival."""
        network = NETWORKS[rival]
        every = max(1, self.updates // self.validations)
        training = {
            "optimizer": "adam",
            "schedule": "linear",
            "learning_rate": round(64 * RATES[rival] / network.width, 6),
            "warmup": max(1, self.updates // 10),
            "steps": self.updates,
            "tokens_per_update": self.tokens,
            # Of about the last tenth of the updates or less: what came before is too far away.
            "moving_average": round(max(0.0, 1 - 10 / self.updates), 4),
            "validate_every": every,
            "save_every": every,
            "validation_pairs": self.watched,
        }
        return (
            f"tokenizer.vocabulary_size={self.vocabulary}",
            *network.settings(),
            "model.position=sinusoidal",  # The lectures', and one that every rival can have.
            f"model.dropout={self.dropout}",
            *(f"training.{name}={value}" for name, value in training.items()),
            f"decoding.beam={self.beam}",
        )


@dataclass(frozen=True, slots=True)
class Bout:
    """One comparison: a text, and what every rival gets."""

    text: Callable[[int], Text]
    """By its seed, where it is drawn."""
    budget: Budget

    def settings(self, rival: str) -> tuple[str, ...]:
        """What a recipe says of this rival."""
        return self.budget.settings(rival)


def bout(size: Size) -> Bout:
    """The comparison that several claims look at: whoever asks first lets it run."""
    if size == "quick":
        budget = Budget(updates=120, tokens=512, vocabulary=800, dropout=0.0, beam=1, validations=2)
        return Bout(lambda seed: demo_text(4_000, 200, seed), budget)
    budget = Budget(updates=1_000, tokens=2_048, vocabulary=4_000, dropout=0.2)
    return Bout(lambda _: multi30k(), budget)
