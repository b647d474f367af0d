"""What the elements of HTML mean for translation: blocks, attributes, parts that stay as they are.

`Regions` follows which elements are open, with the end tags that HTML allows to omit. It is less
exact than a browser's tree, and only as exact as `translate="no"` and `<pre>` need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dragoman.formats.base.html_tokens import VOID_ELEMENTS, Attribute, Token, names

BLOCK_ELEMENTS = names(
    "address article aside audio base basefont blockquote body button canvas caption center col "
    "colgroup dd details dialog dir div dl dt fieldset figcaption figure footer form frame "
    "frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe label legend li link listing "
    "main menu meta nav noembed noframes noscript object ol optgroup option p param plaintext "
    "pre script search section select style summary table tbody td template textarea tfoot th "
    "thead title tr track ul video xmp"
)
"""They end a text. Unknown elements are inline, as in a browser."""

OPAQUE_ELEMENTS = frozenset(("code", "kbd", "samp", "var"))
"""Inline elements whose content is not translated: with it, they are one code."""

_PRESERVING_ELEMENTS = frozenset(("pre", "listing", "xmp", "plaintext", "textarea"))
_HIDDEN_ELEMENTS = frozenset(("script", "style"))
_TEXT_ATTRIBUTES = names(
    "alt title placeholder summary aria-label aria-description aria-placeholder "
    "aria-roledescription aria-valuetext"
)
_TEXT_METADATA = names(
    "description keywords og:title og:description twitter:title twitter:description"
)
_BUTTON_TYPES = frozenset(("button", "submit", "reset"))

# An element in `_SCOPE` hides the elements around it from the tags inside of it.
_SCOPE = ("button", "table", "td", "th", "caption", "object", "template")
_Rule = tuple[tuple[str, ...], tuple[str, ...]]
_PARAGRAPH: _Rule = (("p",), _SCOPE)
_CELL: _Rule = (("td", "th"), ("table", "template"))
_ROWS: _Rule = (("thead", "tbody", "tfoot", "caption"), ("table", "template"))
_TERM: _Rule = (("dt", "dd"), ("dl", *_SCOPE))
_CLOSED_BY: dict[str, tuple[_Rule, ...]] = {
    **dict.fromkeys(
        names(
            "address article aside blockquote center details dialog dir div dl fieldset figcaption "
            "figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr listing main menu nav ol p "
            "plaintext pre search section summary table ul xmp"
        ),
        (_PARAGRAPH,),
    ),
    "li": ((("li",), ("ul", "ol", "menu", *_SCOPE)), _PARAGRAPH),
    "dt": (_TERM, _PARAGRAPH),
    "dd": (_TERM, _PARAGRAPH),
    "td": (_CELL,),
    "th": (_CELL,),
    "tr": ((("tr", "caption"), ("table", "template")),),
    "thead": (_ROWS,),
    "tbody": (_ROWS,),
    "tfoot": (_ROWS,),
    "option": ((("option",), ("select",)),),
    "optgroup": ((("optgroup", "option"), ("select",)),),
    "body": ((("head",), ()),),
}
"""Which open elements a start tag closes, unless one of the second group is inside of them."""
_TABLE_PARTS = frozenset(("table", "thead", "tbody", "tfoot", "tr", "td", "th", "body", "html"))


def may_have_texts(token: Token) -> bool:
    """Whether a start tag has attributes that are texts in some elements."""
    present = {attribute.name for attribute in token.attributes}
    return not present.isdisjoint(_TEXT_ATTRIBUTES | {"value", "content", "label"})


def text_attributes(token: Token, values: Mapping[str, str]) -> Iterator[Attribute]:
    """Yield the attributes of a start tag that are texts; `values` has the decoded values."""
    for attribute in token.attributes:
        if attribute.has_value and _is_text(token.name, attribute.name, values):
            yield attribute


def _is_text(element: str, name: str, values: Mapping[str, str]) -> bool:
    if element == "html":
        return False
    if name == "value":
        return element == "input" and values.get("type", "").lower() in _BUTTON_TYPES
    if name == "content":
        kinds = {values.get(key, "").lower() for key in ("name", "property", "itemprop")}
        return element == "meta" and bool(kinds & _TEXT_METADATA)
    if name == "label":
        return element in ("option", "optgroup", "track")
    return name in _TEXT_ATTRIBUTES


@dataclass(frozen=True, slots=True)
class Region:
    """What an open element says about its content."""

    name: str
    is_translatable: bool = True
    is_preserving: bool = False
    """Whether whitespace is kept as it is."""


class Regions:
    """The open elements, as far as they matter."""

    def __init__(
        self,
        values: Callable[[Token], Mapping[str, str]],
        kept: frozenset[str] = frozenset(),
    ) -> None:
        self._values = values
        """Returns the decoded attributes of a start tag."""
        self._kept = kept
        """Elements whose content is not translated."""
        self._open = [Region("")]
        self._indexes: dict[str, list[int]] = {}
        """Where the elements of a name are in `_open`: a search does not go through all of them."""

    @property
    def current(self) -> Region:
        """The innermost region."""
        return self._open[-1]

    def start(self, token: Token) -> Region:
        """Enter an element; return its own region, also if it has no content."""
        for closed, scope in _CLOSED_BY.get(token.name, ()):
            index = self._last(closed)
            if index > self._last(scope):
                self._leave(index)
        outer = self.current
        translate = self._translate(token)
        region = Region(
            token.name,
            (outer.is_translatable if translate is None else translate)
            and token.name not in _HIDDEN_ELEMENTS
            and token.name not in self._kept,
            outer.is_preserving or token.name in _PRESERVING_ELEMENTS,
        )
        is_region = token.name in BLOCK_ELEMENTS or translate is not None
        is_region = is_region or token.name in self._kept
        if is_region and not token.is_empty and token.name not in VOID_ELEMENTS:
            self._indexes.setdefault(token.name, []).append(len(self._open))
            self._open.append(region)
        return region

    def end(self, token: Token) -> None:
        """Leave an element, and all elements inside of it."""
        index = self._last((token.name,))
        scope = () if token.name in _TABLE_PARTS else _SCOPE
        if index > 0 and index >= self._last(scope):
            self._leave(index)

    def _last(self, names: tuple[str, ...]) -> int:
        lists = (self._indexes.get(name) for name in names)
        return max((indexes[-1] for indexes in lists if indexes), default=0)

    def _leave(self, index: int) -> None:
        while len(self._open) > index:
            self._indexes[self._open.pop().name].pop()

    def _translate(self, token: Token) -> bool | None:
        """Return what a start tag says about translation; None = nothing."""
        if not any(attribute.name in ("translate", "class") for attribute in token.attributes):
            return None
        values = self._values(token)
        if "notranslate" in values.get("class", "").split():
            return False
        translate = values.get("translate")
        return None if translate is None else translate.strip().lower() != "no"
