"""Every pair is seen once per epoch, independent of the number of ranks and of interruptions."""

import json
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.manifest import Manifest, ManifestShard, read_manifest
from dragoman.data.sampler import Sampler, StreamPosition
from dragoman.data.store import Prepared, write_shard
from dragoman.errors import DataError
from dragoman.tokenizer.interface import BEGIN, END, PADDING

FIRST_TOKEN = 10


def write_corpus(folder, lengths, shards=3, origins=None):
    """Write a prepared folder; pair n has the given lengths and n as its first source token."""
    rows = [
        {
            "source": [FIRST_TOKEN + number, *[7] * (source - 1)],
            "target": [8] * target,
            "origin": 0 if origins is None else origins[number],
        }
        for number, (source, target) in enumerate(lengths)
    ]
    schema = pa.schema(
        [
            ("source", pa.list_(pa.uint16())),
            ("target", pa.list_(pa.uint16())),
            ("origin", pa.int32()),
        ]
    )
    listed = []
    for shard in range(shards):
        path = folder / f"train-{shard:05}.arrow"
        part = rows[shard::shards]
        write_shard(path, pa.Table.from_pylist(part, schema=schema), max_tokens=1000)
        listed.append(ManifestShard(file=path.name, rows=len(part)))
    counts = {origin: sum(row["origin"] == origin for row in rows) for origin in range(3)}
    manifest = Manifest(train=tuple(listed), origins=counts)
    (folder / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    return Prepared.open(folder)


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=1, max_size=60)


def numbers(planned):
    return [int(planned.shard.source(row)[0]) - FIRST_TOKEN for row in planned.rows]


def epoch_of(sampler, epoch=0):
    """Return all batches of one epoch."""
    batches = []
    for planned in sampler.batches(StreamPosition(epoch)):
        if planned.then.epoch != epoch:
            return batches
        batches.append(planned)
    raise AssertionError("the stream has ended")


@given(LENGTHS, st.integers(0, 5), st.integers(0, 2**32))
def test_each_pair_occurs_once_per_epoch_within_the_budget(tmp_path_factory, lengths, epoch, seed):
    prepared = write_corpus(tmp_path_factory.mktemp("corpus"), lengths)
    sampler = Sampler(prepared, seed, tokens=64)
    batches = epoch_of(sampler, epoch)
    pairs = [number for planned in batches for number in numbers(planned)]
    assert sorted(pairs) == list(range(len(lengths)))
    for planned in batches:
        batch = planned.read()
        assert batch.source.size <= 64
        assert batch.target.size <= 64


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_any_number_of_ranks_reads_the_same_updates(tmp_path, ranks):
    prepared = write_corpus(tmp_path, [(n % 13 + 1, n % 7) for n in range(200)])
    sampler = Sampler(prepared, 5, tokens=64)
    updates = 30
    alone = [
        list(share.batches.values())
        for share in islice(sampler.share(StreamPosition(), 8, 0, 1), updates)
    ]
    by_rank = [
        list(islice(sampler.share(StreamPosition(), 8, rank, ranks), updates))
        for rank in range(ranks)
    ]
    for update in range(updates):
        shares = [shares_of_rank[update] for shares_of_rank in by_rank]
        together = [planned for share in shares for planned in share.batches.values()]
        assert [numbers(planned) for planned in together] == [
            numbers(planned) for planned in alone[update]
        ]
        assert len({share.then for share in shares}) == 1
        assert [number for share in shares for number in share.batches] == list(range(8))


@pytest.mark.slow
@given(
    LENGTHS, st.lists(st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 3, 4, 8])), max_size=5)
)
@settings(max_examples=50)
def test_resuming_anywhere_with_other_ranks_changes_nothing(tmp_path_factory, lengths, plan):
    prepared = write_corpus(tmp_path_factory.mktemp("corpus"), lengths)
    sampler = Sampler(prepared, 7, tokens=64)
    total = sum(updates for updates, _ in plan)
    expected = [
        numbers(planned)
        for share in islice(sampler.share(StreamPosition(), 8, 0, 1), total)
        for planned in share.batches.values()
    ]
    batches, position = [], StreamPosition()
    for updates, ranks in plan:
        readers = [
            islice(sampler.share(position, 8, rank, ranks), updates) for rank in range(ranks)
        ]
        for shares in zip(*readers, strict=True):
            batches += [numbers(planned) for share in shares for planned in share.batches.values()]
            position = shares[0].then
    assert batches == expected


def test_the_order_depends_on_seed_and_epoch_alone(tmp_path):
    prepared = write_corpus(tmp_path, [(n % 13 + 1, n % 7) for n in range(100)])

    def order(seed, epoch):
        return [numbers(planned) for planned in epoch_of(Sampler(prepared, seed, 64), epoch)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(2, 0)
    assert order(1, 0) != order(1, 1)


def test_a_position_is_three_numbers_in_json():
    assert json.loads(json.dumps(StreamPosition(3, 1, 12))) == [3, 1, 12]


def test_a_batch_is_framed_and_padded(tmp_path):
    prepared = write_corpus(tmp_path, [(3, 2), (1, 0)], shards=1)
    (planned,) = epoch_of(Sampler(prepared, 1, 64))
    batch = planned.read()
    order = numbers(planned)
    long, short = order.index(0), order.index(1)
    assert batch.source[long].tolist() == [FIRST_TOKEN, 7, 7, END]
    assert batch.source[short].tolist() == [FIRST_TOKEN + 1, END, PADDING, PADDING]
    assert batch.target[long].tolist() == [BEGIN, 8, 8]
    assert batch.expected[long].tolist() == [8, 8, END]
    assert batch.target[short].tolist() == [BEGIN, PADDING, PADDING]
    assert batch.expected[short].tolist() == [END, PADDING, PADDING]
    assert batch.source_is_real.sum(axis=1).tolist() == [[4, 2][n] for n in order]
    assert batch.target_is_real.sum(axis=1).tolist() == [[3, 1][n] for n in order]


def test_temperature_samples_the_small_corpus_more_often(tmp_path):
    """Shares of 9/10 and 1/10 become 3/4 and 1/4 at T = 2; the number of pairs stays the same."""
    origins = [0] * 900 + [1] * 100
    prepared = write_corpus(tmp_path, [(3, 3)] * 1000, origins=origins)
    sampler = Sampler(prepared, 1, 512, temperature=2.0)
    counts = np.zeros(2)
    for epoch in range(20):
        for planned in epoch_of(sampler, epoch):
            counts += np.bincount(planned.shard.origins[planned.rows], minlength=2)
    # 20 epochs of 1,000 draws: the standard deviation of the share is about 0.003.
    assert counts.sum() == pytest.approx(20_000, rel=0.02)
    assert counts[1] / counts.sum() == pytest.approx(0.25, abs=0.015)


def test_weights_change_how_often_a_corpus_is_sampled(tmp_path):
    prepared = write_corpus(tmp_path, [(3, 3)] * 600, origins=[0] * 300 + [1] * 300)
    sampler = Sampler(prepared, 1, 512, weights={1: 3.0})
    counts = np.zeros(2)
    for epoch in range(10):
        for planned in epoch_of(sampler, epoch):
            counts += np.bincount(planned.shard.origins[planned.rows], minlength=2)
    assert counts[1] / counts[0] == pytest.approx(3.0, rel=0.1)


def test_a_pair_beyond_the_budget_is_reported(tmp_path):
    prepared = write_corpus(tmp_path, [(40, 3)])
    with pytest.raises(DataError, match="41 tokens on one side, more than the budget of 32"):
        next(Sampler(prepared, 1, 32).batches())


def test_an_empty_corpus_is_reported(tmp_path):
    prepared = write_corpus(tmp_path, [])
    with pytest.raises(DataError, match="no training pair"):
        next(Sampler(prepared, 1, 32).batches())


def test_an_unfinished_folder_is_reported(tmp_path):
    with pytest.raises(DataError, match="was not finished"):
        Prepared.open(tmp_path)


def test_memory_does_not_grow_with_the_number_of_shards(tmp_path):
    """A plan reads one shard only; the others may be missing until they are needed."""
    prepared = write_corpus(tmp_path, [(3, 3)] * 90, shards=3)
    first = next(Sampler(prepared, 1, 64).batches())
    assert first.then == StreamPosition(0, 0, 1)
    order = np.random.Generator(np.random.Philox(np.random.SeedSequence([1, 0]))).permutation(3)
    for shard in order[1:]:
        prepared.shard(shard).unlink()
    assert next(Sampler(prepared, 1, 64).batches()).rows.tolist() == first.rows.tolist()


def test_a_manifest_is_read_as_it_was_written(tmp_path):
    write_corpus(tmp_path, [(3, 3)] * 4, origins=[0, 0, 1, 1])
    manifest = read_manifest(tmp_path)
    assert manifest.origins == {0: 2, 1: 2, 2: 0}
    assert manifest.to_json() == (tmp_path / "manifest.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is damaged; type: dragoman prepare RECIPE"),
        ("[]", "is damaged"),
        ('{"format": 1}', "is damaged"),
        ('{"format": 99, "train": []}', "has format 99, expected 1"),
    ],
)
def test_a_damaged_manifest_is_reported(tmp_path, text, message):
    (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_manifest(tmp_path)
