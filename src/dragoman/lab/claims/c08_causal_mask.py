"""C8: the causal mask hides the future in every layer and lets all positions train at once.

weight(t, s) = 0  for s > t   ⇒   one pass over y₁ … y_T = T passes over prefixes
                                                     [CS224N] [APPLY-DL] [CS182]
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from statistics import median

import torch
from matplotlib.figure import Figure
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, ORANGE, label_axes
from dragoman.lab.task import FIRST, Examples, copy_task
from dragoman.lab.training import build
from dragoman.model.transformer import Transformer
from dragoman.shapes import Float, Tensor

_ROUNDING = 1e-9
"""In 64 bits, another order of summation changes the 16th digit, never the 10th."""
_SYMBOLS = 20


class CausalMask(Experiment):
    """Change one word, and compare the states before it."""

    title = "The causal mask: no future, and all positions at once"
    sources = (
        (
            "CS224N",
            "Fixing the third self-attention problem: Mask",
            "A decoder must not look at the future; to keep the computation parallel, the scores "
            "of future words are set to minus infinity.",
        ),
        (
            "APPLY-DL",
            "decoder, and questions",
            "While the target is processed, no attention in any layer may use words after the "
            "current one, so their weights are multiplied by zero.",
        ),
        (
            "CS182",
            "Masked decoding",
            "Scores of later positions are set to minus infinity, so that attention cannot look up "
            "the future.",
        ),
    )
    durations = (4, 20)
    claim = (
        "Masking later words before the softmax keeps the decoder from using the future, in every "
        "layer, and lets it learn from all positions of a sentence in one parallel pass."
    )
    method = (
        "Each word of a target is changed in turn. The experiment records which states above each "
        "decoder layer change in any bit. The encoder, which has no causal mask, is measured in "
        "the same way. Then the losses of all positions and the gradient of every weight are "
        "computed in one pass, and position by position, each from the words before it. The "
        "processor time of both is measured (forward and backward, the median of several)."
    )
    criterion = (
        "Two facts: (1) no state before a changed word changes by a single bit, in any layer, "
        "although in the encoder such states do; (2) losses and gradients of one pass agree with "
        f"those of many passes to {_ROUNDING:.0e} in 64 bits. Supported if both are true; partly "
        "supported if only one is."
    )
    is_seed_independent = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Change words, compare passes, measure time."""
        length, lengths = (10, (4, 8, 16)) if size == "quick" else (24, (4, 8, 16, 32, 64, 128))
        model = build(copy_task(_SYMBOLS, 1, 1), seed, norm="post", decoder_layers=3)
        assert isinstance(model, Transformer)
        model.eval()
        seconds = [_seconds(model, timed_length, seed) for timed_length in lengths]
        decoder, encoder = _changed_states(model, length, seed)
        loss_error, gradient_error = _errors(model.double(), length, seed)
        return {
            "decoder": decoder.tolist(),
            "encoder": encoder.tolist(),
            "loss_error": loss_error,
            "gradient_error": gradient_error,
            "lengths": list(lengths),
            "at_once": [at_once for at_once, _ in seconds],
            "one_by_one": [one_by_one for _, one_by_one in seconds],
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """Nothing below the diagonal, and equal losses and gradients."""
        decoder, encoder = torch.tensor(numbers["decoder"]), torch.tensor(numbers["encoder"])
        leaks = int(_earlier(decoder).sum())
        is_hidden = leaks == 0 and bool(_earlier(encoder).any())
        error = max(numbers["loss_error"], numbers["gradient_error"])
        is_equal = error < _ROUNDING
        speedup = numbers["one_by_one"][-1] / numbers["at_once"][-1]
        explanation = (
            f"Of {_count_earlier(decoder)} states before a changed word, in {len(decoder)} layers, "
            f"{leaks} changed (in the encoder {int(_earlier(encoder).sum())} of "
            f"{_count_earlier(encoder)}). For {decoder.shape[1] - 1} words, one pass gives the "
            f"losses and gradients of one pass per position to {error:.0e}; for "
            f"{numbers['lengths'][-1]} words it is {speedup:.0f} times as fast."
        )
        verdict = grade(
            is_supported=is_hidden and is_equal, is_partly_supported=is_hidden or is_equal
        )
        summary = (
            f"With the mask, a word {'never changes' if leaks == 0 else 'can change'} what the "
            "decoder computes for earlier words, and computing all words at once gives "
            f"{'the same' if is_equal else 'another'} result as one word after the other."
        )
        return Judgment(verdict, summary, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Which states depend on which word, and the time of both computations."""
        left, middle, right = figure.subplots(1, 3)
        for axes, key, title in (
            (left, "decoder", "Decoder: a word affects\nonly later positions"),
            (middle, "encoder", "Encoder, no mask:\nall positions"),
        ):
            changed = torch.tensor(numbers[key]).float().mean(dim=0)
            axes.imshow(changed.T.numpy(), cmap="Blues", vmin=0, vmax=1.3)
            label_axes(axes, title, "changed word", "position that changes")
            axes.grid(visible=False)
        for key, color, label, index, offset, side in (
            ("one_by_one", ORANGE, "one by one", -1, 8, "right"),
            ("at_once", BLUE, "all at once", 0, -24, "left"),
        ):
            milliseconds = [1000 * seconds for seconds in numbers[key]]
            right.loglog(numbers["lengths"], milliseconds, "o-", color=color)
            right.annotate(
                label,
                (numbers["lengths"][index], milliseconds[index]),
                xytext=(0, offset),
                textcoords="offset points",
                ha=side,
                color=color,
            )
        label_axes(right, "Time for the same\ngradients", "words in the target", "milliseconds")
        right.set_xticks(numbers["lengths"], [str(length) for length in numbers["lengths"]])
        right.minorticks_off()
        right.margins(y=0.2)


def _earlier(changed: Tensor) -> Tensor:
    """Of (layer, changed word, position): the positions before the changed word."""
    return changed.tril(diagonal=-1)


def _count_earlier(changed: Tensor) -> int:
    return int(_earlier(torch.ones_like(changed)).sum())


def _example(length: int, seed: int) -> Examples:
    rng = random.Random(seed)  # noqa: S311  (for examples, not for secrets)
    return copy_task(_SYMBOLS, length, length).examples(1, rng)


@torch.no_grad()
def _changed_states(model: Transformer, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """For each layer and changed word, the positions whose states changed in any bit."""
    source, is_real, target, _ = _example(length, seed)
    memory = model.encode(source, is_real)

    def decoder(words: Tensor) -> list[Tensor]:
        return _layer_outputs(model.decoder.layers, lambda: model.decode(words, memory))

    def encoder(words: Tensor) -> list[Tensor]:
        is_real = torch.ones_like(words) > 0
        return _layer_outputs(model.encoder.layers, lambda: model.encode(words, is_real))

    return _compare_states(decoder, target), _compare_states(encoder, target)


def _compare_states(states_of: Callable[[Tensor], list[Tensor]], words: Tensor) -> Tensor:
    original = torch.stack(states_of(words))  # layer, position, feature
    rows = []
    for position in range(words.shape[1]):
        changed = words.clone()
        changed[0, position] = FIRST + (changed[0, position] - FIRST + 1) % _SYMBOLS
        rows.append((torch.stack(states_of(changed)) != original).any(dim=-1))
    return torch.stack(rows, dim=1)


def _layer_outputs(
    layers: torch.nn.ModuleList, run: Callable[[], object]
) -> list[Float[Tensor, "T M"]]:
    """The states above each layer for the first sentence, recorded during a call."""
    states: list[Tensor] = []

    def store(_: torch.nn.Module, __: object, out: Tensor | tuple[Tensor, object]) -> None:
        states.append((out if isinstance(out, Tensor) else out[0])[0])

    hooks = [layer.register_forward_hook(store) for layer in layers]
    run()
    for hook in hooks:
        hook.remove()
    return states


def _losses_at_once(model: Transformer, examples: Examples) -> Float[Tensor, " T"]:
    """The losses of all positions in one pass."""
    logits = model(examples.source, examples.is_real, examples.target)
    return F.cross_entropy(logits[0], examples.truth[0], reduction="none")


def _losses_one_by_one(model: Transformer, examples: Examples) -> Float[Tensor, " T"]:
    """The loss of each position, from a separate pass over the words before it."""
    losses = []
    memory = model.encode(examples.source, examples.is_real)  # Once: the source is known.
    for position in range(examples.target.shape[1]):
        prefix = examples.target[:, : position + 1]
        logits, _ = model.decode(prefix, memory)
        losses.append(F.cross_entropy(logits[0, -1], examples.truth[0, position]))
    return torch.stack(losses)


def _errors(model: Transformer, length: int, seed: int) -> tuple[float, float]:
    """The largest relative difference of losses and of gradients between both computations."""
    examples = _example(length, seed)
    losses, gradients = [], []
    for compute in (_losses_at_once, _losses_one_by_one):
        model.zero_grad()
        losses.append(compute(model, examples))
        losses[-1].sum().backward()  # type: ignore[no-untyped-call]
        parameters = [weights.grad for weights in model.parameters()]
        gradients.append(torch.cat([grad.flatten() for grad in parameters if grad is not None]))
    return _relative_error(*losses), _relative_error(*gradients)


def _relative_error(one: Tensor, two: Tensor) -> float:
    return ((one - two).abs().max() / one.abs().max()).item()


def _seconds(model: Transformer, length: int, seed: int) -> tuple[float, float]:
    """The time of both computations, forward and backward."""
    examples = _example(length, seed)

    def once(compute: Callable[[Transformer, Examples], Tensor]) -> float:
        start = time.process_time()
        compute(model, examples).sum().backward()  # type: ignore[no-untyped-call]
        return time.process_time() - start

    return (
        median(once(_losses_at_once) for _ in range(7)),
        median(once(_losses_one_by_one) for _ in range(3)),
    )
