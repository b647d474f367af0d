"""Tests of alignments by the PyTorch engine, from one thread and from several."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch

from dragoman.decoding.engines.pytorch import PyTorch
from dragoman.recipe.schema import DecodingRecipe
from support.decoding_models import varied_model
from support.small_models import VOCABULARY

THREADS, ROUNDS = 3, 2
SETTINGS = DecodingRecipe(search="greedy", max_extra_tokens=0)


@pytest.fixture
def engine():
    return PyTorch(varied_model())


def random_sources(seed):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 9, (3,), generator=generator).tolist()
    return [
        torch.randint(3, VOCABULARY, (length,), generator=generator).tolist() for length in lengths
    ]


def test_every_token_is_aligned_to_a_source_token(engine):
    sources = random_sources(0)
    for source, (hypothesis,) in zip(
        sources, engine.translate(sources, SETTINGS, with_alignment=True), strict=True
    ):
        assert len(hypothesis.alignment) == len(hypothesis.tokens)
        assert all(0 <= position < len(source) for position in hypothesis.alignment)


@pytest.mark.slow
def test_threads_get_the_alignments_of_their_own_sentences(engine):
    batches = [random_sources(seed) for seed in range(THREADS)]
    expected = [engine.translate(batch, SETTINGS, with_alignment=True) for batch in batches]
    assert len({answers[0][0].alignment for answers in expected}) > 1
    barrier = Barrier(THREADS)

    def run(number):
        results = []
        for _ in range(ROUNDS):
            barrier.wait(timeout=60)
            results.append(engine.translate(batches[number], SETTINGS, with_alignment=True))
        return results

    with ThreadPoolExecutor(THREADS) as pool:
        for results, alone in zip(pool.map(run, range(THREADS)), expected, strict=True):
            assert all(answers == alone for answers in results)


@pytest.mark.slow
def test_alignment_in_one_thread_changes_nothing_in_another(engine):
    """A thread without alignment keeps the fused kernel, and its scores to the bit."""
    plain, aligned = random_sources(1), random_sources(2)
    expected = engine.translate(plain, SETTINGS)
    with ThreadPoolExecutor(2) as pool:
        aligning = [
            pool.submit(engine.translate, aligned, SETTINGS, with_alignment=True)
            for _ in range(ROUNDS)
        ]
        for _ in range(ROUNDS):
            assert engine.translate(plain, SETTINGS) == expected
        for future in aligning:
            future.result()
