"""The folder of a run, and the facts that must not change while the run is resumed.

    recipe.yaml, tokenizer/      written when the run starts
    run.json                     the facts below
    checkpoints/, journal.jsonl  written while it trains, samples.jsonl with `--dashboard`
    model.safetensors, format.json, card.json, curve.png, dashboard.html, ctranslate2/
                                 written at the end

The facts and most settings decide the numbers of a run. A run that is resumed with other values is
refused, with all differences at once.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.artifact import CHECKPOINTS, begin_artifact
from dragoman.data.store import Prepared
from dragoman.errors import ArtifactError, Mistake, RecipeError, SaveError
from dragoman.recipe.files import load_recipe
from dragoman.recipe.schema import Recipe, TrainingRecipe
from dragoman.storage.files import remove_partials, write_text
from dragoman.storage.lock import FolderLockedError, lock_folder
from dragoman.storage.mirror import locate, path_text
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import Tokenizer
from dragoman.training.checkpoint import Checkpoints
from dragoman.training.parallel import World
from dragoman.training.run_store import FACTS, RunStore, open_store_folder

CURVE = "curve.png"

CHANGEABLE = {
    "training": {
        *("steps", "minutes", "patience", "min_delta", "best_metric", "validate_every"),
        *("validation_pairs", "save_every", "keep_checkpoints", "average_checkpoints"),
        *("log_every", "tensorboard", "compile", "parallel", "activation_checkpointing"),
        *("threads", "folder"),
    },
    "adaptation": {
        "max_general_loss",
        "p_value",
        "max_word_loss",
        "max_span_loss",
        "max_dropped",
        "replay",
    },
}
"""Settings that may change when a run is resumed: they do not change the data or the
updates. Compilation, sharding and threads can change the last digits of a sum."""


class RunFacts(BaseModel):
    """What is decided once, when a run starts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    corpus_sha256: str
    """Hash of the content of the prepared corpus. Older versions wrote that of its manifest."""
    micro_batches: int | None = None
    """Micro-batches per update; None before they are counted."""
    precision: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder that this process has locked, with its recipe and its corpus."""

    folder: Path
    base_folder: Path
    """The folder that paths in the recipe are relative to."""
    recipe: Recipe
    prepared: Prepared
    world: World
    store: RunStore | None = None
    """The folder in a store that is published; then `folder` is this machine's working folder."""

    @property
    def settings(self) -> TrainingRecipe:
        """The training section of the recipe."""
        return self.recipe.training

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of source and target."""
        folder = self.prepared.folder / "tokenizer"
        return load_tokenizer(folder / "source"), load_tokenizer(folder / "target")

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of the run."""
        if self.store is not None:
            return self.store.checkpoints
        return Checkpoints(self.folder / CHECKPOINTS, self.world)

    @property
    def has_checkpoints(self) -> bool:
        """Whether there is something to resume; before that, the recipe may still change."""
        return bool(self.checkpoints.steps())

    @property
    def corpus_sha256(self) -> str:
        """Hash of the content of the prepared corpus."""
        return self.prepared.manifest.content_sha256

    @property
    def longest_pair(self) -> int:
        """The most tokens of one side of a training pair, with its end token."""
        shards = self.prepared.manifest.train
        return 1 + max((shard.longest for shard in shards), default=0)

    def begin(self) -> None:
        """Write the facts of a new run, or check that those of an old run still hold."""
        facts = self.read_facts()
        if facts is None or not self.has_checkpoints:
            self._check_corpus()
            facts = RunFacts(corpus_sha256=self.corpus_sha256)
        else:
            self._check_settings(load_recipe(self.folder / "recipe.yaml"))
            if not self.prepared.has_hash(facts.corpus_sha256):
                raise ArtifactError(
                    f"the prepared corpus is not the one that {path_text(self.folder)!r} began "
                    "with; prepare it as before, or start a new run with another training.folder "
                    f"(with training.init_from={self.settings.folder} it starts with these weights)"
                )
        if self.world.is_main:
            remove_partials(self.folder)
            begin_artifact(self.folder, self.recipe, self.prepared.folder / "tokenizer")
            if self.store is not None:
                self.store.upload_beginning()
            self.write_facts(facts)
        elif self.store is not None and self.world.is_node_main:
            # What this machine fetched can be older than what the main rank has just written.
            self._write_local_facts(facts)
        self.world.barrier(is_slow=True)

    def read_facts(self) -> RunFacts | None:
        """Read `run.json`; None if the run is new."""
        try:
            return RunFacts.model_validate_json((self.folder / FACTS).read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError:
            raise ArtifactError(
                f"{FACTS} of {path_text(self.folder)!r} cannot be read; expected the facts of a "
                "run. Restore the file, or start a new run with another training.folder"
            ) from None

    def write_facts(self, facts: RunFacts) -> None:
        """Write `run.json`."""
        self._write_local_facts(facts)
        if self.store is not None:
            self.store.upload_facts()

    def _write_local_facts(self, facts: RunFacts) -> None:
        content = json.dumps(facts.model_dump(exclude_none=True), indent=1, sort_keys=True)
        write_text(self.folder / FACTS, content + "\n")

    def check_disk_space(self, parameters: int) -> None:
        """Refuse to start if two checkpoints do not fit on the disk."""
        copies = 4 if self.settings.ema_decay else 3
        needed = 2 * copies * 4 * parameters
        free = shutil.disk_usage(self.folder).free
        if not self.has_checkpoints and free < needed:
            raise SaveError(
                f"the disk of {path_text(self.folder)!r} has {free / 1e9:.1f} GB left, but two "
                f"checkpoints need {needed / 1e9:.1f} GB; free some space, or choose another "
                "training.folder"
            )

    def _check_corpus(self) -> None:
        """Refuse a corpus that was prepared for other languages or with another tokenizer."""
        manifest = self.prepared.manifest
        checked = [("languages", name) for name in ("source", "target")]
        # A vocabulary that is reused has the size that it has.
        if manifest.tokenizer is not None and not manifest.tokenizer.init_from:
            checked += [("tokenizer", name) for name in ("kind", "vocabulary_size", "shared")]
        mistakes = []
        for section, name in checked:
            found = getattr(getattr(self.recipe, section), name)
            prepared = getattr(getattr(manifest, section), name)
            if prepared not in (found, ""):  # Empty: not stored by an older version.
                what = f"found {found!r}, but the corpus was prepared with {prepared!r}"
                mistakes.append(Mistake(f"{section}.{name}", what))
        if mistakes:
            raise RecipeError(
                mistakes,
                "Type `dragoman prepare` with this recipe, or choose another corpus.folder",
            )

    def _check_settings(self, before: Recipe) -> None:
        """Refuse settings that would make it a different run."""
        mistakes = []
        for section in ("languages", "tokenizer", "model", "training", "adaptation"):
            old, new = getattr(before, section), getattr(self.recipe, section)
            for name in type(new).model_fields:
                may_change = name in CHANGEABLE.get(section, ())
                if name == "steps" and self.settings.schedule == "linear":
                    may_change = False  # The learning rate depends on the last step.
                old_value, new_value = getattr(old, name), getattr(new, name)
                if old_value != new_value and not may_change:
                    what = f"found {new_value}, but the run began with {old_value}"
                    mistakes.append(Mistake(f"{section}.{name}", what))
        if before.seed != self.recipe.seed:
            what = f"found {self.recipe.seed}, but the run began with {before.seed}"
            mistakes.append(Mistake("seed", what))
        if mistakes:
            raise RecipeError(
                mistakes,
                "To start a new run with these settings, choose another folder, for example: "
                "training.folder=run-2",
            )


@contextlib.contextmanager
def opened(
    folder: Path, world: World, report: Callable[[str], None]
) -> Iterator[tuple[Path, RunStore | None]]:
    """Lock a run folder; give the local folder to work in, and the store if the run is in one."""
    url = locate(folder)
    if url is None:
        with locked(folder, world):
            yield folder, None
        return
    with open_store_folder(url, world, report) as store:
        yield store.folder, store


@contextlib.contextmanager
def locked(folder: Path, world: World) -> Iterator[None]:
    """Lock the folder, so that no second process trains in it."""
    if not world.is_main:
        yield
        return
    try:
        lock = contextlib.ExitStack()
        lock.enter_context(lock_folder(folder))
    except FolderLockedError as error:
        raise ArtifactError(
            f"{str(folder)!r} is being trained by process {error.pid}; "
            "wait for it, stop it, or choose another training.folder"
        ) from None
    with lock:
        yield
