"""Archives of other programs: unusual names are read, and damage is explained."""

import struct
import zipfile

import pytest

from dragoman.errors import ArtifactError
from dragoman.workflow.exporting import import_model

NAME = "metadata.json"
METADATA = '{"type": "translate", "from_code": "en", "to_code": "de"}'


def write_archive(path, name=NAME):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, METADATA)
    return path


def refusal(path):
    with pytest.raises(ArtifactError) as caught:
        import_model(path, path.parent / "imported")
    return str(caught.value)


@pytest.mark.parametrize("name", [NAME, f"./{NAME}", f"package//{NAME}"])
def test_names_with_dots_and_double_slashes_are_found(tmp_path, name):
    message = refusal(write_archive(tmp_path / "a.argosmodel", name))
    assert "it lacks model/model.bin; it lacks sentencepiece.model" in message


def test_a_damaged_stream_is_explained(tmp_path):
    path = write_archive(tmp_path / "a.argosmodel")
    content = bytearray(path.read_bytes())
    content[30 + len(NAME)] = 0x07  # The first byte after the local header: no such block type.
    path.write_bytes(content)
    assert "Download it again" in refusal(path)


def test_an_encrypted_archive_is_explained(tmp_path):
    path = write_archive(tmp_path / "a.argosmodel")
    content = bytearray(path.read_bytes())
    for offset in (6, content.index(b"PK\x01\x02") + 8):  # The flags in both headers of the file.
        (flags,) = struct.unpack_from("<H", content, offset)
        struct.pack_into("<H", content, offset, flags | 1)
    path.write_bytes(content)
    assert "expected an Argos package" in refusal(path)


def test_an_old_vocabulary_that_is_not_utf_8_is_explained(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("model.bin", "sentencepiece.model"):
        (folder / name).write_bytes(b"")
    (folder / "shared_vocabulary.txt").write_bytes(b"caf\xe9\n")
    assert "shared_vocabulary.txt is not UTF-8" in refusal(folder)
