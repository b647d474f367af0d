"""C20: do positions at every layer hurt, or do they help?

"You can actually do it everywhere … it doesn't hurt, because you need to know where you are; and
there are models that benefit"                                                  (seed 003)
"""

from __future__ import annotations

from matplotlib.figure import Figure

from dragoman.lab.chance import interval, seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.order import TASKS, contests, floor
from dragoman.lab.style import BLUE, ORANGE, dots, tidy
from dragoman.lab.teaching import accuracies, steps_until_learned

_DEPTHS = {"bottom": ("at the bottom", ORANGE), "every_layer": ("at every layer", BLUE)}
_SLOWER = 0.1
"""To need more than this share of steps more is to be hurt."""
_WORSE = 0.05


class EveryLayer(Experiment):
    """Two tasks of order, learned with positions at the bottom and at every layer."""

    title = "Positions at every layer"
    claim = "Positions that enter at every layer do not hurt, and sometimes help."
    lectures = ("003",)
    method = (
        "Two tasks that are nothing but order are learned by models of two layers, whose sinusoids "
        "are added at the bottom only or again at every layer: a reader says at each place the "
        "symbol three places before, an encoder with its decoder says a sequence backwards. All "
        "else, examples and first weights included, is the same for both."
    )
    criterion = (
        "Compared seed by seed, with 95 % intervals. It does not hurt if in both tasks the steps "
        f"until learned surely grow by no more than {_SLOWER:.0%}, and accuracy surely falls by no "
        f"more than {100 * _WORSE:.0f} points; it helps if in at least one task the steps surely "
        "fall. Holds if both. Does not hold if in a task steps surely grow, or accuracy surely "
        "falls, and may do so by more than that. In part if neither is sure."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Teach both tasks both ways."""
        is_quick = size == "quick"
        steps = {"shifting": 280, "reversing": 180} if is_quick else dict.fromkeys(TASKS, 400)
        pupils = {depth: {"position_depth": depth} for depth in _DEPTHS}
        return contests(pupils, steps, seeds(seed, 3 if is_quick else 8))

    def judge(self, numbers: Numbers) -> Judgement:
        """Compare the two, seed by seed."""
        told, unhurt, helped, hurt = [], [], [], []
        for task, words in TASKS.items():
            bottom, every = (numbers[task][depth] for depth in _DEPTHS)
            before = steps_until_learned(bottom, numbers["steps"][task])
            after = steps_until_learned(every, numbers["steps"][task])
            change = interval([b / a - 1 for a, b in zip(before, after, strict=True)])
            pairs = zip(accuracies(bottom), accuracies(every), strict=True)
            better = interval([b - a for a, b in pairs])
            unhurt.append(change[2] < _SLOWER and better[1] > -_WORSE)
            hurt.append(not unhurt[-1] and (change[1] > 0 or better[2] < 0))
            helped.append(change[2] < 0)
            told.append(
                f"“{words}” takes {interval(before)[0]:.0f} steps with positions at the bottom and "
                f"{interval(after)[0]:.0f} at every layer ({change[0]:+.0%}, from {change[1]:+.0%} "
                f"to {change[2]:+.0%})"
            )
        because = f"{'; '.join(told)}. {floor(numbers)}."
        if all(unhurt) and any(helped):
            return Judgement("holds", because)
        return Judgement("does not hold here" if any(hurt) else "holds in part", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Steps of every seed, with lines between the same seed."""
        for axes, (task, words) in zip(figure.subplots(1, 2), TASKS.items(), strict=True):
            whole = numbers["steps"][task]
            values = [steps_until_learned(numbers[task][each], whole) for each in _DEPTHS]
            for pair in zip(*values, strict=True):
                axes.plot([0, 1], pair, color="black", alpha=0.15, linewidth=1)
            for place, (each, (_, colour)) in enumerate(zip(values, _DEPTHS.values(), strict=True)):
                dots(axes, place, each, interval(each), colour)
            axes.set_xticks(range(2), [label for label, _ in _DEPTHS.values()])
            axes.set_xlim(-0.4, 1.5)
            axes.set_ylim(0, whole * 1.05)
            tidy(axes, f"“{words}”", "sinusoids enter", "steps until learned")
