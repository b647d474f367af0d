"""Excel workbooks for the tests of all formats."""

from __future__ import annotations

from hypothesis import strategies as st

from support.office_files import make_zip, structure

SAMPLES: tuple[str, ...] = ()
INVALID: dict[str, str] = {}

_NAMESPACE = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_TEXT = st.sampled_from(
    ["word", " two words ", "é &amp; ü", "日本", "&lt;b&gt;", " ", "a\nb", "=A1"]
)
_SPACE = ' xml:space="preserve"'
_T = st.builds("<t{}>{}</t>".format, st.sampled_from(["", _SPACE]), _TEXT)
_RUN = st.builds(
    "<r>{}{}</r>".format,
    st.sampled_from(["", "<rPr><b/></rPr>", '<rPr><b/><sz val="11"/></rPr>', "<rPr/>"]),
    _T,
)
_STRING = st.one_of(
    _T,
    st.just(""),
    st.lists(_RUN, max_size=4).map("".join),
    _T.map(lambda text: f'{text}<rPh sb="0" eb="1"><t>x</t></rPh><phoneticPr fontId="1"/>'),
)


def document(strings: list[str], cell: str = "<t>inline</t>", table: str = "") -> bytes:
    """Make a workbook from shared strings, a text in a cell, and the header of a table."""
    items = "".join(f"<si>{string}</si>" for string in strings)
    members = {
        "xl/workbook.xml": f"<workbook {_NAMESPACE}/>",
        "xl/worksheets/sheet1.xml": f"<worksheet {_NAMESPACE}><sheetData><row><c><v>1</v></c>"
        f'<c t="inlineStr"><is>{cell}</is></c></row></sheetData></worksheet>',
        "xl/sharedStrings.xml": f"<sst {_NAMESPACE}>{items}</sst>",
    }
    if table:
        columns = f'<tableColumns><tableColumn id="1" name="{table}"/></tableColumns>'
        members["xl/tables/table1.xml"] = f"<table {_NAMESPACE}>{columns}</table>"
    return make_zip(members)


def documents() -> st.SearchStrategy[bytes]:
    """Make workbooks with plain and formatted strings."""
    return st.builds(document, st.lists(_STRING, max_size=5), _STRING)


def is_equal(before: bytes, after: bytes) -> bool:
    """Whether everything but the content of strings is equal."""
    ignored = {"r", "t", "rPr", "rPh", "phoneticPr"}
    return structure(before, "xl/", ignored) == structure(after, "xl/", ignored)
