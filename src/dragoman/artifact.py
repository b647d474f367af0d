"""What is a model folder?

    recipe.yaml          every setting, complete
    tokenizer/           source and target
    model.safetensors    the weights
    format.json          a number for this layout, and the SHA-256 of each file above

A folder is a model once `format.json` is there; whoever reads it checks the hashes first. A run is
such a folder, with its checkpoints, journal and card beside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.durable import damages, new_file, place, sha256, write_text
from dragoman.errors import ArtifactError, RecipeError, SaveError
from dragoman.recipe import Recipe
from dragoman.recipe_file import dump_recipe, load_recipe
from dragoman.tokenizer.folder import load_tokenizer

if TYPE_CHECKING:
    from dragoman.model.encoder_decoder import EncoderDecoder
    from dragoman.shapes import Tensor

FORMAT = 1
CARD = "card.json"
"""Beside a run's model: what it cost, and what it learned from."""
_FORMAT, _RECIPE, _WEIGHTS, _TOKENIZER = (
    "format.json",
    "recipe.yaml",
    "model.safetensors",
    "tokenizer",
)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A model folder whose files are what they were when it was written."""

    folder: Path
    recipe: Recipe
    hashes: Mapping[str, str]

    def weights(self) -> dict[str, Tensor]:
        """Read the weights; whoever does needs PyTorch."""
        from safetensors.torch import load_file  # noqa: PLC0415

        return load_file(self.folder / _WEIGHTS)

    def model(self) -> EncoderDecoder:
        """Build the model, with its weights, ready to translate."""
        import torch  # noqa: PLC0415

        from dragoman.model.build import build_model  # noqa: PLC0415

        sizes = [load_tokenizer(self.tokenizer / side).size for side in ("source", "target")]
        with torch.device("meta"):
            model = build_model(self.recipe.model, *sizes)
        model.load_state_dict(self.weights(), assign=True)
        return model.eval().requires_grad_(False)

    @property
    def model_hash(self) -> str:
        """The SHA-256 of the weights."""
        return self.hashes[_WEIGHTS]

    @property
    def tokenizer_hashes(self) -> dict[str, str]:
        """The SHA-256 of each file of the tokenizers."""
        return {name: each for name, each in self.hashes.items() if name.startswith(_TOKENIZER)}

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizers."""
        return self.folder / _TOKENIZER


def begin_artifact(folder: Path, recipe: Recipe, tokenizer: Path) -> None:
    """Write what is known before training: the recipe and the tokenizers.

    Where it was a model with another recipe, it is none until it is finished again.
    """
    text = dump_recipe(recipe)
    path = folder / _RECIPE
    if path.exists() and path.read_text(encoding="utf-8") != text:
        (folder / _FORMAT).unlink(missing_ok=True)
    write_text(path, text)
    for file in _files(tokenizer):
        place(file, folder / _TOKENIZER / file.relative_to(tokenizer))


def finish_artifact(folder: Path, weights: Mapping[str, Tensor]) -> None:
    """Write the weights, and then the format, which makes it a model."""
    from safetensors import SafetensorError  # noqa: PLC0415
    from safetensors.torch import save_file  # noqa: PLC0415

    try:
        with new_file(folder / _WEIGHTS) as temporary:
            save_file({name: each.contiguous() for name, each in weights.items()}, temporary)
    except SafetensorError as error:
        raise SaveError(f"the model cannot be written: {error}; run it again when it can") from None
    files = [folder / _RECIPE, *_files(folder / _TOKENIZER), folder / _WEIGHTS]
    hashes = {file.relative_to(folder).as_posix(): sha256(file) for file in files}
    content = json.dumps({"format": FORMAT, "sha256": hashes}, indent=1, sort_keys=True)
    write_text(folder / _FORMAT, content + "\n")


def read_artifact(folder: Path) -> Artifact:
    """Open a model folder, or say what is wrong with it."""
    if not folder.is_dir():
        raise ArtifactError(f"there is no folder {str(folder)!r}; expected a run")
    try:
        content = json.loads((folder / _FORMAT).read_text(encoding="utf-8"))
        number, hashes = content["format"], dict(content["sha256"])
    except FileNotFoundError:
        raise ArtifactError(
            f"{str(folder)!r} is not a model, or its training was not finished; "
            "type: dragoman train RECIPE"
        ) from None
    except (ValueError, TypeError, KeyError):
        raise ArtifactError(f"{_FORMAT} of {str(folder)!r} cannot be read") from None
    if number != FORMAT:
        raise ArtifactError(f"{str(folder)!r} has format {number}, expected {FORMAT}")
    damaged = list(damages(folder, hashes))
    if damaged:
        raise ArtifactError(f"the model in {str(folder)!r} is damaged: {'; '.join(damaged)}")
    try:
        return Artifact(folder, load_recipe(folder / _RECIPE), hashes)
    except RecipeError as error:
        raise ArtifactError(f"the recipe of {str(folder)!r} cannot be read: {error}") from None


def tokenizer_hashes(tokenizer: Path) -> dict[str, str]:
    """The SHA-256 of each file of the tokenizers."""
    return {file.relative_to(tokenizer).as_posix(): sha256(file) for file in _files(tokenizer)}


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())
