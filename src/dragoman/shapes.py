"""The letters that stand for sizes in the shape annotations of all tensors.

    B  sentences in a batch          H  heads
    T  queries, or target length     D  size of one head
    S  keys, or source length        M  width of the model (d_model)
    P  features of a position        F  width of the feed-forward layer (ffn_dim)
    V  size of the vocabulary        K  hypotheses kept per sentence
    E  features of a token           L  layers
    N  hypotheses in a batch         C  candidates for a position

The layout inside attention is always `B H T D`. A size with `#` may also be 1 (it broadcasts).
A mask is True where attention is allowed. Sequences are padded at the end.

The annotations cost nothing at run time. Only pytest checks them, with an import hook that
`tests/conftest.py` installs.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Tensor"]
