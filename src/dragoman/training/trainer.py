"""The training loop; read `Trainer.run` from top to bottom.

An update depends only on values that a checkpoint stores: weights, optimizer moments, step number
and position in the data stream. All random numbers follow from (seed, step, micro-batch). A run
that was interrupted and resumed is therefore bit-identical, on CPUs, to a run without interruption.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from safetensors import SafetensorError
from torch.distributed.checkpoint.api import CheckpointException

from dragoman.data.sampler import StreamPosition
from dragoman.errors import DivergedError, SaveError
from dragoman.recipe.schema import TrainingRecipe
from dragoman.shapes import Tensor
from dragoman.storage.machine import available_cpus
from dragoman.storage.remote import StorageError
from dragoman.training.averaging import ExponentialMovingAverage
from dragoman.training.checkpoint import Checkpoints
from dragoman.training.events import (
    Message,
    Scores,
    TrainingEvent,
    TrainingProgress,
    UpdateCompleted,
    ValidationResult,
)
from dragoman.training.feed import Feed, TrainingStep
from dragoman.training.journal import EntryKind, Journal
from dragoman.training.optimizer import (
    clip_grad_norm,
    learning_rate,
    moments,
    set_learning_rate,
    set_updates,
)
from dragoman.training.parallel import Learner, World
from dragoman.training.signals import StopRequest
from dragoman.training.state import SKIP_WINDOW, TrainingState
from dragoman.training.timing import SessionTimer

MAX_SKIPS = 20
"""Training has diverged if more than this many of the last `SKIP_WINDOW` steps were skipped."""
MAX_FAILED_SAVES = 3
"""The run ends when this many saves in a row have failed."""
ESTIMATE_AFTER = 10
"""The remaining time is reported after this many updates of a session."""

EndReason = Literal["", "steps", "minutes", "patience"]


class StepTotals(NamedTuple):
    """The sums of one step over all micro-batches and ranks."""

    loss: float
    target_tokens: int
    source_tokens: int
    pairs: int
    is_stop_requested: bool


@dataclass(slots=True)
class Trainer:
    """Trains one model; every rank runs the same loop."""

    settings: TrainingRecipe
    seed: int
    state: TrainingState
    learner: Learner
    optimizers: list[torch.optim.Optimizer]
    average: ExponentialMovingAverage | None
    feed: Feed
    world: World
    autocast: AbstractContextManager[None]
    """Mixed precision, for each forward pass."""
    score: Callable[[], Scores]
    """Scores the model on the validation sets."""
    checkpoints: Checkpoints
    stop: StopRequest
    report: Callable[[TrainingEvent], None]
    """Receives every event, for a display."""
    journal: Journal | None = None
    """Only the main rank has one."""
    record_samples: Callable[[int], None] | None = None
    """Called with the step at each validation, while the weights that it scores are in use."""
    max_general_loss: float | None = None
    """Maximum loss of BLEU on the general validation set; None without such a set."""
    end_reason: EndReason = ""
    """The limit that ended training; empty during training and after a stop request."""
    failed_saves: int = 0
    has_journal_failed: bool = False
    timer: SessionTimer = field(default_factory=lambda: SessionTimer(0.0))

    def run(self) -> None:
        """Train until a limit of the recipe is reached, or until a stop is requested."""
        settings, state = self.settings, self.state
        self.end_reason = self._find_end_reason()
        if self.end_reason:
            return
        self.timer = SessionTimer(state.seconds, state.cpu_seconds or 0.0)
        self._validate_first_weights()
        for data in self.feed.steps(state.position):
            state.step += 1
            lr = learning_rate(settings, state.step)
            totals = self.forward_backward(data)
            grad_norm = clip_grad_norm(
                self.learner.parameters, totals.target_tokens, settings.max_grad_norm
            )
            is_finite = math.isfinite(totals.loss) and math.isfinite(grad_norm)
            if is_finite:
                self.optimizer_step(lr)
            self.learner.zero_grad()
            self._count(totals, data.next_position, is_finite=is_finite)
            if not is_finite:
                self._report_skip()
            elif state.step % settings.log_every == 0:
                self._report_progress(lr, grad_norm)
            self._report_update()

            self.end_reason = self._find_end_reason()
            if state.step % settings.validate_every == 0 or self.end_reason:
                self.validate()
                self.end_reason = self._find_end_reason()
            is_last = bool(self.end_reason) or totals.is_stop_requested
            is_save_due = state.step % settings.save_every == 0 or state.best_step == state.step
            if is_save_due or is_last:
                self.save_checkpoint(is_scheduled=is_save_due, is_last=is_last)
            self.timer.exclude()  # Validation and saving are not part of the training speed.
            if is_last:
                if self.failed_saves:
                    raise SaveError(
                        f"the last update is not saved; newest checkpoint: {self._newest()}. Free "
                        "disk space or check the store, then run the same command to continue"
                    )
                return

    def forward_backward(self, data: TrainingStep) -> StepTotals:
        """Run all micro-batches of this rank, and sum gradients and counts over the ranks."""
        count = self.feed.micro_batches
        losses, target_tokens = [0.0] * count, [0] * count
        for number, batch in data.batches.items():
            torch.manual_seed(_random_seed(self.seed, self.state.step, number))
            is_last = number == max(data.batches)
            with self.autocast:
                losses[number] = self.learner.forward_backward(batch, is_last=is_last)
            target_tokens[number] = data.target_tokens[number]
        # Each micro-batch runs on one rank, so its loss is 0 on all others. All other values are
        # integers. The sums are therefore exact: the same on all ranks, for any number of ranks.
        values: list[float] = [*losses, *target_tokens, data.pairs, data.source_tokens]
        sums = self.world.all_reduce_sum([*values, float(self.stop.is_requested)])
        pairs, source_tokens, stop_requests = sums[2 * count :]
        return StepTotals(
            loss=sum(sums[:count]),
            target_tokens=int(sum(sums[count : 2 * count])),
            source_tokens=int(source_tokens),
            pairs=int(pairs),
            is_stop_requested=stop_requests > 0,
        )

    def optimizer_step(self, lr: float) -> None:
        """Update the weights and their moving average."""
        set_learning_rate(self.optimizers, lr)
        for optimizer in self.optimizers:
            optimizer.step()
        self.state.updates += 1
        if self.average is not None:
            self.average.update(self.state.updates)

    def validate(self) -> None:
        """Score the weights or their moving average on the validation sets; remember the best.

        The best has lost at most `max_general_loss` BLEU on the general set.
        """
        state, settings = self.state, self.settings
        averaged = nullcontext() if self.average is None else self.average.applied()
        with averaged, self.learner.evaluating(), self.autocast:
            scores = self.score()
            if self.record_samples is not None:
                self.record_samples(state.step)
        # All ranks must make the same decisions, so they use the scores of the main rank.
        values = [value for value in scores if value is not None]
        scores = Scores(
            *self.world.all_reduce_sum([value * self.world.is_main for value in values])
        )
        if state.best_metric != settings.best_metric:
            # The recipe has changed since the best score. BLEU and loss cannot be compared.
            state.best_metric, state.best_value = settings.best_metric, None
        value = scores.bleu if settings.best_metric == "bleu" else -scores.loss
        is_better = state.best_value is None or value > state.best_value + settings.min_delta
        # No value is larger than NaN, so NaN would stay the best one to the end.
        is_best = is_better and self._keeps_general_quality(scores) and math.isfinite(value)
        if is_best:
            state.best_value, state.best_step = value, state.step
            state.validations_without_improvement = 0
        else:
            state.validations_without_improvement += 1
        facts = {name: value for name, value in scores._asdict().items() if value is not None}
        self._write("validation", **facts, is_best=is_best)
        self.report(ValidationResult(state.step, scores, is_best))

    def _validate_first_weights(self) -> None:
        """Measure what training can lose. If no update helps, these weights become the model."""
        if self.max_general_loss is not None and self.state.first_general_bleu is None:
            self.validate()
            self.save_checkpoint(is_scheduled=True)
            self.timer.exclude()

    def _keeps_general_quality(self, scores: Scores) -> bool:
        if scores.general_bleu is None or self.max_general_loss is None:
            return True
        if self.state.first_general_bleu is None:
            self.state.first_general_bleu = scores.general_bleu
        return self.state.first_general_bleu - scores.general_bleu <= self.max_general_loss

    def save_checkpoint(self, *, is_scheduled: bool, is_last: bool = False) -> None:
        """Save a checkpoint. Report a failure (a full disk); end the run after several in a row.

        The last one of a session is complete when this returns, also in a store.
        """
        state, problem = self.state, ""
        if not is_scheduled:
            state.unscheduled_saves.append(state.step)
        model, other_tensors = self.tensors()
        try:
            self.checkpoints.save(state.step, model, other_tensors, asdict(state), wait=is_last)
        except (OSError, SafetensorError, CheckpointException, StorageError) as error:
            problem = str(error) or type(error).__name__
        if self.world.all_reduce_sum([float(bool(problem))], is_slow=True)[0] == 0:
            self.failed_saves = 0
            self._remove_old_checkpoints()
            return
        problem = problem or "another rank could not save its part"
        self.failed_saves += 1
        self._write("save_failed", reason=problem)
        text = f"checkpoint not saved: {problem}; newest checkpoint: {self._newest()}"
        if self.failed_saves >= MAX_FAILED_SAVES:
            raise SaveError(f"{self.failed_saves} saves in a row failed; {text}")
        self.report(Message(state.step, text))

    def resume(self) -> None:
        """Load the newest checkpoint, if there is one."""
        checkpoint = self.checkpoints.newest()
        if checkpoint is None:
            return
        model, other_tensors = self.tensors()
        self.checkpoints.load(checkpoint.folder, model | other_tensors)
        self.state = TrainingState.from_json(checkpoint.state)
        set_updates(self.optimizers, self.state.updates)
        self._remove_old_checkpoints()
        for reason in checkpoint.skipped:
            self.report(Message(self.state.step, reason))

    def tensors(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the tensors of a checkpoint: merged weights, then what a resumed run needs."""
        parameters = self.learner.named_parameters
        others = moments(self.optimizers, parameters)
        if self.learner.has_adapters:
            others |= {f"adapter.{name}": value.detach() for name, value in parameters.items()}
        if self.average is not None:
            others |= {f"average.{name}": value for name, value in self.average.weights.items()}
        return self.learner.weights(), others

    def _count(self, totals: StepTotals, position: StreamPosition, *, is_finite: bool) -> None:
        state = self.state
        state.position = position
        state.pairs += totals.pairs
        state.source_tokens += totals.source_tokens
        state.target_tokens += totals.target_tokens
        if is_finite:
            state.loss_since_log += totals.loss
            state.tokens_since_log += totals.target_tokens
        self.timer.count_update(totals.target_tokens)
        state.seconds = self.timer.total_seconds
        if state.cpu_seconds is not None:
            state.cpu_seconds = self.timer.total_cpu_seconds

    def _report_update(self) -> None:
        settings, state, timer = self.settings, self.state, self.timer
        seconds_left = timer.seconds_left(settings.steps - state.step, settings.minutes)
        self.report(UpdateCompleted(state.step, state.seconds, seconds_left))
        if timer.updates == ESTIMATE_AFTER:
            if seconds_left >= 60:
                text = f"estimated remaining time: {round(seconds_left / 60):,} min"
                self.report(Message(state.step, text))
            warning = timer.slow_threads(torch.get_num_threads(), available_cpus())
            if warning and self.world.device.type == "cpu":
                self.report(Message(state.step, warning))

    def _report_progress(self, lr: float, grad_norm: float) -> None:
        state = self.state
        mean_loss = state.loss_since_log / max(state.tokens_since_log, 1)
        state.loss_since_log, state.tokens_since_log = 0.0, 0
        speed = self.timer.tokens_per_second()
        self._write(
            "progress",
            loss=mean_loss,
            learning_rate=lr,
            grad_norm=grad_norm,
            tokens_per_second=speed,
            seconds=round(state.seconds, 3),
        )
        self.report(TrainingProgress(state.step, mean_loss, lr, grad_norm, speed))

    def _report_skip(self) -> None:
        """Report a skipped step; end the run if too many were skipped."""
        state = self.state
        recent = [step for step in state.skipped_steps if step > state.step - SKIP_WINDOW]
        state.skipped_steps = [*recent, state.step]
        self._write("skipped", position=list(state.position))
        if len(state.skipped_steps) > MAX_SKIPS:
            raise DivergedError(
                f"training has diverged: {len(state.skipped_steps)} of the last {SKIP_WINDOW} "
                f"steps were skipped, the last one at step {state.step}, because their loss or "
                f"gradient was not finite. Newest checkpoint: {self._newest()}. Try a lower "
                "training.learning_rate, a larger training.warmup_steps, or "
                "training.precision=float32, in a new training.folder"
            )
        self.report(Message(state.step, "step skipped: its loss or gradient is not finite"))

    def _find_end_reason(self) -> EndReason:
        """Return the limit that training has reached, if any; the result is equal on all ranks."""
        settings, state = self.settings, self.state
        if state.step >= settings.steps:
            return "steps"
        if settings.minutes:  # The clocks of the ranks differ, so the main rank decides.
            is_time_over = self.world.is_main and state.seconds >= 60 * settings.minutes
            if self.world.all_reduce_sum([float(is_time_over)])[0] > 0:
                return "minutes"
        if 0 < settings.patience <= state.validations_without_improvement:
            return "patience"
        return ""

    def _remove_old_checkpoints(self) -> None:
        """Keep the newest checkpoints and the best one.

        Earlier checkpoints that were saved only because of a stop are removed. The folder is then
        the same as in a run without interruptions.
        """
        settings, state = self.settings, self.state
        earlier = {step for step in self.checkpoints.steps() if step < state.step}
        newest = [*sorted(earlier.difference(state.unscheduled_saves)), state.step]
        kept = newest[-max(settings.keep_checkpoints, settings.average_checkpoints) :]
        self.checkpoints.keep_only({*kept, state.best_step})

    def _newest(self) -> str:
        steps = self.checkpoints.steps()
        return f"update {steps[-1]}" if steps else "none"

    def _write(self, kind: EntryKind, **values: Any) -> None:
        """Write to the journal. Training continues after a failure; the first one is reported."""
        if self.journal is None:
            return
        try:
            self.journal.write(kind, self.state.step, **values)
        except OSError as error:
            if not self.has_journal_failed:
                self.has_journal_failed = True
                text = f"the journal cannot be written ({error.strerror}); training continues"
                self.report(Message(self.state.step, text))


def _random_seed(seed: int, step: int, micro_batch: int) -> int:
    """Return the seed of all random numbers of one micro-batch."""
    digest = hashlib.blake2b(f"{seed} {step} {micro_batch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
