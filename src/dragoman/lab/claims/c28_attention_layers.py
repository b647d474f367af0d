"""C28: one layer of attention can look something up; a lookup in the result needs a second layer.

h¹ = attend(x),  h² = attend(h¹), …                                [CS182] [APPLY-DL] [NLP10]
"""

from __future__ import annotations

import random
from statistics import mean

from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GREEN, ORANGE, label_axes
from dragoman.lab.task import ToyTask
from dragoman.lab.training import TrainingSetup, accuracies, build_encoder_only, run_trial
from dragoman.lab.uncertainty import confidence_interval, derive_seeds

_LENGTH = 8
_HOPS = (1, 2, 4)
_LAYERS = (1, 2, 3)
_LEARNED, _NOT_LEARNED = 0.9, 0.5
"""A task counts as learned above the first share of correct outputs, as failed below the second."""
_COLORS = {1: ORANGE, 2: BLUE, 3: GREEN}
_MARKERS = {1: "s:", 2: "o-", 3: "^--"}


class AttentionLayers(Experiment):
    """Follow pointers in a sequence, with one to three layers of attention."""

    title = "Several layers of attention"
    sources = (
        (
            "CS182",
            "self-attention",
            "A self-attention layer is followed by another one, and so on, before the decoder.",
        ),
        (
            "APPLY-DL",
            "encoder",
            "The output of a layer goes to the next layer of attention, and then to a third one.",
        ),
        (
            "NLP10",
            "attention",
            "The lecture lists attention of one layer and of several layers among the kinds.",
        ),
    )
    durations = (30, 430)
    claim = (
        "A layer of attention combines words of the sentence; several layers are stacked because "
        "one is not enough: what a word needs may itself depend on other words."
    )
    method = (
        f"A source is a sequence of {_LENGTH} positions, each with the number of a position. The "
        "model must output, at each position, the number that is found after following the "
        f"numbers {', '.join(map(str, _HOPS))} times (quick: the first two). Encoder-only models "
        f"of {_LAYERS[0]} to {_LAYERS[-1]} layers are trained, each with a feed-forward network "
        "in every layer. Measured is the share of sequences whose whole output is correct."
    )
    criterion = (
        f"Supported if one layer learns one step (more than {_LEARNED:.0%} correct, mean over "
        f"seeds), fails at two steps (less than {_NOT_LEARNED:.0%}, every seed), and two layers "
        "learn two steps; partly supported if one layer is worse at two steps than two layers "
        "are, with intervals that do not overlap."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train every depth on every number of steps."""
        is_quick = size == "quick"
        hops, layers = (_HOPS[:2], _LAYERS[:2]) if is_quick else (_HOPS, _LAYERS)
        setup = TrainingSetup(450 if is_quick else 600, learning_rate=4e-3)
        seeds = derive_seeds(seed, 1 if is_quick else 3)
        shares = {}
        for count in layers:
            shares[str(count)] = [
                accuracies(
                    [
                        run_trial(
                            build_encoder_only(task, model_seed, encoder_layers=count),
                            task,
                            setup,
                            model_seed,
                        )
                        for model_seed in seeds
                    ]
                )
                for task in map(pointer_task, hops)
            ]
        return {"hops": list(hops), "steps": setup.steps, "correct": shares}

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare one layer with two, at one step and at two."""
        correct = numbers["correct"]
        one_step, two_steps = correct["1"][:2]
        two_layers = correct["2"][1]
        is_enough_once = mean(one_step) > _LEARNED
        does_fail = max(two_steps) < _NOT_LEARNED
        is_learned = mean(two_layers) > _LEARNED
        low, high = confidence_interval(two_steps), confidence_interval(two_layers)
        explanation = "Correct outputs: " + "; ".join(
            f"{layers} {'layer' if layers == '1' else 'layers'}: "
            + ", ".join(
                f"{mean(shares):.0%} after {hops} {'step' if hops == 1 else 'steps'}"
                for hops, shares in zip(numbers["hops"], rows, strict=True)
            )
            for layers, rows in correct.items()
        )
        verdict = grade(
            is_supported=is_enough_once and does_fail and is_learned,
            is_partly_supported=low.high < high.low,
        )
        if verdict == "supported":
            summary = (
                "One layer of attention can look up one thing, but not a thing that depends on "
                "what it finds; a second layer can."
            )
        elif verdict == "partly supported":
            summary = "A second layer of attention helps with a lookup in the result of another."
        else:
            summary = "A second layer of attention did not clearly help with lookups."
        return Judgment(verdict, summary, f"{explanation}.")

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The share of correct outputs over the number of steps."""
        axes = figure.subplots()
        hops = numbers["hops"]
        for layers, rows in numbers["correct"].items():
            color, style = _COLORS[int(layers)], _MARKERS[int(layers)]
            label = f"{layers} layer{'' if layers == '1' else 's'}"
            axes.plot(
                range(len(hops)), [mean(row) for row in rows], style, color=color, label=label
            )
            for index, row in enumerate(rows):
                axes.plot([index] * len(row), row, "_", color=color, alpha=0.6)
        axes.set_xticks(range(len(hops)), [str(count) for count in hops])
        axes.set_ylim(-0.04, 1.06)
        axes.legend(frameon=False, loc="center left")
        label_axes(axes, "Following pointers", "steps to follow", "share of correct outputs")


def pointer_task(hops: int) -> ToyTask:
    """Output, at each position, what is found after following the numbers several times."""

    def draw(rng: random.Random, length: int) -> tuple[list[int], list[int]]:
        source = [rng.randrange(length) for _ in range(length)]
        target = source
        for _ in range(hops):
            target = [source[position] for position in target]
        return source, target

    return ToyTask(draw, _LENGTH, _LENGTH, _LENGTH)
