"""Collects the report from the counts of the stages.

Every number was counted while a stage worked. Only the languages and the use of the vocabulary are
measured here, on a sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from dragoman.corpus import table
from dragoman.corpus.counts import (
    CleanCounts,
    ExactCounts,
    Example,
    SplitCounts,
    SplitSizes,
    TextStatistics,
)
from dragoman.corpus.discovery import Corpus
from dragoman.corpus.leakage import IN_A_TEST_SET
from dragoman.corpus.report.model import (
    EXACT_DUPLICATE,
    NEAR_DUPLICATE,
    CorpusReport,
    Detected,
    Foreign,
    Histograms,
    Report,
    SideVocabulary,
    SyntheticReport,
    VocabularyReport,
)
from dragoman.corpus.results import PipelineResult
from dragoman.corpus.stages.read import counts_of
from dragoman.corpus.stages.split import HELD_OUT, LENGTH_EDGES, RATIO_EDGES
from dragoman.data.store import DataShard, Ids, shard_counts
from dragoman.errors import DragomanError
from dragoman.storage.mirror import fetch
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import UNKNOWN

_SAMPLE = 2000
_EXAMPLES = 3
_SHOWN_PAIRS = 8
_SHOWN_LANGUAGES = 8
_RARE = 10


class LostRowsError(DragomanError):
    """The counts do not add up: a bug in Dragoman, never a problem of the data."""


def gather(result: PipelineResult) -> Report:
    """Collect everything that helps to judge the corpus."""
    splits = [table.read_counts(path, SplitCounts) for path in result.split.buckets]
    statistics = sum((counts.statistics for counts in splits), TextStatistics())
    languages = result.recipe.languages
    source, target = _detect(result)
    return Report(
        languages=languages,
        corpora=list(_corpora(result, splits)),
        splits=_split_sizes(result, splits),
        statistics=Histograms(
            **dict(statistics),
            length_edges=LENGTH_EDGES.tolist(),
            ratio_edges=RATIO_EDGES.tolist(),
        ),
        detected=Detected(source=_most_common(source), target=_most_common(target)),
        foreign=Foreign(
            source=_count_foreign(languages.source, source),
            target=_count_foreign(languages.target, target),
        ),
        vocabulary=_vocabulary(result, statistics),
        samples=[tuple(pair) for pair in result.split.sample(_SHOWN_PAIRS)],
    )


def _corpora(result: PipelineResult, splits: list[SplitCounts]) -> Iterator[CorpusReport]:
    """Follow the rows of each corpus; raise if one is neither kept nor dropped."""
    exact = _sum_by_origin(
        table.read_counts(path, ExactCounts).dropped for path in result.deduplication.buckets
    )
    near = _sum_by_origin(counts.near for counts in splits)
    leaked = _sum_by_origin(counts.leaked for counts in splits)
    kept_by_origin = _sum_by_origin(counts.kept for counts in splits)
    for origin, corpus in enumerate(result.read.corpora):
        read = counts_of(result.read.folders[origin])
        cleaned = _Cleaned(result.clean.chunks[origin])
        dropped = Counter({f"unreadable: {reason}": n for reason, n in read.rejects.items()})
        dropped += Counter({reason: rows.count for reason, rows in read.dropped.items()})
        dropped += cleaned.dropped
        if corpus.split == "train":
            later = {EXACT_DUPLICATE: exact, NEAR_DUPLICATE: near, IN_A_TEST_SET: leaked}
            for reason, counts in later.items():
                if counts[origin]:
                    dropped[reason] += counts[origin]
            kept = kept_by_origin[origin]
        else:
            kept = read.rows - sum(dropped.values())
        if read.rows != kept + sum(dropped.values()):
            raise LostRowsError(
                f"{corpus.name}: {read.rows} rows were read, {kept} were kept and "
                f"{sum(dropped.values())} dropped; this is a bug in Dragoman, please report it"
            )
        yield CorpusReport(
            name=corpus.name,
            split=corpus.split,
            synthetic=_synthetic(corpus),
            rows=read.rows,
            kept=kept,
            dropped=dict(dropped),
            examples={reason: rows.examples for reason, rows in read.dropped.items()}
            | cleaned.examples,
            rejected_rows={
                f"unreadable: {reason}": rows for reason, rows in read.rejected_rows.items()
            },
            dropped_languages=_most_common(cleaned.languages),
            shift=cleaned.shift,
        )


def _synthetic(corpus: Corpus) -> SyntheticReport | None:
    if corpus.synthetic is None:
        return None
    direction, model, is_tagged = corpus.synthetic
    return SyntheticReport(direction=direction, models=list(model.names), is_tagged=is_tagged)


class _Cleaned:
    """The counts of all chunks of one corpus."""

    def __init__(self, chunks: Iterable[Path]) -> None:
        self.dropped: Counter[str] = Counter()
        self.languages: Counter[str] = Counter()
        self.examples: dict[str, list[Example]] = {}
        all_counts = [table.read_counts(path, CleanCounts) for path in chunks]
        self.shift = next((counts.shift for counts in all_counts if counts.shift), None)
        for counts in all_counts:
            for reason, rows in counts.dropped.items():
                self.dropped[reason] += rows.count
                self.languages.update(rows.languages)
                examples = self.examples.setdefault(reason, [])
                examples += rows.examples[: _EXAMPLES - len(examples)]


def _sum_by_origin(counts: Iterable[Mapping[int, int]]) -> Counter[int]:
    total: Counter[int] = Counter()
    for by_origin in counts:
        total.update(by_origin)
    return total


def _split_sizes(result: PipelineResult, splits: list[SplitCounts]) -> SplitSizes:
    sizes = {
        name: sum(getattr(counts.splits, name) for counts in splits)
        for name in SplitSizes.model_fields
    }
    for corpus, folder in zip(result.read.corpora, result.read.folders, strict=True):
        if corpus.split in HELD_OUT:
            sizes[corpus.split] += counts_of(folder).readable
    return SplitSizes(**sizes)


def _detect(result: PipelineResult) -> tuple[Counter[str], Counter[str]]:
    """Count the detected languages of a sample of the pairs that were kept: source and target."""
    from dragoman.text.identification import detect  # noqa: PLC0415  (loads a model)

    source: Counter[str] = Counter()
    target: Counter[str] = Counter()
    for pair in result.split.sample(_SAMPLE):
        source[detect(pair.source)] += 1
        target[detect(pair.target)] += 1
    return source, target


def _most_common(counter: Counter[str]) -> dict[str, int]:
    # Ties are ordered by name, so the report does not depend on the order of the rows.
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN_LANGUAGES])


def _count_foreign(language: str, detected: Mapping[str, int]) -> int:
    """Count texts in a language that is neither the expected one nor close to it."""
    from dragoman.text.identification import UNSURE, accepted_codes  # noqa: PLC0415  (as above)

    accepted = accepted_codes(language)
    foreign = {code for code in detected if accepted and code not in accepted} - {UNSURE}
    return sum(detected[code] for code in foreign)


def _vocabulary(result: PipelineResult, statistics: TextStatistics) -> VocabularyReport:
    """Measure how the first shard uses the vocabulary."""
    shards = result.encode.shards
    counts = [shard_counts(path) for path in shards]
    first = DataShard.open(fetch(shards[0]))
    source_tokens = sum(shard.source_tokens for shard in counts)
    target_tokens = sum(shard.target_tokens for shard in counts)
    return VocabularyReport(
        pairs=sum(shard.rows for shard in counts),
        too_long=sum(shard.too_long for shard in counts),
        augmented=sum(shard.augmented for shard in counts),
        annotated=sum(shard.annotated for shard in counts),
        longest=max(shard.longest for shard in counts),
        sampled_pairs=counts[0].rows,
        source=_side(
            result.tokenizer.source, first.source_ids, source_tokens, statistics.source_words
        ),
        target=_side(
            result.tokenizer.target, first.target_ids, target_tokens, statistics.target_words
        ),
    )


def _side(folder: Path, ids: Ids, tokens: int, words: int) -> SideVocabulary:
    size = load_tokenizer(fetch(folder)).size
    uses = np.bincount(ids, minlength=size)
    unknown = int(uses[UNKNOWN])
    return SideVocabulary(
        size=size,
        tokens=tokens,
        tokens_per_word=round(tokens / max(1, words), 3),
        unknown=unknown,
        unknown_share=round(unknown / max(1, len(ids)), 6),
        used=int((uses > 0).sum()),
        rare=int(((uses > 0) & (uses < _RARE)).sum()),
    )
