"""List, compare and roll back the versions of a model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from dragoman.adaptation.versions import DataFile, TestSet, VersionedModel, VersionRecord
from dragoman.artifact import read_artifact
from dragoman.recipe.schema import Recipe

ScoreKey = tuple[TestSet, str]
"""Test set and metric."""


@dataclass(frozen=True, slots=True)
class VersionSummary:
    """One version in the list."""

    record: VersionRecord
    is_current: bool
    scores: dict[ScoreKey, float]
    size: int | None
    """Bytes of its folder; None if the folder was removed."""


@dataclass(frozen=True, slots=True)
class VersionList:
    """All versions of a model, and the rollbacks between them."""

    versions: tuple[VersionSummary, ...]
    rollbacks: tuple[VersionRecord, ...]


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A recipe setting with different values in two versions."""

    path: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class TextDifference:
    """A line that two versions translate differently."""

    line: int
    source: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """What two versions have in common, and what not."""

    first: VersionRecord
    second: VersionRecord
    scores: dict[ScoreKey, tuple[float | None, float | None]]
    only_first_data: tuple[DataFile, ...]
    only_second_data: tuple[DataFile, ...]
    settings: tuple[SettingDifference, ...]
    lines: int | None
    """Lines of the text that was translated; None if there was none."""
    texts: tuple[TextDifference, ...]


def list_versions(folder: str | Path) -> VersionList:
    """List the versions of a model, oldest first."""
    model = VersionedModel.open(Path(folder))
    return VersionList(
        tuple(
            VersionSummary(
                record,
                record.number == model.current.number,
                model.scores_of(record.number),
                _size(model.folder_of(record.number)),
            )
            for record in model.versions
        ),
        tuple(record for record in model.history if record.is_rollback),
    )


def compare_versions(
    folder: str | Path,
    first: int,
    second: int,
    *,
    text: str | Path | None = None,
    trust_parts: bool = False,
) -> VersionComparison:
    """Compare two versions: scores, data, settings, and their translations of a text.

    `text` is a text file with one sentence per line.
    """
    model = VersionedModel.open(Path(folder))
    records = model.record(first), model.record(second)
    lines: Sequence[str] | None = None
    if text is not None:  # Before models are read, which takes longer.
        lines = _read(Path(text))
    folders = model.folder_of(first), model.folder_of(second)
    recipes = [read_artifact(path, trust_parts).recipe for path in folders]
    data = model.data_of(first), model.data_of(second)
    scores = model.scores_of(first), model.scores_of(second)
    keys = sorted({*scores[0], *scores[1]}, key=lambda key: (key[0] == "general", key[1]))
    return VersionComparison(
        *records,
        {key: (scores[0].get(key), scores[1].get(key)) for key in keys},
        tuple(_without(data[0], data[1])),
        tuple(_without(data[1], data[0])),
        tuple(_setting_differences(*recipes)),
        len(lines) if lines is not None else None,
        tuple(_text_differences(folders, lines, trust_parts)) if lines else (),
    )


def roll_back(folder: str | Path, to: int | None = None) -> VersionRecord:
    """Make an older version current; return the new line of the history."""
    return VersionedModel.open(Path(folder)).rollback(to)


def _size(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _without(files: Sequence[DataFile], others: Sequence[DataFile]) -> Iterator[DataFile]:
    hashes = {file.sha256 for file in others}
    return (file for file in files if file.sha256 not in hashes)


def _setting_differences(first: Recipe, second: Recipe) -> Iterator[SettingDifference]:
    """Compare two recipes setting by setting."""
    ours, theirs = (dict(_settings(recipe.model_dump(mode="json"))) for recipe in (first, second))
    for path in dict.fromkeys([*ours, *theirs]):
        if ours.get(path) != theirs.get(path):
            yield SettingDifference(path, ours.get(path, ""), theirs.get(path, ""))


def _settings(value: JsonValue, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted path and the value of each setting."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _settings(inner, f"{path}.{name}" if path else name)
    else:
        yield path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read(path: Path) -> list[str]:
    """Read the lines of a text file, which may be compressed."""
    # Only this comparison translates; the list of versions needs none of these packages.
    from dragoman.corpus.files import read_blocks  # noqa: PLC0415
    from dragoman.workflow.translation import check_source, decode_lines  # noqa: PLC0415

    check_source(path)
    text = b"".join(read_blocks(path))
    return list(decode_lines(text.removesuffix(b"\n").split(b"\n"))) if text else []


def _text_differences(
    folders: Sequence[Path], lines: Sequence[str], trust_parts: bool
) -> Iterator[TextDifference]:
    from dragoman.inference.translator import Translator  # noqa: PLC0415  (as above)

    outputs = []
    for folder in folders:
        with Translator.load(folder, trust_parts=trust_parts) as translator:
            outputs.append([translation.text for translation in translator.stream(lines)])
    for number, (source, first, second) in enumerate(zip(lines, *outputs, strict=True), start=1):
        if first != second:
            yield TextDifference(number, source, first, second)
