"""The content of `report.json`: what was read, what was kept, and why the rest was dropped."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict

from dragoman.corpus.alignment import Shift
from dragoman.corpus.counts import Example, SplitSizes, TextStatistics
from dragoman.recipe.schema import LanguagesRecipe

VERSION = 4
"""The version of the format of `report.json`."""
EXACT_DUPLICATE, NEAR_DUPLICATE = DUPLICATES = ("exact duplicate", "near duplicate")
"""The reasons why a repeated pair is dropped."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SyntheticReport(_Frozen):
    """How the other side of a text was written."""

    direction: Literal["forward", "backward"]
    models: list[str]
    """The runs, as the recipe names them."""
    is_tagged: bool


class CorpusReport(_Frozen):
    """What happened to the rows of one corpus: rows = kept + dropped."""

    name: str
    split: str
    synthetic: SyntheticReport | None = None
    """None for parallel text."""
    rows: int
    kept: int
    dropped: dict[str, int]
    """The number of dropped rows, by reason."""
    examples: dict[str, list[Example]]
    rejected_rows: dict[str, list[int]]
    """The numbers of the first rows that could not be read, by reason."""
    dropped_languages: dict[str, int]
    """The detected languages of pairs dropped because of their language."""
    shift: Shift | None
    """Where the two files stop being aligned, if they do."""


class Histograms(TextStatistics):
    """The sizes of the training text, with the edges of the histograms."""

    length_edges: list[int]
    ratio_edges: list[float]


class SideVocabulary(_Frozen):
    """How one side uses its vocabulary; `used`, `rare` and `unknown` count the first shard."""

    size: int
    tokens: int
    tokens_per_word: float
    unknown: int
    unknown_share: float
    used: int
    rare: int
    """The number of tokens that occur fewer than 10 times."""


class VocabularyReport(_Frozen):
    """How the shards use the vocabulary."""

    pairs: int
    too_long: int
    """The pairs that were left out because of `corpus.max_tokens`."""
    augmented: int
    """The pairs that got span tokens because of `corpus.span_augmentation`."""
    annotated: int
    """The pairs with terms of `corpus.glossary`."""
    longest: int
    """The number of tokens of the longest side."""
    sampled_pairs: int
    """The number of pairs in the first shard."""
    source: SideVocabulary
    target: SideVocabulary


class Detected(_Frozen):
    """The languages that a detector finds in a sample of the pairs that were kept."""

    source: dict[str, int]
    target: dict[str, int]


class Foreign(_Frozen):
    """The number of sampled texts that are in another language than expected."""

    source: int
    target: int


class Report(_Frozen):
    """Everything that helps to judge a prepared corpus."""

    version: int = VERSION
    languages: LanguagesRecipe
    corpora: list[CorpusReport]
    splits: SplitSizes
    statistics: Histograms
    detected: Detected
    foreign: Foreign
    vocabulary: VocabularyReport
    samples: list[tuple[str, str]]

    def to_json(self) -> str:
        """Return the text of `report.json`."""
        content = self.model_dump(mode="json")
        return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
