"""C22: the same word at two positions gets two representations.

h(word, i) ≠ h(word, j)   for positions i ≠ j          [NLU] (*the* at 2 and *the* at 7)
"""

from __future__ import annotations

import random

import torch
from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict, grade
from dragoman.lab.style import COLORS, GRAY, label_axes
from dragoman.lab.task import FIRST, copy_task
from dragoman.lab.training import build
from dragoman.model.transformer import Transformer
from dragoman.recipe import parts
from dragoman.shapes import Float, Int, Tensor

_LENGTH = 10
_EARLY, _LATE = 2, 7
_SYMBOLS = 40
_ROUNDING = 1e-9
"""In 64 bits, another order of summation changes the 16th digit, never the 10th."""
_MIN_DISTANCE = 1e-3
_SUMMARIES: dict[Verdict, str] = {
    "supported": (
        "With every kind of position, the same word at two positions of a sentence gets two "
        "representations; without positions, it gets one."
    ),
    "partly supported": (
        "Some kinds of position give the same word at two positions two representations, but not "
        "all."
    ),
    "not supported": (
        "It does not depend on positions whether the same word at two positions gets two "
        "representations."
    ),
}


class Positions(Experiment):
    """One word twice in a sentence, compared in every layer."""

    title = "One word, two positions, two representations"
    sources = (
        (
            "NLU",
            "Transformer, Position Encodings",
            "With position encodings, the word “the” at position 2 and the word “the” at position "
            "7 are slightly different.",
        ),
    )
    durations = (1, 28)
    claim = (
        "With positions, the same word at two positions of a sentence is represented by two "
        "slightly different vectors; without positions, by the same vector."
    )
    method = (
        f"Random sentences of {_LENGTH} words have the same word at positions {_EARLY} and "
        f"{_LATE}. An untrained encoder (post-norm, 64 bits) reads them. At its input and above "
        "each layer, the distance of the two states is measured, relative to their length. Two "
        f"distances are given for comparison: to the different word at position {_LATE + 1}, and "
        "between the same word at the same position of two sentences, which is the effect of "
        "context."
    )
    criterion = (
        "Supported if with every kind of position the states differ by more than "
        f"{_MIN_DISTANCE:.0e} above every layer, and without positions by less than "
        f"{_ROUNDING:.0e}; partly supported if some kinds of position separate the two, but not "
        "all."
    )
    is_seed_independent = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Encode each sentence, and compare its two positions."""
        count = 50 if size == "quick" else 2000
        sentences, others = _sentences(seed, count)
        positions, context, words = {}, {}, {}
        for kind in parts.names("model.position"):
            layers = _layer_outputs(seed, kind, torch.cat([sentences, others]))
            first, second = zip(*(states.chunk(2) for states in layers), strict=True)
            pairs = list(zip(first, second, strict=True))
            positions[kind] = [_distance(one[:, _EARLY], one[:, _LATE]) for one in first]
            context[kind] = [_distance(one[:, _EARLY], two[:, _EARLY]) for one, two in pairs]
            words[kind] = [_distance(one[:, _EARLY], one[:, _LATE + 1]) for one in first]
        return {"positions": positions, "context": context, "words": words}

    def judge(self, numbers: Numbers) -> Judgment:
        """Above every layer: separated by every kind of position, and not without."""
        positions = dict(numbers["positions"])
        without_positions = max(positions.pop("none"))
        above = {kind: min(values[1:]) for kind, values in positions.items()}
        separating = [kind for kind, least in above.items() if least > _MIN_DISTANCE]
        weakest = min(above, key=lambda kind: above[kind])
        at_input, *layers = positions["sinusoidal"]
        agreement = f"to {without_positions:.0e}" if without_positions else "bit for bit"
        explanation = (
            f"Without positions the two states are the same, {agreement}, above every layer. "
            f"With sinusoids they differ by {at_input:.0%} of their length at the input and "
            f"{layers[-1]:.0%} above the last layer, where two different words differ by "
            f"{numbers['words']['sinusoidal'][-1]:.0%}; the smallest difference is "
            f"{above[weakest]:.1%} ({weakest}). {len(separating)} of {len(above)} kinds of "
            "position separate them."
        )
        is_same_without = without_positions < _ROUNDING
        verdict = grade(
            is_supported=is_same_without and len(separating) == len(above),
            is_partly_supported=is_same_without and bool(separating),
        )
        return Judgment(verdict, _SUMMARIES[verdict], explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Distances by layer: of positions, and with sinusoids of words and contexts."""
        left, right = figure.subplots(1, 2, sharey=True)
        names = [name for name in numbers["positions"] if name != "none"]
        x = range(len(numbers["positions"]["none"]))
        for name, color in zip(names, COLORS, strict=False):
            left.plot(x, numbers["positions"][name], "o-", color=color, label=name)
        left.plot(x, numbers["positions"]["none"], "o-", color=GRAY, label="no position")
        label_axes(left, "The same word at two positions", y_label="distance / length of states")
        for key, color, label in (
            ("words", GRAY, "two words"),
            ("context", COLORS[1], "one word, two sentences"),
            ("positions", COLORS[names.index("sinusoidal")], "one word, two positions"),
        ):
            right.plot(x, numbers[key]["sinusoidal"], "o-", color=color, label=label)
        label_axes(right, "Sinusoidal: compared with words, contexts")
        for axes in (left, right):
            axes.set_xticks(list(x), ["input", *(f"layer {layer}" for layer in x[1:])])
            axes.set_ylim(bottom=-0.05)
            axes.legend(frameon=False, fontsize=8)


def _sentences(seed: int, count: int) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """Pairs of sentences that share one word; the first sentence contains it twice."""
    rng = random.Random(seed)  # noqa: S311  (for examples, not for secrets)
    sentences, others = [], []
    for _ in range(count):
        words = [FIRST + symbol for symbol in rng.sample(range(_SYMBOLS), 2 * _LENGTH)]
        one, two = words[:_LENGTH], words[_LENGTH:]
        one[_LATE] = two[_EARLY] = one[_EARLY]
        sentences.append(one)
        others.append(two)
    return torch.tensor(sentences), torch.tensor(others)


@torch.no_grad()
def _layer_outputs(seed: int, kind: str, words: Int[Tensor, "B T"]) -> list[Float[Tensor, "B T M"]]:
    """The states at the input of the encoder and above each of its layers."""
    task = copy_task(_SYMBOLS, _LENGTH, _LENGTH)
    model = build(task, seed, position=kind, norm="post", encoder_layers=3).double().eval()
    assert isinstance(model, Transformer)
    states: list[torch.Tensor] = []
    first = model.encoder.layers[0]
    first.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0]))
    for layer in model.encoder.layers:
        layer.register_forward_hook(lambda _, __, output: states.append(output))
    model.encode(words, torch.ones_like(words, dtype=torch.bool))
    return states


def _distance(one: Float[Tensor, "B M"], two: Float[Tensor, "B M"]) -> float:
    """The mean distance of two states, relative to their mean length."""
    length = (one.norm(dim=-1) + two.norm(dim=-1)).mean() / 2
    distance: float = ((one - two).norm(dim=-1).mean() / length).item()
    return distance
