"""C8: does the causal mask hide the future at every layer, and let all places train at once?

weight(t, s) = 0  for s > t   ⇒   one pass over y₁ … y_T = T passes over prefixes
                                                              (seeds 001, 003, 004)
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from statistics import median

import torch
from matplotlib.figure import Figure
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, ORANGE, tidy
from dragoman.lab.task import FIRST, Examples, copying
from dragoman.lab.teaching import build
from dragoman.model.transformer import Transformer
from dragoman.shapes import Float, Tensor

_ROUNDING = 1e-9
"""In 64 bits, sums in another order differ in the last of sixteen digits, never in the tenth."""
_SYMBOLS = 20


class CausalMask(Experiment):
    """Change a word, and look at what stands before it."""

    title = "The causal mask: no future, and all places at once"
    claim = (
        "Hiding later words before the softmax keeps the decoder from peeking at the future, in "
        "every layer, and lets it learn from all places of a sentence in one parallel pass."
    )
    lectures = ("001", "003", "004")
    method = (
        "Each word of a target is changed in turn. What changes, in any bit, of the states above "
        "each decoder layer, at which places? The encoder, which has no such mask, is treated in "
        "the same way. Then the losses of all places and the gradient of every weight are "
        "computed in one pass, and place by place, each from the words before it; and the "
        "processor's time of both is taken (forward and backward, the median of several)."
    )
    criterion = (
        "Holds if no state before a changed word changes by a single bit, in any layer, though "
        "in the encoder they do, and if losses and gradients of one pass are those of the many to "
        f"{_ROUNDING:.0e} in 64 bits. In part if only one of the two is so."
    )
    is_certain = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Change, compare, and time."""
        length, lengths = (10, (4, 8, 16)) if size == "quick" else (24, (4, 8, 16, 32, 64, 128))
        model = build(copying(_SYMBOLS, 1, 1), seed, norm="post", decoder_layers=3)
        assert isinstance(model, Transformer)
        model.eval()
        seconds = [_seconds(model, each, seed) for each in lengths]
        decoder, encoder = _changed(model, length, seed)
        loss_error, gradient_error = _differences(model.double(), length, seed)
        return {
            "decoder": decoder.tolist(),
            "encoder": encoder.tolist(),
            "loss_error": loss_error,
            "gradient_error": gradient_error,
            "lengths": list(lengths),
            "at_once": [once for once, _ in seconds],
            "one_by_one": [apart for _, apart in seconds],
        }

    def judge(self, numbers: Numbers) -> Judgement:
        """Nothing below the diagonal, and the same numbers."""
        decoder, encoder = torch.tensor(numbers["decoder"]), torch.tensor(numbers["encoder"])
        leaks = int(_before(decoder).sum())
        is_hidden = leaks == 0 and bool(_before(encoder).any())
        error = max(numbers["loss_error"], numbers["gradient_error"])
        gain = numbers["one_by_one"][-1] / numbers["at_once"][-1]
        because = (
            f"Of {_pairs(decoder)} states before a changed word, in {len(decoder)} layers, {leaks} "
            f"changed (of {_pairs(encoder)} in the encoder, {int(_before(encoder).sum())}). For "
            f"{decoder.shape[1] - 1} words, one pass gives the losses and gradients of a pass for "
            f"each place to {error:.0e}; for {numbers['lengths'][-1]} words it is {gain:.0f} times "
            "as fast as all of these."
        )
        if is_hidden and error < _ROUNDING:
            return Judgement("holds", because)
        is_part = is_hidden or error < _ROUNDING
        return Judgement("holds in part" if is_part else "does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Which states feel which word, and the time of both ways."""
        left, middle, right = figure.subplots(1, 3)
        for axes, key, title in (
            (left, "decoder", "Decoder: only what\nfollows feels a word"),
            (middle, "encoder", "Encoder, without mask:\neverything does"),
        ):
            felt = torch.tensor(numbers[key]).float().mean(dim=0)
            axes.imshow(felt.T.numpy(), cmap="Blues", vmin=0, vmax=1.3)
            tidy(axes, title, "changed word", "place that changes")
            axes.grid(visible=False)
        for key, colour, label, at, offset, side in (
            ("one_by_one", ORANGE, "place by place", -1, 8, "right"),
            ("at_once", BLUE, "all at once", 0, -16, "left"),
        ):
            milliseconds = [1000 * each for each in numbers[key]]
            right.loglog(numbers["lengths"], milliseconds, "o-", color=colour)
            right.annotate(
                label,
                (numbers["lengths"][at], milliseconds[at]),
                xytext=(0, offset),
                textcoords="offset points",
                ha=side,
                color=colour,
            )
        tidy(right, "The same losses\nand gradients, sooner", "words in the target", "milliseconds")
        right.set_xticks(numbers["lengths"], [str(each) for each in numbers["lengths"]])
        right.minorticks_off()
        right.margins(y=0.2)


def _before(changed: Tensor) -> Tensor:
    """Of layer, changed word and place: the states that stand before the changed word."""
    return changed.tril(diagonal=-1)


def _pairs(changed: Tensor) -> int:
    return int(_before(torch.ones_like(changed)).sum())


def _example(length: int, seed: int) -> Examples:
    chance = random.Random(seed)  # noqa: S311  (for examples, not for secrets)
    return copying(_SYMBOLS, length, length).examples(1, chance)


@torch.no_grad()
def _changed(model: Transformer, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """For each layer and changed word, the places whose states changed, in any bit."""
    source, is_real, target, _ = _example(length, seed)
    memory = model.encode(source, is_real)

    def decoder(words: Tensor) -> list[Tensor]:
        return _above(model.decoder.layers, lambda: model.decode(words, memory))

    def encoder(words: Tensor) -> list[Tensor]:
        return _above(model.encoder.layers, lambda: model.encode(words, torch.ones_like(words) > 0))

    return _felt(decoder, target), _felt(encoder, target)


def _felt(states_of: Callable[[Tensor], list[Tensor]], words: Tensor) -> Tensor:
    old = torch.stack(states_of(words))  # layer, place, feature
    rows = []
    for place in range(words.shape[1]):
        other = words.clone()
        other[0, place] = FIRST + (other[0, place] - FIRST + 1) % _SYMBOLS
        rows.append((torch.stack(states_of(other)) != old).any(dim=-1))
    return torch.stack(rows, dim=1)


def _above(layers: torch.nn.ModuleList, run: Callable[[], object]) -> list[Float[Tensor, "T M"]]:
    """The states above each layer of a sentence, while something runs."""
    states: list[Tensor] = []

    def hear(_: torch.nn.Module, __: object, out: Tensor | tuple[Tensor, object]) -> None:
        states.append((out if isinstance(out, Tensor) else out[0])[0])

    hooks = [layer.register_forward_hook(hear) for layer in layers]
    run()
    for hook in hooks:
        hook.remove()
    return states


def _at_once(model: Transformer, examples: Examples) -> Float[Tensor, " T"]:
    """The losses of all places, in one pass."""
    logits = model(examples.source, examples.is_real, examples.target)
    return F.cross_entropy(logits[0], examples.truth[0], reduction="none")


def _one_by_one(model: Transformer, examples: Examples) -> Float[Tensor, " T"]:
    """The loss of each place, from a pass over the words before it alone."""
    losses = []
    memory = model.encode(examples.source, examples.is_real)  # Once: the source is all known.
    for place in range(examples.target.shape[1]):
        prefix = examples.target[:, : place + 1]
        logits, _ = model.decode(prefix, memory)
        losses.append(F.cross_entropy(logits[0, -1], examples.truth[0, place]))
    return torch.stack(losses)


def _differences(model: Transformer, length: int, seed: int) -> tuple[float, float]:
    """How far losses and gradients of both ways are apart, relative to the largest."""
    examples = _example(length, seed)
    losses, gradients = [], []
    for way in (_at_once, _one_by_one):
        model.zero_grad()
        losses.append(way(model, examples))
        losses[-1].sum().backward()  # type: ignore[no-untyped-call]
        found = [each.grad.flatten() for each in model.parameters() if each.grad is not None]
        gradients.append(torch.cat(found))
    return _difference(*losses), _difference(*gradients)


def _difference(one: Tensor, two: Tensor) -> float:
    return ((one - two).abs().max() / one.abs().max()).item()


def _seconds(model: Transformer, length: int, seed: int) -> tuple[float, float]:
    """The time of both ways, forward and backward."""
    examples = _example(length, seed)

    def once(way: Callable[[Transformer, Examples], Tensor]) -> float:
        start = time.process_time()
        way(model, examples).sum().backward()  # type: ignore[no-untyped-call]
        return time.process_time() - start

    return (
        median(once(_at_once) for _ in range(7)),
        median(once(_one_by_one) for _ in range(3)),
    )
