"""The finder of protected spans finds placeholders and marks, and leaves prose alone.

Real text bounds the false positives, hypothesis checks the order of the spans, and hostile texts
check that the time grows linearly.
"""

import gzip
import math
import re
import string
import time

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.text import spans as finder
from dragoman.text.spans import MAX_DEPTH, compile_patterns, find_spans
from support.sets import first_quick
from support.shared_data import shared_data


def spans_of(text):
    return [(span.kind, span.text) for span in find_spans(text)]


# In each text, the parts in ⟦ ⟧ are the spans.
MARKED = [
    ("printf", "⟦%s⟧ has ⟦%d⟧ files, ⟦%-5.2f⟧ of ⟦%ld⟧, 100⟦%%⟧, v⟦%s⟧⟦%s⟧ 3 ⟦%s⟧"),
    ("printf", "⟦%1$s⟧ and ⟦%2$05d⟧, ⟦%@⟧, ⟦%1$@⟧, ⟦%lu⟧, ⟦%zu⟧, ⟦%.1f⟧MB, ⟦%02d⟧:⟦%02d⟧, ⟦%*d⟧"),
    ("printf", "Hello ⟦%(name)s⟧, ⟦%(count)d⟧, ⟦%(size).2f⟧ MB, ⟦%<PRIu64>⟧ bytes, ⟦%s⟧Next"),
    (
        "printf",
        "⟦%1⟧ of ⟦%2⟧, ⟦%n⟧ file(s), ⟦%L1⟧, ⟦%1%⟧, in ⟦%PATH%⟧, ⟦%d⟧x⟦%d⟧, ⟦%d⟧px, ⟦%1⟧.",
    ),
    (
        "brace",
        "⟦{0}⟧ ⟦{}⟧ ⟦{name}⟧ ⟦{name!r:>10}⟧ ⟦{user.name[0]}⟧ ⟦{:d}⟧ ⟦{x:%Y-%m-%d}⟧ ⟦{0,10:F}⟧",
    ),
    (
        "brace",
        "⟦{{x.y}}⟧ ⟦{{ name }}⟧ ⟦{{{raw}}}⟧ ⟦{% if x %}⟧ ⟦${x}⟧ ⟦#{x}⟧ ⟦%{x}⟧ ⟦$(x)⟧ ⟦{ $n }⟧",
    ),
    ("message", "⟦{count, plural, one {# file} other {# files}}⟧ left, ⟦{0,number,#.##}⟧"),
    ("message", "⟦{n, plural, one {it's '{'one'}' {x}} other {{y}}}⟧, ⟦{{PLURAL:$1|file|files}}⟧"),
    ("variable", "Page ⟦$1⟧ of ⟦$2⟧ in ⟦$HOME⟧"),
    ("tag_open", '⟦<b>⟧bold, ⟦<a href="x" title="a > b">⟧here, ⟦<ns:x-y>⟧'),
    ("tag_close", "bold⟦</b>⟧, here⟦</a>⟧"),
    ("tag", 'new⟦<br>⟧line⟦<br/>⟧, ⟦<x id="12"></x>⟧, ⟦[X12X]⟧, ⟦<img src="x">⟧, ⟦<!-- no -->⟧'),
    ("entity", "⟦&brand;⟧ ⟦&amp;⟧ ⟦&#8211;⟧ ⟦&#xA0;⟧"),
    ("url", "See ⟦https://example.org/a_(b)?c=d&e#f⟧, (⟦www.example.org⟧). ⟦ftp://x.org/⟧!"),
    ("url", "⟦https://example.org/{lang}/%s⟧"),
    ("mail", "Write to ⟦me@example.org⟧. 请给⟦me@example.org⟧写信"),
    ("url", "⟦mailto:a.b+c@d-e.org?subject=x⟧, ⟦mailto:me@example.org⟧."),
    ("path", r"Open ⟦/usr/bin/x⟧, ⟦/etc⟧, ⟦~/x⟧, ⟦./a/b⟧, ⟦docs/a.rst⟧, ⟦C:\Users\x⟧ or ⟦*.txt⟧."),
    ("code", "Run ⟦`ls -l`⟧ or ⟦``a`b``⟧ with ⟦--dry-run⟧, ⟦os.walk()⟧, ⟦std::move()⟧, ⟦ls(1)⟧"),
    ("role", "See ⟦:ref:`x`⟧, ⟦:py:func:`a.b`⟧, ⟦|version|⟧, ⟦:ref:`⟧the text ⟦<target>`⟧"),
    ("link", "[text⟦](https://example.org/a)⟧ and ⟦![⟧alt⟦](x.png)⟧"),
    ("variable", "⟦$name⟧を開く、ファイル⟦$name⟧を、⟦$größe⟧ ist, ⟦$n⟧을"),
    ("printf", "⟦%1⟧を⟦%2⟧に、3 ⟦%s⟧を、ทั้งหมด⟦%d⟧ไฟล์"),
    ("path", r"ファイル⟦/usr/bin/x⟧を、⟦docs/a.rst⟧を、⟦*.txt⟧を、⟦C:\Users\x⟧を⟦/etc⟧로"),
    ("code", "コマンド⟦`ls -l`⟧を、オプション⟦--help⟧を、関数⟦os.walk()⟧を、⟦ls(1)⟧を、⟦``x``⟧를"),
    ("role", "参照⟦:ref:`x`⟧を、バージョン⟦|version|⟧を"),
    ("private", "a⟦\ue000⟧⟦\ue001⟧b⟦\uf8ff⟧"),
]


@pytest.mark.parametrize(("kind", "marked"), MARKED)
def test_spans_are_found(kind, marked):
    text = marked.replace("⟦", "").replace("⟧", "")
    expected = [part.split("⟧")[0] for part in marked.split("⟦")[1:]]
    assert spans_of(text) == [(kind, part) for part in expected]


@pytest.mark.parametrize(
    "text",
    [
        "100 % of it, 50% off, 5 % de, 100%ig, 20%-discount, 3 % o 4 %, 7\u202f% der",
        "a < b and c > d, x<3, 1 <= 2, <3, usage: copy <file name>",
        "and/or, he/she/they, 1/2, 24/7, km/h, and /kæt/ is said so",
        "{ alone, } too, {two words}, {note: this is prose}, {1, 2}, {a, b}, {",
        "{a, plural, one {x y}, never closed",
        "It costs $5 or $10, $1,000, US$1, $2.50, Ke$ha, $",
        "AT&T; Q&A, R&D: &File and _Edit",
        "don`t and won`t, `quoted' and `other' words, rock -- and roll, end--of, a-b",
        "me@home, @name, #tag, C#, :) :-), a: b, 10:30, file(s), (1), f(x), well ( )",
        "[1] [see](no target with spaces), a | b | c, |x|, {start|stop|restart}",
        "etc. and so on... www. is how it starts; http:// too",
    ],
)
def test_prose_is_not_a_span(text):
    assert spans_of(text) == []


@pytest.mark.parametrize("text", ["Page $2 of $3.", "It costs $2 or $4.", "$1 here, and $3 there"])
def test_numbered_variables_begin_with_one_and_have_no_gap(text):
    assert spans_of(text) == []


def test_tags_nest_or_stand_alone():
    kinds = [span.kind for span in find_spans("<b>Save</b><br/><hr><x id='1'/>")]
    assert kinds == ["tag_open", "tag_close", "tag", "tag", "tag"]


def test_a_message_that_is_nested_too_deeply_is_not_a_span():
    def nested(depth):
        return "{n, plural, other " * depth + "x" + "}" * depth

    assert spans_of(nested(MAX_DEPTH)) == [("message", nested(MAX_DEPTH))]
    # The outer levels are too deep, but the inner ones are a message.
    (inner,) = spans_of(nested(MAX_DEPTH + 3))
    assert inner == ("message", nested(MAX_DEPTH))


PIECES = st.sampled_from(
    [
        *["{a, plural, ", "{a", "{0}", "{{", "}}", "%s", "%1$s", "<b>", "</b>", "&amp;", ":ref:`"],
        *["](", "![", "[X1X]", "www.", "https://", "--a", "()", "(1)", "*.", "$1", "\ud83d"],
        *"%{}<>&@/\\$`|()',#\ue000\ue010abé漢1.:~-_\n",
    ]
)
ANY_TEXT = st.text() | st.lists(PIECES | st.text(max_size=2), max_size=30).map("".join)


@given(ANY_TEXT)
def test_spans_are_ordered_slices_of_the_text(text):
    check(text, find_spans(text))


def check(text, spans):
    assert all(span.text == text[span.start : span.end] != "" for span in spans)
    assert all(span.kind for span in spans)
    ends = [0, *(span.end for span in spans)]
    assert all(end <= span.start for end, span in zip(ends, spans, strict=False))
    tokens = {character for character in text if "\ue000" <= character <= "\uf8ff"}
    assert tokens <= set("".join(span.text for span in spans))


@given(ANY_TEXT)
def test_own_patterns_come_first(text):
    patterns = compile_patterns(["[ab]+", r"\$\d", "a*", "漢"])
    spans = find_spans(text, patterns)
    check(text, spans)
    assert not any(
        letter in text[end:start]
        for letter in "ab漢"
        for end, start in zip(
            [0, *(span.end for span in spans)],
            [*(span.start for span in spans), len(text)],
            strict=True,
        )
    )


def test_an_own_pattern_splits_the_text_around_it():
    patterns = compile_patterns([r"KEY-\d+"])
    spans = find_spans("%s: KEY-12 und KEY-3 ü KEY-4 {x}", patterns)
    assert [span.text for span in spans] == ["%s", "KEY-12", "KEY-3", "KEY-4", "{x}"]
    assert [span.kind for span in spans] == ["printf", "custom", "custom", "custom", "brace"]


@pytest.mark.parametrize("expression", ["(?=a)", r"(a)\1", "(?<!a)b", "(", "a{1,100000}", "\ud83d"])
def test_what_re2_does_not_support_is_refused(expression, capfd):
    with pytest.raises(DataError, match="the syntax of RE2"):
        compile_patterns(["fine", expression])
    assert capfd.readouterr() == ("", "")


HOSTILE = [
    "{", "%", "<a ", "<", "a.", "a@", "`", "`a", ":a:`", "/a", "[X", "](a", "{a, plural, ",
    "{a, plural, x{", "&a", "--a", "$1", "<a '", '<a "', "https://", "a::", "a/", "{{a:|", "``a ",
    "%a", "<`", "`a <", "\\", "{%", "${", "![a", "{a,plural,'{", "*.", "|aa", "<!--", "(1)", "www.",
    "`a`_", "a", "\ue000", "a:\\", "{a, plural, {} ", "%1", "%(a", ".a/", "a-", "-->", "&#1",
]  # fmt: skip


@pytest.mark.parametrize("unit", first_quick(HOSTILE, 3))
def test_the_time_grows_linearly(unit):
    def seconds(length):
        text = unit * (length // len(unit))
        began = time.process_time()
        find_spans(text)
        return time.process_time() - began

    # Quadratic time would be sixteen times longer for four times the text. A busy machine makes
    # some measurements longer, so the shortest of several count.
    short = long = math.inf
    for _ in range(6):
        short, long = min(short, seconds(5000)), min(long, seconds(20_000))
        if long < 9 * short + 0.01:
            return
    pytest.fail(f"{short:.3f} s for 5,000 characters, {long:.3f} s for 20,000")


def test_own_patterns_take_linear_time():
    patterns = compile_patterns(["(a|a)*b", "(a*)*c"])
    began = time.process_time()
    find_spans("a" * 20_000, patterns)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("corpus", "column"), [("multi30k/train.en.gz", 0), ("tatoeba/deu.txt.gz", 0)]
)
def test_prose_has_almost_no_spans(corpus, column):
    """Of these sentences of people, fewer than one in a thousand has a span."""
    with gzip.open(shared_data() / corpus, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t")[column] for line in file][::3]
    assert len(lines) > 9000
    # Both corpora contain a few real entities and addresses.
    with_spans = [line for line in lines if find_spans(line)]
    assert len(with_spans) / len(lines) < 0.001
    assert all("&amp;" in line or "www." in line for line in with_spans)


C_FORMAT = re.compile(
    r"%(?:\d+\$)?[-+#0']*(?:\*|\d+)?(?:\.(?:\*|\d+)?)?(?:hh|h|ll|l|L|q|j|z|t)?"
    r"(?:<PRI\w+>|[diouxXeEfFgGaAcspnm%])"
)


def placeholders(text, flags):
    """Return the placeholders of a message as gettext's flags define them, by other means."""
    if "python-brace-format" in flags:
        fields = string.Formatter().parse(text)
        return [f"{{{name}" for _, name, _, _ in fields if name is not None]
    if "python-format" in flags:
        return re.findall(r"%(?:\([^()]*\))?[-+#0]*\d*(?:\.\d+)?[diouxXeEfFgGcrsa%]", text)
    return C_FORMAT.findall(text) if "c-format" in flags else []


@pytest.mark.slow
def test_the_placeholders_of_real_messages_are_found():
    """The flags of PO files say which messages have placeholders, and of which kind."""
    expected = 0
    for path in sorted((shared_data() / "formats" / "po").glob("*.po")):
        for entry in polib.pofile(str(path)):
            for text in (entry.msgid, entry.msgid_plural, entry.msgstr):
                spans = [span.text for span in find_spans(text)]
                for placeholder in placeholders(text, entry.flags):
                    expected += 1
                    assert any(placeholder in span for span in spans), (text, placeholder)
    assert expected > 1000


@given(st.lists(st.sampled_from("wwW.x()[]*-18X% é\ue000\U000f0001\n"), max_size=12).map("".join))
def test_the_quick_check_agrees_with_the_pattern(text):
    assert finder._has_hint(text) == (finder._HINT.search(text) is not None)
