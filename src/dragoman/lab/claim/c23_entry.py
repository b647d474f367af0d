"""C23: may positions be added to words or concatenated with them, whichever one likes?

emb(xₜ) + pₜ   or   [emb(xₜ); pₜ]               (seed 004)
qₜ + pₜ, kₜ + pₜ, vₜ + pₜ                       (seed 001, looked at beside them)
"""

from __future__ import annotations

from matplotlib.figure import Figure

from dragoman.lab.chance import interval, seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size, Verdict
from dragoman.lab.order import MODEL, TASKS, contests, floor
from dragoman.lab.style import BLUE, GREY, ORANGE, tidy
from dragoman.lab.teaching import CURVE, accuracies, steps_until_learned

_ENTRIES = {
    "added": ("added", BLUE),
    "concatenated": ("concatenated", ORANGE),
    "projected": ("to q, k and v", GREY),
}
_WORKS, _FLOOR = 0.95, 0.5


class Entry(Experiment):
    """Two tasks of order, learned with positions that enter in each way."""

    title = "Added or concatenated"
    claim = "Positions may be added to the words' vectors or concatenated with them: either works."
    lectures = ("001", "004")
    method = (
        "Two tasks that are nothing but order are learned by models of two layers: a reader says "
        "at each place the symbol three places before, an encoder with its decoder says a "
        f"sequence backwards. Sinusoids are added to the {MODEL['width']} features of a word, or "
        f"take {MODEL['position_features']} of these for themselves; the full run shows the third "
        "way of the lectures too, into queries, keys and values."
    )
    criterion = (
        "A way works if in both tasks it says new examples without a fault, in the mean over seeds "
        f"at least {_WORKS:.0%} of them by the near end of the 95 % interval. Holds if both adding "
        "and concatenating work, in part if one does; not if a pupil that is told no places says "
        f"more than {_FLOOR:.0%} of either task. The third way does not decide."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Teach both tasks in each way."""
        is_quick = size == "quick"
        steps = {"shifting": 280, "reversing": 260} if is_quick else dict.fromkeys(TASKS, 600)
        entries = list(_ENTRIES)[:2] if is_quick else list(_ENTRIES)
        pupils = {entry: {"position_entry": entry} for entry in entries}
        found = contests(pupils, steps, seeds(seed, 2 if is_quick else 6))
        return {"entries": entries, **found}

    def judge(self, numbers: Numbers) -> Judgement:
        """Ask of each way whether it works."""
        told, works = [], {}
        for entry in numbers["entries"]:
            trials = {task: numbers[task][entry] for task in TASKS}
            ends = [interval(accuracies(each)) for each in trials.values()]
            steps = [
                interval(steps_until_learned(each, numbers["steps"][task]))[0]
                for task, each in trials.items()
            ]
            works[entry] = all(low >= _WORKS for _, low, _ in ends)
            told.append(
                f"{_ENTRIES[entry][0]}: {ends[0][0]:.1%} and {ends[1][0]:.1%} without a fault, "
                f"learned after {steps[0]:.0f} and {steps[1]:.0f} steps"
            )
        names = " and ".join(f"“{words}”" for words in TASKS.values())
        because = f"On {names}: {'; '.join(told)}. {floor(numbers)}."
        is_order = max(numbers["without"].values()) <= _FLOOR
        count = (works["added"] + works["concatenated"]) if is_order else 0
        verdicts: tuple[Verdict, ...] = ("does not hold here", "holds in part", "holds")
        return Judgement(verdicts[count], because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Curves of every seed."""
        panels = figure.subplots(1, 2, sharey=True)
        for axes, (task, words) in zip(panels, TASKS.items(), strict=True):
            across = [(each + 0.5) * numbers["steps"][task] / CURVE for each in range(CURVE)]
            for entry in numbers["entries"]:
                label, colour = _ENTRIES[entry]
                for number, each in enumerate(numbers[task][entry]):
                    axes.plot(across, each["curve"], color=colour, label="" if number else label)
            tidy(axes, f"“{words}”", "steps", "nats a symbol" if axes is panels[0] else "")
            axes.set_ylim(bottom=0)
        panels[1].legend(frameon=False, title="positions")
