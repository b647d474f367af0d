"""Length: a text has no more words than a sentence may have, and not too few.

Attention costs the square of the length, and the longest lines of a corpus are mostly what no
sentence splitter could split: lists, tables, keys. (Every toolkit has this rule; Moses called it
`clean-corpus-n`.)

A text has as many words as white space cuts it into, but at least one for every so many
characters as no language's words exceed. That one rule also counts addresses and blobs, which
have no spaces, and scripts that write none: there a word is a few characters.
"""

from __future__ import annotations

from pydantic import PositiveInt

from dragoman.corpus.cleaning import Pair, Step
from dragoman.errors import Mistake, RecipeError

_CHARACTERS_A_WORD = 20
# Chinese and Japanese: measured beside the English of the same news, and rounded. The others are a
# rule of thumb.
_CHARACTERS_A_WORD_WITHOUT_SPACES = {
    **dict.fromkeys(("zh", "yue", "wuu", "lzh", "ja"), 2),
    **dict.fromkeys(("th", "lo", "km", "my", "bo", "dz"), 4),
}


class Length(Step):
    """Keeps pairs whose sides both have `shortest` to `longest` words."""

    def __init__(
        self,
        source: str,
        target: str,
        *,
        longest: PositiveInt = 150,
        shortest: PositiveInt = 1,
    ) -> None:
        super().__init__(source, target)
        if shortest > longest:
            what = f"found {shortest}, expected at most `longest`, {longest}"
            raise RecipeError([Mistake("shortest", what)])
        self.longest = longest
        self.shortest = shortest
        self.characters = tuple(map(_characters_a_word, (source, target)))

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair with a side that is `too long` or `too short`."""
        for text, characters in zip(pair, self.characters, strict=True):
            words = max(len(text.split()), len(text) // characters)
            if words > self.longest:
                return "too long"
            if words < self.shortest:
                return "too short"
        return pair


def _characters_a_word(language: str) -> int:
    code = language.replace("_", "-").partition("-")[0].lower()
    return _CHARACTERS_A_WORD_WITHOUT_SPACES.get(code, _CHARACTERS_A_WORD)
