"""The artifacts of every released version are still read, and translate as they did."""

import json

import pytest

import dragoman
from dragoman.data.store import Prepared
from dragoman.storage.files import sha256
from golden import write

VERSIONS = sorted(path for path in write.FOLDER.iterdir() if (path / write.EXPECTED).exists())
MAX_BYTES = 200_000


def expected(version):
    return json.loads((version / write.EXPECTED).read_text(encoding="utf-8"))


def test_this_version_has_artifacts():
    """Type `python tests/golden/write.py` before a release."""
    assert write.FOLDER / dragoman.__version__ in VERSIONS


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
@pytest.mark.parametrize(("folder", "engine"), [("run", "pytorch"), ("exported", "ctranslate2")])
def test_models_translate_as_they_did(version, folder, engine):
    """Exactly the same texts: weights are float32, and each text is translated alone."""
    record = expected(version)
    assert write.translate(version / folder, engine, record["source"]) == record[folder]
    assert "eins zwei drei" in record[folder], "the model must have learned something"


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_prepared_folders_are_read(version):
    folder = version / "prepared"
    manifest = Prepared.open(folder).manifest
    assert all(sha256(folder / shard.file) == shard.sha256 for shard in manifest.train)
    assert write.first_pair(folder) == expected(version)["first_pair"]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_artifacts_are_small_and_name_no_folder_of_their_machine(version):
    contents = [path.read_bytes() for path in version.rglob("*") if path.is_file()]
    assert sum(map(len, contents)) < MAX_BYTES
    assert not any(name in text for text in contents for name in (b"/tmp/", b"/home/", b"/root/"))


def test_artifacts_are_never_written_again():
    with pytest.raises(SystemExit, match=f"{dragoman.__version__} exists"):
        write.main()
