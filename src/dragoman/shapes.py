"""Which letter stands for which size?

One legend for the whole project; every tensor in a signature is written in these letters.

    B  sentences in a batch          H  heads
    T  queries, or target length     D  size of one head
    S  keys, or source length        M  width of the model
    P  features of a position        F  inner width of the feed-forward network
    V  words in the vocabulary       K  hypotheses kept for a sentence
    E  features of a word            L  layers
    N  hypotheses of a batch         C  candidates for a place

The layout inside attention is always `B H T D`. A letter behind `#` may also be 1 (it
broadcasts). A mask is True where one may look. Sequences are padded at their right end.

The annotations cost nothing at run time: they are checked under pytest only, by an import
hook that `tests/conftest.py` installs.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Tensor"]
