"""What belongs to a run, and how is it put together?

The folder of a run is claimed by one process at a time. What decides its numbers is written down
when it begins, in `recipe.yaml` and `run.json`, and may not change while it goes on: the settings,
the prepared corpus, the precision, and into how many micro-batches an update is cut.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from dragoman.artifact import (
    CARD,
    Artifact,
    begin_artifact,
    finish_artifact,
    read_artifact,
    tokenizer_hashes,
)
from dragoman.data.sampler import Sampler
from dragoman.data.store import MANIFEST, Prepared
from dragoman.durable import sha256, sweep, write_text
from dragoman.errors import ArtifactError, Mistake, RecipeError, SaveError
from dragoman.model.build import build_model
from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.model.initialisation import initialise
from dragoman.recipe import Recipe, TrainingRecipe
from dragoman.recipe_file import load_recipe
from dragoman.shapes import Tensor
from dragoman.tokenizer.dropout import Dropout
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import Tokenizer
from dragoman.tokenizer.sentencepiece import SentencePiece
from dragoman.training.averaging import mean_of
from dragoman.training.checkpoint import Checkpoints
from dragoman.training.device import choose_precision, is_compiled
from dragoman.training.feed import Feed, Spelling
from dragoman.training.fit import count_micro_batches
from dragoman.training.loss import Objective
from dragoman.training.parallel import World, compile_layers, recompute, shard

_FREE = {"steps", "minutes", "patience", "threshold", "watch", "validate_every"} | {
    *("validation_pairs", "save_every", "keep", "average", "log_every", "tensorboard"),
    *("compile", "parallel", "recompute", "folder"),
}
"""Settings of training that may change while a run goes on: they do not change what it learns
from, though compiling and sharding change draws and last digits."""
JOURNAL, CURVE = "journal.jsonl", "curve.png"
CHECKPOINTS = "checkpoints"
_FACTS = "run.json"


@dataclass(frozen=True, slots=True)
class Run:
    """A claimed folder, the corpus, and what was decided when the run began."""

    folder: Path
    home: Path
    """Where paths in the recipe begin."""
    recipe: Recipe
    prepared: Prepared
    world: World

    @property
    def settings(self) -> TrainingRecipe:
        """The recipe's section on training."""
        return self.recipe.training

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Of the source and of the target."""
        folder = self.prepared.folder / "tokenizer"
        return load_tokenizer(folder / "source"), load_tokenizer(folder / "target")

    def build_objective(self) -> Objective:
        """Build the model with its first weights, in shards where the recipe says so."""
        source, target = self.tokenizers
        settings = self.settings
        with torch.device("meta"):
            model = build_model(self.recipe.model, source.size, target.size)
            objective = Objective(model, settings.label_smoothing, settings.r_drop)
        if settings.recompute:
            recompute(model)
        if is_compiled(settings, self.world.device):
            compile_layers(model)
        if settings.parallel == "fsdp" and self.world.ranks > 1:
            is_low = self.precision == "bfloat16" and self.world.device.type == "cuda"
            shard(objective, torch.bfloat16 if is_low else None)
        objective.to_empty(device=self.world.device)
        initialise(model, self.recipe.seed)
        if settings.start_from and not self._has_begun:
            self._start_from(model)
        return objective.train()

    @property
    def precision(self) -> str:
        """As stored in the run, or as this machine has it."""
        stored: str = self._facts().get(
            "precision", choose_precision(self.settings, self.world.device)
        )
        return stored

    def micro_batches(self, objective: Objective) -> int:
        """Into how many an update is cut: as stored in the run, or as fits."""
        world, facts = self.world, self._facts()
        count = facts.get("micro_batches")
        if count is None:
            own = count_micro_batches(objective, self.settings, self._longest, world.ranks)
            # The most that any rank needs.
            counts = [0.0] * world.ranks
            counts[world.rank] = own
            count = int(max(world.add_up(counts)))
            if world.is_first:
                facts |= {"micro_batches": count, "precision": self.precision}
                self._write_facts(facts)
        if world.ranks > count:
            raise ArtifactError(
                f"this run cuts an update into {count} micro-batches, too few for {world.ranks} "
                f"ranks; start it with at most {count}, or begin a run with a smaller "
                "training.micro_batch"
            )
        if self.settings.parallel == "fsdp" and count % world.ranks:
            raise ArtifactError(
                f"with fsdp each rank must have as many of the {count} micro-batches of an update "
                f"as the others; found {world.ranks} ranks, expected a number that divides {count}"
            )
        return count

    def build_feed(self, micro_batches: int) -> Feed:
        """Build what reads this rank's share."""
        settings, seed = self.settings, self.recipe.seed
        weights = {int(key): value for key, value in self.prepared.manifest["weights"].items()}
        budget = max(settings.tokens_per_update // micro_batches, 1)
        if budget < self._longest:
            raise RecipeError([self._too_small(budget, micro_batches)])
        sampler = Sampler(self.prepared, seed, budget, settings.temperature, weights)
        spelling = None
        if settings.bpe_dropout:
            source, target = self.tokenizers
            if not (isinstance(source, SentencePiece) and isinstance(target, SentencePiece)):
                what = "the prepared tokenizer has no merges to leave out; prepare again, or set 0"
                raise RecipeError([Mistake("training.bpe_dropout", what)])
            rate = settings.bpe_dropout
            dropouts = (Dropout(source, rate, seed), Dropout(target, rate, seed))
            spelling = Spelling((source, target), dropouts)
        world = self.world
        return Feed(sampler, micro_batches, world.rank, world.ranks, world.device, spelling)

    def _too_small(self, budget: int, micro_batches: int) -> Mistake:
        """Say which setting would let the longest pair into a micro-batch."""
        tokens, longest = self.settings.tokens_per_update, self._longest
        name, least = "tokens_per_update", longest * micro_batches
        fitting = tokens // longest
        if self.settings.micro_batch != "auto" and fitting >= self.world.ranks:
            name, least = "micro_batch", -(-tokens // fitting)
        what = (
            f"found {getattr(self.settings, name)}, expected at least {least}: an update is cut "
            f"into {micro_batches} micro-batches of {budget} tokens, and the longest pair has "
            f"{longest} on a side. Or prepare with a smaller corpus.longest"
        )
        return Mistake(f"training.{name}", what)

    def finish(
        self,
        parameters: Mapping[str, Tensor],
        checkpoints: Checkpoints,
        best: int,
        card: dict[str, Any],
    ) -> None:
        """Make the run a model: its best weights, or the mean of its last checkpoints."""
        self.world.wait()  # The first rank may still be tidying up.
        steps = checkpoints.steps()
        wants_best = self.settings.average == 1 and best in steps
        chosen = [best] if wants_best else steps[-self.settings.average :]
        checkpoints.check(chosen)
        model = {name: each.detach() for name, each in parameters.items()}
        prefix = "average." if self.settings.moving_average else ""

        def read(step: int) -> dict[str, Tensor]:
            tensors = {f"{prefix}{name}": torch.empty_like(each) for name, each in model.items()}
            checkpoints.load(step, tensors)
            return {name.removeprefix(prefix): each for name, each in tensors.items()}

        mean = mean_of(read(step) for step in chosen)
        # All ranks take part; the shards of a weight come together.
        whole = {
            name: (each.full_tensor() if isinstance(each, DTensor) else each).cpu()
            for name, each in mean.items()
        }
        if self.world.is_first:
            finish_artifact(self.folder, whole)
            content = {**card, "weights_of_steps": chosen, "corpus_sha256": _corpus(self.prepared)}
            write_text(self.folder / CARD, json.dumps(content, indent=1) + "\n")

    def begin(self) -> None:
        """Write down what decides the run's numbers, or check that it has not changed."""
        facts = self._facts()
        corpus = _corpus(self.prepared)
        if not facts or not self._has_begun:
            facts = {"format": 1, "corpus_sha256": corpus}
        else:
            self._compare(load_recipe(self.folder / "recipe.yaml"))
            if facts["corpus_sha256"] != corpus:
                raise ArtifactError(
                    f"the prepared corpus is not the one that {str(self.folder)!r} began with; "
                    "prepare it as it was, or begin a new run with another training.folder (with "
                    f"training.start_from={self.settings.folder} it begins with these weights)"
                )
        if self.world.is_first:
            sweep(self.folder)
            begin_artifact(self.folder, self.recipe, self.prepared.folder / "tokenizer")
            self._write_facts(facts)
        self.world.wait()

    def check_space(self, objective: Objective, checkpoints: Checkpoints) -> None:
        """Refuse to begin where two checkpoints would not fit on the disk."""
        size = 4 * sum(each.numel() for each in objective.parameters())
        copies = 4 if self.settings.moving_average else 3
        free = shutil.disk_usage(self.folder).free
        if not checkpoints.steps() and free < 2 * copies * size:
            raise SaveError(
                f"{str(self.folder)!r} has {free / 1e9:.1f} GB left, and two checkpoints take "
                f"{2 * copies * size / 1e9:.1f} GB; make room, or choose another training.folder"
            )

    def _compare(self, before: Recipe) -> None:
        """Refuse settings that would make it another run."""
        mistakes = []
        for section in ("languages", "tokenizer", "model", "training"):
            old, new = getattr(before, section), getattr(self.recipe, section)
            for name in type(new).model_fields:
                is_free = section == "training" and name in _FREE
                # A linear schedule is drawn towards the last step.
                is_free &= name != "steps" or self.settings.schedule != "linear"
                was, now = getattr(old, name), getattr(new, name)
                if was != now and not is_free:
                    mistakes.append(Mistake(f"{section}.{name}", f"the run began with {was}"))
        if before.seed != self.recipe.seed:
            mistakes.append(Mistake("seed", f"the run began with {before.seed}"))
        if mistakes:
            mistakes.append(
                Mistake("training.folder", "choose another to begin a new run with these settings")
            )
            raise RecipeError(mistakes)

    def _start_from(self, model: EncoderDecoder) -> None:
        artifact = read_artifact(self.home / self.settings.start_from)
        self._check_origin(artifact)
        checkpoints = Checkpoints(artifact.folder, self.world)
        checkpoints.load(artifact.folder, dict(model.named_parameters()))

    def _check_origin(self, artifact: Artifact) -> None:
        mistakes = []
        for name in type(self.recipe.model).model_fields:
            was, now = getattr(artifact.recipe.model, name), getattr(self.recipe.model, name)
            if was != now and "dropout" not in name:
                what = f"found {now}, but the run that training.start_from names has {was}"
                mistakes.append(Mistake(f"model.{name}", what))
        if tokenizer_hashes(artifact.tokenizer) != tokenizer_hashes(
            self.prepared.folder / "tokenizer"
        ):
            start = self.settings.start_from
            what = f"its words are not this corpus's; prepare with tokenizer.start_from={start}"
            mistakes.append(Mistake("training.start_from", what))
        if mistakes:
            raise RecipeError(mistakes)

    @property
    def _has_begun(self) -> bool:
        """Whether there is something to go on from; before, a recipe may still be corrected."""
        return bool(Checkpoints(self.folder / CHECKPOINTS, self.world).steps())

    @property
    def _longest(self) -> int:
        """The most tokens that a side of a pair has, with its end."""
        return 1 + max((each["longest"] for each in self.prepared.manifest["train"]), default=0)

    def _facts(self) -> dict[str, Any]:
        try:
            facts: dict[str, Any] = json.loads((self.folder / _FACTS).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return facts

    def _write_facts(self, facts: dict[str, Any]) -> None:
        write_text(self.folder / _FACTS, json.dumps(facts, indent=1, sort_keys=True) + "\n")


@contextlib.contextmanager
def claim(folder: Path, world: World) -> Iterator[None]:
    """Let no second trainer write into the folder; the claim ends with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    if not world.is_first:
        yield
        return
    with (folder / ".claim").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise ArtifactError(
                f"{str(folder)!r} is being trained by process {file.read().strip() or 'unknown'}; "
                "wait for it, stop it, or choose another training.folder"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _corpus(prepared: Prepared) -> str:
    return sha256(prepared.folder / MANIFEST)
