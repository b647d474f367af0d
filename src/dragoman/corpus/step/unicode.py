"""Unicode: one spelling for one text, as `spelling.py` says, on both sides."""

from __future__ import annotations

from dragoman.corpus.cleaning import Pair, Step
from dragoman.errors import MissingExtraError
from dragoman.spelling import respell


class Unicode(Step):
    """Rewrites both sides; with `repair`, text decoded by the wrong code page is mended first."""

    def __init__(self, source: str, target: str, *, repair: bool = False) -> None:
        super().__init__(source, target)
        self.repair = repair
        if repair:
            _mend("")  # Says now, not in the middle of a corpus, that the package is missing.

    def apply(self, pair: Pair) -> Pair | str:
        """Give the pair as it should be written; drop it as `empty` if a side holds nothing."""
        source, target = self._clean(pair.source), self._clean(pair.target)
        if not source or not target:
            return "empty"
        if source is pair.source and target is pair.target:
            return pair
        return Pair(source, target)

    def _clean(self, text: str) -> str:
        if self.repair and not text.isascii():
            # What is taken out may have parted two halves of a broken letter: mend until it rests.
            while (mended := respell(_mend(text))) != text:
                text = mended
            return text
        return respell(text)


def _mend(text: str) -> str:
    try:
        from ftfy import fix_encoding  # noqa: PLC0415  (only who repairs needs it)
    except ModuleNotFoundError:
        raise MissingExtraError("repairing text", "ftfy", "prepare") from None
    # Not `fix_text`: that also straightens quotes, opens entities and narrows wide letters.
    return fix_encoding(text)
