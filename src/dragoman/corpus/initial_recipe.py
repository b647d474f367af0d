"""Writes the recipe of `dragoman init`: settings that fit the size of the corpus, with reasons."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dragoman.corpus.discovery import guess_format
from dragoman.corpus.files import format_extension
from dragoman.corpus.preview import CorpusPreview
from dragoman.recipe.files import inline_yaml, load_recipe, preset_names, schema_line
from dragoman.recipe.parts import Choice, names
from dragoman.recipe.schema import Recipe
from dragoman.tokenizer.advice import advise

_PASSES = 26
"""Passes over a small corpus, as in the runs of docs/journal.md; half as many cost 2 BLEU."""
_TOKEN_CHARACTERS = 4.5
"""The average number of characters per token, padding included."""
_MIN_UPDATES = 1500


def write_recipe(
    preview: CorpusPreview,
    folder: Path,
    *,
    validation: Sequence[Path] = (),
    test: Sequence[Path] = (),
    preset: str = "",
) -> str:
    """Return a commented recipe for a corpus; paths are relative to `folder`."""
    count = "1 pair" if preview.pairs == 1 else f"{preview.pairs:,} pairs"
    chosen, reason = (preset, "chosen with --preset") if preset else _preset(preview.pairs)
    size, size_reason = advise(preview.pairs, distinct=preview.distinct_words)
    duplicates, duplicates_reason = _duplicates(preview.pairs)
    held_out = {
        name: _corpus_entry(files, _format_of(files, preview), folder)
        for name, files in (("validation", validation), ("test", test))
        if files
    }
    source, target = preview.languages.source, preview.languages.target
    lines = [
        schema_line(),
        f"# Written by `dragoman init` for {count}. Edit it as you like;",
        "# `dragoman show recipe.yaml` prints every setting with its meaning.",
        f"preset: {chosen}  # {', '.join(preset_names())}; {reason}",
        f"languages: {{source: {inline_yaml(source)}, target: {inline_yaml(target)}}}",
        "corpus:",
        "  train:",
        f"    - {_corpus_entry(preview.files, preview.format, folder)}",
        *(f"  {name}: [{entry}]" for name, entry in held_out.items()),
        *_held_out_lines(preview, set(held_out)),
        f"  duplicates: {duplicates}  # keep, exact, near; {duplicates_reason}",
        "tokenizer:",
        f"  vocabulary_size: {size}  # {size_reason}",
        *_model_lines(load_recipe(chosen)),
        *_training_lines(load_recipe(chosen), preview),
    ]
    return "\n".join(lines) + "\n"


def _preset(pairs: int) -> tuple[str, str]:
    if pairs < 100_000:
        return "tiny", "fits a small corpus; larger models overfit"
    if pairs < 2_000_000:
        return "small", "fits this corpus; on a CPU choose tiny, because small trains for days"
    return "base", "the base model of Vaswani et al. (2017); needs millions of pairs and a GPU"


def _duplicates(pairs: int) -> tuple[str, str]:
    if pairs >= 1_000_000:
        return "near", "large corpora repeat sentences with small changes"
    return "exact", "small corpora need all their variation"


def _format_of(files: Sequence[Path], preview: CorpusPreview) -> Choice:
    """Return the format of a held-out set: that of the corpus, if the files look the same."""
    if [*map(format_extension, files)] == [*map(format_extension, preview.files)]:
        return preview.format  # It may have been given with --format.
    name = guess_format([[path] for path in files])
    return preview.format if name == preview.format.name else Choice(name=name)


def _corpus_entry(files: Sequence[Path], format_: Choice, folder: Path) -> str:
    paths = ", ".join(_quoted(os.path.relpath(path, folder)) for path in files)
    return f"{{files: [{paths}], format: {inline_yaml(format_.model_dump())}}}"


def _held_out_lines(preview: CorpusPreview, given: set[str]) -> list[str]:
    missing = [name for name in ("validation", "test") if name not in given]
    if not missing:
        return []
    source, target = preview.languages.source, preview.languages.target
    return [
        "  # To use your own files, remove the #. Otherwise pairs are held out from train:",
        *(f"  # {name}: [{{files: [{name}.{source}, {name}.{target}]}}]" for name in missing),
        f"  held_out: {max(100, min(2000, preview.pairs // 50))}  # pairs for each missing set; "
        "at most a tenth of the corpus",
    ]


def _model_lines(recipe: Recipe) -> list[str]:
    """State the positional encoding, because it decides about the export."""
    position = recipe.model.position.name
    comment = ", ".join(names("model.position"))
    if position != "sinusoidal":
        comment += f"; {position} cannot be exported to Hugging Face, sinusoidal can"
    return ["model:", f"  position: {position}  # {comment}"]


def _training_lines(recipe: Recipe, preview: CorpusPreview) -> list[str]:
    """State the number of updates, if the learning rate falls to zero at the last one."""
    settings = recipe.training
    if settings.schedule != "linear":
        return []
    updates_per_pass = preview.characters / _TOKEN_CHARACTERS / settings.tokens_per_update
    steps = max(_MIN_UPDATES, int(round(_PASSES * updates_per_pass, -2)))
    passes = round(steps / max(updates_per_pass, 1e-9))
    reason = f"about {passes:,} passes over the corpus"
    if steps == _MIN_UPDATES and passes > _PASSES:
        reason = f"the minimum, {reason}"
    return ["training:", f"  steps: {steps}  # {reason}; the learning rate ends at zero"]


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "''") + "'"
