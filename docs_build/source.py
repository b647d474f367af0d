"""A Markdown extension for the documentation site: source files of this project inside a page.

    <!-- source: src/dragoman/model/mask.py -->

becomes a box that a reader opens to see the file, as it is when the site is built. GitHub, which
shows the same pages, hides the comment. A file that does not exist is an error.
"""

from __future__ import annotations

import re
from pathlib import Path

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

ROOT = Path(__file__).parents[1]
_COMMENT = re.compile(r"<!-- source: (\S+) -->")


class _Source(Preprocessor):
    """Replaces one comment in a line of its own."""

    def run(self, lines: list[str]) -> list[str]:
        return [new for line in lines for new in _replace(line)]


def _replace(line: str) -> list[str]:
    match = _COMMENT.fullmatch(line.strip())
    if match is None:
        return [line]
    code = (ROOT / match[1]).read_text(encoding="utf-8").rstrip()
    block = ["```python", *code.splitlines(), "```"]
    return [f'??? example "{match[1]}"', "", *(f"    {text}" for text in block), ""]


class Source(Extension):
    """Source files inside a page."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  (the name of the base class)
        """Add the rule before those for fenced blocks and for HTML."""
        md.preprocessors.register(_Source(md), "source", 100)


def makeExtension(**options: object) -> Source:  # noqa: N802  (Markdown calls this name)
    """Return the extension."""
    return Source(**options)
