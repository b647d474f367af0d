"""Is what `record` shows what the model computed, for every part, and does it leave no trace?"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from contract import contract
from dragoman.model.attention import Attention
from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.model.record import Map, record
from parity import equations
from parity.equations import loose, tight
from parity.test_equations import DOORS, REACH, SIMILARITY, Doors
from small_models import EVERY_PART, RIVALS, small_model

EXACT = 1e-6
"""Ours in float32 against loops in float64; scores and weights are of the order of one."""
ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1}
CASES: dict[str, dict[str, Any]] = {
    **{f"{kind} {name}": dict([(kind, name)]) for kind, name in EVERY_PART},
    # With its usual window a short sentence is seen whole.
    "a small window": {"reach": {"name": "local", "window": 1}},
    "recurrent, attending": RIVALS["recurrent, attending"],
    "convolutional": RIVALS["convolutional"],
}


def recorded(model: EncoderDecoder, *batch: Tensor) -> list[Map]:
    with record(model) as maps, torch.no_grad():
        model(*(batch or contract.some_sentences()))
    return maps


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: each.detach().double() for name, each in module.state_dict().items()}


def doors_of(model: EncoderDecoder, seen: Map) -> Doors:
    """What a position does between queries and keys; at the source nothing."""
    if seen.kind == "cross":
        return Doors()
    part = model.get_submodule(seen.kind).positions[seen.layer]
    name = type(part).__name__.lower()
    return DOORS[name].build({}, weights_of(part)) if name in DOORS else Doors()


def plain_scores(model: EncoderDecoder, settings: dict[str, Any], seen: Map) -> Tensor:
    """Every score once more, from the queries and keys that were shown, by the equations."""
    name = settings.get("similarity", "scaled_dot")
    part = model.get_submodule(seen.name).similarity
    similarity = SIMILARITY[name].build({}, weights_of(part))
    queries, keys = (loose(each.double()) for each in (seen.queries, seen.keys))
    shift = doors_of(model, seen).shift_key
    return tight(equations.compare(similarity, queries, keys, shift=shift))


def plain_weights(settings: dict[str, Any], seen: Map) -> Tensor:
    """Every weight once more, from the scores and the mask that were shown."""
    choice = settings.get("reach", "soft")
    name, options = (choice, {}) if isinstance(choice, str) else (choice["name"], choice)
    reach = REACH[name].build({"window": 8} | options, {})
    rows, _, places, keys = seen.scores.shape
    visible = seen.mask.expand(rows, 1, places, keys)[:, 0].tolist()
    return tight(equations.weigh(reach.weights, loose(seen.scores.double()), visible))


@pytest.mark.parametrize("settings", CASES.values(), ids=list(CASES))
def test_what_is_shown_is_what_the_equations_say(settings: dict[str, Any]) -> None:
    model = small_model(**ONE_LAYER, **settings)
    for seen in recorded(model):
        # Where scores are large, as unscaled ones are, float32 has fewer digits left.
        size = max(1.0, float(seen.scores.abs().max()))
        scores = plain_scores(model, settings, seen)
        torch.testing.assert_close(seen.scores.double(), scores, rtol=0, atol=EXACT * size)
        weights = plain_weights(settings, seen)
        torch.testing.assert_close(seen.weights.double(), weights, rtol=0, atol=EXACT)


@pytest.mark.parametrize("settings", CASES.values(), ids=list(CASES))
def test_rows_sum_to_one_and_what_is_hidden_weighs_nothing(settings: dict[str, Any]) -> None:
    for seen in recorded(small_model(**settings)):
        sums = seen.weights.sum(dim=-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=EXACT)
        hidden = ~seen.mask.expand_as(seen.weights)
        assert not seen.weights[hidden].any()
        assert hidden.any()


@pytest.mark.parametrize("settings", CASES.values(), ids=list(CASES))
def test_recording_changes_no_bit_and_leaves_no_trace(settings: dict[str, Any]) -> None:
    model = small_model(**settings)
    batch = contract.some_sentences()
    attentions = [each for each in model.modules() if isinstance(each, Attention)]
    with torch.no_grad():
        fused = model(*batch)
        attentions[0].is_fusable = False  # As whoever looked before may have left it.
        with record(model):
            assert not any(each.is_fusable for each in attentions)
            watched = model(*batch)
        assert [each.is_fusable for each in attentions] == [False] + [True] * (len(attentions) - 1)
        for each in attentions:
            each.is_fusable = False
        assert torch.equal(model(*batch), watched)
        for each in attentions:
            each.is_fusable = True
        assert torch.equal(model(*batch), fused)
    assert not any(each._forward_hooks for each in model.modules())


def test_an_error_inside_leaves_no_trace_either() -> None:
    model = small_model()
    with pytest.raises(RuntimeError, match="inside"), record(model):
        raise RuntimeError("inside")
    assert all(each.is_fusable for each in model.modules() if isinstance(each, Attention))
    assert not any(each._forward_hooks for each in model.modules())


def test_what_a_head_gives_is_its_weights_times_its_values() -> None:
    """Of all that is shown, the values are used last."""
    model = small_model(**ONE_LAYER)
    given: list[Tensor] = []
    attention = model.get_submodule("decoder.layers.0.cross_attention.attention")
    hook = attention.register_forward_hook(lambda *told: given.append(told[2]))
    *_, seen = recorded(model)
    hook.remove()
    torch.testing.assert_close(seen.weights @ seen.values, given[0], rtol=0, atol=EXACT)


def test_each_look_has_its_kind_and_its_height() -> None:
    seen = [(each.kind, each.layer, each.name) for each in recorded(small_model())]
    assert seen == [
        ("encoder", 0, "encoder.layers.0.self_attention.attention"),
        ("encoder", 1, "encoder.layers.1.self_attention.attention"),
        ("decoder", 0, "decoder.layers.0.self_attention.attention"),
        ("cross", 0, "decoder.layers.0.cross_attention.attention"),
        ("decoder", 1, "decoder.layers.1.self_attention.attention"),
        ("cross", 1, "decoder.layers.1.cross_attention.attention"),
    ]


def test_the_rivals_look_at_the_source_only() -> None:
    looks = {
        name: [(each.kind, each.layer) for each in recorded(small_model(**settings))]
        for name, settings in RIVALS.items()
    }
    assert looks == {
        "recurrent": [],
        "recurrent, attending": [("cross", 0)],
        "convolutional": [("cross", 0), ("cross", 1)],
    }


def test_nobody_sees_padding_or_the_future() -> None:
    _, is_real, target = contract.some_sentences()
    for seen in recorded(small_model()):
        if seen.kind == "decoder":
            places = torch.arange(target.shape[1])
            assert torch.equal(seen.mask[0, 0], places <= places.unsqueeze(1))
        else:
            assert torch.equal(seen.mask[:, 0, 0], is_real)


@pytest.mark.parametrize("name", ["transformer", "recurrent, attending", "convolutional"])
def test_rows_that_share_a_source_come_apart(name: str) -> None:
    """Two hypotheses for each sentence, as in a beam, each as if it had a source of its own."""
    model = small_model(**RIVALS.get(name, {}), reach={"name": "local", "window": 1})
    source, is_real, target = contract.some_sentences()
    both = torch.stack([target, target.flip(1)], dim=1).flatten(0, 1)
    with record(model) as shared, torch.no_grad():
        model.decode(both, model.encode(source, is_real))
    alone = recorded(model, *(each.repeat_interleave(2, dim=0) for each in (source, is_real)), both)
    assert len(shared) == len(alone)
    for found, expected in zip(shared, alone, strict=True):
        if found.kind == "encoder":
            continue
        for what in ("weights", "scores", "queries"):
            contract.assert_close(getattr(found, what), getattr(expected, what))
        mask = expected.mask.expand_as(found.mask)
        assert torch.equal(found.mask, mask)


def test_steps_are_seen_as_they_come() -> None:
    """One token at a time: one row of queries, and one key more at each step."""
    model = small_model()
    source, is_real, target = contract.some_sentences()
    whole = [each for each in recorded(model) if each.kind == "decoder"]
    memory, cache = model.encode(source, is_real), None
    for place in range(3):
        with record(model) as maps, torch.no_grad():
            _, cache = model.decode(target[:, place : place + 1], memory, cache)
        for found, expected in zip(
            (each for each in maps if each.kind == "decoder"), whole, strict=True
        ):
            assert found.weights.shape[2:] == (1, place + 1)
            row = expected.weights[:, :, place : place + 1, : place + 1]
            contract.assert_close(found.weights, row)


def test_gradients_are_not_held() -> None:
    model = small_model().train()
    with record(model) as maps:
        model(*contract.some_sentences())
    for seen in maps:
        held = (seen.weights, seen.scores, seen.queries, seen.keys, seen.values)
        assert not any(each.requires_grad for each in held)
