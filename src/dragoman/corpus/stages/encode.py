"""Stage 6: encode the training pairs and write them as shards of token ids.

Before, span tokens and terms are put into some of the pairs (`augmentation.py`), if both tokenizers
have the tokens. Back-translated sources get their tag, if the recipe wants it. Only training pairs
are changed; validation and test text stays as it is.

One bucket becomes one shard. A bucket is a random sample of the corpus, ordered by hash, so the
shards and their rows are already shuffled.
"""

from __future__ import annotations

from operator import ne

import numpy as np
import pyarrow as pa

from dragoman.corpus import table
from dragoman.corpus.augmentation import AugmentationSettings, annotate, augment
from dragoman.corpus.filter import Pair
from dragoman.corpus.stages.split import SPLITS
from dragoman.corpus.task import PreparationTask
from dragoman.data.store import write_shard
from dragoman.storage.mirror import StoredPath, fetch
from dragoman.text.glossary import Glossary
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import BACK_TRANSLATION_TOKEN, Tokenizer

_BLOCK_ROWS = 20_000


class EncodeTask(PreparationTask):
    """Encodes the training pairs of one bucket."""

    rows: StoredPath
    tokenizers: tuple[StoredPath, StoredPath]
    """The folders of the source and target tokenizer; equal if the vocabulary is shared."""
    augmentation: AugmentationSettings
    """How many pairs get span tokens and annotated terms."""
    glossary: StoredPath | None
    tagged: tuple[int, ...]
    """The origins whose sources get the token of tagged back-translation."""
    max_tokens: int
    """Pairs with more tokens on one side are left out and counted."""
    threads: int
    """Threads of one task, if there are fewer tasks than workers; they do not change the bytes."""

    def run(self) -> None:
        """Encode the bucket."""
        rows = table.read_bucket([self.rows], SPLITS.index("train"))
        source_folder, target_folder = self.tokenizers
        source = load_tokenizer(fetch(source_folder))
        is_shared = source_folder == target_folder
        target = source if is_shared else load_tokenizer(fetch(target_folder))
        source.threads = target.threads = self.threads
        augments = source.has_span_tokens and target.has_span_tokens
        glossary = Glossary.load(fetch(self.glossary)) if self.glossary else None
        batches: list[pa.RecordBatch] = []
        augmented = annotated = 0
        for start in range(0, max(1, len(rows)), _BLOCK_ROWS):
            block = rows.slice(start, _BLOCK_ROWS)
            pairs = list(table.pairs(block))
            if augments:
                changed = [augment(pair, self.augmentation) for pair in pairs]
                augmented += sum(map(ne, pairs, changed))
                pairs = changed
            if augments and glossary:
                changed = [annotate(pair, glossary, self.augmentation) for pair in pairs]
                annotated += sum(map(ne, pairs, changed))
                pairs = changed
            is_tagged = np.isin(block["origin"].to_numpy(), self.tagged)
            columns = [
                _ids(source, list(map(_with_tag, pairs, is_tagged))),
                _ids(target, [pair.target for pair in pairs]),
                _one_array(block["origin"]),
            ]
            batches.append(
                pa.RecordBatch.from_arrays(columns, names=["source", "target", "origin"])
            )
        table_of_ids = pa.Table.from_batches(batches)
        write_shard(self.result, table_of_ids, self.max_tokens, augmented, annotated)


def _with_tag(pair: Pair, is_tagged: bool) -> str:
    # With a space, so that the first word has the same tokens as without the tag.
    return f"{BACK_TRANSLATION_TOKEN} {pair.source}" if is_tagged else pair.source


def _ids(tokenizer: Tokenizer, texts: list[str]) -> pa.Array:
    dtype = pa.uint16() if tokenizer.size <= np.iinfo(np.uint16).max else pa.int32()
    return pa.array(tokenizer.encode(texts), pa.list_(dtype))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
