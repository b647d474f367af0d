"""Made JSON documents."""

from __future__ import annotations

import json

from hypothesis import strategies as st

SAMPLES = ("json/*.json",)
INVALID: dict[str, str] = {}
TEXT = st.text(
    st.sampled_from('abc dé漢"\\/\n\t\x01\u2028😀\x7f') | st.characters(codec="utf-8"), max_size=12
)
NAME = st.sampled_from(["a", "a", "b.c", "[0]", 'q"', "", "@x", "@@locale", "é", "@a"]) | TEXT
VALUE = st.recursive(
    TEXT.map(lambda text: ("string", text))
    | st.sampled_from(["1", "-0.5e+3", "true", "null", "0"]).map(lambda raw: ("raw", raw)),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: ("array", items))
        | st.lists(st.tuples(NAME, inner), max_size=4).map(lambda items: ("object", items))
    ),
    max_leaves=12,
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Nested values with any spacing, escapes, repeated names and all Unicode encodings."""
    space = st.sampled_from(["", "", " ", "\n", "\r\n\t"])
    is_ascii = draw(st.booleans())

    def quoted(text: str) -> str:
        written = json.dumps(text, ensure_ascii=is_ascii or draw(st.integers(0, 3)) == 0)
        return written.replace("/", "\\/") if draw(st.integers(0, 4)) == 0 else written

    def written(value: tuple[str, object]) -> str:
        kind, content = value
        if kind == "string":
            text = quoted(content)
        elif kind == "raw":
            text = content
        elif kind == "array":
            text = "[" + draw(space) + ",".join(map(written, content)) + "]"
        else:
            members = (quoted(name) + draw(space) + ":" + written(item) for name, item in content)
            text = "{" + draw(space) + ",".join(members) + "}"
        return draw(space) + text + draw(space)

    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-32"]))
    return written(draw(VALUE)).encode(encoding)


def decoded(data: bytes) -> str:
    """Decode independently of the format."""
    return data.decode(json.detect_encoding(data))


def is_equal(before: bytes, after: bytes) -> bool:
    """Compare everything but the string values, as the standard library reads it."""
    return structure(before) == structure(after)


def structure(data: bytes) -> object:
    def without_text(value: object) -> object:
        if isinstance(value, str):
            return "text"
        if isinstance(value, list):
            return [without_text(item) for item in value]
        if isinstance(value, tuple):
            return tuple(
                (name, item if name.startswith("@") else without_text(item)) for name, item in value
            )
        return value

    return without_text(json.loads(decoded(data), object_pairs_hook=tuple))
