"""C10: one head cannot attend to two things at once; several heads can.

A query has one focus per head; a verb and a noun need two                              [CS182]

One softmax can divide its weight between two keys, but its output is then the mean of two values.
So the question is whether that mean still separates the two.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    label_axes,
    percent_axis,
    plot_differences,
    plot_seeds,
)
from dragoman.lab.task import ToyTask, pair_rule_task
from dragoman.lab.training import (
    TrainingSetup,
    accuracies,
    build_encoder_only,
    run_trial,
    steps_until_learned,
)
from dragoman.lab.uncertainty import (
    Interval,
    confidence_interval,
    derive_seeds,
    difference_interval,
)
from dragoman.model.record import record

_HEADS = (1, 2, 4)
_LENGTH = 12
_KINDS = 12
"""Symbols, or nouns and verbs; the table of rules has the square of it. With six, one head learns
the whole table too."""
_OFFSETS = (-1, 1)
_MODEL = {"width": 32, "encoder_layers": 1, "feed_forward_width": 64}
_TASKS = {"positions": "separated by position", "kinds": "separated by kind"}
_SHOWN_QUERY = 5
"""The position whose attention weights are shown."""


def noun_and_verb_task(kinds: int, length: int, seed: int = 0) -> ToyTask:
    """One noun and one verb stand anywhere among fillers; each position outputs their rule."""
    rules_rng = random.Random(f"rules {seed}")  # noqa: S311
    rules = [[rules_rng.randrange(kinds) for _ in range(kinds)] for _ in range(kinds)]

    def draw(rng: random.Random, length: int) -> tuple[list[int], list[int]]:
        noun, verb = rng.randrange(kinds), rng.randrange(kinds)
        source = [2 * kinds] * length
        noun_position, verb_position = rng.sample(range(length), 2)
        source[noun_position], source[verb_position] = noun, kinds + verb
        return source, [rules[noun][verb]] * length

    return ToyTask(draw, 2 * kinds + 1, length, length)


class MultiHead(Experiment):
    """One layer and one width, divided among one, two or four heads."""

    title = "Why attention has several heads"
    sources = (
        (
            "CS182",
            "Multi-headed attention",
            "One query cannot focus on two things, such as the verb and the noun, at one time; "
            "several heads query several positions in each layer.",
        ),
        (
            "NLU",
            "Multi-Head attention",
            "Several copies of the attention, each with its own matrices, are computed, and their "
            "outputs are combined.",
        ),
        (
            "NLP10",
            "attention",
            "Each of several queries attends to a different part of the source, and the results "
            "are concatenated.",
        ),
    )
    durations = (30, 360)
    figure_height = 6.0
    claim = (
        "One head cannot attend to two things at once, such as a noun and a verb; several heads "
        "can, because each has its own queries, keys and values."
    )
    method = (
        "A single encoder layer must attend to two positions at once and output what a table of "
        f"{_KINDS * _KINDS} random rules gives for the two symbols. The two are separated either "
        f"by position (one before, one after; any of {_KINDS} symbols at each) or by kind (one of "
        f"{_KINDS} nouns and one of {_KINDS} verbs, anywhere among fillers), as in the lecture's "
        "example. The width is "
        "constant: with more heads, each is smaller."
    )
    criterion = (
        "Supported if, in both tasks, models with two heads have more new examples correct than "
        "models with one (95 % interval of the difference, paired by seed, above zero); partly "
        "supported if in one of them, or if one head learns the task too but needs significantly "
        "more steps (a model that never learns counts as all steps). Models with four heads are "
        "shown, not judged."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train, and record the attention weights of one model per number of heads."""
        is_quick = size == "quick"
        heads = _HEADS[:2] if is_quick else _HEADS
        steps = dict.fromkeys(_TASKS, 300 if is_quick else 1000)
        tasks = {
            "positions": pair_rule_task(_KINDS, _LENGTH, _OFFSETS),
            "kinds": noun_and_verb_task(_KINDS, _LENGTH),
        }
        seeds = derive_seeds(seed, 2 if is_quick else 4)
        numbers: Numbers = {"heads": list(heads), "steps": steps, "maps": {}}
        for name, task in tasks.items():
            numbers[name] = {}
            setup = TrainingSetup(steps[name], batch_size=32, learning_rate=5e-3)
            for count in heads:
                trials = []
                for model_seed in seeds:
                    model = build_encoder_only(task, model_seed, **_MODEL, heads=count)
                    trials.append(run_trial(model, task, setup, model_seed))
                    if name == "positions" and model_seed == seeds[0]:
                        numbers["maps"][str(count)] = _mean_weights(model, task, seed)
                numbers[name][str(count)] = trials
        return numbers

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare two heads with one, paired by seed."""
        sentences, is_better, is_faster, is_better_with_four = [], [], [], []
        for name, label in _TASKS.items():
            one, two = (accuracies(numbers[name][count]) for count in ("1", "2"))
            gain = difference_interval(one, two)
            is_better.append(gain.low > 0)
            steps = [
                steps_until_learned(numbers[name][count], numbers["steps"][name])
                for count in ("1", "2")
            ]
            change = difference_interval(*steps)
            is_faster.append(change.high < 0)
            sentences.append(
                f"{label.capitalize()}, after {numbers['steps'][name]} steps: "
                f"{confidence_interval(one).mean:.0%} with one head, "
                f"{confidence_interval(two).mean:.0%} with two (a gain of {100 * gain.mean:.0f} "
                f"points, from {100 * gain.low:.0f} to {100 * gain.high:.0f}), steps until "
                f"learned (if never, all): {confidence_interval(steps[0]).mean:.0f} and "
                f"{confidence_interval(steps[1]).mean:.0f} "
                f"({change.mean:+.0f}, from {change.low:+.0f} to {change.high:+.0f})"
            )
            if "4" in numbers[name]:
                four = accuracies(numbers[name]["4"])
                gain = difference_interval(one, four)
                is_better_with_four.append(gain.low > 0)
                sentences[-1] += (
                    f"; {confidence_interval(four).mean:.0%} with four (a gain of "
                    f"{100 * gain.mean:.0f} points, from {100 * gain.low:.0f} to "
                    f"{100 * gain.high:.0f})"
                )
        verdict = grade(
            is_supported=all(is_better), is_partly_supported=any(is_better) or any(is_faster)
        )
        explanation = f"Correct examples. {'. '.join(sentences)}."
        summary = _summarize(is_better, is_faster, is_better_with_four)
        return Judgment(verdict, summary, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Accuracy by number of heads, the gain, which decides, and attention weights."""
        (left, gains), (middle, right) = figure.subplots(2, 2)
        for (name, label), color, shift in zip(
            _TASKS.items(), (BLUE, ORANGE), (-0.15, 0.15), strict=True
        ):
            for index, count in enumerate(numbers["heads"]):
                values = accuracies(numbers[name][str(count)])
                plot_seeds(left, index + shift, values, color)
            left.plot([], [], "D", color=color, label=label)
        plot_differences(gains, list(_gains(numbers)))
        gains.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
        label_axes(gains, "Gain over one head (95 %)", "points")
        left.set_xticks(range(len(numbers["heads"])), [str(count) for count in numbers["heads"]])
        left.set_xlim(-0.5, len(numbers["heads"]) - 0.3)
        left.set_ylim(-0.05, 1.05)
        percent_axis(left)
        handles = left.get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower left", ncols=2, frameon=False)
        label_axes(left, "Accuracy of one layer", "heads", "correct examples")
        _draw_weights(middle, numbers["maps"]["1"], "By position:\nweights of one head")
        _draw_weights(right, numbers["maps"]["2"], "By position:\nweights of two heads")
        handles = right.get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower right", ncols=2, frameon=False)


def _gains(numbers: Numbers) -> Iterator[tuple[str, Interval, str]]:
    """For each task, the gain in accuracy of several heads over one, paired by seed."""
    for (name, label), color in zip(_TASKS.items(), (BLUE, ORANGE), strict=True):
        one = accuracies(numbers[name]["1"])
        for count in numbers["heads"][1:]:
            several = accuracies(numbers[name][str(count)])
            yield (
                f"{label.removeprefix('separated ')},\n{count} heads",
                difference_interval(one, several),
                color,
            )


def _summarize(
    is_better: list[bool], is_faster: list[bool], is_better_with_four: list[bool]
) -> str:
    """What was found, for a student."""
    if all(is_better):
        return (
            "After the same training, a layer with two heads uses two words at once in more "
            "sentences correctly than a layer with one head."
        )
    if any(is_better):
        four = is_better_with_four and all(is_better_with_four)
        return (
            "After the same training, a layer with two heads uses two words at once better than a "
            "layer with one head in one of the two tasks; in the other, the gain is not certain"
            f"{', but four heads are better in both' if four else ''}."
        )
    if any(is_faster):
        return (
            "A layer with one head learns to use two words at once as well, but it needs more "
            "training than a layer with two heads."
        )
    return "A layer with two heads is not clearly better at using two words at once than one head."


def _draw_weights(axes: Axes, weights: list[list[float]], title: str) -> None:
    """The weights of each head at one query position, side by side."""
    offsets = torch.arange(len(weights[0])) - _SHOWN_QUERY
    width = 0.8 / len(weights)
    for head, (row, color) in enumerate(zip(weights, (GREEN, PURPLE), strict=False)):
        places = offsets + (head - (len(weights) - 1) / 2) * width
        axes.bar(places, row, width, color=color, label=f"head {head + 1}")
    for offset in _OFFSETS:
        axes.annotate("▾", (offset, 1.0), ha="center")
    axes.set_ylim(0, 1.1)
    axes.set_xlim(-4.5, 4.5)
    axes.set_xticks(range(-4, 5, 2))
    label_axes(axes, title, "key offset (▾ needed)", "weight")


@torch.no_grad()
def _mean_weights(model: torch.nn.Module, task: ToyTask, seed: int) -> list[list[float]]:
    """The weights of every head at one query position, averaged over new examples."""
    examples = task.examples(100, random.Random(f"look {seed}"))  # noqa: S311
    with record(model) as maps:
        model(examples.source, examples.is_real, examples.target)
    weights: list[list[float]] = maps[0].weights.mean(dim=0)[:, _SHOWN_QUERY].tolist()
    return weights
