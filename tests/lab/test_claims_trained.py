"""Criteria of the claims about trained toy models, and the exact facts behind them.

Made-up numbers must give every verdict of an experiment: each criterion can fail.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from torch import nn

from dragoman.lab.claims.c10_multi_head import noun_and_verb_task
from dragoman.lab.claims.c15_depth import RecurrentEncoder
from dragoman.lab.claims.c19_relative_position import phrase_task
from dragoman.lab.experiment import load_experiment
from dragoman.lab.task import FIRST, pair_rule_task, shift_task
from dragoman.lab.training import (
    TrainingSetup,
    build_encoder_only,
    compare_models,
    run_trial,
    train_model,
)
from dragoman.model.initialization import initialize
from dragoman.recipe.parts import names
from dragoman.tokenizer.interface import END, PADDING
from support.judgments import judged


def _trials(
    *shares: float, reached: int | None = 100, parameters: int = 10, seconds: float = 1.0
) -> list[dict[str, Any]]:
    """One trial per seed, with these shares of correct examples."""
    other = {"reached": reached, "parameters": parameters, "seconds": seconds, "curve": []}
    return [{"accuracy": share, **other} for share in shares]


GOOD, BAD = (0.99, 1.0, 0.98), (0.01, 0.0, 0.02)


def _c15(pre: list[Any], plain: list[Any], residual: list[Any]) -> dict[str, Any]:
    models = {"pre": pre, "plain": plain, "residual": residual}
    trials = {
        # At the other learning rate nothing is learned: the better one counts.
        name: [[_trials(*BAD), _trials(*shares)] for shares in by_depth]
        for name, by_depth in models.items()
    }
    return {"depths": [1, 6], "rates": [1e-3, 4e-3], "steps": 300, "trials": trials}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c15([GOOD, GOOD], [GOOD, BAD], [GOOD, BAD]), "supported"),
        (_c15([GOOD, GOOD], [GOOD, BAD], [GOOD, GOOD]), "partly supported"),
        (_c15([GOOD, GOOD], [GOOD, GOOD], [GOOD, GOOD]), "not supported"),
        (_c15([GOOD, BAD], [GOOD, BAD], [GOOD, BAD]), "not supported"),
        (_c15([BAD, BAD], [GOOD, BAD], [GOOD, BAD]), "inconclusive"),
        # A model that fails with one layer does not fail because of depth.
        (_c15([GOOD, GOOD], [BAD, BAD], [GOOD, BAD]), "inconclusive"),
    ],
)
def test_c15_compares_the_greatest_depths(numbers: dict[str, Any], verdict: str) -> None:
    assert judged("C15", numbers) == verdict


def test_c15_recurrent_encoders_learn() -> None:
    task = shift_task(4, 5, -1)
    model = RecurrentEncoder(task.vocabulary, 2, is_residual=True)
    initialize(model, 1)
    setup = TrainingSetup(60, batch_size=16, learning_rate=1e-2, warmup_steps=10)
    losses = train_model(model, task, setup, 1)
    assert losses[-1] < losses[0] / 2


def test_c15_tries_another_learning_rate_only_if_a_seed_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rates = []

    def trial(model: nn.Module, task: Any, setup: TrainingSetup, seed: int) -> dict[str, Any]:
        is_recurrent = isinstance(model, RecurrentEncoder)
        rates.append((is_recurrent, setup.learning_rate))
        return _trials(0.0 if is_recurrent else 1.0)[0]

    monkeypatch.setattr("dragoman.lab.claims.c15_depth.run_trial", trial)
    numbers = load_experiment("C15").measure("quick", 1)
    assert [len(tried) for tried in numbers["trials"]["pre"]] == [1, 1]
    assert [len(tried) for tried in numbers["trials"]["plain"]] == [2, 2]
    assert set(rates) == {(False, 1e-2), (True, 1e-2), (True, 4e-3)}


def _c19(
    relative: float, absolute: float, trained: float = 1.0, naive: float = 0.1
) -> dict[str, Any]:
    def rows(share: float, trained: float = trained) -> list[list[float]]:
        return [[trained] * 8 + [min(1.0, share + noise)] * 9 for noise in (0.0, 0.01, 0.02)]

    accuracy = {name: rows(relative) for name in ("rotary", "shaw")}
    accuracy |= {name: rows(absolute) for name in ("learned", "sinusoidal")}
    accuracy["naive"] = rows(naive, trained=naive)
    return {"positions": list(range(17)), "steps": 400, "accuracy": accuracy}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c19(0.97, 0.1), "supported"),
        (_c19(0.8, 0.1), "partly supported"),
        (_c19(0.97, 0.95), "partly supported"),
        (_c19(0.97, 0.1, trained=0.5), "partly supported"),
        (_c19(0.97, 0.1, naive=0.95), "partly supported"),  # The number itself transfers too.
        (_c19(0.1, 0.9), "not supported"),
    ],
)
def test_c19_compares_new_positions(numbers: dict[str, Any], verdict: str) -> None:
    assert judged("C19", numbers) == verdict


def _c20(
    shifting: tuple[int, int], reversing: tuple[int, int], after: Any = GOOD
) -> dict[str, Any]:
    return {
        "steps": {"shifting": 400, "reversing": 400},
        "without": {"shifting": 0.1, "reversing": 0.0},
        **{
            task: {
                "bottom": _trials(*GOOD, reached=bottom),
                "every_layer": _trials(*after, reached=every),
            }
            for task, (bottom, every) in (("shifting", shifting), ("reversing", reversing))
        },
    }


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c20((200, 150), (200, 190)), "supported"),
        (_c20((200, 205), (200, 205)), "partly supported"),  # A slowdown within the limit.
        (_c20((200, 150), (200, 300)), "not supported"),
        (_c20((200, 300), (200, 300)), "not supported"),
        (_c20((200, 150), (200, 150), after=BAD), "not supported"),
    ],
)
def test_c20_needs_no_harm_and_some_help(numbers: dict[str, Any], verdict: str) -> None:
    assert judged("C20", numbers) == verdict


def test_c20_is_partly_supported_when_one_task_is_undecided() -> None:
    numbers = _c20((200, 150), (200, 200))
    for trial, reached in zip(numbers["reversing"]["every_layer"], (100, 300, 200), strict=True):
        trial["reached"] = reached
    assert judged("C20", numbers) == "partly supported"


def _c23(
    added: Any, concatenated: Any, projected: Any = BAD, control: float = 0.1
) -> dict[str, Any]:
    entries = {"added": added, "concatenated": concatenated, "projected": projected}
    trials = {entry: _trials(*shares) for entry, shares in entries.items()}
    steps = {"shifting": 600, "reversing": 600}
    without = {"shifting": control, "reversing": 0.0}
    numbers = {"steps": steps, "entries": list(entries), "without": without}
    return numbers | {"shifting": trials, "reversing": trials}


PERFECT = (0.998, 1.0, 0.999)


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c23(PERFECT, PERFECT), "supported"),
        (_c23(PERFECT, BAD), "partly supported"),
        (_c23((0.9, 1.0, 1.0), PERFECT), "partly supported"),
        (_c23(BAD, BAD, PERFECT), "not supported"),
        (_c23(PERFECT, PERFECT, control=0.9), "inconclusive"),  # Positions were not needed.
    ],
)
def test_c23_counts_the_methods_that_work(numbers: dict[str, Any], verdict: str) -> None:
    assert judged("C23", numbers) == verdict


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ((GOOD, GOOD, GOOD), "supported"),
        ((GOOD, GOOD, BAD), "partly supported"),
        ((GOOD, BAD, BAD), "not supported"),
        ((BAD, BAD, BAD), "not supported"),
    ],
)
def test_c24_counts_the_similarities_that_work(shares: tuple[Any, ...], verdict: str) -> None:
    trials = {f"part {index}": _trials(*accuracies) for index, accuracies in enumerate(shares)}
    # The scaled cosine is shown but not judged.
    for scaled_cosine in (GOOD, BAD):
        shown = trials | {"cosine × 10": _trials(*scaled_cosine)}
        numbers = {"steps": 500, "trials": shown}
        assert judged("C24", numbers) == verdict
        failed = "part 2 failed" in load_experiment("C24").judge(numbers).summary
        assert failed == (verdict == "partly supported")


def _c25(hard: tuple[Any, Any], local: tuple[Any, Any], soft: Any = GOOD) -> dict[str, Any]:
    shares = {"soft": (soft, soft), "hard": hard, "local": local}
    return {
        "steps": 300,
        "maps": {"near": {name: [[1.0, 0.0]] for name in shares}},
        "near": {name: _trials(*near) for name, (near, _) in shares.items()},
        "far": {name: _trials(*far) for name, (_, far) in shares.items()},
    }


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c25((GOOD, GOOD), (GOOD, BAD)), "supported"),
        (_c25((BAD, BAD), (GOOD, BAD)), "partly supported"),
        (_c25((GOOD, GOOD), (GOOD, GOOD)), "partly supported"),
        (_c25((BAD, GOOD), (BAD, BAD)), "not supported"),
        (_c25((GOOD, GOOD), (GOOD, BAD), soft=BAD), "not supported"),
    ],
)
def test_c25_checks_every_kind_of_attention(numbers: dict[str, Any], verdict: str) -> None:
    assert judged("C25", numbers) == verdict


def _c26(
    steps: tuple[int, int, int],
    sizes: tuple[int, int, int] = (10, 20, 30),
    seconds: tuple[float, float, float] = (1.0, 2.0, 3.0),
) -> dict[str, Any]:
    kinds = ("narrow", "standard", "wide")
    trials = {
        kind: _trials(*GOOD, reached=reached) for kind, reached in zip(kinds, steps, strict=True)
    }
    layer = {
        kind: {"parameters": size, "seconds": time}
        for kind, size, time in zip(kinds, sizes, seconds, strict=True)
    }
    return {"steps": 1200, "trials": trials, "layer": layer}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c26((900, 500, 200)), "supported"),
        (_c26((900, 200, 200)), "partly supported"),
        (_c26((900, 500, 200), seconds=(1.0, 1.05, 3.0)), "partly supported"),
        (_c26((900, 500, 200), sizes=(10, 30, 20)), "not supported"),
        (_c26((200, 200, 200)), "not supported"),
        (_c26((200, 500, 900)), "not supported"),
    ],
)
def test_c26_needs_quality_and_cost(numbers: dict[str, Any], verdict: str) -> None:
    assert judged("C26", numbers) == verdict


def test_c26_includes_every_kind_of_head() -> None:
    from dragoman.lab.claims import c26_head_kind

    assert sorted(c26_head_kind._KINDS) == names("model.head_kind")


def test_c26_counts_the_parameters_of_one_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: matrices and biases of q, k, v and the output, for width M, H heads, D = M/H."""
    from dragoman.lab.claims import c26_head_kind

    width, heads = 16, 4
    monkeypatch.setattr(c26_head_kind, "_LARGE_WIDTH", width)
    monkeypatch.setattr(c26_head_kind, "_LARGE_HEADS", heads)
    layers = c26_head_kind._measure_layers(1, 1)
    joined = width * width + width
    assert layers["bare"]["parameters"] == 0
    assert layers["narrow"]["parameters"] == 3 * (width * width // heads + width) + joined
    assert layers["standard"]["parameters"] == 3 * (width * width + width) + joined
    whole = heads * width
    assert layers["wide"]["parameters"] == 3 * whole * (width + 1) + whole * width + width
    assert all(layer["seconds"] > 0 for layer in layers.values())


def _symbols(task: Any, length: int | None = None) -> list[tuple[list[int], list[int]]]:
    """Sources and truths as symbols from zero, without special tokens."""
    examples = task.examples(20, random.Random(1), length)
    rows = []
    for source, truth in zip(examples.source.tolist(), examples.truth.tolist(), strict=True):
        assert source.count(END) == truth.count(END) == 1
        rows.append(
            tuple(
                [token - FIRST for token in row if token not in (END, PADDING)]
                for row in (source, truth)
            )
        )
    return rows


def test_the_shift_task_outputs_the_symbol_at_the_offset() -> None:
    for source, truth in _symbols(shift_task(5, 7, -2)):
        assert truth == [source[0], source[0], *source[:-2]]
    for source, truth in _symbols(shift_task(5, 7, 1)):
        assert truth == [*source[1:], source[-1]]


def test_a_pair_rule_depends_on_both_symbols_only() -> None:
    rules: dict[tuple[int, int], int] = {}
    for source, truth in _symbols(pair_rule_task(3, 9, (-1, 1))):
        previous, following = [source[0], *source[:-1]], [*source[1:], source[-1]]
        for pair, output in zip(zip(previous, following, strict=True), truth, strict=True):
            assert rules.setdefault(pair, output) == output
    assert len(rules) == 9  # All pairs occurred.
    assert len({rules[0, other] for other in range(3)}) > 1  # One symbol does not decide.
    assert len({rules[other, 0] for other in range(3)}) > 1


def test_a_noun_and_a_verb_have_any_position() -> None:
    positions = set()
    for source, truth in _symbols(noun_and_verb_task(4, 6)):
        (noun,) = (symbol for symbol in source if symbol < 4)
        (verb,) = (symbol for symbol in source if 4 <= symbol < 8)
        assert source.count(8) == 4
        assert len(set(truth)) == 1
        positions.add((source.index(noun), source.index(verb)))
    assert len(positions) > 5


def test_a_phrase_starts_at_the_given_position() -> None:
    for start in (0, 16):
        for source, truth in _symbols(phrase_task(), start):
            words = source[start : start + 4]
            assert 8 not in words
            assert truth[start + 1 : start + 4] == words[:-1]
            assert set(source[:start] + source[start + 4 :]) == {8}


def test_a_trial_returns_the_results_of_training() -> None:
    task = shift_task(3, 4, 0)
    setup = TrainingSetup(40, batch_size=16, learning_rate=1e-2)
    trial = run_trial(build_encoder_only(task, 1, width=16), task, setup, 1)
    assert trial["curve"][-1] < trial["curve"][0]
    assert trial["reached"] is None or 10 <= trial["reached"] <= 40
    assert 0 <= trial["accuracy"] <= 1
    assert trial["seconds"] > 0


@pytest.mark.slow
def test_compared_models_are_trained_on_the_same_examples() -> None:
    task = shift_task(3, 4, 0)
    small = {"width": 16, "encoder_layers": 1}
    models = {"one": small, "same": small}
    results = compare_models(models, task, TrainingSetup(30, batch_size=4), [1, 2])
    curves = {name: [trial["curve"] for trial in trials] for name, trials in results.items()}
    assert curves["one"] == curves["same"]
    assert curves["one"][0] != curves["one"][1]
