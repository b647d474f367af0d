"""C26: narrow, standard and wide heads compared in quality, parameters and time.

    narrow     each head sees its own slice of the input: matrices of M/H × M/H
    standard   each head sees the whole input: matrices of M/H × M
    wide       each head sees the whole input: matrices of M × M             [NLU]

M is the width, H the number of heads. Bare heads, which have no weights, are included as a lower
bound. In a toy model the heads are a small part of the time, so their cost is also measured at the
width of the paper's base model.
"""

from __future__ import annotations

import time
from itertools import pairwise

import torch
from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict, grade
from dragoman.lab.style import BLUE, GRAY, GREEN, ORANGE, label_axes, plot_seeds
from dragoman.lab.task import pair_rule_task
from dragoman.lab.training import (
    TrainingSetup,
    accuracies,
    compare_models,
    steps_until_learned,
)
from dragoman.lab.uncertainty import confidence_interval, derive_seeds, difference_interval
from dragoman.model.attention import SelfAttention
from dragoman.model.initialization import initialize
from dragoman.model.parts import Position
from dragoman.model.resolve import resolve_parts
from dragoman.recipe.schema import ModelRecipe

_MODEL = {"width": 32, "heads": 4, "encoder_layers": 1, "feed_forward_width": 64}
_KINDS = {"bare": GRAY, "narrow": ORANGE, "standard": BLUE, "wide": GREEN}
_ORDER = ("narrow", "standard", "wide")
_LARGE_WIDTH, _LARGE_HEADS = 512, 8
"""Of the paper's base model."""
_BATCH, _LENGTH = 4, 32
_ROUNDS = {"quick": 5, "full": 25}
_COSTS = ("parameters", "seconds")
_MIN_RATIO = 1.1
"""A time counts as longer from this multiple on."""


class HeadKinds(Experiment):
    """One layer, one task, every kind of head."""

    title = "Narrow, standard and wide heads"
    sources = (
        (
            "NLU",
            "Multi-Head attention",
            "Narrow self-attention cuts the input into one chunk per head, with small matrices; "
            "wide self-attention has matrices for each head that cover the whole input.",
        ),
    )
    durations = (26, 310)
    claim = (
        "Heads can be narrow (each sees a slice of the input) or wide (each sees all of it, with "
        "matrices as large as the model). The lecture lists them; that a head that sees more, "
        "or has larger matrices, learns better and costs more, is our reading."
    )
    method = (
        f"Encoder-only models of one layer with {_MODEL['heads']} heads and one width, which "
        "differ only in the kind of head, attend to two positions at once and learn a table of "
        "rules for the symbols there. Quality is the number of steps until the task is learned. "
        "The cost is that of one self-attention layer at the width of the paper's base model, "
        f"{_LARGE_WIDTH} with {_LARGE_HEADS} heads: its parameters are counted, and its processor "
        f"time forward and backward is measured on {_BATCH} sentences of {_LENGTH} words, the "
        "minimum of several rounds. The time of a step of the toy model is shown too. The figure "
        "also has bare heads, which compare the states themselves, without matrices; they are not "
        "judged."
    )
    criterion = (
        "Cost increases if the parameters of the layer grow from narrow to standard to wide, and "
        f"its time grows by a factor of at least {_MIN_RATIO} each time. Quality increases if the "
        "steps until learned decrease significantly from narrow to standard and from standard to "
        "wide (a model that never learns counts as all steps). Significant means that the 95 % "
        "interval of the difference, paired by seed, excludes zero. Supported if both increase; "
        "partly supported if parameters grow and wide heads need significantly fewer steps than "
        "narrow ones."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train one model per kind and seed."""
        steps = 500 if size == "quick" else 1200
        setup = TrainingSetup(steps, batch_size=32, learning_rate=5e-3)
        seeds = derive_seeds(seed, 1 if size == "quick" else 6)
        models = {kind: _MODEL | {"head_kind": kind} for kind in _KINDS}
        return {
            "steps": setup.steps,
            "trials": compare_models(models, pair_rule_task(6, 12, (-1, 1)), setup, seeds),
            "layer": _measure_layers(_ROUNDS[size], seed),
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare neighboring kinds."""
        trials, layer = numbers["trials"], numbers["layer"]
        steps = {kind: steps_until_learned(trials[kind], numbers["steps"]) for kind in _ORDER}
        sizes, seconds = ([layer[kind][name] for kind in _ORDER] for name in _COSTS)

        def is_faster(kind: str, other: str) -> bool:
            return difference_interval(steps[other], steps[kind]).high < 0

        listed = "; ".join(
            f"{kind}: {confidence_interval(steps[kind]).mean:.0f} steps, "
            f"{confidence_interval(accuracies(trials[kind])).mean:.0%} correct; one layer of width "
            f"{_LARGE_WIDTH}: {layer[kind]['parameters']:,} parameters, "
            f"{1000 * layer[kind]['seconds']:.1f} ms"
            for kind in _ORDER
        )
        explanation = f"After at most {numbers['steps']} steps, {listed}."
        is_larger = sizes == sorted(set(sizes))
        is_slower = all(after >= _MIN_RATIO * before for before, after in pairwise(seconds))
        is_better = is_faster("standard", "narrow") and is_faster("wide", "standard")
        verdict = grade(
            is_supported=is_larger and is_slower and is_better,
            is_partly_supported=is_larger and is_faster("wide", "narrow"),
        )
        return Judgment(verdict, _summary(verdict, is_better=is_better), explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Quality on the toy task, then the cost of one large layer."""
        quality, size, time_panel = figure.subplots(1, 3)
        for index, (kind, color) in enumerate(_KINDS.items()):
            layer = numbers["layer"][kind]
            steps = steps_until_learned(numbers["trials"][kind], numbers["steps"])
            plot_seeds(quality, index, steps, color)
            size.bar(index, layer["parameters"] / 1e6, color=color)
            size.text(
                index,
                layer["parameters"] / 1e6,
                f"{layer['parameters'] / 1e6:.2f}",
                ha="center",
                va="bottom",
                fontsize=8,
            )
            milliseconds = 1000 * layer["seconds"]
            time_panel.bar(index, milliseconds, color=color)
            time_panel.text(
                index, milliseconds, f"{milliseconds:.0f}", ha="center", va="bottom", fontsize=8
            )
        quality.axhline(numbers["steps"], color=GRAY, linestyle=":", linewidth=0.9)
        quality.text(
            len(_KINDS) - 0.5,
            numbers["steps"],
            "never learned",
            color=GRAY,
            fontsize=8,
            ha="right",
            va="bottom",
        )
        quality.set_ylim(0, 1.12 * numbers["steps"])
        for axes, title, y_label in (
            (quality, "Quality (toy task)", "steps until learned"),
            (size, f"Size at width {_LARGE_WIDTH}", "million parameters, one layer"),
            (time_panel, f"Time at width {_LARGE_WIDTH}", "ms, forward and backward"),
        ):
            axes.set_xticks(range(len(_KINDS)), list(_KINDS), fontsize=8, rotation=25)
            axes.set_xlim(-0.6, len(_KINDS) - 0.4)
            label_axes(axes, title, "", y_label)


def _summary(verdict: Verdict, *, is_better: bool) -> str:
    if verdict == "supported":
        return (
            "Heads that see the whole input learn faster than heads that see a part of it, wider "
            "matrices help further, and each of these steps costs more."
        )
    if verdict == "not supported":
        return "Heads with more weights did not learn faster."
    if is_better:
        return (
            "Heads that see the whole input learn faster than heads that see a part of it, and "
            "wider matrices help further, but not every one of these steps takes clearly more "
            "time."
        )
    return (
        "Heads that see all of the input learn faster than heads that see a part of it, but more "
        "weights for each head do not always help."
    )


def _measure_layers(rounds: int, seed: int) -> dict[str, dict[str, float]]:
    """The parameters of one layer of each kind, and its fastest time forward and backward.

    The kinds take turns, so that a busy moment of the machine affects all of them.
    """
    torch.manual_seed(seed)
    x = torch.randn(_BATCH, _LENGTH, _LARGE_WIDTH, requires_grad=True)
    mask = torch.ones(_BATCH, 1, 1, _LENGTH, dtype=torch.bool)
    layers: dict[str, tuple[SelfAttention, Position]] = {}
    for kind in _KINDS:
        recipe = {"width": _LARGE_WIDTH, "heads": _LARGE_HEADS, "head_kind": kind, "dropout": 0.0}
        parts = resolve_parts(ModelRecipe.model_validate(recipe))
        layers[kind] = SelfAttention(parts, "encoder"), Position(parts.position_size)
        initialize(layers[kind][0], seed)
    seconds: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    for _ in range(rounds + 1):
        for kind, (layer, position) in layers.items():
            start = time.process_time()
            output, _ = layer(x, mask, position)
            output.sum().backward()
            seconds[kind].append(time.process_time() - start)
    return {
        kind: {
            "parameters": sum(weights.numel() for weights in layer.parameters()),
            "seconds": min(seconds[kind][1:]),  # The first round reserves memory.
        }
        for kind, (layer, _) in layers.items()
    }
