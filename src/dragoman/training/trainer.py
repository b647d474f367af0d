"""How does a model learn?

Step by step: read, go forward and backward, add up, update; now and then look at the development
text, and save. The loop stands in `Trainer.run`, from top to bottom.

A step is a function of the weights, the moments, and its number: which pairs it reads follows from
the place in the stream, all chance from (seed, step, micro-batch). So a run that was killed and
goes on is the run that was not, bit for bit.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch.distributed.checkpoint.api import CheckpointException

from dragoman.data.sampler import Place
from dragoman.errors import DivergedError, SaveError
from dragoman.recipe import TrainingRecipe
from dragoman.shapes import Tensor
from dragoman.training.averaging import MovingAverage
from dragoman.training.checkpoint import Checkpoints
from dragoman.training.feed import Feed, Step
from dragoman.training.journal import Journal
from dragoman.training.optimizer import (
    learning_rate,
    moments,
    set_learning_rate,
    set_updates,
    shorten,
)
from dragoman.training.parallel import Learner, World
from dragoman.training.signals import StopSign

SKIPS_WINDOW = 1000
MOST_SKIPS = 20
"""More skipped steps than this within the window, and the run has diverged."""
MOST_FAILED_SAVES = 3


class Scores(NamedTuple):
    """How good a model is on the development text."""

    loss: float
    """Of a token, without smoothing."""
    bleu: float


class Learned(NamedTuple):
    """Some steps later."""

    step: int
    loss: float
    """Of a token, smoothed as the recipe says, over the steps since the last of these."""
    learning_rate: float
    gradient: float
    """The length of the last gradient, before it was cut."""
    tokens_per_second: float
    """Target tokens, in this process's time."""


class Validated(NamedTuple):
    """The development text was translated."""

    step: int
    scores: Scores
    is_best: bool


class Told(NamedTuple):
    """Something that a person should know."""

    step: int
    words: str


Event = Learned | Validated | Told


@dataclass(slots=True)
class State:
    """Everything that a run must remember besides tensors; plain numbers."""

    step: int = 0
    updates: int = 0
    """Steps that changed the weights; others were skipped."""
    place: Place = field(default_factory=Place)
    pairs: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    loss_tokens: int = 0
    """Summed since the journal's last line."""
    watch: str = "bleu"
    """What the best is measured by."""
    best: float | None = None
    best_step: int = 0
    validations_without_gain: int = 0
    skipped: list[int] = field(default_factory=list)
    """The steps skipped within the window."""
    unplanned: list[int] = field(default_factory=list)
    """Steps saved because of a stop; a run that was not stopped has no such checkpoints."""

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> State:
        """Read what `asdict` wrote."""
        return cls(**stored | {"place": Place(*stored["place"])})


@dataclass(slots=True)
class Trainer:
    """One run, with everyone who works on it."""

    settings: TrainingRecipe
    seed: int
    state: State
    learner: Learner
    optimizers: list[torch.optim.Optimizer]
    average: MovingAverage | None
    feed: Feed
    world: World
    forward: AbstractContextManager[None]
    """What a forward pass runs in."""
    validate: Callable[[], Scores]
    checkpoints: Checkpoints
    stop: StopSign
    journal: Journal | None = None
    """Only the first rank has one."""
    is_stopped: bool = False
    failed_saves: int = 0

    def run(self) -> Iterator[Event]:
        """Learn until the end, or until asked to stop."""
        settings, state = self.settings, self.state
        if self._is_over():
            return
        began = logged = time.monotonic()
        before, tokens = state.seconds, state.target_tokens
        for work in self.feed.steps(state.place):
            state.step += 1
            rate = learning_rate(settings, state.step)
            length, asked_to_stop = self._update(work, rate)
            state.place = work.then
            state.seconds = before + time.monotonic() - began
            if length is None:
                yield self._skip()
            elif state.step % settings.log_every == 0:
                speed = (state.target_tokens - tokens) / (time.monotonic() - logged)
                logged, tokens = time.monotonic(), state.target_tokens
                yield self._log(rate, length, speed)
            is_over = self._is_over()
            if state.step % settings.validate_every == 0 or is_over:
                yield self._validate()
                logged = time.monotonic()
                is_over = self._is_over()
            is_due = state.step % settings.save_every == 0 or state.best_step == state.step
            if not is_due and (is_over or asked_to_stop):
                state.unplanned.append(state.step)
            if is_due or is_over or asked_to_stop:
                yield from self._save()
            if is_over or asked_to_stop:
                if self.failed_saves:
                    raise SaveError(f"the last step is not saved; the newest is {self._newest()}")
                self.is_stopped = not is_over
                return

    def tensors(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """All that must be saved: the model's, and the optimizers' with the average."""
        model = self.learner.named_parameters
        others = moments(self.optimizers, model)
        if self.average is not None:
            others |= {f"average.{key}": value for key, value in self.average.weights.items()}
        return {name: each.detach() for name, each in model.items()}, others

    def go_on(self) -> Iterator[Event]:
        """Go on from the newest checkpoint, if there is one."""
        found = self.checkpoints.newest()
        if found is None:
            return
        model, others = self.tensors()
        self.checkpoints.load(found.folder, model | others)
        self.state = State.from_json(found.state)
        set_updates(self.optimizers, self.state.updates)
        self._tidy_up()
        for reason in found.passed_over:
            yield Told(self.state.step, reason)

    def _update(self, work: Step, rate: float) -> tuple[float | None, bool]:
        """Learn one step; give the gradient's length, or None where the step was skipped."""
        state, micro_batches = self.state, self.feed.micro_batches
        losses, counts = [0.0] * micro_batches, [0] * micro_batches
        for number, batch in work.batches.items():
            torch.manual_seed(_chance(self.seed, state.step, number))
            with self.forward:
                losses[number] = self.learner.learn(batch, is_last=number == max(work.batches))
            counts[number] = work.target_tokens[number]
        # Each number is other than zero on one rank only, so all get the same, in the same order.
        shared = self.world.add_up(
            [*losses, *counts, work.pairs, work.source_tokens, float(self.stop.is_up)]
        )
        loss, tokens = sum(shared[:micro_batches]), sum(shared[micro_batches : 2 * micro_batches])
        state.pairs += int(shared[-3])
        state.source_tokens += int(shared[-2])
        state.target_tokens += int(tokens)
        length = shorten(self.learner.parameters, tokens, self.settings.clip)
        is_finite = abs(loss) < float("inf") and length < float("inf")
        if is_finite:
            set_learning_rate(self.optimizers, rate)
            for optimizer in self.optimizers:
                optimizer.step()
            state.updates += 1
            state.loss += loss
            state.loss_tokens += int(tokens)
            if self.average is not None:
                self.average.follow(state.updates)
        self.learner.forget()
        return length if is_finite else None, shared[-1] > 0

    def _log(self, rate: float, length: float, speed: float) -> Learned:
        state = self.state
        mean = state.loss / max(state.loss_tokens, 1)
        state.loss, state.loss_tokens = 0.0, 0
        learned = Learned(state.step, mean, rate, length, speed)
        self._write("learned", **learned._asdict(), seconds=round(state.seconds, 3))
        return learned

    def _skip(self) -> Told:
        """Leave a step out whose loss or gradient is not a number; too many end the run."""
        state = self.state
        recent = [step for step in state.skipped if step > state.step - SKIPS_WINDOW]
        state.skipped = [*recent, state.step]
        self._write("skipped", step=state.step, place=list(state.place))
        if len(state.skipped) > MOST_SKIPS:
            raise DivergedError(
                f"training has diverged: {len(state.skipped)} of the last {SKIPS_WINDOW} steps "
                f"gave no finite loss or gradient, the latest at step {state.step}. The newest "
                f"checkpoint ({self._newest()}) is from before it and is kept. Try a lower "
                "training.learning_rate, a longer training.warmup, or precision: float32, in a "
                "new training.folder"
            )
        return Told(state.step, "skipped: its loss or gradient is not finite")

    def _validate(self) -> Validated:
        state, settings = self.state, self.settings
        averaged = nullcontext() if self.average is None else self.average.in_place()
        with averaged, self.learner.evaluating(), self.forward:
            scores = self.validate()
        # What follows is decided by these numbers, so all ranks take the first one's.
        scores = Scores(*self.world.add_up(scores if self.world.is_first else (0.0, 0.0)))
        if state.watch != settings.watch:  # Points and nats cannot be compared: begin anew.
            state.watch, state.best = settings.watch, None
        value = scores.bleu if settings.watch == "bleu" else -scores.loss
        is_best = state.best is None or value > state.best + settings.threshold
        if is_best:
            state.best, state.best_step, state.validations_without_gain = value, state.step, 0
        else:
            state.validations_without_gain += 1
        self._write("validated", step=state.step, **scores._asdict(), is_best=is_best)
        return Validated(state.step, scores, is_best)

    def _is_over(self) -> bool:
        """Whether the recipe says that it is enough. All ranks must say the same."""
        settings, state = self.settings, self.state
        is_late = bool(settings.minutes) and state.seconds >= 60 * settings.minutes
        if settings.minutes:
            is_late = self.world.add_up([float(is_late and self.world.is_first)])[0] > 0
        is_tired = 0 < settings.patience <= state.validations_without_gain
        return state.step >= settings.steps or is_late or is_tired

    def _save(self) -> Iterator[Event]:
        """Save; a full disk is told, and is fatal only when it stays full."""
        state, problem = self.state, ""
        model, others = self.tensors()
        try:
            self.checkpoints.save(state.step, model, others, asdict(state))
        except (OSError, SafetensorError, CheckpointException) as error:
            problem = str(error) or type(error).__name__
        if self.world.add_up([float(bool(problem))], is_slow=True)[0] == 0:
            self.failed_saves = 0
            self._tidy_up()
            return
        self.failed_saves += 1
        self._write("not_saved", step=state.step, reason=problem)
        words = f"not saved: {problem}; the newest checkpoint is {self._newest()}"
        if self.failed_saves >= MOST_FAILED_SAVES:
            raise SaveError(f"{self.failed_saves} saves failed one after the other; {words}")
        yield Told(state.step, words)

    def _tidy_up(self) -> None:
        """Keep the newest checkpoints and the best: up to here, and as if there were no stops."""
        settings, state = self.settings, self.state
        if self.world.is_first:
            planned = {each for each in self.checkpoints.steps() if each < state.step}
            newest = [*sorted(planned.difference(state.unplanned)), state.step]
            kept = newest[-max(settings.keep, settings.average) :]
            self.checkpoints.keep_only({*kept, state.best_step})

    def _newest(self) -> str:
        steps = self.checkpoints.steps()
        return f"of step {steps[-1]}" if steps else "none"

    def _write(self, kind: str, step: int, **facts: Any) -> None:
        if self.journal is not None:
            with contextlib.suppress(OSError):  # A full disk ends a run by its checkpoints only.
                self.journal.write(kind, step, **facts)


def _chance(seed: int, step: int, micro_batch: int) -> int:
    """The seed of all chance in one micro-batch."""
    digest = hashlib.blake2b(f"{seed} {step} {micro_batch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
