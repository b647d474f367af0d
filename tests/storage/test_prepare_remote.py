"""Does preparation write the same bytes when everything is in a store?"""

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from dragoman.corpus import pipeline, table
from dragoman.corpus.counts import NoCounts
from dragoman.corpus.readers.csv import Csv
from dragoman.corpus.readers.lines import Lines
from dragoman.corpus.readers.parquet import Parquet
from dragoman.corpus.readers.po import Po
from dragoman.corpus.readers.tmx import Tmx
from dragoman.corpus.stages.clean import CleanTask
from dragoman.errors import DataError
from dragoman.storage import mirror
from dragoman.storage.files import link_or_copy
from dragoman.storage.mirror import local_path, path_text
from dragoman.storage.remote import Store, open_store
from dragoman.workflow import preparation
from support.fault_proxy import fault_proxy
from support.shared_data import shared_data
from support.small_corpus import published, write_corpus

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def small_tasks(monkeypatch):
    """Cut the corpus into many small tasks, although it would fit into one."""
    monkeypatch.setattr(pipeline, "CHUNK_ROWS", (300, 300))
    monkeypatch.setattr(pipeline, "BUCKET_ROWS", 500)


def upload(folder: Path, url: str) -> None:
    """Copy all files of a folder into a store."""
    for file in folder.iterdir():
        if file.is_file():
            link_or_copy(file, local_path(url) / file.name)


@pytest.mark.slow
def test_everything_in_a_store_gives_the_same_bytes(folder_url, tmp_path, small_tasks):
    recipe = write_corpus(tmp_path / "local")
    local = published(preparation.prepare(recipe, workers=1).folder)
    upload(tmp_path / "local", folder_url)
    result = preparation.prepare(f"{folder_url}/recipe.yaml", workers=1)
    assert path_text(result.folder) == f"{folder_url}/prepared"
    assert published(result.folder) == local
    # Nothing was written beside the cache and the store.
    assert sorted(path.name for path in tmp_path.iterdir()) in (
        ["cache", "local"],
        ["cache", "local", "store"],
    )
    # A second run has nothing to do.
    reports = []
    preparation.prepare(f"{folder_url}/recipe.yaml", workers=1, on_progress=reports.append)
    assert all(step.done == step.total for step in reports if step.stage != "report")
    assert published(result.folder) == local


@pytest.mark.parametrize(
    ("reader", "names", "content"),
    [
        (Csv("en", "fr"), ["text.csv"], b"en,de\na,b\n"),
        (Csv("en", "de"), ["text.csv.gz"], b"not compressed"),
        (Lines("en", "de"), ["text.en", "text.de"], "Äh".encode("utf-16")),
        (Parquet("en", "de"), ["text.parquet"], b"no table"),
        (Po("en", "de"), ["text.po"], b'msgid ""\nmsgstr "Content-Type: x; charset=utf-7\\n"\n'),
        (Tmx("en", "de"), ["text.tmx"], b"<tmx><body>"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_error_names_the_url_of_a_file_and_not_its_path_in_the_mirror(
    tmp_path, monkeypatch, reader, names, content
):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    for name in names:
        (tmp_path / name).write_bytes(content)
    paths = [local_path(f"file://{tmp_path}/{name}") for name in names]
    with pytest.raises(DataError) as caught:
        list(reader.read(paths))
    assert f"file://{tmp_path}/{names[0]}" in str(caught.value)
    assert "cache" not in str(caught.value)


@pytest.mark.slow
def test_the_command_prepares_in_a_store_and_names_only_urls(bucket, tmp_path):
    write_corpus(tmp_path / "local")
    upload(tmp_path / "local", bucket)
    settings = ["corpus.held_out=50", "corpus.duplicates=exact"]
    command = [sys.executable, "-m", "dragoman", "prepare"]
    done = subprocess.run(
        [*command, f"{bucket}/recipe.yaml", *settings], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert f"Report: {bucket}/prepared/report.html" in done.stdout
    assert f"dragoman train {bucket}/recipe.yaml" in done.stdout
    assert str(tmp_path) not in done.stdout + done.stderr
    recipe = tmp_path / "local" / "recipe.yaml"
    subprocess.run([*command, recipe, *settings], check=True, capture_output=True)
    remote = published(local_path(f"{bucket}/prepared"))
    assert remote == published(tmp_path / "local" / "prepared")
    for name in remote:
        with mirror.open_stream(local_path(f"{bucket}/prepared") / name) as file:
            content = file.read()
        assert b"test-secret-key" not in content
        assert b"test-access-key" not in content


@pytest.mark.slow
def test_a_local_recipe_may_name_remote_files(folder_url, tmp_path, small_tasks):
    recipe = write_corpus(tmp_path / "local")
    local = preparation.prepare(recipe, workers=1)
    upload(tmp_path / "local", folder_url)
    text = recipe.read_text()
    for name in ("part-*.en", "part-*.de", "extra.tsv"):
        text = text.replace(name, f"{folder_url}/{name}")
    other = tmp_path / "other" / "recipe.yaml"
    other.parent.mkdir()
    other.write_text(text)
    result = preparation.prepare(other, [f"corpus.folder={folder_url}/elsewhere"], workers=2)
    # The recipe differs, so its hash and the names of the corpora do; the shards do not.
    assert result.manifest.train == local.manifest.train
    assert result.manifest.files == local.manifest.files
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["recipe.yaml"]


@pytest.mark.slow
def test_a_store_with_faults_gives_the_same_bytes(
    server, bucket, tmp_path, small_tasks, monkeypatch
):
    recipe = write_corpus(tmp_path / "local", count=600)
    local = published(preparation.prepare(recipe, workers=1).folder)
    # A stale list would hide inputs from a pattern, so the inputs are named.
    text = "preset: tiny\n" + recipe.read_text().partition("\n")[2]
    text = text.replace("['part-*.en', 'part-*.de']", "[part-0.en, part-0.de]")
    text = text.replace(
        "    - {files: [extra", "    - {files: [part-1.en, part-1.de]}\n    - {files: [extra"
    )
    recipe.write_text(text)
    named = published(preparation.prepare(recipe, workers=1).folder)
    shards = {name: value for name, value in named.items() if name.startswith("train-")}
    assert shards == {name: value for name, value in local.items() if name.startswith("train-")}
    upload(tmp_path / "local", bucket)
    with fault_proxy(server.address, seed=3) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        open_store.cache_clear()
        result = preparation.prepare(f"{bucket}/recipe.yaml", workers=1)
        assert proxy.counts.total() > 50
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{server.address}")
    open_store.cache_clear()
    assert published(result.folder) == named


def test_a_bucket_is_read_without_the_rest_of_the_file(folder_url, monkeypatch):
    path = local_path(folder_url) / "scattered.arrow"
    rows = 40_000
    batches = [
        pa.RecordBatch.from_pydict({"text": [f"{bucket} {row * 7919}" for row in range(rows)]})
        for bucket in range(8)
    ]
    table.write(path, batches, NoCounts())
    read: list[int] = []
    real = Store.read_range
    monkeypatch.setattr(
        Store,
        "read_range",
        lambda self, key, start, length: read.append(length) or real(self, key, start, length),
    )
    assert table.read_bucket([path], 3)["text"][5].as_py() == f"3 {5 * 7919}"
    assert table.batch_count(path) == 8
    assert sum(read) < mirror.size(path) / 3
    assert len(read) <= 6


def test_a_task_is_sent_without_local_paths(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    folder = local_path("s3://texts/work")
    task = CleanTask(
        result=folder / "clean-1" / "chunk",
        chunk=folder / "read-1" / "chunk",
        origin=0,
        source="en",
        target="de",
        filters=(),
        leakage=folder / "leakage-1",
        is_aligned_by_line=False,
        buckets=1,
    )
    text = task.model_dump_json()
    assert str(tmp_path) not in text
    assert json.loads(text)["result"] == "s3://texts/work/clean-1/chunk"
    assert CleanTask.model_validate_json(text) == task


@pytest.mark.parametrize("extension", ["", ".gz", ".bz2", ".xz", ".zst"])
def test_compressed_corpora_are_streamed(folder_url, tmp_path, extension):
    from dragoman.corpus.files import read_lines

    file = tmp_path / f"text{extension}"
    lines = [f"line {number} {number * 7919}" for number in range(20_000)]
    data = "".join(f"{line}\n" for line in lines).encode()
    if extension == ".zst":
        with pa.CompressedOutputStream(str(file), "zstd") as sink:
            sink.write(data)
    else:
        import bz2
        import lzma

        openers = {"": open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
        with openers[extension](file, "wb") as sink:
            sink.write(data)
    link_or_copy(file, local_path(folder_url) / file.name)
    remote = local_path(folder_url) / file.name
    assert [line for _, line in read_lines(remote)] == lines
    assert not remote.exists()


def test_parquet_is_read_in_ranges(folder_url, tmp_path):
    from dragoman.corpus.readers.parquet import Parquet

    file = tmp_path / "pairs.parquet"
    pa.parquet.write_table(pa.table({"en": ["a", "b"], "de": ["x", "y"]}), file)
    remote = local_path(folder_url) / file.name
    link_or_copy(file, remote)
    assert [tuple(row) for row in Parquet("en", "de").read([remote])] == [
        (1, "a", "x"),
        (2, "b", "y"),
    ]
    assert Parquet.columns_in([remote]) == ("en", "de")


def test_a_missing_remote_corpus_is_a_mistake_of_the_recipe(folder_url, tmp_path):
    from dragoman.errors import RecipeError

    recipe = write_corpus(tmp_path / "local")
    text = re.sub(r"extra.tsv", f"{folder_url}/absent.tsv", recipe.read_text())
    recipe.write_text(text)
    with pytest.raises(RecipeError, match=r"there is no file '(s3|az|file)://.*absent.tsv'"):
        preparation.prepare(recipe, workers=1)


@pytest.mark.slow
def test_multi30k_in_a_store_gives_the_same_bytes(bucket, tmp_path):
    data = shared_data() / "multi30k"
    folder = tmp_path / "local"
    folder.mkdir()
    for name in ("train.en.gz", "train.de.gz", "val.en.gz", "val.de.gz"):
        shutil.copy(data / name, folder)
    (folder / "recipe.yaml").write_text(
        "preset: tiny\nlanguages: {source: en, target: de}\n"
        "corpus:\n  train: [{files: [train.en.gz, train.de.gz]}]\n"
        "  validation: [{files: [val.en.gz, val.de.gz]}]\n"
    )
    local = published(preparation.prepare(folder / "recipe.yaml", workers=2).folder)
    upload(folder, bucket)
    remote = preparation.prepare(f"{bucket}/recipe.yaml", workers=2)
    assert published(remote.folder) == local
