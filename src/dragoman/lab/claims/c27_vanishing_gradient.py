"""C27: the gradients of recurrent networks vanish with distance; those of attention do not.

hₜ = tanh(W xₜ + U hₜ₋₁)   ⇒   ∂h_T/∂xₜ  contains  U  and tanh′  T − t times      [NLU] [CS224N]
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from statistics import mean

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GRAY, GREEN, ORANGE, VERMILION, label_axes, percent_axis
from dragoman.lab.task import Examples, ToyTask
from dragoman.lab.training import SMALL, TrainingSetup, accuracies, run_trial
from dragoman.lab.uncertainty import derive_seeds
from dragoman.model.embedding import Embedding
from dragoman.model.initialization import initialize
from dragoman.model.resolve import resolve_parts
from dragoman.model.transformer import Encoder
from dragoman.recipe.schema import ModelRecipe
from dragoman.shapes import Bool, Float, Int, Tensor
from dragoman.tokenizer.interface import PADDING

_CELLS: Mapping[str, type[nn.RNN | nn.GRU | nn.LSTM]] = {
    "tanh": nn.RNN,
    "gru": nn.GRU,
    "lstm": nn.LSTM,
}
_NETWORKS = (*_CELLS, "attention")
_LABELS = {
    "tanh": ("plain cell (tanh)", VERMILION, "o-"),
    "gru": ("GRU", ORANGE, "s--"),
    "lstm": ("LSTM", GREEN, "^-."),
    "attention": ("self-attention", BLUE, "D:"),
}
_WIDTH, _SYMBOLS = 32, 8
_LENGTH = 65
"""Words of the untrained networks: the distances are 0 to 64."""
_SENTENCES = 8
_VANISHED = 1e-3
"""A gradient has vanished if less than this share of that of the neighboring word is left."""
_KEPT = 0.1
_LEARNED, _NOT_LEARNED = 0.9, 0.5
_LEARNING_RATES = (2e-3, 1e-2)
"""Each network is judged at its best learning rate, at every distance."""


@dataclass(frozen=True)
class FirstSymbolTask(ToyTask):
    """Output the first symbol of the source at its end; nothing is expected before."""

    def examples(self, count: int, rng: random.Random, length: int | None = None) -> Examples:
        """Draw a batch; the END token of the source is the place of the answer."""
        drawn = super().examples(count, rng, length)
        truth = torch.full_like(drawn.source, PADDING)
        truth[:, -1] = drawn.source[:, 0]
        return drawn._replace(truth=truth)


class SequenceReader(nn.Module):
    """One recurrent layer, or one layer of self-attention, between embedding and output."""

    def __init__(self, name: str, vocabulary: int) -> None:
        super().__init__()
        settings = dict(SMALL) | {"width": _WIDTH, "encoder_layers": 1, "feed_forward_width": 64}
        resolved = resolve_parts(ModelRecipe.model_validate(settings | {"position": "sinusoidal"}))
        self.embedding = Embedding(vocabulary, _WIDTH, _WIDTH**0.5)
        cell = _CELLS.get(name)
        self.network = Encoder(resolved) if cell is None else cell(_WIDTH, _WIDTH, batch_first=True)
        self.output = nn.Linear(_WIDTH, vocabulary)

    def read(self, x: Float[Tensor, "B S M"]) -> Float[Tensor, "B S M"]:
        """The state at each position."""
        if isinstance(self.network, Encoder):
            is_real = torch.ones(x.shape[:2], dtype=torch.bool)
            states: Tensor = self.network(x, is_real).layer_outputs[-1]
        else:
            states = self.network(x)[0]
        return states

    def forward(
        self,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        target: Int[Tensor, "B S"],
    ) -> Float[Tensor, "B S V"]:
        """Score the symbols at each position; all sources of a batch have the same length."""
        logits: Tensor = self.output(self.read(self.embedding(source)))
        return logits


class VanishingGradient(Experiment):
    """The gradient of a word by its distance, and remembering a word by its distance."""

    title = "Gradients of recurrent networks vanish with distance"
    sources = (
        (
            "NLU",
            "RNN problem",
            "In recurrent networks, also in those with gates, gradients become vanishingly small.",
        ),
        (
            "CS224N",
            "Linear interaction distance",
            "Dependencies over long distances are hard to learn for a recurrent network, because "
            "of problems with the gradient.",
        ),
    )
    durations = (25, 330)
    claim = (
        "In a recurrent network, plain or with gates, the gradient of a word becomes vanishingly "
        "small as its distance grows, so dependencies over long distances are hard to learn. "
        "Self-attention does not have this problem."
    )
    method = (
        f"First, without training: a plain tanh cell, a GRU, an LSTM and a layer of self-attention "
        f"read {_LENGTH} random vectors, in 64 bits. A random gradient enters at the last output. "
        "Its norm at each input, by distance from the end, is divided by that at distance 1 "
        "(geometric mean over sentences). Second, the same networks learn to output the first of a "
        "number of random symbols after the last one, at two learning rates of which the better "
        "counts. All weights are initialized as in this project; the forget gate of the LSTM "
        "starts open (bias 1), as is usual. Measured again with five seeds after a first result "
        "with two; decision 12 says how it changed."
    )
    criterion = (
        f"Two facts. (1) At the greatest distance, the gradient of each recurrent network is below "
        f"{_VANISHED:g} of that at distance 1, and that of self-attention above {_KEPT:g}, for "
        "every seed. (2) At the greatest distance of the training, every recurrent network has "
        f"less than {_NOT_LEARNED:.0%} of new examples correct and self-attention more than "
        f"{_LEARNED:.0%}, although at the shortest all have more than {_LEARNED:.0%} (means over "
        "seeds). Supported if both are true; partly supported if one is, or if both are for the "
        "plain cell but not for its variants with gates."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Measure gradients, then train."""
        is_quick = size == "quick"
        gradients = {
            name: [_gradients(name, model_seed) for model_seed in derive_seeds(seed, 5)]
            for name in _NETWORKS
        }
        distances = [5, 40] if is_quick else [5, 10, 20, 40]
        steps = 200 if is_quick else 300
        rates = _LEARNING_RATES[1:] if is_quick else _LEARNING_RATES
        seeds = derive_seeds(seed, 1 if is_quick else 5)
        trials = {
            name: [
                [_trials(name, distance, steps, rate, seeds) for rate in rates]
                for distance in distances
            ]
            for name in _NETWORKS
        }
        return {
            "gradients": gradients,
            "distances": distances,
            "steps": steps,
            "rates": list(rates),
            "trials": trials,
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """Check both facts for each network."""
        remaining = {name: [row[-1] for row in numbers["gradients"][name]] for name in _NETWORKS}
        shares = {name: _shares(numbers, name) for name in _NETWORKS}
        vanishes = {name: max(remaining[name]) < _VANISHED for name in _CELLS}
        forgets = {
            name: shares[name][0] > _LEARNED and shares[name][-1] < _NOT_LEARNED for name in _CELLS
        }
        is_kept = min(remaining["attention"]) > _KEPT
        is_learned = min(shares["attention"][0], shares["attention"][-1]) > _LEARNED
        facts = (all(vanishes.values()) and is_kept, all(forgets.values()) and is_learned)
        is_true_of_plain = vanishes["tanh"] and is_kept and forgets["tanh"] and is_learned
        verdict = grade(is_supported=all(facts), is_partly_supported=any(facts) or is_true_of_plain)
        distances = numbers["distances"]
        explanation = (
            f"Before training, at distance {len(numbers['gradients']['tanh'][0]) - 1}, the share "
            "of the gradient that is left is "
            + ", ".join(
                f"{exp(mean(map(log, remaining[name]))):.1g} ({_LABELS[name][0]})"
                for name in _NETWORKS
            )
            + f". After {numbers['steps']} steps of training, the first of "
            f"{', '.join(map(str, distances))} symbols is remembered in "
            + "; ".join(
                f"{', '.join(f'{share:.0%}' for share in shares[name])} ({_LABELS[name][0]})"
                for name in _NETWORKS
            )
            + f" of new examples (guessing: {1 / _SYMBOLS:.0%}; means over "
            f"{len(numbers['trials']['tanh'][0][0])} seeds). The gradient before training does not "
            "say which recurrent network learns better. C3 measures another network with other "
            "input, so its numbers differ."
        )
        return Judgment(verdict, _summarize(vanishes, shares, is_kept), explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The gradient by distance, and the accuracy by distance."""
        left, right = figure.subplots(1, 2)
        left.axhspan(1e-30, _VANISHED, color="black", alpha=0.07, linewidth=0)
        for index, name in enumerate(_NETWORKS):
            label, color, style = _LABELS[name]
            rows = numbers["gradients"][name]
            columns = list(zip(*rows, strict=True))
            means = [exp(mean(map(log, column))) for column in columns]
            distances = range(1, len(means))
            left.plot(
                distances, means[1:], style, color=color, label=label, markevery=8, markersize=4
            )
            lows, highs = [min(column) for column in columns], [max(column) for column in columns]
            left.fill_between(distances, lows[1:], highs[1:], color=color, alpha=0.15, linewidth=0)
            # To the left or right by a little, a factor on the log scale.
            places = [distance * 1.04 ** (index - 1.5) for distance in numbers["distances"]]
            by_distance = [_better_rate(by_rate) for by_rate in numbers["trials"][name]]
            right.plot(places, list(map(mean, by_distance)), style, color=color, markersize=5)
            for place, values in zip(places, by_distance, strict=True):
                right.plot([place] * len(values), values, ".", color=color, alpha=0.5)
        left.set_yscale("log")
        bottom = min(min(row) for name in _NETWORKS for row in numbers["gradients"][name]) / 9
        left.set_ylim(bottom=bottom)
        left.text(2, 4 * bottom, "vanished", color="black", alpha=0.6)
        right.set_xscale("log", base=2)
        right.set_xticks(numbers["distances"], [str(one) for one in numbers["distances"]])
        right.axhline(1 / _SYMBOLS, color="black", linewidth=0.8, linestyle=":")
        right.text(numbers["distances"][0], 1 / _SYMBOLS - 0.06, "guessing")
        for limit in (_NOT_LEARNED, _LEARNED):
            right.axhline(limit, color=GRAY, linewidth=0.9, linestyle="--")
        right.set_ylim(0, 1.05)
        percent_axis(right)
        figure.legend(
            *left.get_legend_handles_labels(),
            loc="outside lower center",
            ncols=4,
            frameon=False,
            title="Right: mean and each seed; dashed: the limits of the criterion",
        )
        label_axes(left, "Gradient before training", "distance in words", "share of distance 1")
        label_axes(
            right, "Remembering the first symbol", "symbols to the answer", "correct examples"
        )


def _summarize(
    vanishes: Mapping[str, bool], shares: Mapping[str, list[float]], is_kept: bool
) -> str:
    """What was found, for a student."""

    def which(chosen: list[str]) -> str:
        if len(chosen) == len(_CELLS):
            return "every recurrent network"
        return f"the {' and the '.join(_LABELS[name][0] for name in chosen)}"

    signal = which([name for name in _CELLS if vanishes[name]]) if any(vanishes.values()) else ""
    at_the_end = {name: shares[name][-1] for name in _CELLS}
    failing = [name for name, share in at_the_end.items() if share < _NOT_LEARNED]
    partial = [name for name, share in at_the_end.items() if _NOT_LEARNED <= share <= _LEARNED]
    learning = [f"fails in {which(failing)}"] if failing else []
    learning += [f"succeeds only in part in {which(partial)}"] if partial else []
    is_learned = min(shares["attention"][0], shares["attention"][-1]) > _LEARNED

    attention = {
        (True, True): "self-attention has neither problem",
        (True, False): "it does not vanish in self-attention, which does not learn either",
        (False, True): "it vanishes in self-attention too, which learns nevertheless",
        (False, False): "self-attention has both problems",
    }[is_kept, is_learned]
    return (
        f"The gradient of distant words vanishes in {signal or 'no recurrent network'}; "
        "learning to remember a distant word "
        f"{' and '.join(learning) or 'succeeds in every recurrent network'}; {attention}."
    )


def _shares(numbers: Numbers, name: str) -> list[float]:
    """The mean accuracy by distance, each at the better learning rate."""
    return [mean(_better_rate(by_rate)) for by_rate in numbers["trials"][name]]


def _better_rate(by_rate: list[list[dict[str, float]]]) -> list[float]:
    """The accuracy of each seed, at the learning rate with the better mean."""
    return max(map(accuracies, by_rate), key=mean)


def _task(distance: int) -> FirstSymbolTask:
    def draw(rng: random.Random, length: int) -> tuple[list[int], list[int]]:
        source = [rng.randrange(_SYMBOLS) for _ in range(length)]
        return source, source

    return FirstSymbolTask(draw, _SYMBOLS, distance, distance)


def _build(name: str, vocabulary: int, seed: int) -> SequenceReader:
    model = SequenceReader(name, vocabulary)
    initialize(model, seed)
    return model


def _gradients(name: str, seed: int) -> list[float]:
    """The norm of the gradient at each distance from the end, divided by that at distance 1."""
    model = _build(name, _task(1).vocabulary, seed).double()
    generator = torch.Generator().manual_seed(seed)
    shape = (_SENTENCES, _LENGTH, _WIDTH)
    x = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    top = torch.randn(_SENTENCES, _WIDTH, generator=generator, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(model.read(x)[:, -1], x, top)
    norms = gradient.norm(dim=-1).log().mean(dim=0).exp().flip(0)
    ratios: list[float] = (norms / norms[1]).tolist()
    return ratios


def _trials(
    name: str, distance: int, steps: int, rate: float, seeds: list[int]
) -> list[dict[str, float]]:
    """Train with each seed; keep the accuracy and the step at which the task was learned."""
    task = _task(distance)
    setup = TrainingSetup(steps, batch_size=32, learning_rate=rate)
    kept = ("accuracy", "reached")
    trials = [run_trial(_build(name, task.vocabulary, seed), task, setup, seed) for seed in seeds]
    return [{key: trial[key] for key in kept} for trial in trials]
