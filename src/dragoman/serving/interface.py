"""What the parts of the server pass to each other: requests, results, callers and errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from dragoman.text.glossary import Glossary

TextFormat = Literal["text", "html", "xml"]
"""`text`: plain text with line breaks; `html`, `xml`: a fragment with tags and entities."""

Scope = Literal["translate", "documents", "glossaries", "suggest"]

ErrorKind = Literal[
    "bad_request",  # The request cannot be understood, or a value is wrong.
    "unknown_language",
    "missing_pair",  # Both languages are known, but no model translates between them.
    "too_long",  # More text than the server accepts.
    "not_found",
    "unsupported",  # The server was not started with what this needs.
    "key_missing",
    "key_invalid",
    "forbidden",  # The key does not have the scope.
    "quota",  # The key has no characters left.
    "rate",  # The key or the address sends too many requests.
    "not_ready",  # The result of a document does not exist yet.
    "overloaded",  # The answer cannot be ready before the deadline of the API.
    "internal",
]


class ServiceError(Exception):
    """A request that is refused; each API gives it its own status and body.

    The message is shown to the client. It must not contain any text of the request.
    """

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request."""

    client: str
    """The id of the key, or the address; the queue is fair between clients. Never logged."""
    key_id: str = ""
    """The public id of the API key; empty if the server does not use keys."""
    deadline: float = 20.0
    """Seconds after which the client gives up."""
    scopes: frozenset[Scope] = frozenset(get_args(Scope))
    """What the key allows; without keys, everything."""


@dataclass(frozen=True, slots=True)
class TextRequest:
    """Texts to translate."""

    texts: tuple[str, ...]
    target: str
    """A language code, as the client wrote it."""
    source: str = ""
    """Empty: the language of each text is detected."""
    format: TextFormat = "text"
    num_alternatives: int = 0
    with_alignment: bool = False
    glossary: Glossary | None = None
    ignored_tags: frozenset[str] = frozenset()
    """Elements whose content is copied (`html`, `xml`)."""
    splits_sentences: bool = True
    keeps_newlines: bool = True
    """False: a newline is a space (DeepL's `nonewlines`)."""
    is_one_text: bool = False
    """The texts are the sentences of one text; in the queue they count as one text."""


@dataclass(frozen=True, slots=True)
class TextResult:
    """The translation of one text."""

    text: str
    source: str
    """The code of the source language."""
    confidence: float = 1.0
    """Of the detected language, 0 to 1; 1 if the client named the language."""
    alternatives: tuple[str, ...] = ()
    score: float | None = None
    """Length-normalized log-probability, if the text is one segment."""
    source_tokens: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()
    flags: tuple[str, ...] = ()
    model: str = ""
    """The version of the model; two versions joined by `+` if a pivot language was used."""
    pivot: str = ""
    """The language between source and target, if no model translates directly."""
    characters: int = 0
    """Length of the source."""


@dataclass(frozen=True, slots=True)
class DocumentRequest:
    """A document to translate."""

    path: Path
    """The uploaded file."""
    name: str
    """The client's name of the file; only its extension is used."""
    output: Path
    target: str
    source: str = ""
    glossary: Glossary | None = None


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """What was done with a document."""

    units: int
    characters: int
    flagged: int
    source: str
    model: str
    pivot: str = ""


@dataclass(frozen=True, slots=True)
class Detection:
    """A language that a text may have."""

    language: str
    confidence: float
    """0 to 1."""


@dataclass(frozen=True, slots=True)
class Language:
    """A source language, with what it can be translated to."""

    code: str
    name: str
    targets: tuple[str, ...] = ()
    """Empty for a language that is only a target."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two languages between which the server translates."""

    source: str
    target: str
    pivot: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest requests that the server accepts."""

    body_bytes: int = 1 << 20
    upload_bytes: int = 20 << 20
    texts: int = 1000
    characters: int = 200_000
    """Of all texts of a request."""
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    form_fields: int = 2000
    nesting: int = 50
    """Of JSON."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How the server runs; the options of `dragoman serve`."""

    runs: tuple[Path, ...]
    host: str = "127.0.0.1"
    port: int = 5000
    state: Path | None = None
    """Folder of keys, quotas, glossaries, documents and suggestions; None = a temporary one."""
    requires_keys: bool = False
    allowed_origins: tuple[str, ...] = ()
    """CORS; empty = off."""
    trusted_proxies: tuple[str, ...] = ()
    public_url: str = ""
    """The address under which clients see the server, for links to documents."""
    threads: int = 0
    """CPU threads per model; 0 = all cores."""
    batch_tokens: int = 1024
    requests_per_minute: int = 0
    """Per key, or per address without keys; 0 = no limit."""
    metrics_port: int = 0
    """0 = no metrics."""
    grace_seconds: float = 30.0
    """Time that SIGTERM leaves for requests that were accepted."""
    limits: Limits = field(default_factory=Limits)
