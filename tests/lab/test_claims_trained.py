"""Do the experiments of trained models judge by their criteria, and are their exact facts exact?

Every verdict that an experiment can give is asked for with numbers made up for it: a criterion that
cannot fail would be none.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import nn

from dragoman.lab.claim.c07_nonlinearity import Held, hold, superposition_error
from dragoman.lab.claim.c10_heads import noun_and_verb
from dragoman.lab.claim.c11_residual import pass_through
from dragoman.lab.claim.c12_norm import exchange
from dragoman.lab.claim.c15_depth import RecurrentReader
from dragoman.lab.claim.c19_relative import phrase
from dragoman.lab.experiment import find
from dragoman.lab.task import FIRST, ruling, shifting
from dragoman.lab.teaching import Lesson, build_reader, contest, teach, trial, without_norms
from dragoman.model.initialisation import initialise
from dragoman.model.record import record
from dragoman.part import names
from dragoman.tokenizer.interface import END, PADDING


def _verdict(name: str, numbers: dict[str, Any]) -> str:
    return find(name).judge(numbers).verdict


def _trials(
    *shares: float, reached: int | None = 100, parameters: int = 10, seconds: float = 1.0
) -> list[dict[str, Any]]:
    """Trials of so many seeds that ended with these shares of right examples."""
    told = {"reached": reached, "parameters": parameters, "seconds": seconds, "curve": []}
    return [{"accuracy": share, **told} for share in shares]


GOOD, BAD = (0.99, 1.0, 0.98), (0.01, 0.0, 0.02)


def _c7(
    error: float, without: tuple[float, ...], whole: tuple[float, ...] = GOOD
) -> dict[str, Any]:
    return {
        "superposition": {"weights held": error, "weights live": 1.0},
        "depths": [2],
        "steps": 400,
        "with": [_trials(*whole)],
        "without": [_trials(*without)],
        "held": [_trials(*BAD)],
    }


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c7(1e-16, BAD), "holds"),
        (_c7(1e-16, GOOD), "holds in part"),
        (_c7(1e-16, (0.0, 0.9, 0.1)), "holds in part"),  # Seeds disagree: nothing is sure.
        (_c7(1e-3, BAD), "holds in part"),
        (_c7(1e-3, BAD, whole=BAD), "does not hold here"),
    ],
)
def test_c7_asks_for_linearity_and_for_failure(numbers: dict[str, Any], verdict: str) -> None:
    assert _verdict("C7", numbers) == verdict


def test_c7_a_stack_of_held_weights_is_linear_and_a_whole_layer_is_not() -> None:
    task = ruling(4, 6, (-1, 0))
    x, y = torch.randn(2, 3, 6, 16, dtype=torch.float64)
    is_real = torch.ones(3, 6, dtype=torch.bool)
    errors = {}
    for feed_forward in ("none", "relu"):
        small = {"width": 16, "head_count": 2, "encoder_layers": 3, "feed_forward_width": 32}
        reader = build_reader(task, 1, **small, position="none", feed_forward=feed_forward).double()
        without_norms(reader)
        assert not any(isinstance(module, nn.LayerNorm) for module in reader.modules())
        with torch.no_grad():
            with record(reader) as maps:
                before = reader.encoder(x, is_real).heights[-1]
            hold(reader, [each.weights for each in maps])
            # What is held is what was seen, so nothing changes for the same input.
            torch.testing.assert_close(reader.encoder(x, is_real).heights[-1], before)
            errors[feed_forward] = superposition_error(reader, x, y)
    assert errors["none"] < 1e-12  # Rounding of float64 through three layers.
    assert errors["relu"] > 1e-2


def test_c7_held_weights_ignore_scores() -> None:
    weights = torch.eye(3).view(1, 1, 3, 3)
    scores = torch.randn(2, 1, 3, 3)
    mask = torch.ones(1, 1, 1, 3, dtype=torch.bool)
    assert torch.equal(Held(weights)(scores, mask), weights.expand(2, 1, 3, 3))


def _c10(
    places: tuple[Any, Any], kinds: tuple[Any, Any], reached: tuple[int, int] = (100, 100)
) -> dict[str, Any]:
    tasks = {"places": places, "kinds": kinds}
    told = {
        name: {
            str(heads): _trials(*shares, reached=steps)
            for heads, shares, steps in zip((1, 2), both, reached, strict=True)
        }
        for name, both in tasks.items()
    }
    return {"heads": [1, 2], "steps": {"places": 450, "kinds": 250}, **told}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c10((BAD, GOOD), (BAD, GOOD)), "holds"),
        (_c10((BAD, GOOD), (GOOD, GOOD)), "holds in part"),
        (_c10((GOOD, GOOD), (GOOD, GOOD)), "does not hold here"),
        (_c10((GOOD, GOOD), (GOOD, GOOD), reached=(200, 100)), "holds in part"),
        (_c10((GOOD, GOOD), (GOOD, GOOD), reached=(100, 200)), "does not hold here"),
        (_c10((GOOD, BAD), (GOOD, BAD)), "does not hold here"),
        # A gain in the mean that seeds do not agree on is no gain.
        (_c10(((0.0, 0.9, 0.5), (1.0, 0.4, 0.9)), (GOOD, GOOD)), "does not hold here"),
    ],
)
def test_c10_asks_for_a_sure_gain_in_right_answers_or_steps(
    numbers: dict[str, Any], verdict: str
) -> None:
    assert _verdict("C10", numbers) == verdict


def _c11(post: float, plain: float, plain_norm: float, residual: float = 1.0) -> dict[str, Any]:
    last = {
        "residual": residual,
        "residual_post": post,
        "residual_pre": 1.0,
        "plain": plain,
        "plain_norm": plain_norm,
    }
    gradient = {kind: [1.0, 1.0, value] for kind, value in last.items()}
    return {"depths": [1, 2, 4], "gradient": gradient, "apart": gradient}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c11(1.0, 1e-5, 1e-4), "holds"),
        (_c11(1.0, 1e5, 1e4), "holds"),
        (_c11(1.0, 1e-5, 1.0), "holds in part"),
        (_c11(1.0, 1e-5, 1.0, residual=1e5), "does not hold here"),  # Too small, then too large.
        (_c11(1e-5, 1e-5, 1e-5, residual=1e-5), "does not hold here"),
        (_c11(1.0, 1.0, 1.0), "does not hold here"),
    ],
)
def test_c11_asks_whether_residuals_decide(numbers: dict[str, Any], verdict: str) -> None:
    assert _verdict("C11", numbers) == verdict


def test_c11_a_gradient_passes_a_stack_without_sublayers_unchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With sublayers that say nothing, x + f(x) is x: the gradient is kept to the bit."""

    def silence(model: nn.Module, seed: int) -> None:
        initialise(model, seed)
        for weights in model.parameters():
            nn.init.zeros_(weights)

    monkeypatch.setattr("dragoman.lab.claim.c11_residual.initialise", silence)
    assert pass_through("residual", 5, 1)[0] == 1.0
    assert pass_through("plain", 5, 1)[0] == 0.0


def _c12(layer: float, post: int | None, none: int | None) -> dict[str, Any]:
    return {
        "exchange": {
            "layer": {"batch": layer, "neighbours": layer},
            "batch_norm": {"batch": 0.3, "neighbours": 0.2},
        },
        "rates": [1e-3, 4e-3],
        "steps": 500,
        "trials": {
            pupil: [_trials(*GOOD, reached=450), _trials(*GOOD, reached=steps)]
            for pupil, steps in (("post", post), ("pre", post), ("none", none))
        },
    }


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c12(0.0, 100, 200), "holds"),
        (_c12(0.0, 200, 100), "holds in part"),
        (_c12(0.0, None, None), "holds in part"),
        (_c12(1e-7, 100, 200), "holds in part"),
        (_c12(1e-7, 200, 100), "does not hold here"),
    ],
)
def test_c12_asks_for_bits_and_for_steps(numbers: dict[str, Any], verdict: str) -> None:
    assert _verdict("C12", numbers) == verdict


def test_c12_each_is_judged_at_its_best_rate() -> None:
    judgement = find("C12").judge(_c12(0.0, 100, None))
    # Without norms, the slower rate is the one that learns; with them, the faster.
    assert "100 with norm after (lectures) (rate 0.004)" in judgement.because
    assert "450 with no norm (rate 0.001)" in judgement.because


@pytest.mark.parametrize("seed", range(3))
def test_c12_layer_norm_is_alone_to_the_bit(seed: int) -> None:
    changes = exchange(seed)
    assert changes["layer"] == {"batch": 0.0, "neighbours": 0.0}
    assert min(changes["batch_norm"].values()) > 1e-3


def _c15(pre: list[Any], plain: list[Any], residual: list[Any]) -> dict[str, Any]:
    pupils = {"pre": pre, "plain": plain, "residual": residual}
    trials = {
        # A second rate at which nothing is learned: the better one counts.
        pupil: [[_trials(*BAD), _trials(*shares)] for shares in at_depths]
        for pupil, at_depths in pupils.items()
    }
    return {"depths": [1, 6], "rates": [1e-3, 4e-3], "steps": 300, "trials": trials}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c15([GOOD, GOOD], [GOOD, BAD], [GOOD, BAD]), "holds"),
        (_c15([GOOD, GOOD], [GOOD, BAD], [GOOD, GOOD]), "holds in part"),
        (_c15([GOOD, GOOD], [GOOD, GOOD], [GOOD, GOOD]), "does not hold here"),
        (_c15([GOOD, BAD], [GOOD, BAD], [GOOD, BAD]), "does not hold here"),
        (_c15([BAD, BAD], [GOOD, BAD], [GOOD, BAD]), "does not hold here"),
        # Who cannot learn it with one layer was not stopped by depth.
        (_c15([GOOD, GOOD], [BAD, BAD], [GOOD, BAD]), "does not hold here"),
    ],
)
def test_c15_compares_the_greatest_depths(numbers: dict[str, Any], verdict: str) -> None:
    assert _verdict("C15", numbers) == verdict


def test_c15_recurrent_readers_learn() -> None:
    task = shifting(4, 5, -1)
    reader = RecurrentReader(task.vocabulary, 2, is_residual=True)
    initialise(reader, 1)
    losses = teach(reader, task, Lesson(60, batch=16, rate=1e-2, warmup=10), 1)
    assert losses[-1] < losses[0] / 2


def _c19(relative: float, absolute: float, taught: float = 1.0) -> dict[str, Any]:
    def rows(share: float) -> list[list[float]]:
        return [[taught] * 8 + [min(1.0, share + noise)] * 9 for noise in (0.0, 0.01, 0.02)]

    accuracy = {name: rows(relative) for name in ("rotary", "shaw")}
    accuracy |= {name: rows(absolute) for name in ("learned", "sinusoidal")}
    return {"places": list(range(17)), "steps": 400, "accuracy": accuracy}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c19(0.97, 0.1), "holds"),
        (_c19(0.8, 0.1), "holds in part"),
        (_c19(0.97, 0.95), "holds in part"),
        (_c19(0.97, 0.1, taught=0.5), "holds in part"),
        (_c19(0.1, 0.9), "does not hold here"),
    ],
)
def test_c19_asks_where_the_phrase_never_stood(numbers: dict[str, Any], verdict: str) -> None:
    assert _verdict("C19", numbers) == verdict


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
        (_c20((200, 150), (200, 190)), "holds"),
        (_c20((200, 205), (200, 205)), "holds in part"),  # So little more is no harm.
        (_c20((200, 150), (200, 300)), "does not hold here"),
        (_c20((200, 300), (200, 300)), "does not hold here"),
        (_c20((200, 150), (200, 150), after=BAD), "does not hold here"),
    ],
)
def test_c20_asks_whether_it_hurts_and_whether_it_helps(
    numbers: dict[str, Any], verdict: str
) -> None:
    assert _verdict("C20", numbers) == verdict


def test_c20_is_in_part_when_one_task_leaves_it_open() -> None:
    numbers = _c20((200, 150), (200, 200))
    for each, reached in zip(numbers["reversing"]["every_layer"], (100, 300, 200), strict=True):
        each["reached"] = reached
    assert _verdict("C20", numbers) == "holds in part"


def _c23(added: Any, concatenated: Any, projected: Any = BAD, floor: float = 0.1) -> dict[str, Any]:
    entries = {"added": added, "concatenated": concatenated, "projected": projected}
    trials = {entry: _trials(*shares) for entry, shares in entries.items()}
    steps = {"shifting": 600, "reversing": 600}
    without = {"shifting": floor, "reversing": 0.0}
    told = {"steps": steps, "entries": list(entries), "without": without}
    return told | {"shifting": trials, "reversing": trials}


SURE = (0.998, 1.0, 0.999)


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c23(SURE, SURE), "holds"),
        (_c23(SURE, BAD), "holds in part"),
        (_c23((0.9, 1.0, 1.0), SURE), "holds in part"),
        (_c23(BAD, BAD, SURE), "does not hold here"),
        (_c23(SURE, SURE, floor=0.9), "does not hold here"),  # Places were not needed.
    ],
)
def test_c23_asks_of_each_way_whether_it_works(numbers: dict[str, Any], verdict: str) -> None:
    assert _verdict("C23", numbers) == verdict


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ((GOOD, GOOD, GOOD), "holds"),
        ((GOOD, GOOD, BAD), "holds in part"),
        ((GOOD, BAD, BAD), "does not hold here"),
        ((BAD, BAD, BAD), "does not hold here"),
    ],
)
def test_c24_counts_who_serves(shares: tuple[Any, ...], verdict: str) -> None:
    trials = {f"part {place}": _trials(*each) for place, each in enumerate(shares)}
    # Another scale of the cosine is shown beside them, and decides nothing.
    for beside in (GOOD, BAD):
        told = trials | {"cosine × 10": _trials(*beside)}
        assert _verdict("C24", {"steps": 500, "trials": told}) == verdict


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
        (_c25((GOOD, GOOD), (GOOD, BAD)), "holds"),
        (_c25((BAD, BAD), (GOOD, BAD)), "holds in part"),
        (_c25((GOOD, GOOD), (GOOD, GOOD)), "holds in part"),
        (_c25((BAD, GOOD), (BAD, BAD)), "does not hold here"),
        (_c25((GOOD, GOOD), (GOOD, BAD), soft=BAD), "does not hold here"),
    ],
)
def test_c25_asks_what_is_said_of_each_reach(numbers: dict[str, Any], verdict: str) -> None:
    assert _verdict("C25", numbers) == verdict


def _c26(steps: tuple[int, int, int], seconds: tuple[float, float] = (1.0, 2.0)) -> dict[str, Any]:
    kinds = zip(("narrow", "standard", "wide"), steps, (10, 20, 30), strict=True)
    trials = {
        kind: _trials(
            *GOOD, reached=reached, parameters=size, seconds=seconds[1 if kind == "wide" else 0]
        )
        for kind, reached, size in kinds
    }
    return {"steps": 1200, "trials": trials}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c26((900, 500, 200)), "holds"),
        (_c26((900, 200, 200)), "holds in part"),
        (_c26((900, 500, 200), seconds=(2.0, 1.0)), "holds in part"),
        (_c26((200, 200, 200)), "does not hold here"),
        (_c26((200, 500, 900)), "does not hold here"),
    ],
)
def test_c26_asks_for_quality_and_cost(numbers: dict[str, Any], verdict: str) -> None:
    assert _verdict("C26", numbers) == verdict


def test_c26_knows_every_kind_of_heads() -> None:
    from dragoman.lab.claim import c26_kinds_of_heads

    assert sorted(c26_kinds_of_heads._KINDS) == names("model.heads")


def _symbols(task: Any, length: int | None = None) -> list[tuple[list[int], list[int]]]:
    """Sources and truths as symbols counted from zero, without frames."""
    examples = task.examples(20, random.Random(1), length)
    rows = []
    for source, truth in zip(examples.source.tolist(), examples.truth.tolist(), strict=True):
        assert source.count(END) == truth.count(END) == 1
        rows.append(
            tuple(
                [each - FIRST for each in row if each not in (END, PADDING)]
                for row in (source, truth)
            )
        )
    return rows


def test_shifting_says_the_symbol_so_far_away() -> None:
    for source, truth in _symbols(shifting(5, 7, -2)):
        assert truth == [source[0], source[0], *source[:-2]]
    for source, truth in _symbols(shifting(5, 7, 1)):
        assert truth == [*source[1:], source[-1]]


def test_a_rule_depends_on_both_symbols_and_on_nothing_else() -> None:
    rules: dict[tuple[int, int], int] = {}
    for source, truth in _symbols(ruling(3, 9, (-1, 1))):
        before, behind = [source[0], *source[:-1]], [*source[1:], source[-1]]
        for pair, said in zip(zip(before, behind, strict=True), truth, strict=True):
            assert rules.setdefault(pair, said) == said
    assert len(rules) == 9  # All pairs were seen …
    assert len({rules[0, other] for other in range(3)}) > 1  # … and one symbol does not decide.
    assert len({rules[other, 0] for other in range(3)}) > 1


def test_a_noun_and_a_verb_stand_anywhere() -> None:
    places = set()
    for source, truth in _symbols(noun_and_verb(4, 6)):
        (noun,) = (each for each in source if each < 4)
        (verb,) = (each for each in source if 4 <= each < 8)
        assert source.count(8) == 4
        assert len(set(truth)) == 1
        places.add((source.index(noun), source.index(verb)))
    assert len(places) > 5


def test_a_phrase_begins_where_it_is_asked_to() -> None:
    for begin in (0, 16):
        for source, truth in _symbols(phrase(), begin):
            words = source[begin : begin + 4]
            assert 8 not in words
            assert truth[begin + 1 : begin + 4] == words[:-1]
            assert set(source[:begin] + source[begin + 4 :]) == {8}


def test_a_trial_tells_what_came_of_a_lesson() -> None:
    task = shifting(3, 4, 0)
    told = trial(build_reader(task, 1, width=16), task, Lesson(40, batch=16, rate=1e-2), 1)
    assert told["curve"][-1] < told["curve"][0]
    assert told["reached"] is None or 10 <= told["reached"] <= 40
    assert 0 <= told["accuracy"] <= 1
    assert told["seconds"] > 0


def test_pupils_of_a_contest_see_the_same_examples() -> None:
    task = shifting(3, 4, 0)
    small = {"width": 16, "encoder_layers": 1}
    told = contest({"one": small, "same": small}, task, Lesson(30, batch=4), [1, 2])
    curves = {name: [each["curve"] for each in trials] for name, trials in told.items()}
    assert curves["one"] == curves["same"]
    assert curves["one"][0] != curves["one"][1]
