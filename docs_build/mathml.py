"""A Markdown extension for the documentation site: equations between $ signs become MathML.

Browsers draw MathML themselves, so the pages need no script and no font from another server. The
conversion is done by latex2mathml. The rules are those of GitHub, which shows the same files:
`$...$` inside a line, `$$...$$` as a block of its own; no space directly inside the signs.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, fromstring

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.util import AtomicString

_BLOCK = r"\$\$(.+?)\$\$"
_INLINE = r"(?<![\\$\w])\$(?![\s$])(.+?)(?<![\s\\])\$(?![\w$])"
_NAMESPACE = re.compile(r"\{[^}]*\}")


class _Equation(InlineProcessor):
    """Replaces one equation."""

    def __init__(self, pattern: str, display: str) -> None:
        super().__init__(pattern)
        self.display = display

    def handleMatch(  # type: ignore[override]  # noqa: N802  (the name of the base class)
        self, match: re.Match[str], data: str
    ) -> tuple[Element, int, int]:
        # latex2mathml wrote this XML.
        tree = fromstring(convert(match[1], display=self.display))  # noqa: S314
        for element in tree.iter():
            element.tag = _NAMESPACE.sub("", element.tag)
            if element.text:
                # Nothing in an equation is Markdown.
                element.text = AtomicString(element.text)
        # Readers that cannot show the equation get its source.
        tree.set("alttext", match[1])
        return tree, match.start(0), match.end(0)


class MathML(Extension):
    """Equations between $ signs."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  (the name of the base class)
        """Add the rules before emphasis and after code, which may contain $."""
        md.inlinePatterns.register(_Equation(_BLOCK, "block"), "math-block", 189)
        md.inlinePatterns.register(_Equation(_INLINE, "inline"), "math-inline", 188)


def makeExtension(**options: object) -> MathML:  # noqa: N802  (Markdown calls this name)
    """Return the extension."""
    return MathML(**options)
