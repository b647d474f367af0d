"""Zip files that are not trusted: what is refused, and what is copied."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.formats.base import zip_members
from dragoman.formats.base.zip_members import ZipMembers
from support.office_files import make_zip, member_names, read_member

MEMBERS = {
    "mimetype": "x/y",
    "a.xml": "<a/>" * 100,
    "folder/": "",
    "folder/b.bin": bytes(range(256)),
}


def rewrite(data: bytes, changes: dict[str, bytes]) -> bytes:
    return b"".join(ZipMembers(data, "a.zip").rewritten(changes.get))


@given(st.dictionaries(st.sampled_from(sorted(MEMBERS)), st.binary(max_size=300)), st.booleans())
def test_replaced_members_change_and_others_are_copied(changes, has_comment):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.comment = b"a comment" if has_comment else b""
        for index, (name, content) in enumerate(MEMBERS.items()):
            info = zipfile.ZipInfo(name, (2020, 1, 2, 3, 4, 6))
            info.compress_type = zipfile.ZIP_DEFLATED if index % 2 else zipfile.ZIP_STORED
            info.external_attr = 0o640 << 16
            info.comment = b"of the member"
            archive.writestr(info, content)
    data = buffer.getvalue()
    written = rewrite(data, changes)
    assert rewrite(data, {}) == data
    assert member_names(written) == list(MEMBERS)
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(io.BytesIO(written)) as new:
        assert new.testzip() is None
        assert new.comment == old.comment
        for name in MEMBERS:
            assert new.read(name) == changes.get(name, old.read(name))
            one, other = old.getinfo(name), new.getinfo(name)
            for field in ("date_time", "external_attr", "comment", "compress_type"):
                assert getattr(one, field) == getattr(other, field)


def test_a_member_with_a_data_descriptor_is_replaced():
    class Stream(io.RawIOBase):
        """A file without `seek`: `zipfile` then writes the sizes after the data."""

        def __init__(self):
            self.data = b""

        def writable(self):
            return True

        def write(self, block):
            self.data += bytes(block)
            return len(block)

    stream = Stream()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"one")
        archive.writestr("b", b"two")
    written = rewrite(stream.data, {"a": b"three"})
    assert (read_member(written, "a"), read_member(written, "b")) == (b"three", b"two")
    assert rewrite(stream.data, {}) == stream.data


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b", "C:/a", "..\\a", "\\a"])
def test_names_outside_of_the_folder_are_refused(name):
    with pytest.raises(DataError, match=r"a\.zip has a member outside of its folder"):
        ZipMembers(make_zip({name: "x"}), "a.zip")


def test_names_that_occur_twice_are_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", "2")
    with pytest.raises(DataError, match="has the member 'a' twice"):
        ZipMembers(buffer.getvalue(), "a.zip")


def test_encryption_is_refused():
    data = bytearray(make_zip({"a": "text"}))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    with pytest.raises(DataError, match=r"encrypts 'a'\. Save it without a password"):
        ZipMembers(bytes(data), "a.zip")


def test_a_member_that_python_cannot_unpack_is_refused():
    data = bytearray(make_zip({"a": "text"}))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 0x20
    with pytest.raises(DataError, match=r"has a damaged member 'a' \(compressed patched data"):
        ZipMembers(bytes(data), "a.zip").read("a")


def test_bombs_are_refused_in_little_memory(monkeypatch):
    bomb = make_zip({"a.xml": b"\0" * 20_000_000})
    tracemalloc.start()
    with pytest.raises(DataError, match="more than 200-fold, as a zip bomb does"):
        ZipMembers(bomb, "a.zip")
    # The size in the directory is a lie: no more than it says is unpacked.
    lying = bytearray(bomb)
    struct.pack_into("<I", lying, lying.index(b"PK\x01\x02") + 24, 1000)
    with pytest.raises(DataError, match=r"has a damaged member 'a\.xml'"):
        ZipMembers(bytes(lying), "a.zip").read("a.xml")
    assert tracemalloc.get_traced_memory()[1] < 3_000_000
    tracemalloc.stop()
    monkeypatch.setattr(zip_members, "MAX_BYTES", 10)
    with pytest.raises(DataError, match="unpacks to 11 bytes, expected 10 at most"):
        ZipMembers(make_zip({"a": "x" * 11}), "a.zip")
    monkeypatch.setattr(zip_members, "MAX_MEMBERS", 1)
    with pytest.raises(DataError, match="has 2 members, expected 1 at most"):
        ZipMembers(make_zip({"a": "", "b": ""}), "a.zip")


def test_overlapping_members_are_refused():
    data = bytearray(make_zip({"a": "x" * 50, "b": "y" * 50}))
    second = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, second + 42, 0)
    with pytest.raises(DataError, match="damaged or overlapping member"):
        ZipMembers(bytes(data), "a.zip")


@given(st.lists(st.tuples(st.integers(0, 700), st.binary(max_size=4)), max_size=4))
def test_damaged_files_are_read_or_refused(damages):
    data = make_zip(MEMBERS)
    for position, inserted in damages:
        data = data[:position] + inserted + data[position + len(inserted) :]
    try:
        members = ZipMembers(data, "a.zip")
        for name in members.names:
            members.read(name)
        assert rewrite(data, {}) == data
        rewrite(data, dict.fromkeys(members.names, b"new"))
    except DataError as error:
        assert "a.zip" in str(error)
