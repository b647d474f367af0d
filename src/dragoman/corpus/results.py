"""The results of the stages of preparation: which files each stage has written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from dragoman.corpus import table
from dragoman.corpus.counts import CleanCounts, ExactCounts
from dragoman.corpus.discovery import Corpus
from dragoman.corpus.filter import Pair
from dragoman.corpus.stages.read import counts_of, read_pairs
from dragoman.corpus.stages.split import SPLITS
from dragoman.data.manifest import Manifest
from dragoman.recipe.schema import Recipe


@dataclass(frozen=True, slots=True)
class ReadResult:
    """All corpora of the recipe, and the folder of chunks of each."""

    corpora: tuple[Corpus, ...]
    folders: tuple[Path, ...]

    @property
    def human(self) -> tuple[int, ...]:
        """The origins of the training corpora that are parallel text."""
        return self._origins(lambda corpus: corpus.split == "train" and corpus.synthetic is None)

    @property
    def synthetic(self) -> tuple[int, ...]:
        """The origins of the synthetic corpora."""
        return self._origins(lambda corpus: corpus.synthetic is not None)

    @property
    def tagged(self) -> tuple[int, ...]:
        """The origins of the synthetic corpora whose sources get a tag."""
        return self._origins(
            lambda corpus: corpus.synthetic is not None and corpus.synthetic.is_tagged
        )

    def _origins(self, is_chosen: Callable[[Corpus], bool]) -> tuple[int, ...]:
        return tuple(origin for origin, corpus in enumerate(self.corpora) if is_chosen(corpus))

    def held_out_folders(self) -> list[Path]:
        """Return the folders of all corpora that are not for training."""
        corpora = zip(self.corpora, self.folders, strict=True)
        return [folder for corpus, folder in corpora if corpus.split != "train"]

    def pairs(self, split: str) -> Iterator[Pair]:
        """Yield the pairs of all corpora that the recipe names for a split."""
        for corpus, folder in zip(self.corpora, self.folders, strict=True):
            if corpus.split == split:
                yield from read_pairs(folder)


@dataclass(frozen=True, slots=True)
class CleanResult:
    """The cleaned chunks of each corpus, scattered by bucket; none for held-out corpora."""

    chunks: tuple[tuple[Path, ...], ...]

    @property
    def all_chunks(self) -> tuple[Path, ...]:
        """The chunks of all corpora."""
        return tuple(path for paths in self.chunks for path in paths)

    def why_nothing_is_left(self, read: ReadResult) -> str:
        """Return the error message for a corpus of which every pair was dropped."""
        reasons: Counter[str] = Counter()
        pairs = 0
        for corpus, folder in zip(read.corpora, read.folders, strict=True):
            if corpus.split != "train":
                continue
            read_counts = counts_of(folder)
            pairs += read_counts.rows
            reasons.update(read_counts.rejects)
            reasons.update({name: rows.count for name, rows in read_counts.dropped.items()})
        for path in self.all_chunks:
            dropped = table.read_counts(path, CleanCounts).dropped
            reasons.update({reason: rows.count for reason, rows in dropped.items()})
        listed = ", ".join(f"{reason} ({count:,})" for reason, count in reasons.most_common(5))
        if pairs and not listed:
            return (
                f"no pair is left to train on: all pairs of the files ({pairs:,}) were held out "
                "for validation and test. Add pairs, or set corpus.held_out: 0"
            )
        return (
            f"no pair is left to train on. Dropped: {listed or 'nothing, the files are empty'}. "
            "Check the files, their order and the languages. If a filter is too strict, remove it "
            "from corpus.filters"
        )


@dataclass(frozen=True, slots=True)
class DeduplicationResult:
    """The buckets without exact duplicates, and the votes against near duplicates."""

    key: str
    buckets: tuple[Path, ...]
    votes: tuple[Path, ...]

    def count(self, origins: tuple[int, ...]) -> int:
        """Count the rows of some corpora."""
        counts = (table.read_counts(path, ExactCounts).kept for path in self.buckets)
        return sum(kept.get(origin, 0) for kept in counts for origin in origins)


@dataclass(frozen=True, slots=True)
class SplitResult:
    """The finished buckets, each scattered by split."""

    buckets: tuple[Path, ...]

    @property
    def key(self) -> str:
        """The name of the folder, which identifies the content."""
        return self.buckets[0].parent.name

    def pairs(self, split: str) -> Iterator[Pair]:
        """Yield the pairs of one split."""
        for path in self.buckets:
            yield from table.pairs(table.read_bucket([path], SPLITS.index(split)))

    def sample(self, limit: int) -> Iterator[Pair]:
        """Yield at most `limit` training pairs, the first of each bucket: it is a random sample."""
        per_bucket = -(-limit // len(self.buckets))
        # Buckets are only read until there are enough pairs.
        first_rows = (
            table.read_bucket([path], SPLITS.index("train")).slice(0, per_bucket)
            for path in self.buckets
        )
        return islice(chain.from_iterable(map(table.pairs, first_rows)), limit)


@dataclass(frozen=True, slots=True)
class TokenizerResult:
    """The folders of the tokenizers; equal if the vocabulary is shared."""

    source: Path
    target: Path


@dataclass(frozen=True, slots=True)
class EncodeResult:
    """The training shards."""

    shards: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """The results of all stages of one preparation."""

    recipe: Recipe
    read: ReadResult
    clean: CleanResult
    deduplication: DeduplicationResult
    split: SplitResult
    tokenizer: TokenizerResult
    encode: EncodeResult
    manifest: Manifest
