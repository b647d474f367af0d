"""C3: the path between two distant words is long in recurrence and short in attention.

recurrence: O(n) steps between words n apart;   attention: one layer for every n   [CS224N] [CS182]
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.graph import longest_path, shortest_path
from dragoman.lab.style import BLUE, ORANGE, label_axes
from dragoman.lab.task import ToyTask
from dragoman.lab.training import SMALL, TrainingSetup, accuracy, build, train_model
from dragoman.model.cell import RecurrentLayer, State
from dragoman.model.embedding import Embedding
from dragoman.model.initialization import initialize
from dragoman.model.layer import EncoderLayer
from dragoman.model.parts import Position
from dragoman.model.resolve import resolve_parts
from dragoman.recipe.schema import ModelRecipe
from dragoman.shapes import Float, Tensor

_WIDTH = SMALL["width"]
_SYMBOLS = 8
_NETWORKS: Mapping[str, Mapping[str, Any]] = {
    "recurrence": {
        "architecture": "recurrent",
        "recurrent": {"attention": False, "bidirectional": False},
    },
    "attention": {"architecture": "transformer"},
}


class PathLength(Experiment):
    """Operations until two words interact, and the gradient of each word."""

    title = "Self-attention connects distant words in one layer"
    sources = (
        (
            "CS224N",
            "Linear interaction distance",
            "In a recurrent network, two distant words interact only after a number of steps that "
            "is proportional to the length of the sequence.",
        ),
        (
            "CS182",
            "introduction, and benefits at the end",
            "Attention can access every time step, which gives much better connections over long "
            "distances.",
        ),
    )
    durations = (9, 120)
    claim = (
        "In a recurrent network, two words n positions apart interact only after a number of steps "
        "that grows with n; in self-attention they interact in the first layer, at any distance."
    )
    method = (
        "An LSTM reads words one after the other. After each word the experiment checks whether "
        "the state has a gradient with respect to both the first and the last word. The same check "
        "is made for stacked encoder layers at every position (in 64 bits, so that no gradient is "
        "lost to rounding). For sentences of growing length, the operations up to the first "
        "interaction are counted in PyTorch's graph: for recurrence those on the shortest path "
        "from the first word, for attention those on the longest path. A second measurement covers "
        "the consequence that the lectures name: an LSTM whose decoder gets only the final state, "
        "and a Transformer, learn to output the first word of a sentence. It measures each word's "
        "share of the gradient before and after training."
    )
    criterion = (
        "Supported if each further word makes the shortest path through the recurrent network "
        "longer by at least one operation, and the path through attention has the same length for "
        "all sentences; partly supported if only one of the two is true."
    )
    is_seed_independent = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Count operations, then train and measure gradients."""
        is_quick = size == "quick"
        lengths = [2, 4, 8, 16, 32] if is_quick else [2, 4, 8, 16, 32, 64, 128, 256]
        length, setup = (16, TrainingSetup(120)) if is_quick else (40, TrainingSetup(600))
        task = _first_word_task(length)
        before, after, accuracies = {}, {}, {}
        for name, settings in _NETWORKS.items():
            model = build(task, seed, **settings)
            before[name] = _gradient_shares(model, task, seed)
            train_model(model, task, setup, seed)
            after[name] = _gradient_shares(model, task, seed)
            accuracies[name] = accuracy(model, task, seed)
        return {
            "lengths": lengths,
            "recurrence": [_path_by_recurrence(length, seed) for length in lengths],
            "attention": [_path_by_attention(length, seed) for length in lengths],
            "words": length,
            "training_steps": setup.steps,
            "before": before,
            "after": after,
            "accuracy": accuracies,
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare the counts with the lengths; the counts do not depend on the seed."""
        lengths, paths = numbers["lengths"], numbers["recurrence"]
        pairs = pairwise(zip(lengths, paths, strict=True))
        grows = all(path - shorter >= n - m for (m, shorter), (n, path) in pairs)
        is_constant = len(set(numbers["attention"])) == 1
        ratios = {name: shares[0] / shares[-1] for name, shares in numbers["before"].items()}
        accuracies = numbers["accuracy"]
        explanation = (
            f"Until the first word interacts with the last, recurrence needs at least {paths[0]} "
            f"operations for {lengths[0]} words and {paths[-1]} for {lengths[-1]} words; attention "
            f"needs at most {numbers['attention'][0]} and {numbers['attention'][-1]}. Before "
            f"training, the gradient of the first of {numbers['words']} words is "
            f"{ratios['recurrence']:.2g} times that of the last in the recurrent model, and "
            f"{ratios['attention']:.2g} times in the Transformer. After "
            f"{numbers['training_steps']} updates, they output the first word correctly in "
            f"{accuracies['recurrence']:.0%} and {accuracies['attention']:.0%} of cases (guessing: "
            f"{1 / _SYMBOLS:.0%}; one seed, one learning rate)."
        )
        verdict = grade(
            is_supported=grows and is_constant, is_partly_supported=grows or is_constant
        )
        summary = (
            "In the recurrent network, the path between two words "
            f"{'gets longer with each word between them' if grows else 'grows only slowly'}, and "
            "in self-attention "
            f"{'it is equally short at any distance' if is_constant else 'it grows too'}."
        )
        return Judgment(verdict, summary, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Counts over the length, and gradients over the position."""
        left, right = figure.subplots(1, 2)
        lengths = numbers["lengths"]
        for name, color, offset in (
            ("recurrence", ORANGE, (-6, 4)),
            ("attention", BLUE, (0, -12)),
        ):
            left.loglog(lengths, numbers[name], "o-", color=color)
            left.annotate(
                name,
                (lengths[-2], numbers[name][-2]),
                xytext=offset,
                textcoords="offset points",
                ha="right",
                color=color,
            )
            for when, line in (("before", ":"), ("after", "-")):
                shares = numbers[when][name]
                label = f"{name}, {when} training"
                right.semilogy(range(1, len(shares) + 1), shares, line, color=color, label=label)
        left.set_xticks(lengths, [str(length) for length in lengths])
        left.minorticks_off()
        label_axes(left, "Path from first to last word", "words in the sentence", "operations")
        right.set_yticks([0.001, 0.01, 0.1, 1], ["0.1 %", "1 %", "10 %", "100 %"])
        right.minorticks_off()
        least = min(
            min(shares) for when in ("before", "after") for shares in numbers[when].values()
        )
        right.set_ylim(least / 2, 1)
        right.xaxis.get_major_locator().set_params(integer=True)
        right.legend(frameon=False, fontsize=8)
        label_axes(
            right, "Gradient of the output by source word", "source position", "share of gradient"
        )


def _first_word_task(length: int) -> ToyTask:
    """Output the first word of the sentence."""

    def draw(rng: random.Random, length: int) -> tuple[list[int], list[int]]:
        source = [rng.randrange(_SYMBOLS) for _ in range(length)]
        return source, source[:1]

    return ToyTask(draw, _SYMBOLS, length, length)


def _random_words(length: int, seed: int) -> list[Float[Tensor, "1 1 M"]]:
    generator = torch.Generator().manual_seed(seed)
    shape = (length, 1, 1, _WIDTH)
    vectors = torch.randn(shape, generator=generator, dtype=torch.float64)
    return [vector.requires_grad_() for vector in vectors.unbind()]


def _path_by_recurrence(length: int, seed: int) -> int:
    """At least this many operations from the first word to a state that depends on the last."""
    torch.manual_seed(seed)
    layer = RecurrentLayer("lstm", _WIDTH, _WIDTH).double()
    words = _random_words(length, seed)
    state: State | None = None
    for word in words:
        output, state = layer(word, state)
        if _depends_on_both_ends(output, words):
            return shortest_path(output, words[0])
    raise AssertionError("after all words, the state of an LSTM depends on all of them")


def _path_by_attention(length: int, seed: int) -> int:
    """At most this many operations to the first encoder state that depends on both words."""
    resolved = resolve_parts(ModelRecipe.model_validate(dict(SMALL)))
    words = _random_words(length, seed)
    x, mask = torch.cat(words, dim=1), torch.ones(1, 1, 1, length, dtype=torch.bool)
    for depth in range(1, length + 1):
        layer = EncoderLayer(resolved).double()
        initialize(layer, seed + depth)
        x = layer(x, mask, Position(resolved.position_size))
        for position in range(length):
            if _depends_on_both_ends(x[:, position], words):
                return longest_path(x[:, position])
    raise AssertionError("after as many layers as words, a state depends on all words")


def _depends_on_both_ends(state: Tensor, words: list[Tensor]) -> bool:
    """Whether a state has a gradient with respect to the first and the last word."""
    gradients = torch.autograd.grad(
        state.sum(),
        (words[0], words[-1]),
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
    return all(bool(gradient.any()) for gradient in gradients)


def _gradient_shares(model: nn.Module, task: ToyTask, seed: int) -> list[float]:
    """Each source word's mean share of the gradient of the correct word's score."""
    rng = random.Random(f"felt {seed}")  # noqa: S311  (for examples, not for secrets)
    examples = task.examples(100, rng)
    embedded: list[Tensor] = []
    embedding = model.source_embedding
    assert isinstance(embedding, Embedding)
    hook = embedding.register_forward_hook(lambda _, __, vectors: embedded.append(vectors))
    logits = model(examples.source, examples.is_real, examples.target)
    hook.remove()
    scores = logits[:, 0].gather(1, examples.truth[:, :1])
    (gradient,) = torch.autograd.grad(scores.sum(), embedded[:1])  # The source is embedded first.
    norms = gradient[:, : task.longest].norm(dim=-1)
    shares: list[float] = (norms / norms.sum(dim=1, keepdim=True)).mean(dim=0).tolist()
    return shares
