r"""Find protected spans: the parts of a text that a translation must keep unchanged.

A span has one of these kinds:

    printf      %s  %1$s  %-5.2f  %(name)d  %%  %1 and %n (Qt)  %@ (Objective-C)  %NAME%
    brace       {0}  {name!r:>10}  {{x.y}}  {% tag %}  ${x}  #{x}  %{x}  $(x)
    message     {count, plural, one {# file} other {# files}}  {{PLURAL:$1|file|files}}
    variable    $name, $1 (only if the numbers begin with 1 and have no gap: $5 is money)
    tag_open    <b>  <a href="x">
    tag_close   </b>
    tag         <br>  <br/>  <x id="12"></x>  <!-- comment -->  [X12X] (Weblate)
    entity      &name;  &#1;
    url         https://example.org/a  www.example.org  mailto:me@example.org
    mail        me@example.org
    path        /usr/bin/x  ~/x  C:\x  docs/x.rst  *.txt
    code        `x`  ``x``  --option  name()  name(1)
    role        :ref:`target`  |substitution|  (reStructuredText)
    link        ](target)  (Markdown)
    private     one private-use character; some of them are tokens (tokenizer/interface.py)
    custom      what a regular expression of the user matches

Prose must not be taken for a span: `50% off`, `a < b`, `and/or`, `$5`, and a brace alone are text.
A message is one span with all its branches; if its braces are not balanced, it is no span.

The time grows linearly with the text, also for hostile text: every repetition in the patterns is
bounded, and regular expressions of the user run in RE2, which never backtracks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from dragoman.errors import DataError, MissingExtraError

PRIVATE_USE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
"""The private-use characters, as ranges for a regular expression."""

UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Thai, Lao, Tibetan, Burmese, Khmer, Japanese, Chinese: there is no space between words."""

EMPTY_TAGS = {"br", "hr", "img", "wbr", "input", "col", "area", "base", "embed", "link", "meta"}
"""Tags of HTML that are never closed."""

MAX_DEPTH = 20
"""The maximum depth of nested braces in a message."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text that must not change: `text[start:end]`."""

    start: int
    end: int
    kind: str
    text: str


class Match(Protocol):
    """What a pattern returns for each place in the text."""

    def span(self, group: int = 0, /) -> tuple[int, int]:
        """Return start and end."""


class Pattern(Protocol):
    """A compiled regular expression, of `compile_patterns` or of `re`."""

    def finditer(self, string: str, /) -> Iterable[Match]:
        """Yield all matches, from left to right."""


# A span contains one of these. Most texts contain none and need no further work.
_HINT = re.compile(
    rf"[%{{<&@/$`|\\{PRIVATE_USE}]|www\.|\]\(|\(\)|--[a-z]|\[X|\*\.|\([1-8]\)", re.IGNORECASE
)
# The first characters of the hints, except `www`: a set alone is searched much faster.
_HINT_START = re.compile(rf"[%{{<&@/$`|\\{PRIVATE_USE}\](\[*-]")

# A unit or a capital letter may touch a placeholder: `%dpx`, `%sNext`. Otherwise letters make it a
# word: `%name`.
_UNIT = r"(?:[hmsxBKMGkp] | px | ms | [KMGTk]i?B | th)"
_CONVERSION = rf"[A-Za-z@] (?: (?![A-Za-z0-9]) | (?={_UNIT}(?![A-Za-z])) ) | [sd](?=[A-Z])"
_LENGTH = r"(?: hh? | ll? | [Lqjzt] | I64 )?"
# Words of scripts without spaces touch a span, and so do the particles of Korean: `$name` in
# `$nameを開く`.
_LETTER = rf"[^\W{UNSPACED}\uac00-\ud7a3]"
_NAME = rf"[A-Za-z_]{_LETTER}{{0,63}}"
_FILE_NAME = r"[A-Za-z0-9_.+@-]{1,64}"

_SPAN = re.compile(
    rf"""
    (?P<private> [{PRIVATE_USE}] )
    | (?P<url>
        (?: (?<![A-Za-z0-9]) (?:https?|ftps?|file|git|ssh|ircs?|wss?|svn):// (?=[^\s.,;:!?])
          | (?<![A-Za-z0-9]) mailto: (?=[A-Za-z0-9_.+-]{{1,64}}@)
          | (?<![A-Za-z0-9.])www\.(?=[A-Za-z0-9]) )
        (?: [!#$%&*+,./0-9:;=?@A-Z_a-z~-] | \{{[\w.]{{0,64}}\}} | \([\w%,.:/-]{{0,64}}\) ){{1,2000}}
        (?<![.,;:!?*_~])
      )
    | (?P<mail> (?<![A-Za-z0-9_.+-]) [A-Za-z0-9_+-][A-Za-z0-9_.+-]{{0,63}}
                @ [A-Za-z0-9-]{{1,63}} (?:\.[A-Za-z0-9-]{{1,63}}){{1,8}} (?<!-) )
    | (?P<printf>
        %%
        | %\([A-Za-z0-9_.:-]{{1,64}}\)[-+\#0]?\d{{0,3}}(?:\.\d{{1,3}})?[A-Za-z]      # %(name)s
        | %\d{{1,2}}\$[-+\#0']?[\d*]{{0,3}}(?:\.[\d*]{{1,3}})?{_LENGTH}[A-Za-z@]      # %1$d
        | %<PRI[A-Za-z0-9]{{2,10}}> | %<\w{{1,64}}>[A-Za-z]                         # %<PRIu64>
        | (?<!\d)%[A-Za-z_][A-Za-z0-9_]{{1,63}}%(?![A-Za-z0-9(])                    # %NAME%
        | (?<!\d) (?<!\d[ \u00a0\u202f]) %
          (?: \.[\d*]{{1,3}}[fFeEgGsd]                                              # %.1f
            | 0[1-9][diuxX]                                                         # %02d
            | [-+\#0']? [\d*]{{0,3}} (?:\.[\d*]{{1,3}})? {_LENGTH} (?:{_CONVERSION}) )  # %s
        | (?<=\d[ ])%[sd@](?!{_LETTER}|['’])                                       # 3 %s
        | (?<!\d)%\d{{1,2}}%                                                        # %1%
        | (?<!\d)%L?[1-9]                                                           # %1
          (?: (?!{_LETTER}|[.,%]) | (?=[.,](?!\d)) | (?={_UNIT}(?![A-Za-z0-9])) )
      )
    | (?P<message>
        \{{\s{{0,9}}[\w.-]{{1,64}}\s{{0,9}},\s{{0,9}}
        (?:plural|select|selectordinal|number|date|time|spellout|ordinal|duration|choice)
        (?=\s{{0,9}}[,}}])
        | \{{\{{\#?[A-Za-z]{{2,20}}:(?=[^{{}}\n]{{0,100}}\|)
      )
    | (?P<brace>
        \{{%[^{{}}\n]{{1,200}}%\}}
        | \{{\{{\{{[^{{}}\n]{{1,200}}\}}\}}\}} | \{{\{{[^{{}}\n]{{1,200}}\}}\}}
        | [$\#%]\{{[^{{}}\n]{{1,100}}\}}
        | (?<!{_LETTER})\$\([A-Za-z_][\w.]{{0,63}}\)
        | \{{[ ]?[$-][A-Za-z][\w.-]{{0,63}}[ ]?\}} | \{{[ ][A-Za-z_][\w.]{{0,63}}[ ]\}}
        | \{{[ ]?[A-Z]{{3,20}}\([^{{}}()\n]{{0,100}}\)[ ]?\}}
        | \{{[\w.\[\]-]{{0,64}}(?:,-?\d{{1,3}}(?=:))?(?:![rsa])?(?::[^{{}}\s]{{0,64}})?\}}
      )
    | (?P<role>
        (?<!{_LETTER}|[`]) :[A-Za-z][\w:+.-]{{0,40}}:`
        (?: (?=[^`<>\n]{{1,200}}<[^`<>\n]{{1,200}}>`) | [^`\n]{{1,200}}` )
        | (?<!{_LETTER}|[`]) `(?=[^`<>\s][^`<>\n]{{0,200}}<[^`<>\s]{{1,500}}>`_)
        | <[^`<>\s]{{1,500}}>`_{{0,2}}
        | (?<!{_LETTER}|[`]) `[^`\s](?:[^`\n]{{0,98}}[^`\s])?`__?(?!{_LETTER})
        | (?<!{_LETTER}|[|]) \|[A-Za-z][\w.-]{{1,40}}\|(?:__?)?(?!{_LETTER}|[|])
      )
    | (?P<tag>
        <x[ ]id="[\w.-]{{1,20}}"></x> | \[X\d{{1,6}}X\]
        | <!--[^<>]{{0,1000}}--> | <\?[^<>]{{1,200}}\?>
        | </?[A-Za-z_][A-Za-z0-9_:.-]{{0,64}}
          (?: \s (?: [^<>"'] | "[^"<]{{0,500}}" | '[^'<]{{0,500}}' ){{0,1000}} )? /? >
      )
    | (?P<entity>
        & (?: [A-Za-z][A-Za-z0-9_.-]{{1,64}} | \#\d{{1,7}} | \#[xX][0-9A-Fa-f]{{1,6}} ) ;
      )
    | (?P<code>
        (?<!{_LETTER}|[`]) ``[^\s`](?:[^\n]{{0,198}}?[^\s])??``(?!{_LETTER}|[`])
        | (?<!{_LETTER}|[`]) `[^\s`](?:[^`\n]{{0,198}}[^\s`])?`(?!{_LETTER}|[`])
        | (?<!{_LETTER}|[-]) --[a-z][a-z0-9]{{1,40}}(?:-[a-z0-9]{{1,40}}){{0,8}}(?!{_LETTER}|[-])
        | (?<!{_LETTER}|[.:>-]) {_NAME}(?:(?:\.|::|->){_NAME}){{0,8}}\(\)
        | (?<!{_LETTER}|[.+-]) [a-z][a-z0-9_.+-]{{1,40}}\([1-8]\)(?!{_LETTER})
      )
    | (?P<link>
        !\[(?=[^\[\]\n]{{0,200}}\]\()
        | \]\((?:[^()\s]|\([^()\s]{{0,100}}\)){{1,1000}}(?:\)|(?=\s["']))
      )
    | (?P<variable> (?<!{_LETTER}|[$]) \$ (?: {_NAME} | [1-9](?!{_LETTER}|[.,]\d) ) )
    | (?P<path>
        (?<!{_LETTER}|[/.:)<>~&-]) (?: ~ | \.\.? )? (?:/{_FILE_NAME}){{2,20}} (?<![.-]) /?
        | (?<!{_LETTER}|[/.:)<>~&-]) (?: ~ | \.\.? ) /{_FILE_NAME} (?<![.-]) /?
        | (?<!{_LETTER}|[/.:)<>~&-])
          /(?:bin|boot|dev|etc|home|lib|mnt|opt|proc|root|run|srv|sys|tmp|usr|var)(?!{_LETTER}|[/-])
        | (?<!{_LETTER}|[/.:@~-]) (?:[A-Za-z0-9_.-]{{1,64}}/){{1,10}}[A-Za-z0-9_-]{{1,64}}
          \.[a-z][a-z0-9]{{0,4}}(?!{_LETTER}|[/])
        | (?<!{_LETTER}) [A-Za-z]:\\ (?: [^\\/:*?"<>|\s]{{1,64}}\\ ){{0,20}}
          (?: (?:{_LETTER}|[$.-]){{0,63}} (?:{_LETTER}|[$]) )?
        | (?<!{_LETTER}|[*]) \*\.[A-Za-z][A-Za-z0-9]{{0,7}}(?!{_LETTER})
      )
    """,
    re.VERBOSE,
)
_TAG_NAME = re.compile(r"</?([A-Za-z_][A-Za-z0-9_:.-]{0,64})")
_MESSAGE_MARK = re.compile(r"[{}']")
_NUMBERED = re.compile(r"\$[0-9]")


def find_spans(text: str, patterns: Sequence[Pattern] = ()) -> list[Span]:
    """Return the protected spans of a text, in order and without overlap.

    What `patterns` match comes first; the rest of the text is searched for the other kinds.
    """
    if not patterns:
        return list(_find(text, 0, len(text))) if _has_hint(text) else []
    spans: list[Span] = []
    position = 0
    for start, end in _find_custom(text, patterns):
        spans += _find(text, position, start)
        spans.append(Span(start, end, "custom", text[start:end]))
        position = end
    spans += _find(text, position, len(text))
    return spans


def _has_hint(text: str) -> bool:
    """Whether there may be a span: the same as `_HINT.search`, in a fraction of its time."""
    start = _HINT_START.search(text)
    if start is not None and _HINT.search(text, start.start()):
        return True
    return "www." in text.lower()


def compile_patterns(expressions: Sequence[str]) -> tuple[Pattern, ...]:
    """Compile regular expressions of the user with RE2, which needs linear time for every text."""
    if not expressions:
        return ()
    try:
        import re2  # noqa: PLC0415  (only needed for the user's own expressions)
    except ImportError:
        raise MissingExtraError("a regular expression", "google-re2", "formats") from None
    options = re2.Options()
    options.log_errors = False
    patterns = []
    for expression in expressions:
        try:
            patterns.append(re2.compile(expression, options))
        except (re2.error, UnicodeEncodeError) as error:
            reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
            raise DataError(
                f"the regular expression {expression!r} cannot be used: {reason}. Expected the "
                "syntax of RE2, which is that of Python without look-around ((?=, (?!, (?<) and "
                "without references to groups (\\1)"
            ) from None
    return tuple(patterns)


def _find_custom(text: str, patterns: Sequence[Pattern]) -> Iterator[tuple[int, int]]:
    """Yield what the patterns match; of matches that overlap, the first, then the longest."""
    # RE2 reads UTF-8, in which half a character (a lone surrogate) cannot be written.
    readable = text.encode(errors="replace").decode()
    matches = [match.span() for pattern in patterns for match in pattern.finditer(readable)]
    position = 0
    for start, end in sorted(matches, key=lambda span: (span[0], -span[1])):
        if start >= position and end > start:
            yield start, end
            position = end


def _find(text: str, position: int, end: int) -> Iterator[Span]:
    has_numbered: bool | None = None
    while match := _SPAN.search(text, position, end):
        start, stop = match.span()
        kind = match.lastgroup or ""
        if kind == "message":
            stop = _end_of_message(text, start, end)
        elif kind == "tag":
            kind = _kind_of_tag(match[0])
        elif kind == "variable" and match[0][1].isdigit():
            if has_numbered is None:
                has_numbered = _has_numbered_variables(text)
            kind = kind if has_numbered else ""
        if kind and stop:
            yield Span(start, stop, kind, text[start:stop])
            position = stop
        else:
            position = start + 1


def _end_of_message(text: str, start: int, limit: int) -> int:
    """Return the end of a message whose braces are balanced; 0 if they are not.

    As in ICU, an apostrophe before a brace begins a quotation, in which braces are text.
    """
    depth, position = 0, start
    while mark := _MESSAGE_MARK.search(text, position, limit):
        position = mark.end()
        if mark[0] == "{":
            depth += 1
        elif mark[0] == "}":
            depth -= 1
        elif text[position : position + 1] in ("{", "}"):
            closing = text.find("'", position, limit)
            position = closing + 1 if closing >= 0 else limit
        if depth == 0:
            return position
        if depth > MAX_DEPTH:
            return 0
    return 0


def _kind_of_tag(text: str) -> str:
    """Return the kind of a tag; empty if it is a description for people: `<file name>`."""
    match = _TAG_NAME.match(text)
    if match is None or text.endswith("></x>"):
        return "tag"
    name = match[1]
    attributes = text[match.end() : -1].rstrip("/").strip()
    if attributes and "=" not in attributes:
        return ""
    if text.startswith("</"):
        return "tag_close"
    return "tag" if text.endswith("/>") or name.lower() in EMPTY_TAGS else "tag_open"


def _has_numbered_variables(text: str) -> bool:
    """Whether the numbers after dollar signs are 1, 2, ... without a gap: not amounts of money."""
    numbers = {int(match[0][1]) for match in _NUMBERED.finditer(text)}
    return numbers == set(range(1, len(numbers) + 1))
