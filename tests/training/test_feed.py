"""The feed gives the planned batches, reads one update ahead, and applies BPE-dropout."""

import threading
from itertools import islice

import numpy as np
import pytest
import torch

from dragoman.data.sampler import Sampler, Share, StreamPosition
from dragoman.errors import DataError
from dragoman.tokenizer.bpe_dropout import BpeDropout
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import END
from dragoman.training.feed import Feed, Retokenizer
from support import digits

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


def make_feed(prepared, *, tokens=256, micro_batches=4, rank=0, ranks=1, retokenizer=None):
    sampler = Sampler(prepared, 1, tokens)
    return Feed(sampler, micro_batches, rank, ranks, CPU, retokenizer)


def make_retokenizer(tokenizers, rate=RATE, seed=SEED, max_tokens=256):
    dropouts = tuple(BpeDropout(tokenizer.bpe_vocabulary(), rate, seed) for tokenizer in tokenizers)
    return Retokenizer(tokenizers, dropouts, max_tokens)


def first(generator, count):
    items = list(islice(generator, count))
    generator.close()
    return items


def test_the_tensors_are_the_batches_of_the_sampler(prepared):
    steps = first(make_feed(prepared).steps(StreamPosition()), 9)
    shares = islice(Sampler(prepared, 1, 256).share(StreamPosition(), 4, 0, 1), 9)
    for step, share in zip(steps, shares, strict=True):
        assert step.next_position == share.then
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


def test_the_feed_starts_at_the_given_position(prepared):
    whole = first(make_feed(prepared).steps(StreamPosition()), 6)
    rest = first(make_feed(prepared).steps(whole[2].next_position), 3)
    for late, again in zip(whole[3:], rest, strict=True):
        assert late.next_position == again.next_position
        for number, batch in late.batches.items():
            assert all(x.equal(y) for x, y in zip(batch, again.batches[number], strict=True))


class Watched:
    """A sampler that records the requested steps."""

    def __init__(self, until=1000):
        self.requests = []
        self.until = until
        self.changed = threading.Condition()

    def share(self, position, micro_batches, rank, ranks):
        for number in range(self.until):
            with self.changed:
                self.requests.append((number, threading.current_thread().name))
                self.changed.notify_all()
            yield Share({}, StreamPosition(batch=number))
        raise DataError("a shard cannot be read")

    def wait_for(self, count):
        with self.changed:
            return self.changed.wait_for(lambda: len(self.requests) >= count, timeout=20)


def test_exactly_one_step_is_read_ahead():
    sampler = Watched()
    steps = Feed(sampler, 1, 0, 1, CPU).steps(StreamPosition())
    assert sampler.requests == [], "nothing is read before the first request"
    for number in range(5):
        assert next(steps).next_position.batch == number
        assert sampler.wait_for(number + 2)
        assert len(sampler.requests) == number + 2
    assert all(name.startswith("feed") for _, name in sampler.requests)
    steps.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("feed")]


def test_an_error_of_the_thread_is_raised_at_its_step():
    steps = Feed(Watched(until=2), 1, 0, 1, CPU).steps(StreamPosition())
    assert [next(steps).next_position.batch, next(steps).next_position.batch] == [0, 1]
    with pytest.raises(DataError, match="cannot be read"):
        next(steps)


def rows(ids):
    """The ids of each sentence, without end token and padding."""
    return [tuple(row[: row.index(END)]) for row in ids.tolist()]


def retokenized(prepared, tokenizers, epochs=2, **options):
    """The tokens of each pair in each epoch: {(epoch, source text): (source ids, target ids)}."""
    feed = make_feed(prepared, retokenizer=make_retokenizer(tokenizers), **options)
    tokens = {}
    # A step may contain the end of one epoch and the start of the next.
    sampler = feed.sampler
    shares = sampler.share(StreamPosition(), feed.micro_batches, feed.rank, feed.world_size)
    for share, step in zip(shares, feed.steps(StreamPosition()), strict=False):
        for number, planned in share.batches.items():
            batch = step.batches[number]
            sources, targets = rows(batch.source), rows(batch.expected)
            texts = tokenizers[0].decode(sources)
            for text, *ids in zip(texts, sources, targets, strict=True):
                tokens[planned.then.epoch, text] = tuple(ids)
        if share.then.epoch >= epochs:
            break
    return {key: value for key, value in tokens.items() if key[0] < epochs}


def test_the_tokens_of_a_pair_do_not_depend_on_batches_and_ranks(prepared, tokenizers):
    whole = retokenized(prepared, tokenizers)
    assert len(whole) == 2 * len(PAIRS)
    for options in ({"tokens": 64}, {"micro_batches": 8}, {"tokens": 1000, "micro_batches": 1}):
        assert retokenized(prepared, tokenizers, **options) == whole
    shared = {}
    for rank in range(3):
        shared |= retokenized(prepared, tokenizers, rank=rank, ranks=3)
    assert shared == whole


def test_the_new_tokens_decode_to_the_same_text(prepared, tokenizers):
    tokens = retokenized(prepared, tokenizers, epochs=1)
    translations = dict(PAIRS)
    for (_, text), (_, target) in tokens.items():
        assert tokenizers[1].decode([target]) == [translations[text]]
    assert {text for _, text in tokens} == set(translations)


def test_tokens_differ_between_epochs_and_seeds_and_are_shorter_pieces(prepared, tokenizers):
    tokens = retokenized(prepared, tokenizers)
    texts = [text for epoch, text in tokens if epoch == 0]
    changed = [text for text in texts if tokens[0, text] != tokens[1, text]]
    # A sentence of six words has about twenty merges, and 30 % of them are dropped.
    assert len(changed) > 0.9 * len(texts)
    undropped = tokenizers[0].encode(texts)
    assert all(
        len(tokens[0, text][0]) >= len(ids) for text, ids in zip(texts, undropped, strict=True)
    )
    share = next(Sampler(prepared, 1, 256).share(StreamPosition(), 1, 0, 1))
    ours, other = (
        make_retokenizer(tokenizers, seed=seed).read(share.batches[0]).source
        for seed in (SEED, SEED + 1)
    )
    assert not np.array_equal(ours, other)


def test_a_dropout_rate_of_0_gives_the_stored_tokens(prepared, tokenizers):
    share = next(Sampler(prepared, 1, 256).share(StreamPosition(), 1, 0, 1))
    batch = make_retokenizer(tokenizers, rate=0.0).read(share.batches[0])
    for ours, stored in zip(batch, share.batches[0].read(), strict=True):
        np.testing.assert_array_equal(ours, stored)


def test_a_side_that_would_be_too_long_keeps_its_stored_tokens(prepared, tokenizers):
    share = next(Sampler(prepared, 1, 256).share(StreamPosition(), 1, 0, 1))
    stored = share.batches[0].read()
    free = make_retokenizer(tokenizers).read(share.batches[0])
    limit = max(len(row) for row in rows(stored.source) + rows(stored.expected))
    bounded = make_retokenizer(tokenizers, max_tokens=limit).read(share.batches[0])
    replaced = 0
    for side in ("source", "expected"):
        sides = [rows(getattr(batch, side)) for batch in (stored, free, bounded)]
        for before, longer, ids in zip(*sides, strict=True):
            assert ids == (longer if len(longer) <= limit else before)
            replaced += len(longer) > limit
    assert replaced, "the test needs a pair that becomes too long"


def test_equal_rows_of_two_shards_get_different_tokens(tmp_path):
    """Equal texts in two shards are tokenized independently: the shard number matters."""
    pairs = [TEXTS[0]] * 40
    prepared = digits.write_prepared(tmp_path, pairs, pairs[:1], kind="sentencepiece", shards=2)
    folder = prepared.folder / "tokenizer"
    both = load_tokenizer(folder / "source"), load_tokenizer(folder / "target")
    retokenizer = make_retokenizer(both)
    tokens = []
    for planned in islice(Sampler(prepared, 1, 10_000).batches(), 2):
        batch = retokenizer.read(planned)
        order = np.argsort(planned.rows)
        tokens.append([rows(batch.source)[row] for row in order])
    assert tokens[0] != tokens[1]
