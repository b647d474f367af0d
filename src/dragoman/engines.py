"""Which engine serves a model?

CTranslate2 whenever it can: from the run's export where there is one, else from one that is made
for the moment. PyTorch for everything else: parts that CTranslate2 does not know, ensembles,
samples.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from dragoman.artifact import Artifact, read_artifact
from dragoman.decoding.engine import Engine, within
from dragoman.errors import ArtifactError, MissingExtraError, Mistake, RecipeError, suggest
from dragoman.exporting.capability.ctranslate2 import obstacles
from dragoman.exporting.folder import FACTS, FOLDER, Export, read_export
from dragoman.recipe import Recipe
from dragoman.recipe_file import load_recipe
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import Tokenizer

EngineName = Literal["auto", "ctranslate2", "pytorch"]


@dataclass(frozen=True, slots=True)
class Served:
    """A model that is ready to translate."""

    engine: Engine
    recipe: Recipe
    """With the decoding settings that were asked for."""
    tokenizers: tuple[Tokenizer, Tokenizer]
    model_hash: str
    quantization: str = "float32"


def serve(
    folders: Sequence[Path],
    settings: Sequence[str] = (),
    engine: EngineName = "auto",
    device: str = "cpu",
    threads: int = 0,
) -> Served:
    """Load a run, an export, or several runs that translate together."""
    known = get_args(EngineName)
    if engine not in known:
        raise RecipeError([Mistake("engine", f"found {engine!r}; {suggest(engine, known)}")])
    if not folders:
        raise ArtifactError("no model was named; expected a run")
    if len(folders) > 1:
        return _serve_together(folders, settings, engine, device, threads)
    folder = folders[0]
    if is_export(folder):
        export = read_export(folder)
        recipe = _with_settings(folder, settings)
        _refuse(obstacles(recipe), folder, "Name its run, which pytorch can serve")
        if engine == "pytorch":
            raise _not_for_pytorch(folder)
        return _served_by_ctranslate2(folder, export.tokenizer, recipe, export, device, threads)
    artifact = read_artifact(folder)
    recipe = _with_settings(folder, settings)
    against = obstacles(recipe)
    if engine == "ctranslate2":
        _refuse(against, folder, "Leave the engine at auto, or choose pytorch")
    if engine != "pytorch" and not against and _has_ctranslate2(must=engine == "ctranslate2"):
        return _export_and_serve(artifact, recipe, device, threads)
    return _served_by_pytorch([artifact], recipe, device, threads)


def is_export(folder: Path) -> bool:
    """Whether a folder is an export by itself, and not a run."""
    return (folder / FACTS).is_file()


def _with_settings(folder: Path, settings: Sequence[str]) -> Recipe:
    """The recipe of a model folder, in which only the decoding may be changed."""
    wrong = [each for each in settings if not each.startswith("decoding.")]
    if wrong:
        what = "the model is learned; only decoding.… can be changed now"
        raise RecipeError([Mistake(each.partition("=")[0], what) for each in wrong])
    recipe = load_recipe(folder / "recipe.yaml", settings)
    decoding = recipe.decoding
    most = {"beam": decoding.beam * decoding.patience, "greedy": 1}.get(decoding.search)
    if most is not None and decoding.hypotheses > most:
        what = f"found {decoding.hypotheses}, but {decoding.search} finds {most:g} at most"
        raise RecipeError([Mistake("decoding.hypotheses", f"{what}; choose a larger beam")])
    return recipe


def _refuse(against: Sequence[Mistake], folder: Path, advice: str) -> None:
    if against:
        told = "; ".join(f"{each.path}: {each.what}" for each in against)
        raise ArtifactError(
            f"CTranslate2 cannot serve {str(folder)!r}, because of {told}. {advice}"
        )


def _not_for_pytorch(folder: Path) -> ArtifactError:
    return ArtifactError(f"{str(folder)!r} is an export for CTranslate2; name its run")


def _has_ctranslate2(*, must: bool) -> bool:
    has = importlib.util.find_spec("ctranslate2") is not None
    if must and not has:
        raise MissingExtraError("translating with CTranslate2", "ctranslate2", "infer")
    return has


def _export_and_serve(artifact: Artifact, recipe: Recipe, device: str, threads: int) -> Served:
    """Take the export that belongs to this model, or make one for the moment."""
    folder = artifact.folder / FOLDER
    if is_export(folder):
        export = read_export(folder)
        if export.model_hash == artifact.model_hash:
            return _served_by_ctranslate2(
                folder, artifact.tokenizer, recipe, export, device, threads
            )
    if importlib.util.find_spec("torch") is None:
        raise ArtifactError(
            f"{str(artifact.folder)!r} has no export of this model, and there is no torch to make "
            "one; type, where torch is installed: dragoman export RUN --to ctranslate2"
        )
    from dragoman.exporting.ctranslate2 import export as make  # noqa: PLC0415  (needs torch)

    with tempfile.TemporaryDirectory(prefix="dragoman-") as made:
        place = Path(made) / FOLDER
        make(artifact.folder, place)
        # Once it is loaded, its files are needed no more.
        return _served_by_ctranslate2(
            place, artifact.tokenizer, recipe, read_export(place), device, threads
        )


def _served_by_ctranslate2(
    folder: Path, tokenizer: Path, recipe: Recipe, export: Export, device: str, threads: int
) -> Served:
    _has_ctranslate2(must=True)
    from dragoman.decoding.ctranslate2 import CTranslate2  # noqa: PLC0415

    engine = CTranslate2(folder, device, threads=threads)
    recipe = _within(recipe, export.longest)
    return Served(engine, recipe, _tokenizers(tokenizer), export.model_hash, export.quantization)


def _served_by_pytorch(
    artifacts: Sequence[Artifact], recipe: Recipe, device: str, threads: int
) -> Served:
    """Load one model, or several as one."""
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("translating with PyTorch", "torch", "train")
    import torch  # noqa: PLC0415

    from dragoman.decoding.ensemble import Ensemble  # noqa: PLC0415
    from dragoman.decoding.pytorch import PyTorch, most_places  # noqa: PLC0415

    if threads:
        torch.set_num_threads(threads)
    models = [each.model() for each in artifacts]
    try:
        models = [each.to(device) for each in models]
    except (RuntimeError, AssertionError) as error:
        raise ArtifactError(f"PyTorch cannot use the device {device!r}: {error}") from None
    model: Any = models[0] if len(models) == 1 else Ensemble(models)
    engine = PyTorch(model, device, seed=recipe.seed)
    most = min((each for each in map(most_places, models) if each), default=None)
    hashes = "+".join(each.model_hash for each in artifacts)
    return Served(engine, _within(recipe, most), _tokenizers(artifacts[0].tokenizer), hashes)


def _serve_together(
    folders: Sequence[Path],
    settings: Sequence[str],
    engine: EngineName,
    device: str,
    threads: int,
) -> Served:
    """Load runs that share their tokenizers; PyTorch alone can average them."""
    if engine == "ctranslate2":
        raise ArtifactError("CTranslate2 translates with one model; several need pytorch")
    for each in filter(is_export, folders):
        raise _not_for_pytorch(each)
    artifacts = [read_artifact(each) for each in folders]
    first, *others = artifacts
    for other in others:
        if other.tokenizer_hashes != first.tokenizer_hashes:
            raise ArtifactError(
                f"{str(other.folder)!r} has other tokenizers than {str(first.folder)!r}; "
                "only runs of one prepared corpus translate together"
            )
    recipe = _with_settings(first.folder, settings)
    return _served_by_pytorch(artifacts, recipe, device, threads)


def _within(recipe: Recipe, places: int | None) -> Recipe:
    return recipe.model_copy(update={"decoding": within(recipe.decoding, places)})


def _tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    return load_tokenizer(folder / "source"), load_tokenizer(folder / "target")
