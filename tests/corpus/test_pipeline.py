"""Does preparation keep its promises: nothing lost, the same bytes, and it goes on after a kill?"""

import contextlib
import glob
import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from dragoman.corpus import demo, leakage, pipeline, table
from dragoman.corpus.clean import key_of
from dragoman.corpus.cleaning import Pair
from dragoman.data.sampler import Place, Sampler
from dragoman.data.store import Prepared, Shard
from dragoman.durable import new_folder, sha256
from dragoman.errors import DataError, RecipeError
from dragoman.recipe_file import load_recipe
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.workflow import preparation
from shared_data import shared_data

# The engine leaves the pipes of its processes to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SCRIPT = Path(__file__).with_name("prepare_small.py")
RECIPE = """\
preset: tiny
languages: {source: en, target: de}
corpus:
  train:
    - {files: ['part-*.en', 'part-*.de']}
    - {files: [extra.tsv], weight: 2}
  held_out: 100
  duplicates: near
  steps: [unicode, length, ratio, copies, placeholders]
tokenizer: {vocabulary_size: 400}
"""


def write_corpus(folder, count=1500, seed=1):
    """Three files of demo text with duplicates, near duplicates, and rows that cannot stay."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    pairs = [(item.source, item.target) for item in demo.items(seed, count, "train")]
    pairs += pairs[::10]  # exact duplicates
    pairs += [(f"{source} !", f"{target} !") for source, target in pairs[:200:20]]
    copy = "This line was copied, not translated."
    pairs += [(copy, copy), ("", "leer"), ("Only one side is long " * 9, "kurz")]
    random.Random(seed).shuffle(pairs)
    third = len(pairs) // 3
    for number in range(2):
        part = pairs[number * third : (number + 1) * third]
        for index, language in enumerate(("en", "de")):
            text = "".join(f"{pair[index]}\n" for pair in part)
            (folder / f"part-{number}.{language}").write_text(text, encoding="utf-8")
    rows = "".join(f"{source}\t{target}\n" for source, target in pairs[2 * third :])
    (folder / "extra.tsv").write_bytes(rows.encode() + b"\xff\xfe\tbad\nlonely\n")
    return folder / "recipe.yaml"


@pytest.fixture
def small_tasks(monkeypatch):
    """Many small tasks, where a real corpus of this size would be one."""
    monkeypatch.setattr(pipeline, "CHUNK_ROWS", (300, 300))
    monkeypatch.setattr(pipeline, "BUCKET_ROWS", 500)


def prepare(recipe, *overrides, workers=1):
    list(preparation.prepare(recipe, overrides, workers=workers))
    return recipe.parent / "prepared"


def published(folder):
    """Every file that a reader may see, with its hash."""
    return {
        str(path.relative_to(folder)): sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "work" not in path.relative_to(folder).parts
    }


def texts_of(folder):
    """All training pairs of a prepared folder, as text again."""
    tokenizers = [load_tokenizer(folder / "tokenizer" / side) for side in ("source", "target")]
    found = []
    for path in Prepared.open(folder).shards:
        shard = Shard.open(path)
        sides = ([shard.source(n).tolist() for n in range(len(shard))],
                 [shard.target(n).tolist() for n in range(len(shard))])  # fmt: skip
        found += zip(
            *(each.decode(ids) for each, ids in zip(tokenizers, sides, strict=True)), strict=True
        )
    return found


def test_rows_in_are_rows_kept_or_dropped_with_a_reason(tmp_path, small_tasks):
    folder = prepare(write_corpus(tmp_path))
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    lines = {
        "part-0.en + part-0.de": (tmp_path / "part-0.en").read_text().count("\n"),
        "part-1.en + part-1.de": (tmp_path / "part-1.en").read_text().count("\n"),
        "extra.tsv": (tmp_path / "extra.tsv").read_bytes().count(b"\n"),
    }
    assert {each["name"]: each["rows"] for each in report["corpora"]} == lines
    for each in report["corpora"]:
        assert each["rows"] == each["kept"] + sum(each["dropped"].values())
    reasons = {reason for each in report["corpora"] for reason in each["dropped"]}
    assert {"exact duplicate", "near duplicate", "empty", "copy"} <= reasons
    assert {"unreadable: not UTF-8", "unreadable: too few columns"} <= reasons
    sides = report["sides"]
    assert sum(each["kept"] for each in report["corpora"]) == sum(sides.values())
    assert sides["train"] == sum(Prepared.open(folder).rows) + report["vocabulary"]["too_long"]


def test_it_gives_what_a_plain_loop_gives(tmp_path, small_tasks):
    """The definition: one loop over all rows, a set of what was seen, nothing else."""
    folder = prepare(write_corpus(tmp_path), "corpus.duplicates=exact")
    recipe = load_recipe(tmp_path / "recipe.yaml")
    from dragoman.corpus.cleaning import Step
    from dragoman.part import choose

    steps = [choose("corpus.step", each, "", Step)("en", "de") for each in recipe.corpus.steps]
    rows = []
    for number in range(2):
        sides = [
            (tmp_path / f"part-{number}.{side}").read_text().split("\n")[:-1]
            for side in ("en", "de")
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
        for step in steps:
            pair = step.apply(pair)
            if isinstance(pair, str):
                break
        else:
            kept.add(tuple(pair))
    held = set()
    for side in ("development", "test"):
        columns = [
            (folder / f"{side}.{each}").read_text().split("\n")[:-1]
            for each in ("source", "target")
        ]
        held |= set(zip(*columns, strict=True))
    trained = texts_of(folder)
    assert len(trained) == len(set(trained))
    assert set(trained) | held == kept
    assert not set(trained) & held


@pytest.mark.slow
def test_all_translations_of_a_sentence_stay_on_one_side(tmp_path, small_tasks):
    recipe = write_corpus(tmp_path)
    with (tmp_path / "extra.tsv").open("a", encoding="utf-8") as file:
        for number in range(300):
            for way in "abcd":
                file.write(
                    f"Sentence number {number} is here.\tSatz {way} Nummer {number} steht.\n"
                )
    folder = prepare(recipe, "corpus.held_out=300", "corpus.duplicates=exact")
    sides = [
        set((folder / f"{side}.source").read_text().split("\n")) - {""}
        for side in ("development", "test")
    ]
    sides.append({source for source, _ in texts_of(folder)})
    assert all(len(side) > 20 for side in sides)
    for one, other in combinations(sides, 2):
        assert not one & other


@pytest.mark.slow
def test_what_will_be_tested_is_not_trained_on(tmp_path, small_tasks):
    recipe = write_corpus(tmp_path)
    pairs = [(item.source, item.target) for item in demo.items(1, 1500, "train")][:80]
    rows = "".join(f"{source.upper()}\t{target.lower()}\n" for source, target in pairs)
    (tmp_path / "test.tsv").write_text(rows, encoding="utf-8")
    folder = prepare(recipe, "corpus.test=[{files: [test.tsv]}]")
    trained = {source.casefold() for source, _ in texts_of(folder)}
    long_enough = [source.casefold() for source, _ in pairs if len(source) > 12]
    assert len(long_enough) > 30
    assert not trained & set(long_enough)
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert sum(each["dropped"].get("in a test set", 0) for each in report["corpora"]) > 30


@pytest.mark.slow
def test_a_rerun_does_nothing_and_a_change_only_what_depends_on_it(tmp_path, small_tasks):
    recipe = write_corpus(tmp_path)
    folder = prepare(recipe)

    def state():
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}

    def stages(*overrides):
        before = {path.name for path in (folder / "work").iterdir()}
        prepare(recipe, *overrides)
        return {
            path.name.rpartition("-")[0]
            for path in (folder / "work").iterdir()
            if path.name not in before
        }

    before = state()
    prepare(recipe)
    assert state() == before
    assert stages("tokenizer.vocabulary_size=350") == {"tokenizer", "encode"}
    assert stages("corpus.longest=20") == {"encode"}
    assert stages("seed=3") == {"split", "tokenizer", "encode"}
    assert stages("corpus.steps=[unicode]") == {
        "clean", "exact", "sign", "near", "split", "tokenizer", "encode",
    }  # fmt: skip
    assert stages("model.width=64") == set()
    with (tmp_path / "extra.tsv").open("a", encoding="utf-8") as file:
        file.write("a new line\teine neue Zeile\n")
    assert "read" in stages()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_bytes_whatever_the_world(tmp_path, small_tasks, monkeypatch, workers):
    expected = published(prepare(write_corpus(tmp_path / "one")))
    listed = glob.glob
    monkeypatch.setattr(glob, "glob", lambda *given, **more: listed(*given, **more)[::-1])
    again = write_corpus(tmp_path / "two")
    environment = {"PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    subprocess.run(
        [sys.executable, SCRIPT, again, str(workers)],
        check=True,
        capture_output=True,
        env=os.environ | environment,
    )
    assert published(again.parent / "prepared") == expected
    assert len(expected) >= 10


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kill_anything_at_any_moment_and_run_again(tmp_path, small_tasks):
    """The driver or one of its workers, in turn, twelve times; then it is left in peace."""
    expected = published(prepare(write_corpus(tmp_path / "undisturbed"), workers=2))
    recipe = write_corpus(tmp_path / "killed")
    chance = random.Random(20260)
    kills = 0
    while kills < 12:
        process = _start(recipe)
        time.sleep(chance.uniform(0.5, 6))
        if process.poll() is None:
            _kill(process, chance, kills_worker=kills % 2 == 1)
            kills += 1
        else:  # It was too quick for us: give it work again.
            _undo_some(recipe.parent / "prepared", chance)
    assert _start(recipe).wait() == 0
    assert published(recipe.parent / "prepared") == expected


def _start(recipe):
    return subprocess.Popen(
        [sys.executable, SCRIPT, recipe, "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _kill(process, chance, kills_worker):
    """Kill a worker and see how its driver takes it, or the driver; then all that is left."""
    victims = _children(process.pid)
    if victims and kills_worker:
        os.kill(chance.choice(victims), signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
    else:
        os.kill(process.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _undo_some(folder, chance):
    (folder / "manifest.json").unlink(missing_ok=True)
    for path in sorted((folder / "work").glob("*-*/*.arrow")):
        if chance.random() < 0.5 and not path.parent.name.startswith("read"):
            path.unlink()


def _children(pid):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(path.parent.name))
    return found


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
# Ray takes 127.0.0.1 for "find out my address"; its neighbours are loopback just as well.
head = dict(num_cpus=1, node_ip_address="127.0.0.2", include_dashboard=False)
cluster = Cluster(initialize_head=True, head_node_args=head)
cluster.add_node(num_cpus=1, node_ip_address="127.0.0.3")
sys.argv = ["x", {str(recipe)!r}, "2", cluster.address]
try:
    runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
    assert len(ray.nodes()) == 2
    assert all(each["NodeManagerAddress"].startswith("127.") for each in ray.nodes())
finally:
    ray.shutdown()
    cluster.shutdown()
""",
        encoding="utf-8",
    )
    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=200, encoding="utf-8"
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert published(recipe.parent / "prepared") == expected


def test_no_usage_is_reported():
    from dragoman.corpus import engine

    assert engine.os.environ["DAFT_ANALYTICS_ENABLED"] == "0"
    assert engine.os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_what_is_missing_is_told_all_at_once(tmp_path):
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
def test_near_duplicates_leave_and_others_stay(tmp_path, small_tasks):
    chance = random.Random(5)
    words = ["".join(chance.choices("abcdefghij", k=6)) for _ in range(400)]
    base = [" ".join(chance.sample(words, 14)) for _ in range(300)]
    rows = [(text, text.replace("a", "z")) for text in base]
    near = [(f"{source.upper()}!", f"{target},") for source, target in rows[:50]]
    far = []
    for source, target in rows[50:150]:  # half of the words are others
        others = " ".join(chance.sample(words, 7))
        far.append((" ".join(source.split()[:7]) + " " + others, target[::-1]))
    (tmp_path / "all.tsv").write_text(
        "".join(f"{source}\t{target}\n" for source, target in rows + near + far), encoding="utf-8"
    )
    (tmp_path / "recipe.yaml").write_text(
        "languages: {source: en, target: de}\n"
        "corpus: {train: [{files: [all.tsv]}], duplicates: near, steps: [unicode], held_out: 0}\n"
        "tokenizer: {vocabulary_size: 500}\n",
        encoding="utf-8",
    )
    folder = prepare(tmp_path / "recipe.yaml")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert report["corpora"][0]["dropped"] == {"near duplicate": 50}
    kept = {source.casefold().strip("!") for source, _ in texts_of(folder)}
    assert set(base) <= kept


@pytest.mark.slow
def test_lines_that_have_gone_apart_are_told(tmp_path):
    pairs = [(item.source, item.target) for item in demo.items(3, 20_000, "train")]
    sources, targets = (list(side) for side in zip(*pairs, strict=True))
    del targets[17_000]
    targets.append("Eine Zeile am Ende.")
    for name, lines in (("all.en", sources), ("all.de", targets)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(
        "languages: {source: en, target: de}\n"
        "corpus: {train: [{files: [all.en, all.de]}], steps: [unicode]}\n"
        "tokenizer: {vocabulary_size: 500}\n",
        encoding="utf-8",
    )
    prepare(tmp_path / "recipe.yaml")
    report = json.loads((tmp_path / "prepared" / "report.json").read_text(encoding="utf-8"))
    line, shift = report["corpora"][0]["shift"]
    assert shift == -1
    assert abs(line - 17_000) < 300
    assert "from about line" in preparation.summary(tmp_path / "recipe.yaml")


@pytest.fixture
def tiny_corpus(tmp_path):
    """A folder with an awkward name, and a recipe for a few hundred pairs in it."""
    folder = tmp_path / "a [b] ü"
    demo.write(folder, 1, {"train": 300, "development": 20})
    (folder / "recipe.yaml").write_text(
        "languages: {source: en, target: de}\n"
        "corpus:\n"
        "  train: [{files: [train.en, train.de]}]\n"
        "  development: [{files: [development.en, development.de]}]\n"
        "  steps: [unicode]\n"
        "tokenizer: {vocabulary_size: 400}\n",
        encoding="utf-8",
    )
    return folder / "recipe.yaml"


def test_another_tokenizer_takes_the_place_of_the_old_one(tiny_corpus):
    folder = prepare(tiny_corpus)
    sources = {source for source, _ in texts_of(folder)}
    prepare(tiny_corpus, "tokenizer.kind=characters")
    assert [path.name for path in (folder / "tokenizer" / "source").iterdir()] == [
        "characters.json"
    ]
    assert {source for source, _ in texts_of(folder)} == sources


@pytest.mark.slow
def test_what_was_changed_or_lost_is_published_again(tiny_corpus):
    folder = prepare(tiny_corpus)
    before = published(folder)
    for name in ("train-00000.arrow", "report.html", "test.source"):
        (folder / name).unlink()
    prepare(tiny_corpus)
    assert published(folder) == before
    text = (tiny_corpus.parent / "development.en").read_text(encoding="utf-8")
    (tiny_corpus.parent / "development.en").write_text("A new line.\n" + text.partition("\n")[2])
    prepare(tiny_corpus)
    assert (folder / "development.source").read_text().startswith("A new line.\n")


@pytest.mark.slow
def test_what_is_not_ours_is_left_alone(tiny_corpus):
    folder = prepare(tiny_corpus)
    (folder / "train-mine.arrow").write_text("mine")
    prepare(tiny_corpus, "seed=5")
    assert (folder / "train-mine.arrow").read_text() == "mine"
    with pytest.raises(RecipeError, match="a folder of its own"):
        prepare(tiny_corpus, "corpus.folder=.")


@pytest.mark.slow
def test_a_link_to_a_recipe_is_the_recipe(tiny_corpus, tmp_path):
    (tmp_path / "link").mkdir()
    link = tmp_path / "link" / "recipe.yaml"
    link.symlink_to(tiny_corpus)
    list(preparation.prepare(link, workers=1))
    assert "pairs to train on" in preparation.summary(link)


@pytest.mark.parametrize(
    ("override", "path", "what"),
    [
        ("corpus.train=[{fils: [a]}]", "corpus.train.0.fils", "did you mean 'files'?"),
        ("corpus.train=[{files: a.en}]", "corpus.train.0.files", "expected a list, as [one, two]"),
        ("corpus.steps=[{name: length, longest: x}]", "corpus.steps.0.longest", "whole number"),
        ("corpus.train=[{files: [.]}]", "corpus.train.0.files", "is a folder"),
        ("seed=18446744073709551616", "seed", "expected less than"),
    ],
)
def test_mistakes_are_told_with_their_place_before_any_work(tiny_corpus, override, path, what):
    with pytest.raises(RecipeError) as caught:
        prepare(tiny_corpus, override)
    assert [
        (each.path, what in each.what) for each in caught.value.mistakes if what in each.what
    ] == [(path, True)]
    assert not (tiny_corpus.parent / "prepared").exists()


def test_a_corpus_of_which_nothing_is_left_says_why(tiny_corpus):
    with pytest.raises(DataError, match=r"no pair is left to train on. Dropped: too short \(300\)"):
        prepare(tiny_corpus, "corpus.steps=[{name: length, shortest: 90}]")


def test_a_test_set_leaks_however_it_is_composed():
    decomposed, composed = "Vo\u0308gel fliegen hoch", "V\u00f6gel fliegen hoch"
    assert leakage._mark(decomposed) == leakage._mark(composed) != b""


def test_the_first_to_finish_a_folder_stays(tmp_path):
    with new_folder(tmp_path / "result") as mine:
        (mine / "file").write_text("second")
        with new_folder(tmp_path / "result") as other:
            (other / "file").write_text("first")
    assert (tmp_path / "result" / "file").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


@pytest.mark.slow
def test_the_same_text_named_twice_is_read_once_and_dropped_once(tiny_corpus):
    folder = prepare(
        tiny_corpus,
        "corpus.train=[{files: [train.en, train.de]}, {files: [train.en, train.de]}]",
        workers=2,
    )
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert [each["dropped"] for each in report["corpora"][:2]] == [{}, {"exact duplicate": 300}]


def test_keys_tell_pairs_apart():
    assert key_of("a", "b") != key_of("b", "a")
    assert key_of("ab", "") != key_of("a", "b")
    assert len({key_of(str(n), "") for n in range(10_000)}) == 10_000


def test_scattering_keeps_every_row_in_order():
    import pyarrow as pa

    batch = pa.RecordBatch.from_pydict({"n": list(range(100))})
    buckets = np.array([n * 7 % 5 for n in range(100)])
    scattered = table.scatter(batch, buckets, 6)
    assert len(scattered) == 6
    assert [each["n"].to_pylist() for each in scattered] == [
        [n for n in range(100) if n * 7 % 5 == bucket] for bucket in range(6)
    ]


@pytest.mark.slow
def test_multi30k_is_prepared_with_little_padding(tmp_path):
    data = shared_data() / "multi30k"
    names = {"train": "train", "development": "val", "test": "test_2016_flickr"}
    corpora = "\n".join(
        f"  {side}: [{{files: ['{data}/{name}.en.gz', '{data}/{name}.de.gz']}}]"
        for side, name in names.items()
    )
    (tmp_path / "recipe.yaml").write_text(
        f"preset: tiny\nlanguages: {{source: en, target: de}}\ncorpus:\n{corpora}\n",
        encoding="utf-8",
    )
    folder = prepare(tmp_path / "recipe.yaml")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert report["corpora"][0]["rows"] == 29_000
    assert report["corpora"][0]["kept"] >= 28_900
    places = words = 0
    for planned in Sampler(Prepared.open(folder), 1, 4096).batches(Place()):
        if planned.then.epoch:
            break
        batch = planned.read()
        places += batch.source.size + batch.target.size
        words += int(batch.source_is_real.sum() + batch.target_is_real.sum())
    padding = 1 - words / places
    print(f"padding {padding:.3f}")
    assert padding <= 0.10


@pytest.fixture
def two_corpora(tmp_path, small_tasks):
    """A corpus that is prepared, and another that is not."""
    prepare(write_corpus(tmp_path / "one"))
    return tmp_path / "one" / "prepared", write_corpus(tmp_path / "two", seed=2)


def tokenizers_of(folder):
    return {path.name: sha256(path) for path in sorted((folder / "tokenizer").rglob("*.model"))}


@pytest.mark.slow
def test_a_tokenizer_is_taken_as_it_is_and_known_by_its_content(two_corpora):
    before, recipe = two_corpora
    folder = prepare(recipe, "tokenizer.start_from=../one/prepared")
    assert tokenizers_of(folder) == tokenizers_of(before)
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert (
        report["vocabulary"]["source"]["size"] == load_tokenizer(before / "tokenizer/source").size
    )

    def shards():
        return {path.name for path in (folder / "work").glob("encode-*")}

    encoded = shards()
    prepare(recipe, "tokenizer.start_from=../one/prepared")
    assert shards() == encoded
    prepare(before.parent / "recipe.yaml", "tokenizer.vocabulary_size=350")
    prepare(recipe, "tokenizer.start_from=../one/prepared")
    assert len(shards()) == 2
    assert tokenizers_of(folder) == tokenizers_of(before)


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        (["tokenizer.start_from=nowhere"], "no folder"),
        (["tokenizer.start_from=../one"], "no folder"),
        (["tokenizer.start_from=prepared"], "the folder that this recipe prepares"),
        (
            [
                "tokenizer.start_from=../one/prepared",
                "tokenizer.shared=false",
                "model.tied_embeddings=none",
            ],
            "has one vocabulary for source and target, expected two; set tokenizer.shared: true",
        ),
        (
            ["tokenizer.start_from=../one/prepared", "tokenizer.kind=words"],
            "holds tokenizer.model, expected words.json; set tokenizer.kind",
        ),
    ],
)
def test_a_tokenizer_that_cannot_be_taken_is_told_before_any_work(two_corpora, overrides, what):
    _, recipe = two_corpora
    with pytest.raises(RecipeError) as caught:
        prepare(recipe, *overrides)
    assert [each.path for each in caught.value.mistakes] == ["tokenizer.start_from"]
    assert what in caught.value.mistakes[0].what
    assert not (recipe.parent / "prepared").exists()


def test_the_languages_of_what_was_dropped_are_counted(tiny_corpus):
    french = "Je voudrais savoir à quelle heure part le prochain train pour Paris."
    german = "Ich möchte wissen, wann der nächste Zug nach Paris abfährt."
    with (tiny_corpus.parent / "train.en").open("a", encoding="utf-8") as file:
        file.write(f"{french}\n" * 7)
    with (tiny_corpus.parent / "train.de").open("a", encoding="utf-8") as file:
        file.write(f"{german}\n" * 7)
    folder = prepare(tiny_corpus, "corpus.steps=[language]")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    corpus = report["corpora"][0]
    assert corpus["dropped"]["source language"] == 7
    assert corpus["dropped_languages"]["fr → de"] == 7
    for_language = (number for why, number in corpus["dropped"].items() if "language" in why)
    assert sum(corpus["dropped_languages"].values()) == sum(for_language)
    assert "fr → de" in (folder / "report.html").read_text(encoding="utf-8")


def test_a_name_that_is_no_text_is_told(tiny_corpus):
    strange = os.fsencode(tiny_corpus.parent) + b"/caf\xe9.tsv"
    try:
        Path(os.fsdecode(strange)).write_text("a\tb\n")
    except OSError:
        pytest.skip("this file system has only names that are UTF-8")
    with pytest.raises(RecipeError, match=r"caf\\xe9.tsv' is not UTF-8"):
        prepare(tiny_corpus, "corpus.train=[{files: ['*.tsv']}]")
