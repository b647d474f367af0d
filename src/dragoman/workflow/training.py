"""Train a model on a prepared corpus."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.distributed.fsdp import FSDPModule

from dragoman import __version__
from dragoman.dashboard.page import PAGE, write_page
from dragoman.dashboard.recorder import SampleRecorder
from dragoman.dashboard.run_data import read_heading, read_run
from dragoman.dashboard.samples import keep_samples
from dragoman.dashboard.server import DashboardServer
from dragoman.data.batch import Batch
from dragoman.data.store import Prepared
from dragoman.errors import Stopped
from dragoman.evaluation.validation import ValidationSet
from dragoman.interop.compatibility.table import summary
from dragoman.recipe.schema import Recipe
from dragoman.recipe.weaknesses import known_weaknesses
from dragoman.storage.mirror import local_path, read_text
from dragoman.training.averaging import ExponentialMovingAverage
from dragoman.training.builders import (
    build_feed,
    build_objective,
    choose_micro_batches,
    run_precision,
)
from dragoman.training.card import Card
from dragoman.training.device import (
    device_name,
    is_compiled,
    restored_torch_settings,
    use_precision,
    use_threads,
)
from dragoman.training.events import Message, Scores, TrainingEvent, TrainingSummary
from dragoman.training.feed import to_tensors
from dragoman.training.finish import export_to_ctranslate2, finish_run
from dragoman.training.journal import JOURNAL, SAMPLES, Journal
from dragoman.training.loss import Objective
from dragoman.training.optimizer import build_optimizers
from dragoman.training.parallel import Learner, join_world
from dragoman.training.run_folder import Run, opened
from dragoman.training.signals import StopRequest, stop_on_signals
from dragoman.training.state import TrainingState
from dragoman.training.trainer import EndReason, Trainer
from dragoman.workflow.recipe import open_recipe

OnProgress = Callable[[TrainingEvent], None]
GENERAL_TOLERANCE = 2
"""A checkpoint may lose so many times `adaptation.max_general_loss`: on a small validation set,
chance alone moves BLEU by a point. The gate tests the chosen one on more sentences."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A finished run."""

    folder: Path
    """The run folder, which is now a model folder."""
    card: Card
    was_finished: bool
    """True if the run was already finished before this call, so that nothing was trained."""


def train(
    recipe: Recipe | str | Path,
    settings: Sequence[str] = (),
    *,
    on_progress: OnProgress | None = None,
    dashboard_port: int | None = None,
) -> TrainingResult:
    """Train the model of a recipe on its prepared corpus.

    A second call resumes an interrupted run. After a signal (SIGTERM, Ctrl-C), this function saves
    a checkpoint and raises `Stopped`. `on_progress` receives all events, on every rank. With
    `dashboard_port` (0 = any free port), the main rank serves a page to watch the training, and
    records sample translations at each validation; a `Message` has its address.
    """
    full_recipe, base_folder = open_recipe(recipe, settings)
    report = on_progress or (lambda event: None)
    folder = local_path(full_recipe.training.folder, base_folder)
    recipe_name = "RECIPE" if isinstance(recipe, Recipe) else str(recipe)
    prepare_command = shlex.join(["dragoman", "prepare", recipe_name, *settings])
    prepared = Prepared.open(local_path(full_recipe.corpus.folder, base_folder), prepare_command)
    with (
        restored_torch_settings(),
        join_world() as world,
        opened(folder, world, lambda text: report(Message(0, text))) as (folder, store),
        stop_on_signals() as stop,
    ):
        use_threads(full_recipe.training)
        run = Run(folder, base_folder, full_recipe, prepared, world, store)
        run.begin()
        trainer = _build_trainer(run, stop, report)
        trainer.resume()
        # Ranks wait for each other in the first update, but not as long as a fetch may take.
        trainer.feed.sampler.fetch_first(trainer.state.position)
        world.barrier(is_slow=True)
        first_step = trainer.state.step
        report(_summary(run, trainer))
        if first_step == 0:
            lines = [*summary(full_recipe), *known_weaknesses(full_recipe)]
            report(Message(0, "\n".join(lines)))
        with _open_journal(run, trainer), _watched(run, trainer, dashboard_port):
            return _train_and_finish(run, trainer)


def _train_and_finish(run: Run, trainer: Trainer) -> TrainingResult:
    first_step = trainer.state.step
    trainer.run()
    step = trainer.state.step
    if not trainer.end_reason:
        raise Stopped(f"stopped and saved at update {step}; run the same command to continue")
    was_finished = step == first_step
    trainer.report(Message(step, _end_text(run, trainer.end_reason, was_finished)))
    card = finish_run(run, trainer, __version__)
    if run.world.is_main:
        problem = export_to_ctranslate2(run)
        if problem:
            trainer.report(Message(step, problem))
        try:
            write_page(run.folder / PAGE, [read_run(run.folder)])
        except OSError as error:  # The model is complete without it.
            trainer.report(Message(step, f"no {PAGE}: {error.strerror}"))
        if run.store is not None:
            run.store.upload_model()
    return TrainingResult(run.folder, card, was_finished)


def _build_trainer(run: Run, stop: StopRequest, report: OnProgress) -> Trainer:
    settings, world = run.settings, run.world
    autocast = use_precision(run_precision(run), world.device)
    objective = build_objective(run)
    run.check_disk_space(sum(parameter.numel() for parameter in objective.parameters()))
    feed = build_feed(run, choose_micro_batches(run, objective), objective.model.max_positions)
    learner = Learner(objective, world)
    parameters, decay = learner.named_parameters, settings.ema_decay
    return Trainer(
        settings=settings,
        seed=run.recipe.seed,
        state=TrainingState(),
        learner=learner,
        optimizers=build_optimizers(parameters, settings, objective.model.layer_matrices()),
        average=ExponentialMovingAverage(parameters, decay) if decay else None,
        feed=feed,
        world=world,
        autocast=autocast,
        score=_scorer(run, objective),
        max_general_loss=(
            GENERAL_TOLERANCE * run.recipe.adaptation.max_general_loss
            if _has_general(run)
            else None
        ),
        checkpoints=run.checkpoints,
        stop=stop,
        report=report,
    )


def _scorer(run: Run, objective: Objective) -> Callable[[], Scores]:
    """Return a function that scores the objective's current weights on the validation sets."""
    max_positions = objective.model.max_positions
    validation_set = _validation_set(run, "validation", max_positions)
    general_set = _validation_set(run, "general", max_positions) if _has_general(run) else None

    def batch_loss(batch: Batch) -> float:
        with torch.no_grad():
            return float(objective.validation_loss(to_tensors(batch, run.world.device)))

    def score() -> Scores:
        general_bleu = None if general_set is None else general_set.bleu(objective)
        return Scores(validation_set.loss(batch_loss), validation_set.bleu(objective), general_bleu)

    return score


def _has_general(run: Run) -> bool:
    """Whether the prepared corpus has a second validation set, of general text."""
    return "general.source" in run.prepared.manifest.files


def _validation_set(run: Run, name: str, max_positions: int | None) -> ValidationSet:
    sides = []
    for side in ("source", "target"):
        # Not `Path.read_text`: a carriage return inside a sentence would end a line.
        text = read_text(run.prepared.folder / f"{name}.{side}")
        sides.append(text.split("\n")[:-1][: run.settings.validation_pairs])
    return ValidationSet(
        sources=sides[0],
        references=sides[1],
        tokenizers=run.tokenizers,
        recipe=run.recipe,
        device=run.world.device,
        max_positions=max_positions,
    )


@contextlib.contextmanager
def _watched(run: Run, trainer: Trainer, port: int | None) -> Iterator[None]:
    """Serve the dashboard, if a port is given, and record samples; the main rank does both."""
    if not run.world.is_main:
        yield
        return
    step = trainer.state.step
    keep_samples(run.folder, step)
    if port is None:
        yield
        return
    server = DashboardServer(run.folder, read_heading(run.folder), step, port)
    report = trainer.report

    def show(event: TrainingEvent) -> None:
        server.show(event)
        report(event)

    trainer.report = show
    if isinstance(trainer.learner.objective, FSDPModule):
        report(
            Message(step, "the dashboard has no sample translations with training.parallel=fsdp")
        )
    else:
        trainer.record_samples = _sample_recorder(run, trainer)
    report(Message(step, f"dashboard: {server.address}"))
    with server.serving():
        yield


def _sample_recorder(run: Run, trainer: Trainer) -> Callable[[int], None]:
    """Return a function that records samples; after a failure to write them it does nothing."""
    objective = trainer.learner.objective
    validation_set = _validation_set(run, "validation", objective.model.max_positions)
    compiled = is_compiled(run.settings, run.world.device)
    recorder = SampleRecorder(run.folder, validation_set, objective, compiled=compiled)

    def record(step: int) -> None:
        try:
            recorder.record(step)
        except OSError as error:
            trainer.record_samples = None
            text = f"{SAMPLES} cannot be written ({error.strerror}); training continues"
            trainer.report(Message(step, text))

    return record


@contextlib.contextmanager
def _open_journal(run: Run, trainer: Trainer) -> Iterator[None]:
    """Open the journal on the main rank; the other ranks have none."""
    if not run.world.is_main:
        yield
        return
    path, step = run.folder / JOURNAL, trainer.state.step
    with Journal(path, step, has_tensorboard=run.settings.tensorboard) as journal:
        trainer.journal = journal
        yield


def _summary(run: Run, trainer: Trainer) -> TrainingSummary:
    model, settings = run.recipe.model, run.settings
    layers = f"{model.encoder_layers}+{model.decoder_layers} layers"
    return TrainingSummary(
        step=trainer.state.step,
        steps=settings.steps,
        minutes=settings.minutes,
        model=f"{model.architecture}, {layers}, width {model.width}",
        parameters=sum(weight.numel() for weight in trainer.learner.weights().values()),
        pairs=sum(run.prepared.rows),
        device=device_name(run.world.device),
        threads=torch.get_num_threads(),
        precision=run_precision(run),
        world_size=run.world.world_size,
    )


def _end_text(run: Run, reason: EndReason, was_finished: bool) -> str:
    """Return a sentence that says why training ended."""
    settings = run.settings
    reasons = {
        "steps": f"training.steps={settings.steps} is reached",
        "minutes": f"the time limit training.minutes={settings.minutes:g} is reached",
        "patience": f"no improvement in {settings.patience} validations (training.patience)",
    }
    if was_finished:
        return f"this run is already finished: {reasons[reason]}"
    return f"training ended: {reasons[reason]}"
