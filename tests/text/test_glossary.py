"""Terms are found word by word, and inflected translations count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.text.glossary import Glossary, has_term

GLOSSARY = Glossary(
    {"folder": "Ordner", "home folder": "Persönlicher Ordner", "TCP/IP": "TCP/IP", "read-only": "x"}
)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Open the folder.", ["folder"]),
        ("Open the HOME Folder, then the folder", ["HOME Folder", "folder"]),
        ("folders and subfolder", []),
        ("home. Folder", ["Folder"]),
        ("home  folder", ["home  folder"]),
        ("with TCP/IP, TCP IP", ["TCP/IP"]),
        ("read-only, read only", ["read-only"]),
        ("", []),
    ],
)
def test_terms_are_whole_words(text, terms):
    assert [text[use.start : use.end] for use in GLOSSARY.find(text)] == terms


def test_terms_are_found_in_scripts_without_spaces():
    glossary = Glossary({"文件夹": "folder", "文件": "file", "PDF文件": "PDF file"})
    text = "打开文件夹或文件和PDF文件。"
    assert [use.target for use in glossary.find(text)] == ["folder", "file", "PDF file"]


def test_a_capital_that_becomes_two_characters_in_lower_case_is_found():
    text = "Welcome to İstanbul"
    (use,) = Glossary({"İstanbul": "Istanbul"}).find(text)
    assert text[use.start : use.end] == "İstanbul"


@given(st.lists(st.sampled_from(["folder", "home", "Home", " ", ", ", "a", "\ue000"])).map("".join))
def test_terms_are_in_order_and_do_not_overlap(text):
    uses = GLOSSARY.find(text)
    ends = [0, *(use.end for use in uses)]
    assert all(end <= use.start < use.end for end, use in zip(ends, uses, strict=False))
    assert all(text[use.start : use.end].casefold().endswith("folder") for use in uses)


@pytest.mark.parametrize(
    ("text", "term", "is_there"),
    [
        ("Die Ordner öffnen", "Ordner", True),
        ("in den Ordnern", "Ordner", True),
        ("Unterordner", "Ordner", False),
        ("im persönlichen Ordner", "Persönlicher Ordner", True),
        ("des Baums, die Bäume", "Baum", True),
        ("Haus", "Baum", False),
        ("", "Baum", False),
        ("C++ lernen", "C++", True),
        ("このフォルダーを開く", "フォルダー", True),
        ("このファイルを開く", "フォルダー", False),
    ],
)
def test_inflected_translations_count(text, term, is_there):
    assert has_term(text, term) is is_there


def test_tsv_and_csv_are_read(tmp_path):
    (tmp_path / "a.tsv").write_bytes(
        b"\xef\xbb\xbf# comment\nfolder\tOrdner\textra\r\n\nfile\tDatei\n"
    )
    (tmp_path / "b.csv").write_text('"to, do",Aufgabe\nfile,Datei\n')
    assert Glossary.load(tmp_path / "a.tsv").terms == {"folder": "Ordner", "file": "Datei"}
    assert Glossary.load(tmp_path / "b.csv").terms == {"to, do": "Aufgabe", "file": "Datei"}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"folder\tOrdner\nfile\n", r"line 2: found 1 column\(s\), expected two"),
        (b"folder\t\n", "line 1: found an empty column"),
        (b"\xff\tx\n", "UTF-8"),
    ],
)
def test_mistakes_are_named(tmp_path, content, what):
    path = tmp_path / "a.tsv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=what):
        Glossary.load(path)
    with pytest.raises(DataError, match="no file"):
        Glossary.load(tmp_path / "none.tsv")


def test_a_quotation_mark_that_is_never_closed_is_reported(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('folder,"Ordner\n' + "file,Datei\n" * 20_000, encoding="utf-8")
    with pytest.raises(DataError, match="close every quotation mark"):
        Glossary.load(path)
