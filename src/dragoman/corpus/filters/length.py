"""Length: drops pairs with a side of too many or too few words.

Attention costs the square of the length, and the longest lines of a corpus are usually lines that
no sentence splitter could split: lists, tables, keys. (Every toolkit has this rule; in Moses it is
`clean-corpus-n`.)

The number of words is the number of pieces between white space, but at least one word for every n
characters, where n is larger than the words of the language. The second rule also counts addresses
and encoded data, which contain no spaces, and scripts without spaces: there a word is a few
characters.
"""

from __future__ import annotations

from pydantic import PositiveInt

from dragoman.corpus.filter import Filter, Pair
from dragoman.errors import Mistake, RecipeError
from dragoman.text.languages import base_language

_CHARACTERS_PER_WORD = 20
# Chinese and Japanese: measured against the English of the same news, and rounded. The others are
# a rule of thumb.
_CHARACTERS_PER_WORD_WITHOUT_SPACES = {
    **dict.fromkeys(("zh", "yue", "wuu", "lzh", "ja"), 2),
    **dict.fromkeys(("th", "lo", "km", "my", "bo", "dz"), 4),
}


class Length(Filter):
    """Keeps pairs whose sides both have `min_words` to `max_words` words."""

    def __init__(
        self,
        source: str,
        target: str,
        *,
        max_words: PositiveInt = 150,
        min_words: PositiveInt = 1,
    ) -> None:
        super().__init__(source, target)
        if min_words > max_words:
            what = f"found {min_words}, expected at most `max_words`, {max_words}"
            raise RecipeError([Mistake("min_words", what)])
        self.max_words = max_words
        self.min_words = min_words
        self.characters_per_word = tuple(map(_characters_per_word, (source, target)))

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair with a side that is `too long` or `too short`."""
        for text, characters in zip(pair, self.characters_per_word, strict=True):
            words = max(len(text.split()), len(text) // characters)
            if words > self.max_words:
                return "too long"
            if words < self.min_words:
                return "too short"
        return pair


def _characters_per_word(language: str) -> int:
    code = base_language(language)
    return _CHARACTERS_PER_WORD_WITHOUT_SPACES.get(code, _CHARACTERS_PER_WORD)
