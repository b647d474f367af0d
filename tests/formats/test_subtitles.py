"""SRT and WebVTT: cues, tags, the breaking of lines, and two independent readers."""

from __future__ import annotations

import html
import io
import re

import pysubs2
import pytest
import webvtt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.formats.base.columns import columns
from dragoman.formats.base.document import Code, Target, merged, plain_text
from dragoman.formats.srt import Srt
from dragoman.formats.webvtt import WebVtt
from formats.made import srt as made_srt
from formats.made import webvtt as made_webvtt
from support.document_checks import sources, translate, write_one
from support.shared_data import shared_data

SRT = """1
00:00:01,000 --> 00:00:02,000 X1:0
{\\an8}<i>Hello
there</i> <b>

00:00:03,000 --> 00:00:04,000
- Who?
- Me.
7
00:00:05,000 --> 00:00:06,000

"""
VTT = """WEBVTT - title

NOTE <i>a</i>

intro
00:01.000 --> 00:02.000 align:start
<v Fred Smith>A &lt; B &amp; C <00:01.500><c.red>now</c>

00:03.000 --> 00:04.000
すべて安全
完璧に安全だ
"""
LONG = "The quick brown fox jumps over the lazy dog and then it sleeps for a while."


def test_the_texts_of_cues_are_units():
    units = list(Srt(SRT.encode(), "x.srt").units())
    assert [(unit.key, unit.line) for unit in units] == [("1", 3), ("2", 7), ("7", 10)]
    assert [unit.source for unit in units] == [
        (
            Code(r"{\an8}"),
            *(Code("<i>", "open", 1), "Hello there", Code("</i>", "close", 1), " ", Code("<b>")),
        ),
        ("- Who? - Me.",),
        (),
    ]
    assert all(unit.collapses_space for unit in units)
    units = list(WebVtt(VTT.encode(), "x.vtt").units())
    assert [(unit.key, unit.line) for unit in units] == [("intro", 7), ("2", 10)]
    assert [unit.source for unit in units] == [
        (
            *(Code("<v Fred Smith>"), "A < B & C ", Code("<00:01.500>")),
            *(Code("<c.red>", "open", 1), "now", Code("</c>", "close", 1)),
        ),
        ("すべて安全完璧に安全だ",),
    ]
    long_reference = f"WEBVTT\n\n00:01.000 --> 00:02.000\na&#{'9' * 5000};b\n"
    assert sources(WebVtt, long_reference.encode()) == [("a\ufffdb",)]


def text_lines(data: bytes, first: int, last: int) -> list[str]:
    return data.decode().split("\n")[first - 1 : last]


def test_lines_are_balanced_and_no_longer_than_the_limit():
    assert text_lines(write_one(Srt, SRT.encode(), (LONG,)), 3, 6) == [
        *("The quick brown fox jumps", "over the lazy dog and then", "it sleeps for a while.", ""),
    ]
    written = write_one(Srt, SRT.encode(), ("- Who are you? - I am - nobody.",), 1)
    assert text_lines(written, 7, 10) == ["- Who are you?", "- I am", "- nobody.", "7"]
    japanese = write_one(WebVtt, VTT.encode(), ("左に見えるのは安全、" * 4,), 1)
    lines = text_lines(japanese, 10, 12)
    assert "".join(lines) == "左に見えるのは安全、" * 4
    assert not any(line.startswith("、") for line in lines)
    tags = (Code("<i>", "open", 1), LONG, Code("</i>", "close", 1))
    written = write_one(Srt, SRT.encode(), tags)
    assert sources(Srt, written)[0] == tags
    # A file whose long cues are never broken.
    descriptions = f"WEBVTT\n\n00:01.000 --> 00:02.000\n{LONG}\n"
    written = write_one(WebVtt, descriptions.encode(), (LONG.upper(),))
    assert written.decode() == descriptions.replace(LONG, LONG.upper())


@pytest.mark.parametrize("cls", [Srt, WebVtt])
def test_lines_of_the_samples_are_within_the_limit(cls):
    samples = shared_data() / "formats" / ("srt" if cls is Srt else "vtt")
    for path in sorted(samples.rglob("*.*")):
        if path.name in ("gb2312.srt", "descriptions.en.vtt"):
            continue
        written = translate(cls, path.read_bytes(), lambda text: f"{text} {text} {text}")
        texts = [
            line
            for line in re.split(r"\r+\n|\n", written.decode("utf-8-sig"))
            if "-->" not in line and not line.startswith("NOTE")
        ]
        assert max(map(columns, texts)) <= 42, path


@pytest.mark.parametrize("text", ["<i>", "</b> {\\an8} -->", "<\u2060i>", "--\u2060>", "1", "< {"])
def test_text_that_looks_like_markup_survives(text):
    for cls, data in ((Srt, SRT), (WebVtt, VTT)):
        assert sources(cls, write_one(cls, data.encode(), (text,)))[0] == (text,)
    timing = "00:00:09,000 --> 00:00:10,000"
    written = write_one(Srt, SRT.encode(), (f"a\n\n2\r\n{timing}\n\nb",))
    assert sources(Srt, written)[0] == (f"a  2 {timing}  b",)
    assert written.count(b"-->") == SRT.count("-->")


def test_a_text_is_added_to_an_empty_cue():
    written = write_one(Srt, SRT.encode(), ("x",), 2)
    assert written.endswith(b"7\n00:00:05,000 --> 00:00:06,000\nx\n\n")
    assert write_one(Srt, b"1\r\n00:00:05,000 --> 00:00:06,000", ("x",)).endswith(b"06,000\nx")
    written = write_one(Srt, SRT.encode(), (), 1)
    assert sources(Srt, written)[1] == ()
    assert len(sources(Srt, written)) == 3


@pytest.mark.parametrize(
    ("cls", "content", "message"),
    [
        (Srt, "1\n00:00:01,000 --> 00:00:02,000\na\n\nb\n", "line 5: found 'b', expected a cue"),
        (Srt, "1\n2\n00:00:01,000 --> 00:00:02,000\na\n", "line 1: found '1', expected a cue"),
        (Srt, "WEBVTT\n", "line 1: found 'WEBVTT'"),
        (WebVtt, "WEBVT\n", "line 1: found 'WEBVT', expected WEBVTT"),
        (WebVtt, "", "line 1: found '', expected WEBVTT"),
        (WebVtt, "WEBVTT\n\n1 --> 2\n", "line 3: found '1 --> 2', expected a timing"),
    ],
)
def test_invalid_files_are_refused_with_the_line(cls, content, message):
    with pytest.raises(DataError) as error:
        list(cls(content.encode(), "x y").units())
    assert message in str(error.value)
    assert "'x y'" in str(error.value)


def test_other_encodings_are_refused_and_byte_order_marks_accepted():
    path = shared_data() / "formats/srt/gb2312.srt"
    with pytest.raises(DataError, match=r"gb2312\.srt is not UTF-8 in line 3.*\nType: iconv -f"):
        list(Srt(path.read_bytes(), str(path)).units())
    data = SRT.encode("utf-16")
    assert sources(Srt, data)[1] == ("- Who? - Me.",)
    assert write_one(Srt, data, ("ü",), 1) == SRT.replace("- Who?\n- Me.", "ü").encode("utf-16")
    with pytest.raises(DataError, match="NUL character in line 1"):
        list(Srt(SRT.encode("utf-16-le"), "x.srt").units())


def shown(text: str) -> str:
    return " ".join(text.split())


def test_pysubs2_and_webvtt_read_what_is_written():
    count = 0
    for path in sorted(shared_data().joinpath("formats").glob("srt/*.srt")):
        if path.name == "gb2312.srt":
            continue
        data = path.read_bytes()
        units = list(Srt(data, str(path)).units())
        written = translate(Srt, data, lambda text: f"ü {text.upper()}")
        before, after = (
            pysubs2.SSAFile.from_string(content.decode("utf-8-sig"), format_="srt")
            for content in (data, written)
        )
        assert [(cue.start, cue.end) for cue in before] == [(cue.start, cue.end) for cue in after]
        assert [shown(cue.plaintext) for cue in after] == [
            shown(f"ü {plain_text(unit.source).upper()}") for unit in units
        ]
        count += len(units)
    for path in sorted(shared_data().joinpath("formats").glob("vtt/*.vtt")):
        data = path.read_bytes()
        units = list(WebVtt(data, str(path)).units())
        written = translate(WebVtt, data, lambda text: f"ü {text.upper()}")
        before, after = (
            webvtt.from_buffer(io.StringIO(content.decode("utf-8-sig")))
            for content in (data, written)
        )
        assert [(cue.start, cue.end) for cue in before] == [(cue.start, cue.end) for cue in after]
        # The package does not decode character references.
        texts = [html.unescape(cue.text.replace("\n", "").replace(" ", "")) for cue in after]
        assert texts == [f"ü {plain_text(unit.source).upper()}".replace(" ", "") for unit in units]
        count += len(units)
    assert count > 300


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "made"), [(Srt, made_srt), (WebVtt, made_webvtt)])
def test_timing_and_other_blocks_do_not_change(cls, made):
    words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs"]), min_size=1)

    @settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
    @given(made.documents(), st.lists(words, min_size=1).map(" ".join), st.sampled_from(["  ", ""]))
    def run(data, text, space):
        units = list(cls(data, "x").units())
        content = merged([space + text + space, Code("<i>"), text])
        written = b"".join(cls(data, "x").write([Target(content)] * len(units)))
        assert [unit.source for unit in cls(written, "x").units()] == [content] * len(units)
        assert made.is_equal(data, written)

    run()
