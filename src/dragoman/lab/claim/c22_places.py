"""C22: does the same word at two places get two representations?

h(word, i) ≠ h(word, j)   for places i ≠ j          (seed 000: *the* at 2 and *the* at 7)
"""

from __future__ import annotations

import random

import torch
from matplotlib.figure import Figure

from dragoman import part
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import COLOURS, GREY, tidy
from dragoman.lab.task import FIRST, copying
from dragoman.lab.teaching import build
from dragoman.model.transformer import Transformer
from dragoman.shapes import Float, Int, Tensor

_LENGTH = 10
_EARLY, _LATE = 2, 7
_SYMBOLS = 40
_ROUNDING = 1e-9
"""In 64 bits, sums in another order differ in the last of sixteen digits, never in the tenth."""
_SEEN = 1e-3


class Places(Experiment):
    """One word twice in a sentence, seen from every layer."""

    title = "One word, two places, two representations"
    claim = (
        "With positions, the same word at two places of a sentence is represented by two "
        "vectors, a little different from each other; without them, by one and the same."
    )
    lectures = ("000",)
    method = (
        f"Random sentences of {_LENGTH} words have the same word at places {_EARLY} and {_LATE}. "
        "The encoder (first weights, post-norm, 64 bits) reads them; at its entrance and above "
        "each layer, how far apart are the two states, relative to their length? Beside it, as a "
        f"measure: the first of them and the other word at place {_LATE + 1}; and the same word at "
        "the same place of another sentence, which is the work of context."
    )
    criterion = (
        f"Holds if with every kind of position the states differ by more than {_SEEN:.0e} above "
        f"every layer, and without positions by less than {_ROUNDING:.0e}. In part if some kinds "
        "of position tell the two apart, but not all."
    )
    is_certain = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Read each sentence, and compare its two places."""
        count = 50 if size == "quick" else 2000
        sentences, others = _sentences(seed, count)
        places, context, words = {}, {}, {}
        for kind in part.names("model.position"):
            layers = _layers(seed, kind, torch.cat([sentences, others]))
            here, there = zip(*(states.chunk(2) for states in layers), strict=True)
            pairs = list(zip(here, there, strict=True))
            places[kind] = [_apart(one[:, _EARLY], one[:, _LATE]) for one in here]
            context[kind] = [_apart(one[:, _EARLY], two[:, _EARLY]) for one, two in pairs]
            words[kind] = [_apart(one[:, _EARLY], one[:, _LATE + 1]) for one in here]
        return {"places": places, "context": context, "words": words}

    def judge(self, numbers: Numbers) -> Judgement:
        """Above every layer: told apart by every position, and by nothing else."""
        places = dict(numbers["places"])
        blind = max(places.pop("none"))
        above = {kind: min(values[1:]) for kind, values in places.items()}
        telling = [kind for kind, least in above.items() if least > _SEEN]
        weakest = min(above, key=lambda kind: above[kind])
        entrance, *layers = places["sinusoidal"]
        same = f"to {blind:.0e}" if blind else "bit for bit"
        because = (
            f"Without positions the two states are the same, {same}, above every layer. "
            f"With sinusoids they differ by {entrance:.0%} of their length at the entrance and "
            f"{layers[-1]:.0%} above the last layer, where two different words are "
            f"{numbers['words']['sinusoidal'][-1]:.0%} apart; the least is {above[weakest]:.1%} "
            f"({weakest}). {len(telling)} of {len(above)} kinds of position tell them apart."
        )
        if blind >= _ROUNDING or not telling:
            return Judgement("does not hold here", because)
        is_every = len(telling) == len(above)
        return Judgement("holds" if is_every else "holds in part", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Distances by layer: of places, and with sinusoids of everything else."""
        left, right = figure.subplots(1, 2, sharey=True)
        names = [name for name in numbers["places"] if name != "none"]
        heights = range(len(numbers["places"]["none"]))
        for name, colour in zip(names, COLOURS, strict=False):
            left.plot(heights, numbers["places"][name], "o-", color=colour, label=name)
        left.plot(heights, numbers["places"]["none"], "o-", color=GREY, label="no position")
        tidy(left, "The same word at two places …", up="distance / length of the states")
        for key, colour, label in (
            ("words", GREY, "two words"),
            ("context", COLOURS[1], "one word, two sentences"),
            ("places", COLOURS[names.index("sinusoidal")], "one word, two places"),
        ):
            right.plot(heights, numbers[key]["sinusoidal"], "o-", color=colour, label=label)
        tidy(right, "… beside words and contexts (sinusoidal)")
        for axes in (left, right):
            labels = ["entrance", *(f"layer {height}" for height in heights[1:])]
            axes.set_xticks(list(heights), labels)
            axes.set_ylim(bottom=-0.05)
            axes.legend(frameon=False, fontsize=8)


def _sentences(seed: int, count: int) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """Pairs of sentences: all words differ but for one, which the first of them has twice."""
    chance = random.Random(seed)  # noqa: S311  (for examples, not for secrets)
    sentences, others = [], []
    for _ in range(count):
        drawn = [FIRST + each for each in chance.sample(range(_SYMBOLS), 2 * _LENGTH)]
        one, two = drawn[:_LENGTH], drawn[_LENGTH:]
        one[_LATE] = two[_EARLY] = one[_EARLY]
        sentences.append(one)
        others.append(two)
    return torch.tensor(sentences), torch.tensor(others)


@torch.no_grad()
def _layers(seed: int, kind: str, words: Int[Tensor, "B T"]) -> list[Float[Tensor, "B T M"]]:
    """The states at the entrance of the encoder and above each of its layers."""
    task = copying(_SYMBOLS, _LENGTH, _LENGTH)
    model = build(task, seed, position=kind, norm="post", encoder_layers=3).double().eval()
    assert isinstance(model, Transformer)
    states: list[torch.Tensor] = []
    first = model.encoder.layers[0]
    first.register_forward_pre_hook(lambda _, given: states.append(given[0]))
    for layer in model.encoder.layers:
        layer.register_forward_hook(lambda _, __, out: states.append(out))
    model.encode(words, torch.ones_like(words, dtype=torch.bool))
    return states


def _apart(one: Float[Tensor, "B M"], two: Float[Tensor, "B M"]) -> float:
    """How far apart two states are on average, relative to how long they are."""
    length = (one.norm(dim=-1) + two.norm(dim=-1)).mean() / 2
    distance: float = ((one - two).norm(dim=-1).mean() / length).item()
    return distance
