"""C20: adding positions at every layer does not hurt, and sometimes helps.

Positions at every layer do no harm, because each layer needs them; some models gain  [APPLY-DL]
"""

from __future__ import annotations

from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict, grade
from dragoman.lab.order_tasks import TASKS, compare_on_order_tasks, describe_control
from dragoman.lab.style import BLUE, ORANGE, label_axes, plot_seeds
from dragoman.lab.training import accuracies, steps_until_learned
from dragoman.lab.uncertainty import confidence_interval, derive_seeds, difference_interval

_DEPTHS = {"bottom": ("first layer", ORANGE), "every_layer": ("every layer", BLUE)}
_MAX_SLOWDOWN = 0.1
"""A larger relative increase in steps is harmful."""
_MAX_LOSS = 0.05
_SUMMARIES: dict[Verdict, str] = {
    "supported": (
        "Adding positions at every layer did no harm, and the networks learned faster with it"
    ),
    "partly supported": (
        "Adding positions at every layer did no clear harm, but it was not shown that it both "
        "never harms and sometimes helps."
    ),
    "not supported": (
        "In at least one task, adding positions at every layer made learning slower or worse."
    ),
}


class PositionEveryLayer(Experiment):
    """Two tasks of word order, with positions at the first layer and at every layer."""

    title = "Positions at every layer"
    sources = (
        (
            "APPLY-DL",
            "questions",
            "The positional encoding can be put at every layer: it does not hurt, and some models "
            "benefit from it.",
        ),
    )
    durations = (28, 300)
    claim = "Positions that are added at every layer do not hurt, and sometimes help."
    method = (
        "Models of two layers learn two tasks that depend only on word order. Sinusoids are added "
        "at the first layer only, or again at every layer. An encoder-only model outputs at each "
        "position the symbol three positions before; an encoder with a decoder outputs a sequence "
        "in reverse. Everything else, examples and initial weights included, is the same for both."
    )
    criterion = (
        "Compared pairwise by seed, with 95 % intervals. It does not hurt if in both tasks the "
        f"steps until learned increase by less than {_MAX_SLOWDOWN:.0%} and accuracy drops by less "
        f"than {100 * _MAX_LOSS:.0f} points, each with its whole interval; it helps if in at least "
        "one task the steps decrease significantly. Supported if both; not supported if in one "
        "task steps increase significantly or accuracy drops significantly, and the limits above "
        "are not kept; otherwise partly supported."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train both tasks with both settings."""
        is_quick = size == "quick"
        steps = {"shifting": 280, "reversing": 180} if is_quick else dict.fromkeys(TASKS, 400)
        models = {depth: {"position_depth": depth} for depth in _DEPTHS}
        return compare_on_order_tasks(models, steps, derive_seeds(seed, 2 if is_quick else 8))

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare the two settings, paired by seed."""
        sentences, is_harmless, helps, hurts = [], [], [], []
        for task, label in TASKS.items():
            bottom, every = (numbers[task][depth] for depth in _DEPTHS)
            before = steps_until_learned(bottom, numbers["steps"][task])
            after = steps_until_learned(every, numbers["steps"][task])
            change = confidence_interval([b / a - 1 for a, b in zip(before, after, strict=True)])
            gain = difference_interval(accuracies(bottom), accuracies(every))
            is_harmless.append(change.high < _MAX_SLOWDOWN and gain.low > -_MAX_LOSS)
            hurts.append(not is_harmless[-1] and (change.low > 0 or gain.high < 0))
            helps.append(change.high < 0)
            sentences.append(
                f"“{label}” takes {confidence_interval(before).mean:.0f} steps with positions at "
                f"the first layer and {confidence_interval(after).mean:.0f} at every layer "
                f"({change.mean:+.0%}, from {change.low:+.0%} to {change.high:+.0%})"
            )
        explanation = f"{'; '.join(sentences)}. {describe_control(numbers)}."
        verdict = grade(
            is_supported=all(is_harmless) and any(helps), is_partly_supported=not any(hurts)
        )
        summary = _SUMMARIES[verdict]
        if verdict == "supported":
            summary += " in both tasks." if all(helps) else " in one of the two tasks."
        return Judgment(verdict, summary, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Steps of every seed; a line connects the same seed."""
        for axes, (task, label) in zip(figure.subplots(1, 2), TASKS.items(), strict=True):
            all_steps = numbers["steps"][task]
            columns = [steps_until_learned(numbers[task][depth], all_steps) for depth in _DEPTHS]
            for pair in zip(*columns, strict=True):
                axes.plot([0, 1], pair, color="black", alpha=0.15, linewidth=1)
            for index, (steps, (_, color)) in enumerate(
                zip(columns, _DEPTHS.values(), strict=True)
            ):
                plot_seeds(axes, index, steps, color)
            axes.set_xticks(range(2), [name for name, _ in _DEPTHS.values()])
            axes.set_xlim(-0.4, 1.5)
            axes.set_ylim(0, all_steps * 1.05)
            label_axes(axes, f"“{label}”", "sinusoids added at", "steps until learned")
