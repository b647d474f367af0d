"""The encoding of an HTML page, and text in this encoding.

The encoding is found as in a browser: from the byte order mark, the XML declaration or the
`<meta charset>` in the first 1,024 bytes, else UTF-8. A page in UTF-16 is scanned as UTF-8 and
converted back when it is written.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterable, Iterator
from typing import Protocol

from dragoman.errors import DataError
from dragoman.formats.base.xml_events import xml_encoding

_PRESCAN_BYTES = 1024
_META_CHARSET = re.compile(
    rb"<meta[\t\n\f\r /][^>]*?charset[\t\n\f\r ]*=[\t\n\f\r ]*[\"']?[\t\n\f\r ]*([^\s\"'/>;]+)",
    re.IGNORECASE,
)
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
# Browsers read these labels as a larger encoding.
_LARGER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
_MISSING = re.compile("[\0\ud800-\udfff]")
_CONTROL = re.compile("[\x80-\x9f]")

# In an attribute, `&copy=1` is not a reference: the semicolon is missing.
_ATTRIBUTE_REFERENCE = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")

_LONG_REFERENCE = re.compile(r"&#[0-9]{9,}")

KEPT_SPACE = re.compile(r"&#0[0-9]+;")
"""How whitespace is written that is part of a text although it is at its end."""


class Encoding(Protocol):
    """Text as bytes in which ASCII characters are one byte each."""

    data: bytes
    start: int
    """Where the content begins."""
    is_xml: bool

    def decode(self, start: int, end: int) -> str:
        """Return the characters of a part."""
        ...

    def encode(self, text: str) -> bytes:
        """Return text or markup as bytes."""
        ...

    def escape(self, text: str) -> str:
        """Return text as the content of an element."""
        ...


class PageEncoding:
    """The encoding of one page."""

    def __init__(self, data: bytes, name: str) -> None:
        self._name = name
        self._wide = ""
        """UTF-16 with its byte order, or empty."""
        self.start = 0
        """Where the content begins, after the byte order mark."""
        self.is_xml = name.lower().endswith(".xhtml") or data.lstrip()[:5] == b"<?xml"
        for mark, codec in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
            if data.startswith(mark):
                self._wide = codec
        if self._wide:
            data = self._as_utf8(data)
        self.data = data
        """The page in an encoding in which bytes below 128 are ASCII."""
        self._codec = "utf-8"
        if data.startswith(codecs.BOM_UTF8):
            self.start = len(codecs.BOM_UTF8)
        elif not self._wide:
            self._codec = self._declared(data)

    def decode(self, start: int, end: int) -> str:
        """Return the characters of a part of the page."""
        try:
            return self.data[start:end].decode(self._codec)
        except UnicodeDecodeError as error:
            position = start + error.start
            line = self.data.count(b"\n", 0, position) + 1
            raise DataError(
                f"{self._name} is not valid {self._codec} in line {line:,}: found the byte "
                f"0x{self.data[position]:02x}. Expected the encoding that the page declares, or "
                "UTF-8 if it declares none; convert the page to UTF-8 or correct its <meta charset>"
            ) from None

    def encode(self, text: str) -> bytes:
        """Return text or markup as bytes; what the encoding lacks becomes a reference."""
        if missing := _MISSING.search(text):
            raise DataError(
                f"{self._name} cannot contain the character U+{ord(missing[0]):04X}, which a "
                "translation contains; expected text without it"
            )
        encoded = text.encode(self._codec, "xmlcharrefreplace")
        if not self._codec.startswith("utf") and (control := _CONTROL.search(text)):
            raise DataError(
                f"{self._name} is in the encoding {self._codec}, which lacks the character "
                f"U+{ord(control[0]):04X} of a translation; convert the page to UTF-8"
            )
        return encoded

    def escape(self, text: str) -> str:
        """Return text as the content of an element."""
        text = html.escape(text, quote=False)
        return text.replace("\xa0", "&#160;" if self.is_xml else "&nbsp;")

    def restored(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the bytes of a page in the encoding of the file."""
        if not self._wide:
            yield from blocks
            return
        decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
        for block in blocks:
            yield decoder.decode(block).encode(self._wide, "surrogatepass")

    def _as_utf8(self, data: bytes) -> bytes:
        try:
            return data.decode(self._wide, "surrogatepass").encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise DataError(
                f"{self._name} begins with the byte order mark of UTF-16, but is not valid UTF-16: "
                "convert the page to UTF-8"
            ) from None

    def _declared(self, data: bytes) -> str:
        head = data[:_PRESCAN_BYTES]
        if self.is_xml:
            label = xml_encoding(data.lstrip())
        else:
            match = _META_CHARSET.search(_COMMENT.sub(b"", head))
            label = match[1].decode("latin-1").lower() if match else "utf-8"
        if label.startswith("utf-16"):  # The declaration itself is readable: it is not UTF-16.
            return "utf-8"
        try:
            codec = codecs.lookup(label).name
            codec = _LARGER.get(codec, codec)
            is_usable = bytes(range(128)).decode(codec) == "".join(map(chr, range(128)))
            is_usable = is_usable and not codec.startswith("iso2022")  # Has escape sequences.
        except (LookupError, UnicodeError, ValueError):
            is_usable = False
        if not is_usable:
            raise DataError(
                f"{self._name} declares the encoding {label[:40]!r}; expected UTF-8 or another "
                "that contains ASCII. Convert the page to UTF-8 and correct the declaration"
            )
        return codec


def unescape_text(raw: str) -> str:
    """Return text without its character references."""
    return html.unescape(_LONG_REFERENCE.sub(_short_reference, raw) if "&#" in raw else raw)


def _short_reference(match: re.Match[str]) -> str:
    # Python converts 4,300 digits at most. A number of eight digits is no character, either.
    return "&#" + (match[0][2:].lstrip("0")[:8] or "0")


def unescape_attribute(raw: str) -> str:
    """Return the value of an attribute."""
    return _ATTRIBUTE_REFERENCE.sub(lambda match: unescape_text(match[0]), raw)


def kept_space(space: str) -> str:
    """Return whitespace as references, so that it is read as part of a text."""
    return "".join(f"&#0{ord(character)};" for character in space)
