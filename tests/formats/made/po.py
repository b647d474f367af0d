"""Made gettext catalogs."""

from __future__ import annotations

from hypothesis import strategies as st

SAMPLES = ("po/*.po", "po/polib/*.po")
INVALID = {
    "po/polib/test_syntax_error1.po": "in line 5: found invalid PO syntax",
    "po/polib/test_ufeff.po": "in line 4: found invalid PO syntax",
}
TEXT = st.text(
    st.sampled_from('abc dé漢,.%s"\\\t\n\r\u2028\f😀-/') | st.characters(codec="utf-8"), max_size=30
).map(lambda text: text.replace("\0", ""))
LONG = st.lists(st.sampled_from(["word", "Wörter-und", "a/b", "漢字漢字", "%(name)s\n"])).map(
    " ".join
)
COMMENTS = (
    *("# note: ü", "#. extracted", "#: a.c:1", "#", '#| msgid "old"'),
    *("#, c-format", "#, fuzzy", "#,no-wrap,fuzzy", "#,"),
)
ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
FORMS = {
    "": (1, 6),
    "Plural-Forms: nplurals=1; plural=0;\n": (1, 1),
    "Plural-Forms: nplurals=2; plural=(n != 1);\n": (2, 2),
    "Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\n": (2, 2),
    "Plural-Forms: nplurals=3; plural=n==1 ? 0 : n<5 ? 1 : 2;\n": (3, 3),
}


def quoted(text: str) -> str:
    return '"' + "".join(ESCAPES.get(character, character) for character in text) + '"'


@st.composite
def keyword(draw: st.DrawFn, name: str, text: str) -> list[str]:
    """A keyword with its text in one or more lines."""
    middle = draw(st.integers(0, len(text)))
    separator = draw(st.sampled_from([" ", " ", "\t\t ", ""]))
    indentation = draw(st.sampled_from(["", "", "   "]))
    if draw(st.booleans()):
        return [f"{name}{separator}{quoted(text)}"]
    lines = [f'{name}{separator}""', f"{indentation}{quoted(text[:middle])}"]
    return [*lines, f"{indentation}{quoted(text[middle:])}"]


@st.composite
def entry(draw: st.DrawFn, number: int, form_count: int) -> list[str]:
    lines = draw(st.lists(st.sampled_from(COMMENTS), max_size=4))
    if draw(st.booleans()):
        lines += draw(keyword("msgctxt", draw(TEXT)))
    lines += draw(keyword("msgid", f"{number} " + draw(TEXT)))
    if draw(st.booleans()):
        lines += draw(keyword("msgid_plural", draw(TEXT)))
        for form in range(form_count):
            lines += draw(keyword(f"msgstr[{form}]", draw(TEXT | LONG | st.just(""))))
    else:
        lines += draw(keyword("msgstr", draw(TEXT | LONG | st.just(""))))
    if draw(st.integers(0, 5)) == 0:
        lines = ["#~ " + line for line in lines if not line.startswith("#")]
    return lines


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Catalogs with plural forms, contexts, flags, old and obsolete messages."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    forms = draw(st.sampled_from(sorted(FORMS)))
    form_count = draw(st.integers(*FORMS[forms]))
    lines: list[str] = []
    if forms or draw(st.booleans()):
        charset = draw(st.sampled_from(["UTF-8", "CHARSET"]))
        header = f"Language: \nContent-Type: text/plain; charset={charset}\n{forms}"
        lines += draw(st.sampled_from([[], ["#, fuzzy"], ["# Title", "#"]]))
        lines += ['msgid ""', 'msgstr ""', *map(quoted, header.splitlines(keepends=True))]
    for number in range(draw(st.integers(0, 5))):
        lines += draw(st.sampled_from([[], [""], ["", "# alone", ""]]))
        lines += draw(entry(number, form_count))
    text = newline.join(lines) + draw(st.sampled_from(["", newline, newline * 2]))
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


def is_equal(before: bytes, after: bytes) -> bool:
    """Compare the lines that are no translation, no flag and no previous message."""
    return _kept_lines(before) == _kept_lines(after)


def _kept_lines(data: bytes) -> list[bytes]:
    kept = []
    is_translation = False
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        text = line.strip()
        is_translation = text.startswith(b"msgstr") or (is_translation and text[:1] in (b'"', b""))
        if not is_translation and not text.startswith((b"#,", b"#|")):
            kept.append(text)
    return kept
