"""`dragoman models` from the command line, and a model with versions wherever a run is expected."""

import re
import shutil

import pytest
from typer.testing import CliRunner

from dragoman.adaptation.versions import VersionedModel
from dragoman.cli.app import app
from dragoman.corpus.stages.tokenizer import find_tokenizers
from dragoman.errors import ArtifactError, DataError
from dragoman.inference.translator import Translator
from dragoman.recipe.schema import TokenizerRecipe
from dragoman.workflow.exporting import export
from dragoman.workflow.models import list_versions
from support.translator_models import lines
from support.version_models import write_versions


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Versions 1 and 2, a refused candidate 3, and a text. Version 2 is current."""
    folder = tmp_path_factory.mktemp("models")
    model = write_versions(folder / "adapted", accepted=2, refused=1)
    for number in (1, 2):
        export(model.folder_of(number))  # So that each translation need not export the model.
    (folder / "in.txt").write_text("\n".join(lines(8)) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shutil.copytree(made, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines()), default=0) <= 80, result.stdout
    return result.stdout


def test_the_list_shows_every_version_and_marks_the_current_one(folder):
    shown = run("models", "list", "adapted")
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d"
    for row in (
        rf"  1  accepted  {time}  imported +–  +20\.0  +40\.0  +\d+ kB",
        rf"\* 2  accepted  {time}  full  +1  +25\.0  +39\.5  +\d+ kB",
        rf"  3  refused   {time}  full  +2  +30\.0  +39\.0  +\d+ kB",
    ):
        assert re.search(f"^{row} *$", shown, re.MULTILINE), shown
    assert "rolled back" not in shown
    run("models", "rollback", "adapted")
    shown = run("models", "list", "adapted")
    assert "\n* 1  accepted" in shown
    assert re.search(rf"{time}: rolled back from 2 to 1 by user \w+", shown)


def test_a_version_whose_folder_was_removed_stays_in_the_list(folder):
    shutil.rmtree("adapted/versions/1")
    assert [version.size is None for version in list_versions("adapted").versions] == [
        True,
        False,
        False,
    ]
    assert re.search(r"1  accepted .* removed", run("models", "list", "adapted"))


def test_a_comparison_shows_scores_data_and_settings(folder):
    shown = run("models", "diff", "adapted", "1", "2")
    assert re.search(r"in-domain  BLEU +20\.0 +25\.0 +\+5\.0", shown)
    assert re.search(r"general    chrF +60\.0 +59\.5 +-0\.5", shown)
    assert re.search(r"learned only by version 2 .*\n.*\n2\.tmx +200  0{12}", shown)
    assert "learned only by version 1" not in shown
    assert re.search(r"^seed +1 +2 *$", shown, re.MULTILINE)
    assert "model.width" not in shown
    assert "Lines that differ" not in shown
    same = run("models", "diff", "adapted", "3", "3")
    assert "learned the same data" in same
    assert "have the same settings" in same
    # Backwards, and with a refused candidate.
    backwards = run("models", "diff", "adapted", "3", "2")
    assert re.search(r"learned only by version 3 .*\n.*\n3\.tmx", backwards)


@pytest.mark.slow
def test_a_comparison_shows_the_lines_that_are_translated_differently(folder):
    sources = lines(8)
    outputs = []
    for number in (1, 2):
        with Translator.load(f"adapted/versions/{number}") as translator:
            outputs.append([translation.text for translation in translator.translate(sources)])
    expected = [
        number
        for number, (one, other) in enumerate(zip(*outputs, strict=True), start=1)
        if one != other
    ]
    shown = run("models", "diff", "adapted", "1", "2", "--text", "in.txt")
    assert f"Lines that differ: {len(expected)} of 8" in shown
    assert [int(number) for number in re.findall(r"line (\d+)", shown)] == expected
    assert sources[expected[0] - 1] in shown
    same = run("models", "diff", "adapted", "2", "2", "--text", "in.txt")
    assert "Lines that differ: 0 of 8" in same


def test_what_cannot_be_compared_is_named(folder):
    for arguments, error, message in (
        (("1", "7"), ArtifactError, "has no version 7; it has: 1, 2, 3"),
        (("1", "2", "--text", "missing.txt"), DataError, r"no file 'missing\.txt'"),
        (("1", "2", "--text", "page.html"), DataError, "is a document"),
    ):
        (folder / "page.html").touch()
        with pytest.raises(error, match=message):
            run("models", "diff", "adapted", *arguments)


def test_a_rollback_says_how_to_undo_it(folder):
    (folder / "adapted").rename(folder / "x$(touch y)")
    shown = run("models", "rollback", "x$(touch y)", "--to", "1")
    assert shown.splitlines() == [
        "The current version is 1 now; it was 2.",
        "To undo this, type: dragoman models rollback 'x$(touch y)' --to 2",
    ]
    run("models", "rollback", "x$(touch y)", "--to", "2")


@pytest.mark.slow
def test_a_model_with_versions_is_accepted_where_a_run_is(folder):
    model = VersionedModel.open(folder / "adapted")

    def translation(run_folder):
        return run("translate", str(run_folder), "--text", "Seven nine one and two.")

    assert translation("adapted") == translation("adapted/versions/2")
    run("models", "rollback", "adapted")
    assert translation("adapted") == translation("adapted/versions/1")
    assert translation("adapted") != translation("adapted/versions/2")
    assert "Wrote adapted/versions/1/ctranslate2" in run("export", "adapted")
    (folder / "reference.txt").write_text("\n".join(lines(8, seed=2)) + "\n", encoding="utf-8")
    texts = ("--source", "in.txt", "--reference", "reference.txt")
    assert "adapted" in run("evaluate", "adapted", "adapted/versions/2", *texts)
    run("explain", "adapted", "Seven nine.", "-o", "page.html")
    settings = TokenizerRecipe(init_from="adapted", shared=True)
    source, _ = find_tokenizers(settings, folder, folder / "prepared")
    assert source.is_relative_to(model.folder_of(1))
