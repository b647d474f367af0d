"""What the dashboard shows of a run, read from its folder: recipe, journal and samples.

A page that is open during training asks for what is new. It names the position (in bytes) up to
which it has read the journal and the samples, and the answer contains the next position.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict

from dragoman.artifact import CARD
from dragoman.dashboard.samples import ValidationSamples, read_samples
from dragoman.errors import ArtifactError, RecipeError
from dragoman.recipe.files import load_recipe
from dragoman.storage.mirror import exists, fetch_all, locate, path_text
from dragoman.training.card import read_card
from dragoman.training.journal import JOURNAL, SAMPLES, read_lines

MAX_PROGRESS = 5000
"""Entries of the journal in a page that is one file; of a longer run, every n-th."""
MAX_SAMPLES = 50
"""Validations with sample translations in such a page; of more, they are spread evenly."""
_FORMAT, _RECIPE = "format.json", "recipe.yaml"
_Item = TypeVar("_Item")


def _finite(value: Any) -> float | None:
    """Round a number of the journal; JSON in a browser has no infinite numbers."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.6g}")


Number = Annotated[float | None, BeforeValidator(_finite)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class Progress(_Model):
    """Means over the updates since the entry before."""

    step: int
    loss: Number = None
    learning_rate: Number = None
    grad_norm: Number = None
    tokens_per_second: Number = None
    seconds: Number = None
    """Training time of all sessions of the run."""


class Validation(_Model):
    """The scores of one validation."""

    step: int
    loss: Number = None
    bleu: Number = None
    general_bleu: Number = None
    is_best: bool = False


class Heading(_Model):
    """What does not change while a run trains."""

    name: str
    languages: tuple[str, str]
    model: str
    steps: int
    """Updates that the recipe allows."""
    label_smoothing: float
    cost: str = ""
    """Updates, FLOPs and time of a finished run; empty if it is not finished."""


class Position(_Model):
    """How much of the two files has been read, in bytes."""

    journal: int = 0
    samples: int = 0


class Points(_Model):
    """What a run has written from a position on."""

    progress: tuple[Progress, ...] = ()
    validations: tuple[Validation, ...] = ()
    skipped: tuple[int, ...] = ()
    """Updates that were skipped: their loss or gradient was not finite."""
    samples: tuple[ValidationSamples, ...] = ()
    position: Position = Position()
    """Where to read on."""


class RunData(_Model):
    """A run, as the page shows it."""

    heading: Heading
    points: Points


def read_run(folder: Path, name: str = "") -> RunData:
    """Read a finished or unfinished run for a page that is one file."""
    folder = _local_copy(folder)
    points = read_points(folder, Position())
    progress = _thinned(points.progress, MAX_PROGRESS)
    samples = _thinned(points.samples, MAX_SAMPLES)
    update = {"progress": progress, "samples": samples}
    return RunData(heading=read_heading(folder, name), points=points.model_copy(update=update))


def read_heading(folder: Path, name: str = "") -> Heading:
    """Read the recipe of a run, and its card if it is finished."""
    try:
        recipe = load_recipe(folder / _RECIPE)
    except RecipeError as error:
        raise ArtifactError(
            f"{path_text(folder)!r} is not a run of this version of Dragoman: {error}"
        ) from None
    model = recipe.model
    layers = f"{model.encoder_layers}+{model.decoder_layers} layers"
    return Heading(
        name=name or folder_name(folder),
        languages=(recipe.languages.source, recipe.languages.target),
        model=f"{model.architecture}, {layers}, width {model.width}",
        steps=recipe.training.steps,
        label_smoothing=recipe.training.label_smoothing,
        cost=_cost(folder),
    )


def _cost(folder: Path) -> str:
    """Return the cost of a finished run; empty if there is no card, or none that can be read."""
    try:
        card = read_card(folder) if (folder / _FORMAT).exists() else None
    except ArtifactError:
        return ""  # The curves are complete without it.
    return "" if card is None else card.cost


def read_points(folder: Path, since: Position) -> Points:
    """Read what a run has written after a position."""
    progress, validations, skipped = [], [], []
    journal = since.journal
    for line, end in read_lines(folder / JOURNAL, since.journal):
        try:
            entry = json.loads(line)
        except ValueError:
            break
        journal = end
        match entry["kind"]:
            case "progress":
                progress.append(Progress.model_validate(entry))
            case "validation":
                validations.append(Validation.model_validate(entry))
            case "skipped":
                skipped.append(int(entry["step"]))
    read = list(read_samples(folder, since.samples))
    return Points(
        progress=tuple(progress),
        validations=tuple(validations),
        skipped=tuple(skipped),
        samples=tuple(samples for samples, _ in read),
        position=Position(journal=journal, samples=read[-1][1] if read else since.samples),
    )


def folder_name(folder: Path) -> str:
    """Return the last part of the path or URL of a folder."""
    return PurePath(path_text(folder.absolute())).name


def run_names(folders: Sequence[Path]) -> list[str]:
    """Name runs by their folder; by the whole path where two folders have the same name."""
    names = [folder_name(folder) for folder in folders]
    is_clear = len(set(names)) == len(names) and all(names)
    return names if is_clear else [path_text(folder) for folder in folders]


def _local_copy(folder: Path) -> Path:
    """Return the folder of a run with the files that the dashboard reads; fetch them if remote."""
    if not exists(folder / _RECIPE):
        raise ArtifactError(
            f"{path_text(folder)!r} is not a run: it has no {_RECIPE}. Expected the folder that "
            "`dragoman train` writes (training.folder)"
        )
    if locate(folder) is None:
        return folder
    wanted = (_RECIPE, JOURNAL, SAMPLES, CARD, _FORMAT)
    return fetch_all(folder, [name for name in wanted if exists(folder / name)])


def _thinned(items: Sequence[_Item], limit: int) -> tuple[_Item, ...]:
    """Return at most `limit` items, spread evenly; the first and the last are among them."""
    if len(items) <= limit:
        return tuple(items)
    last = len(items) - 1
    chosen: Iterable[int] = (number * last // (limit - 1) for number in range(limit))
    return tuple(items[index] for index in chosen)
