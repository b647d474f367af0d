"""Script: drops pairs with a side that is not written in the script of its language.

Greek letters in a German text, or Latin letters in a Japanese text, are names and formulas as long
as the text also contains letters of the language's own script. If it contains almost none, the line
is in another language, a transliteration or garbage. (The limit cannot be higher: one Chinese
character corresponds to several letters, so a correct sentence about software may contain few.)
This rule needs no model and is much faster than one (in OpusFilter it is `CharacterScoreFilter`).

A script in the language code decides (`sr-Latn`, `eng_Latn`), otherwise the table below. A script
or language that the table does not contain is not checked, and neither is a text with few letters.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, NonNegativeInt

from dragoman.corpus.filter import Filter, Pair
from dragoman.errors import MissingExtraError

# Scripts by their ISO 15924 names, languages by their shortest code.
_LANGUAGES = {
    "Latn": "af ast az br bs ca ceb co cs cy da de en eo es et eu fi fil fo fr fy ga gd gl ha haw"
    " hmn hr hsb ht hu id ig ilo is it jv kab la lb lg ln lt lv mg mi ms mt nb nds nl nn no ny oc"
    " om pl pt qu rm ro rw sc scn se sk sl sm sn so sq st su sv sw tk tl tn tr ts vi wa wo xh yo zu"
    " zza",
    "Cyrl": "ab ba be bg ce cv kv ky mk mn os ru rue sah tg tt tyv udm uk",
    "Cyrl Latn": "kk sh sr uz cnr",
    "Arab": "ar arz azb ckb fa ps sd ug ur",
    "Arab Latn": "ku",
    "Deva": "bho hi mai mr ne sa",
    "Beng": "as bn",
    "Guru Arab": "pa",
    "Ethi": "am ti",
    "Hebr": "he iw yi",
    "Tibt": "bo dz",
    "Hani Bopo": "cmn lzh wuu yue zh",
    "Hani Hira Kana": "ja",
    "Hang Hani": "ko",
    "Armn": "hy",
    "Geor": "ka",
    "Grek": "el",
    "Gujr": "gu",
    "Khmr": "km",
    "Knda": "kn",
    "Laoo": "lo",
    "Mlym": "ml",
    "Mymr": "my",
    "Orya": "or",
    "Sinh": "si",
    "Taml": "ta",
    "Telu": "te",
    "Thaa": "dv",
    "Thai": "th",
}
_SCRIPTS = {code: names.split() for names, codes in _LANGUAGES.items() for code in codes.split()}
_IN_CODES = {
    **{name: [name] for names in _SCRIPTS.values() for name in names},
    "Hans": ["Hani"],
    "Hant": ["Hani", "Bopo"],
    "Jpan": ["Hani", "Hira", "Kana"],
    "Kore": ["Hang", "Hani"],
}


class Script(Filter):
    """Keeps pairs with at least `min_share` of each side's letters in the language's scripts.

    A side with fewer than `min_letters` letters is not checked.
    """

    def __init__(
        self,
        source: str,
        target: str,
        *,
        min_share: Annotated[float, Field(ge=0, le=1)] = 0.1,
        min_letters: NonNegativeInt = 10,
    ) -> None:
        super().__init__(source, target)
        self.min_share = min_share
        self.min_letters = min_letters
        self.sides = tuple(
            _Letters(scripts) if (scripts := _scripts_of(language)) else None
            for language in (source, target)
        )

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair for its `wrong source script` or `wrong target script`."""
        for text, side, reason in zip(
            pair, self.sides, ("wrong source script", "wrong target script"), strict=True
        ):
            if side and side.is_foreign(text, self.min_share, self.min_letters):
                return reason
        return pair


class _Letters:
    """Counts the letters of some scripts and the letters of all other scripts."""

    def __init__(self, scripts: list[str]) -> None:
        try:
            import regex  # type: ignore[import-untyped]  # noqa: PLC0415  (only this filter needs it)
        except ModuleNotFoundError:
            raise MissingExtraError("checking scripts", "regex", "prepare") from None
        own = "".join(rf"\p{{sc={name}}}" for name in scripts)
        # Letters that several scripts share, such as the Japanese length mark, are not counted.
        shared = r"\p{sc=Zyyy}\p{sc=Zinh}"
        self.has_latin = "Latn" in scripts
        self.is_own_or_shared: Any = regex.compile(f"[{own}{shared}]*+")
        self.own: Any = regex.compile(f"(?V1)[{own}&&\\p{{L}}]")
        self.foreign: Any = regex.compile(f"(?V1)[\\p{{L}}&&[^{own}{shared}]]")

    def is_foreign(self, text: str, min_share: float, min_letters: int) -> bool:
        if (self.has_latin and text.isascii()) or self.is_own_or_shared.fullmatch(text):
            return False
        own, foreign = len(self.own.findall(text)), len(self.foreign.findall(text))
        return own + foreign >= min_letters and own < min_share * (own + foreign)


def _scripts_of(language: str) -> list[str] | None:
    code, *rest = language.replace("_", "-").split("-")
    for part in rest:
        if len(part) == 4 and part.isalpha():  # The subtag of a script (RFC 5646).
            return _IN_CODES.get(part.title())
    return _SCRIPTS.get(code.lower())
