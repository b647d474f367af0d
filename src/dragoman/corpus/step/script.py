"""Script: a side is written in the letters of its language.

Greek letters in a German text, or Latin ones in a Japanese text, are names and formulas as long as
the language's own letters are there too. Where those are next to none, the line is in another
language, a transliteration or garbage. (More cannot be asked: one Chinese character says what
several letters do, so that a sound sentence about software may have few.) This rule needs no
model and is far quicker than one (OpusFilter has it as `CharacterScoreFilter`).

A script in the code of a language decides (`sr-Latn`, `eng_Latn`); otherwise the table below
does. A language that is in neither is not judged, nor is a text of few letters.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, NonNegativeInt

from dragoman.corpus.cleaning import Pair, Step
from dragoman.errors import MissingExtraError

# Scripts by their names in ISO 15924, languages by their shortest code.
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


class Script(Step):
    """Keeps pairs with at least `share` of the letters of each side in its language's scripts.

    A side with fewer than `letters` letters is not judged.
    """

    def __init__(
        self,
        source: str,
        target: str,
        *,
        share: Annotated[float, Field(ge=0, le=1)] = 0.1,
        letters: NonNegativeInt = 10,
    ) -> None:
        super().__init__(source, target)
        self.share = share
        self.letters = letters
        self.sides = tuple(
            _Letters(scripts) if (scripts := _scripts_of(language)) else None
            for language in (source, target)
        )

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair for its `source script` or its `target script`."""
        for text, side, reason in zip(
            pair, self.sides, ("source script", "target script"), strict=True
        ):
            if side and side.is_foreign(text, self.share, self.letters):
                return reason
        return pair


class _Letters:
    """Tells the letters of some scripts from all others."""

    def __init__(self, scripts: list[str]) -> None:
        try:
            import regex  # type: ignore[import-untyped]  # noqa: PLC0415  (only who judges)
        except ModuleNotFoundError:
            raise MissingExtraError("looking at scripts", "regex", "prepare") from None
        own = "".join(rf"\p{{sc={name}}}" for name in scripts)
        # Letters that many scripts share, as the Japanese sign of length, are nobody's.
        shared = r"\p{sc=Zyyy}\p{sc=Zinh}"
        self.has_latin = "Latn" in scripts
        self.has_nothing_else: Any = regex.compile(f"[{own}{shared}]*+")
        self.own: Any = regex.compile(f"(?V1)[{own}&&\\p{{L}}]")
        self.foreign: Any = regex.compile(f"(?V1)[\\p{{L}}&&[^{own}{shared}]]")

    def is_foreign(self, text: str, share: float, letters: int) -> bool:
        if (self.has_latin and text.isascii()) or self.has_nothing_else.fullmatch(text):
            return False
        own, foreign = len(self.own.findall(text)), len(self.foreign.findall(text))
        return own + foreign >= letters and own < share * (own + foreign)


def _scripts_of(language: str) -> list[str] | None:
    code, *rest = language.replace("_", "-").split("-")
    for part in rest:
        if scripts := _IN_CODES.get(part.title()):
            return scripts
    return _SCRIPTS.get(code.lower())
