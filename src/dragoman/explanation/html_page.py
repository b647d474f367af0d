"""Puts a template, style sheets, scripts and data together to one self-contained HTML page.

The Content-Security-Policy of the page allows its own style sheet and script, by their hashes, and
forbids it to load anything. Data may contain any text; it goes into the page as JSON, never as
markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

END_LABEL = "⟨end⟩"
"""How a page shows the end token."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The fixed part of a page: the same for all data."""

    template: str
    style: str
    script: str

    @classmethod
    def read(
        cls, template: Traversable, styles: Sequence[Traversable], scripts: Sequence[Traversable]
    ) -> Frame:
        """Read the files; style sheets and scripts are joined in this order."""
        return cls(
            template.read_text(encoding="utf-8"),
            "\n".join(path.read_text(encoding="utf-8") for path in styles),
            "\n".join(path.read_text(encoding="utf-8") for path in scripts),
        )

    @property
    def policy(self) -> str:
        """The Content-Security-Policy of the page."""
        style, script = policy_hash(self.style), policy_hash(self.script)
        return f"default-src 'none'; style-src '{style}'; script-src '{script}'; base-uri 'none'"

    def render(self, title: str, data: Any, policy: str = "") -> str:
        """Return the page. `data` are types that JSON has; `policy` replaces the policy."""
        # Only "<" could end the script element that contains the data; JSON can escape it.
        text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
        values = {
            "policy": policy or self.policy,
            "title": escape(title),
            "style": self.style,
            "script": self.script,
            "data": text,
        }
        # One pass: placeholders inside the inserted values are not replaced.
        return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], self.template)


def shared_file(name: str) -> Traversable:
    """Return a file of the explanation page; other pages share some of them."""
    return files("dragoman.explanation") / "html" / name


def policy_hash(text: str) -> str:
    """Return the hash by which a Content-Security-Policy allows a style sheet or a script."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
