"""C5: self-attention without positions ignores word order.

f(P x) = P f(x)   for every permutation P          [NLU] [CS224N] [CS182]
"""

from __future__ import annotations

import random
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size
from dragoman.lab.style import BLUE, ORANGE, label_axes
from dragoman.lab.task import copy_task
from dragoman.lab.training import build
from dragoman.model.transformer import Transformer, TransformerMemory
from dragoman.recipe import parts
from dragoman.shapes import Float, Int, Tensor
from dragoman.tokenizer.interface import BEGIN

_LENGTH = 12
_TASK = copy_task(40, _LENGTH, _LENGTH)
_ROUNDING = 1e-9
"""In 64 bits, another order of summation changes the 16th digit, never the 10th."""
_MIN_CHANGE = 1e-3
"""The smallest relative change of the states that counts as a change."""


class WordOrder(Experiment):
    """The same words in another order, for every kind of position."""

    title = "Attention alone does not see word order"
    sources = (
        (
            "NLU",
            "self-attention",
            "Its weakness is that it does not depend on positions: unlike a recurrent network, it "
            "cannot represent word order.",
        ),
        (
            "CS224N",
            "Fixing the first self-attention problem: sequence order",
            "Self-attention has no information about order, so the order of the sentence must be "
            "encoded in queries, keys and values.",
        ),
        (
            "CS182",
            "Positional encoding",
            "Without it there is no sequence information: if the order is changed, a Transformer "
            "gives the same answer.",
        ),
    )
    durations = (1, 11)
    claim = (
        "Self-attention has no notion of order: if the words of the input are shuffled, every word "
        "gets the same output as before, at its new position. Positions must be added."
    )
    method = (
        "An untrained Transformer (post-norm, as in the lectures; 64 bits) reads a sentence and "
        "the same sentence shuffled. The shuffle is undone in the encoder's states, and their "
        "difference from the original states is measured, relative to the size of the states: the "
        "largest difference over all sentences without positions, the smallest for each kind of "
        "position. The decoder is measured too. Its causal mask lets each position see only "
        "earlier ones; the change of its last state is measured when the earlier words are "
        "shuffled and no positions are used."
    )
    criterion = (
        f"Supported if without positions the states differ by less than {_ROUNDING:.0e}, and with "
        f"every kind of position by more than {_MIN_CHANGE:.0e}; partly supported if they do not "
        "differ without positions, but some kind of position does not help either."
    )
    is_seed_independent = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Shuffle, encode, undo the shuffle, compare."""
        count = 20 if size == "quick" else 500
        kinds = ["none", *(name for name in parts.names("model.position") if name != "none")]
        encoder = {}
        for kind in kinds:
            changes = _encoder_changes(_build(seed, position=kind), seed, count)
            encoder[kind] = (changes.max() if kind == "none" else changes.min()).item()
        model = _build(seed, position="none", encoder_layers=1, decoder_layers=3)
        return {
            "encoder": encoder,
            "words": _score_changes(_build(seed, position="none"), seed, count).max().item(),
            "decoder": _decoder_changes(model, seed, count),
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """No change without positions, a change with each kind."""
        encoder = dict(numbers["encoder"])
        without_positions = encoder.pop("none")
        weakest = min(encoder, key=lambda kind: encoder[kind])
        first_layer, *later_layers = numbers["decoder"]
        explanation = (
            "Without positions the states of a shuffled sentence are the original states, "
            f"shuffled, to {without_positions:.0e} of their size, and the decoder's scores for the "
            f"next word agree to {numbers['words']:.0e}: the encoder sees a bag of words. With "
            f"positions the smallest change is {encoder[weakest]:.0%} ({weakest}). The decoder is "
            "not a bag of words: its causal mask carries order without positions, not in layer 1 "
            f"({first_layer:.0e}) but from layer 2 on ({later_layers[0]:.1%})."
        )
        if without_positions >= _ROUNDING:
            summary = "Even without position information, the encoder notices the order of words."
            return Judgment("not supported", summary, explanation)
        if encoder[weakest] > _MIN_CHANGE:
            summary = (
                "Without position information the encoder cannot tell a sentence from the same "
                "words in another order, and with position information it can."
            )
            return Judgment("supported", summary, explanation)
        summary = (
            "Without position information the encoder cannot tell a sentence from the same words "
            "in another order, but one kind of position information does not help."
        )
        return Judgment("partly supported", summary, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Relative changes on a logarithmic scale."""
        left, right = figure.subplots(1, 2, width_ratios=(4, 3))
        encoder = numbers["encoder"]
        _bars(left, [kind if kind != "none" else "no position" for kind in encoder], encoder)
        label_axes(left, "Encoder: effect of shuffling", "relative change of the states")
        layers = [f"layer {1 + index}" for index in range(len(numbers["decoder"]))]
        _bars(right, layers, dict(zip(layers, numbers["decoder"], strict=True)))
        label_axes(right, "Decoder without positions", "relative change of the last state")
        for axes in (left, right):
            axes.axvline(_ROUNDING, color="black", linewidth=0.8, linestyle=":")
            axes.grid(axis="y", visible=False)
        left.text(_ROUNDING / 2, 0, "rounding", ha="right", va="center")


def _bars(axes: Axes, labels: list[str], values: dict[str, float]) -> None:
    smallest = 1e-17
    # A logarithmic scale cannot show an exact zero: it is drawn at the left end.
    lengths = [max(value, smallest) for value in values.values()]
    colors = [BLUE if value < _ROUNDING else ORANGE for value in values.values()]
    axes.barh(labels, lengths, color=colors)
    axes.set_xscale("log")
    axes.set_xlim(smallest, 30)
    axes.set_xticks([1e-15, 1e-10, 1e-5, 1])
    axes.invert_yaxis()


def _build(seed: int, **settings: Any) -> Transformer:
    model = build(_TASK, seed, norm="post", **settings).double().eval()
    assert isinstance(model, Transformer)
    return model


def _sentences(seed: int, count: int) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """Sentences, and a permutation of positions for each."""
    rng = random.Random(seed)  # noqa: S311  (for examples, not for secrets)
    words = _TASK.examples(count, rng).source[:, :_LENGTH]
    permutations = [rng.sample(range(_LENGTH), _LENGTH) for _ in range(count)]
    return words, torch.tensor(permutations)


@torch.no_grad()
def _encoder_changes(model: Transformer, seed: int, count: int) -> torch.Tensor:
    """For each sentence, the largest relative change of a state."""
    words, permutation = _sentences(seed, count)
    rows = torch.arange(count).unsqueeze(1)
    is_real = torch.ones_like(words, dtype=torch.bool)
    before = model.encode(words, is_real)
    after = model.encode(words[rows, permutation], is_real)
    assert isinstance(before, TransformerMemory)
    assert isinstance(after, TransformerMemory)
    return _relative_change(before.for_layer(0)[rows, permutation], after.for_layer(0))


@torch.no_grad()
def _score_changes(model: Transformer, seed: int, count: int) -> torch.Tensor:
    """For each sentence, the relative change of the scores of the first target word."""
    words, permutation = _sentences(seed, count)
    is_real = torch.ones_like(words, dtype=torch.bool)
    begin = torch.full((count, 1), BEGIN)
    shuffled = words[torch.arange(count).unsqueeze(1), permutation]
    before = model(words, is_real, begin)
    return _relative_change(before, model(shuffled, is_real, begin))


def _relative_change(
    before: Float[Tensor, "B T M"], after: Float[Tensor, "B T M"]
) -> Float[Tensor, " B"]:
    """For each sentence, the largest change divided by the largest value of the batch."""
    return (after - before).abs().amax(dim=(1, 2)) / before.abs().amax()


@torch.no_grad()
def _decoder_changes(model: Transformer, seed: int, count: int) -> list[float]:
    """By layer, the largest relative change of the last state when earlier words are shuffled."""
    words, permutation = _sentences(seed, count)
    source = words[:, :1]
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    last = torch.full((count, 1), BEGIN)
    states: list[torch.Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _, __, out: states.append(out[0][:, -1]))
        for layer in model.decoder.layers
    ]
    for prefix in (words, words[torch.arange(count).unsqueeze(1), permutation]):
        model.decode(torch.cat([prefix, last], dim=1), memory)
    for hook in hooks:
        hook.remove()
    depth = len(hooks)
    return [
        ((states[depth + layer] - states[layer]).abs().amax() / states[layer].abs().amax()).item()
        for layer in range(depth)
    ]
