"""C23: positions can be added to the word vectors or concatenated with them.

emb(xₜ) + pₜ   or   [emb(xₜ); pₜ]               [CS182]
qₜ + pₜ, kₜ + pₜ, vₜ + pₜ                       [CS224N] (for comparison only)
"""

from __future__ import annotations

from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict, grade
from dragoman.lab.order_tasks import MODEL, TASKS, compare_on_order_tasks, describe_control
from dragoman.lab.style import BLUE, GRAY, ORANGE, label_axes, percent_axis, plot_seeds
from dragoman.lab.training import accuracies, curve_steps, steps_until_learned
from dragoman.lab.uncertainty import confidence_interval, derive_seeds

_ENTRIES = {
    "added": ("added", BLUE),
    "concatenated": ("concatenated", ORANGE),
    "projected": ("to q, k and v", GRAY),
}
_SHORT_NAMES = {"shifting": "three before", "reversing": "reverse"}
_MIN_ACCURACY, _MAX_CONTROL = 0.95, 0.5
_SUMMARIES: dict[Verdict, str] = {
    "supported": (
        "The network learns word order reliably, whether positions are added to the words or "
        "concatenated with them."
    ),
    "partly supported": (
        "Only one of the two ways, adding positions to the words or concatenating both, lets the "
        "network learn word order reliably."
    ),
    "not supported": (
        "Neither adding positions to the words nor concatenating both lets the "
        "network learn word order reliably."
    ),
    "inconclusive": "A network without positions solves a task too, so the tasks test nothing.",
}


class PositionEntry(Experiment):
    """Two tasks of word order, with positions added, concatenated, or in attention."""

    title = "Positions added or concatenated"
    sources = (
        (
            "CS182",
            "Positional encoding",
            "The position vector is added to the embedding of the word, or concatenated with it.",
        ),
        (
            "CS224N",
            "Fixing the first self-attention problem: sequence order",
            "Position vectors are added to the inputs, written as added to values, queries and "
            "keys.",
        ),
    )
    durations = (30, 382)
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
        "adding and concatenating work; partly supported if one does; inconclusive if the control "
        f"model without positions gets more than {_MAX_CONTROL:.0%} of either task correct. The "
        "third method does not count."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train both tasks with each method."""
        is_quick = size == "quick"
        steps = {"shifting": 280, "reversing": 260} if is_quick else dict.fromkeys(TASKS, 600)
        entries = list(_ENTRIES)[:2] if is_quick else list(_ENTRIES)
        models = {entry: {"position_entry": entry} for entry in entries}
        results = compare_on_order_tasks(models, steps, derive_seeds(seed, 1 if is_quick else 6))
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
        verdict = grade(
            is_supported=works["added"] and works["concatenated"],
            is_partly_supported=works["added"] or works["concatenated"],
        )
        if max(numbers["without"].values()) > _MAX_CONTROL:
            verdict = "inconclusive"
        return Judgment(verdict, _SUMMARIES[verdict], explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The accuracy that decides, and the loss of every seed."""
        decisive, *panels = figure.subplots(1, 3, width_ratios=(1.2, 1, 1))
        for index, entry in enumerate(numbers["entries"]):
            for shift, task in ((-0.2, "shifting"), (0.2, "reversing")):
                plot_seeds(
                    decisive, index + shift, accuracies(numbers[task][entry]), _ENTRIES[entry][1]
                )
        decisive.axhline(_MIN_ACCURACY, color="black", linestyle=":", linewidth=0.9)
        names = [_ENTRIES[entry][0] for entry in numbers["entries"]]
        decisive.set_xticks(range(len(names)), names, fontsize=8, rotation=20)
        decisive.set_xlim(-0.5, len(names) - 0.3)
        decisive.set_ylim(-0.05, 1.05)
        percent_axis(decisive)
        label_axes(
            decisive, "Accuracy (left: three\nbefore, right: reverse)", "", "correct examples"
        )
        for axes, (task, label) in zip(panels, _SHORT_NAMES.items(), strict=True):
            x = curve_steps(numbers["steps"][task])
            for entry in numbers["entries"]:
                color = _ENTRIES[entry][1]
                for trial in numbers[task][entry]:
                    axes.plot(x, trial["curve"], color=color, alpha=0.8, linewidth=1)
            label_axes(axes, f"Loss,\n{label}", "steps", "")
            axes.set_ylim(bottom=0)
        panels[0].set_ylabel("nats per symbol")
