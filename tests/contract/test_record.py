"""Tests of `record`: it shows what the model computed, for every part, and changes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.model.record import AttentionRecord, record
from parity.test_equations import ATTENTION_KINDS, HOOKS, SIMILARITIES, Hooks
from support import contract, equations
from support.equations import loose, tight
from support.sets import first_quick
from support.small_models import BASELINES, EVERY_PART, small_model

EXACT = 1e-6
"""Float32 against loops in float64; scores and weights are of the order of one."""
ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1}
CASES: dict[str, dict[str, Any]] = {
    **{f"{kind} {name}": {kind: name} for kind, name in EVERY_PART},
    # The default window covers a short sentence completely.
    "a small window": {"attention_kind": {"name": "local", "window": 1}},
    "recurrent with attention": BASELINES["recurrent with attention"],
    "convolutional": BASELINES["convolutional"],
}


def recorded(model: EncoderDecoder, *batch: Tensor) -> list[AttentionRecord]:
    with record(model) as records, torch.no_grad():
        model(*(batch or contract.random_sentences()))
    return records


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().double() for name, weight in module.state_dict().items()}


def hooks_of(model: EncoderDecoder, entry: AttentionRecord) -> Hooks:
    """The hooks of the position part; cross-attention has none."""
    if entry.role == "cross":
        return Hooks()
    part = model.get_submodule(entry.role).positions[entry.layer]
    name = type(part).__name__.lower()
    return HOOKS[name].build({}, weights_of(part)) if name in HOOKS else Hooks()


def scores_by_equation(
    model: EncoderDecoder, settings: dict[str, Any], entry: AttentionRecord
) -> Tensor:
    """Compute every score from the recorded queries and keys by the equations."""
    name = settings.get("similarity", "scaled_dot")
    part = model.get_submodule(entry.name).similarity
    similarity = SIMILARITIES[name].build({}, weights_of(part))
    queries, keys = (loose(tensor.double()) for tensor in (entry.queries, entry.keys))
    shift = hooks_of(model, entry).shift_key
    return tight(equations.compare(similarity, queries, keys, shift=shift))


def weights_by_equation(settings: dict[str, Any], entry: AttentionRecord) -> Tensor:
    """Compute every weight from the recorded scores and mask by the equations."""
    choice = settings.get("attention_kind", "soft")
    name, options = (choice, {}) if isinstance(choice, str) else (choice["name"], choice)
    attention_kind = ATTENTION_KINDS[name].build({"window": 8} | options, {})
    rows, _, positions, keys = entry.scores.shape
    visible = entry.mask.expand(rows, 1, positions, keys)[:, 0].tolist()
    return tight(equations.weigh(attention_kind.weights, loose(entry.scores.double()), visible))


@pytest.mark.parametrize("settings", first_quick(CASES.values(), 5), ids=list(CASES))
def test_records_agree_with_the_equations(settings: dict[str, Any]) -> None:
    model = small_model(**ONE_LAYER, **settings)
    for entry in recorded(model):
        # Unscaled scores can be large, and float32 then has fewer digits after the point.
        size = max(1.0, float(entry.scores.abs().max()))
        scores = scores_by_equation(model, settings, entry)
        torch.testing.assert_close(entry.scores.double(), scores, rtol=0, atol=EXACT * size)
        weights = weights_by_equation(settings, entry)
        torch.testing.assert_close(entry.weights.double(), weights, rtol=0, atol=EXACT)


@pytest.mark.parametrize("settings", CASES.values(), ids=list(CASES))
def test_rows_sum_to_one_and_hidden_keys_have_no_weight(settings: dict[str, Any]) -> None:
    for entry in recorded(small_model(**settings)):
        sums = entry.weights.sum(dim=-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=EXACT)
        hidden = ~entry.mask.expand_as(entry.weights)
        assert not entry.weights[hidden].any()
        assert hidden.any()


@pytest.mark.parametrize("settings", first_quick(CASES.values(), 5), ids=list(CASES))
def test_recording_changes_no_bit_and_leaves_no_trace(settings: dict[str, Any]) -> None:
    model = small_model(**settings)
    batch = contract.random_sentences()
    with torch.no_grad():
        fused = model(*batch)
        with contract.plain_attention():
            plain = model(*batch)
        attributes = [dict(module.__dict__) for module in model.modules()]
        with record(model):
            assert [dict(module.__dict__) for module in model.modules()] == attributes
            assert torch.equal(model(*batch), plain)
        assert torch.equal(model(*batch), fused)
    assert not any(module._forward_hooks for module in model.modules())


def test_an_error_inside_the_block_ends_the_recording() -> None:
    model = small_model()
    batch = contract.random_sentences()
    fused = model(*batch)
    with pytest.raises(RuntimeError, match="inside"), record(model) as records:
        raise RuntimeError("inside")
    assert torch.equal(model(*batch), fused)
    assert not records


def test_two_recordings_of_one_model_see_the_same() -> None:
    model = small_model()
    with record(model) as outer, torch.no_grad():
        inner = recorded(model)
    assert [entry.name for entry in outer] == [entry.name for entry in inner]
    for one, other in zip(outer, inner, strict=True):
        assert torch.equal(one.weights, other.weights)


def test_another_model_is_not_recorded() -> None:
    with record(small_model()) as records:
        small_model()(*contract.random_sentences())
    assert not records


def test_threads_record_their_own_calls_only() -> None:
    """Several threads record one model at the same time, each with another sentence."""
    model = small_model()
    batches = [contract.random_sentences(seed) for seed in range(4)]
    expected = [recorded(model, *batch) for batch in batches]
    barrier = Barrier(len(batches))

    def run(number: int) -> list[AttentionRecord]:
        with record(model) as records, torch.no_grad():
            barrier.wait(timeout=60)
            for _ in range(5):
                records.clear()
                model(*batches[number])
                barrier.wait(timeout=60)
        return records

    with ThreadPoolExecutor(len(batches)) as pool:
        for records, same in zip(pool.map(run, range(len(batches))), expected, strict=True):
            assert [entry.name for entry in records] == [entry.name for entry in same]
            for entry, alone in zip(records, same, strict=True):
                assert torch.equal(entry.weights, alone.weights)


def test_a_thread_that_does_not_record_keeps_the_fused_kernel() -> None:
    model = small_model()
    batch = contract.random_sentences()
    with torch.no_grad():
        fused = model(*batch)

    def run() -> Tensor:
        with torch.no_grad():
            return model(*batch)

    with record(model) as records, ThreadPoolExecutor(1) as pool:
        assert torch.equal(pool.submit(run).result(), fused)
    assert not records


def test_the_output_of_a_head_is_its_weights_times_its_values() -> None:
    model = small_model(**ONE_LAYER)
    outputs: list[Tensor] = []
    attention = model.get_submodule("decoder.layers.0.cross_attention.attention")
    hook = attention.register_forward_hook(lambda *arguments: outputs.append(arguments[2]))
    *_, entry = recorded(model)
    hook.remove()
    torch.testing.assert_close(entry.weights @ entry.values, outputs[0], rtol=0, atol=EXACT)


def test_each_record_has_its_role_layer_and_name() -> None:
    entries = [(entry.role, entry.layer, entry.name) for entry in recorded(small_model())]
    assert entries == [
        ("encoder", 0, "encoder.layers.0.self_attention.attention"),
        ("encoder", 1, "encoder.layers.1.self_attention.attention"),
        ("decoder", 0, "decoder.layers.0.self_attention.attention"),
        ("cross", 0, "decoder.layers.0.cross_attention.attention"),
        ("decoder", 1, "decoder.layers.1.self_attention.attention"),
        ("cross", 1, "decoder.layers.1.cross_attention.attention"),
    ]


def test_baselines_attend_to_the_source_only() -> None:
    roles = {
        name: [(entry.role, entry.layer) for entry in recorded(small_model(**settings))]
        for name, settings in BASELINES.items()
    }
    assert roles == {
        "recurrent": [],
        "recurrent with attention": [("cross", 0)],
        "convolutional": [("cross", 0), ("cross", 1)],
    }


def test_padding_and_later_tokens_are_hidden() -> None:
    _, is_real, target = contract.random_sentences()
    for entry in recorded(small_model()):
        if entry.role == "decoder":
            positions = torch.arange(target.shape[1])
            assert torch.equal(entry.mask[0, 0], positions <= positions.unsqueeze(1))
        else:
            assert torch.equal(entry.mask[:, 0, 0], is_real)


@pytest.mark.parametrize("name", ["transformer", "recurrent with attention", "convolutional"])
def test_rows_that_share_a_source_are_recorded_separately(name: str) -> None:
    """Two hypotheses for each sentence, as in a beam, give the records of separate sources."""
    model = small_model(**BASELINES.get(name, {}), attention_kind={"name": "local", "window": 1})
    source, is_real, target = contract.random_sentences()
    both = torch.stack([target, target.flip(1)], dim=1).flatten(0, 1)
    with record(model) as shared, torch.no_grad():
        model.decode(both, model.encode(source, is_real))
    repeated = (tensor.repeat_interleave(2, dim=0) for tensor in (source, is_real))
    separate = recorded(model, *repeated, both)
    assert len(shared) == len(separate)
    for entry, expected in zip(shared, separate, strict=True):
        if entry.role == "encoder":
            continue
        for field in ("weights", "scores", "queries"):
            contract.assert_close(getattr(entry, field), getattr(expected, field))
        mask = expected.mask.expand_as(entry.mask)
        assert torch.equal(entry.mask, mask)


def test_steps_with_the_cache_are_recorded() -> None:
    """One token at a time: one row of queries, and one more key at each step."""
    model = small_model()
    source, is_real, target = contract.random_sentences()
    whole = [entry for entry in recorded(model) if entry.role == "decoder"]
    memory, cache = model.encode(source, is_real), None
    for position in range(3):
        with record(model) as records, torch.no_grad():
            _, cache = model.decode(target[:, position : position + 1], memory, cache)
        steps = [entry for entry in records if entry.role == "decoder"]
        for entry, expected in zip(steps, whole, strict=True):
            assert entry.weights.shape[2:] == (1, position + 1)
            row = expected.weights[:, :, position : position + 1, : position + 1]
            contract.assert_close(entry.weights, row)


def test_records_hold_no_gradients() -> None:
    model = small_model().train()
    with record(model) as records:
        model(*contract.random_sentences())
    for entry in records:
        tensors = (entry.weights, entry.scores, entry.queries, entry.keys, entry.values)
        assert not any(tensor.requires_grad for tensor in tensors)
