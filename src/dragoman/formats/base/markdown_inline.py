"""Inline Markdown: from the characters of a text to text and codes, by the rules of CommonMark.

Emphasis, links and images are pairs of codes around their text. Code spans, autolinks, HTML tags
without a partner, footnote references, attribute lists and hard line breaks are single codes.
Backslash escapes and character references become text. The time is linear in the length of a text,
also of a hostile one: what is searched for a second time is limited, as CommonMark allows.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from dragoman.formats.base.document import Code, Content, merged, numbered

_ESCAPABLE = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_PLAIN = re.compile(r"[^\\`*_~\[\]!<&{\n ]+")
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_TICKS = re.compile(r"`+")
_AUTOLINK = re.compile(
    r"<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*|[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9.-]+)>"
)
_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9-]*)"
    r"(?:\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:[^\s\"'=<>`]+|'[^']*'|\"[^\"]*\"))?)*\s*(?P<empty>/?)>"
    r"|<!--.*?-->|<\?.*?\?>|<![A-Za-z][^>]*>|<!\[CDATA\[.*?\]\]>",
    re.DOTALL,
)
_NOTE = re.compile(r"\[\^[^\[\]\s]+\]")
_ATTRIBUTES = re.compile(r"\{:?[ \t]*[#.][^{}\n]*\}")
_LINE_BREAK = re.compile(r"(?: {2,}|\\)\n[ \t]*")
_SPACES = re.compile(r" +")
_TARGET = re.compile(r"\([ \t\n]*(?P<angled><(?:[^<>\n\\]|\\.)*>)?", re.DOTALL)
_TARGET_REST = re.compile(
    r"(?:[ \t\n]+(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?[ \t\n]*\)",
    re.DOTALL,
)
_TARGET_PARTS = re.compile(r"\\\S|[^\s\\()]+|[()\\]")
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.)*)\]", re.DOTALL)
_VOID_TAGS = frozenset(("br", "hr", "img", "input", "wbr", "source", "area"))
_OPAQUE_TAGS = frozenset(("code", "kbd", "samp", "var"))
_TAG_ENDS = {"<!--": "-->", "<?": "?>", "<![CDATA[": "]]>"}
"""What ends a tag that may contain `>`."""
_MAX_BRACKETS = 1000
_MAX_LABEL = 999
_MAX_PARENTHESES = 32
"""Open at the same time in the target of a link."""


@dataclass(slots=True)
class _Run:
    """A run of `*`, `_` or `~`, and the codes that it became."""

    character: str
    count: int
    can_open: bool
    can_close: bool
    length: int
    closing: list[Code] = field(default_factory=list)
    opening: list[Code] = field(default_factory=list)


@dataclass(slots=True)
class _Bracket:
    """A `[` or `![` that may open a link or an image."""

    raw: str
    start: int
    """Where the label begins in the text."""
    run_count: int
    """How many runs there were before it."""
    is_active: bool = True


_Item = str | Code | _Run | _Bracket


def label_key(label: str) -> str:
    """Return the form of a link label in which labels are compared."""
    return " ".join(label.split()).casefold()


def parse_inline(text: str, labels: frozenset[str]) -> Content:
    """Return the content of a text; `labels` are those that the file defines."""
    return _Parser(text, labels).content()


class _Parser:
    def __init__(self, text: str, labels: frozenset[str]) -> None:
        self._text = text
        self._labels = labels
        self._position = 0
        self._items: list[_Item] = []
        self._runs: list[_Run] = []
        self._brackets: list[tuple[int, _Bracket]] = []
        """The open brackets, with their index in the items."""
        self._pair = 0
        self._ticks: dict[int, list[int]] | None = None
        self._last_ends = {end: text.rfind(end) for end in (">", *_TAG_ENDS.values())}

    def content(self) -> Content:
        """Parse the whole text."""
        while self._position < len(self._text):
            self._step()
        self._pair_runs(0)
        parts: list[str | Code] = []
        for item in self._items:
            if isinstance(item, _Run):
                parts += [*item.closing, item.character * item.count, *item.opening]
            elif isinstance(item, _Bracket):
                parts.append(item.raw)
            else:
                parts.append(item)
        return numbered(merged(_paired_tags(merged(parts))))

    def _step(self) -> None:
        text, position = self._text, self._position
        character = text[position]
        if match := _PLAIN.match(text, position):
            self._add(match[0], match.end())
        elif match := _LINE_BREAK.match(text, position):
            self._add(Code(match[0]), match.end())
        elif character == "\\":
            following = text[position + 1 : position + 2]
            is_escape = following in _ESCAPABLE and following != ""
            self._add(following if is_escape else "\\", position + 1 + is_escape)
        elif character == "`":
            self._code_span()
        elif character in "*_~":
            self._run()
        elif character == "[" or text.startswith("![", position):
            self._open_bracket()
        elif character == "]":
            self._close_bracket()
        else:
            self._other(character)

    def _other(self, character: str) -> None:
        text, position = self._text, self._position
        match = None
        if character == "<":
            match = _AUTOLINK.match(text, position) or self._tag(position)
        elif character == "{":
            match = _ATTRIBUTES.match(text, position)
        elif character == " ":
            spaces = _SPACES.match(text, position)
            assert spaces is not None
            self._add(spaces[0], spaces.end())
            return
        elif character == "&" and (reference := _REFERENCE.match(text, position)):
            decoded = html.unescape(reference[0])
            self._add(decoded, reference.end())
            return
        if match:
            self._add(Code(match[0]), match.end())
        else:
            self._add(character, position + 1)

    def _tag(self, position: int) -> re.Match[str] | None:
        # Without this check, each `<` of a long text would be searched to the end.
        begins = (begin for begin in _TAG_ENDS if self._text.startswith(begin, position))
        end = _TAG_ENDS.get(next(begins, ""), ">")
        return _TAG.match(self._text, position) if position < self._last_ends[end] else None

    def _add(self, item: _Item, position: int) -> None:
        self._items.append(item)
        self._position = position

    def _code_span(self) -> None:
        if self._ticks is None:
            self._ticks = {}
            for match in reversed(list(_TICKS.finditer(self._text))):
                self._ticks.setdefault(len(match[0]), []).append(match.start())
        opening = _TICKS.match(self._text, self._position)
        assert opening is not None
        starts = self._ticks.get(len(opening[0]), [])
        while starts and starts[-1] < opening.end():
            starts.pop()
        if starts:
            end = starts[-1] + len(opening[0])
            self._add(Code(self._text[self._position : end]), end)
        else:
            self._add(opening[0], opening.end())

    def _run(self) -> None:
        text, start = self._text, self._position
        character = text[start]
        end = start
        while end < len(text) and text[end] == character:
            end += 1
        before = text[start - 1] if start else "\n"
        after = text[end] if end < len(text) else "\n"
        is_left = not after.isspace() and (
            not _is_mark(after) or before.isspace() or _is_mark(before)
        )
        is_right = not before.isspace() and (
            not _is_mark(before) or after.isspace() or _is_mark(after)
        )
        can_open, can_close = is_left, is_right
        if character == "_":
            can_open = is_left and (not is_right or _is_mark(before))
            can_close = is_right and (not is_left or _is_mark(after))
        count = end - start
        if character == "~" and count > 2:
            self._add(character * count, end)
            return
        run = _Run(character, count, can_open, can_close, count)
        self._runs.append(run)
        self._add(run, end)

    def _open_bracket(self) -> None:
        text, position = self._text, self._position
        if note := _NOTE.match(text, position):
            self._add(Code(note[0]), note.end())
            return
        raw = "[" if text[position] == "[" else "!["
        end = position + len(raw)
        bracket = _Bracket(raw, end, len(self._runs))
        if len(self._brackets) < _MAX_BRACKETS:
            self._brackets.append((len(self._items), bracket))
        self._add(bracket, end)

    def _close_bracket(self) -> None:
        if not self._brackets:
            self._add("]", self._position + 1)
            return
        index, bracket = self._brackets.pop()
        close = self._link_end(bracket) if bracket.is_active else None
        if close is None:
            self._add("]", self._position + 1)
            return
        raw, end = close
        self._pair += 1
        self._pair_runs(bracket.run_count)
        self._items[index] = Code(bracket.raw, "open", -self._pair)
        self._add(Code(raw, "close", -self._pair), end)
        if bracket.raw == "[":
            for _, outer in reversed(self._brackets):
                if not outer.is_active:
                    break  # And so are all brackets around it.
                outer.is_active = outer.raw == "!["

    def _link_end(self, bracket: _Bracket) -> tuple[str, int] | None:
        """Return the code that closes a link, and where it ends in the text."""
        text, position = self._text, self._position
        target = _target_end(text, position + 1)
        if target is not None:
            return text[position:target], target
        label = _LABEL.match(text, position + 1)
        own_label = text[bracket.start : position]
        if label and label[1]:
            if label_key(label[1]) in self._labels:
                return text[position : label.end()], label.end()
            return None
        if len(own_label) <= _MAX_LABEL and label_key(own_label) in self._labels:
            # The text is the label: a translation needs the label in addition.
            end = label.end() if label else position + 1
            return f"][{own_label}]", end
        return None

    def _pair_runs(self, bottom: int) -> None:
        """Pair the runs from an index on, and forget them."""
        stack: list[_Run] = []
        lowest: dict[tuple[str, bool, int], int] = {}
        for run in self._runs[bottom:]:
            while run.can_close and run.count:
                key = (run.character, run.can_open, run.length % 3)
                index = _opener(stack, run, lowest.get(key, 0))
                if index is None:
                    lowest[key] = len(stack)
                    break
                opener = stack[index]
                del stack[index + 1 :]
                lowest = {one: min(limit, index + 1) for one, limit in lowest.items()}
                self._join(opener, run)
                if not opener.count:
                    stack.pop()
            if run.can_open and run.count:
                stack.append(run)
        del self._runs[bottom:]

    def _join(self, opener: _Run, closer: _Run) -> None:
        size = 2 if opener.count >= 2 and closer.count >= 2 else 1
        self._pair += 1
        mark = opener.character * size
        opener.opening.insert(0, Code(mark, "open", -self._pair))
        closer.closing.append(Code(mark, "close", -self._pair))
        opener.count -= size
        closer.count -= size


def _opener(stack: list[_Run], closer: _Run, lowest: int) -> int | None:
    for index in range(len(stack) - 1, lowest - 1, -1):
        run = stack[index]
        if run.character != closer.character:
            continue
        if run.character == "~":
            if run.count == closer.count:
                return index
            continue
        is_both = run.can_close or closer.can_open
        is_odd = (run.length + closer.length) % 3 == 0 and (run.length % 3 or closer.length % 3)
        if not (is_both and is_odd):
            return index
    return None


def _is_mark(character: str) -> bool:
    """Return whether a character is punctuation or a symbol."""
    return unicodedata.category(character)[0] in "PS"


def _target_end(text: str, position: int) -> int | None:
    """Return where the target of an inline link ends: `(url "title")`."""
    match = _TARGET.match(text, position)
    if match is None:
        return None
    end = match.end() if match["angled"] else _bare_end(text, match.end())
    rest = _TARGET_REST.match(text, end) if end is not None else None
    return rest.end() if rest else None


def _bare_end(text: str, position: int) -> int | None:
    """Return where a target without `<>` ends: at white space, or at the `)` of the link."""
    depth = 0
    if text.startswith("<", position):
        return None
    while part := _TARGET_PARTS.match(text, position):
        if part[0] == "(":
            depth += 1
        elif part[0] == ")":
            depth -= 1
        if depth < 0 or depth > _MAX_PARENTHESES:
            break
        position = part.end()
    return position if depth <= 0 else None


def _paired_tags(content: Content) -> Iterator[str | Code]:
    """Make pairs of HTML tags, and one code of an element that is not translated."""
    raw_parts = list(content)
    partners = _tag_partners(raw_parts)
    plain = (isinstance(part, Code) or _is_plain(part) for part in raw_parts)
    escapes = list(accumulate((not is_plain for is_plain in plain), initial=0))
    """The number of texts that need an escape, before each part."""
    index = 0
    while index < len(raw_parts):
        part, partner = raw_parts[index], partners.get(index)
        if isinstance(part, Code) and partner is not None:
            match = _TAG.fullmatch(part.raw)
            is_opaque = match is not None and (match["name"] or "").lower() in _OPAQUE_TAGS
            if is_opaque and partner > index and escapes[index] == escapes[partner]:
                inside = raw_parts[index : partner + 1]
                yield Code("".join(one if isinstance(one, str) else one.raw for one in inside))
                index = partner + 1
                continue
            kind = "open" if partner > index else "close"
            number = min(index, partner) + 1
            yield Code(part.raw, "open" if kind == "open" else "close", number)
        else:
            yield part
        index += 1


def _is_plain(text: str) -> bool:
    """Return whether a text has no character that would need an escape."""
    return not any(character in "\\`*_~[]!<&{\n" for character in text)


def _tag_partners(parts: list[str | Code]) -> dict[int, int]:
    partners: dict[int, int] = {}
    stack: list[tuple[str, int]] = []
    for index, part in enumerate(parts):
        if isinstance(part, str):
            continue
        if part.kind == "open":
            stack.append((f"pair {part.pair}", index))
        elif part.kind == "close":
            while stack and stack[-1][0] != f"pair {part.pair}":
                stack.pop()
            del stack[-1:]
        elif match := _TAG.fullmatch(part.raw):
            name = (match["name"] or "").lower()
            if not name or match["empty"] or name in _VOID_TAGS:
                continue
            if not match["end"]:
                stack.append((name, index))
            elif stack and stack[-1][0] == name:
                partner = stack.pop()[1]
                partners[index], partners[partner] = partner, index
    return partners
