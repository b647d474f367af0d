"""Turns a finished run into a model folder: weights, card, curve and CTranslate2 export."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

import torch
from torch.distributed.tensor import DTensor

from dragoman.artifact import finish_artifact
from dragoman.errors import DragomanError
from dragoman.interop.compatibility.ctranslate2 import export_obstacles
from dragoman.interop.folder import FOLDER
from dragoman.model.cost import measure
from dragoman.shapes import Tensor
from dragoman.training.averaging import mean_of
from dragoman.training.card import BestValidation, Card
from dragoman.training.curve import draw_curve
from dragoman.training.device import device_name
from dragoman.training.events import Message
from dragoman.training.journal import JOURNAL, read_journal
from dragoman.training.run_folder import CURVE, Run
from dragoman.training.trainer import Trainer


def finish_run(run: Run, trainer: Trainer, version: str) -> Card:
    """Write weights, card and curve; all ranks call this. `version` is that of Dragoman."""
    parameters = trainer.learner.weights()
    steps = _chosen_steps(run, trainer.state.best_step)
    best = trainer.state.best_step
    if run.settings.average_checkpoints == 1 and best and steps != (best,):
        text = f"the best checkpoint, of update {best:,}, was not saved; the model is that of "
        trainer.report(Message(trainer.state.step, f"{text}update {steps[0]:,}"))
    weights = average_checkpoints(run, parameters, steps)
    card = make_card(run, trainer, steps, version)
    if run.world.is_main:
        write_model(run, weights, card)
        languages = run.recipe.languages
        title = f"{languages.source}–{languages.target}, {card.cost}"
        entries = read_journal(run.folder / JOURNAL)
        draw_curve(entries, run.folder / CURVE, title, run.settings.label_smoothing)
    return card


def write_model(run: Run, weights: Mapping[str, Tensor], card: Card) -> None:
    """Write the weights, which complete the model folder, and the card."""
    finish_artifact(run.folder, weights)
    card.write(run.folder)


def _chosen_steps(run: Run, best_step: int) -> tuple[int, ...]:
    """Return the steps of the checkpoints that become the model: the best, or the last ones."""
    run.world.barrier()  # The main rank may still be removing checkpoints.
    steps = run.checkpoints.steps()
    count = run.settings.average_checkpoints
    chosen = [best_step] if count == 1 and best_step in steps else steps[-count:]
    run.checkpoints.check(chosen)
    return tuple(chosen)


def average_checkpoints(
    run: Run, parameters: Mapping[str, Tensor], steps: tuple[int, ...]
) -> dict[str, Tensor]:
    """Return the mean of the weights of these checkpoints; of their moving averages if present."""
    prefix = "average." if run.settings.ema_decay else ""

    def read(step: int) -> dict[str, Tensor]:
        tensors = {f"{prefix}{name}": torch.empty_like(value) for name, value in parameters.items()}
        run.checkpoints.load(step, tensors)
        return {name.removeprefix(prefix): value for name, value in tensors.items()}

    mean = mean_of(read(step) for step in steps)
    # All ranks take part, to put the shards of each weight together.
    return {
        name: (value.full_tensor() if isinstance(value, DTensor) else value).cpu()
        for name, value in mean.items()
    }


def make_card(run: Run, trainer: Trainer, steps: tuple[int, ...], version: str) -> Card:
    """Compute the facts of the card."""
    state = trainer.state
    pairs = max(state.pairs, 1)
    lengths = [round(tokens / pairs) for tokens in (state.source_tokens, state.target_tokens)]
    # The vocabulary can be smaller than the recipe allows.
    size = run.tokenizers[1].size
    tokenizer = run.recipe.tokenizer.model_copy(update={"vocabulary_size": size})
    trained = run.recipe.model_copy(update={"tokenizer": tokenizer})
    # A backward pass costs twice a forward pass. All pairs count with the mean length, so the
    # result is a little low. R-Drop reads each pair twice.
    passes = state.pairs * (2 if run.settings.r_drop else 1)
    cost = measure(trained, *(max(length, 1) for length in lengths))
    flops = 3 * cost.flops * passes
    hours = state.seconds / 3600
    tokens = (state.source_tokens + state.target_tokens) / 1e6
    best = state.best_value
    if best is not None and state.best_metric == "loss":
        best = -best
    return Card(
        dragoman=version,
        cost=f"{state.step:,} updates, {flops:.2g} FLOPs, {hours:.2f} h, {tokens:.1f} M tokens",
        flops=flops,
        hours=round(hours, 4),
        cpu_hours=None if state.cpu_seconds is None else round(state.cpu_seconds / 3600, 4),
        world_size=run.world.world_size,
        device=device_name(run.world.device),
        threads=torch.get_num_threads(),
        parameters=sum(weight.numel() for weight in trainer.learner.weights().values()),
        updates=state.updates,
        pairs=state.pairs,
        source_tokens=state.source_tokens,
        target_tokens=state.target_tokens,
        validation=BestValidation(
            metric="loss" if state.best_metric == "loss" else "bleu",
            value=best,
            step=state.best_step,
        ),
        ended_by=trainer.end_reason or "steps",
        checkpoint_steps=steps,
        corpus_sha256=run.corpus_sha256,
        recipe=run.recipe,
    )


def export_to_ctranslate2(run: Run) -> str:
    """Write `ctranslate2/` into the run, so that translating needs no torch.

    Return an empty text, or the reason why there is no export. The model is complete without it.
    """
    mistakes = export_obstacles(run.recipe)
    if mistakes:
        reasons = "; ".join(f"{mistake.path}: {mistake.what}" for mistake in mistakes)
        return f"no CTranslate2 export, the model runs with PyTorch only ({reasons})"
    if importlib.util.find_spec("ctranslate2") is None:
        return "no CTranslate2 export, because the package ctranslate2 is not installed"
    from dragoman.interop.ctranslate2 import export  # noqa: PLC0415  (an extra)

    try:
        # An export of an earlier model of this run is out of date. The parts are the user's own.
        export(run.folder, run.folder / FOLDER, force=True, trust_parts=True)
    except (DragomanError, OSError) as error:
        return f"no CTranslate2 export: {error}"
    return ""
