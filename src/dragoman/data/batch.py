"""What does one batch look like?

Rows of ids, padded at the right. The source ends with END; the target is shifted to the right: the
model reads BEGIN and the words, and is asked for the words and END.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dragoman.data.store import Ids
from dragoman.tokenizer.interface import BEGIN, END, PADDING


class Batch(NamedTuple):
    """Padded ids as numpy arrays, sentences × places."""

    source: Ids
    source_is_real: Ids
    target: Ids
    """What the decoder reads."""
    expected: Ids
    """What it should say."""
    target_is_real: Ids


def collate(
    sources: Sequence[Sequence[int] | Ids], targets: Sequence[Sequence[int] | Ids]
) -> Batch:
    """Lay pairs of token sequences side by side."""
    source, expected = _pad(sources), _pad(targets)
    target = np.full_like(expected, PADDING)
    target[:, 0] = BEGIN
    target[:, 1:] = expected[:, :-1]
    # What follows END is padding, not END itself.
    target[target == END] = PADDING
    return Batch(source, source != PADDING, target, expected, expected != PADDING)


def _pad(sequences: Sequence[Any]) -> Ids:
    lengths = np.array([len(sequence) for sequence in sequences])
    padded = np.full((len(sequences), int(lengths.max(initial=0)) + 1), PADDING, dtype=np.int64)
    is_word = np.arange(padded.shape[1]) < lengths[:, None]
    padded[is_word] = np.concatenate(sequences)
    padded[np.arange(len(sequences)), lengths] = END
    return padded
