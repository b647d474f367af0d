"""Unicode: normalizes the text of both sides, as `text/normalization.py` describes."""

from __future__ import annotations

from dragoman.corpus.filter import Filter, Pair
from dragoman.errors import MissingExtraError
from dragoman.text.normalization import normalize_text


class Unicode(Filter):
    """Normalizes both sides; with `repair`, first repairs text decoded with the wrong encoding."""

    def __init__(self, source: str, target: str, *, repair: bool = False) -> None:
        super().__init__(source, target)
        self.repair = repair
        if repair:
            _repair("")  # Raises now, not in the middle of a corpus, if the package is missing.

    def apply(self, pair: Pair) -> Pair | str:
        """Return the normalized pair; drop it as `empty` if nothing is left of a side."""
        source, target = self._normalize(pair.source), self._normalize(pair.target)
        if not source or not target:
            return "empty"
        if source is pair.source and target is pair.target:
            return pair
        return Pair(source, target)

    def _normalize(self, text: str) -> str:
        if self.repair and not text.isascii():
            # A removed character may have separated two halves of a broken letter: repeat until
            # nothing changes.
            while (repaired := normalize_text(_repair(text))) != text:
                text = repaired
            return text
        return normalize_text(text)


def _repair(text: str) -> str:
    try:
        from ftfy import fix_encoding  # noqa: PLC0415  (only `repair` needs it)
    except ModuleNotFoundError:
        raise MissingExtraError("repairing text", "ftfy", "prepare") from None
    # Not `fix_text`: it would also change quotation marks, entities and full-width letters.
    return fix_encoding(text)
