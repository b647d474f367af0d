"""Check that placeholders survive the server, in the forms in which Weblate sends them.

    python bench/placeholders.py URL STRINGS.tsv [COUNT]

URL is a server with a model from English to German; STRINGS.tsv has an English string with
protected spans in its first column (`test-spans.tsv` of `bench/documents.py`). Weblate hides a span
as `[X25X]` for LibreTranslate and Apertium, and as `<x id="25"></x>` in escaped text for DeepL; the
number is the position of the span. A string is exact if each placeholder comes back exactly once,
letter by letter, and the rest has nothing that looks like one. These APIs cannot flag a string, so
anything else is broken, and the exit code is 1. The same strings are sent to `/v1`, which says how
many of them a person should look at.
"""

from __future__ import annotations

import html
import json
import re
import sys
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dragoman.text.spans import find_spans

BATCH = 40
SQUARE = re.compile(r"\[X\d+X\]")
TAG = re.compile(r'<x id="\d+"></x>')
LIKE_SQUARE = re.compile(r"\[\s*x\s*\d|\d\s*x\s*\]", re.IGNORECASE)


class Hidden(NamedTuple):
    """A string as Weblate sends it."""

    square: str
    tags: str


def hide(text: str) -> Hidden:
    """Replace the spans of a string by placeholders."""
    square, tags = "", ""
    position = 0
    for span in find_spans(text):
        between = text[position : span.start]
        square += f"{between}[X{span.start}X]"
        tags += f'{html.escape(between)}<x id="{span.start}"></x>'
        position = span.end
    return Hidden(square + text[position:], tags + html.escape(text[position:]))


def post(url: str, body: object) -> bytes:
    """Send JSON."""
    data, head = json.dumps(body).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, head)
    with urllib.request.urlopen(request, timeout=300) as answer:
        return bytes(answer.read())


def libretranslate(server: str, texts: Sequence[str]) -> list[str]:
    """Translate with the API of LibreTranslate."""
    body = {"q": list(texts), "source": "en", "target": "de"}
    return list(json.loads(post(f"{server}/translate", body))["translatedText"])


def apertium(server: str, texts: Sequence[str]) -> list[str]:
    """Translate with the API of Apertium: one text per request."""
    answers = []
    for text in texts:
        query = urllib.parse.urlencode({"langpair": "en|de", "q": text, "markUnknown": "no"})
        with urllib.request.urlopen(f"{server}/translate?{query}", timeout=300) as answer:
            answers.append(json.load(answer)["responseData"]["translatedText"])
    return answers


def deepl(server: str, texts: Sequence[str]) -> list[str]:
    """Translate with the API of DeepL, with the options of Weblate."""
    body = {
        "text": list(texts),
        "source_lang": "EN",
        "target_lang": "DE",
        "tag_handling": "xml",
        "ignore_tags": ["x"],
    }
    translations = json.loads(post(f"{server}/v2/translate", body))["translations"]
    return [one["text"] for one in translations]


def is_exact(sent: str, received: str) -> bool:
    """Whether the placeholders are those that were sent, and nothing else looks like one."""
    for pattern in (SQUARE, TAG):
        if Counter(pattern.findall(sent)) != Counter(pattern.findall(received)):
            return False
    is_tagged = TAG.search(sent) is not None
    rest, received_rest = (TAG.sub("", SQUARE.sub("", text)) for text in (sent, received))
    if is_tagged and ("<" in received_rest or ">" in received_rest):
        return False
    return bool(LIKE_SQUARE.search(rest)) or not LIKE_SQUARE.search(received_rest)


def main() -> None:
    """Send the strings through every API and count."""
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    server, path = sys.argv[1].rstrip("/"), Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 500
    lines = path.read_text(encoding="utf-8").split("\n")
    strings = [line.split("\t")[0] for line in lines if line][:count]
    hidden = [hide(string) for string in strings]
    apis: list[tuple[str, Callable[[str, Sequence[str]], list[str]], list[str]]] = [
        ("LibreTranslate", libretranslate, [one.square for one in hidden]),
        ("Apertium", apertium, [one.square for one in hidden]),
        ("DeepL", deepl, [one.tags for one in hidden]),
    ]
    broken = 0
    for name, translate, texts in apis:
        answers = [answer for batch in batches(texts) for answer in translate(server, batch)]
        wrong = [
            (sent, got) for sent, got in zip(texts, answers, strict=True) if not is_exact(sent, got)
        ]
        same = sum(sent == got for sent, got in zip(texts, answers, strict=True))
        print(f"{name}: {len(texts)} strings, {len(wrong)} broken, {same} equal to their source")
        for sent, got in wrong[:5]:
            print(f"  {sent!r}\n  {got!r}")
        broken += len(wrong)
    flags: Counter[str] = Counter()
    flagged = 0
    for batch in batches(strings):
        body = {"texts": list(batch), "source": "en", "target": "de"}
        for one in json.loads(post(f"{server}/v1/translate", body))["translations"]:
            marks = [flag for flag in one.get("flags", ()) if flag.startswith(("spans", "source"))]
            flags.update(marks)
            flagged += bool(marks)
    print(f"/v1, spans as they are: {flagged} of {len(strings)} flagged {dict(flags)}")
    sys.exit(1 if broken else 0)


def batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Group texts as Weblate does."""
    for start in range(0, len(texts), BATCH):
        yield texts[start : start + BATCH]


if __name__ == "__main__":
    main()
