"""Is every pair seen once an epoch, whatever the ranks and whenever a run was stopped?"""

import json
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.sampler import Place, Sampler
from dragoman.data.store import FORMAT, Prepared, write_shard
from dragoman.errors import DataError
from dragoman.tokenizer.interface import BEGIN, END, PADDING

FIRST_WORD = 10


def write_corpus(folder, lengths, shards=3, origins=None):
    """A prepared folder whose pair n has the lengths given and n as its first source token."""
    rows = [
        {
            "source": [FIRST_WORD + number, *[7] * (source - 1)],
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
        write_shard(path, pa.Table.from_pylist(part, schema=schema), longest=1000)
        listed.append({"file": path.name, "rows": len(part)})
    counts = {str(n): sum(row["origin"] == n for row in rows) for n in range(3)}
    manifest = {"format": FORMAT, "train": listed, "origins": counts}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return Prepared.open(folder)


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=1, max_size=60)


def numbers(planned):
    return [int(planned.shard.source(row)[0]) - FIRST_WORD for row in planned.rows]


def epoch_of(sampler, epoch=0):
    """All batches of one epoch."""
    found = []
    for planned in sampler.batches(Place(epoch)):
        if planned.then.epoch != epoch:
            return found
        found.append(planned)
    raise AssertionError("the stream has ended")


@given(LENGTHS, st.integers(0, 5), st.integers(0, 2**32))
def test_each_pair_once_an_epoch_within_the_budget(tmp_path_factory, lengths, epoch, seed):
    prepared = write_corpus(tmp_path_factory.mktemp("corpus"), lengths)
    sampler = Sampler(prepared, seed, tokens=64)
    batches = epoch_of(sampler, epoch)
    seen = [number for planned in batches for number in numbers(planned)]
    assert sorted(seen) == list(range(len(lengths)))
    for planned in batches:
        batch = planned.read()
        assert batch.source.size <= 64
        assert batch.target.size <= 64


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_any_number_of_ranks_reads_the_same_steps(tmp_path, ranks):
    prepared = write_corpus(tmp_path, [(n % 13 + 1, n % 7) for n in range(200)])
    sampler = Sampler(prepared, 5, tokens=64)
    steps = 30
    alone = [list(step.batches.values()) for step in islice(sampler.share(Place(), 8, 0, 1), steps)]
    shared = [list(islice(sampler.share(Place(), 8, rank, ranks), steps)) for rank in range(ranks)]
    for step in range(steps):
        together = [planned for each in shared for planned in each[step].batches.values()]
        assert [numbers(each) for each in together] == [numbers(each) for each in alone[step]]
        assert len({each[step].then for each in shared}) == 1
        assert [number for each in shared for number in each[step].batches] == list(range(8))


@given(
    LENGTHS, st.lists(st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 3, 4, 8])), max_size=5)
)
@settings(max_examples=50)
def test_resuming_anywhere_with_other_ranks_changes_nothing(tmp_path_factory, lengths, plan):
    prepared = write_corpus(tmp_path_factory.mktemp("corpus"), lengths)
    sampler = Sampler(prepared, 7, tokens=64)
    total = sum(steps for steps, _ in plan)
    whole = [
        numbers(planned)
        for step in islice(sampler.share(Place(), 8, 0, 1), total)
        for planned in step.batches.values()
    ]
    found, place = [], Place()
    for steps, ranks in plan:
        readers = [islice(sampler.share(place, 8, rank, ranks), steps) for rank in range(ranks)]
        for each in zip(*readers, strict=True):
            found += [numbers(planned) for share in each for planned in share.batches.values()]
            place = each[0].then
    assert found == whole


def test_the_order_depends_on_seed_and_epoch_alone(tmp_path):
    prepared = write_corpus(tmp_path, [(n % 13 + 1, n % 7) for n in range(100)])

    def order(seed, epoch):
        return [numbers(planned) for planned in epoch_of(Sampler(prepared, seed, 64), epoch)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(2, 0)
    assert order(1, 0) != order(1, 1)


def test_a_place_is_small_and_plain():
    assert json.loads(json.dumps(Place(3, 1, 12))) == [3, 1, 12]


def test_a_batch_is_framed_and_padded(tmp_path):
    prepared = write_corpus(tmp_path, [(3, 2), (1, 0)], shards=1)
    (planned,) = epoch_of(Sampler(prepared, 1, 64))
    batch = planned.read()
    order = numbers(planned)
    long, short = order.index(0), order.index(1)
    assert batch.source[long].tolist() == [FIRST_WORD, 7, 7, END]
    assert batch.source[short].tolist() == [FIRST_WORD + 1, END, PADDING, PADDING]
    assert batch.target[long].tolist() == [BEGIN, 8, 8]
    assert batch.expected[long].tolist() == [8, 8, END]
    assert batch.target[short].tolist() == [BEGIN, PADDING, PADDING]
    assert batch.expected[short].tolist() == [END, PADDING, PADDING]
    assert batch.source_is_real.sum(axis=1).tolist() == [[4, 2][n] for n in order]
    assert batch.target_is_real.sum(axis=1).tolist() == [[3, 1][n] for n in order]


def test_temperature_lets_the_small_corpus_be_seen_more_often(tmp_path):
    """With shares of 9/10 and 1/10 and T = 2: 3/4 and 1/4 of as many pairs."""
    origins = [0] * 900 + [1] * 100
    prepared = write_corpus(tmp_path, [(3, 3)] * 1000, origins=origins)
    sampler = Sampler(prepared, 1, 512, temperature=2.0)
    seen = np.zeros(2)
    for epoch in range(20):
        for planned in epoch_of(sampler, epoch):
            seen += np.bincount(planned.shard.origins[planned.rows], minlength=2)
    # 20 epochs of 1,000 draws: the share's deviation is about 0.003.
    assert seen.sum() == pytest.approx(20_000, rel=0.02)
    assert seen[1] / seen.sum() == pytest.approx(0.25, abs=0.015)


def test_weights_change_how_often_a_corpus_is_seen(tmp_path):
    prepared = write_corpus(tmp_path, [(3, 3)] * 600, origins=[0] * 300 + [1] * 300)
    sampler = Sampler(prepared, 1, 512, weights={1: 3.0})
    seen = np.zeros(2)
    for epoch in range(10):
        for planned in epoch_of(sampler, epoch):
            seen += np.bincount(planned.shard.origins[planned.rows], minlength=2)
    assert seen[1] / seen[0] == pytest.approx(3.0, rel=0.1)


def test_a_pair_beyond_the_budget_is_told(tmp_path):
    prepared = write_corpus(tmp_path, [(40, 3)])
    with pytest.raises(DataError, match="41 tokens on one side, more than the budget of 32"):
        next(Sampler(prepared, 1, 32).batches())


def test_an_empty_corpus_is_told(tmp_path):
    prepared = write_corpus(tmp_path, [])
    with pytest.raises(DataError, match="no training pair"):
        next(Sampler(prepared, 1, 32).batches())


def test_a_folder_that_is_not_finished_is_told(tmp_path):
    with pytest.raises(DataError, match="was not finished"):
        Prepared.open(tmp_path)


def test_memory_does_not_grow_with_the_number_of_shards(tmp_path):
    """A plan touches one shard: the others may even be missing until they are needed."""
    prepared = write_corpus(tmp_path, [(3, 3)] * 90, shards=3)
    first = next(Sampler(prepared, 1, 64).batches())
    assert first.then == Place(0, 0, 1)
    order = np.random.Generator(np.random.Philox(np.random.SeedSequence([1, 0]))).permutation(3)
    for shard in order[1:]:
        prepared.shards[shard].unlink()
    assert next(Sampler(prepared, 1, 64).batches()).rows.tolist() == first.rows.tolist()
