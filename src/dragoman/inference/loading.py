"""Load a model and choose the engine that runs it.

CTranslate2 is used whenever it can express the model: from the export in the run, or from a new
export. A new export is kept in the run, so that only the first translation converts the model.
PyTorch runs everything else: parts that CTranslate2 does not have, ensembles and sampling.
"""

from __future__ import annotations

import importlib.util
import logging
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from dragoman.artifact import Artifact, read_unfinished, resolve_model
from dragoman.decoding.engine import Engine, clamp_lengths
from dragoman.errors import ArtifactError, MissingExtraError, Mistake, RecipeError, suggest
from dragoman.interop.compatibility.ctranslate2 import obstacles
from dragoman.interop.folder import FOLDER, Export, is_export, read_export
from dragoman.recipe.files import load_recipe
from dragoman.recipe.schema import DecodingRecipe, Recipe
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import Tokenizer

EngineName = Literal["auto", "ctranslate2", "pytorch"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model is loaded."""

    engine: EngineName = "auto"
    device: str = "auto"
    """`auto` (a GPU if there is one), `cpu` or `cuda`."""
    threads: int = 0
    """CPU threads (0 = all cores)."""
    trust_parts: bool = False
    """Whether the model may import Python modules from outside this package."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to translate."""

    engine: Engine
    recipe: Recipe
    """The model's recipe with the caller's decoding settings."""
    tokenizers: tuple[Tokenizer, Tokenizer]
    """Of the source and of the target."""
    model_hash: str
    quantization: str = "float32"
    max_positions: int | None = None
    """Maximum tokens of a sequence (None = unlimited)."""
    checkpoint: str = ""
    """Name of the checkpoint that was loaded, if training is not finished."""


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model whose files are verified, and the engine that will run it; nothing is loaded."""

    engine: Literal["ctranslate2", "pytorch"]
    recipe: Recipe
    """The model's recipe with the caller's decoding settings."""
    artifacts: tuple[Artifact, ...]
    """The runs: several for an ensemble, none for an export without its run."""
    export: Export | None = None
    """The export that CTranslate2 loads; None if it must be made first."""

    @property
    def model_hash(self) -> str:
        """SHA-256 of the weights; of an ensemble, joined by +."""
        if self.export is not None:
            return self.export.facts.model
        return "+".join(artifact.model_hash for artifact in self.artifacts)

    @property
    def quantization(self) -> str:
        """How the weights are stored."""
        return self.export.facts.quantization if self.export else "float32"

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizers."""
        return self.export.tokenizer if self.export else self.artifacts[0].tokenizer

    @property
    def checkpoint(self) -> str:
        """Names of the checkpoints, if training is not finished."""
        names = (artifact.checkpoint.name for artifact in self.artifacts if artifact.checkpoint)
        return "+".join(names)


def load_model(
    folders: Sequence[Path], settings: Sequence[str] = (), options: LoadOptions | None = None
) -> LoadedModel:
    """Load a run, an export, or an ensemble of runs; settings change the recipe's decoding."""
    options = options or LoadOptions()
    model = find_model(folders, settings, options)
    if model.engine == "pytorch":
        return _load_pytorch(model, options)
    if model.export is not None:
        return _load_ctranslate2(model.export, model.recipe, options)
    return _load_new_export(model.artifacts[0], model.recipe, options)


def find_model(
    folders: Sequence[Path], settings: Sequence[str] = (), options: LoadOptions | None = None
) -> FoundModel:
    """Verify a run, an export, or an ensemble of runs, and choose the engine."""
    options = options or LoadOptions()
    known = get_args(EngineName)
    if options.engine not in known:
        what = f"found {options.engine!r}; {suggest(options.engine, known)}"
        raise RecipeError([Mistake("engine", what)])
    if not folders:
        raise ArtifactError("no model is given; expected the folder of a run")
    folders = [resolve_model(folder) for folder in folders]
    if len(folders) > 1:
        return _find_ensemble(folders, settings, options)
    folder = folders[0]
    if is_export(folder):
        return _find_export(folder, settings, options)
    artifact = read_unfinished(folder, options.trust_parts)
    recipe = _with_settings(folder, settings)
    against = obstacles(recipe)
    if options.engine == "ctranslate2":
        _refuse(against, folder, "Use the engine auto or pytorch")
    wants_ctranslate2 = options.engine != "pytorch" and not against
    if wants_ctranslate2 and _has_ctranslate2(is_required=options.engine == "ctranslate2"):
        export = _existing_export(artifact)
        is_current = export is not None and export.facts.model == artifact.model_hash
        return FoundModel("ctranslate2", recipe, (artifact,), export if is_current else None)
    return FoundModel("pytorch", recipe, (artifact,))


def check_decoding(decoding: DecodingRecipe) -> None:
    """Refuse more hypotheses than the search can find."""
    limits = {"beam": decoding.beam_size * decoding.patience, "greedy": 1}
    limit = limits.get(decoding.search)
    if limit is not None and decoding.num_hypotheses > limit:
        what = (
            f"found {decoding.num_hypotheses}, but {decoding.search} search finds at most "
            f"{limit:g}; choose a larger beam_size"
        )
        raise RecipeError([Mistake("decoding.num_hypotheses", what)])


def _with_settings(folder: Path, settings: Sequence[str]) -> Recipe:
    """Read the recipe of a model folder; only its decoding may be changed."""
    others = [setting for setting in settings if not setting.startswith("decoding.")]
    if others:
        what = "the model is trained; only settings of decoding can be changed now"
        raise RecipeError([Mistake(setting.partition("=")[0], what) for setting in others])
    recipe = load_recipe(folder / "recipe.yaml", settings)
    check_decoding(recipe.decoding)
    return recipe


def _refuse(against: Sequence[Mistake], folder: Path, advice: str) -> None:
    if against:
        reasons = "; ".join(f"{mistake.path}: {mistake.what}" for mistake in against)
        raise ArtifactError(f"CTranslate2 cannot run {str(folder)!r}: {reasons}. {advice}")


def _not_for_pytorch(folder: Path) -> ArtifactError:
    return ArtifactError(
        f"{str(folder)!r} is a CTranslate2 export, which PyTorch cannot read; "
        "give the run that it was made from"
    )


def _has_ctranslate2(*, is_required: bool) -> bool:
    is_installed = importlib.util.find_spec("ctranslate2") is not None
    if is_required and not is_installed:
        raise MissingExtraError("translating with CTranslate2", "ctranslate2", "infer")
    return is_installed


def _find_export(folder: Path, settings: Sequence[str], options: LoadOptions) -> FoundModel:
    export = read_export(folder)
    recipe = _with_settings(folder, settings)
    _refuse(obstacles(recipe), folder, "Give the run that it was made from, for PyTorch")
    if options.engine == "pytorch":
        raise _not_for_pytorch(folder)
    return FoundModel("ctranslate2", recipe, (), export)


def _existing_export(artifact: Artifact) -> Export | None:
    """Read the export in the run, if there is one; it may be of an older model."""
    folder = artifact.folder / FOLDER
    return read_export(folder) if is_export(folder) else None


def _load_new_export(artifact: Artifact, recipe: Recipe, options: LoadOptions) -> LoadedModel:
    """Export a run to CTranslate2, and load the export."""
    folder = artifact.folder / FOLDER
    existing = _existing_export(artifact)
    if importlib.util.find_spec("torch") is None:
        raise ArtifactError(
            f"{str(artifact.folder)!r} has no CTranslate2 export of this model, and PyTorch, which "
            "makes one, is not installed. On a machine with PyTorch, type: dragoman export "
            f"{shlex.quote(str(artifact.folder))} --to ctranslate2"
        )
    # A user's quantized export is not replaced, and a checkpoint's export is not worth keeping.
    is_kept = existing is None or existing.facts.quantization == "float32"
    if is_kept and artifact.checkpoint is None:
        export = _keep_export(artifact, folder)
        if export is not None:
            return _load_ctranslate2(export, recipe, options)
    from dragoman.interop.ctranslate2 import write_export  # noqa: PLC0415  (needs torch)

    with tempfile.TemporaryDirectory(prefix="dragoman-") as temporary:
        folder = Path(temporary) / FOLDER
        write_export(artifact, folder)
        # CTranslate2 reads all files while it loads.
        return _load_ctranslate2(read_export(folder), recipe, options, artifact.checkpoint)


def _keep_export(artifact: Artifact, folder: Path) -> Export | None:
    """Write an export into the run, for the next time; None if that is not possible."""
    from dragoman.interop.ctranslate2 import write_export  # noqa: PLC0415  (needs torch)

    try:
        write_export(artifact, folder)
        return read_export(folder)
    except (OSError, ArtifactError) as error:
        # Read-only folder, full disk, or another process that does the same.
        _log.info("the export is not kept in the run: %s", error)
        return None


def _load_ctranslate2(
    export: Export, recipe: Recipe, options: LoadOptions, checkpoint: Path | None = None
) -> LoadedModel:
    _has_ctranslate2(is_required=True)
    from dragoman.decoding.engines.ctranslate2 import CTranslate2  # noqa: PLC0415

    facts, tokenizers = export.facts, _tokenizers(export.tokenizer)
    return LoadedModel(
        CTranslate2(export.folder, tokenizers, options.device, threads=options.threads),
        _within_positions(recipe, facts.max_positions),
        tokenizers,
        facts.model,
        facts.quantization,
        facts.max_positions,
        checkpoint.name if checkpoint else "",
    )


def _load_pytorch(found_model: FoundModel, options: LoadOptions) -> LoadedModel:
    """Load one model, or several as an ensemble."""
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("translating with PyTorch", "torch", "train")
    import torch  # noqa: PLC0415

    from dragoman.decoding.engines.pytorch import PyTorch  # noqa: PLC0415
    from dragoman.decoding.ensemble import Ensemble  # noqa: PLC0415

    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.threads:
        torch.set_num_threads(options.threads)
    models = [artifact.model() for artifact in found_model.artifacts]
    try:
        models = [model.to(device) for model in models]
    except (RuntimeError, AssertionError) as error:
        raise ArtifactError(
            f"PyTorch cannot use the device {device!r}: {error}; to use the CPU, add --device cpu"
        ) from None
    searched: Any = models[0] if len(models) == 1 else Ensemble(models)
    limit = min((limit for model in models if (limit := model.max_positions)), default=None)
    return LoadedModel(
        PyTorch(searched, device, seed=found_model.recipe.seed),
        _within_positions(found_model.recipe, limit),
        _tokenizers(found_model.tokenizer),
        found_model.model_hash,
        max_positions=limit,
        checkpoint=found_model.checkpoint,
    )


def _find_ensemble(
    folders: Sequence[Path], settings: Sequence[str], options: LoadOptions
) -> FoundModel:
    """Find runs with the same tokenizers; only PyTorch averages their probabilities."""
    if options.engine == "ctranslate2":
        raise ArtifactError("CTranslate2 translates with one model; an ensemble needs pytorch")
    for folder in filter(is_export, folders):
        raise _not_for_pytorch(folder)
    artifacts = [read_unfinished(folder, options.trust_parts) for folder in folders]
    first, *others = artifacts
    for other in others:
        if other.tokenizer_hashes != first.tokenizer_hashes:
            raise ArtifactError(
                f"{str(other.folder)!r} has other tokenizers than {str(first.folder)!r}; "
                "an ensemble needs runs of the same prepared corpus"
            )
    return FoundModel("pytorch", _with_settings(first.folder, settings), tuple(artifacts))


def _within_positions(recipe: Recipe, limit: int | None) -> Recipe:
    return recipe.model_copy(update={"decoding": clamp_lengths(recipe.decoding, limit)})


def _tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    return load_tokenizer(folder / "source"), load_tokenizer(folder / "target")
