"""C5: does self-attention without positions ignore the order of words?

f(P x) = P f(x)   for every permutation P          (seeds 000, 001, 004)
"""

from __future__ import annotations

import random
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dragoman import part
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, ORANGE, tidy
from dragoman.lab.task import copying
from dragoman.lab.teaching import build
from dragoman.model.transformer import Transformer
from dragoman.shapes import Float, Int, Tensor
from dragoman.tokenizer.interface import BEGIN

_LENGTH = 12
_ROUNDING = 1e-9
"""In 64 bits, sums in another order differ in the last of sixteen digits, never in the tenth."""
_SEEN = 1e-3
"""The least change, of the size of the states, that counts as seen."""


class Order(Experiment):
    """The same words in another order, for every kind of position."""

    title = "Attention alone does not see order"
    claim = (
        "Self-attention has no notion of order: shuffle the words of the input and every word gets "
        "the output that it had before, at its new place. Positions must be told."
    )
    lectures = ("000", "001", "004")
    method = (
        "A Transformer with first weights (post-norm, as in the lectures; 64 bits) reads a "
        "sentence and the same sentence shuffled. Shuffled back, how far are the encoder's states "
        "from the old ones, relative to their size? The largest difference over all sentences "
        "counts for no positions, the smallest for the others. Beside it: the decoder, whose "
        "causal mask lets each place see only what came before. What does its last place notice "
        "when the words before are shuffled and no position is told?"
    )
    criterion = (
        f"Holds if without positions the states differ by less than {_ROUNDING:.0e}, and with each "
        f"kind of position by more than {_SEEN:.0e}. In part if no difference is seen without "
        "positions, but some kind of position does not help."
    )
    is_certain = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Shuffle, read, shuffle back, compare."""
        count = 20 if size == "quick" else 500
        kinds = ["none", *(name for name in part.names("model.position") if name != "none")]
        encoder = {}
        for kind in kinds:
            changes = _encoder_changes(_model(seed, position=kind), seed, count)
            encoder[kind] = (changes.max() if kind == "none" else changes.min()).item()
        model = _model(seed, position="none", encoder_layers=1, decoder_layers=3)
        return {
            "encoder": encoder,
            "words": _word_changes(_model(seed, position="none"), seed, count).max().item(),
            "decoder": _decoder_changes(model, seed, count),
        }

    def judge(self, numbers: Numbers) -> Judgement:
        """Nothing without positions, something with each of them."""
        encoder = dict(numbers["encoder"])
        blind = encoder.pop("none")
        weakest = min(encoder, key=lambda kind: encoder[kind])
        bottom, *above = numbers["decoder"]
        because = (
            f"Without positions the states of a shuffled sentence are the old ones, shuffled, to "
            f"{blind:.0e} of their size, and the decoder's scores for the next word the same to "
            f"{numbers['words']:.0e}: a bag of words. With positions they differ by {weakest} "
            f"least, by {encoder[weakest]:.0%}. The decoder is no bag: its causal mask tells "
            f"order even without positions, not in layer 1 ({bottom:.0e}) but from layer 2 on "
            f"({above[0]:.1%})."
        )
        if blind >= _ROUNDING:
            return Judgement("does not hold here", because)
        is_told = encoder[weakest] > _SEEN
        return Judgement("holds" if is_told else "holds in part", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """How much the output notices, on a logarithmic scale."""
        left, right = figure.subplots(1, 2, width_ratios=(4, 3))
        encoder = numbers["encoder"]
        _bars(left, [kind if kind != "none" else "no position" for kind in encoder], encoder)
        tidy(left, "Encoder: what shuffled words change", "change of the states")
        layers = [f"layer {1 + index}" for index in range(len(numbers["decoder"]))]
        _bars(right, layers, dict(zip(layers, numbers["decoder"], strict=True)))
        tidy(right, "Decoder: its mask tells order", "change of the last state")
        for axes in (left, right):
            axes.axvline(_ROUNDING, color="black", linewidth=0.8, linestyle=":")
            axes.grid(axis="y", visible=False)
        left.text(_ROUNDING / 2, 0, "rounding", ha="right", va="center")


def _bars(axes: Axes, labels: list[str], values: dict[str, float]) -> None:
    floor = 1e-17
    # An exact zero has no place on the scale: it stands at its left end.
    lengths = [max(value, floor) for value in values.values()]
    colours = [BLUE if value < _ROUNDING else ORANGE for value in values.values()]
    axes.barh(labels, lengths, color=colours)
    axes.set_xscale("log")
    axes.set_xlim(floor, 30)
    axes.set_xticks([1e-15, 1e-10, 1e-5, 1])
    axes.invert_yaxis()


def _model(seed: int, **settings: Any) -> Transformer:
    model = build(_TASK, seed, norm="post", **settings).double().eval()
    assert isinstance(model, Transformer)
    return model


_TASK = copying(40, _LENGTH, _LENGTH)


def _sentences(seed: int, count: int) -> tuple[Int[Tensor, "B T"], list[list[int]]]:
    """Sentences, and a new order of places for each."""
    chance = random.Random(seed)  # noqa: S311  (for examples, not for secrets)
    words = _TASK.examples(count, chance).source[:, :_LENGTH]
    return words, [chance.sample(range(_LENGTH), _LENGTH) for _ in range(count)]


@torch.no_grad()
def _encoder_changes(model: Transformer, seed: int, count: int) -> torch.Tensor:
    """For each sentence, the largest change of a state beside the largest state."""
    words, orders = _sentences(seed, count)
    rows = torch.arange(count).unsqueeze(1)
    order = torch.tensor(orders)
    is_real = torch.ones_like(words, dtype=torch.bool)
    before = model.encode(words, is_real).at(0)
    after = model.encode(words[rows, order], is_real).at(0)
    return _change(before[rows, order], after)


@torch.no_grad()
def _word_changes(model: Transformer, seed: int, count: int) -> torch.Tensor:
    """For each sentence, how the scores of the first target word change with the order."""
    words, orders = _sentences(seed, count)
    is_real = torch.ones_like(words, dtype=torch.bool)
    begin = torch.full((count, 1), BEGIN)
    shuffled = words[torch.arange(count).unsqueeze(1), torch.tensor(orders)]
    before = model(words, is_real, begin)
    return _change(before, model(shuffled, is_real, begin))


def _change(before: Float[Tensor, "B T M"], after: Float[Tensor, "B T M"]) -> Float[Tensor, " B"]:
    """For each sentence, the largest change beside the largest value of all."""
    return (after - before).abs().amax(dim=(1, 2)) / before.abs().amax()


@torch.no_grad()
def _decoder_changes(model: Transformer, seed: int, count: int) -> list[float]:
    """By layer, what the last place notices at most of the order of the places before it."""
    words, orders = _sentences(seed, count)
    source = words[:, :1]
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    last = torch.full((count, 1), BEGIN)
    states: list[torch.Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _, __, out: states.append(out[0][:, -1]))
        for layer in model.decoder.layers
    ]
    for read in (words, words[torch.arange(count).unsqueeze(1), torch.tensor(orders)]):
        model.decode(torch.cat([read, last], dim=1), memory)
    for hook in hooks:
        hook.remove()
    height = len(hooks)
    return [
        ((states[height + layer] - states[layer]).abs().amax() / states[layer].abs().amax()).item()
        for layer in range(height)
    ]
