"""The description of the LibreTranslate API, which clients read at `/spec`.

The client Dialect accepts a server only if the title is exactly "LibreTranslate".
"""

from __future__ import annotations

from dragoman import __version__

_Object = dict[str, object]

_TEXT: _Object = {"type": "string"}
_TEXTS: _Object = {"oneOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_NUMBER: _Object = {"type": "number"}
_KEY = "The API key, if the server needs one."
_SOURCE = "The language of the text, or auto."

_ERRORS = {
    "400": "A parameter is missing or wrong.",
    "403": "The API key is wrong, or it does not allow this.",
    "429": "Too many requests.",
    "529": "The server cannot answer in time.",
}


def specification(url: str) -> _Object:
    """Return an OpenAPI document."""
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "LibreTranslate",
            "description": "Dragoman, with the API of LibreTranslate.",
            "version": __version__,
        },
        "servers": [{"url": url}],
        "paths": {
            "/translate": {"post": _TRANSLATE},
            "/detect": {"post": _DETECT},
            "/languages": {"get": _LANGUAGES},
            "/translate_file": {"post": _TRANSLATE_FILE},
            "/suggest": {"post": _SUGGEST},
            "/frontend/settings": {"get": _SETTINGS},
            "/health": {"get": _HEALTH},
        },
    }


def _operation(
    summary: str, answer: _Object, body: _Object | None = None, form_only: bool = False
) -> _Object:
    responses: _Object = {
        "200": {"description": "OK", "content": {"application/json": {"schema": answer}}}
    }
    operation: _Object = {"summary": summary, "responses": responses}
    if body is None:
        return operation
    error = {"schema": _properties({"error": _TEXT}, ["error"])}
    for status, description in _ERRORS.items():
        responses[status] = {"description": description, "content": {"application/json": error}}
    types = ["multipart/form-data"]
    if not form_only:
        types = ["application/json", "application/x-www-form-urlencoded", *types]
    operation["requestBody"] = {
        "required": True,
        "content": {content_type: {"schema": body} for content_type in types},
    }
    return operation


def _properties(properties: _Object, required: list[str]) -> _Object:
    return {"type": "object", "properties": properties, "required": required}


def _described(schema: _Object, description: str, **more: object) -> _Object:
    return {**schema, "description": description, **more}


def _list(items: _Object) -> _Object:
    return {"type": "array", "items": items}


_DETECTION = _properties(
    {"confidence": _described(_NUMBER, "0 to 100."), "language": _TEXT}, ["confidence", "language"]
)
_LANGUAGE = _properties({"code": _TEXT, "name": _TEXT}, ["code", "name"])

_TRANSLATE = _operation(
    "Translate a text, or a list of texts (JSON only).",
    _properties(
        {
            "translatedText": _described(_TEXTS, "A list if q is a list."),
            "detectedLanguage": {"oneOf": [_DETECTION, _list(_DETECTION)]},
            "alternatives": {"oneOf": [_list(_TEXT), _list(_list(_TEXT))]},
        },
        ["translatedText", "detectedLanguage"],
    ),
    _properties(
        {
            "q": _described(_TEXTS, "The text or texts."),
            "source": _described(_TEXT, _SOURCE),
            "target": _TEXT,
            "format": _described(_TEXT, "Text or an HTML fragment.", enum=["text", "html"]),
            "alternatives": {"type": "integer", "default": 0, "minimum": 0, "maximum": 10},
            "api_key": _described(_TEXT, _KEY),
        },
        ["q", "source", "target"],
    ),
)
_DETECT = _operation(
    "Detect the language of a text. The most probable language comes first.",
    _list(_DETECTION),
    _properties({"q": _TEXTS, "api_key": _described(_TEXT, _KEY)}, ["q"]),
)
_LANGUAGES = _operation(
    "List the languages.",
    _list(
        _properties(
            {"code": _TEXT, "name": _TEXT, "targets": _list(_TEXT)}, ["code", "name", "targets"]
        )
    ),
)
_TRANSLATE_FILE = _operation(
    "Translate a document. The answer is a link to the result, which works without a key.",
    _properties({"translatedFileUrl": _TEXT}, ["translatedFileUrl"]),
    _properties(
        {
            "file": {"type": "string", "format": "binary"},
            "source": _described(_TEXT, _SOURCE),
            "target": _TEXT,
            "api_key": _described(_TEXT, _KEY),
        },
        ["file", "source", "target"],
    ),
    form_only=True,
)
_SUGGEST = _operation(
    "Send a better translation.",
    _properties({"success": {"type": "boolean"}}, ["success"]),
    _properties(
        {
            "q": _described(_TEXT, "The text."),
            "s": _described(_TEXT, "The better translation."),
            "source": _TEXT,
            "target": _TEXT,
            "api_key": _described(_TEXT, _KEY),
        },
        ["q", "s", "source", "target"],
    ),
)
_SETTINGS = _operation(
    "Say what the server offers.",
    _properties(
        {
            "apiKeys": {"type": "boolean"},
            "charLimit": {"type": "integer"},
            "filesTranslation": {"type": "boolean"},
            "frontendTimeout": {"type": "integer"},
            "keyRequired": {"type": "boolean"},
            "language": _properties({"source": _LANGUAGE, "target": _LANGUAGE}, []),
            "suggestions": {"type": "boolean"},
            "supportedFilesFormat": _list(_TEXT),
        },
        [],
    ),
)
_HEALTH = _operation("Say whether the server is ready.", _properties({"status": _TEXT}, []))
