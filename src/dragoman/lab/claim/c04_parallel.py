"""C4: how many steps of a pass must wait for each other?

recurrence: O(n) of them, forward and backward;   attention: none that grows with n
                                                              (seeds 001, 003, 004)
"""

from __future__ import annotations

import random
import time
from itertools import pairwise
from statistics import mean

from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.graph import longest
from dragoman.lab.style import BLUE, GREEN, ORANGE, tidy
from dragoman.lab.task import copying
from dragoman.lab.teaching import build, loss_of

_NETWORKS = {
    "recurrent": {"architecture": "recurrent"},
    "convolutional": {"architecture": "convolutional"},
    "transformer": {"architecture": "transformer"},
}
_LINEAR = 0.1
"""How far what a word adds may lie from the mean, to be called the same."""


class Parallel(Experiment):
    """The longest chain of operations between a source and its loss."""

    title = "What cannot be computed at the same time"
    claim = (
        "Forward and backward, a recurrent network takes a number of steps that grows with the "
        "sentence and cannot run in parallel, for each state waits for the one before; "
        "self-attention has no such steps."
    )
    lectures = ("001", "003", "004")
    method = (
        "Translators of equal width and depth compute the loss of sentences of growing length, "
        "whose target is known, as in training. The longest chain in the graph of operations that "
        "PyTorch keeps for the way back is counted: each operation on it waits for the one before, "
        "on any machine. (Of LSTMs in 64 bits: there PyTorch shows single steps, which its fast "
        "kernel hides.) Beside it the processor's own time for a word, forward and backward, "
        "the least of several: that is the work, not the waiting."
    )
    criterion = (
        "Holds if every further word adds the same number of operations to the recurrent chain "
        f"(± {_LINEAR:.0%}, and one at least), and the Transformer's chain is equally long for all "
        "sentences. In part if only one of the two is so."
    )
    is_certain = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Count the chains; take the time."""
        lengths = [8, 16, 32, 64] if size == "quick" else [8, 16, 32, 64, 128, 256]
        chains = {
            name: [_chain(settings, length, seed) for length in lengths]
            for name, settings in _NETWORKS.items()
        }
        seconds = {
            name: [_seconds(settings, length, seed) for length in lengths]
            for name, settings in _NETWORKS.items()
        }
        return {"lengths": lengths, "chains": chains, "seconds": seconds}

    def judge(self, numbers: Numbers) -> Judgement:
        """Linear, and constant."""
        chains, seconds = numbers["chains"], numbers["seconds"]
        added = _added(numbers["lengths"], chains["recurrent"])
        is_linear = min(added) >= 1 and max(added) - min(added) <= 2 * _LINEAR * mean(added)
        is_constant = len(set(chains["transformer"])) == 1
        last = numbers["lengths"][-1]
        times = {name: 1000 * each[-1] / last for name, each in seconds.items()}
        because = (
            f"From {numbers['lengths'][0]} to {last} words the recurrent chain grows from "
            f"{chains['recurrent'][0]} to {chains['recurrent'][-1]} operations, {mean(added):.0f} "
            "for each word, the Transformer's from "
            f"{chains['transformer'][0]} to {chains['transformer'][-1]} (the convolutional one's "
            f"from {chains['convolutional'][0]} to {chains['convolutional'][-1]}). The work for "
            f"a word, on the processor, is then {times['recurrent']:.2f} ms and "
            f"{times['transformer']:.2f} ms. When the target is not known but written, all of "
            "them go word by word."
        )
        if is_linear and is_constant:
            return Judgement("holds", because)
        is_part = is_linear or is_constant
        return Judgement("holds in part" if is_part else "does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Chains, and work for a word, over the length."""
        colours = {"recurrent": ORANGE, "transformer": BLUE, "convolutional": GREEN}
        left, right = figure.subplots(1, 2)
        lengths = numbers["lengths"]
        for name, colour in colours.items():
            milliseconds = [
                1000 * each / length
                for each, length in zip(numbers["seconds"][name], lengths, strict=True)
            ]
            left.loglog(lengths, numbers["chains"][name], "o-", color=colour, label=name)
            right.semilogx(lengths, milliseconds, "o-", color=colour, label=name)
        for axes in (left, right):
            axes.set_xticks(lengths, [str(each) for each in lengths])
            axes.minorticks_off()
        right.set_ylim(bottom=0)
        left.legend(frameon=False)
        tidy(
            left, "Operations that must wait for each other", "words in the sentence", "operations"
        )
        tidy(right, "Processor time for a word", "words in the sentence", "milliseconds")


def _added(lengths: list[int], chains: list[int]) -> list[float]:
    """How many operations a further word adds, from each length to the next."""
    pairs = pairwise(zip(lengths, chains, strict=True))
    return [(chain - before) / (length - shorter) for (shorter, before), (length, chain) in pairs]


def _chain(settings: dict[str, str], length: int, seed: int) -> int:
    """How many operations stand on the longest chain between the words and the loss."""
    task = copying(20, length, length)
    model = build(task, seed, **settings).double()
    chance = random.Random(seed)  # noqa: S311  (for examples, not for secrets)
    return longest(loss_of(model, task.examples(1, chance)))


def _seconds(settings: dict[str, str], length: int, seed: int) -> float:
    """The processor's time of forward and backward."""
    task = copying(20, length, length)
    model = build(task, seed, **settings)
    chance = random.Random(seed)  # noqa: S311
    examples = task.examples(1, chance)

    def once() -> float:
        start = time.process_time()
        loss_of(model, examples).backward()  # type: ignore[no-untyped-call]
        return time.process_time() - start

    return min(once() for _ in range(9))
