"""The section `corpus` of a recipe.

A training corpus is parallel text, or text in one language that a model translates (synthetic):

    train:
      - {files: [train.en, train.de]}
      - {synthetic: forward, model: teacher/run, files: [more.en]}
      - {synthetic: backward, model: de-en/run, files: [more.de], tag: true}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from dragoman.errors import Mistake
from dragoman.recipe.decoding import DecodingChanges
from dragoman.recipe.parts import Choice, known
from dragoman.recipe.section import Count, Section, Share

DEFAULT_FILTERS = tuple(
    Choice(name=name)
    for name in (
        "unicode",
        "length",
        "ratio",
        "copies",
        "script",
        "language",
        "placeholders",
        "repetition",
    )
)


class CorpusFiles(Section):
    """One corpus: a file that contains both sides, or two files aligned line by line."""

    files: tuple[str, ...] = Field(description="One file or two; * matches any text")
    format: Annotated[Choice, known("corpus.readers", "auto")] = Field(
        Choice(name="auto"), description="File format (auto = by file extension)"
    )
    weight: Annotated[float, Field(gt=0)] = Field(
        1.0, description="Sampling weight (2 = seen twice as often)"
    )


Direction = Literal["none", "forward", "backward"]


class TrainingCorpus(CorpusFiles):
    """A training corpus: parallel text, or text of one language that a model translates."""

    synthetic: Direction = Field(
        "none",
        description="A model writes the target of source text (forward) or the source of target "
        "text (backward)",
    )
    model: str | tuple[str, ...] = Field(
        "", description="Run that translates; several are an ensemble (synthetic only)"
    )
    decoding: DecodingChanges = Field(
        DecodingChanges(), description="Changes of the run's decoding settings (synthetic only)"
    )
    language: str = Field(
        "", description="Target language of the run (multilingual models; synthetic only)"
    )
    tag: bool = Field(
        False, description="Tagged back-translation: a tag before each source (backward only)"
    )

    @property
    def models(self) -> tuple[str, ...]:
        """The runs that translate together."""
        names = (self.model,) if isinstance(self.model, str) else self.model
        return tuple(name for name in names if name)


Filters = tuple[Annotated[Choice, known("corpus.filters")], ...]


class CorpusRecipe(Section):
    """The text and how it is cleaned."""

    train: tuple[TrainingCorpus, ...] = Field((), description="Training corpora")
    validation: tuple[CorpusFiles, ...] = Field(
        (), description="Validation corpora (empty = held out from train)"
    )
    test: tuple[CorpusFiles, ...] = Field(
        (), description="Test corpora (empty = held out from train)"
    )
    general: tuple[CorpusFiles, ...] = Field(
        (), description="Second validation corpora: general text, when a model is adapted"
    )
    held_out: Annotated[int, Field(ge=0)] = Field(
        1000, description="Approximate number of pairs held out for each set that is not given"
    )
    filters: Filters = Field(
        DEFAULT_FILTERS, description="Cleaning filters, applied in the order of the list; available"
    )
    duplicates: Literal["keep", "exact", "near"] = Field(
        "exact", description="Removal of duplicates (near also removes exact ones)"
    )
    span_augmentation: Share = Field(
        0.5, description="Share of the training pairs with placeholders or tags that get tokens"
    )
    synthetic_spans: Share = Field(0.05, description="Share of the other pairs that get tokens")
    glossary: str = Field("", description="Terms: a TSV or CSV file, relative to the recipe")
    glossary_augmentation: Share = Field(
        0.5, description="Share of the training pairs with terms that get their translations"
    )
    max_tokens: Count = Field(256, description="Maximum tokens per side; longer pairs are left out")
    folder: str = Field("prepared", description="Output folder, relative to the recipe")
    synthetic_folder: str = Field(
        "synthetic", description="Cache of synthetic text, relative to the recipe"
    )


def mistakes_in_corpora(corpus: CorpusRecipe) -> Iterator[Mistake]:
    """Find settings of training corpora that are valid alone but impossible together."""
    for number, entry in enumerate(corpus.train):
        path = f"corpus.train.{number}"
        if entry.synthetic == "none":
            yield from _without_model(entry, path)
            continue
        if not entry.models:
            what = "missing; expected the folder of the run that translates the files"
            yield Mistake(f"{path}.model", what)
        if entry.format.name != "auto":
            what = (
                f"found {entry.format.name}, but synthetic text is read line by line; remove it, "
                "and give text files with one sentence per line"
            )
            yield Mistake(f"{path}.format", what)
        if entry.tag and entry.synthetic == "forward":
            what = "the tag marks source text of a model, but here it is the target; remove it"
            yield Mistake(f"{path}.tag", what)


def _without_model(entry: TrainingCorpus, path: str) -> Iterator[Mistake]:
    for name in ("model", "decoding", "language", "tag"):
        if getattr(entry, name) != TrainingCorpus.model_fields[name].default:
            what = (
                "has no effect on parallel text; add synthetic: forward (the files are source "
                f"text) or synthetic: backward (target text), or remove {name}"
            )
            yield Mistake(f"{path}.{name}", what)
