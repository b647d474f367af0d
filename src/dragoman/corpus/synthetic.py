"""Finds the models of synthetic corpora, and checks them before anything is translated.

A synthetic corpus is text in one language. A model writes the other side: the target (forward:
sequence-level distillation and self-training) or the source (backward: back-translation). Here is
everything that must hold before the work begins: the model exists, its training is finished, its
languages are those of the corpus, and the files have one column. `stages/translate.py` does the
work.

The key of a model is a hash of everything that determines its output. It names the folder of the
model's translations, so a changed model or another beam size translates again, and nothing else
does.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from dragoman.artifact import resolve_model, tokenizer_hashes
from dragoman.corpus.files import TOOLS, format_extension, read_lines
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.row import Reject
from dragoman.errors import ArtifactError, DataError, Mistake, RecipeError
from dragoman.inference.loading import FoundModel, LoadOptions, find_model
from dragoman.inference.translator import Translator
from dragoman.recipe import parts
from dragoman.recipe.parts import Choice, choose
from dragoman.recipe.schema import Recipe, TrainingCorpus
from dragoman.storage.files import sha256, write_text
from dragoman.storage.mirror import StoredPath, exists, local_path
from dragoman.text.languages import match_code
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import UNKNOWN, language_token

VERSION = 1
"""The version of the translations; raise it if the same model must translate again."""

_SAMPLE_LINES = 100


@dataclass(frozen=True, slots=True)
class TranslationModel:
    """A model that translates text of a corpus, and how it does it."""

    names: tuple[str, ...]
    """The folders as the recipe names them."""
    folders: tuple[StoredPath, ...]
    """One run or export; several runs are an ensemble."""
    settings: tuple[str, ...]
    """Changes of its decoding settings: `decoding.beam_size=1`."""
    language: str
    """The target language that a multilingual model is asked for."""
    trust_parts: bool
    engine: Literal["ctranslate2", "pytorch"]
    model_hash: str
    quantization: str
    key: str
    """A hash of the weights, the tokenizers and all settings of the model."""


class Synthetic(NamedTuple):
    """How the other side of a corpus is written."""

    direction: Literal["forward", "backward"]
    model: TranslationModel
    is_tagged: bool
    """Whether each source gets the token of tagged back-translation."""


@lru_cache(maxsize=1)
def load_translator(model: TranslationModel) -> Translator:
    """Load a model, and keep it for the next task of this process; it uses one thread.

    Every worker process does that, so more threads would only compete, and with some engines the
    last bit of a sum depends on their number.
    """
    translator = Translator.load(
        model.folders,
        model.settings,
        engine=model.engine,
        threads=1,
        trust_parts=model.trust_parts,
    )
    actual = (translator.model_hash, translator.quantization)
    if actual != (model.model_hash, model.quantization):
        raise DataError(
            f"the model in {' and '.join(model.names)} was changed while it was used; type the "
            "same command again"
        )
    return translator


def find_translation_model(
    entry: TrainingCorpus, recipe: Recipe, base_folder: Path, *, trust_parts: bool = False
) -> TranslationModel:
    """Find the model of a synthetic corpus; raise with its mistakes, relative to the corpus."""
    folders = tuple(local_path(name, base_folder) for name in entry.models)
    mistakes = [
        Mistake("model", f"found {name}, the folder that this recipe trains; expected another run")
        for name, folder in zip(entry.models, folders, strict=True)
        if folder.resolve() == local_path(recipe.training.folder, base_folder).resolve()
    ]
    changes = entry.decoding.model_dump(mode="json")
    settings = tuple(f"decoding.{name}={json.dumps(value)}" for name, value in changes.items())
    try:
        model = find_model(folders, settings, LoadOptions(trust_parts=trust_parts))
    except ArtifactError as error:
        raise RecipeError([*mistakes, Mistake("model", str(error))]) from None
    except RecipeError as error:
        # A setting that does not fit the model; its path begins with `decoding`.
        others = [Mistake(mistake.path, mistake.what) for mistake in error.mistakes]
        raise RecipeError([*mistakes, *others]) from None
    mistakes += _model_mistakes(model, entry, recipe)
    if mistakes:
        raise RecipeError(mistakes)
    named = NamedModel(entry.models, folders, settings, entry.language, trust_parts)
    return translation_model(model, named)


class NamedModel(NamedTuple):
    """A model as a user names it."""

    names: tuple[str, ...]
    folders: tuple[Path, ...]
    settings: tuple[str, ...]
    language: str
    trust_parts: bool


def translation_model(model: FoundModel, named: NamedModel) -> TranslationModel:
    """Describe a model that was found, so that workers load exactly this one."""
    return TranslationModel(
        *named,
        engine=model.engine,
        model_hash=model.model_hash,
        quantization=model.quantization,
        key=_model_key(model, named),
    )


def describe_model(folder: Path, model: TranslationModel) -> None:
    """Write into the folder of a model's translations whose they are, for people."""
    path = folder / "model.json"
    if not exists(path):
        names = ("names", "model_hash", "engine", "quantization", "settings", "language")
        content = {name: getattr(model, name) for name in names}
        write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _model_mistakes(model: FoundModel, entry: TrainingCorpus, recipe: Recipe) -> Iterator[Mistake]:
    if model.checkpoint:
        what = (
            f"the training of {' and '.join(entry.models)} is not finished ({model.checkpoint}); "
            "finish it first: dragoman train RECIPE"
        )
        yield Mistake("model", what)
    if entry.language and not _has_language(model, entry.language):
        what = f"the model has no token for {entry.language!r}; remove it if it has one language"
        yield Mistake("language", what)
    ours, its = recipe.languages, model.recipe.languages
    expected = (ours.source, ours.target)
    if entry.synthetic == "backward":
        expected = (ours.target, ours.source)
    actual = (its.source, entry.language or its.target)
    if not _fits(expected, actual):
        advice = "give a run with these languages"
        if _fits(expected[::-1], actual):
            other = "backward" if entry.synthetic == "forward" else "forward"
            text = "target" if other == "backward" else "source"
            advice = (
                "give a run of the opposite direction, or set synthetic: "
                f"{other} if the files are {text} text"
            )
        what = (
            f"{' and '.join(entry.models)} translates {actual[0]} → {actual[1]}, expected "
            f"{expected[0]} → {expected[1]} for synthetic: {entry.synthetic}; {advice}"
        )
        yield Mistake("model", what)


def _has_language(model: FoundModel, language: str) -> bool:
    source = load_tokenizer(model.tokenizer / "source")
    tokens = (language_token(language), f">>{language}<<")
    return any(source.id_of(token) != UNKNOWN for token in tokens)


def _fits(expected: tuple[str, str], actual: tuple[str, str]) -> bool:
    """Return whether two pairs of languages are the same; an imported model may not state them."""
    return all(
        not code or not wanted or match_code(wanted, [code]) or match_code(code, [wanted])
        for wanted, code in zip(expected, actual, strict=True)
    )


def _model_key(model: FoundModel, named: NamedModel) -> str:
    """Hash everything that determines the output of a model."""
    inputs = [
        VERSION,
        model.model_hash,
        model.quantization,
        model.engine,
        tokenizer_hashes(model.tokenizer),
        # The files, because another version of Dragoman may read them with more settings.
        [sha256(resolve_model(folder) / "recipe.yaml") for folder in named.folders],
        sorted(named.settings),
        named.language,
    ]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


def check_text(path: Path) -> None:
    """Raise if a file is not text with one sentence per line."""
    extension = format_extension(path)
    name = shlex.quote(str(path))
    expected = "expected text with one sentence per line, in one language"
    if extension in _corpus_extensions():
        raise DataError(
            f"{path.name} is a {extension} file, {expected}. If it is parallel text, remove "
            "synthetic and model"
        )
    lines = (line for _, line in islice(read_lines(path), _SAMPLE_LINES))
    columns = {line.count("\t") + 1 for line in lines if not isinstance(line, Reject) and line}
    if len(columns) == 1 and (count := columns.pop()) > 1:
        tool = TOOLS.get(path.suffix.lower())
        command = f"{tool} -dc {name} | cut -f1" if tool else f"cut -f1 {name}"
        raise DataError(
            f"{path.name} has {count} columns, separated by tabs; {expected}. To keep the first "
            f"column, type: {command} > new-file"
        )


def _corpus_extensions() -> set[str]:
    """Return the extensions of corpus files that are not plain text; TSV is tested by its tabs."""
    readers = (
        choose("corpus.readers", Choice(name=name), "format", CorpusReader).cls
        for name in parts.names("corpus.readers")
        if name not in ("lines", "tsv")
    )
    return {extension for reader in readers for extension in reader.extensions}
