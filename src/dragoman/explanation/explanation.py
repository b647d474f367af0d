"""What is there to know about one translation?

Everything that the page shows, as plain numbers: what was written and what nearly was, where every
head looked and what it compared, and how the search went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from dragoman.durable import write_text
from dragoman.explanation.heads import Head, Numbers
from dragoman.explanation.page import render
from dragoman.model.record import Kind


@dataclass(frozen=True, slots=True)
class Word:
    """One token of the translation."""

    token: str
    probability: float
    """Given the source and the tokens before it: the model's own, before any temperature."""
    alternatives: tuple[tuple[str, float], ...]
    """The likeliest other tokens for this place, with their probabilities."""


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """The vectors whose dot product, times a scale, is the score of a pair."""

    queries: Numbers
    """Heads × T × features."""
    keys: Numbers
    """Heads × S × features."""
    scale: float


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """All heads of one attention, at all keys; what `record` saw, of the one sentence."""

    kind: Kind
    layer: int
    """Counted from the bottom, from zero."""
    weights: Numbers
    """Heads × T × S; each row sums to one."""
    scores: Numbers
    """Heads × T × S; how like each query is to each key."""
    mask: Numbers
    """T × S; true where one may look."""
    similarity: str
    """How a query is compared with a key, as its file says."""
    reach: str
    """How scores become weights, as its file says."""
    is_softmax: bool
    product: Product | None
    """None where the score is no dot product, or not that alone."""
    heads: tuple[Head, ...]


@dataclass(frozen=True, slots=True)
class Beginning:
    """A beginning that the search compared, in text."""

    parent: int
    """Which of those that the step before kept it goes on from, from zero."""
    token: str
    """What it adds."""
    text: str
    """What it says so far."""
    score: float
    fate: str
    """One of those in `explanation/replay.py`."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A complete translation that the search compared at the end."""

    text: str
    length: int
    """Its tokens, the end counted."""
    total: float
    score: float


@dataclass(frozen=True, slots=True)
class SearchStory:
    """The search, step by step."""

    name: str
    width: int
    length_form: str
    length_penalty: float
    steps: tuple[tuple[Beginning, ...], ...] = ()
    """None of a search that draws by chance: it compares nothing."""
    finalists: tuple[Ended, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """One sentence, its translation, and how it came to be."""

    sentence: str
    translation: str
    score: float
    """The sum of the log-probabilities, made up for length."""
    languages: tuple[str, str]
    model: str
    """What it is, in a few words."""
    source: tuple[str, ...]
    """The tokens that were read; the last is the end."""
    read: tuple[str, ...]
    """What the decoder read, from its beginning on: at each place, the token before."""
    words: tuple[Word, ...]
    """What it wrote at each place; the last is the end, unless the length limit came first."""
    looks: tuple[Look, ...]
    """Every attention, from the bottom to the top; none where a model has none."""
    search: SearchStory
    notes: tuple[str, ...] = ()
    """What a reader should know, if anything."""
    alignments: tuple[Numbers, ...] = field(default=())
    """Of each cross-attention, T × S: the mean of its heads."""

    @property
    def alignment(self) -> Numbers | None:
        """T × S: the mean of the heads of the top cross-attention, if there is one."""
        return self.alignments[-1] if self.alignments else None

    def of_kind(self, kind: Kind) -> Sequence[Look]:
        """The attentions of one kind, from the bottom to the top."""
        return [each for each in self.looks if each.kind == kind]

    def to_html(self) -> str:
        """One page that needs nothing else."""
        return render(self)

    def save(self, path: str | Path) -> Path:
        """Write the page."""
        write_text(Path(path), self.to_html())
        return Path(path)

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame that can reach nothing outside it."""
        return (
            '<iframe sandbox="allow-scripts" title="How this translation came to be" '
            'style="width:100%;height:46rem;border:1px solid #8888;border-radius:8px" '
            f'srcdoc="{escape(self.to_html())}"></iframe>'
        )
