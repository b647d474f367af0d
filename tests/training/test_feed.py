"""Do batches reach the model as they were planned, ahead of time, and spelled as they should be?"""

import threading
from itertools import islice

import numpy as np
import pytest
import torch

import digits
from dragoman.data.sampler import Place, Sampler, Share
from dragoman.errors import DataError
from dragoman.tokenizer.dropout import Dropout
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import END
from dragoman.training.feed import Feed, Spelling

CPU = torch.device("cpu")
TEXTS = [
    ("the cat sat on the mat", "die Katze saß auf der Matte"),
    ("the other cats sat there", "die anderen Katzen saßen dort"),
    ("hello other world", "hallo andere Welt"),
    ("the bears like the green apples", "die Bären mögen die grünen Äpfel"),
]
PAIRS = [
    (f"{source} {number}", f"{target} {number}") for number in range(20) for source, target in TEXTS
]
RATE, SEED = 0.3, 5


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    return digits.write_prepared(folder, PAIRS, PAIRS[:4], kind="sentencepiece")


@pytest.fixture(scope="module")
def tokenizers(prepared):
    folder = prepared.folder / "tokenizer"
    return load_tokenizer(folder / "source"), load_tokenizer(folder / "target")


def feed(prepared, *, tokens=256, micro_batches=4, rank=0, ranks=1, spelling=None):
    sampler = Sampler(prepared, 1, tokens)
    return Feed(sampler, micro_batches, rank, ranks, CPU, spelling)


def spelling(tokenizers, rate=RATE, seed=SEED):
    dropouts = tuple(Dropout(each, rate, seed) for each in tokenizers)
    return Spelling(tokenizers, dropouts)


def first(generator, count):
    found = list(islice(generator, count))
    generator.close()
    return found


def test_the_tensors_are_the_samplers_batches(prepared):
    steps = first(feed(prepared).steps(Place()), 9)
    shares = islice(Sampler(prepared, 1, 256).share(Place(), 4, 0, 1), 9)
    for step, share in zip(steps, shares, strict=True):
        assert step.then == share.then
        assert list(step.batches) == list(share.batches) == [0, 1, 2, 3]
        pairs = source_tokens = 0
        for number, planned in share.batches.items():
            batch = planned.read()
            for tensor, array in zip(step.batches[number], batch, strict=True):
                np.testing.assert_array_equal(tensor.numpy(), array)
            assert step.target_tokens[number] == batch.target_is_real.sum()
            pairs += len(planned.rows)
            source_tokens += batch.source_is_real.sum()
        assert (step.pairs, step.source_tokens) == (pairs, source_tokens)


def test_it_begins_where_it_is_told(prepared):
    whole = first(feed(prepared).steps(Place()), 6)
    rest = first(feed(prepared).steps(whole[2].then), 3)
    for late, again in zip(whole[3:], rest, strict=True):
        assert late.then == again.then
        for number, batch in late.batches.items():
            assert all(x.equal(y) for x, y in zip(batch, again.batches[number], strict=True))


class Watched:
    """A sampler that says which steps were asked for."""

    def __init__(self, until=1000):
        self.asked = []
        self.until = until
        self.has_come = threading.Condition()

    def share(self, place, micro_batches, rank, ranks):
        for number in range(self.until):
            with self.has_come:
                self.asked.append((number, threading.current_thread().name))
                self.has_come.notify_all()
            yield Share({}, Place(batch=number))
        raise DataError("a shard cannot be read")

    def wait_for(self, count):
        with self.has_come:
            return self.has_come.wait_for(lambda: len(self.asked) >= count, timeout=20)


def test_the_next_step_is_read_while_this_one_is_learned_and_no_more():
    sampler = Watched()
    steps = Feed(sampler, 1, 0, 1, CPU).steps(Place())
    assert sampler.asked == [], "nothing is read before it is wanted"
    for number in range(5):
        assert next(steps).then.batch == number
        assert sampler.wait_for(number + 2)
        assert len(sampler.asked) == number + 2
    assert all(name.startswith("feed") for _, name in sampler.asked)
    steps.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("feed")]


def test_what_goes_wrong_in_the_thread_is_told_at_its_step():
    steps = Feed(Watched(until=2), 1, 0, 1, CPU).steps(Place())
    assert [next(steps).then.batch, next(steps).then.batch] == [0, 1]
    with pytest.raises(DataError, match="cannot be read"):
        next(steps)


def rows(ids):
    """The ids of each sentence, without its end and padding."""
    return [tuple(row[: row.index(END)]) for row in ids.tolist()]


def spelled(prepared, tokenizers, epochs=2, **options):
    """The spelling of each pair in each epoch: {(epoch, source text): (source ids, target ids)}."""
    made = feed(prepared, spelling=spelling(tokenizers), **options)
    found = {}
    # A step may lie across the border of two epochs: their order is the stream's.
    sampler = made.sampler
    shares = sampler.share(Place(), made.micro_batches, made.rank, made.ranks)
    for share, step in zip(shares, made.steps(Place()), strict=False):
        for number, planned in share.batches.items():
            batch = step.batches[number]
            sources, targets = rows(batch.source), rows(batch.expected)
            texts = tokenizers[0].decode(sources)
            for text, *ids in zip(texts, sources, targets, strict=True):
                found[planned.then.epoch, text] = tuple(ids)
        if share.then.epoch >= epochs:
            break
    return {key: value for key, value in found.items() if key[0] < epochs}


def test_a_pair_is_spelled_the_same_however_the_work_is_cut(prepared, tokenizers):
    whole = spelled(prepared, tokenizers)
    assert len(whole) == 2 * len(PAIRS)
    for options in ({"tokens": 64}, {"micro_batches": 8}, {"tokens": 1000, "micro_batches": 1}):
        assert spelled(prepared, tokenizers, **options) == whole
    shared = {}
    for rank in range(3):
        shared |= spelled(prepared, tokenizers, rank=rank, ranks=3)
    assert shared == whole


def test_it_decodes_to_the_text_it_was(prepared, tokenizers):
    found = spelled(prepared, tokenizers, epochs=1)
    translations = dict(PAIRS)
    for (_, text), (_, target) in found.items():
        assert tokenizers[1].decode([target]) == [translations[text]]
    assert {text for _, text in found} == set(translations)


def test_each_epoch_and_each_seed_spells_differently_and_finer_than_the_tokenizer(
    prepared, tokenizers
):
    found = spelled(prepared, tokenizers)
    texts = [text for epoch, text in found if epoch == 0]
    changed = [text for text in texts if found[0, text] != found[1, text]]
    # A sentence of six words has some twenty merges, of which three in ten are dropped.
    assert len(changed) > 0.9 * len(texts)
    shorter = tokenizers[0].encode(texts)
    assert all(
        len(found[0, text][0]) >= len(each) for text, each in zip(texts, shorter, strict=True)
    )
    share = next(Sampler(prepared, 1, 256).share(Place(), 1, 0, 1))
    ours, other = (
        spelling(tokenizers, seed=seed).read(share.batches[0]).source for seed in (SEED, SEED + 1)
    )
    assert not np.array_equal(ours, other)


def test_with_nothing_dropped_it_is_what_was_stored(prepared, tokenizers):
    share = next(Sampler(prepared, 1, 256).share(Place(), 1, 0, 1))
    found = spelling(tokenizers, rate=0.0).read(share.batches[0])
    for ours, stored in zip(found, share.batches[0].read(), strict=True):
        np.testing.assert_array_equal(ours, stored)


def test_the_same_row_of_another_shard_is_another_pair(tmp_path):
    """Equal texts in two shards are spelled independently: the number of the shard counts."""
    pairs = [TEXTS[0]] * 40
    prepared = digits.write_prepared(tmp_path, pairs, pairs[:1], kind="sentencepiece", shards=2)
    folder = prepared.folder / "tokenizer"
    both = load_tokenizer(folder / "source"), load_tokenizer(folder / "target")
    read = spelling(both)
    found = []
    for planned in islice(Sampler(prepared, 1, 10_000).batches(), 2):
        batch = read.read(planned)
        order = np.argsort(planned.rows)
        found.append([rows(batch.source)[row] for row in order])
    assert found[0] != found[1]
