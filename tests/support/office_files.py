"""Zip files for the tests of office formats, and what LibreOffice reads in them."""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from lxml import etree

SAMPLES = Path(__file__).parents[1] / "formats" / "samples"


def make_zip(members: Mapping[str, str | bytes]) -> bytes:
    """Make a zip file with a fixed date."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, (2024, 2, 3, 4, 5, 6))
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def read_member(data: bytes, name: str) -> bytes:
    """Return the content of a member, as Python's own reader sees it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return archive.read(name)


def member_names(data: bytes) -> list[str]:
    """Return the names of the members in the order of the directory."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.namelist()


def structure(data: bytes, parts: str, ignored: set[str]) -> list[tuple[str, object]]:
    """Return the elements of the parts whose name contains `parts`, and all other members."""
    result: list[tuple[str, object]] = []
    for name in member_names(data):
        content = read_member(data, name)
        if parts not in name or not name.endswith(".xml"):
            result.append((name, content))
            continue
        for element in etree.fromstring(content).iter():
            local = etree.QName(element).localname if isinstance(element.tag, str) else "?"
            ancestors = {etree.QName(one).localname for one in element.iterancestors()}
            if local not in ignored and not ancestors & {"rPr"}:
                result.append((local, sorted(element.attrib.items())))
    return result


def libreoffice_text(data: bytes, folder: Path, suffix: str, output: str = "txt:Text") -> str:
    """Open a document with LibreOffice and return its text; skip the test where it is missing."""
    program = shutil.which("soffice")
    if program is None:
        pytest.skip("LibreOffice is not installed")
    source = folder / f"document{suffix}"
    source.write_bytes(data)
    subprocess.run(
        [
            *(program, "--headless", f"-env:UserInstallation=file://{folder}/profile"),
            *("--convert-to", output, "--outdir", str(folder), str(source)),
        ],
        capture_output=True,
        check=True,
        timeout=120,
    )
    result = folder / f"document.{output.partition(':')[0]}"
    return result.read_text("utf-8-sig", "replace") if result.suffix != ".pdf" else "pdf"
