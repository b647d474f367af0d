"""Placeholders: what must not be translated stands on both sides equally often.

In texts of software and of the web, `%s`, `{name}`, `<b>` or an address must come out as it went
in. A pair that loses one teaches the model to lose them. Both sides are compared as bags: order is
grammar's affair.

What counts: printf (`%s`, `%1$d`, `%(name)s`, Qt's `%1`, `%NAME%`), braces (`{0}`, `{name}`,
`{{ name }}`, `${name}`), tags by their names (attributes may be translated), entities that some
program defines, addresses of the web and of mail. What does not: a bare `<file>` that nothing
closes, for it stands for a word; entities for characters (`&uuml;`), for they are letters and
quotation marks; and the code of a language inside an address, for pages have translations too.
"""

from __future__ import annotations

import re
from collections import Counter
from html.entities import html5

from dragoman.corpus.cleaning import Pair, Step

_SIGN = re.compile(r"[%{<&@/]")
# Repetition is bounded everywhere, so that a hostile line costs no more than its length.
# Addresses are plain ASCII: in Chinese, the next word follows without a space.
_PLACEHOLDER = re.compile(
    r"""
    (?P<web> (?:https?://|ftp://|(?<![A-Za-z0-9.])www\.) [!#$%&*+,./0-9:;=?@A-Z_a-z~-]{1,2000} )
    | (?P<mail> (?<![A-Za-z0-9_.+-]) [A-Za-z0-9_.+-]{1,64}
                @ [A-Za-z0-9-]{1,63} (?:\.[A-Za-z0-9-]{1,63}){1,8} )
    | %%
    | (?P<exact>
        %\([A-Za-z0-9_]{1,64}\)[a-zA-Z]                                         # %(name)s
        | %\d{1,2}\$[-+#0]?\d{0,3}(?:\.\d{1,3})?l{0,2}[a-zA-Z@]                 # %1$d
        | (?<![\d%])%[A-Za-z_]{2,64}%                                           # %NAME%
        | (?<![\w%])(?<!\d\s)%[-+#0]?\d{0,3}(?:\.\d{1,3})?l{0,2}
          [diouxXeEfgGcsp@](?![A-Za-z])                                         # %s
        | (?<![\w%])%[1-9](?![\w%])                                             # %1
        | \{\{[^{}\n]{1,100}\}\} | \$\{[^{}\s]{1,100}\} | \{[\w.:!\[\]-]{0,64}\}
      )
    | < (?P<tag> /?[A-Za-z][A-Za-z0-9_:.-]{0,64} ) (?: \s[^<>]{0,1000} | / )? >
    | (?P<entity> &[A-Za-z][A-Za-z0-9_.-]{1,64}; )
    """,
    re.VERBOSE,
)
_NEVER_CLOSED = {"br", "hr", "img", "wbr", "p", "li"}
# There the percent sign stands before the number, and `%1` is one in a hundred.
_PERCENT_FIRST = {"tr", "eu", "ku"}


class Placeholders(Step):
    """Keeps pairs whose sides hold the same placeholders."""

    def __init__(self, source: str, target: str) -> None:
        super().__init__(source, target)
        codes = [_code(language) for language in (source, target)]
        self.percent_first = not _PERCENT_FIRST.isdisjoint(codes)
        self.language_in_address = re.compile(rf"(?<![a-z])(?:{'|'.join(map(re.escape, codes))})\b")

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair whose `placeholders differ`."""
        if not any(_SIGN.search(text) or "www." in text for text in pair):
            return pair
        if self._placeholders(pair.source) == self._placeholders(pair.target):
            return pair
        return "placeholders differ"

    def _placeholders(self, text: str) -> Counter[str]:
        matches = [*_PLACEHOLDER.finditer(text)]
        closed = {tag[1:].lower() for match in matches if (tag := match["tag"] or "")[:1] == "/"}
        found = (self._canonical(match, closed) for match in matches)
        return Counter(each for each in found if each)

    def _canonical(self, match: re.Match[str], closed: set[str]) -> str:
        """Write what counts of a placeholder; nothing, if it does not count."""
        text = match[0]
        if match["web"]:
            address = text.rstrip(".,;:!?*_~/").lower().partition("//")
            return self.language_in_address.sub("", address[2] or address[0])
        if match["mail"]:
            return text.rstrip(".-").lower()
        if tag := match["tag"]:
            tag = tag.lower()
            # `<file>`, with no attribute and never closed, stands for a word to be translated.
            is_tag = "=" in text or "/" in text or tag in closed or tag in _NEVER_CLOSED
            return f"<{tag}>" if is_tag else ""
        if match["entity"]:
            return "" if text[1:] in html5 else text
        is_percentage = self.percent_first and text[1:].isdigit()
        return "" if is_percentage or text == "%%" else text.replace(" ", "")


def _code(language: str) -> str:
    return language.replace("_", "-").partition("-")[0].lower()
