"""A model with versions: what is added, what is current, and what a kill leaves."""

import getpass
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.adaptation.versions import VersionedModel, VersionRecord, is_versioned
from dragoman.artifact import read_artifact, resolve_model
from dragoman.errors import ArtifactError
from dragoman.storage.files import verify_hashes
from dragoman.storage.lock import lock_folder
from support.version_models import record_for, write_candidate, write_tiny, write_versions
from support.version_writer import act

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def candidates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("candidates")
    return [write_candidate(folder / str(seed), seed) for seed in range(1, 4)]


@pytest.fixture(scope="module")
def two_versions(tmp_path_factory):
    """A model with two versions, of which 2 is current. Tests copy it."""
    folder = tmp_path_factory.mktemp("two") / "adapted"
    write_versions(folder, accepted=2)
    return folder


@pytest.fixture
def model(two_versions, tmp_path):
    shutil.copytree(two_versions, tmp_path / "adapted", symlinks=True)
    return VersionedModel.open(tmp_path / "adapted")


def files(folder):
    """The files of a folder, and the targets of its links."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else ""
        for path in folder.rglob("*")
        if path.name != ".lock"
    }


def without_times(records):
    return [record.model_copy(update={"created": None}) for record in records]


# Versions.


def test_the_parent_is_version_1(candidates, tmp_path):
    model = VersionedModel.create(tmp_path / "adapted", candidates[0])
    (record,) = model.history
    assert (record.number, record.parent, record.method) == (1, None, "imported")
    assert (record.state, record.accepted_by) == ("accepted", "import")
    assert model.current == record
    assert model.next_number == 2
    assert os.readlink(tmp_path / "adapted/current") == "versions/1"
    assert resolve_model(model.folder) == model.folder_of(1) == tmp_path / "adapted/versions/1"
    assert read_artifact(model.folder).hashes == read_artifact(candidates[0]).hashes


def test_a_version_is_a_model_without_checkpoints_that_shares_only_the_weights(
    candidates, tmp_path
):
    candidate = shutil.copytree(candidates[1], tmp_path / "candidate")
    model = VersionedModel.create(tmp_path / "adapted", candidates[0])
    model.add(candidate, record_for(candidate, 2, 1))
    version = model.folder_of(2)
    kept = {path for path in files(candidate) if not path.startswith(("checkpoints", "."))}
    assert set(files(version)) == kept
    assert (version / "model.safetensors").samefile(candidate / "model.safetensors")
    with (candidate / "journal.jsonl").open("a") as journal:
        journal.write("a line that the version does not get\n")
    assert (version / "journal.jsonl").read_text() == "{}\n"
    shutil.rmtree(candidate)
    assert read_artifact(version).model_hash == model.current.model_sha256


def test_an_accepted_version_is_current_and_a_refused_one_is_kept_aside(model, candidates):
    refused = record_for(candidates[2], 3, 2, state="refused", accepted_by="")
    assert model.add(candidates[2], refused) == refused
    assert model.current.number == 2
    assert model.folder_of(3) == model.folder / "refused/3"
    assert (model.folder / "refused/3/report.html").is_file()
    assert model.next_number == 4
    model.add(candidates[2], record_for(candidates[2], 4, 2))
    assert model.current.number == 4
    opened = VersionedModel.open(model.folder)
    assert opened.history == model.history
    assert [record.number for record in opened.versions] == [1, 2, 3, 4]
    lines = (model.folder / "history.jsonl").read_text().splitlines()
    assert [VersionRecord.model_validate_json(line) for line in lines] == model.history
    assert json.loads(lines[1])["created"].endswith("Z")


def test_a_rollback_is_a_line_of_the_history_and_can_be_undone(model):
    record = model.rollback()
    assert (record.number, record.parent, record.method) == (1, 2, "rollback")
    assert record.accepted_by == f"user {getpass.getuser()}"
    assert record.model_sha256 == model.record(1).model_sha256
    assert model.current == model.record(1) == model.versions[0]
    assert resolve_model(model.folder) == model.folder_of(1)
    assert model.rollback(to=2).parent == 1
    assert model.current.number == 2
    assert [(line.number, line.method) for line in model.history[2:]] == [
        (1, "rollback"),
        (2, "rollback"),
    ]
    assert model.next_number == 3


def test_the_next_version_after_a_rollback_has_the_older_version_as_parent(model, candidates):
    model.rollback()
    model.add(candidates[2], record_for(candidates[2], 3, 1))
    assert [file.name for file in model.data_of(3)] == ["3.tmx"]
    assert [file.name for file in model.data_of(2)] == ["2.tmx"]
    assert model.rollback().number == 1


def test_version_1_has_the_scores_of_the_first_comparison(model):
    assert model.scores_of(1)["in_domain", "BLEU"] == 20.0
    assert model.scores_of(2)["in_domain", "BLEU"] == 25.0
    assert model.scores_of(2)["general", "chrF"] == 59.5


def test_a_version_of_a_model_with_versions_begins_another_one(model, tmp_path):
    other = VersionedModel.create(tmp_path / "other", model.folder)
    assert other.current.model_sha256 == model.current.model_sha256


# What is refused.


def test_a_model_with_versions_is_not_created_in_a_folder_with_other_content(
    candidates, model, tmp_path
):
    with pytest.raises(ArtifactError, match="already has versions"):
        VersionedModel.create(model.folder, candidates[0])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    with pytest.raises(ArtifactError, match=r"not empty: it has 'thesis.txt'"):
        VersionedModel.create(tmp_path / "full", candidates[0])
    with pytest.raises(ArtifactError, match="no folder"):
        VersionedModel.create(tmp_path / "new", tmp_path / "missing")
    assert not (tmp_path / "new").exists()


def test_a_candidate_must_fit_its_record_and_the_folder(model, candidates, tmp_path):
    before = files(model.folder)
    good = record_for(candidates[2], 3, 2)
    with pytest.raises(ArtifactError, match="is not the model of the record"):
        model.add(candidates[0], good)
    with pytest.raises(ArtifactError, match=r"next version of .* is 3, found .* version 4"):
        model.add(candidates[2], record_for(candidates[2], 4, 2))
    with pytest.raises(ArtifactError, match=r"from version 1 .* models rollback .* --to 1\n"):
        model.add(candidates[2], record_for(candidates[2], 3, 1))
    damaged = shutil.copytree(candidates[2], tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match="damaged"):
        model.add(damaged, good)
    assert files(model.folder) == before
    # The parent of a refused candidate need not be current: it changes nothing.
    model.add(candidates[2], record_for(candidates[2], 3, 1, state="refused", accepted_by=""))


def test_a_rollback_needs_an_intact_accepted_version(model, candidates):
    model.add(candidates[2], record_for(candidates[2], 3, 2, state="refused", accepted_by=""))
    with pytest.raises(ArtifactError, match=r"version 3 .* was refused.*refused/3"):
        model.rollback(to=3)
    with pytest.raises(ArtifactError, match="has no version 9; it has: 1, 2, 3"):
        model.rollback(to=9)
    with pytest.raises(ArtifactError, match="already the current one"):
        model.rollback(to=2)
    weights = model.folder_of(1) / "model.safetensors"
    weights.rename(weights.with_name("elsewhere"))
    with pytest.raises(ArtifactError, match=r"model\.safetensors is missing"):
        model.rollback()
    assert VersionedModel.open(model.folder).current.number == 2
    weights.with_name("elsewhere").rename(weights)
    model.rollback()
    with pytest.raises(ArtifactError, match="there is no older version"):
        model.rollback()


def test_only_one_process_writes(model):
    with lock_folder(model.folder), pytest.raises(ArtifactError, match=f"process {os.getpid()} is"):
        model.rollback()
    assert model.rollback().number == 1


def test_what_is_no_model_with_versions_is_named(model, candidates, tmp_path):
    assert is_versioned(model.folder)
    assert not is_versioned(candidates[0])
    for folder in (candidates[0], tmp_path / "missing"):
        with pytest.raises(ArtifactError, match="not a model with versions"):
            VersionedModel.open(folder)
    copy = shutil.copytree(model.folder, tmp_path / "copy")  # Without links, like cp -rL.
    with pytest.raises(ArtifactError, match="copy the folder with its links"):
        VersionedModel.open(copy)


@pytest.mark.parametrize(
    ("line", "message"),
    [("", "line 3: the line"), ('{"number": 3}', "line 3: method"), ("\udcff", "not UTF-8")],
)
def test_a_damaged_history_is_named(model, line, message):
    with (model.folder / "history.jsonl").open("ab") as history:
        history.write(line.encode(errors="surrogateescape") + b"\n")
    with pytest.raises(ArtifactError, match=message):
        VersionedModel.open(model.folder)


def test_a_link_that_a_person_changed_decides(model, candidates):
    link = model.folder / "current"
    link.unlink()
    link.symlink_to("versions/1")
    opened = VersionedModel.open(model.folder)
    assert opened.current.number == 1
    opened.add(candidates[2], record_for(candidates[2], 3, 1))
    assert [record.number for record in opened.versions] == [1, 2, 3]
    assert opened.folder_of(2).is_dir()
    link.unlink()
    link.symlink_to("versions/7")
    with pytest.raises(ArtifactError, match="has no version 7"):
        VersionedModel.open(model.folder)
    with pytest.raises(ArtifactError, match=r"'versions/7', which does not exist.*models list"):
        read_artifact(model.folder)
    link.unlink()
    link.symlink_to("somewhere")
    with pytest.raises(ArtifactError, match=r"'somewhere', expected versions/NUMBER.*ln -sfn"):
        VersionedModel.open(model.folder)


# Kills. These models have few and small files, so that there are few writes, and each test takes
# seconds.


@pytest.fixture
def tiny(tmp_path):
    """A model with two versions, of which 2 is current, and a candidate."""
    candidates = [write_tiny(tmp_path / f"candidate {n}", str(n)) for n in (1, 2, 3)]
    model = VersionedModel.create(tmp_path / "tiny", candidates[0])
    model.add(candidates[1], record_for(candidates[1], 2, 1))
    return model.folder, candidates[2]


def state(folder):
    """The history and the current version; None if the folder has no versions."""
    if not is_versioned(folder):
        return None
    model = VersionedModel.open(folder)
    assert resolve_model(folder) == model.folder_of(model.current.number)
    for record in model.versions:
        # `read_artifact` would also read the recipe, which takes most of the time of this test.
        version = model.folder_of(record.number)
        hashes = json.loads((version / "format.json").read_text())["sha256"]
        assert not list(verify_hashes(version, hashes))
        assert hashes["model.safetensors"] == record.model_sha256
    return without_times(model.history), model.current.number


@pytest.mark.slow
@pytest.mark.parametrize("action", ["create", "accept", "refuse", "rollback"])
def test_a_kill_at_any_write_leaves_the_old_state_or_the_new_one(
    action, tiny, tmp_path, monkeypatch
):
    # A kill loses nothing that was written; only a machine without power does.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    two_versions, candidate = tiny
    folder = tmp_path / "adapted"
    record = record_for(candidate, 3, 2)
    if action == "refuse":
        record = record.model_copy(update={"state": "refused", "accepted_by": ""})
    undisturbed = tmp_path / "undisturbed"
    if action != "create":
        shutil.copytree(two_versions, folder, symlinks=True)
        shutil.copytree(two_versions, undisturbed, symlinks=True)
    verb = {"accept": "add", "refuse": "add"}.get(action, action)
    arguments = (verb, candidate, record.model_dump_json())
    act(undisturbed, *arguments)
    before, after = state(folder), state(undisturbed)
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "support.version_writer"),
            *map(str, (folder, *arguments)),
        ],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"},
    )
    assert ended.returncode == 0, ended.stderr
    count = int(ended.stdout)
    assert count > (10 if action == "rollback" else 25)
    is_new = []
    for number in range(1, count + 1):
        copy = Path(f"{folder}.{number}")
        left = state(copy)
        assert left in (before, after), number
        is_new.append(left == after)
        if is_new[-1]:
            # What fails tidies up too.
            with pytest.raises(ArtifactError, match="no version 99"):
                VersionedModel.open(copy).rollback(to=99)
        else:
            # The same command again ends as if nothing had happened.
            act(copy, *arguments)
        assert state(copy) == after
        assert files(copy) == files(undisturbed), "nothing is left of the kill"
    assert is_new == sorted(is_new), "the new state never becomes the old one again"
    assert not is_new[0]
    assert is_new[-1]


@pytest.mark.slow
def test_a_reader_sees_a_consistent_state_while_another_process_writes(tiny):
    folder, _ = tiny
    code = (
        "import sys; from pathlib import Path\n"
        "from dragoman.adaptation.versions import VersionedModel\n"
        "model = VersionedModel.open(Path(sys.argv[1]))\n"
        "for number in range(100): model.rollback(to=1 + number % 2)\n"
    )
    seen = set()
    with subprocess.Popen([sys.executable, "-c", code, str(folder)]) as writer:
        while writer.poll() is None:
            opened = VersionedModel.open(folder)
            assert opened.current.number == opened.history[-1].number
            seen.add(len(opened.history))
    assert writer.returncode == 0
    assert len(VersionedModel.open(folder).history) == 102
    assert len(seen) > 10
