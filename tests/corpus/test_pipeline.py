"""Preparation loses no row, writes the same bytes everywhere, and continues after a kill."""

import contextlib
import glob
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dragoman.corpus import demo, leakage, pipeline, runner, table
from dragoman.corpus.augmentation import AugmentationSettings, augment
from dragoman.corpus.counts import NoCounts
from dragoman.corpus.filter import Pair
from dragoman.corpus.report.advice import advice
from dragoman.corpus.report.model import Report
from dragoman.corpus.results import SplitResult
from dragoman.corpus.stages.clean import key_of
from dragoman.corpus.stages.publish import SIDES, publish
from dragoman.corpus.stages.split import SplitSettings
from dragoman.data.manifest import ManifestHeader
from dragoman.data.sampler import Sampler, StreamPosition
from dragoman.data.store import Prepared
from dragoman.errors import ArtifactError, DataError, RecipeError
from dragoman.recipe.files import load_recipe
from dragoman.storage.files import atomic_folder, sha256
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import TERM_TOKENS, annotated_term
from dragoman.workflow import preparation
from support.shared_data import shared_data
from support.small_corpus import published, write_corpus

# Daft leaves the pipes of its processes to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SCRIPT = Path(__file__).parents[1] / "support" / "prepare_small.py"


@pytest.fixture
def small_tasks(monkeypatch):
    """Cut the corpus into many small tasks, although it would fit into one."""
    monkeypatch.setattr(pipeline, "CHUNK_ROWS", (300, 300))
    monkeypatch.setattr(pipeline, "BUCKET_ROWS", 500)


def prepare(recipe, *settings, workers=1):
    return preparation.prepare(recipe, settings, workers=workers).folder


def report_of(folder):
    return Report.model_validate_json((folder / "report.json").read_text(encoding="utf-8"))


def texts_of(folder):
    """Decode all training pairs of a prepared folder."""
    tokenizers = [load_tokenizer(folder / "tokenizer" / side) for side in ("source", "target")]
    pairs = []
    prepared = Prepared.open(folder)
    for shard in prepared.read_shards(range(len(prepared.manifest.train))):
        sides = ([shard.source(n).tolist() for n in range(len(shard))],
                 [shard.target(n).tolist() for n in range(len(shard))])  # fmt: skip
        texts = [tokenizer.decode(ids) for tokenizer, ids in zip(tokenizers, sides, strict=True)]
        pairs += zip(*texts, strict=True)
    return pairs


@pytest.mark.slow
def test_rows_in_are_rows_kept_or_dropped_with_a_reason(tmp_path, small_tasks):
    folder = prepare(write_corpus(tmp_path))
    report = report_of(folder)
    lines = {
        "part-0.en + part-0.de": (tmp_path / "part-0.en").read_text().count("\n"),
        "part-1.en + part-1.de": (tmp_path / "part-1.en").read_text().count("\n"),
        "extra.tsv": (tmp_path / "extra.tsv").read_bytes().count(b"\n"),
    }
    assert {corpus.name: corpus.rows for corpus in report.corpora} == lines
    for corpus in report.corpora:
        assert corpus.rows == corpus.kept + sum(corpus.dropped.values())
    reasons = {reason for corpus in report.corpora for reason in corpus.dropped}
    assert {"exact duplicate", "near duplicate", "empty", "target is a copy"} <= reasons
    assert {"unreadable: not UTF-8", "unreadable: too few columns"} <= reasons
    splits = report.splits
    kept = sum(corpus.kept for corpus in report.corpora)
    assert kept == splits.train + splits.validation + splits.test
    assert splits.train == sum(Prepared.open(folder).rows) + report.vocabulary.too_long


def test_the_result_equals_that_of_a_plain_loop(tmp_path, small_tasks):
    """The definition of preparation: one loop over all rows, and a set of the pairs kept."""
    folder = prepare(write_corpus(tmp_path), "corpus.duplicates=exact")
    recipe = load_recipe(tmp_path / "recipe.yaml")
    from dragoman.corpus.filter import Filter
    from dragoman.recipe.parts import choose

    filters = [
        choose("corpus.filters", choice, "", Filter)("en", "de") for choice in recipe.corpus.filters
    ]
    rows = []
    for number in range(2):
        sides = [
            (tmp_path / f"part-{number}.{language}").read_text().split("\n")[:-1]
            for language in ("en", "de")
        ]
        rows += zip(*sides, strict=True)
    rows += [
        line.split("\t")
        for line in (tmp_path / "extra.tsv").read_bytes().decode(errors="replace").split("\n")
        if line.count("\t") == 1 and "\ufffd" not in line
    ]
    kept = set()
    for row in rows:
        pair = Pair(*row)
        for filter_ in filters:
            pair = filter_.apply(pair)
            if isinstance(pair, str):
                break
        else:
            kept.add(tuple(pair))
    held_out = set()
    for split in ("validation", "test"):
        columns = [
            (folder / f"{split}.{side}").read_text().split("\n")[:-1]
            for side in ("source", "target")
        ]
        held_out |= set(zip(*columns, strict=True))
    trained = texts_of(folder)
    assert len(trained) == len(set(trained))
    # Span tokens are put into training pairs only.
    shares = {"span_share": 0.5, "synthetic_share": 0.05, "term_share": 0.5}
    settings = AugmentationSettings(**shares, seed=1)
    augmented = {tuple(augment(Pair(*pair), settings)) for pair in kept - held_out}
    assert set(trained) == augmented
    assert not augmented <= kept
    assert held_out <= kept
    assert report_of(folder).vocabulary.augmented == len(augmented - kept)


@pytest.mark.slow
def test_all_translations_of_a_sentence_are_in_one_split(tmp_path, small_tasks):
    recipe = write_corpus(tmp_path)
    with (tmp_path / "extra.tsv").open("a", encoding="utf-8") as file:
        for number in range(300):
            for variant in "abcd":
                file.write(
                    f"Sentence number {number} is here.\tSatz {variant} Nummer {number} steht.\n"
                )
    settings = ("corpus.held_out=300", "corpus.duplicates=exact", "corpus.synthetic_spans=0")
    folder = prepare(recipe, *settings)
    splits = [
        set((folder / f"{split}.source").read_text().split("\n")) - {""}
        for split in ("validation", "test")
    ]
    splits.append({source for source, _ in texts_of(folder)})
    assert all(len(split) > 20 for split in splits)
    for one, other in combinations(splits, 2):
        assert not one & other


@pytest.mark.slow
def test_pairs_of_the_test_set_are_removed_from_training(tmp_path, small_tasks):
    recipe = write_corpus(tmp_path)
    pairs = [(item.source, item.target) for item in demo.items(1, 1500, "train")][:80]
    rows = "".join(f"{source.upper()}\t{target.lower()}\n" for source, target in pairs)
    (tmp_path / "test.tsv").write_text(rows, encoding="utf-8")
    folder = prepare(recipe, "corpus.test=[{files: [test.tsv]}]", "corpus.synthetic_spans=0")
    trained = {source.casefold() for source, _ in texts_of(folder)}
    long_enough = [source.casefold() for source, _ in pairs if len(source) > 12]
    assert len(long_enough) > 30
    assert not trained & set(long_enough)
    report = report_of(folder)
    assert sum(corpus.dropped.get("in a test set", 0) for corpus in report.corpora) > 30


@pytest.mark.slow
def test_a_rerun_does_nothing_and_a_change_repeats_only_dependent_stages(tmp_path, small_tasks):
    recipe = write_corpus(tmp_path, count=400)
    folder = prepare(recipe)

    def state():
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}

    def new_stages(*settings):
        before = {path.name for path in (folder / "work").iterdir()}
        prepare(recipe, *settings)
        return {
            path.name.rpartition("-")[0]
            for path in (folder / "work").iterdir()
            if path.name not in before
        }

    before = state()
    prepare(recipe)
    assert state() == before
    assert new_stages("tokenizer.vocabulary_size=350") == {"tokenizer", "encode"}
    assert new_stages("corpus.max_tokens=20") == {"encode"}
    assert new_stages("corpus.span_augmentation=0.2") == {"encode"}
    assert new_stages("corpus.synthetic_spans=0.1") == {"encode"}
    assert new_stages("seed=3") == {"split", "tokenizer", "encode"}
    assert new_stages("corpus.filters=[unicode]") == {
        "clean", "exact", "sign", "near", "split", "tokenizer", "encode",
    }  # fmt: skip
    assert new_stages("model.width=64") == set()
    with (tmp_path / "extra.tsv").open("a", encoding="utf-8") as file:
        file.write("a new line\teine neue Zeile\n")
    assert "read" in new_stages()


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_environment(tmp_path, small_tasks, monkeypatch):
    """Other order of files, two workers instead of one, and another hash seed, zone and locale."""
    expected = published(prepare(write_corpus(tmp_path / "one")))
    real_glob = glob.glob
    monkeypatch.setattr(glob, "glob", lambda *args, **options: real_glob(*args, **options)[::-1])
    recipe = write_corpus(tmp_path / "two")
    environment = {"PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    subprocess.run(
        [sys.executable, SCRIPT, recipe, "2"],
        check=True,
        capture_output=True,
        env=os.environ | environment,
    )
    assert published(recipe.parent / "prepared") == expected
    assert len(expected) >= 10


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "number",
    [pytest.param(4, marks=pytest.mark.slow), pytest.param(12, marks=pytest.mark.long)],
)
def test_a_killed_preparation_continues_with_the_same_bytes(tmp_path, small_tasks, number):
    """Kill the driver or one of its workers, in turn, several times; then let it finish."""
    expected = published(prepare(write_corpus(tmp_path / "not_killed"), workers=2))
    recipe = write_corpus(tmp_path / "killed")
    rng = random.Random(20260)
    kills = 0
    while kills < number:
        process = _start(recipe)
        time.sleep(rng.uniform(0.5, 6))
        if process.poll() is None:
            _kill(process, rng, kills_worker=kills % 2 == 1)
            kills += 1
        else:  # It finished before the kill: give it new work.
            _remove_some_results(recipe.parent / "prepared", rng)
    assert _start(recipe).wait() == 0
    assert published(recipe.parent / "prepared") == expected


def _start(recipe):
    return subprocess.Popen(
        [sys.executable, SCRIPT, recipe, "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _kill(process, rng, kills_worker):
    """Kill a worker and wait for the driver, or kill the driver; then kill the whole group."""
    victims = _children(process.pid)
    if victims and kills_worker:
        os.kill(rng.choice(victims), signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
    else:
        os.kill(process.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _remove_some_results(folder, rng):
    (folder / "manifest.json").unlink(missing_ok=True)
    for path in sorted((folder / "work").glob("*-*/*.arrow")):
        if rng.random() < 0.5 and not path.parent.name.startswith("read"):
            path.unlink()


def _children(pid):
    children = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            children.append(int(path.parent.name))
    return children


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_ray_cluster_of_two_nodes_gives_the_same_bytes(tmp_path, small_tasks):
    pytest.importorskip("ray")
    expected = published(prepare(write_corpus(tmp_path / "native")))
    recipe = write_corpus(tmp_path / "cluster")
    script = tmp_path / "cluster.py"
    script.write_text(
        f"""
import os, sys, runpy
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DISABLE_DASHBOARD="1")
import ray
from ray.cluster_utils import Cluster
# Ray replaces 127.0.0.1 by the address of the machine; 127.0.0.2 is loopback too and is kept.
head = dict(num_cpus=1, node_ip_address="127.0.0.2", include_dashboard=False)
cluster = Cluster(initialize_head=True, head_node_args=head)
cluster.add_node(num_cpus=1, node_ip_address="127.0.0.3")
sys.argv = ["x", {str(recipe)!r}, "2", cluster.address]
try:
    runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
    assert len(ray.nodes()) == 2
    assert all(node["NodeManagerAddress"].startswith("127.") for node in ray.nodes())
finally:
    ray.shutdown()
    cluster.shutdown()
""",
        encoding="utf-8",
    )
    process = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=200, encoding="utf-8"
    )
    assert process.returncode == 0, process.stderr[-3000:]
    assert published(recipe.parent / "prepared") == expected


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True
    ).stdout


@pytest.mark.slow
def test_importing_preparation_changes_nothing_in_the_process():
    code = (
        "import os, sys; before = dict(os.environ); import dragoman.workflow.preparation; "
        "print(dict(os.environ) == before, 'daft' in sys.modules)"
    )
    assert run_python(code).split() == ["True", "False"]


def test_telemetry_is_off_before_daft_is_loaded(monkeypatch):
    from dragoman.corpus import runner

    environment = {}
    for name in ("DAFT_ANALYTICS_ENABLED", "RAY_USAGE_STATS_ENABLED", "DO_NOT_TRACK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(runner.importlib, "import_module", lambda _: environment.update(os.environ))
    runner.load_daft()
    assert environment["DAFT_ANALYTICS_ENABLED"] == "0"
    assert environment["RAY_USAGE_STATS_ENABLED"] == "0"
    assert environment["DO_NOT_TRACK"] == "1"
    assert environment["DAFT_SHOW_QUERY_ID"] == "0"


def test_errors_of_daft_about_slow_workers_are_not_printed():
    code = (
        "import logging; from dragoman.corpus import runner; runner.load_daft(); "
        "logging.getLogger('daft_local_execution.intermediate_ops.udf').error('tearing down')"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 0
    assert process.stderr == ""


@pytest.mark.slow
def test_a_worker_that_dies_is_reported(tmp_path):
    script = Path(__file__).parents[1] / "support" / "dying_worker.py"
    process = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 71
    assert "a worker process died after" in process.stdout
    assert "fewer --workers" in process.stdout


def test_a_result_stream_that_ends_early_is_an_error(monkeypatch, tmp_path):
    from dragoman.corpus import runner

    monkeypatch.setattr(runner, "_answers", lambda *_: iter(()))
    tasks = {str(tmp_path / "x"): None, str(tmp_path / "y"): None}
    with pytest.raises(runner.WorkerDiedError, match="after 0 of 2 tasks"):
        list(runner._run_on_daft(tasks, 2, None))


@pytest.mark.parametrize("name", ["work", "tokenizer", "tokenizer/source", "work/exact-0"])
def test_a_link_that_leads_outside_is_refused(tiny_corpus, tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("keep")
    link = tiny_corpus.parent / "prepared" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(ArtifactError, match="a symbolic link that leads out of"):
        prepare(tiny_corpus)
    assert [path.name for path in outside.iterdir()] == ["precious.txt"]


@pytest.mark.slow
def test_workers_default_to_the_cpus_that_the_process_may_use(tiny_corpus, monkeypatch):
    worker_counts = []
    monkeypatch.setattr(preparation, "available_cpus", lambda: 1)
    real_run = pipeline.runner.run

    def run(tasks, workers):
        worker_counts.append(workers)
        return real_run(tasks, workers)

    monkeypatch.setattr(pipeline.runner, "run", run)
    preparation.prepare(tiny_corpus)
    assert set(worker_counts) == {1}


@pytest.mark.slow
def test_prepare_returns_the_manifest_and_the_report(tiny_corpus):
    stages = []
    result = preparation.prepare(
        tiny_corpus, workers=1, on_progress=lambda progress: stages.append(progress.stage)
    )
    assert list(dict.fromkeys(stages)) == [
        "read", "clean", "exact duplicates", "split", "tokenizer", "shards", "report",
    ]  # fmt: skip
    assert result.manifest == Prepared.open(result.folder).manifest
    assert result.report == report_of(result.folder)
    assert result.manifest.languages.source == "en"
    assert result.manifest.tokenizer == load_recipe(tiny_corpus).tokenizer


def test_all_missing_settings_are_reported_at_once(tmp_path):
    (tmp_path / "recipe.yaml").write_text(
        "corpus: {train: [{files: [no.en, no.de]}, {files: [x.strange]}]}", encoding="utf-8"
    )
    (tmp_path / "x.strange").touch()
    with pytest.raises(RecipeError) as caught:
        prepare(tmp_path / "recipe.yaml")
    paths = [mistake.path for mistake in caught.value.mistakes]
    assert paths == [
        "languages.source",
        "languages.target",
        "corpus.train.0.files",
        "corpus.train.1.files",
    ]


@pytest.mark.slow
def test_near_duplicates_are_removed_and_others_are_kept(tmp_path, small_tasks):
    rng = random.Random(5)
    words = ["".join(rng.choices("abcdefghij", k=6)) for _ in range(400)]
    base = [" ".join(rng.sample(words, 14)) for _ in range(300)]
    rows = [(text, text.replace("a", "z")) for text in base]
    near = [(f"{source.upper()}!", f"{target},") for source, target in rows[:50]]
    far = []
    for source, target in rows[50:150]:  # Half of the words are different.
        others = " ".join(rng.sample(words, 7))
        far.append((" ".join(source.split()[:7]) + " " + others, target[::-1]))
    (tmp_path / "all.tsv").write_text(
        "".join(f"{source}\t{target}\n" for source, target in rows + near + far), encoding="utf-8"
    )
    (tmp_path / "recipe.yaml").write_text(
        "languages: {source: en, target: de}\n"
        "corpus: {train: [{files: [all.tsv]}], duplicates: near, filters: [unicode], held_out: 0,\n"
        "         synthetic_spans: 0}\n"
        "tokenizer: {vocabulary_size: 500}\n",
        encoding="utf-8",
    )
    folder = prepare(tmp_path / "recipe.yaml")
    report = report_of(folder)
    assert report.corpora[0].dropped == {"near duplicate": 50}
    kept = {source.casefold().strip("!") for source, _ in texts_of(folder)}
    assert set(base) <= kept


@pytest.mark.slow
def test_shifted_lines_are_reported(tmp_path):
    pairs = [(item.source, item.target) for item in demo.items(3, 20_000, "train")]
    sources, targets = (list(side) for side in zip(*pairs, strict=True))
    del targets[17_000]
    targets.append("Eine Zeile am Ende.")
    for name, lines in (("all.en", sources), ("all.de", targets)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(
        "languages: {source: en, target: de}\n"
        "corpus: {train: [{files: [all.en, all.de]}], filters: [unicode]}\n"
        "tokenizer: {vocabulary_size: 500}\n",
        encoding="utf-8",
    )
    prepare(tmp_path / "recipe.yaml")
    report = report_of(tmp_path / "prepared")
    line, shift = report.corpora[0].shift
    assert shift == -1
    assert abs(line - 17_000) < 300
    assert "from about line" in advice(report)[0]


@pytest.fixture
def tiny_corpus(tmp_path):
    """Write a recipe for a few hundred pairs, in a folder with special characters in its name."""
    folder = tmp_path / "a [b] ü"
    demo.write(folder, 1, {"train": 300, "validation": 20})
    (folder / "recipe.yaml").write_text(
        "languages: {source: en, target: de}\n"
        "corpus:\n"
        "  train: [{files: [train.en, train.de]}]\n"
        "  validation: [{files: [validation.en, validation.de]}]\n"
        "  filters: [unicode]\n"
        "tokenizer: {vocabulary_size: 400}\n",
        encoding="utf-8",
    )
    return folder / "recipe.yaml"


@pytest.mark.slow
def test_terms_of_a_glossary_are_annotated_in_training_pairs(tiny_corpus):
    folder = tiny_corpus.parent
    (folder / "terms.tsv").write_text("o'clock\tUhr\neuros\tEuro\n", encoding="utf-8")
    settings = ("corpus.glossary=terms.tsv", "corpus.glossary_augmentation=1")
    prepared = prepare(tiny_corpus, *settings)
    annotated = [pair for pair in texts_of(prepared) if TERM_TOKENS[0] in pair[0]]
    assert len(annotated) == report_of(prepared).vocabulary.annotated > 10
    for source, target in annotated:
        assert annotated_term("euros", "Euro") in source or "Uhr" in target
        assert not set(TERM_TOKENS) & set(target)
    before = published(prepared)
    (folder / "terms.tsv").write_text("euros\tEuro\n", encoding="utf-8")
    assert published(prepare(tiny_corpus, *settings)) != before


def test_a_missing_glossary_is_named_before_the_work_begins(tiny_corpus):
    with pytest.raises(RecipeError, match=r"corpus\.glossary.*\n.*none\.tsv"):
        prepare(tiny_corpus, "corpus.glossary=none.tsv")
    assert not (tiny_corpus.parent / "prepared" / "work").exists()


@pytest.mark.slow
def test_another_tokenizer_replaces_the_old_one(tiny_corpus):
    folder = prepare(tiny_corpus)
    sources = {source for source, _ in texts_of(folder)}
    prepare(tiny_corpus, "tokenizer.kind=characters")
    assert [path.name for path in (folder / "tokenizer" / "source").iterdir()] == [
        "characters.json"
    ]
    assert {source for source, _ in texts_of(folder)} == sources


@pytest.mark.slow
def test_changed_and_missing_files_are_published_again(tiny_corpus):
    folder = prepare(tiny_corpus)
    before = published(folder)
    for name in ("train-00000.arrow", "report.html", "test.source"):
        (folder / name).unlink()
    prepare(tiny_corpus)
    assert published(folder) == before
    text = (tiny_corpus.parent / "validation.en").read_text(encoding="utf-8")
    (tiny_corpus.parent / "validation.en").write_text("A new line.\n" + text.partition("\n")[2])
    prepare(tiny_corpus)
    assert (folder / "validation.source").read_text().startswith("A new line.\n")


def test_a_held_out_set_that_is_no_longer_published_is_removed(tmp_path):
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "bytes.json").write_text("{}")
    folder, tokenizers = tmp_path / "prepared", (tmp_path / "tokenizer",) * 2
    for names in (["validation", "general"], ["validation"]):
        held_out = {name: [Pair("a", "b")] for name in names}
        publish(folder, [], tokenizers, held_out, ManifestHeader())
        texts = {path.stem for path in folder.glob("*.source")}
        assert texts == set(names)


@pytest.mark.slow
def test_files_of_others_are_not_removed(tiny_corpus):
    folder = prepare(tiny_corpus)
    (folder / "train-mine.arrow").write_text("mine")
    prepare(tiny_corpus, "seed=5")
    assert (folder / "train-mine.arrow").read_text() == "mine"
    with pytest.raises(RecipeError, match="a folder of its own"):
        prepare(tiny_corpus, "corpus.folder=.")


@pytest.mark.slow
def test_a_link_to_a_recipe_uses_the_folder_of_the_recipe(tiny_corpus, tmp_path):
    (tmp_path / "link").mkdir()
    link = tmp_path / "link" / "recipe.yaml"
    link.symlink_to(tiny_corpus)
    result = preparation.prepare(link, workers=1)
    assert result.folder == tiny_corpus.parent / "prepared"


@pytest.mark.parametrize(
    ("setting", "path", "what"),
    [
        ("corpus.train=[{fils: [a]}]", "corpus.train.0.fils", "did you mean 'files'?"),
        ("corpus.train=[{files: a.en}]", "corpus.train.0.files", "expected a list"),
        (
            "corpus.filters=[{name: length, min_words: x}]",
            "corpus.filters.0.min_words",
            "whole number",
        ),
        (
            "corpus.filters=[unicode, {name: length, min_words: 9, max_words: 3}]",
            "corpus.filters.1.min_words",
            "expected at most `max_words`, 3",
        ),
        ("corpus.train=[{files: [.]}]", "corpus.train.0.files", "is a folder"),
        ("corpus.train=[{files: []}]", "corpus.train.0.files", "expected one file, or two"),
        ("seed=18446744073709551616", "seed", "expected less than"),
    ],
)
def test_mistakes_are_reported_with_their_path_before_any_work(tiny_corpus, setting, path, what):
    with pytest.raises(RecipeError) as caught:
        prepare(tiny_corpus, setting)
    assert [mistake.path for mistake in caught.value.mistakes if what in mistake.what] == [path]
    assert not (tiny_corpus.parent / "prepared").exists()


def test_if_no_pair_is_left_the_error_names_the_reasons(tiny_corpus):
    with pytest.raises(DataError, match=r"no pair is left to train on. Dropped: too short \(300\)"):
        prepare(tiny_corpus, "corpus.filters=[{name: length, min_words: 90}]")


def test_the_reasons_are_those_of_the_training_text(tiny_corpus):
    path = tiny_corpus.parent / "validation.en"
    path.write_bytes(b"\xff\n" + path.read_bytes().partition(b"\n")[2])
    with pytest.raises(DataError, match=r"Dropped: too short \(300\)\. Check"):
        prepare(tiny_corpus, "corpus.filters=[{name: length, min_words: 90}]")


def test_if_all_pairs_are_held_out_the_error_says_so(tmp_path):
    source = "A very small corpus."
    rows = pa.table({"source": [source], "origin": [0]})
    seed = next(
        seed for seed in range(1, 100) if SplitSettings(seed, 0.1, 0.1, ()).splits(rows)[0] > 0
    )
    (tmp_path / "train.en").write_text(f"{source}\n")
    (tmp_path / "train.de").write_text("Ein sehr kleiner Korpus.\n")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"seed: {seed}\nlanguages: {{source: en, target: de}}\n"
        "corpus: {train: [{files: [train.en, train.de]}]}\n"
    )
    with pytest.raises(
        DataError, match=r"all pairs of the files \(1\) were held out .*held_out: 0"
    ):
        prepare(recipe)


def test_a_sample_has_at_most_as_many_pairs_as_it_should(tmp_path):
    for bucket in range(3):
        columns = {side: [f"{side} {bucket} {row}" for row in range(5)] for side in SIDES}
        batch = pa.RecordBatch.from_pydict(columns)
        table.write(tmp_path / str(bucket), [batch, batch[:0], batch[:0]], NoCounts())
    split = SplitResult(tuple(tmp_path / str(bucket) for bucket in range(3)))
    assert [pair.source for pair in split.sample(2)] == ["source 0 0", "source 1 0"]
    assert [pair.source[7] for pair in split.sample(6)] == list("001122")
    assert len(list(split.sample(100))) == 15


def test_leakage_ignores_unicode_composition():
    decomposed, composed = "Vo\u0308gel fliegen hoch", "V\u00f6gel fliegen hoch"
    assert leakage._hash(decomposed) == leakage._hash(composed) != b""


def test_the_first_finished_folder_is_kept(tmp_path):
    with atomic_folder(tmp_path / "result") as mine:
        (mine / "file").write_text("second")
        with atomic_folder(tmp_path / "result") as other:
            (other / "file").write_text("first")
    assert (tmp_path / "result" / "file").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


@pytest.mark.slow
def test_a_corpus_named_twice_is_read_once_and_dropped_once(tiny_corpus):
    folder = prepare(
        tiny_corpus,
        "corpus.train=[{files: [train.en, train.de]}, {files: [train.en, train.de]}]",
        workers=2,
    )
    report = report_of(folder)
    assert [corpus.dropped for corpus in report.corpora[:2]] == [{}, {"exact duplicate": 300}]


def test_different_pairs_have_different_keys():
    assert key_of("a", "b") != key_of("b", "a")
    assert key_of("ab", "") != key_of("a", "b")
    assert len({key_of(str(n), "") for n in range(10_000)}) == 10_000


def test_scattering_keeps_every_row_in_order():
    import pyarrow as pa

    batch = pa.RecordBatch.from_pydict({"n": list(range(100))})
    buckets = np.array([n * 7 % 5 for n in range(100)])
    scattered = table.scatter(batch, buckets, 6)
    assert len(scattered) == 6
    assert [bucket["n"].to_pylist() for bucket in scattered] == [
        [n for n in range(100) if n * 7 % 5 == bucket] for bucket in range(6)
    ]


@pytest.mark.slow
def test_multi30k_is_prepared_with_little_padding(tmp_path):
    data = shared_data() / "multi30k"
    names = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
    corpora = "\n".join(
        f"  {split}: [{{files: ['{data}/{name}.en.gz', '{data}/{name}.de.gz']}}]"
        for split, name in names.items()
    )
    (tmp_path / "recipe.yaml").write_text(
        f"preset: tiny\nlanguages: {{source: en, target: de}}\ncorpus:\n{corpora}\n",
        encoding="utf-8",
    )
    folder = prepare(tmp_path / "recipe.yaml")
    report = report_of(folder)
    assert report.corpora[0].rows == 29_000
    assert report.corpora[0].kept >= 28_900
    positions = tokens = 0
    for planned in Sampler(Prepared.open(folder), 1, 4096).batches(StreamPosition()):
        if planned.then.epoch:
            break
        batch = planned.read()
        positions += batch.source.size + batch.target.size
        tokens += int(batch.source_is_real.sum() + batch.target_is_real.sum())
    padding = 1 - tokens / positions
    print(f"padding {padding:.3f}")
    assert padding <= 0.10


@pytest.fixture
def two_corpora(tmp_path, small_tasks):
    """Write two corpora and prepare the first."""
    prepare(write_corpus(tmp_path / "one"))
    return tmp_path / "one" / "prepared", write_corpus(tmp_path / "two", seed=2)


def tokenizers_of(folder):
    return {path.name: sha256(path) for path in sorted((folder / "tokenizer").rglob("*.model"))}


@pytest.mark.slow
def test_a_copied_tokenizer_is_identified_by_its_content(two_corpora):
    before, recipe = two_corpora
    folder = prepare(recipe, "tokenizer.init_from=../one/prepared")
    assert tokenizers_of(folder) == tokenizers_of(before)
    report = report_of(folder)
    assert report.vocabulary.source.size == load_tokenizer(before / "tokenizer/source").size

    def shards():
        return {path.name for path in (folder / "work").glob("encode-*")}

    encoded = shards()
    prepare(recipe, "tokenizer.init_from=../one/prepared")
    assert shards() == encoded
    prepare(before.parent / "recipe.yaml", "tokenizer.vocabulary_size=350")
    prepare(recipe, "tokenizer.init_from=../one/prepared")
    assert len(shards()) == 2
    assert tokenizers_of(folder) == tokenizers_of(before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "what"),
    [
        (["tokenizer.init_from=nowhere"], "no folder"),
        (["tokenizer.init_from=../one"], "no folder"),
        (["tokenizer.init_from=prepared"], "the folder that this recipe prepares"),
        (
            [
                "tokenizer.init_from=../one/prepared",
                "tokenizer.shared=false",
                "model.tied_embeddings=none",
            ],
            "has one vocabulary for source and target, expected two; set tokenizer.shared: true",
        ),
        (
            ["tokenizer.init_from=../one/prepared", "tokenizer.kind=words"],
            "holds tokenizer.model, expected words.json; set tokenizer.kind",
        ),
    ],
)
def test_an_unusable_tokenizer_is_reported_before_any_work(two_corpora, settings, what):
    _, recipe = two_corpora
    with pytest.raises(RecipeError) as caught:
        prepare(recipe, *settings)
    assert [mistake.path for mistake in caught.value.mistakes] == ["tokenizer.init_from"]
    assert what in caught.value.mistakes[0].what
    assert not (recipe.parent / "prepared").exists()


@pytest.mark.slow
def test_the_languages_of_dropped_pairs_are_counted(tiny_corpus):
    french = "Je voudrais savoir à quelle heure part le prochain train pour Paris."
    german = "Ich möchte wissen, wann der nächste Zug nach Paris abfährt."
    with (tiny_corpus.parent / "train.en").open("a", encoding="utf-8") as file:
        file.write(f"{french}\n" * 7)
    with (tiny_corpus.parent / "train.de").open("a", encoding="utf-8") as file:
        file.write(f"{german}\n" * 7)
    folder = prepare(tiny_corpus, "corpus.filters=[language]")
    report = report_of(folder)
    corpus = report.corpora[0]
    assert corpus.dropped["wrong source language"] == 7
    assert corpus.dropped_languages["fr → de"] == 7
    for_language = (count for reason, count in corpus.dropped.items() if "language" in reason)
    assert sum(corpus.dropped_languages.values()) == sum(for_language)
    assert "fr → de" in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_foreign_texts_are_counted_in_all_languages_not_only_the_shown(tiny_corpus, monkeypatch):
    codes = itertools.cycle([f"x{number}" for number in range(20)])
    monkeypatch.setattr("dragoman.text.identification.detect", lambda _text: next(codes))
    report = report_of(prepare(tiny_corpus, "corpus.filters=[]"))
    shown = report.detected.source
    assert report.foreign.source > sum(shown.values())
    assert report.foreign.source == report.foreign.target
    assert "x0" in shown


def test_a_file_name_that_is_not_utf8_is_reported(tiny_corpus):
    strange = os.fsencode(tiny_corpus.parent) + b"/caf\xe9.tsv"
    try:
        Path(os.fsdecode(strange)).write_text("a\tb\n")
    except OSError:
        pytest.skip("this file system accepts only UTF-8 names")
    with pytest.raises(RecipeError, match=r"caf\\xe9.tsv' is not UTF-8"):
        prepare(tiny_corpus, "corpus.train=[{files: ['*.tsv']}]")


def test_a_cluster_that_cannot_be_reached_is_reported(monkeypatch):
    class Daft:
        def set_runner_ray(self, *_arguments, **_options):
            raise ConnectionError("ray client connection timeout")

    monkeypatch.setattr(runner, "load_daft", Daft)
    with pytest.raises(DataError, match=r"cannot connect to the Ray cluster at 'ray://nowhere:1'"):
        runner.use_cluster("ray://nowhere:1")
