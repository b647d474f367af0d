"""C23: positions can be added to the word vectors or concatenated with them.

emb(xₜ) + pₜ   or   [emb(xₜ); pₜ]               [CS182]
qₜ + pₜ, kₜ + pₜ, vₜ + pₜ                       [CS224N] (for comparison only)
"""

from __future__ import annotations

from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict
from dragoman.lab.order_tasks import MODEL, TASKS, compare_on_order_tasks, describe_control
from dragoman.lab.style import BLUE, GRAY, ORANGE, label_axes
from dragoman.lab.training import accuracies, curve_steps, steps_until_learned
from dragoman.lab.uncertainty import confidence_interval, derive_seeds

_ENTRIES = {
    "added": ("added", BLUE),
    "concatenated": ("concatenated", ORANGE),
    "projected": ("to q, k and v", GRAY),
}
_MIN_ACCURACY, _MAX_CONTROL = 0.95, 0.5


class PositionEntry(Experiment):
    """Two tasks of word order, with positions added, concatenated, or in attention."""

    title = "Positions added or concatenated"
    lectures = ("CS224N", "CS182")
    durations = (77, 382)
    claim = "Positions can be added to the word vectors or concatenated with them: both work."
    method = (
        "Models of two layers learn two tasks that depend only on word order: an encoder-only "
        "model outputs at each position the symbol three positions before; an encoder with a "
        f"decoder outputs a sequence in reverse. Sinusoids are added to the {MODEL['width']} "
        f"features of a word, or take {MODEL['position_features']} of these features. The full "
        "size also shows the third method of the lectures: added to queries, keys and values."
    )
    criterion = (
        "A method works if in both tasks the mean share of correct new examples is at least "
        f"{_MIN_ACCURACY:.0%}, by the lower end of the 95 % interval over seeds. Supported if both "
        "adding and concatenating work; partly supported if one does; not supported if the control "
        f"model without positions gets more than {_MAX_CONTROL:.0%} of either task correct. The "
        "third method does not count."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train both tasks with each method."""
        is_quick = size == "quick"
        steps = {"shifting": 280, "reversing": 260} if is_quick else dict.fromkeys(TASKS, 600)
        entries = list(_ENTRIES)[:2] if is_quick else list(_ENTRIES)
        models = {entry: {"position_entry": entry} for entry in entries}
        results = compare_on_order_tasks(models, steps, derive_seeds(seed, 2 if is_quick else 6))
        return {"entries": entries, **results}

    def judge(self, numbers: Numbers) -> Judgment:
        """Check whether each method works."""
        sentences, works = [], {}
        for entry in numbers["entries"]:
            trials = {task: numbers[task][entry] for task in TASKS}
            shares = [confidence_interval(accuracies(rows)) for rows in trials.values()]
            steps = [
                confidence_interval(steps_until_learned(rows, numbers["steps"][task])).mean
                for task, rows in trials.items()
            ]
            works[entry] = all(share.low >= _MIN_ACCURACY for share in shares)
            sentences.append(
                f"{_ENTRIES[entry][0]}: {shares[0].mean:.1%} and {shares[1].mean:.1%} correct, "
                f"learned after {steps[0]:.0f} and {steps[1]:.0f} steps"
            )
        names = " and ".join(f"“{label}”" for label in TASKS.values())
        explanation = f"On {names}: {'; '.join(sentences)}. {describe_control(numbers)}."
        needs_positions = max(numbers["without"].values()) <= _MAX_CONTROL
        count = (works["added"] + works["concatenated"]) if needs_positions else 0
        verdicts: tuple[Verdict, ...] = ("not supported", "partly supported", "supported")
        return Judgment(verdicts[count], explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Loss curves of every seed."""
        panels = figure.subplots(1, 2, sharey=True)
        for axes, (task, label) in zip(panels, TASKS.items(), strict=True):
            x = curve_steps(numbers["steps"][task])
            for entry in numbers["entries"]:
                name, color = _ENTRIES[entry]
                for number, trial in enumerate(numbers[task][entry]):
                    axes.plot(x, trial["curve"], color=color, label="" if number else name)
            y_label = "loss, nats per symbol" if axes is panels[0] else ""
            label_axes(axes, f"“{label}”", "steps", y_label)
            axes.set_ylim(bottom=0)
        panels[1].legend(frameon=False, title="positions")
