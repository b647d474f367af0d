"""Compares, matches and names language codes such as `en`, `zh-CN`, `pt_BR` and `sr-Latn`.

Clients write the code of one language in many ways: `EN-GB`, `zh_TW`, `deu`, `iw`. `match_code`
finds the language that is meant among those that exist. `language_name` gives its English name.
`LanguagePair` is the value of the option `--languages`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.text.language_names import ALIASES, LANGUAGES, REGIONS, SCRIPTS

# Norwegian text is in Bokmål unless Nynorsk is said; `pb` and `zt` are codes of LibreTranslate.
_ALIASES = ALIASES | {
    "no": "nb",
    "nor": "nb",
    "fil": "tl",
    "pb": "pt-br",
    "zt": "zh-hant",
    "zh-cn": "zh-hans",
    "zh-sg": "zh-hans",
    "zh-tw": "zh-hant",
    "zh-hk": "zh-hant",
    "zh-mo": "zh-hant",
    "sr@latin": "sr-latn",
}
_DEFAULT_SCRIPTS = {"zh": "hans", "sr": "cyrl", "az": "latn", "uz": "latn", "mn": "cyrl"}
"""Of languages with two scripts: the one that a code without a script means."""
_DEFAULT_REGIONS = {"en": "us", "pt": "pt"}


@dataclass(frozen=True, slots=True)
class LanguagePair:
    """Two language codes; an empty code is not known yet."""

    source: str = ""
    target: str = ""

    @classmethod
    def parse(cls, text: str) -> LanguagePair:
        """Read `en-de`, or `en:pt-BR` for codes with a region; an empty text gives no codes."""
        if not text:
            return cls()
        match = re.fullmatch(r"([a-zA-Z]{2,3})-([a-zA-Z]{2,3})|([\w-]{2,}):([\w-]{2,})", text)
        if match is None:
            raise DataError(
                f"found --languages {text!r}, expected en-de, or en:pt-BR for codes with a region"
            )
        source, target = (code for code in match.groups() if code)
        return cls(source, target)


def normalize_code(code: str) -> str:
    """Return a code in lower case with hyphens: `zh-cn` for `zh_CN`."""
    return code.strip().lower().replace("_", "-")


def base_language(code: str) -> str:
    """Return a code without region and script: `zh` for `zh-CN` and `zh_Hans`."""
    return normalize_code(code).partition("-")[0]


def is_other_language(code: str, expected: str) -> bool:
    """Whether two codes name different languages; regions, scripts and unknown codes do not."""
    languages = _parse(code).language, _parse(expected).language
    return languages[0] != languages[1] and all(name in LANGUAGES for name in languages)


@lru_cache(maxsize=1024)
def language_nearness(wanted: str, actual: str) -> int:
    """Compare two codes: 2 = the same, 1 = one is the other plus a region, 0 = different."""
    wanted, actual = normalize_code(wanted), normalize_code(actual)
    if wanted == actual:
        return 2
    return int(actual.startswith(f"{wanted}-") or wanted.startswith(f"{actual}-"))


class _Tag(NamedTuple):
    """The parts of a code, in lower case; empty if the code does not have them."""

    language: str
    script: str = ""
    region: str = ""


@lru_cache(maxsize=4096)
def _parse(code: str) -> _Tag:
    code = normalize_code(code)
    language, *subtags = _ALIASES.get(code, code).split("-")
    language, *more = _ALIASES.get(language, language).split("-")
    subtags += more
    script = next((tag for tag in subtags if len(tag) == 4 and tag.isalpha()), "")
    region = next(
        (tag for tag in subtags if len(tag) == 2 or (len(tag) == 3 and tag.isdigit())), ""
    )
    return _Tag(language, script, region)


def match_code(wanted: str, available: Iterable[str]) -> str | None:
    """Find the available code that a client means; None if there is none.

    The same code in any case is best. Then follow: another code of the same language (`iw` for
    `he`, `deu` for `de`, `zh-TW` for `zh-Hant`), the language without the region (`en` for
    `en-GB`), and for a code without region or script one that has them (`zh-Hans` for `zh`).
    Another region (`pt-BR` for `pt-PT`) or another script (`zh` for `zh-Hant`) is no match.
    """
    codes = list(available)
    same = [code for code in codes if normalize_code(code) == normalize_code(wanted)]
    # `max` returns the first of several equal codes.
    best = max(same or codes, key=lambda code: _nearness(_parse(wanted), _parse(code)), default="")
    return best if best and (same or _nearness(_parse(wanted), _parse(best))) else None


def _nearness(wanted: _Tag, actual: _Tag) -> int:
    """Return how well a language is what a client means; 0 = not at all."""
    if wanted == actual:
        return 5
    default = _DEFAULT_SCRIPTS.get(wanted.language, "")
    scripts = (wanted.script or default, actual.script or default)
    is_other_script = "" not in scripts and scripts[0] != scripts[1]
    is_other_region = wanted.region not in ("", actual.region) and actual.region != ""
    if wanted.language != actual.language or is_other_region:
        return 0
    if is_other_script:
        return 0 if wanted.script else 1
    if wanted.region or not actual.region:
        return 4
    return 3 if actual.region == _DEFAULT_REGIONS.get(wanted.language) else 2


def language_name(code: str) -> str:
    """Return the English name of a language: `Chinese (Simplified)` for `zh-Hans`.

    A code without a known name is its own name.
    """
    tag = _parse(code)
    language, *_ = normalize_code(code).split("-")
    name = LANGUAGES.get(language) or LANGUAGES.get(tag.language)
    if name is None:
        return code
    details = [
        SCRIPTS.get(tag.script, tag.script.title()),
        REGIONS.get(tag.region, tag.region.upper()),
    ]
    shown = ", ".join(detail for detail in details if detail)
    return f"{name} ({shown})" if shown else name
