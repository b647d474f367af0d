"""What came in, what was kept, and why was the rest dropped?

`gather` counts, `report_html.py` draws. Every number comes from what the stages counted while they
worked; languages and pieces are looked at on a sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from dragoman.corpus import table
from dragoman.corpus.pipeline import Preparation
from dragoman.corpus.read import chunks_of
from dragoman.corpus.split import LENGTH_EDGES, RATIO_EDGES, SIDES
from dragoman.data.store import Shard, shard_counts
from dragoman.errors import DragomanError
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import UNKNOWN

_SAMPLE = 2000
_EXAMPLES = 3
_SHOWN_PAIRS = 8
_SHOWN_LANGUAGES = 8


class LostRowsError(DragomanError):
    """The counts do not add up: a fault of ours, never of the data."""


def gather(preparation: Preparation) -> dict[str, Any]:
    """Collect everything a person needs to judge the corpus."""
    corpora = list(_corpora(preparation))
    detected = _detected(preparation)
    return {
        "languages": preparation.recipe.languages.model_dump(),
        "corpora": corpora,
        "sides": _sides(preparation),
        "statistics": _statistics(preparation),
        "detected": detected,
        "foreign": _foreign(preparation, detected),
        "vocabulary": _vocabulary(preparation),
        "samples": [list(pair) for pair in _sample(preparation, _SHOWN_PAIRS)],
    }


def _corpora(preparation: Preparation) -> Iterator[dict[str, Any]]:
    """Follow the rows of each corpus; rows in = rows kept + rows dropped by reason."""
    exact = _sum_by_origin(table.counts(path)["dropped"] for path in preparation.exact_files)
    near = _sum_by_origin(table.counts(path)["near"] for path in preparation.split_files)
    kept = _sum_by_origin(table.counts(path)["kept"] for path in preparation.split_files)
    for origin, corpus in enumerate(preparation.corpora):
        read = table.counts(chunks_of(preparation.read_folders[origin])[-1])
        dropped = Counter({f"unreadable: {why}": n for why, n in read["rejects"].items()})
        lines = {f"unreadable: {why}": at for why, at in read["rejected_lines"].items()}
        examples: dict[str, list[Any]] = {}
        languages: Counter[str] = Counter()
        shifts = []
        for path in preparation.clean_files[origin]:
            counts = table.counts(path)
            shifts += [counts["shift"]] if counts["shift"] else []
            for reason, record in counts["dropped"].items():
                dropped[reason] += record["count"]
                languages.update(record.get("languages", {}))
                seen = examples.setdefault(reason, [])
                seen += record["examples"][: _EXAMPLES - len(seen)]
        found = {"name": corpus.name, "side": corpus.side, "rows": read["rows"]}
        if corpus.side == "train":
            for reason, number in (("exact duplicate", exact), ("near duplicate", near)):
                if number[origin]:
                    dropped[reason] = number[origin]
            found["kept"] = kept[origin]
        else:
            found["kept"] = read["rows"] - sum(dropped.values())
        found |= {"dropped": dict(dropped), "examples": examples, "lines": lines}
        found["dropped_languages"] = _most_common(languages)
        found["shift"] = shifts[0] if shifts else None
        if found["rows"] != found["kept"] + sum(dropped.values()):
            raise LostRowsError(
                f"{corpus.name}: {found['rows']} rows came in, {found['kept']} were kept and "
                f"{sum(dropped.values())} dropped; this is a fault of Dragoman, please report it"
            )
        yield found


def _sum_by_origin(counts: Iterator[dict[str, int]]) -> Counter[int]:
    total: Counter[int] = Counter()
    for each in counts:
        total.update({int(origin): number for origin, number in each.items()})
    return total


def _sides(preparation: Preparation) -> dict[str, int]:
    found = {side: 0 for side in SIDES}
    for path in preparation.split_files:
        for side, number in table.counts(path)["sides"].items():
            found[side] += number
    for corpus, folder in zip(preparation.corpora, preparation.read_folders, strict=True):
        if corpus.side != "train":
            counts = table.counts(chunks_of(folder)[-1])
            found[corpus.side] += counts["rows"] - sum(counts["rejects"].values())
    return found


def _statistics(preparation: Preparation) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for path in preparation.split_files:
        for name, value in table.counts(path)["statistics"].items():
            before = total.get(name, np.zeros_like(value))
            total[name] = (np.array(before) + np.array(value)).tolist()
    return total | {"length_edges": LENGTH_EDGES.tolist(), "ratio_edges": RATIO_EDGES.tolist()}


def _sample(preparation: Preparation, limit: int) -> Iterator[tuple[str, str]]:
    """Take the first training pairs of every bucket: buckets are random samples."""
    each = -(-limit // len(preparation.split_files))
    for path in preparation.split_files:
        rows = table.read_bucket([path], SIDES.index("train")).slice(0, each)
        yield from zip(rows["source"].to_pylist(), rows["target"].to_pylist(), strict=True)


def _detected(preparation: Preparation) -> dict[str, dict[str, int]]:
    """Ask the detector which languages it sees in a sample of what was kept."""
    from dragoman.corpus.step.language import detect  # noqa: PLC0415  (loads a model)

    found: dict[str, Counter[str]] = {"source": Counter(), "target": Counter()}
    for pair in _sample(preparation, _SAMPLE):
        for side, text in zip(found, pair, strict=True):
            found[side][detect(text)] += 1
    return {side: _most_common(counter) for side, counter in found.items()}


def _most_common(counter: Counter[str]) -> dict[str, int]:
    # By name where they are equally many: which came first is not the corpus's affair.
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN_LANGUAGES])


def _foreign(preparation: Preparation, detected: dict[str, dict[str, int]]) -> dict[str, int]:
    """Count what the detector takes for a language that is not the one expected, nor near it."""
    from dragoman.corpus.step.language import UNSURE, accepted_codes  # noqa: PLC0415  (as above)

    languages = preparation.recipe.languages.model_dump()
    found = {}
    for side, counter in detected.items():
        expected = accepted_codes(languages[side])
        foreign = {code for code in counter if expected and code not in expected} - {UNSURE}
        found[side] = sum(counter[code] for code in foreign)
    return found


def _vocabulary(preparation: Preparation) -> dict[str, Any]:
    """Look at how the first shard uses the vocabulary."""
    assert preparation.tokenizers is not None
    shard, counts = Shard.open(preparation.shards[0]), shard_counts(preparation.shards[0])
    total = [shard_counts(path) for path in preparation.shards]
    words = _statistics(preparation)
    found: dict[str, Any] = {
        "too_long": sum(each["too_long"] for each in total),
        "pairs": sum(each["rows"] for each in total),
        "longest": max(each["longest"] for each in total),
        "looked_at": counts["rows"],
    }
    for side, folder in zip(("source", "target"), preparation.tokenizers, strict=True):
        tokenizer = load_tokenizer(folder)
        ids = shard.source_ids if side == "source" else shard.target_ids
        used = np.bincount(ids, minlength=tokenizer.size)
        tokens = sum(each[f"{side}_tokens"] for each in total)
        found[side] = {
            "size": tokenizer.size,
            "tokens": tokens,
            "tokens_per_word": round(tokens / max(1, words[f"{side}_words"]), 3),
            "unknown": int(used[UNKNOWN]),
            "unknown_share": round(int(used[UNKNOWN]) / max(1, len(ids)), 6),
            "used": int((used > 0).sum()),
            "seldom": int(((used > 0) & (used < 10)).sum()),
        }
    return found
