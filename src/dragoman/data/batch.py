"""Makes padded batches of token ids.

Each row is padded on the right. The source ends with END. The target is shifted to the right: the
decoder reads BEGIN and the tokens, and must predict the tokens and END.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dragoman.data.store import Ids
from dragoman.tokenizer.interface import BEGIN, END, PADDING


class Batch(NamedTuple):
    """Padded ids as NumPy arrays, sentences × positions."""

    source: Ids
    source_is_real: Ids
    target: Ids
    """The input of the decoder."""
    expected: Ids
    """The tokens that the decoder must predict."""
    target_is_real: Ids


def collate(
    sources: Sequence[Sequence[int] | Ids], targets: Sequence[Sequence[int] | Ids]
) -> Batch:
    """Make a batch of pairs of token sequences."""
    source, expected = _pad(sources), _pad(targets)
    target = np.full_like(expected, PADDING)
    target[:, 0] = BEGIN
    target[:, 1:] = expected[:, :-1]
    # The decoder never reads END: the positions after the last token are padding.
    target[target == END] = PADDING
    return Batch(source, source != PADDING, target, expected, expected != PADDING)


def _pad(sequences: Sequence[Any]) -> Ids:
    lengths = np.array([len(sequence) for sequence in sequences])
    padded = np.full((len(sequences), int(lengths.max(initial=0)) + 1), PADDING, dtype=np.int64)
    is_token = np.arange(padded.shape[1]) < lengths[:, None]
    padded[is_token] = np.concatenate(sequences)
    padded[np.arange(len(sequences)), lengths] = END
    return padded
