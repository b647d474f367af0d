"""Made XLIFF files of both generations."""

from __future__ import annotations

import re
from itertools import count

from hypothesis import strategies as st

from support.made_xml import SPACES, encoded, inline, shape, texts

SAMPLES = ("xliff-1.2/**/*.xlf", "xliff-1.2/**/*.xliff", "xliff-2/**/*.xlf", "tmx/**/*.xlf")
_REFUSED = {
    "DataIdNotUnique": "line 7: it contains <data> with the id 'd1twice', which is used before",
    "DifferentXmlSpace": 'line 7: it contains a <target> with xml:space="default", expected "pres',
    "DuplicateNoteIdsInUnit": "line 14: it contains <note> with the id 'n1', which is used before",
    "GroupWithoutId": "line 4: it contains <group> without an id",
    "InvalidCommentAnnotation4": 'line 10: it contains a comment <mrk> with ref="#g=g1/n=n1"',
    "InvalidExtensionAttributeOnSegment": "line 7: it contains the attribute my:badAttr of another",
    "InvalidExtensionElementInSegment": "line 7: it contains <my:badElem> of another namespace in",
    "InvalidFragIdDuplicatedPrefix": 'ref="#/u=f1/u=1/gls=g1" with u= twice, expected each prefix',
    "InvalidFragIdUnknownPrefix": "with the prefix 'my', expected one of ctr, d, f,",
    "InvalidIsolatedOnEc": "line 6: it contains an <ec> with startRef and isolated, expected id",
    "InvalidNotesInGroup": "line 10: it contains <notes> too late in <group>",
    "InvalidValidation": "line 6: it contains <val:validationBad> in the namespace of validation",
    "InvalidXmlLangOnUnit": "line 6: it contains a <source> in the language 'ja', expected 'en'",
    "MissingReorderFirstNo": 'line 6: it contains <ph> with canReorder="no" as the first of its',
    "NonIsolatedEcWithoutStartRef": "line 9: it contains an <ec> with id, expected startRef",
    "RefAndValueInComment": "line 6: it contains a comment <mrk> with both of value and ref",
    "SubStateWithoutState": "line 5: it contains a <segment> with subState and without state",
    "UnknownDataRefStartValue": 'line 10: it contains <pc> with dataRefStart="badId", expected the',
    "WrongTargetLang": "line 7: it contains a <target> in the language 'de', expected 'fr'",
}
INVALID = {
    "xliff-1.2/omegat/file-XLIFFFilter-invalid-content.xlf": "in line 7: not well-formed",
    **{f"xliff-2/oasis-invalid/bad_{name}.xlf": part for name, part in _REFUSED.items()},
}
OLD_SINGLES = (
    '<x id="1"/>',
    '<x id="2"></x>',
    '<bpt id="3">&lt;b></bpt>',
    '<ept id="3">&lt;/b></ept>',
    '<bx id="4" rid="r"/>',
    '<ex id="5" rid="r"/>',
    '<ph id="6">[<sub>alt</sub>]</ph>',
    '<it id="7" pos="open">x</it>',
    '<mrk mtype="protected">Café</mrk>',
)
OLD_PAIRS = (('<g id="8">', "</g>"), ('<mrk mtype="seg" mid="0">', "</mrk>"))
NEW_SINGLES = (
    '<ph id="@" dataRef="d1"/>',
    '<sc id="@" isolated="yes"/>',
    "<ec id='@' isolated='yes'/>",
    '<cp hex="001b"/>',
    '<sm id="@" type="comment" ref="#n=n1"/>',
    '<mrk id="@" translate="no">Café</mrk>',
)
NEW_PAIRS = (
    ('<pc id="@" dataRefStart="d1" dataRefEnd="d1">', "</pc>"),
    ('<mrk id="@" type="term" ref="#gls=g1">', "</mrk>"),
    ('<sc id="@s"/>', "<ec startRef='@'/>"),
    ('<sm id="@s" type="comment" value="v"/>', '<em startRef="@"/>'),
)


def numbered(segments: str) -> str:
    """Replace the `@` of ids by numbers, and those of references by the id of the start."""
    numbers = count(1)
    open_ids: list[str] = []

    def identifier(match: re.Match[str]) -> str:
        if match[1] == "startRef":
            return f"startRef={match[2]}{open_ids.pop()}"
        value = f"c{next(numbers)}"
        if match[3]:
            open_ids.append(value)
        return f"id={match[2]}{value}"

    return re.sub(r"(id|startRef)=([\"'])@(s?)", identifier, segments)


@st.composite
def old_unit(draw: st.DrawFn, number: int) -> str:
    content = inline(OLD_SINGLES, OLD_PAIRS)
    attributes = draw(
        st.sampled_from(["", ' approved="yes"', " translate='no'", ' approved="no" resname="r"'])
    )
    state = draw(
        st.sampled_from(["", ' state="new"', ' state="needs-review-l10n" state-qualifier="tm"'])
    )
    source = f"<source>{draw(content)}</source>{draw(SPACES)}"
    if draw(st.integers(0, 3)) == 0:
        source += f"<seg-source>{draw(content)}</seg-source>"
    target = draw(
        st.sampled_from(["", f"<target{state}/>", f"<target{state}>{draw(content)}</target>"])
    )
    rest = draw(
        st.sampled_from(
            ["", "<note>n</note>", "<alt-trans><source>a</source><target>b</target></alt-trans>"]
        )
    )
    return (
        f'<trans-unit id="{number}"{attributes}>{draw(SPACES)}{source}{target}{draw(SPACES)}{rest}'
        "</trans-unit>"
    )


@st.composite
def new_unit(draw: st.DrawFn, number: int) -> str:
    parts = []
    for index in range(draw(st.integers(1, 3))):
        content = inline(NEW_SINGLES, NEW_PAIRS)
        state = draw(
            st.sampled_from(["", ' state="initial"', ' state="final" subState="my:x"'])
            | st.just(" state='translated'")
        )
        target = draw(st.sampled_from(["", "<target/>", f"<target>{draw(content)}</target>"]))
        parts.append(
            f'<segment id="s{index}"{state}>{draw(SPACES)}<source>{draw(content)}</source>{target}'
            f"{draw(SPACES)}</segment>"
        )
        if draw(st.booleans()):
            parts.append(f"<ignorable><source>{draw(texts())}</source></ignorable>")
    segments = numbered("".join(parts))
    note = '<notes><note id="n1">n</note></notes>'
    extension = draw(st.sampled_from(["", '<my:x xmlns:my="y"><segment id="s0"/></my:x>']))
    data = '<originalData><data id="d1">[b]</data></originalData>'
    return f'<unit id="u{number}" name="n">{extension}{note}{data}{segments}</unit>{draw(SPACES)}'


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Files with states, segmented sources, inline codes, notes and suggestions."""
    size = draw(st.integers(0, 4))
    if draw(st.booleans()):
        units = "".join(draw(old_unit(number)) + draw(SPACES) for number in range(size))
        language = draw(st.sampled_from(["", ' target-language="de"']))
        body = (
            f'<file original="f" datatype="plaintext" source-language="en"{language}>{draw(SPACES)}'
            f"<header/><body>{draw(SPACES)}<group>{units}</group></body></file>"
        )
        namespace = 'xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2"'
    else:
        units = "".join(draw(new_unit(number)) for number in range(size))
        body = f'<file id="f">{draw(SPACES)}{units}</file>'
        language = draw(st.sampled_from(["", ' trgLang="de"']))
        namespace = (
            f'xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"{language}'
        )
    return draw(encoded(f"<xliff {namespace}>{body}</xliff>"))


def is_equal(before: bytes, after: bytes) -> bool:
    """Compare the trees without targets, states and the target language."""
    changing = {"state", "subState", "state-qualifier", "approved", "target-language", "trgLang"}

    def kept(data: bytes) -> list[object]:
        rows = []
        for row in shape(data, frozenset({"target"})):
            if isinstance(row, tuple) and isinstance(row[2], list):
                if str(row[1]).endswith("}target"):
                    continue
                rows.append((*row[:2], [pair for pair in row[2] if pair[0] not in changing]))
            else:
                rows.append(row)
        return [row for row in rows if row]

    return kept(before) == kept(after)
