"""How does a prepared corpus become a model?"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from dragoman import __version__
from dragoman.data.store import Prepared
from dragoman.decoding.engine import within
from dragoman.decoding.pytorch import most_places
from dragoman.errors import Stopped
from dragoman.evaluation.development import Development
from dragoman.exporting.capability.table import summary
from dragoman.model.cost import measure
from dragoman.recipe_file import load_recipe
from dragoman.training.averaging import MovingAverage
from dragoman.training.checkpoint import Checkpoints
from dragoman.training.curve import draw_curve
from dragoman.training.device import keep_memory, keeping_precision, use_precision
from dragoman.training.journal import Journal, read_journal
from dragoman.training.optimizer import build_optimizers
from dragoman.training.parallel import Learner, join_world
from dragoman.training.run import CHECKPOINTS, CURVE, JOURNAL, Run, claim
from dragoman.training.signals import StopSign, listen
from dragoman.training.trainer import Event, Scores, State, Told, Trainer


def train(recipe: Path, overrides: Sequence[str] = ()) -> Iterator[Event]:
    """Train the model of a recipe on what was prepared; run again, it goes on."""
    settings = load_recipe(recipe, overrides)
    home = recipe.resolve().parent
    folder = home / settings.training.folder
    prepared = Prepared.open(home / settings.corpus.folder)
    keep_memory()
    with keeping_precision(), join_world() as world, claim(folder, world), listen() as stop:
        run = Run(folder, home, settings, prepared, world)
        run.begin()
        trainer = _build(run, stop)
        yield from trainer.go_on()
        if trainer.state.step == 0:
            yield Told(0, "\n".join(summary(settings)))
        with _journal(run, trainer):
            yield from trainer.run()
        if trainer.is_stopped:
            raise Stopped(f"stopped and saved at step {trainer.state.step}; run it again to go on")
        card = _card(run, trainer)
        parameters = trainer.learner.named_parameters
        run.finish(parameters, trainer.checkpoints, trainer.state.best_step, card)
        if world.is_first:
            title = f"{settings.languages.source}–{settings.languages.target}, {card['cost']}"
            draw_curve(read_journal(folder / JOURNAL), folder / CURVE, title)
        words = f"{card['cost']}\nthe model: {os.path.relpath(folder)}"
        yield Told(trainer.state.step, words)


def _build(run: Run, stop: StopSign) -> Trainer:
    """Bring everyone together who works on a run."""
    settings, world = run.settings, run.world
    checkpoints = Checkpoints(run.folder / CHECKPOINTS, world)
    forward = use_precision(run.precision, world.device)
    objective = run.build_objective()
    run.check_space(objective, checkpoints)
    feed = run.build_feed(run.micro_batches(objective))
    learner = Learner(objective, world)
    parameters, decay = learner.named_parameters, settings.moving_average
    development = _development(run, most_places(objective.model))

    def validate() -> Scores:
        return Scores(development.loss(objective), development.bleu(objective))

    return Trainer(
        settings=settings,
        seed=run.recipe.seed,
        state=State(),
        learner=learner,
        optimizers=build_optimizers(parameters, settings),
        average=MovingAverage(parameters, decay) if decay else None,
        feed=feed,
        world=world,
        forward=forward,
        validate=validate,
        checkpoints=checkpoints,
        stop=stop,
    )


@contextlib.contextmanager
def _journal(run: Run, trainer: Trainer) -> Iterator[None]:
    """Open the journal for the first rank; the others write none."""
    if not run.world.is_first:
        yield
        return
    path, step = run.folder / JOURNAL, trainer.state.step
    with Journal(path, step, has_board=run.settings.tensorboard) as journal:
        trainer.journal = journal
        yield


def _development(run: Run, places: int | None) -> Development:
    """The development text, or its beginning where it is long; a model may have few places."""
    sides = []
    for side in ("source", "target"):
        text = (run.prepared.folder / f"development.{side}").read_text(encoding="utf-8")
        sides.append(text.split("\n")[:-1][: run.settings.validation_pairs])
    greedy = within(run.recipe.decoding, places).model_copy(update={"search": "greedy"})
    return Development(sides[0], sides[1], run.tokenizers, greedy, run.world.device)


def _card(run: Run, trainer: Trainer) -> dict[str, Any]:
    """What the model cost, and how good it is."""
    state = trainer.state
    pairs = max(state.pairs, 1)
    lengths = (round(state.source_tokens / pairs), round(state.target_tokens / pairs))
    # The recipe may ask for more words than the text had.
    words = run.recipe.tokenizer.model_copy(update={"vocabulary_size": run.tokenizers[1].size})
    trained = run.recipe.model_copy(update={"tokenizer": words})
    # Three times forward: backward costs twice as much. At the mean length, so a little low.
    # R-Drop reads each pair twice.
    readings = state.pairs * (2 if run.settings.r_drop else 1)
    flops = 3 * measure(trained, *(max(each, 1) for each in lengths)).flops * readings
    hours = state.seconds / 3600
    tokens = state.source_tokens + state.target_tokens
    device = run.world.device.type
    name = torch.cuda.get_device_name() if device == "cuda" else device
    best = state.best if state.watch == "bleu" or state.best is None else -state.best
    size = f"{flops:.2g} FLOPs, {hours:.2f} h, {tokens / 1e6:.1f} M tokens"
    return {
        "dragoman": __version__,
        "cost": f"{state.step:,} updates, {size}",
        "flops": flops,
        "hours": round(hours, 4),
        "ranks": run.world.ranks,
        "device": name,
        "threads": torch.get_num_threads(),
        "updates": state.updates,
        "pairs": state.pairs,
        "source_tokens": state.source_tokens,
        "target_tokens": state.target_tokens,
        "development": {state.watch: best, "step": state.best_step},
        "recipe": run.recipe.model_dump(mode="json"),
    }
