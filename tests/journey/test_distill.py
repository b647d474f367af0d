"""A student from the command line: distilled, measured beside its teacher, the same after kills."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import dragoman
from dragoman.adaptation.distillation_report import DistillationReport
from dragoman.adaptation.versions import VersionedModel
from dragoman.corpus.report.model import Report
from dragoman.errors import ArtifactError, DataError, RecipeError
from dragoman.evaluation.metrics import measure
from dragoman.inference.translator import Translator
from dragoman.recipe.files import load_recipe
from dragoman.storage.files import sha256
from dragoman.tokenizer.folder import load_tokenizer
from support import distill_small
from support.distill_small import SETTINGS
from support.translator_models import write_run
from support.word_language import mixed_pairs, write_pairs

# Daft leaves pipes of its workers open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
SCRIPT = Path(distill_small.__file__).with_name("adapt_small.py")
FILES = ("--data", "more.qaa", "memory.tsv", "--test", "test.qaa", "test.qab")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return distill_small.write_project(tmp_path_factory.mktemp("distill"))


def run(project, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "dragoman", "distill", *arguments],
        capture_output=True,
        text=True,
        cwd=project,
        env=os.environ | {"COLUMNS": "80", "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def distilled(project):
    arguments = ("teacher/run", *FILES, "-o", "student", "--workers", "1", *SETTINGS)
    ended = run(project, *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended, arguments


@pytest.mark.slow
def test_the_student_learns_the_output_of_its_teacher(project, distilled):
    with Translator.load(project / "student" / "run") as student:
        # The teacher's words; the human side of memory.tsv has only WRONG.
        words = student.translate("aka term bet hul cin").text.split()
        assert {"AKA", "gterm", "BET", "HUL", "CIN"} == set(words)
        assert student.settings.search == "greedy"
    sources = (project / "student" / "sources.txt").read_text().splitlines()
    held_out = (project / "student" / "validation.source").read_text().splitlines()
    # 900 sentences, 100 of them in both files; each is translated once.
    everything = {source for source, _ in distill_small.sentences()}
    assert len(sources) + len(held_out) == len(everything)
    assert set(sources) | set(held_out) == everything
    assert len(held_out) == int(0.05 * len(everything))
    prepared = project / "student" / "prepared"
    report = Report.model_validate_json((prepared / "report.json").read_bytes())
    assert [corpus.synthetic is not None for corpus in report.corpora if corpus.split == "train"]
    target = load_tokenizer(project / "student" / "run" / "tokenizer" / "target")
    assert "WRONG" not in target.pieces(range(target.size))


@pytest.mark.slow
def test_the_table_compares_teacher_and_student(project, distilled):
    output = distilled[0].stdout
    table = output[output.index("test.qaa, 60 sentences") :]
    assert max(map(len, table.splitlines())) <= 80
    report = DistillationReport.model_validate_json(
        (project / "student" / "distillation.json").read_bytes()
    )
    rows = [(row.system, row.quantization, row.beam_size) for row in report.figures]
    assert rows == [
        (system, quantization, beam)
        for system in ("teacher", "student")
        for quantization in ("float32", "int8")
        for beam in (1, 5)
    ]
    sources = (project / "test.qaa").read_text().splitlines()
    references = (project / "test.qab").read_text().splitlines()
    for row in report.figures:
        assert row.cpu_seconds > 0
        assert row.passes == 5
        assert row.engine == "ctranslate2"
    # The figures are those of the models.
    for run_folder, row in ((project / "teacher" / "run", 0), (project / "student" / "run", 4)):
        with Translator.load(run_folder) as translator:
            outputs = [it.text for it in translator.translate(sources, search="greedy")]
        bleu, chrf, _ = measure(outputs, [references], resamples=0)
        assert (report.figures[row].bleu, report.figures[row].chrf) == (bleu.value, chrf.value)
    assert report.figures[4].bleu > 70
    sizes = {(row.system, row.quantization): row.megabytes for row in report.figures}
    assert sizes["student", "int8"] < sizes["student", "float32"]
    page = (project / "student" / "report.md").read_text()
    for row in report.figures:
        pattern = rf"{row.system} +{row.quantization} +{row.beam_size} +{row.bleu:.1f} "
        assert re.search(pattern, table), pattern
        assert f"| {row.system} | {row.quantization} | {row.beam_size} | {row.bleu:.1f} |" in page


def distill(project, **changes):
    """The command of `distilled`, as a function."""
    options = {
        "data": [project / "more.qaa", project / "memory.tsv"],
        "output": project / "student",
        "test": [project / "test.qaa", project / "test.qab"],
        "settings": SETTINGS,
        "workers": 1,
    } | changes
    return dragoman.distill(options.pop("teachers", project / "teacher" / "run"), **options)


@pytest.mark.slow
def test_the_same_command_again_does_nothing(project, distilled):
    before = (project / "student" / "distillation.json").stat().st_mtime_ns
    again = distill(project)
    assert again.was_finished
    assert (project / "student" / "distillation.json").stat().st_mtime_ns == before


@pytest.mark.slow
def test_other_text_for_the_same_student_is_refused(project, distilled):
    other = write_pairs(project / "other.tsv", mixed_pairs(30, 7))
    before = sha256(project / "student" / "sources.txt")
    for changes in ({"test": [other]}, {"data": [project / "more.qaa"]}):
        with pytest.raises(ArtifactError, match="other files"):
            distill(project, **changes)
    assert sha256(project / "student" / "sources.txt") == before


@pytest.mark.slow
def test_an_int8_teacher_and_human_validation_and_two_test_sets(project, distilled):
    """The teacher is an export; its float32 weights are not known."""
    dragoman.export(project / "teacher" / "run", output=project / "int8", quantization="int8")
    write_pairs(project / "validation.tsv", mixed_pairs(30, 8))
    write_pairs(project / "second.tsv", mixed_pairs(30, 9))
    result = distill(
        project,
        teachers=project / "int8",
        data=[project / "more.qaa"],
        output=project / "of-int8",
        test=[project / name for name in ("test.qaa", "test.qab", "second.tsv")],
        validation=[project / "validation.tsv"],
        beam_size=1,
        settings=[*SETTINGS, "training.steps=20", "training.validate_every=20"],
    )
    teachers = [row for row in result.report.figures if row.system == "teacher"]
    assert {row.quantization for row in teachers} == {"int8"}
    assert [test.name for test in result.report.tests] == ["test.qaa", "second.tsv"]
    assert not result.report.is_validated_by_teacher
    (described,) = (project / "of-int8" / "synthetic").glob("*/model.json")
    model = json.loads(described.read_text())
    assert (model["quantization"], model["engine"]) == ("int8", "ctranslate2")
    assert model["settings"] == ['decoding.search="greedy"']


@pytest.mark.slow
def test_an_ensemble_of_a_run_and_a_model_with_versions(project):
    """Only PyTorch translates with several models, and each is also measured alone."""
    VersionedModel.create(project / "versions", project / "teacher" / "run")
    result = distill(
        project,
        teachers=[project / "teacher" / "run", project / "versions"],
        data=[project / "more.qaa"],
        output=project / "of-two",
        settings=[*SETTINGS, "training.steps=20", "training.validate_every=20"],
    )
    figures = {(row.system, row.quantization): row for row in result.report.figures}
    assert [system for system, kind in figures if kind == "float32"] == [
        *("teacher 1", "teacher 2", "ensemble", "student")
    ]
    ensemble = figures["ensemble", "float32"]
    assert ensemble.engine == "pytorch"
    # Two equal models agree with each other.
    assert ensemble.bleu == pytest.approx(figures["teacher 1", "float32"].bleu, abs=2)
    assert load_recipe(project / "of-two" / "recipe.yaml").corpus.train[0].models == (
        *("../teacher/run", "../versions/versions/1"),
    )


def test_mistakes_are_found_before_anything_is_written(tmp_path):
    english = write_run(tmp_path / "en-de")
    write_run(tmp_path / "de-en", pair=("de", "en"))
    write_run(tmp_path / "en-de-2", seed=2)
    text = tmp_path / "text.en"
    text.write_text("One sentence that is long enough to be recognized as English.\n" * 30)
    german = tmp_path / "text.de"
    german.write_text("Ein Satz, der lang genug ist, um als deutscher Satz zu gelten.\n" * 30)
    (tmp_path / "short.de").write_text("Ein Satz.\n")
    pairs = [text, german]
    for teachers, changes, error, message in [
        ([english, tmp_path / "de-en"], {}, DataError, "de-en' translates de → en"),
        ([english], {"settings": ["languages.target=fr"]}, DataError, "expected en → fr"),
        ([english], {"settings": ["model.widht=64"]}, RecipeError, "did you mean 'width'"),
        ([tmp_path / "none"], {}, ArtifactError, "none"),
        ([english], {"test": []}, DataError, "no test set.*--test SOURCE TARGET"),
        ([english], {"test": [text]}, DataError, "the other side does not follow"),
        ([english], {"test": [text, tmp_path / "short.de"]}, DataError, "30 lines .* 1 line"),
        ([english], {"data": []}, DataError, "--data"),
        ([english], {"data": [german]}, DataError, "text.de' is in de, expected en"),
        ([english], {"data": [tmp_path / "x.en"]}, DataError, "x.en"),
        ([english], {"data": [text]}, DataError, "no source to translate"),
        (
            [english, tmp_path / "en-de-2"],
            {"quantization": "int8"},
            DataError,
            "an ensemble of teachers",
        ),
    ]:
        arguments = {"data": [text], "test": pairs, "output": tmp_path / "new"} | changes
        data = arguments.pop("data")
        with pytest.raises(error, match=message):
            dragoman.distill(teachers, data, **arguments)
    assert not [path for path in (tmp_path / "new").rglob("*") if path.suffix in (".txt", ".yaml")]


KILLS = (
    "sources.txt",
    "synthetic/*/*.arrow",
    "prepared/manifest.json",
    "run/checkpoints/step-00000100",
    "run/format.json",
    "exports/student-int8",
    "measurements.json",
)
"""A process is killed as soon as one of these exists, in this order."""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_kills_change_no_bit(project, distilled):
    """Killed at seven points; the whole run is that of the other tests."""
    killed = project / "killed"
    arguments = [argument if argument != "student" else "killed" for argument in distilled[1]]
    with subprocess.Popen(
        [sys.executable, SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=project,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) as server:

        def run_until(until=None):
            server.stdin.write(json.dumps(["distill", *arguments]) + "\n")
            server.stdin.flush()
            process = int(server.stdout.readline())
            end = time.monotonic() + 300
            while until and not list(killed.glob(until)) and time.monotonic() < end:
                if not Path(f"/proc/{process}").exists():
                    break
                time.sleep(0.002)
            if until:
                with suppress(ProcessLookupError):
                    os.killpg(process, signal.SIGKILL)
            return int(server.stdout.readline())

        hits = [run_until(path) == -signal.SIGKILL for path in KILLS]
        assert sum(hits) >= len(KILLS) - 2, (project / "log.txt").read_text()
        assert run_until() == 0, (project / "log.txt").read_text()
        server.kill()
    whole = project / "student"
    for name in (
        "run/model.safetensors",
        "sources.txt",
        "validation.target",
        "prepared/report.json",
    ):
        assert sha256(killed / name) == sha256(whole / name), name
    figures = [
        [(row.system, row.quantization, row.beam_size, row.bleu, row.chrf) for row in it.figures]
        for it in (
            DistillationReport.model_validate_json((folder / "distillation.json").read_bytes())
            for folder in (killed, whole)
        )
    ]
    assert figures[0] == figures[1]
