"""Read pairs from corpus files or a prepared folder, for `dragoman corpus show`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from dragoman.corpus.opening import CorpusRequest, open_corpus
from dragoman.corpus.row import Reject, Row
from dragoman.data.store import Prepared
from dragoman.errors import DataError
from dragoman.tokenizer.folder import load_tokenizer


def read_pairs(request: CorpusRequest, *, start: int = 1, count: int = 10) -> list[Row]:
    """Return `count` pairs, beginning with pair number `start` (the first pair is number 1).

    The pairs of a prepared folder are returned as tokens, separated by spaces.
    """
    if len(request.files) == 1 and request.files[0].is_dir():
        return _prepared_pairs(request.files[0], start, count)
    corpus = open_corpus(request)
    rejects: Counter[str] = Counter()
    pairs: list[Row] = []
    readable = 0
    for row in corpus.read():
        if isinstance(row, Reject):
            rejects[row.reason] += 1
            continue
        readable += 1
        if readable >= start:
            pairs.append(row)
        if len(pairs) == count:
            break
    if not pairs:
        reasons = ", ".join(f"{reason} ({number:,})" for reason, number in rejects.most_common(3))
        raise DataError(
            f"there is no pair number {start:,}: {readable:,} pairs can be read as "
            f"{corpus.format.name}; rejected rows: {reasons or 'none'}. Check the format "
            "(--format) and the languages (--languages, for example en-de)"
        )
    return pairs


def _prepared_pairs(folder: Path, start: int, count: int) -> list[Row]:
    prepared = Prepared.open(folder)
    total = sum(prepared.rows)
    if start > total:
        pairs = "1 training pair" if total == 1 else f"{total:,} training pairs"
        raise DataError(f"there is no pair number {start:,}: {str(folder)!r} has {pairs}")
    return list(islice(_rows(prepared), start - 1, start - 1 + count))


def _rows(prepared: Prepared) -> Iterator[Row]:
    tokenizers = prepared.folder / "tokenizer"
    source, target = (load_tokenizer(tokenizers / side) for side in ("source", "target"))
    number = 0
    for shard in prepared.read_shards(range(len(prepared.rows))):
        for row in range(len(shard)):
            number += 1
            source_tokens = source.pieces(shard.source(row).tolist())
            target_tokens = target.pieces(shard.target(row).tolist())
            yield Row(number, " ".join(source_tokens), " ".join(target_tokens))
