"""Texts of requests: only words change, whatever the client sends and the model writes."""

from __future__ import annotations

import html
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import html5lib
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from dragoman.documents.fragments import Fragment, markup_fragment, text_fragment
from dragoman.documents.translation import DocumentTranslator, Options
from dragoman.formats.base.document import Target
from dragoman.text.spans import find_spans
from support.segment_models import FunctionModel, drop, echo, hostile

WITH_TOKENS = Options("en", "de", has_span_tokens=True, max_hypotheses=2)
WITHOUT_TOKENS = Options("en", "de")


def read(text: str, kind: str, ignored: tuple[str, ...] = ("x",)) -> Fragment:
    if kind == "text":
        return text_fragment(text)
    return markup_fragment(text, kind=kind, ignored_tags=frozenset(ignored))


@dataclass(frozen=True)
class Answer:
    text: str
    flags: tuple[str, ...]


def translate(
    text: str, kind: str, function: Callable[[str], str], options: Options = WITH_TOKENS
) -> Answer:
    fragment = read(text, kind)
    translator = DocumentTranslator(FunctionModel(function), options)
    results = list(translator.translate(fragment.units))
    flags = [flag for result in results for flag in result.flags]
    return Answer(fragment.join([result.target for result in results]), tuple(flags))


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("text", "one\r\ntwo\r\n\r\nthree\n", "ONE\r\nTWO\r\n\r\nTHREE\n"),
        ("text", "Use [X4X]bold[X11X] text", "USE [X4X]BOLD[X11X] TEXT"),
        ("text", "<b>bold</b> & more", "<b>BOLD</b> & MORE"),
        ("xml", 'Use <x id="4"></x>bold<x id="11"></x>', 'USE <x id="4"></x>BOLD<x id="11"></x>'),
        ("xml", '<x id="0"></x> of <x id="9"></x>', '<x id="0"></x> OF <x id="9"></x>'),
        ("xml", "<x>keep <b>this</x> not this", "<x>keep <b>this</x> NOT THIS"),
        (
            "xml",
            "&quot;Tom&quot; &amp; &#x27;Jerry&#x27; &lt;b&gt;bold&lt;/b&gt;",
            "&quot;TOM&quot; &amp; &#x27;JERRY&#x27; &lt;b&gt;BOLD&lt;/b&gt;",
        ),
        ("xml", "AT&T is < 5 & <i>free</i>", "AT&T IS < 5 & <i>FREE</i>"),
        ("xml", "caf&eacute; &unknown; bar", "CAFÉ &unknown; BAR"),
        ("xml", "one <br> two <i>three <b>four</b></i>", "ONE <br> TWO <i>THREE <b>FOUR</b></i>"),
        ("xml", "one <i>two <b>three</i>", "ONE <i>TWO <b>THREE</i>"),
        ("xml", "a <!-- no --> b <?no?> c", "A <!-- no --> B <?no?> C"),
        ("xml", "click <0>here</0> or <1/> there", "CLICK <0>HERE</0> OR <1/> THERE"),
        ("xml", "see <Größe a='1>2'>it</Größe>", "SEE <Größe a='1>2'>IT</Größe>"),
        ("xml", "one <!-- two <b>three</b>", "ONE &lt;!-- TWO <b>THREE</b>"),
        (
            "html",
            '<p>Hi <span translate="no">:cat:</span> &amp; <b>you</b></p>',
            '<p>HI <span translate="no">:cat:</span> &amp; <b>YOU</b></p>',
        ),
        ("html", "<code>a b</code> and <time>now</time>", "<code>a b</code> AND <time>now</time>"),
        ("html", "<video>no <p>text</p></video> but", "<video>no <p>text</p></video> BUT"),
        ("html", "it&#39;s <a id=top></a>here", "IT&#39;S <a id=top></a>HERE"),
        ("html", "a &lt;script&gt; b&nbsp;c", "A &lt;script&gt; B&nbsp;C"),
        ("html", "no html, a < b & c", "NO HTML, A < B & C"),
        ("html", "<meta charset=latin1>é", "<meta charset=latin1>É"),
        ("html", "\ufeffé <?xml encoding=no?>ü", "\ufeffÉ <?xml encoding=no?>Ü"),
        ("html", "one<br>two", "ONE<br>TWO"),
    ],
)
def test_words_are_translated_and_nothing_else_changes(kind, text, expected):
    assert translate(text, kind, str.upper) == Answer(expected, ())


def test_a_text_without_words_has_no_units():
    for kind in ("text", "html", "xml"):
        for text in ("", " ", "\r\n \t", "<b></b>" if kind != "text" else "\n"):
            fragment = read(text, kind)
            assert fragment.units == ()
            assert fragment.join([]) == text


def test_paragraphs_are_units_unless_a_span_contains_the_empty_line():
    text = "  one\n \n\ntwo\r\nlines\r\n\r\n{n, plural,\n\none {x}\n\nother {y}} three"
    units = text_fragment(text).units
    assert [unit.source[0] for unit in units] == [
        "  one",
        "two\r\nlines",
        "{n, plural,\n\none {x}\n\nother {y}} three",
    ]


def test_newlines_can_be_spaces():
    fragment = text_fragment("one\ntwo\n\nthree", keeps_newlines=False)
    model = FunctionModel(str.upper)
    (result,) = DocumentTranslator(model, WITHOUT_TOKENS).translate(fragment.units)
    assert model.texts == ["one two three"]
    assert fragment.join([result.target]) == "ONE TWO THREE"


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("<title>One</title><par>Two <i>three</i>.</par>", ["One", "Two three."]),
        ("<doc><a1>One</a1> <b>two</b></doc>", ["One two"]),
        ("Press <key>F1</key> now", ["Press F1 now"]),
        ("<li>One</li><li>Two</li>", ["One", "Two"]),
        ("text<p>One</p>more", ["text", "One", "more"]),
        ("<name>One</name>\n<note>Two</note>", ["One", "Two"]),
        ("<b>One</b> <i>two</i>", ["One two"]),
        ("  <b> One </b>  ", [" One "]),
    ],
)
def test_paragraphs_of_xml(text, units):
    read_units = read(text, "xml").units
    texts = ["".join(part for part in unit.source if isinstance(part, str)) for unit in read_units]
    assert texts == units


def test_wrong_numbers_of_targets_are_an_error():
    for kind in ("text", "html", "xml"):
        fragment = read("<p>one</p>\n\n<p>two</p>", kind)
        assert len(fragment.units) == 2
        for count in (0, 1, 3):
            with pytest.raises(ValueError, match=r"zip|targets"):
                fragment.join([Target(("a",))] * count)


PIECES = st.sampled_from(
    ["word", "two words", " ", "\n", "\r\n\r\n", ".", "%s", "{0}", "é", "日本語", "😀", "\xa0",
     "&amp;",
     "&lt;b&gt;", "&quot;", "&#x27;", "&nbsp;", "&copy", "&foo;", "&", "<", ">", "a < b", "]]>",
     '"', "'", "<b>", "</b>", "<i>", "</i>", '<x id="12"></x>', '<x id="3"></x>', "[X25X]", "<x>",
     "</x>",
     "<br>", "<br/>", "<hr />", "<p>", "</p>", "<!-- c -->", "<!--", "<?pi?>", "<![CDATA[a<b>]]>",
     "<![CDATA[", '<a href="x?a=1&amp;b=2">', "</a>", "<a title='A word'>", "<img alt=text src=x>",
     "<code>", "</code>", '<span translate="no">', "</span>", "<script>", "</script>", "<title>",
     "</title>", "<svg>", "</svg>", "<textarea>", "<table>", "<td>", "<ul><li>", "</ul>", "<0>",
     "</0>", "<file name>", "<_a b='c'>", "<", "</", "<!", "&#0;", "&#128;", "&#10;", "&zwj;"]
)  # fmt: skip
ANY_TEXT = st.one_of(
    st.lists(PIECES, max_size=12).map("".join),
    st.lists(PIECES, max_size=8).map(" ".join),
    st.text(st.characters(exclude_categories=()), max_size=30),
)


@given(ANY_TEXT, st.sampled_from(["text", "html", "xml"]), st.booleans())
def test_the_same_targets_give_the_same_text(text, kind, is_same):
    fragment = read(text, kind)
    targets = [Target(unit.source) if is_same else None for unit in fragment.units]
    assert fragment.join(targets) == text
    assert "".join(fragment.write(targets)) == text


@settings(deadline=None)
@given(ANY_TEXT, st.sampled_from(["text", "html", "xml"]), st.integers(0, 2**32))
def test_any_text_can_be_translated(text, kind, seed):
    for function in (str.upper, hostile(seed)):
        translate(text, kind, function, WITHOUT_TOKENS)


WORDS = st.sampled_from(
    [
        "Open",
        "the file",
        "not found.",
        "New",
        "Tom",
        "saved!",
        "It is",
        "Änderung",
        "of",
        "a",
        "SAVE",
    ]
)
SPANS = st.sampled_from(["%s", "%1$d", "{0}", "{name}", "https://a.example/b", "[X25X]", "`code`"])
ESCAPED = st.sampled_from(["&", "<", ">", '"', "'", "<b>", "</b>", "&nbsp;", "a < b", "AT&T", "©"])


def elements(text: str, kind: str) -> Counter[object]:
    """Count the elements with their attributes in each paragraph, by html5lib or lxml."""
    if kind == "html":
        root = html5lib.parseFragment(text, treebuilder="lxml", namespaceHTMLElements=False)
        nodes = [node for node in root if not isinstance(node, str)]
    else:
        nodes = [etree.fromstring(f"<root>{text}</root>")]
    count: Counter[object] = Counter()
    for top in nodes:
        for node in top.iter():
            attributes = tuple(sorted((name, value) for name, value in node.items()))
            is_kept = node.tag == ("code" if kind == "html" else "x") or node.get("translate")
            content = node.text if is_kept or not isinstance(node.tag, str) else None
            inside = [node] if node.tag == "p" else node.iterancestors("p")
            paragraphs = [len(list(one.itersiblings("p", preceding=True))) for one in inside]
            count[tuple(paragraphs), str(node.tag), attributes, content] += 1
    return count


def markup(kind: str) -> st.SearchStrategy[str]:
    """Well-formed fragments; as Weblate escapes them, or with few escapes."""

    def quoted(text: str) -> str:
        return html.escape(text, quote=True)

    text = st.one_of(
        WORDS, WORDS, SPANS, ESCAPED.map(quoted), ESCAPED.map(lambda one: html.escape(one, False))
    )
    numbers = st.integers(0, 40)
    single = st.one_of(
        numbers.map(lambda number: f'<x id="{number}"></x>'),
        st.sampled_from(["<br/>", "<!-- note -->", '<img src="a.png"/>', "<code>a &lt; b</code>"]),
        st.just('<span translate="no">:cat:</span>' if kind == "html" else '<x id="n">a b</x>'),
    )
    inline = st.recursive(
        st.one_of(text, text, single),
        lambda inner: st.builds(
            lambda pair, parts: pair[0] + " ".join(parts) + pair[1],
            st.sampled_from([("<b>", "</b>"), ('<u class="a&amp;b">', "</u>"), ("<i>", "</i>")]),
            st.lists(inner, max_size=4),
        ),
        max_leaves=10,
    )
    sentence = st.lists(inline, min_size=1, max_size=6).map(" ".join)
    block = sentence.map(lambda inner: f"<p>{inner}</p>\n")
    return st.one_of(sentence, sentence, st.lists(block, min_size=1, max_size=3).map("".join))


def plain() -> st.SearchStrategy[str]:
    tags = st.sampled_from(["<b>", "</b>", "<br/>", "&amp;", "\n", "\r\n\r\n"])
    return st.lists(st.one_of(WORDS, WORDS, SPANS, tags), max_size=10).map(" ".join)


MODELS = [echo, str.upper, drop, lambda _: "", lambda text: "<script>alert(1)</script> " + text]


def check_fragment(text: str, kind: str, function, options: Options) -> None:
    answer = translate(text, kind, function, options)
    if kind == "text":
        spans = Counter(span.text for span in find_spans(text))
        assert Counter(span.text for span in find_spans(answer.text)) == spans
        assert re.findall(r"\r?\n", answer.text) == re.findall(r"\r?\n", text)
        return
    assert elements(answer.text, kind) == elements(text, kind)
    placeholders = re.findall(r'<x id="\w+"></x>', text)
    assert sorted(re.findall(r'<x id="\w+"></x>', answer.text)) == sorted(placeholders)
    if function is echo and not answer.flags:
        assert html.unescape(answer.text) == html.unescape(text)


@pytest.mark.parametrize("options", [WITH_TOKENS, WITHOUT_TOKENS])
def test_a_tag_around_two_sentences_keeps_its_space(options):
    for text in (
        "Open <b>not found. Open</b>",
        "Please open <b>the door. Now</b> go.",
        '<b><b>Not found.</b> <span translate="no">a b</span></b> Open',
    ):
        check_fragment(text, "html", echo, options)


@pytest.mark.parametrize("options", [WITH_TOKENS, WITHOUT_TOKENS])
@pytest.mark.parametrize(
    "text",
    [
        "Open <b>&lt;b&gt;</b> Open &lt;/b&gt;",
        "Open &lt;b&gt; <b>:cat:</b> <b>&lt;/b&gt;</b>",
        "Open &lt;b&gt; <b>Tom &lt;/b&gt; &lt;i&gt; and</b> &lt;/i&gt;",
    ],
)
def test_an_escaped_tag_is_no_partner_across_a_real_tag(text, options):
    for function in (echo, str.upper, *map(hostile, range(20))):
        check_fragment(text, "xml", function, options)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "html", "xml"])
def test_no_model_breaks_a_fragment(kind):
    """More than 2,000 fragments: 150 examples of 5 fragments, for each of the three kinds."""
    count = 0

    @settings(
        deadline=None, max_examples=150, suppress_health_check=list(HealthCheck), database=None
    )
    @given(
        st.lists(plain() if kind == "text" else markup(kind), min_size=5, max_size=5),
        st.sampled_from([*MODELS, None]),
        st.sampled_from([WITH_TOKENS, WITHOUT_TOKENS]),
        st.integers(0, 2**32),
    )
    def check(texts, function, options, seed):
        nonlocal count
        for text in texts:
            check_fragment(text, kind, function or hostile(seed), options)
        count += len(texts)

    check()
    assert count >= 700


def test_weblate_gets_its_placeholders_and_its_text_back():
    source = 'Use <b>bold</b> & %s for "Tom\'s" <x> {name}'
    masked = source.replace("%s", "\0").replace("{name}", "\1")
    sent = html.escape(masked).replace("\0", '<x id="20"></x>').replace("\1", '<x id="43"></x>')
    for options in (WITH_TOKENS, WITHOUT_TOKENS):
        for function in (str.upper, drop, *map(hostile, range(50))):
            answer = translate(sent, "xml", function, options).text
            assert answer.count('<x id="20"></x>') == answer.count('<x id="43"></x>') == 1
            unmasked = answer.replace('<x id="20"></x>', "%s").replace('<x id="43"></x>', "{name}")
            assert "<" not in unmasked
            for span in ("%s", "{name}", "<b>", "</b>", "<x>"):
                assert html.unescape(unmasked).count(span) == source.count(span)


def test_a_model_with_tokens_reads_placeholders_at_the_ends():
    fragment = read('<x id="0"></x> deleted by <x id="3"></x><br/>', "xml")
    for options, texts in (
        (WITH_TOKENS, ["\ue000 deleted by \ue001"]),
        (WITHOUT_TOKENS, ["deleted by"]),
    ):
        model = FunctionModel(echo)
        (result,) = DocumentTranslator(model, options).translate(fragment.units)
        assert model.texts == texts
        assert fragment.join([result.target]) == fragment.text
        assert result.flags == ()


def test_tags_are_around_the_right_words():
    words = {"the": "das", "red": "rote", "house": "Haus", "we": "wir", "see": "sehen"}

    def german(text: str) -> str:
        return " ".join(words.get(word, word) for word in text.split())

    answer = translate("we see <i>the <b>red</b> house</i>", "xml", german, WITHOUT_TOKENS)
    assert answer == Answer("wir sehen <i>das <b>rote</b> Haus</i>", ())


@pytest.mark.parametrize("kind", ["html", "xml", "text"])
@pytest.mark.parametrize(
    "piece",
    ["<", "<!--", "<![CDATA[", "<?", "<b>", "<x>", "</b>", "<b></b>", "&", "&amp;", "<a b=",
     "<a b='",
     "<p>", "\n\n", "\r\n ", "<b>a</b>", "a <x id='1'></x>", '"', "<code>", "<script>", "<svg>"],
)  # fmt: skip
def test_hostile_text_takes_linear_time(kind, piece):
    text = piece * (30_000 // len(piece)) + " a word"
    started = time.process_time()
    fragment = read(text, kind)
    fragment.join([Target(("x",)) for _ in fragment.units])
    assert time.process_time() - started < 3
