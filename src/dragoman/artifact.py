"""The model folder: what training writes, and what translation, evaluation and export read.

    recipe.yaml          every setting, complete
    tokenizer/           source and target
    model.safetensors    the weights
    format.json          the version of this layout, and the SHA-256 of each file above

A folder is a model once `format.json` exists. Readers verify the hashes first. A run is a model
folder that also has checkpoints, a journal and a card. While it is being trained it has no
`format.json`; its checkpoints can be read with `read_unfinished`.

A recipe may name parts by their Python module (`my_parts.gaussian`). Building such a model imports
that module, so a model folder from elsewhere could run code. Both readers therefore refuse modules
outside this package unless the caller passes `trust_parts=True`.

Where a model folder is expected, a folder with several versions of a model can be given: its link
`current` names the version that is used (`adaptation/versions.py`).
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.errors import ArtifactError, RecipeError, SaveError
from dragoman.recipe.files import dump_recipe, load_recipe
from dragoman.recipe.parts import Choice
from dragoman.recipe.schema import Recipe
from dragoman.storage.files import atomic_write, link_or_copy, sha256, verify_hashes, write_text
from dragoman.storage.lease import FOLDER as LEASE
from dragoman.storage.mirror import exists, fetch, local_path, locate, path_text
from dragoman.tokenizer.folder import load_tokenizer

if TYPE_CHECKING:
    from dragoman.model.encoder_decoder import EncoderDecoder
    from dragoman.shapes import Tensor

FORMAT = 1
CARD = "card.json"
"""File of a run: training cost, validation scores and the corpus."""
CHECKPOINTS = "checkpoints"
"""Folder of a run: one folder `step-N` per checkpoint."""
CURRENT = "current"
"""Symbolic link of a model with versions: the folder of the version that is used."""
_FORMAT, _RECIPE, _WEIGHTS, _TOKENIZER = (
    "format.json",
    "recipe.yaml",
    "model.safetensors",
    "tokenizer",
)
_CHECKPOINT = re.compile(r"step-(\d+)")
_EXPORT = "dragoman.json"
"""File of an export (`interop/folder.py`), which is no run."""
_MANIFEST, _STATE, _OPTIMIZER = "manifest.json", "state.json", "optimizer.safetensors"
_AVERAGE = "average."
"""Prefix of the moving average of the weights; a checkpoint stores it with the optimizer."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A model folder whose files match their hashes."""

    folder: Path
    recipe: Recipe
    hashes: Mapping[str, str]
    """SHA-256 of each file, by its path relative to the folder."""
    checkpoint: Path | None = None
    """The checkpoint that the weights are read from, if training is not finished."""

    def weights(self) -> dict[str, Tensor]:
        """Read the weights (needs PyTorch)."""
        from safetensors.torch import load_file  # noqa: PLC0415

        tensors = load_file(self.folder / self.weights_file)
        if self.weights_file.endswith(_OPTIMIZER):
            tensors = {
                name.removeprefix(_AVERAGE): tensor
                for name, tensor in tensors.items()
                if name.startswith(_AVERAGE)
            }
        return tensors

    def model(self) -> EncoderDecoder:
        """Build the model with its weights, in evaluation mode."""
        import torch  # noqa: PLC0415

        from dragoman.model.build import build_model  # noqa: PLC0415

        sizes = [load_tokenizer(self.tokenizer / side).size for side in ("source", "target")]
        with torch.device("meta"):
            model = build_model(self.recipe.model, *sizes)
        model.load_state_dict(self.weights(), assign=True)
        return model.eval().requires_grad_(False)

    @property
    def weights_file(self) -> str:
        """The file with the weights, relative to the folder."""
        if self.checkpoint is None:
            return _WEIGHTS
        name = _OPTIMIZER if self.recipe.training.ema_decay else _WEIGHTS
        return (self.checkpoint / name).relative_to(self.folder).as_posix()

    @property
    def model_hash(self) -> str:
        """SHA-256 of the file with the weights."""
        return self.hashes[self.weights_file]

    @property
    def tokenizer_hashes(self) -> dict[str, str]:
        """SHA-256 of each tokenizer file."""
        return {name: value for name, value in self.hashes.items() if name.startswith(_TOKENIZER)}

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizers."""
        return self.folder / _TOKENIZER


def resolve_model(folder: Path) -> Path:
    """Return the model folder that a path means: of a model with versions, the current version.

    A remote folder is fetched, and its local copy is returned; of a finished run, without its
    checkpoints. A function that reads several files calls this once, because `current` may change
    meanwhile.
    """
    path = local_path(folder)
    is_finished = locate(path) is not None and exists(path / _FORMAT)
    folder = fetch(path, leave_out=(CHECKPOINTS, LEASE) if is_finished else ())
    link = folder / CURRENT
    if not link.is_symlink():
        return folder
    version = folder / os.readlink(link)
    if not version.is_dir():
        raise ArtifactError(
            f"{str(link)!r} points to {os.readlink(link)!r}, which does not exist; to list the "
            f"versions, type: dragoman models list {shlex.quote(str(folder))}"
        )
    return version


def begin_artifact(folder: Path, recipe: Recipe, tokenizer: Path) -> None:
    """Write what is known before training: the recipe and the tokenizers.

    A folder that was a model with another recipe is no model until it is finished again.
    """
    text = dump_recipe(recipe)
    path = folder / _RECIPE
    if path.exists() and path.read_text(encoding="utf-8") != text:
        (folder / _FORMAT).unlink(missing_ok=True)
    write_text(path, text)
    for file in _files(tokenizer):
        link_or_copy(file, folder / _TOKENIZER / file.relative_to(tokenizer))


def finish_artifact(folder: Path, weights: Mapping[str, Tensor]) -> None:
    """Write the weights, and then `format.json`, which makes the folder a model."""
    from safetensors import SafetensorError  # noqa: PLC0415
    from safetensors.torch import save_file  # noqa: PLC0415

    try:
        with atomic_write(folder / _WEIGHTS) as temporary:
            save_file({name: tensor.contiguous() for name, tensor in weights.items()}, temporary)
    except SafetensorError as error:
        raise SaveError(
            f"the model cannot be written to {str(folder)!r}: {error}; free some space, and type "
            "the same command again"
        ) from None
    files = [folder / _RECIPE, *_files(folder / _TOKENIZER), folder / _WEIGHTS]
    hashes = {file.relative_to(folder).as_posix(): sha256(file) for file in files}
    content = json.dumps({"format": FORMAT, "sha256": hashes}, indent=1, sort_keys=True)
    write_text(folder / _FORMAT, content + "\n")


def read_artifact(folder: Path, trust_parts: bool = False) -> Artifact:
    """Open a model folder, or raise with what is wrong with it."""
    folder = resolve_model(folder)
    if not folder.is_dir():
        raise ArtifactError(
            f"there is no folder {path_text(folder)!r}; expected a folder that `dragoman train` "
            "wrote"
        )
    try:
        content = json.loads((folder / _FORMAT).read_text(encoding="utf-8"))
        number, hashes = content["format"], dict(content["sha256"])
    except FileNotFoundError:
        raise ArtifactError(_not_a_model(folder)) from None
    except (ValueError, TypeError, KeyError):
        raise ArtifactError(
            f"{_FORMAT} of {str(folder)!r} cannot be read; copy the folder again from the original"
        ) from None
    if number != FORMAT:
        raise ArtifactError(
            f"{str(folder)!r} has format {number}, expected {FORMAT}; use the version of Dragoman "
            "that wrote it, or train again in another training.folder"
        )
    damaged = list(verify_hashes(folder, hashes))
    if damaged:
        raise ArtifactError(
            f"the model in {str(folder)!r} is damaged: {'; '.join(damaged)}; copy the folder again "
            "from the original, or train again in another training.folder"
        )
    return Artifact(folder, _read_recipe(folder, trust_parts), hashes)


def read_unfinished(folder: Path, trust_parts: bool = False) -> Artifact:
    """Open a run whose training is not finished: its best checkpoint, or else its newest.

    Damaged checkpoints are skipped. A finished run is opened as `read_artifact` opens it.
    """
    folder = resolve_model(folder)
    checkpoints = folder / CHECKPOINTS
    if (folder / _FORMAT).exists() or not checkpoints.is_dir():
        return read_artifact(folder, trust_parts)
    recipe = _read_recipe(folder, trust_parts)
    by_step = {int(match[1]): path for path in checkpoints.iterdir() if (match := _step(path))}
    newest = sorted(by_step, reverse=True)
    best = next((_best_step(by_step[step]) for step in newest), None)
    for step in dict.fromkeys([best, *newest]):
        path = by_step.get(step) if step is not None else None
        hashes = _checkpoint_hashes(path) if path else None
        if path is None or hashes is None:
            continue
        inside = {(path / name).relative_to(folder).as_posix(): hashes[name] for name in hashes}
        tokenizer = tokenizer_hashes(folder / _TOKENIZER)
        inside |= {f"{_TOKENIZER}/{name}": value for name, value in tokenizer.items()}
        artifact = Artifact(folder, recipe, inside, path)
        if artifact.weights_file in inside:
            _log.warning("training is not finished; using checkpoint %s", path.name)
            return artifact
    raise ArtifactError(
        f"the training of {str(folder)!r} is not finished, and it has no checkpoint that can be "
        "used; finish it with the same command: dragoman train RECIPE"
    )


def foreign_parts(recipe: Recipe) -> list[str]:
    """List the model's parts that are modules outside this package, as `setting: module`."""
    choices = {name: getattr(recipe.model, name) for name in type(recipe.model).model_fields}
    return [
        f"model.{setting}: {choice.name}"
        for setting, choice in choices.items()
        if isinstance(choice, Choice)
        and "." in choice.name
        and not choice.name.startswith("dragoman.")
    ]


def tokenizer_hashes(tokenizer: Path) -> dict[str, str]:
    """SHA-256 of each file in a folder of tokenizers."""
    return {file.relative_to(tokenizer).as_posix(): sha256(file) for file in _files(tokenizer)}


def _read_recipe(folder: Path, trust_parts: bool) -> Recipe:
    try:
        recipe = load_recipe(folder / _RECIPE)
    except RecipeError as error:
        raise ArtifactError(f"the recipe of {str(folder)!r} cannot be read: {error}") from None
    foreign = foreign_parts(recipe)
    if foreign and not trust_parts:
        raise ArtifactError(
            f"the model in {str(folder)!r} needs Python code from outside Dragoman "
            f"({'; '.join(foreign)}), and loading the model would run it. If you trust this code, "
            "use --trust-parts (in Python: trust_parts=True)"
        )
    return recipe


def _not_a_model(folder: Path) -> str:
    """Explain why a folder is no model; name a run inside it if there is one."""
    if (folder / _EXPORT).is_file():
        return (
            f"{str(folder)!r} is a CTranslate2 export: it can translate and serve, but it has no "
            "weights that can be trained, explained or exported. Give the run that it was made "
            "from; to train an OPUS-MT model, import the one of Hugging Face"
        )
    if (folder / _RECIPE).exists() and (folder / _TOKENIZER).is_dir():
        return (
            f"the training of {str(folder)!r} is not finished; finish it with the same command: "
            "dragoman train RECIPE"
        )
    runs = [
        path
        for path in sorted(folder.iterdir())
        if (path / _FORMAT).is_file() or (path / CHECKPOINTS).is_dir()
    ]
    if runs:
        return f"{str(folder)!r} is not a run; did you mean {shlex.quote(str(runs[0]))}?"
    return f"{str(folder)!r} is not a run; expected a folder that `dragoman train` wrote"


def _step(path: Path) -> re.Match[str] | None:
    return _CHECKPOINT.fullmatch(path.name)


def _best_step(checkpoint: Path) -> int | None:
    """Read from the newest checkpoint which step was the best so far."""
    try:
        state: dict[str, Any] = json.loads((checkpoint / _STATE).read_text(encoding="utf-8"))
        step = state["best_step"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return step if isinstance(step, int) else None


def _checkpoint_hashes(checkpoint: Path) -> dict[str, str] | None:
    """Give the hashes of a checkpoint's files, or None if it is damaged."""
    try:
        hashes = dict(json.loads((checkpoint / _MANIFEST).read_text(encoding="utf-8"))["sha256"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return None if any(verify_hashes(checkpoint, hashes)) else hashes


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())
