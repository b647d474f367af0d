"""C4: recurrence has a sequential chain that grows with the sentence; attention has none.

sequential operations per pass: O(n) for recurrence, O(1) for attention
                                                     [CS224N] [APPLY-DL] [CS182]
"""

from __future__ import annotations

import random
import time
from itertools import pairwise
from statistics import mean

from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.graph import longest_path
from dragoman.lab.style import BLUE, GREEN, ORANGE, label_axes
from dragoman.lab.task import copy_task
from dragoman.lab.training import build, compute_loss

_NETWORKS = {
    "recurrent": {"architecture": "recurrent"},
    "convolutional": {"architecture": "convolutional"},
    "transformer": {"architecture": "transformer"},
}
_TOLERANCE = 0.1
"""How far the increase per word may deviate from its mean to count as constant."""


class Parallel(Experiment):
    """The longest chain of operations between a source and its loss."""

    title = "A recurrent network cannot process words in parallel"
    sources = (
        (
            "CS224N",
            "Lack of parallelizability",
            "The forward and backward passes of a recurrent network have a number of operations "
            "that cannot run in parallel, proportional to the length of the sequence, because a "
            "state cannot be computed before the states that precede it.",
        ),
        (
            "APPLY-DL",
            "recap",
            "Modern hardware processes in parallel; the sequential nature of recurrent networks "
            "prevents that.",
        ),
        (
            "CS182",
            "benefits at the end",
            "Transformers are much easier to parallelize.",
        ),
    )
    durations = (5, 8)
    claim = (
        "A recurrent network needs, forward and backward, a number of steps that grows with the "
        "sentence and cannot run in parallel, because each state waits for the previous one; "
        "self-attention has no such steps."
    )
    method = (
        "Translation models of equal width and depth compute the loss of sentences of growing "
        "length with known targets, as in training. The longest chain of operations in PyTorch's "
        "backward graph is counted: each operation on it waits for the previous one, on any "
        "machine. (LSTMs run in 64 bits, where PyTorch shows single steps that its fast kernel "
        "hides.) The processor time per word, forward and backward, is measured too (the minimum "
        "of several): that is the amount of work, not the waiting time."
    )
    criterion = (
        "Supported if every further word adds the same number of operations to the recurrent chain "
        f"(± {_TOLERANCE:.0%}, and at least one), and the Transformer's chain has the same length "
        "for all sentences; partly supported if only one of the two is true."
    )
    is_seed_independent = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Count the chains and measure the time."""
        lengths = [8, 16, 32, 64] if size == "quick" else [8, 16, 32, 64, 128, 256]
        chains = {
            name: [_chain_length(settings, length, seed) for length in lengths]
            for name, settings in _NETWORKS.items()
        }
        seconds = {
            name: [_seconds(settings, length, seed) for length in lengths]
            for name, settings in _NETWORKS.items()
        }
        return {"lengths": lengths, "chains": chains, "seconds": seconds}

    def judge(self, numbers: Numbers) -> Judgment:
        """Check that one chain is linear and the other constant."""
        chains, seconds = numbers["chains"], numbers["seconds"]
        increases = _increases(numbers["lengths"], chains["recurrent"])
        spread = max(increases) - min(increases)
        is_linear = min(increases) >= 1 and spread <= 2 * _TOLERANCE * mean(increases)
        is_constant = len(set(chains["transformer"])) == 1
        last = numbers["lengths"][-1]
        times = {name: 1000 * values[-1] / last for name, values in seconds.items()}
        explanation = (
            f"From {numbers['lengths'][0]} to {last} words the recurrent chain grows from "
            f"{chains['recurrent'][0]} to {chains['recurrent'][-1]} operations, "
            f"{mean(increases):.0f} per word; the Transformer's from {chains['transformer'][0]} to "
            f"{chains['transformer'][-1]}; the convolutional model's from "
            f"{chains['convolutional'][0]} to {chains['convolutional'][-1]}. The processor time "
            f"per word is then {times['recurrent']:.2f} ms for the recurrent model and "
            f"{times['transformer']:.2f} ms for the Transformer. When the target is not known but "
            "generated, all models work word by word."
        )
        verdict = grade(
            is_supported=is_linear and is_constant, is_partly_supported=is_linear or is_constant
        )
        summary = (
            "A recurrent network "
            f"{'must' if is_linear else 'need not'} wait for each word before it reads the next, "
            "and a Transformer in training "
            f"{'processes all words at the same time' if is_constant else 'has to wait too'}."
        )
        return Judgment(verdict, summary, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Chain length and work per word, over the length."""
        colors = {"recurrent": ORANGE, "transformer": BLUE, "convolutional": GREEN}
        left, right = figure.subplots(1, 2)
        lengths = numbers["lengths"]
        for name, color in colors.items():
            milliseconds = [
                1000 * seconds / length
                for seconds, length in zip(numbers["seconds"][name], lengths, strict=True)
            ]
            left.loglog(lengths, numbers["chains"][name], "o-", color=color, label=name)
            right.semilogx(lengths, milliseconds, "o-", color=color, label=name)
        for axes in (left, right):
            axes.set_xticks(lengths, [str(length) for length in lengths])
            axes.minorticks_off()
        right.set_ylim(bottom=0)
        left.legend(frameon=False)
        label_axes(left, "Longest sequential chain", "words in the sentence", "operations")
        label_axes(right, "Processor time per word", "words in the sentence", "milliseconds")


def _increases(lengths: list[int], chains: list[int]) -> list[float]:
    """Operations that each further word adds, between successive lengths."""
    pairs = pairwise(zip(lengths, chains, strict=True))
    return [
        (chain - previous) / (length - shorter) for (shorter, previous), (length, chain) in pairs
    ]


def _chain_length(settings: dict[str, str], length: int, seed: int) -> int:
    """Operations on the longest chain between the words and the loss."""
    task = copy_task(20, length, length)
    model = build(task, seed, **settings).double()
    rng = random.Random(seed)  # noqa: S311  (for examples, not for secrets)
    return longest_path(compute_loss(model, task.examples(1, rng)))


def _seconds(settings: dict[str, str], length: int, seed: int) -> float:
    """Processor time of forward and backward."""
    task = copy_task(20, length, length)
    model = build(task, seed, **settings)
    rng = random.Random(seed)  # noqa: S311
    examples = task.examples(1, rng)

    def once() -> float:
        start = time.process_time()
        compute_loss(model, examples).backward()  # type: ignore[no-untyped-call]
        return time.process_time() - start

    return min(once() for _ in range(9))
