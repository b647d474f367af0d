"""Placeholders: drops pairs whose sides do not contain the same placeholders equally often.

In texts of software and of the web, `%s`, `{name}`, `<b>` or an address must be kept in the
translation. A pair that loses one trains the model to lose them. The order is ignored, because it
depends on the grammar.

The spans are those of `text/spans.py`. Checked are: printf (`%s`, `%1$d`, `%(name)s`, Qt's `%1`,
`%NAME%`), braces (`{0}`, `{name}`, `{{ name }}`, `${name}`), the argument of a message with plural
forms, tags by their names (attributes may be translated), entities that a program defines,
addresses of the web and of mail. Not checked are: a bare `<file>` without a closing tag, because it
stands for a word; entities for characters (`&uuml;`), because they are letters and quotation marks;
formats of dates (`%H`, `%p`), because they depend on the language; the language code inside an
address, because pages have translations too; code, paths and other marks, but placeholders inside
them are checked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html.entities import html5

from dragoman.corpus.filter import Filter, Pair
from dragoman.text.languages import base_language
from dragoman.text.spans import Span, find_spans

_NEVER_CLOSED = {"br", "hr", "img", "wbr", "p", "li"}
# These languages write the percent sign before the number: `%1` is one percent.
_PERCENT_FIRST = {"tr", "eu", "ku"}
_CONVERSIONS = "diouxXeEfgGcsp@"
_TAG_NAME = re.compile(r"</?[^\s/>]{1,70}")
_MESSAGE_ARGUMENT = re.compile(r"[{\s]*([^,|]{1,100})")


class Placeholders(Filter):
    """Keeps pairs whose sides contain the same placeholders."""

    def __init__(self, source: str, target: str) -> None:
        super().__init__(source, target)
        codes = [base_language(language) for language in (source, target)]
        self.percent_first = not _PERCENT_FIRST.isdisjoint(codes)
        self.language_in_address = re.compile(rf"(?<![a-z])(?:{'|'.join(map(re.escape, codes))})\b")

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair whose `placeholders differ`."""
        if self._placeholders(pair.source) == self._placeholders(pair.target):
            return pair
        return "placeholders differ"

    def _placeholders(self, text: str) -> Counter[str]:
        spans = find_spans(text)
        closed = {_tag_name(span)[1:] for span in spans if span.kind == "tag_close"}
        placeholders = (form for span in spans for form in self._canonical(span, closed))
        return Counter(form for form in placeholders if form)

    def _canonical(self, span: Span, closed: set[str]) -> Iterator[str]:
        """Yield the part of a placeholder that is compared; empty if it is not checked."""
        match span.kind:
            case "url":
                # What is in parentheses is often a title, which is translated.
                address = span.text.partition("(")[0].rstrip("/").lower().partition("//")
                yield self.language_in_address.sub("", address[2] or address[0])
            case "mail":
                yield span.text.lower()
            case "tag_open" | "tag_close" | "tag":
                name = _tag_name(span)
                # `<file>` without attribute and closing tag stands for a word that is translated.
                is_tag = "=" in span.text or "/" in span.text or name in closed | _NEVER_CLOSED
                yield f"<{name}>" if is_tag else ""
            case "entity":
                yield "" if span.text[1:] in html5 or span.text[1] == "#" else span.text
            case "printf":
                yield self._canonical_printf(span.text)
            case "brace":
                yield "" if span.text.startswith("{%") else span.text.replace(" ", "")
            case "message":
                argument = _MESSAGE_ARGUMENT.match(span.text)
                yield argument[1].strip() if argument else ""
            case _:
                yield from self._placeholders(span.text[1:-1]).elements()

    def _canonical_printf(self, text: str) -> str:
        if text[1:].rstrip("%").isdigit():  # `%1` of Qt; `%1%` may be `%1 %` in the translation.
            return "" if self.percent_first else text.rstrip("%")
        is_date = len(text) == 2 and text[1] not in _CONVERSIONS
        return "" if is_date or text == "%%" else text


def _tag_name(span: Span) -> str:
    name = _TAG_NAME.match(span.text)
    return name[0][1:].lower() if name else ""
