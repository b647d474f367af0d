"""Synthetic corpora: what is translated, cached, dropped, tagged and refused.

The tasks run in this process, with a small random model. `tests/journey/test_synthetic.py` runs
`dragoman prepare`, with worker processes.
"""

import shutil

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.corpus import table
from dragoman.corpus.augmentation import AugmentationSettings
from dragoman.corpus.counts import NoCounts, ReadCounts, SplitCounts, TextCounts
from dragoman.corpus.discovery import find_corpora
from dragoman.corpus.filter import Pair
from dragoman.corpus.stage_key import FileHashes
from dragoman.corpus.stages import clean, encode, split, translate
from dragoman.corpus.stages.deduplicate import SignTask
from dragoman.corpus.stages.read import chunks_of, counts_of, read_pairs
from dragoman.corpus.stages.tokenizer import check_tags
from dragoman.corpus.stages.translate import TextTask, text_digest, translate_corpora
from dragoman.corpus.synthetic import load_translator
from dragoman.data.store import DataShard
from dragoman.errors import DataError, RecipeError
from dragoman.inference.translator import Translator
from dragoman.recipe.schema import Recipe
from dragoman.tokenizer.interface import BACK_TRANSLATION_TOKEN, RESERVED_TOKENS
from support.translator_models import (
    Scripted,
    hypothesis,
    lines,
    tokenizer,
    translator_with,
    write_run,
)

ONE_FILE = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with two models, one of each direction, and text of both languages."""
    folder = tmp_path_factory.mktemp("models")
    write_run(folder / "en-de", pair=("en", "de"))
    write_run(folder / "de-en", pair=("de", "en"), seed=2)
    (folder / "more.en").write_text("\n".join(lines(95, seed=3)) + "\n")
    (folder / "more.de").write_text("\n".join(lines(70, seed=4)) + "\n")
    yield folder
    load_translator.cache_clear()


def recipe_with(*entries, **sections):
    corpus = {"train": list(entries), "validation": [{"files": ["dev.tsv"]}]}
    return Recipe.model_validate(
        {"languages": {"source": "en", "target": "de"}, "corpus": corpus, **sections}
    )


FORWARD = {"synthetic": "forward", "model": "en-de", "files": ["more.en"]}
BACKWARD = {"synthetic": "backward", "model": "de-en", "files": ["more.de"]}


def corpora_of(recipe, folder):
    (folder / "dev.tsv").touch()
    return [corpus for corpus in find_corpora(recipe, folder) if corpus.synthetic]


def translate_in(folder, corpora, translations=None, order=None):
    """Run all tasks here, in the order of the stages; return the folders of the pairs."""
    ran = []

    def run(stage, tasks):
        waiting = [task for task in tasks if not task.is_done()]
        if order is not None:
            order.shuffle(waiting)
        for task in waiting:
            task.run()
            ran.append(stage)

    hashes = FileHashes(folder / "hashes.json")
    return translate_corpora(
        corpora, folder, translations or folder / "synthetic", hashes, run
    ), ran


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(translate, "BATCH_ROWS", 10)
    monkeypatch.setattr(translate, "CHUNK_BATCHES", 3)


# Text.

LINES = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0")))


def read_text(folder, texts, batch_rows, name="text"):
    file = folder / f"{name}.txt"
    file.write_bytes("".join(f"{text}\n" for text in texts).encode())
    result = folder / f"{name}-{batch_rows}"
    shutil.rmtree(result, ignore_errors=True)
    TextTask(result=result, file=file, batch_rows=batch_rows).run()
    return result


@given(texts=LINES, batch_rows=st.integers(1, 5))
@ONE_FILE
def test_text_is_cut_into_batches_and_nothing_is_lost(texts, batch_rows, tmp_path, monkeypatch):
    monkeypatch.setattr(translate, "CHUNK_BATCHES", 2)
    texts = [text.removeprefix("\ufeff") for text in texts]  # A byte order mark is not text.
    folder = read_text(tmp_path, texts, batch_rows)
    restored, batches, counts = [], [], []
    for chunk in chunks_of(folder):
        counts.append(table.read_counts(chunk, TextCounts))
        batches += counts[-1].batches
        restored += table.read(chunk)["text"].to_pylist()
    assert restored == texts
    assert [batch.rows for batch in batches[:-1]] == [batch_rows] * (len(batches) - 1)
    for number, batch in enumerate(batches):
        expected = texts[number * batch_rows :][:batch_rows]
        assert batch == (text_digest(expected), len(expected))
    assert [one.read for one in counts[:-1]] == [None] * (len(counts) - 1)
    assert counts[-1].read == ReadCounts(rows=len(texts), rejects={}, rejected_rows={})


def test_lines_that_cannot_be_read_are_counted_and_long_lines_are_not_translated(tmp_path):
    (tmp_path / "text").write_bytes(b"one\n\xff\n" + b"x" * 20_000 + b"\ntwo\n")
    TextTask(result=tmp_path / "folder", file=tmp_path / "text", batch_rows=10).run()
    (chunk,) = chunks_of(tmp_path / "folder")
    assert table.read(chunk)["text"].to_pylist() == ["one", "two"]
    assert table.read(chunk)["number"].to_pylist() == [1, 4]
    read = table.read_counts(chunk, TextCounts).read
    assert read.rows == 4
    assert read.rejects == {"not UTF-8": 1, "line too long": 1}
    assert read.rejected_rows == {"not UTF-8": [2], "line too long": [3]}


def test_more_text_at_the_end_keeps_the_batches_before(tmp_path):
    texts = lines(50)
    short, long = (
        read_text(tmp_path, texts[:count], 10, name) for count, name in ((37, "a"), (50, "b"))
    )
    digests = [
        [batch.digest for batch in table.read_counts(chunks_of(folder)[0], TextCounts).batches]
        for folder in (short, long)
    ]
    assert digests[0][:3] == digests[1][:3]
    assert digests[0][3] not in digests[1]


# Translations.


@pytest.mark.slow
def test_pairs_are_the_text_and_what_the_translator_writes(models, tmp_path, small_batches):
    corpora = corpora_of(recipe_with(FORWARD, BACKWARD), models)
    folders, _ = translate_in(tmp_path, corpora)
    for corpus, folder, model in zip(corpora, folders, ("en-de", "de-en"), strict=True):
        texts = corpus.files[0].read_text().splitlines()
        expected = []
        with Translator.load(models / model, threads=1) as translator:
            for start in range(0, len(texts), 10):
                batch = texts[start : start + 10]
                for text, translation in zip(batch, translator.translate(batch), strict=True):
                    is_bad = {"repetition", "length"} & set(translation.flags)
                    if not is_bad and translation.text:
                        pair = (text, translation.text)
                        expected.append(Pair(*(pair if model == "en-de" else pair[::-1])))
        assert list(read_pairs(folder)) == expected
        assert len(expected) > 20
        counts = counts_of(folder)
        assert counts.rows == len(texts)
        assert counts.rows == len(expected) + sum(one.count for one in counts.dropped.values())


def bytes_of(folders):
    return [[chunk.read_bytes() for chunk in chunks_of(folder)] for folder in folders]


@pytest.mark.slow
def test_any_order_and_any_interruption_give_the_same_bytes(
    models, tmp_path_factory, small_batches
):
    corpora = corpora_of(recipe_with(FORWARD, BACKWARD), models)
    whole = tmp_path_factory.mktemp("whole")
    folders, ran = translate_in(whole, corpora)
    expected = bytes_of(folders)
    assert ran.count("translate") == 10 + 7

    @settings(max_examples=5)
    @given(rng=st.randoms(use_true_random=False))
    def interrupt(rng):
        again = tmp_path_factory.mktemp("again")
        cache = again / "synthetic"
        shutil.copytree(whole / "synthetic", cache)
        files = sorted(cache.rglob("*.arrow"))
        removed = rng.sample(files, rng.randint(0, len(files)))
        for file in removed:
            file.unlink()
        folders, ran = translate_in(again, corpora, cache, order=rng)
        assert bytes_of(folders) == expected
        assert ran.count("translate") == len(removed)

    interrupt()


def test_pairs_that_exist_need_no_translations(models, tmp_path, small_batches):
    corpora = corpora_of(recipe_with(FORWARD), models)
    folders, _ = translate_in(tmp_path, corpora)
    shutil.rmtree(tmp_path / "synthetic")
    assert translate_in(tmp_path, corpora) == (folders, [])


def test_a_damaged_file_of_translations_is_named(models, tmp_path, small_batches):
    corpora = corpora_of(recipe_with(FORWARD), models)
    translate_in(tmp_path, corpora)
    shutil.rmtree(next(tmp_path.glob("pairs-*")))
    damaged = sorted((tmp_path / "synthetic").rglob("*.arrow"))[2]
    damaged.write_bytes(damaged.read_bytes()[:50])
    with pytest.raises(DataError, match=f"{damaged} are damaged"):
        translate_in(tmp_path, corpora)


def test_degenerate_and_empty_translations_are_dropped_and_counted(models, tmp_path, monkeypatch):
    trained = tokenizer()
    words = trained.encode(["one two three four, five six seven; eight"])[0]

    def script(source, _):
        text = trained.decode([source])[0]
        if text == "Loop.":
            return hypothesis(words[1:2] * 12)
        if text == "Cut.":
            return hypothesis(words, is_finished=False)
        return hypothesis([] if text == "Nothing." else words)

    translator = translator_with(Scripted(script))
    monkeypatch.setattr(translate, "load_translator", lambda _: translator)
    texts = ["Fine.", "Loop.", "", "Cut.", "Nothing.", "Loop.", "Also fine."]
    (tmp_path / "text.en").write_text("\n".join(texts) + "\n")
    recipe = recipe_with({**FORWARD, "files": [str(tmp_path / "text.en")]})
    (folder,), _ = translate_in(tmp_path, corpora_of(recipe, models))
    assert [pair.source for pair in read_pairs(folder)] == ["Fine.", "Also fine."]
    dropped = counts_of(folder).dropped
    assert {reason: rows.count for reason, rows in dropped.items()} == {
        "degenerate translation: repetition": 2,
        "degenerate translation: length": 1,
        "empty": 2,
    }
    assert dropped["degenerate translation: repetition"].examples[0].source == "Loop."
    assert [one.row for one in dropped["empty"].examples] == [3, 5]


# The key of a model.


def key_of(folder, **changes):
    (corpus,) = corpora_of(recipe_with({**FORWARD, **changes}), folder)
    return corpus.synthetic.model.key


@pytest.mark.slow
def test_the_key_depends_on_weights_tokenizer_and_settings_and_on_nothing_else(models, tmp_path):
    (tmp_path / "more.en").write_text("one\n")
    shutil.copytree(models / "en-de", tmp_path / "en-de")
    shutil.copytree(models / "en-de", tmp_path / "moved" / "elsewhere")
    key = key_of(tmp_path)
    assert key == key_of(models)
    assert key_of(tmp_path, model="moved/elsewhere") == key
    others = [key_of(tmp_path, decoding={"beam_size": 2})]
    write_run(tmp_path / "weights", seed=9)
    write_run(tmp_path / "tokenizer", languages=("en", "de"))
    write_run(tmp_path / "recipe", filters=())
    others += [key_of(tmp_path, model=name) for name in ("weights", "tokenizer", "recipe")]
    others.append(key_of(tmp_path, model=["en-de", "en-de"]))
    others.append(key_of(tmp_path, decoding={"search": "sample"}))
    assert len({key, *others}) == 1 + len(others)


@pytest.mark.slow
def test_an_ensemble_translates(models, tmp_path):
    write_run(tmp_path / "one")
    write_run(tmp_path / "two", seed=2)
    (tmp_path / "more.en").write_text("\n".join(lines(12)) + "\n")
    corpora = corpora_of(recipe_with({**FORWARD, "model": ["one", "two"]}), tmp_path)
    (folder,), _ = translate_in(tmp_path, corpora)
    load_translator.cache_clear()
    with Translator.load([tmp_path / "one", tmp_path / "two"], threads=1) as ensemble:
        written = {text.text for text in ensemble.translate(lines(12))}
    pairs = list(read_pairs(folder))
    assert pairs
    assert {pair.target for pair in pairs} <= written
    assert corpora[0].name == "more.en (forward, one and two)"


# Mistakes.


def mistakes_of(recipe, folder):
    with pytest.raises(RecipeError) as caught:
        find_corpora(recipe, folder)
    return {mistake.path: mistake.what for mistake in caught.value.mistakes}


def test_all_mistakes_of_all_corpora_are_reported_at_once(models, tmp_path):
    for name in ("en-de", "de-en"):
        shutil.copytree(models / name, tmp_path / name)
    (tmp_path / "two.tsv").write_text("one\teins\ntwo\tzwei\n")
    (tmp_path / "more.csv").write_text("en,de\n")
    (tmp_path / "more.en").write_text("one\n")
    (tmp_path / "dev.tsv").touch()
    recipe = recipe_with(
        {"synthetic": "forward", "model": "no/run", "files": ["no.en"]},
        {"synthetic": "forward", "model": "de-en", "files": ["two.tsv"]},
        {"synthetic": "backward", "model": "de-en", "files": ["more.csv"], "language": "fr"},
        {**FORWARD, "decoding": {"top_k": 5}},
        training={"folder": "en-de"},
    )
    what = mistakes_of(recipe, tmp_path)
    assert set(what) == {
        "corpus.train.0.files",
        "corpus.train.0.model",
        "corpus.train.1.files",
        "corpus.train.1.model",
        "corpus.train.2.files",
        "corpus.train.2.language",
        "corpus.train.2.model",
        "corpus.train.3.model",
        "corpus.train.3.decoding.top_k",
    }
    assert "there is no folder" in what["corpus.train.0.model"]
    assert "no file 'no.en'" in what["corpus.train.0.files"]
    assert "2 columns" in what["corpus.train.1.files"]
    assert f"cut -f1 {tmp_path / 'two.tsv'} > new-file" in what["corpus.train.1.files"]
    assert "translates de → en, expected en → de" in what["corpus.train.1.model"]
    assert "synthetic: backward if the files are target text" in what["corpus.train.1.model"]
    assert "is a .csv file" in what["corpus.train.2.files"]
    assert "no token for 'fr'" in what["corpus.train.2.language"]
    assert "the folder that this recipe trains" in what["corpus.train.3.model"]
    assert "decoding.search" in what["corpus.train.3.decoding.top_k"]


def test_a_model_that_is_not_finished_is_refused(models, tmp_path):
    shutil.copytree(models / "en-de", tmp_path / "en-de")
    (tmp_path / "en-de" / "format.json").unlink()
    (tmp_path / "more.en").write_text("one\n")
    (tmp_path / "dev.tsv").touch()
    what = mistakes_of(recipe_with(FORWARD), tmp_path)
    assert "not finished" in what["corpus.train.0.model"]


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"files": ["a", "b"], "model": "x"}, "corpus.train.0.model"),
        ({"files": ["a", "b"], "decoding": {"beam_size": 1}}, "corpus.train.0.decoding"),
        ({"files": ["a", "b"], "tag": True}, "corpus.train.0.tag"),
        ({"files": ["a"], "synthetic": "forward"}, "corpus.train.0.model"),
        ({**FORWARD, "tag": True}, "corpus.train.0.tag"),
        ({**FORWARD, "format": "tsv"}, "corpus.train.0.format"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(entry, path):
    with pytest.raises(RecipeError) as caught:
        recipe_with(entry)
    assert [mistake.path for mistake in caught.value.mistakes] == [path]


def test_only_synthetic_corpora_need_a_validation_set(models):
    recipe = Recipe.model_validate(
        {"languages": {"source": "en", "target": "de"}, "corpus": {"train": [FORWARD]}}
    )
    assert "never held out" in mistakes_of(recipe, models)["corpus.validation"]


# What the later stages do with synthetic pairs.


def rows_file(path, rows):
    """Write a bucket: (origin, source, target), sorted by key."""
    batches = [
        clean.to_batch(origin, [number], [Pair(source, target)])
        for number, (origin, source, target) in enumerate(rows)
    ]
    rows = pa.Table.from_batches(batches).sort_by("key")
    table.write(path, [table.one_batch(rows)], NoCounts())
    return path


def test_synthetic_pairs_are_never_held_out_and_never_contain_held_out_text(tmp_path):
    human = [(0, f"human source {number}", f"human target {number}") for number in range(200)]
    forward = [(1, source, f"machine target {n}") for n, (_, source, _) in enumerate(human)]
    backward = [(2, f"machine source {n}", target) for n, (_, _, target) in enumerate(human)]
    other = [(2, f"machine source of other text {n}", f"other text {n}") for n in range(100)]
    rows = rows_file(tmp_path / "rows.arrow", human + forward + backward + other)
    chosen = split.SplitSettings(1, 0.1, 0.1, synthetic=(1, 2))
    held_out = tmp_path / "held-out.arrow"
    split.HeldOutTask(result=held_out, rows=rows, settings=chosen).run()
    result = tmp_path / "split.arrow"
    task = split.SplitTask(
        result=result, rows=rows, votes=(), bucket=0, settings=chosen, held_out=(held_out,)
    )
    task.run()
    train, *sets = (table.read_bucket([result], index) for index in range(3))
    tested = pa.concat_tables(sets)
    assert set(tested["origin"].to_pylist()) == {0}
    assert len(tested) > 20
    for side in ("source", "target"):
        assert not set(train[side].to_pylist()) & set(tested[side].to_pylist())
    counts = table.read_counts(result, SplitCounts)
    assert counts.leaked == {1: len(tested), 2: len(tested)}
    assert len(train) == 700 - 3 * len(tested)


def test_near_duplicates_are_searched_among_human_pairs_only(tmp_path):
    text = " ".join(lines(3))
    rows = rows_file(tmp_path / "rows.arrow", [(0, text, text), (1, text, f"{text}!")])
    task = SignTask(result=tmp_path / "sign.arrow", rows=rows, buckets=1, synthetic=(1,))
    task.run()
    keys = set(table.read(task.result)["key"].to_pylist())
    assert keys == {clean.key_of(text, text)}


def saved_tokenizer(folder, trained):
    folder.mkdir(parents=True)
    trained.save(folder)
    return folder


@pytest.mark.parametrize("kind", ["sentencepiece", "words", "characters"])
def test_a_tagged_source_begins_with_the_tag_and_is_otherwise_the_same(kind, tmp_path):
    trained = tokenizer(kind)
    texts = [(origin, text, ("one", "two")[origin]) for origin in (0, 1) for text in lines(20)]
    rows = rows_file(tmp_path / "rows.arrow", texts)
    batches = table.scatter(table.one_batch(table.read(rows)), np.zeros(len(texts)), 3)
    table.write(tmp_path / "split.arrow", batches, NoCounts())
    encode.EncodeTask(
        result=tmp_path / "shard.arrow",
        rows=tmp_path / "split.arrow",
        tokenizers=(saved_tokenizer(tmp_path / "tokenizer", trained),) * 2,
        augmentation=AugmentationSettings(0, 0, 0, 1),
        glossary=None,
        tagged=(1,),
        max_tokens=100,
        threads=1,
    ).run()
    shard = DataShard.open(tmp_path / "shard.arrow")
    tag = trained.id_of(BACK_TRANSLATION_TOKEN)
    written = {0: [], 1: []}
    for row in range(len(shard)):
        ids = shard.source(row).tolist()
        origin = ("one", "two").index(trained.decode([shard.target(row).tolist()])[0])
        assert ids.count(tag) == origin
        written[origin].append(trained.decode([ids])[0])
        plain = trained.encode([written[origin][-1].removeprefix(f"{BACK_TRANSLATION_TOKEN} ")])[0]
        assert ids[len(ids) - len(plain) :] == plain
    assert sorted(f"{BACK_TRANSLATION_TOKEN} {text}" for text in written[0]) == sorted(written[1])


def test_a_tag_needs_a_tokenizer_with_its_token(tmp_path):
    recipe = recipe_with({**BACKWARD, "tag": True}, tokenizer={"init_from": "old"})
    pieces = [token for token in RESERVED_TOKENS if token != BACK_TRANSLATION_TOKEN]
    old = type(tokenizer("words"))(["en"], [*pieces, "one"])
    files = []
    for name, trained in (("old", old), ("new", tokenizer("words"))):
        folder = saved_tokenizer(tmp_path / name, trained)
        files.append((folder / "words.json", folder / "words.json"))
    with pytest.raises(RecipeError, match="the tokenizer of old has no token for the tag"):
        check_tags(recipe, files[0])
    check_tags(recipe, files[1])
    check_tags(recipe_with(BACKWARD), files[0])
    by_bytes = recipe_with({**BACKWARD, "tag": True}, tokenizer={"kind": "bytes"})
    with pytest.raises(RecipeError, match="bytes has no token for the tag"):
        check_tags(by_bytes, None)


def test_text_with_tabs_in_some_lines_is_text(models, tmp_path):
    (tmp_path / "more.en").write_text("one\ttwo\nthree\n")
    shutil.copytree(models / "en-de", tmp_path / "en-de")
    assert corpora_of(recipe_with(FORWARD), tmp_path)


def test_human_pairs_come_first(models):
    (models / "train.en").touch()
    (models / "train.de").touch()
    entries = [FORWARD, {"files": ["train.en", "train.de"]}, BACKWARD]
    names = [corpus.name for corpus in find_corpora(recipe_with(*entries), models)]
    assert names == [
        "train.en + train.de",
        "more.en (forward, en-de)",
        "more.de (backward, de-en)",
        "dev.tsv",
    ]
