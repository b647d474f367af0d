"""The explanation of one translation, as plain numbers.

It contains everything that the page shows: the output tokens and their alternatives, the attention
of every head, and the steps of the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from dragoman.explanation.heads import Array, HeadSummary
from dragoman.explanation.page import render
from dragoman.explanation.replay import Outcome
from dragoman.model.role import Role
from dragoman.storage.files import write_text


@dataclass(frozen=True, slots=True)
class OutputToken:
    """One token of the translation."""

    token: str
    probability: float
    """Probability given the source and the tokens before it, without temperature."""
    alternatives: tuple[tuple[str, float], ...]
    """The most probable other tokens at this position, with their probabilities."""


@dataclass(frozen=True, slots=True, eq=False)
class DotProduct:
    """The vectors whose dot product, times a scale, is the score of a pair."""

    queries: Array
    """Heads × T × features."""
    keys: Array
    """Heads × S × features."""
    scale: float


@dataclass(frozen=True, slots=True, eq=False)
class AttentionView:
    """All heads of one attention module, recorded for one sentence."""

    role: Role
    layer: int
    """Counted from the bottom, from zero."""
    weights: Array
    """Heads × T × S; each row sums to one."""
    scores: Array
    """Heads × T × S; the similarity of each query and each key."""
    mask: Array
    """T × S; true where attention is allowed."""
    similarity: str
    """How a query is compared with a key: the equation of the part."""
    attention_kind: str
    """How scores become weights: the description of the part."""
    is_softmax: bool
    product: DotProduct | None
    """None if the score is not a dot product, or not only a dot product."""
    heads: tuple[HeadSummary, ...]


@dataclass(frozen=True, slots=True)
class PartialHypothesis:
    """An unfinished translation that the search compared with others."""

    parent: int
    """Which hypothesis of the previous step it extends: its index among those that were kept."""
    token: str
    """The token that it adds."""
    text: str
    """The whole text so far."""
    score: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class FinishedHypothesis:
    """A complete translation that the search compared at the end."""

    text: str
    length: int
    """Number of tokens, including the end token."""
    total: float
    """Sum of the log-probabilities."""
    score: float
    """The total, length-normalized, plus the coverage penalty."""


@dataclass(frozen=True, slots=True)
class SearchTrace:
    """The search, step by step."""

    name: str
    beam_size: int
    length_normalization: str
    length_penalty: float
    coverage_penalty: float
    steps: tuple[tuple[PartialHypothesis, ...], ...] = ()
    """Empty for sampling, which compares no hypotheses."""
    finished: tuple[FinishedHypothesis, ...] = ()
    """Best first; the first one is the translation."""


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """One sentence, its translation, and how the model computed it."""

    sentence: str
    translation: str
    score: float
    """Sum of the log-probabilities, length-normalized, plus the coverage penalty."""
    languages: tuple[str, str]
    model: str
    """A short description of the model."""
    source_tokens: tuple[str, ...]
    """The input of the encoder; the last one is the end token."""
    decoder_input: tuple[str, ...]
    """The input of the decoder, from the begin token on: at each position, the previous token."""
    tokens: tuple[OutputToken, ...]
    """The output; the last one is the end token, unless the length limit was reached first."""
    attention: tuple[AttentionView, ...]
    """All attention modules, from bottom to top; empty for a model without attention."""
    search: SearchTrace
    notes: tuple[str, ...] = ()
    """Warnings for the reader."""
    alignments: tuple[Array, ...] = field(default=())
    """For each cross-attention, T × S: the mean over its heads."""

    @property
    def alignment(self) -> Array | None:
        """T × S: the mean over the heads of the top cross-attention, if there is one."""
        return self.alignments[-1] if self.alignments else None

    def with_role(self, role: Role) -> Sequence[AttentionView]:
        """The attention modules with one role, from bottom to top."""
        return [view for view in self.attention if view.role == role]

    def to_html(self) -> str:
        """Render one self-contained HTML page."""
        return render(self)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file."""
        write_text(Path(path), self.to_html())
        return Path(path)

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a sandboxed frame."""
        return (
            '<iframe sandbox="allow-scripts" title="Explanation of a translation" '
            'style="width:100%;height:46rem;border:1px solid #8888;border-radius:8px" '
            f'srcdoc="{escape(self.to_html())}"></iframe>'
        )
