"""C3: after how many steps do two distant words meet?

recurrence: n steps for words n apart;   attention: one layer, whatever n          (seeds 001, 004)
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.graph import longest, shortest
from dragoman.lab.style import BLUE, ORANGE, tidy
from dragoman.lab.task import Task
from dragoman.lab.teaching import SMALL, Lesson, accuracy, build, teach
from dragoman.model.blueprint import draw_blueprint
from dragoman.model.cell import RecurrentLayer, State
from dragoman.model.embedding import Embedding
from dragoman.model.initialisation import initialise
from dragoman.model.layer import EncoderLayer
from dragoman.model.parts import Position
from dragoman.recipe import ModelRecipe
from dragoman.shapes import Float, Tensor

_WIDTH = SMALL["width"]
_SYMBOLS = 8
_NETWORKS: Mapping[str, Mapping[str, Any]] = {
    "recurrence": {
        "architecture": "recurrent",
        "recurrent": {"attends": False, "both_ways": False},
    },
    "attention": {"architecture": "transformer"},
}


class Distance(Experiment):
    """Who feels whom, after how many steps, and how strongly."""

    title = "How far it is from word to word"
    claim = (
        "In a recurrent network, two words that stand n apart meet only after a number of steps "
        "that grows with n; in self-attention they meet in the first layer, however far apart."
    )
    lectures = ("001", "004")
    method = (
        "An LSTM reads words one after the other; after each, has its state a gradient with "
        "respect to both the first and the last word? The same is asked of encoder layers, one "
        "above the other, at every place (64 bits, so that no gradient is lost to rounding). For "
        "sentences of growing length, the operations up to where the two words first meet are "
        "counted in PyTorch's own graph: for recurrence those on the shortest way from the first "
        "word, for attention those on the longest way there is. Beside it, what the lecture says "
        "follows from it: two translators, an LSTM whose decoder knows only how the source ended "
        "and a Transformer, learn to name the first word of a sentence; how strongly do they feel "
        "each word, before and after?"
    )
    criterion = (
        "Holds if each further word makes the shortest way through the recurrent network longer by "
        "at least one operation, and the way through attention is as long for every length. In "
        "part if only one of the two is so."
    )
    is_certain = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Count steps, then teach and look at gradients."""
        is_quick = size == "quick"
        lengths = [2, 4, 8, 16, 32] if is_quick else [2, 4, 8, 16, 32, 64, 128, 256]
        length, lesson = (16, Lesson(120)) if is_quick else (40, Lesson(600))
        task = _naming_the_first(length)
        before, after, right = {}, {}, {}
        for name, settings in _NETWORKS.items():
            model = build(task, seed, **settings)
            before[name] = _felt(model, task, seed)
            teach(model, task, lesson, seed)
            after[name] = _felt(model, task, seed)
            right[name] = accuracy(model, task, seed)
        return {
            "lengths": lengths,
            "recurrence": [_by_recurrence(each, seed) for each in lengths],
            "attention": [_by_attention(each, seed) for each in lengths],
            "words": length,
            "lesson_steps": lesson.steps,
            "before": before,
            "after": after,
            "right": right,
        }

    def judge(self, numbers: Numbers) -> Judgement:
        """Compare the counts with the lengths; chance has no say in them."""
        lengths, ways = numbers["lengths"], numbers["recurrence"]
        pairs = pairwise(zip(lengths, ways, strict=True))
        is_linear = all(way - before >= n - m for (m, before), (n, way) in pairs)
        is_one = len(set(numbers["attention"])) == 1
        first = {name: felt[0] / felt[-1] for name, felt in numbers["before"].items()}
        right = numbers["right"]
        because = (
            f"Until the first of {lengths[0]} words has met the last it takes at least {ways[0]} "
            f"operations of recurrence, of {lengths[-1]} words {ways[-1]}; by attention at most "
            f"{numbers['attention'][0]} and {numbers['attention'][-1]}. Before learning, the first "
            f"of {numbers['words']} words is felt {first['recurrence']:.2g} times as strongly as "
            f"the last by the recurrent translator, {first['attention']:.2g} times by the "
            f"Transformer; after {numbers['lesson_steps']} updates, they name it rightly in "
            f"{right['recurrence']:.0%} and {right['attention']:.0%} of cases (guessing: "
            f"{1 / _SYMBOLS:.0%}; one seed, one rate)."
        )
        if is_linear and is_one:
            return Judgement("holds", because)
        return Judgement("holds in part" if is_linear or is_one else "does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Counts over the length, and gradients over the place."""
        left, right = figure.subplots(1, 2)
        colours = {"recurrence": ORANGE, "attention": BLUE}
        lengths = numbers["lengths"]
        left.loglog(lengths, numbers["recurrence"], "o-", color=ORANGE)
        left.loglog(lengths, numbers["attention"], "o-", color=BLUE)
        left.annotate(
            "by recurrence",
            (lengths[-2], numbers["recurrence"][-2]),
            xytext=(-6, 4),
            textcoords="offset points",
            ha="right",
            color=ORANGE,
        )
        left.annotate(
            "by attention",
            (lengths[-2], numbers["attention"][-2]),
            xytext=(0, -12),
            textcoords="offset points",
            ha="right",
            color=BLUE,
        )
        left.set_xticks(lengths, [str(each) for each in lengths])
        left.minorticks_off()
        tidy(
            left,
            "Until the first word meets the last",
            "words in the sentence",
            "operations",
        )
        for name, colour in colours.items():
            for when, line in (("before", ":"), ("after", "-")):
                felt = numbers[when][name]
                label = f"{name}, {when} learning"
                right.semilogy(range(1, len(felt) + 1), felt, line, color=colour, label=label)
        right.set_yticks([0.001, 0.01, 0.1, 1], ["0.1 %", "1 %", "10 %", "100 %"])
        right.minorticks_off()
        least = min(min(felt) for when in ("before", "after") for felt in numbers[when].values())
        right.set_ylim(least / 2, 1)
        right.xaxis.get_major_locator().set_params(integer=True)
        right.legend(frameon=False, fontsize=8)
        tidy(
            right,
            "How much each word is felt at the end",
            "place of the word",
            "share of the gradient",
        )


def _naming_the_first(length: int) -> Task:
    """Say the word that the sentence began with."""

    def draw(chance: random.Random, length: int) -> tuple[list[int], list[int]]:
        source = [chance.randrange(_SYMBOLS) for _ in range(length)]
        return source, source[:1]

    return Task(draw, _SYMBOLS, length, length)


def _words(length: int, seed: int) -> list[Float[Tensor, "1 1 M"]]:
    generator = torch.Generator().manual_seed(seed)
    shape = (length, 1, 1, _WIDTH)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    return [word.requires_grad_() for word in drawn.unbind()]


def _by_recurrence(length: int, seed: int) -> int:
    """Operations, at least, from the first word to the state of an LSTM that knows the last."""
    torch.manual_seed(seed)
    layer = RecurrentLayer("lstm", _WIDTH, _WIDTH).double()
    words = _words(length, seed)
    state: State | None = None
    for word in words:
        read, state = layer(word, state)
        if _have_met(read, words):
            return shortest(read, words[0])
    raise AssertionError("an LSTM that has read all words knows of all of them")


def _by_attention(length: int, seed: int) -> int:
    """Operations, at most, to the first state of a stack of encoder layers that knows both."""
    blueprint = draw_blueprint(ModelRecipe.model_validate(dict(SMALL)))
    words = _words(length, seed)
    x, mask = torch.cat(words, dim=1), torch.ones(1, 1, 1, length, dtype=torch.bool)
    for height in range(1, length + 1):
        layer = EncoderLayer(blueprint).double()
        initialise(layer, seed + height)
        x = layer(x, mask, Position(blueprint.position_size))
        for place in range(length):
            if _have_met(x[:, place], words):
                return longest(x[:, place])
    raise AssertionError("attention that has passed as many layers as words knows of all of them")


def _have_met(state: Tensor, words: list[Tensor]) -> bool:
    """Whether a state has a gradient with respect to both the first and the last word."""
    ends = (words[0], words[-1])
    gradients = torch.autograd.grad(
        state.sum(), ends, retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return all(bool(each.any()) for each in gradients)


def _felt(model: nn.Module, task: Task, seed: int) -> list[float]:
    """Each source word's share of the gradient of the right word's score, on average."""
    chance = random.Random(f"felt {seed}")  # noqa: S311  (for examples, not for secrets)
    examples = task.examples(100, chance)
    heard: list[Tensor] = []
    embedding = model.source_embedding
    assert isinstance(embedding, Embedding)
    hook = embedding.register_forward_hook(lambda _, __, vectors: heard.append(vectors))
    logits = model(examples.source, examples.is_real, examples.target)
    hook.remove()
    scores = logits[:, 0].gather(1, examples.truth[:, :1])
    (gradient,) = torch.autograd.grad(scores.sum(), heard[:1])  # The source is looked up first.
    lengths = gradient[:, : task.longest].norm(dim=-1)
    felt: list[float] = (lengths / lengths.sum(dim=1, keepdim=True)).mean(dim=0).tolist()
    return felt
