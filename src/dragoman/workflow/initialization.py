"""Write the first recipe of a project, for `dragoman init`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.corpus import demo
from dragoman.corpus.files import check_files
from dragoman.corpus.initial_recipe import write_recipe
from dragoman.corpus.opening import CorpusRequest
from dragoman.corpus.preview import CorpusPreview, preview_corpus
from dragoman.errors import DataError, suggest
from dragoman.recipe.files import preset_names, schema_line, write_schema
from dragoman.storage.files import refuse_url, write_text

RECIPE = "recipe.yaml"
_DEMO_PAIRS: dict[demo.Split, int] = {"train": 60_000, "validation": 500, "test": 2_000}


@dataclass(frozen=True, slots=True)
class InitResult:
    """A recipe that was written, and what the corpus files contain."""

    recipe: Path
    preview: CorpusPreview


def init(
    folder: Path,
    corpus: CorpusRequest,
    *,
    validation: Sequence[Path] = (),
    test: Sequence[Path] = (),
    preset: str = "",
) -> InitResult:
    """Preview corpus files and write a recipe for them; an existing recipe is an error."""
    path = _new_recipe(folder)
    if preset and preset not in preset_names():
        raise DataError(f"no preset is called {preset!r}; {suggest(preset, preset_names())}")
    for files in (validation, test):
        check_files(files, len(files))
    absolute = replace(corpus, files=tuple(file.absolute() for file in corpus.files))
    preview = preview_corpus(absolute)
    text = write_recipe(
        preview,
        folder.absolute(),
        validation=[file.absolute() for file in validation],
        test=[file.absolute() for file in test],
        preset=preset,
    )
    write_schema(folder)
    write_text(path, text)
    return InitResult(path, preview)


def init_demo(folder: Path) -> Path:
    """Write the demo corpus and a recipe for it; an existing recipe is an error."""
    path = _new_recipe(folder)
    demo.write(folder, seed=1, counts=_DEMO_PAIRS)
    corpora = "".join(
        f"  {split}: [{{files: [{split}.en, {split}.de]}}]\n" for split in _DEMO_PAIRS
    )
    write_schema(folder)
    write_text(
        path,
        f"{schema_line()}\n"
        "# Numbers, dates, times and prices: a small task that a model learns in minutes.\n"
        "preset: demo\n"
        f"languages: {{source: en, target: de}}\ncorpus:\n{corpora}"
        "  filters: [unicode]  # The text is generated, so no other filter is needed.\n",
    )
    return path


def _new_recipe(folder: Path) -> Path:
    refuse_url(folder)
    path = folder / RECIPE
    if path.exists():
        raise DataError(f"{path} exists already; remove it, or choose another folder")
    return path
