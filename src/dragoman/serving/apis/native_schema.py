"""The bodies of our own API under `/v1`; the OpenAPI document is made from them.

A request with a field that is not listed here is refused: a misspelled option must not be ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
)

from dragoman.serving.explainer import MAX_CHARACTERS
from dragoman.serving.interface import ErrorKind, TextFormat

MAX_ALTERNATIVES = 5
MAX_INLINE_TERMS = 1000
MAX_SPLIT_CHARACTERS = 20_000
"""Of a request that asks for results by sentence."""

LanguageCode = Annotated[
    StrictStr,
    Field(
        min_length=2,
        max_length=35,
        pattern="^[A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8})*$",
        description="A language code in any case, with or without a region: `de`, `en-GB`.",
        examples=["de"],
    ),
]


def _whole(value: object) -> object:
    """Return 1 for 1.0: in JSON they are the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


NOT_BLANK = r"[^\s\x1c-\x1f\x85\ufeff]"
"""A character that is no white space, for all regular expressions: those of Python, Rust and
JavaScript have different `\\s`."""
TermText = Annotated[StrictStr, Field(max_length=500, pattern=NOT_BLANK)]


class RequestBody(BaseModel):
    """A body that a client sends."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ResponseBody(BaseModel):
    """A body that the server sends."""

    model_config = ConfigDict(frozen=True)


class TranslateRequest(RequestBody):
    """Texts to translate."""

    texts: Annotated[
        tuple[StrictStr, ...],
        Field(
            min_length=1,
            description="The texts. The answer has as many translations, in the same order. "
            "An empty or blank text comes back unchanged.",
            examples=[["Good morning!"]],
        ),
    ]
    target: LanguageCode
    source: Annotated[
        LanguageCode | None,
        Field(description="The language of the texts. If missing, it is detected for each text."),
    ] = None
    format: Annotated[
        TextFormat,
        Field(
            description="`html` and `xml`: each text is a fragment with tags and entities, "
            "which stay as they are."
        ),
    ] = "text"
    alternatives: Annotated[
        StrictInt,
        Field(
            ge=0, le=MAX_ALTERNATIVES, description="How many other translations to add, at most."
        ),
        # Last: the limits are those of a number, also in the document.
        BeforeValidator(_whole),
    ] = 0
    alignment: Annotated[
        StrictBool,
        Field(description="Whether to add the tokens of both sides, and which belong together."),
    ] = False
    sentences: Annotated[
        StrictBool,
        Field(
            description="Whether to add a result for each sentence, with its own score, "
            "alternatives and alignment. In `html` and `xml`, the whole text counts as one "
            f"sentence. Limit: {MAX_SPLIT_CHARACTERS} characters."
        ),
    ] = False
    glossary: Annotated[
        tuple[tuple[TermText, TermText], ...] | None,
        Field(
            max_length=MAX_INLINE_TERMS,
            description="Terms and the translations that they must have.",
            examples=[[["bank", "Ufer"]]],
        ),
    ] = None
    glossary_id: Annotated[
        StrictStr | None,
        Field(
            min_length=1,
            max_length=100,
            description="A glossary that is stored on the server; it needs `source`. Terms in "
            "`glossary` win over its terms.",
        ),
    ] = None


class Alignable(ResponseBody):
    """What is known about the translation of a text or of a sentence."""

    text: Annotated[str, Field(description="The translation.", examples=["Guten Morgen!"])]
    alternatives: Annotated[
        tuple[str, ...], Field(description="Other translations, best first.")
    ] = ()
    score: Annotated[
        float | None,
        Field(
            description="Log-probability divided by the length. Null if the text has several "
            "sentences.",
            examples=[-0.31],
        ),
    ] = None
    source_tokens: Annotated[
        tuple[str, ...], Field(description="The tokens of the source; `▁` is a space.")
    ] = ()
    tokens: Annotated[tuple[str, ...], Field(description="The tokens of the translation.")] = ()
    alignment: Annotated[
        tuple[tuple[int, int], ...],
        Field(
            description="Pairs of positions in `source_tokens` and `tokens`, from 0.",
            examples=[[[0, 0], [1, 1]]],
        ),
    ] = ()
    flags: Annotated[
        tuple[str, ...],
        Field(
            description="What a person should look at. `split`: translated in pieces; "
            "`repetition`, `length`: the model repeats itself, or the length is unusual; "
            "`retried`: translated a second time for this reason; "
            "`spans_aligned`, `spans_in_pieces`: placeholders or tags were put back by "
            "alignment, or the text was translated around them; "
            "`source_copied`, `message_copied`: the source was kept because a translation "
            "would break it; `term_missing`: a term of the glossary was not used.",
            examples=[[]],
        ),
    ] = ()


class SentenceResult(Alignable):
    """One sentence of a text."""

    source: Annotated[str, Field(description="The sentence in the source.")]
    source_gap: Annotated[str, Field(description="White space after it in the source.")] = ""
    gap: Annotated[str, Field(description="White space after it in the translation.")] = ""


class TranslationResult(Alignable):
    """The translation of one text."""

    source: Annotated[
        str, Field(description="The language of the text, given or detected.", examples=["en"])
    ]
    confidence: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="Confidence in the detected language, 0 to 1; 1 if it was given.",
        ),
    ] = 1.0
    model: Annotated[
        str,
        Field(
            description="The version of the model; two versions joined by `+` if a pivot "
            "language was used."
        ),
    ] = ""
    pivot: Annotated[
        str | None,
        Field(
            description="The language between source and target, if no model translates directly."
        ),
    ] = None
    sentences: Annotated[
        tuple[SentenceResult, ...] | None,
        Field(
            description="If requested. Sentences and gaps join to exactly the text and its "
            "translation."
        ),
    ] = None


class TranslateResponse(ResponseBody):
    """Translations, one per text."""

    translations: tuple[TranslationResult, ...]
    characters: Annotated[
        int, Field(description="Characters of all texts; the quota of the key counts them.")
    ]


class DetectRequest(RequestBody):
    """A text whose language is unknown."""

    text: Annotated[StrictStr, Field(min_length=1, examples=["Guten Morgen!"])]


class LanguageGuess(ResponseBody):
    """A language that a text may have."""

    language: Annotated[str, Field(examples=["de"])]
    confidence: Annotated[float, Field(ge=0, le=1, examples=[0.98])]


class DetectResponse(ResponseBody):
    """Languages, best first; never empty."""

    detections: tuple[LanguageGuess, ...]


class LanguageInfo(ResponseBody):
    """A language of the server."""

    code: Annotated[str, Field(examples=["en"])]
    name: Annotated[str, Field(examples=["English"])]
    targets: Annotated[
        tuple[str, ...],
        Field(description="What it can be translated to; empty if it is only a target."),
    ]


class PairInfo(ResponseBody):
    """A source and a target language."""

    source: str
    target: str
    pivot: Annotated[
        str | None, Field(description="The language between them; null for a direct model.")
    ] = None


class LanguagesResponse(ResponseBody):
    """All languages and pairs."""

    languages: tuple[LanguageInfo, ...]
    pairs: tuple[PairInfo, ...]


class ModelDescription(ResponseBody):
    """A loaded model."""

    name: str
    source: str
    target: str
    version: str
    engine: Annotated[str, Field(examples=["ctranslate2"])]


class LimitsInfo(ResponseBody):
    """The largest requests that the server accepts."""

    texts: int
    characters: Annotated[int, Field(description="Of all texts of a request.")]
    split_characters: Annotated[
        int, Field(description="Of a request that asks for results by sentence.")
    ]
    alternatives: int
    upload_bytes: int


class ModelsResponse(ResponseBody):
    """The models, and what this server can do."""

    models: tuple[ModelDescription, ...]
    can_explain: Annotated[bool, Field(description="Whether `/v1/explain` works here.")]
    requires_key: Annotated[bool, Field(description="Whether requests need an API key.")]
    document_extensions: Annotated[
        tuple[str, ...], Field(description="File formats of documents.", examples=[[".docx"]])
    ]
    limits: LimitsInfo
    version: Annotated[str, Field(description="The version of Dragoman.")]


class ExplainRequest(RequestBody):
    """A sentence whose translation is to be explained."""

    text: Annotated[
        StrictStr,
        Field(
            min_length=1, max_length=MAX_CHARACTERS, pattern=NOT_BLANK, examples=["Good morning!"]
        ),
    ]
    target: LanguageCode
    source: LanguageCode | None = None


class ExplainResponse(ResponseBody):
    """An explanation as a page."""

    html: Annotated[str, Field(description="A page that needs no other file.")]


class SuggestionRequest(RequestBody):
    """A better translation, written by a person."""

    source: LanguageCode
    target: LanguageCode
    source_text: Annotated[StrictStr, Field(min_length=1, pattern=NOT_BLANK)]
    machine_text: Annotated[StrictStr, Field(description="What the server translated.")]
    suggestion: Annotated[StrictStr, Field(min_length=1, pattern=NOT_BLANK)]
    model: Annotated[
        StrictStr,
        Field(max_length=200, description="The field `model` of the translation, if known."),
    ] = ""


class SuggestionResponse(ResponseBody):
    """A suggestion that was stored."""

    id: int


class DocumentCreated(ResponseBody):
    """A document that is being translated."""

    id: str
    secret: Annotated[
        str,
        Field(
            description="Send it in the header `Document-Secret` to see the status and to get the "
            "result. It is shown only once."
        ),
    ]


class DocumentStatus(ResponseBody):
    """How far the translation of a document is."""

    id: str
    status: Literal["queued", "translating", "done", "error"]
    progress: Annotated[
        float, Field(ge=0, le=1, description="Share of the units that are translated.")
    ]
    units: Annotated[
        int | None, Field(description="Texts in the document; null before it was read.")
    ] = None
    characters: int | None = None
    flagged: Annotated[
        int | None, Field(description="Units that a person should look at; null until `done`.")
    ] = None
    message: Annotated[str | None, Field(description="What failed, if `status` is `error`.")] = None


class StatusResponse(ResponseBody):
    """Whether the server works."""

    status: Literal["ok", "ready", "not ready"]


class ErrorDetail(ResponseBody):
    """What went wrong."""

    kind: Annotated[ErrorKind, Field(description="For programs; it does not change.")]
    message: Annotated[str, Field(description="For people. It contains no text of the request.")]


class ErrorResponse(ResponseBody):
    """Every answer that is not a success."""

    error: ErrorDetail
